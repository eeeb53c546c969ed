//! `uniqueItems` in the time of sorting, whatever the elements are: the validator's own compares
//! by pairs what has the same hash, which an author of values can arrange.

use jsonschema::{Keyword, ValidationError};
use serde_json::{Number, Value};

/// The keyword, with the value that its schema gives it.
pub(super) struct UniqueItems(pub(super) bool);

impl<'i> Keyword<'i> for UniqueItems {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.is_valid(value) {
            return Ok(());
        }
        Err(ValidationError::custom(format!("{} has non-unique elements", super::shown(value))))
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        match value {
            Value::Array(items) if self.0 => are_unique(items),
            _ => true,
        }
    }
}

/// Elements that are equal, and no others, are written as the same bytes; these are sorted.
fn are_unique(items: &[Value]) -> bool {
    let mut bytes = Vec::new();
    let mut ends = Vec::with_capacity(items.len());
    for item in items {
        write(item, &mut bytes);
        ends.push(bytes.len());
    }
    let mut start = 0;
    let mut written: Vec<&[u8]> = Vec::with_capacity(ends.len());
    for end in ends {
        written.push(&bytes[start..end]);
        start = end;
    }
    written.sort_unstable();
    written.windows(2).all(|pair| pair[0] != pair[1])
}

fn write(value: &Value, into: &mut Vec<u8>) {
    match value {
        Value::Null => into.push(b'n'),
        Value::Bool(truth) => into.push(if *truth { b't' } else { b'f' }),
        Value::Number(number) => write_number(number, into),
        Value::String(text) => {
            into.push(b's');
            write_text(text, into);
        }
        Value::Array(items) => {
            into.push(b'a');
            into.extend(items.len().to_be_bytes());
            items.iter().for_each(|item| write(item, into));
        }
        Value::Object(members) => {
            into.push(b'o');
            into.extend(members.len().to_be_bytes());
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| name.as_str());
            for (name, value) in sorted {
                write_text(name, into);
                write(value, into);
            }
        }
    }
}

fn write_text(text: &str, into: &mut Vec<u8>) {
    into.extend(text.len().to_be_bytes());
    into.extend(text.as_bytes());
}

/// `1` and `1.0` are equal, and so are `0` and `-0.0`.
fn write_number(number: &Number, into: &mut Vec<u8>) {
    /// Below this, a number without a fraction is read into an `i128` without loss.
    const WHOLE_BELOW: f64 = 1e38;
    match (number.as_i128(), number.as_f64()) {
        (Some(whole), _) => {
            into.push(b'i');
            into.extend(whole.to_be_bytes());
        }
        (None, Some(float)) if float.fract() == 0.0 && float.abs() < WHOLE_BELOW => {
            into.push(b'i');
            into.extend((float as i128).to_be_bytes());
        }
        (None, float) => {
            into.push(b'd');
            into.extend(float.unwrap_or(f64::NAN).to_bits().to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::are_unique;

    fn check(items: Value, expected: bool) {
        let items = items.as_array().expect("an array");
        assert_eq!(are_unique(items), expected, "{items:?}");
        // The validator's own keyword says the same of few elements, and of many.
        for more in [0, 20] {
            let mut items = items.clone();
            items.extend((0..more).map(|n| json!({ "other": n })));
            let own = jsonschema::validator_for(&json!({ "uniqueItems": true })).expect("a schema");
            assert_eq!(own.is_valid(&Value::Array(items.clone())), expected, "{items:?}");
            assert_eq!(are_unique(&items), expected, "{items:?}");
        }
    }

    #[test]
    fn equal_elements_are_found() {
        for unique in [
            json!([]),
            json!([1]),
            json!([1, 2, "1", true, null, [1], [[1]], { "a": 1 }, { "a": 2 }, { "b": 1 }]),
            json!([0, false, "", [], {}, null]),
            json!([9_007_199_254_740_993_u64, 9_007_199_254_740_992.0]),
            json!([u64::MAX, i64::MIN, 1e300, -1e300, 1.5]),
            json!(["ab", ["a", "b"], ["ab"], ["a", ["b"]]]),
            json!([{ "a": [1, 2] }, { "a": [2, 1] }]),
        ] {
            check(unique, true);
        }
        for equal in [
            json!([1, 1.0]),
            json!([0, -0.0]),
            json!([{ "a": 1, "b": [2] }, { "b": [2.0], "a": 1 }]),
            json!([1e300, 2, 1e300]),
            json!([[], 1, []]),
            json!([null, 1, null]),
        ] {
            check(equal, false);
        }
    }

    #[test]
    fn what_collides_takes_no_longer() {
        // As floating-point numbers these are all the same.
        let near = |n: u64| (1 << 63) + n;
        let items: Vec<Value> =
            (0..200_000).map(|n| json!([near(n % 1_000), near(n / 1_000)])).collect();
        assert!(are_unique(&items));
    }
}
