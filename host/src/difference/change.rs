//! What a changed build means for whoever calls its tools: which changes break calls that worked,
//! and whether it asks for more.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::Surface;
use crate::text;
use crate::text::suspect::visible;

/// How deep schemas are compared.
const DEPTH_MAX: usize = 16;
/// Changes that are told.
const CHANGES_MAX: usize = 50;
const CHARS_MAX: usize = 200;

/// What a change means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meaning {
    /// Calls that worked may fail.
    Breaking,
    /// It asks for more than before.
    Widened,
    /// It asks for less than before.
    Narrowed,
    /// Calls that worked still do.
    Compatible,
}

/// One change. As a text it is one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What it means.
    pub meaning: Meaning,
    /// What has changed, in words.
    pub what: String,
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = match self.meaning {
            Meaning::Breaking => "breaking",
            Meaning::Widened => "asks for more",
            Meaning::Narrowed => "asks for less",
            Meaning::Compatible => "compatible",
        };
        write!(formatter, "{meaning}: {}", text::cut(&visible(&self.what), CHARS_MAX))
    }
}

/// Judges how one build differs from the one before, what breaks first.
pub fn changes(before: &Surface, after: &Surface) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut add = |meaning, what: String| changes.push(Change { meaning, what });
    for name in before.tools.keys().filter(|name| !after.tools.contains_key(*name)) {
        add(Meaning::Breaking, format!("tool {name} is gone"));
    }
    for (name, now) in &after.tools {
        match before.tools.get(name) {
            None => add(Meaning::Compatible, format!("tool {name} is new")),
            Some(then) if then == now => {}
            Some(then) => tool(name, then, now, &mut add),
        }
    }
    for need in after.needs.iter().filter(|need| !before.needs.contains(need)) {
        add(Meaning::Widened, format!("need {} {}", need.kind, need.value));
    }
    for need in before.needs.iter().filter(|need| !after.needs.contains(need)) {
        add(Meaning::Narrowed, format!("need {} {}", need.kind, need.value));
    }
    changes.sort_by_key(|change| change.meaning);
    changes.truncate(CHANGES_MAX);
    changes
}

type Add<'a> = dyn FnMut(Meaning, String) + 'a;

fn tool(name: &str, before: &Value, after: &Value, add: &mut Add<'_>) {
    let empty = Map::new();
    let [then, now] = [before, after].map(|tool| tool.as_object().unwrap_or(&empty));
    let keys: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    for key in keys {
        let (then, now) = (then.get(key), now.get(key));
        if then == now {
            continue;
        }
        match key.as_str() {
            "parameters" => {
                let [then, now] = [then, now].map(|schema| schema.unwrap_or(&Value::Null));
                let mut any = false;
                let mut found = |meaning, what| {
                    any = true;
                    add(meaning, what);
                };
                schema(&format!("tool {name}"), then, now, 0, &mut found);
                if !any {
                    add(
                        Meaning::Compatible,
                        format!("tool {name}: descriptions of its parameters"),
                    );
                }
            }
            key => add(Meaning::Compatible, format!("tool {name}: its {key}")),
        }
    }
}

/// Compares schemas of arguments: whatever the earlier one took, the later one has to take.
fn schema(place: &str, before: &Value, after: &Value, depth: usize, add: &mut Add<'_>) {
    if before == after {
        return;
    }
    let (Some(then), Some(now)) = (before.as_object(), after.as_object()) else {
        let meaning =
            if after == &Value::Bool(true) { Meaning::Compatible } else { Meaning::Breaking };
        return add(meaning, format!("{place}: another schema"));
    };
    if depth == DEPTH_MAX {
        return add(Meaning::Breaking, format!("{place}: changed too deep to be judged"));
    }
    types(place, then, now, add);
    values(place, then, now, add);
    for (word, higher_is_stricter) in BOUNDS {
        let [was, is] = [then, now].map(|schema| schema.get(word).and_then(Value::as_f64));
        let meaning = match (was, is) {
            (was, is) if was == is => continue,
            (Some(_), None) => Meaning::Compatible,
            (Some(was), Some(is)) if (is < was) == higher_is_stricter => Meaning::Compatible,
            _ => Meaning::Breaking,
        };
        add(meaning, format!("{place}: {word}"));
    }
    properties(place, then, now, depth, add);
    if let (Some(then), Some(now)) = (then.get("items"), now.get("items")) {
        schema(&format!("{place}[]"), then, now, depth + 1, add);
    }
    for word in SHAPES {
        if then.get(word) != now.get(word) {
            let meaning =
                if now.contains_key(word) { Meaning::Breaking } else { Meaning::Compatible };
            add(meaning, format!("{place}: {word}"));
        }
    }
}

