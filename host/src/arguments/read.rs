//! A strict JSON reader: an object that has a key twice is refused, wherever it stands.
//!
//! Readers differ in which of two equal keys they keep, so a guest could see another value than
//! the checks saw. The depth is bounded by `serde_json`, at 127 levels.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

use crate::text;

/// Characters of one key that are shown.
const KEY_CHARS_MAX: usize = 40;
/// Characters of a path that are shown.
const PATH_CHARS_MAX: usize = 200;

/// Reads one JSON value. An error about a duplicate key is a data error, all others are not.
pub(super) fn read(text: &str) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Place::Root.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Where a value stands. It lives on the stack beside the value, so a path costs nothing until
/// it is shown.
#[derive(Clone, Copy)]
enum Place<'a> {
    Root,
    Member(&'a Place<'a>, &'a str),
    Element(&'a Place<'a>, usize),
}

impl Place<'_> {
    /// The JSON Pointer to the value, with long keys cut.
    fn pointer(&self) -> String {
        let (mut steps, mut place) = (Vec::new(), self);
        loop {
            place = match place {
                Place::Root => break,
                Place::Member(parent, key) => {
                    steps.push(shown(key).replace('~', "~0").replace('/', "~1"));
                    parent
                }
                Place::Element(parent, index) => {
                    steps.push(index.to_string());
                    parent
                }
            };
        }
        let path: String = steps.iter().rev().flat_map(|step| ["/", step]).collect();
        text::cut(&path, PATH_CHARS_MAX)
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = access.next_element_seed(Place::Element(&self, elements.len()))? {
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            match members.entry(key) {
                Entry::Vacant(entry) => {
                    let value = access.next_value_seed(Place::Member(&self, entry.key()))?;
                    entry.insert(value);
                }
                Entry::Occupied(entry) => return Err(duplicate(&self, entry.key())),
            }
        }
        Ok(Value::Object(members))
    }
}

fn duplicate<E: Error>(object: &Place<'_>, key: &str) -> E {
    let pointer = Place::Member(object, key).pointer();
    let key = shown(key);
    // The text ends in fixed words: `serde_json` looks for a position at its end.
    E::custom(format_args!("the key `{key}` stands twice in one object, as `{pointer}`; keep one"))
}

fn shown(key: &str) -> String {
    text::one_line(&text::cut(key, KEY_CHARS_MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_as_serde_json_reads_them() {
        let text = r#"{"a":[1,-2,3.5,1e3,18446744073709551615,123456789012345678901234567890],
            "b":{"c":null,"d":true,"":"x\u00e9\ud83d\ude00\n"},"e":[],"f":{}}"#;
        let expected: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(read(text).expect("JSON"), expected);
        assert_eq!(read(" 5 ").expect("JSON"), json!(5));
        assert!(read("5 6").is_err());
    }

    #[test]
    fn a_key_that_stands_twice_is_refused() {
        let refused = |text: &str| {
            let error = read(text).expect_err(text);
            assert!(error.is_data());
            error.to_string()
        };
        assert_eq!(
            refused(r#"{"a":1,"a":2}"#),
            "the key `a` stands twice in one object, as `/a`; keep one at line 1 column 10"
        );
        assert!(refused(r#"{"a":[{}, {"b/~":1, "c":2, "b/~":1}]}"#).contains("`/a/1/b~1~0`"));
        // The same key, written in two ways.
        assert!(refused(r#"{"a":1,"\u0061":2}"#).contains("`/a`"));
        let key = "k\\u001b at line 9 column 9".repeat(10_000);
        let long = refused(&format!(r#"{{"x":{{"{key}":1,"{key}":1}}}}"#));
        assert!(long.len() < 400 && !long.contains('\u{1b}'), "{long}");
        assert!(long.ends_with(&format!("keep one at line 1 column {}", 2 * key.len() + 13)));
    }
}
