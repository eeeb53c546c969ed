//! References of a schema in one form: as a plain pointer, `#/$defs/name`.
//!
//! A schema may also refer to an `$anchor`, and write a pointer with the escapes of URLs. Whoever follows
//! references afterwards, to check, to coerce or to render, need not know that.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::expand::{is_list, is_map, is_one};

/// Bytes of a pointer that takes the place of an anchor: many references to one would multiply it.
const POINTER_BYTES_MAX: usize = 128;
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Writes every reference within a schema as a plain pointer, where it leads to something.
pub(super) fn make_plain(schema: &mut Value) {
    let mut anchors = HashMap::new();
    walk(schema, &mut String::new(), &mut |schema, pointer| {
        if pointer.len() > POINTER_BYTES_MAX {
            return;
        }
        for key in ["$anchor", "$dynamicAnchor"] {
            if let Some(name) = schema.get(key).and_then(Value::as_str) {
                // Of two with the same name, the first counts.
                anchors.entry(name.to_owned()).or_insert_with(|| pointer.to_owned());
            }
        }
    });
    let mut plain = HashMap::new();
    walk(schema, &mut String::new(), &mut |within, _| {
        let references = REFERENCES.iter().filter_map(|key| within.get(key)?.as_str());
        for reference in references {
            let Some(fragment) = reference.strip_prefix('#') else { continue };
            let decoded = percent_decode_str(fragment).decode_utf8_lossy();
            let is_pointer = decoded.is_empty() || decoded.starts_with('/');
            let pointer =
                if is_pointer { Some(&*decoded) } else { anchors.get(&*decoded).map(|to| &**to) };
            let pointer = pointer.filter(|pointer| *pointer != fragment);
            plain.extend(pointer.map(|pointer| (reference.to_owned(), format!("#{pointer}"))));
        }
    });
    // A name that is no escape stays one: `a%20b` may be the name of a definition.
    plain.retain(|reference, to| {
        let leads = |to: &str| schema.pointer(to.strip_prefix('#').unwrap_or(to)).is_some();
        !leads(reference) && leads(to)
    });
    if !plain.is_empty() {
        rewrite(schema, &plain);
    }
}

/// Visits every schema within one, with the pointer to it.
fn walk<'a>(schema: &'a Value, pointer: &mut String, visit: &mut impl FnMut(&'a Value, &str)) {
    let Value::Object(members) = schema else { return };
    visit(schema, pointer);
    for (key, value) in members {
        match value {
            Value::Object(schemas) if is_of_schemas(key) => {
                for (name, schema) in schemas {
                    below(pointer, &[key, name], |pointer| walk(schema, pointer, visit));
                }
            }
            Value::Array(schemas) if is_list(key) => {
                for (place, schema) in schemas.iter().enumerate() {
                    below(pointer, &[key, &place.to_string()], |pointer| {
                        walk(schema, pointer, visit)
                    });
                }
            }
            schema if is_one(key) => below(pointer, &[key], |pointer| walk(schema, pointer, visit)),
            _ => {}
        }
    }
}

fn below(pointer: &mut String, steps: &[&str], inner: impl FnOnce(&mut String)) {
    let length = pointer.len();
    for step in steps {
        pointer.push('/');
        pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
    }
    inner(pointer);
    pointer.truncate(length);
}

fn rewrite(schema: &mut Value, plain: &HashMap<String, String>) {
    let Value::Object(members) = schema else { return };
    for (key, value) in members {
        match value {
            Value::String(reference) if REFERENCES.contains(&key.as_str()) => {
                if let Some(pointer) = plain.get(reference) {
                    reference.clone_from(pointer);
                }
            }
            Value::Object(schemas) if is_of_schemas(key) => {
                schemas.values_mut().for_each(|schema| rewrite(schema, plain));
            }
            Value::Array(schemas) if is_list(key) => {
                schemas.iter_mut().for_each(|schema| rewrite(schema, plain));
            }
            schema if is_one(key) => rewrite(schema, plain),
            _ => {}
        }
    }
}

/// Keywords below which schemas stand by name, definitions included.
fn is_of_schemas(key: &str) -> bool {
    is_map(key) || matches!(key, "$defs" | "definitions")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_become_plain_pointers() {
        let mut schema = json!({
            "properties": {
                "a": { "$ref": "#n" },
                "b": { "items": { "$ref": "#/$defs/%C3%A9~1~0x" } },
                "c": { "$ref": "#/$defs/50%25" },
                "d": { "$ref": "#/$defs/a%20b" },
                "e": { "anyOf": [{ "$dynamicRef": "#n" }, { "$ref": "#gone" }, { "$ref": "other.json#n" }] },
                "f": { "const": { "$ref": "#n" } },
            },
            "$defs": {
                "x/y": { "$anchor": "n" }, "é/~x": {}, "50%": {}, "a%20b": {},
                "z": { "$anchor": "n", "items": { "$ref": "#" } },
            },
        });
        make_plain(&mut schema);
        assert_eq!(
            schema["properties"],
            json!({
                "a": { "$ref": "#/$defs/x~1y" },
                "b": { "items": { "$ref": "#/$defs/é~1~0x" } },
                "c": { "$ref": "#/$defs/50%" },
                "d": { "$ref": "#/$defs/a%20b" },
                "e": { "anyOf": [{ "$dynamicRef": "#/$defs/x~1y" }, { "$ref": "#gone" }, { "$ref": "other.json#n" }] },
                "f": { "const": { "$ref": "#n" } },
            })
        );
        assert_eq!(schema["$defs"]["z"]["items"]["$ref"], "#");
    }

    #[test]
    fn an_anchor_below_a_long_name_multiplies_nothing() {
        let long = "n".repeat(POINTER_BYTES_MAX);
        let reference = json!({ "$ref": "#a" });
        let mut schema = json!({ "properties": { long: { "$anchor": "a" }, "b": reference } });
        make_plain(&mut schema);
        assert_eq!(schema["properties"]["b"], reference);
    }
}