/// Bounds of numbers and lengths, and whether a higher one takes less.
const BOUNDS: [(&str, bool); 11] = [
    ("minimum", true),
    ("exclusiveMinimum", true),
    ("minLength", true),
    ("minItems", true),
    ("minProperties", true),
    ("maximum", false),
    ("exclusiveMaximum", false),
    ("maxLength", false),
    ("maxItems", false),
    ("maxProperties", false),
    ("multipleOf", true),
];
/// Words that are not compared any further: who has them or changes them may take less.
const SHAPES: [&str; 13] = [
    "pattern",
    "format",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "$ref",
    "$defs",
    "const",
    "uniqueItems",
    "prefixItems",
    "patternProperties",
    "dependentRequired",
];

fn types(place: &str, then: &Map<String, Value>, now: &Map<String, Value>, add: &mut Add<'_>) {
    let of = |schema: &Map<String, Value>| -> Option<BTreeSet<String>> {
        match schema.get("type")? {
            Value::String(one) => Some([one.clone()].into()),
            Value::Array(several) => {
                Some(several.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect())
            }
            _ => None,
        }
    };
    let (was, is) = (of(then), of(now));
    if was == is {
        return;
    }
    let takes = |is: &BTreeSet<String>, one: &String| {
        is.contains(one) || one == "integer" && is.contains("number")
    };
    let all = match (&was, &is) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(was), Some(is)) => was.iter().all(|one| takes(is, one)),
    };
    let shown = |types: &Option<BTreeSet<String>>| match types {
        None => "anything".to_owned(),
        Some(types) => types.iter().cloned().collect::<Vec<_>>().join(" or "),
    };
    let meaning = if all { Meaning::Compatible } else { Meaning::Breaking };
    add(meaning, format!("{place}: {} became {}", shown(&was), shown(&is)));
}

fn values(place: &str, then: &Map<String, Value>, now: &Map<String, Value>, add: &mut Add<'_>) {
    let of = |schema: &Map<String, Value>| schema.get("enum").and_then(Value::as_array).cloned();
    match (of(then), of(now)) {
        (was, is) if was == is => {}
        (None, Some(_)) => add(Meaning::Breaking, format!("{place}: only listed values are taken")),
        (Some(_), None) => add(Meaning::Compatible, format!("{place}: any value is taken")),
        (Some(was), Some(is)) => {
            for gone in was.iter().filter(|value| !is.contains(value)) {
                add(Meaning::Breaking, format!("{place}: the value {gone} is gone"));
            }
            for new in is.iter().filter(|value| !was.contains(value)) {
                add(Meaning::Compatible, format!("{place}: the value {new} is new"));
            }
        }
        _ => {}
    }
}

