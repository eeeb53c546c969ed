//! What JSON is, for callers and guests alike: [`read`] makes a value of it, and [`measure`] says
//! whether it is JSON, and how large its value would be, without making one.
//!
//! Both refuse the same texts: what is no JSON, nesting of more than 127 levels, numbers beyond
//! 64 bits of floating point, lone surrogates, and an object that has a key twice, wherever it
//! stands. Readers differ in which of two equal keys they keep, so a guest could see another value
//! than the checks saw. The depth is bounded by `serde_json`.
//!
//! The hard part is that a value takes up to a hundred times the memory of its text. So a guest's
//! text is measured first, in eight bytes for each key, and a value is only made where there is
//! room for it.

use std::cell::RefCell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

use crate::text;

/// Characters of one key that are shown.
const KEY_CHARS_MAX: usize = 40;
/// Characters of a path that are shown.
const PATH_CHARS_MAX: usize = 200;

/// How large a value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Values in it: itself, and all elements and members below.
    pub nodes: u64,
    /// Bytes of all strings and keys.
    pub bytes: u64,
}

impl Size {
    /// The size of a value that is there.
    pub fn of(value: &Value) -> Size {
        let mut size = Size { nodes: 1, bytes: 0 };
        match value {
            Value::String(text) => size.bytes += text.len() as u64,
            Value::Array(items) => items.iter().for_each(|item| size.add(Size::of(item))),
            Value::Object(members) => size.add(Size::of_members(members)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        size
    }

    /// The size of all members of an object together, with their keys.
    pub fn of_members(members: &Map<String, Value>) -> Size {
        let mut size = Size::default();
        for (key, value) in members {
            size.bytes += key.len() as u64;
            size.add(Size::of(value));
        }
        size
    }

    /// What it takes to copy the value or to compare it: a step for each value, and for a few bytes of
    /// text.
    pub fn steps(self) -> u64 {
        const STEP_BYTES: u64 = 16;
        self.nodes + self.bytes / STEP_BYTES
    }

    fn add(&mut self, other: Size) {
        self.nodes += other.nodes;
        self.bytes += other.bytes;
    }
}

/// Bytes of memory that a value holds, at most: with the places that its arrays and objects keep
/// free, as they do after they were read.
pub fn memory_bytes(value: &Value) -> u64 {
    size_of::<Value>() as u64 + held_bytes(value)
}

/// What a value holds beyond itself.
fn held_bytes(value: &Value) -> u64 {
    /// A member of an object: its hash, its key and its value.
    const MEMBER_BYTES: usize = size_of::<u64>() + size_of::<String>() + size_of::<Value>();
    /// What leads from a key's hash to the member: a place, and a byte that says whether it is used.
    const PLACE_BYTES: usize = size_of::<usize>() + 1;
    let bytes = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) if items.is_empty() => 0,
        Value::Array(items) => items.len().max(4).next_power_of_two() * size_of::<Value>(),
        Value::Object(members) if members.is_empty() => 0,
        Value::Object(members) => {
            // Seven of eight places are used at most, three of four.
            let places = match members.len() {
                0..=3 => 4,
                length => (length * 8).div_ceil(7).next_power_of_two(),
            };
            let keys: usize = members.keys().map(String::len).sum();
            places * (MEMBER_BYTES + PLACE_BYTES) + keys
        }
    };
    let below: u64 = match value {
        Value::Array(items) => items.iter().map(held_bytes).sum(),
        Value::Object(members) => members.values().map(held_bytes).sum(),
        _ => 0,
    };
    bytes as u64 + below
}

/// A value as text, the same for equal values.
pub fn in_order(value: &Value) -> String {
    if !value.is_object() && !value.is_array() {
        return value.to_string();
    }
    let mut value = value.clone();
    value.sort_all_objects();
    value.to_string()
}

/// Tells whether a text is one JSON value, and how large that is. The time is linear in the text,
/// the memory eight bytes for each key of the objects that are open.
///
/// # Errors
/// As those of [`read`].
pub fn measure(text: &str) -> Result<Size, serde_json::Error> {
    let measured = Measured { size: RefCell::default(), hasher: RandomState::new() };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let unique = (&measured).deserialize(&mut deserializer)?;
    deserializer.end()?;
    if !unique {
        // Two keys have one hash. Reading says whether they are one key, and where.
        read(text)?;
    }
    Ok(measured.size.into_inner())
}

