//! The plugin {{name}}: one tool, to begin with.

use toolhost_sdk::{Error, Json, arguments, plugin, tool};

// Doc comments of arguments and tools are what a model reads. They become the definition.

/// What the tool is given.
#[arguments]
struct Text {
    /// The text whose words are counted.
    text: String,
    /// Count a word only if it has at least this many characters.
    #[serde(default)]
    min_length: usize,
}

/// Counts the words of a text: whatever stands between spaces and line breaks.
#[tool(
    toolset = "text",
    read_only,
    idempotent,
    open_world = false,
    example = (r#"{"text": "to be or not to be"}"#, "6"),
)]
fn {{ident}}_count(arguments: Text) -> Result<Json<usize>, Error> {
    if arguments.min_length > 1_000 {
        return Err(Error::bad_argument("/min_length", "no word is that long: at most 1000"));
    }
    let is_meant = |word: &&str| word.chars().count() >= arguments.min_length;
    Ok(Json(arguments.text.split_whitespace().filter(is_meant).count()))
}

plugin!(tools: [{{ident}}_count]);

#[cfg(test)]
mod tests {
    use toolhost_sdk::testing::call;

    use super::*;

    #[test]
    fn counts_words() {
        let answer = call::<{{ident}}_count>(r#"{"text": "one two\nthree"}"#).expect("a count");
        assert_eq!(answer.text(), "3");
    }

    #[test]
    fn short_words_can_be_left_out() {
        let answer = call::<{{ident}}_count>(r#"{"text": "a bc def", "min_length": 2}"#);
        assert_eq!(answer.expect("a count").text(), "2");
    }

    #[test]
    fn says_what_is_wrong_with_an_argument() {
        let answer = call::<{{ident}}_count>(r#"{"text": "a", "min_length": 5000}"#);
        assert_eq!(answer.expect_err("an error").message(), "no word is that long: at most 1000");
    }
}