fn properties(
    place: &str,
    then: &Map<String, Value>,
    now: &Map<String, Value>,
    depth: usize,
    add: &mut Add<'_>,
) {
    let empty = Map::new();
    let of = |schema: &Map<String, Value>| -> Map<String, Value> {
        schema.get("properties").and_then(Value::as_object).unwrap_or(&empty).clone()
    };
    let required = |schema: &Map<String, Value>| -> BTreeSet<String> {
        let names = schema.get("required").and_then(Value::as_array);
        names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let is_closed = |schema: &Map<String, Value>| {
        schema.get("additionalProperties") == Some(&Value::Bool(false))
    };
    if is_closed(now) && !is_closed(then) {
        add(Meaning::Breaking, format!("{place}: unknown parameters are refused"));
    }
    let (was, is) = (of(then), of(now));
    let (must, must_now) = (required(then), required(now));
    for name in must_now.difference(&must) {
        add(Meaning::Breaking, format!("{place}: {name} is required"));
    }
    for name in must.difference(&must_now).filter(|name| is.contains_key(*name)) {
        add(Meaning::Compatible, format!("{place}: {name} is required no more"));
    }
    for name in was.keys().filter(|name| !is.contains_key(*name)) {
        let meaning = if is_closed(now) { Meaning::Breaking } else { Meaning::Compatible };
        add(meaning, format!("{place}: {name} is gone"));
    }
    for (name, now) in &is {
        match was.get(name) {
            Some(then) => schema(&format!("{place}, {name}"), then, now, depth + 1, add),
            None if must_now.contains(name) => {}
            None => add(Meaning::Compatible, format!("{place}: {name} is new")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::Need;

    fn surface(tools: Value, needs: &[&str]) -> Surface {
        let need = |kind: &&str| Need {
            kind: (*kind).to_owned(),
            value: "{}".to_owned(),
            tools: Vec::new(),
            reason: String::new(),
        };
        let tools = tools.as_object().expect("tools").clone();
        Surface {
            needs: needs.iter().map(need).collect(),
            tools: tools.into_iter().collect(),
            ..Surface::default()
        }
    }

    #[track_caller]
    fn check(before: Value, after: Value, expected: &[&str]) {
        let of = |parameters: Value| surface(json!({ "t": { "parameters": parameters } }), &[]);
        let found: Vec<String> =
            changes(&of(before), &of(after)).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn tools_and_needs_come_and_go() {
        let before = surface(json!({ "a": {}, "b": { "description": "x" } }), &["http"]);
        let after = surface(json!({ "b": { "description": "y" }, "c": {} }), &["dirs"]);
        let found: Vec<String> = changes(&before, &after).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "breaking: tool a is gone",
                "asks for more: need dirs {}",
                "asks for less: need http {}",
                "compatible: tool b: its description",
                "compatible: tool c is new",
            ]
        );
        assert!(changes(&after, &after).is_empty());
    }

    #[test]
    fn what_takes_less_breaks() {
        let object = |properties: Value, required: Value| json!({ "type": "object", "properties": properties, "required": required });
        check(
            object(json!({ "a": { "type": "string" } }), json!([])),
            object(json!({ "a": { "type": "integer" }, "b": {}, "c": {} }), json!(["b"])),
            &[
                "breaking: tool t: b is required",
                "breaking: tool t, a: string became integer",
                "compatible: tool t: c is new",
            ],
        );
        check(
            json!({ "properties": { "a": { "enum": ["x", "y"] } } }),
            json!({ "properties": { "a": { "enum": ["x", "z"] } }, "additionalProperties": false }),
            &[
                "breaking: tool t: unknown parameters are refused",
                "breaking: tool t, a: the value \"y\" is gone",
                "compatible: tool t, a: the value \"z\" is new",
            ],
        );
        check(
            json!({ "properties": { "a": { "type": "integer", "minimum": 1, "maximum": 9 } } }),
            json!({ "properties": { "a": { "type": "number", "minimum": 2, "maximum": 10 } } }),
            &[
                "breaking: tool t, a: minimum",
                "compatible: tool t, a: integer became number",
                "compatible: tool t, a: maximum",
            ],
        );
        check(
            json!({ "properties": { "a": { "items": { "type": "string" } } } }),
            json!({ "properties": { "a": { "items": { "type": "string", "pattern": "x" } } } }),
            &["breaking: tool t, a[]: pattern"],
        );
        check(
            json!({ "properties": { "a": { "description": "x" } } }),
            json!({ "properties": { "a": { "description": "y" } } }),
            &["compatible: tool t: descriptions of its parameters"],
        );
    }
}