/// Reads one JSON value. An error about a duplicate key is a data error, all others are not.
///
/// # Errors
/// If the text is not one JSON value, is nested more than 127 levels deep, has a number or a
/// surrogate that no value can hold, or a key twice in one object.
pub fn read(text: &str) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Nesting::Root.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Where a value stands. It lives on the stack beside the value, so a path costs nothing until
/// it is shown.
#[derive(Clone, Copy)]
enum Nesting<'a> {
    Root,
    Member(&'a Nesting<'a>, &'a str),
    Element(&'a Nesting<'a>, usize),
}

impl Nesting<'_> {
    /// The JSON Pointer to the value, with long keys cut.
    fn pointer(&self) -> String {
        let (mut steps, mut place) = (Vec::new(), self);
        loop {
            place = match place {
                Nesting::Root => break,
                Nesting::Member(parent, key) => {
                    steps.push(shown(key).replace('~', "~0").replace('/', "~1"));
                    parent
                }
                Nesting::Element(parent, index) => {
                    steps.push(index.to_string());
                    parent
                }
            };
        }
        let path: String = steps.iter().rev().flat_map(|step| ["/", step]).collect();
        text::cut(&path, PATH_CHARS_MAX)
    }
}

impl<'de> DeserializeSeed<'de> for Nesting<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Nesting<'_> {
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
        while let Some(element) =
            access.next_element_seed(Nesting::Element(&self, elements.len()))?
        {
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            match members.entry(key) {
                Entry::Vacant(entry) => {
                    let value = access.next_value_seed(Nesting::Member(&self, entry.key()))?;
                    entry.insert(value);
                }
                Entry::Occupied(entry) => return Err(duplicate(&self, entry.key())),
            }
        }
        Ok(Value::Object(members))
    }
}

/// Counts what it reads, and answers whether the keys of each object have different hashes.
struct Measured {
    size: RefCell<Size>,
    hasher: RandomState,
}

impl Measured {
    fn count(&self, bytes: usize) {
        let mut size = self.size.borrow_mut();
        size.nodes += 1;
        size.bytes += bytes as u64;
    }
}

impl<'de> DeserializeSeed<'de> for &Measured {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &Measured {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        self.count(0);
        Ok(true)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<bool, E> {
        self.visit_unit()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<bool, E> {
        self.visit_unit()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<bool, E> {
        self.visit_unit()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<bool, E> {
        self.visit_unit()
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        self.count(text.len());
        Ok(true)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<bool, A::Error> {
        self.count(0);
        let mut unique = true;
        while let Some(element) = access.next_element_seed(self)? {
            unique &= element;
        }
        Ok(unique)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<bool, A::Error> {
        self.count(0);
        let (mut hashes, mut unique) = (Vec::new(), true);
        while let Some(hash) = access.next_key_seed(MemberKey(self))? {
            hashes.push(hash);
            unique &= access.next_value_seed(self)?;
        }
        hashes.sort_unstable();
        Ok(unique && hashes.windows(2).all(|pair| pair[0] != pair[1]))
    }
}

/// Reads a key as its hash.
struct MemberKey<'a>(&'a Measured);

impl<'de> DeserializeSeed<'de> for MemberKey<'_> {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for MemberKey<'_> {
    type Value = u64;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<u64, E> {
        self.0.size.borrow_mut().bytes += key.len() as u64;
        Ok(self.0.hasher.hash_one(key))
    }
}

fn duplicate<E: Error>(object: &Nesting<'_>, key: &str) -> E {
    let pointer = Nesting::Member(object, key).pointer();
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

    #[test]
    fn what_is_measured_is_what_is_read() {
        for text in [
            "1",
            "null",
            r#""a""#,
            r#"{"a":[1,{"b":"c\u00e9"},[],{}],"d":-1.5e3}"#,
            "[[],[[]]]",
            r#"{"a":1,"a":2}"#,
            r#"{"x":[{"a":1,"\u0061":2}]}"#,
            "1e400",
            r#""\ud800""#,
            "[1,]",
            "1 2",
            r#"{"a":1}}"#,
            "",
            "nul",
            r#"{"a":1e999}"#,
            r#"["\udc00"]"#,
        ] {
            let (read, measured) = (read(text), measure(text));
            match (&read, &measured) {
                (Ok(value), Ok(size)) => assert_eq!(Size::of(value), *size, "{text}"),
                (Err(read), Err(measured)) => assert_eq!(read.to_string(), measured.to_string()),
                _ => panic!("{text}: {read:?} and {measured:?}"),
            }
        }
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for levels in [127, 128, 200, 60_000] {
            assert_eq!(read(&deep(levels)).is_ok(), levels < 128);
            assert_eq!(measure(&deep(levels)).is_ok(), levels < 128);
        }
    }
}
