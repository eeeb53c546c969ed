//! What a plugin asks for, in the words of whoever is to grant it.

use serde_json::Value;

/// Says what a need of this kind and value asks for. A value that does not have the shape of its
/// kind is shown as it is, and so is what this host does not know of one.
pub(super) fn words(kind: &str, value: &str) -> String {
    let Ok(Value::Object(members)) = serde_json::from_str(value) else {
        return value.to_owned();
    };
    let member = |name: &str| members.get(name).unwrap_or(&Value::Null);
    let said = match kind {
        "dirs" => directory(member("path"), member("access")).map(|said| (said, 2)),
        "http" => list(member("hosts"), "every host")
            .map(|hosts| (format!("to send requests to {hosts}"), 1)),
        "env" => list(member("names"), "`*`")
            .map(|names| (format!("to read the environment variables {names}"), 1)),
        "secrets" => secret(member("name"), member("hosts"), member("header"))
            .map(|said| (said, 2 + usize::from(!member("header").is_null()))),
        "kv" => Some(("to keep values from one call to the next".to_owned(), 0)),
        "process" => Some(("to run programs, with all rights of your user".to_owned(), 0)),
        "hooks" => hook(member("events"), member("tools")).map(|said| (said, 2)),
        _ => None,
    };
    match said {
        // Whatever else is asked for must not be passed over.
        Some((said, known)) if known == members.len() => said,
        Some((said, _)) => format!("{said}; as it says: {value}"),
        None => value.to_owned(),
    }
}

fn directory(path: &Value, access: &Value) -> Option<String> {
    let may = match access.as_str()? {
        "ro" => "to read",
        "rw" => "to read and change",
        _ => return None,
    };
    Some(match path.as_str()? {
        "*" => format!("{may} a directory of your choice"),
        path => format!("{may} a directory that it sees as `{path}`"),
    })
}

fn secret(name: &Value, hosts: &Value, header: &Value) -> Option<String> {
    let (name, hosts) = (name.as_str()?, list(hosts, "every host")?);
    let slot = match header {
        Value::Null => String::new(),
        header => format!(" in the header `{}`", header.as_str()?),
    };
    Some(format!("to have the secret `{name}` sent to {hosts}{slot}, without seeing it"))
}

fn hook(events: &Value, tools: &Value) -> Option<String> {
    let tools = list(tools, "every tool")?;
    let may = |event: &Value| {
        Some(match event.as_str()? {
            "request" => "to replace the arguments of",
            "pre-call" => "to refuse",
            "post-call" => "to hear of the end of",
            "transform" => "to replace the answers of",
            _ => return None,
        })
    };
    let may: Option<Vec<&str>> = events.as_array()?.iter().map(may).collect();
    let may = may.filter(|may| !may.is_empty())?.join(", ");
    Some(format!("{may} calls of {tools}"))
}

/// A list of names in words; `*` among them stands for `all`.
fn list(values: &Value, all: &str) -> Option<String> {
    let names: Option<Vec<&str>> = values.as_array()?.iter().map(Value::as_str).collect();
    let names = names.filter(|names| !names.is_empty())?;
    Some(if names.contains(&"*") { all.to_owned() } else { names.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_said_in_words() {
        let check = |kind: &str, value: &str, expected: &str| {
            assert_eq!(words(kind, value), expected);
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
            assert_eq!(words(kind, value), value);
        }
        assert_eq!(
            words("kv", r#"{"shared":true}"#),
            "to keep values from one call to the next; as it says: {\"shared\":true}"
        );
    }
}
