//! The plugin {{name}}: one tool, to begin with.

use schemars::JsonSchema;
use serde::Serialize;
use toolhost_sdk::{Error, Structured, arguments, plugin, tool};

// Doc comments of arguments, answers and tools are what a model reads. They become the definition.

/// What the tool is given.
#[arguments]
struct Text {
    /// The text whose words are counted.
    text: String,
    /// Count a word only if it has at least this many characters.
    #[serde(default)]
    min_length: usize,
}

/// What the tool answers, as JSON; its schema is registered. A struct within it, or in a list, has the
/// same line of `derive`.
#[derive(Debug, Serialize, JsonSchema)]
struct Count {
    /// How many words there are.
    words: usize,
    /// The longest of them, if there is one.
    longest: Option<String>,
}

/// Counts the words of a text, and finds the longest: whatever stands between spaces and line breaks.
#[tool(
    toolset = "text",
    read_only,
    idempotent,
    open_world = false,
    example = (r#"{"text": "to be or not to be"}"#, r#""words":6"#),
)]
fn {{ident}}_count(arguments: Text) -> Result<Structured<Count>, Error> {
    if arguments.min_length > 1_000 {
        return Err(Error::bad_argument("/min_length", "no word is that long: at most 1000"));
    }
    let length = |word: &&str| word.chars().count();
    let is_meant = |word: &&str| length(word) >= arguments.min_length;
    let words: Vec<&str> = arguments.text.split_whitespace().filter(is_meant).collect();
    let longest = words.iter().copied().max_by_key(length).map(str::to_owned);
    Ok(Structured(Count { words: words.len(), longest }))
}

plugin!(tools: [{{ident}}_count]);

#[cfg(test)]
mod tests {
    use toolhost_sdk::testing::call;

    use super::*;

    #[test]
    fn counts_words() {
        let answer = call::<{{ident}}_count>(r#"{"text": "one two\nthree"}"#).expect("a count");
        assert_eq!(answer.text(), r#"{"words":3,"longest":"three"}"#);
    }

    #[test]
    fn short_words_can_be_left_out() {
        let answer = call::<{{ident}}_count>(r#"{"text": "a bc", "min_length": 3}"#);
        assert_eq!(answer.expect("a count").text(), r#"{"words":0,"longest":null}"#);
    }

    #[test]
    fn says_what_is_wrong_with_an_argument() {
        let answer = call::<{{ident}}_count>(r#"{"text": "a", "min_length": 5000}"#);
        assert_eq!(answer.expect_err("an error").message(), "no word is that long: at most 1000");
    }
}
