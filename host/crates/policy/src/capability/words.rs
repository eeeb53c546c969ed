//! What a plugin asks for, in the words of whoever is to grant it.

use serde_json::Value;

use super::Kind;

/// A kind that plugins may ask for, and that this version cannot grant.
const PROCESS: &str = "process";

/// Tells whether this version of the host knows what a need of this kind asks for.
pub fn is_known(kind: &str) -> bool {
    Kind::of_key(kind).is_some() || kind == PROCESS
}

/// Says what a need of this kind and value asks for. A value that does not have the shape of its
/// kind is shown as it is, and so is what this host does not know of one.
pub fn need_words(kind: &str, value: &str) -> String {
    let Ok(Value::Object(members)) = serde_json::from_str(value) else {
        return value.to_owned();
    };
    let said = match Kind::of_key(kind) {
        Some(kind) => kind.need_words(&members),
        None if kind == PROCESS => {
            Some(("to run programs, with all rights of your user".to_owned(), 0))
        }
        None => None,
    };
    match said {
        // Whatever else is asked for must not be passed over.
        Some((said, known)) if known == members.len() => said,
        Some((said, _)) => format!("{said}; as it says: {value}"),
        None => value.to_owned(),
    }
}

/// A list of names in words; `*` among them stands for `all`.
pub(super) fn list(values: &Value, all: &str) -> Option<String> {
    let names: Option<Vec<&str>> = values.as_array()?.iter().map(Value::as_str).collect();
    let names = names.filter(|names| !names.is_empty())?;
    Some(if names.contains(&"*") { all.to_owned() } else { names.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_said_in_need_words() {
        let check = |kind: &str, value: &str, expected: &str| {
            assert_eq!(need_words(kind, value), expected);
        };
        check("dirs", r#"{"path":"*","access":"ro"}"#, "to read a directory of your choice");
        check(
            "dirs",
            r#"{"path":"/in","access":"rw"}"#,
            "to read and change a directory that it sees as `/in`",
        );
        check(
            "http",
            r#"{"hosts":["a.example","b.example"]}"#,
            "to send requests to a.example, b.example",
        );
        check("http", r#"{"hosts":["*"]}"#, "to send requests to every host");
        check("env", r#"{"names":["LANG"]}"#, "to read the environment variables LANG");
        check(
            "secrets",
            r#"{"name":"T","hosts":["a.example"],"header":"authorization"}"#,
            "to have the secret `T` sent to a.example in the header `authorization`, without seeing it",
        );
        check("kv", "{}", "to keep values from one call to the next");
        check("process", "{}", "to run programs, with all rights of your user");
        check(
            "hooks",
            r#"{"events":["pre-call","transform"],"tools":["*"]}"#,
            "to refuse, to replace the answers of calls of every tool",
        );
    }

    #[test]
    fn what_is_not_known_is_shown_as_it_is() {
        for (kind, value) in [
            ("dirs", r#"{"path":"*","access":"rwx"}"#),
            ("dirs", "nonsense"),
            ("http", "{}"),
            ("http", r#"{"hosts":[1]}"#),
            ("hooks", r#"{"events":["all"],"tools":["*"]}"#),
            ("teleport", r#"{"to":"mars"}"#),
        ] {
            assert_eq!(need_words(kind, value), value);
        }
        assert_eq!(
            need_words("kv", r#"{"shared":true}"#),
            "to keep values from one call to the next; as it says: {\"shared\":true}"
        );
    }
}
