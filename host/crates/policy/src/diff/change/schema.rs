//! Compares two schemas of arguments: whatever the earlier one took, the later one has to take.
//!
//! The hard part is that JSON Schema has many words, and some have an effect on what others
//! mean. So each word that changed is either understood here, or told as breaking and not judged;
//! none is passed over. Words that only describe do not count.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{FoundChange, Meaning, place as place_of};
use toolhost_core::json::in_order;

/// How deep schemas are compared.
const DEPTH_MAX: usize = 16;
/// Whole numbers up to here have a floating-point number of their own.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// Up to here a ratio that is not whole is told from one that is.
const RATIO_MAX: f64 = 1e9;

/// Words that take nothing away: they are for readers.
const DESCRIBE: [&str; 10] = [
    "$comment",
    "$schema",
    "default",
    "deprecated",
    "description",
    "example",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
];
/// Words with one schema, with a list of them, and with an object of them.
const SCHEMA: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];
const SCHEMAS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const NAMED: [&str; 5] =
    ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];
/// Bounds of numbers and lengths, and whether a higher one takes less.
const BOUNDS: [(&str, bool); 10] = [
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
];
/// Words that are judged each in its own way.
const JUDGED: [&str; 9] = [
    "$defs",
    "additionalProperties",
    "definitions",
    "enum",
    "items",
    "multipleOf",
    "properties",
    "required",
    "type",
];
/// Words that only take something away, so that without one nothing is lost. Of the others, some
/// say which properties or items are left for another word.
const TAKE_AWAY: [&str; 16] = [
    "$ref",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "format",
    "if",
    "not",
    "oneOf",
    "pattern",
    "propertyNames",
    "then",
    "uniqueItems",
];

/// Finds what a change of a tool's schema means; nothing, if only descriptions differ.
pub(super) fn compare(place: &str, before: &Value, after: &Value, found: &mut FoundChange) {
    schema(place, &bare(before), &bare(after), 0, found);
}

/// A schema without what only describes. It is bounded in depth: a host refuses deeper ones.
fn bare(schema: &Value) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    let describes = |word: &str| DESCRIBE.contains(&word) || word.starts_with("x-");
    let member = |(word, value): (&String, &Value)| {
        let value = match value {
            Value::Object(named) if NAMED.contains(&word.as_str()) => {
                named.iter().map(|(name, schema)| (name.clone(), bare(schema))).collect()
            }
            Value::Array(list) if SCHEMAS.contains(&word.as_str()) => {
                list.iter().map(bare).collect()
            }
            value if SCHEMA.contains(&word.as_str()) => bare(value),
            value => value.clone(),
        };
        (word.clone(), value)
    };
    members.iter().filter(|(word, _)| !describes(word)).map(member).collect()
}

/// Tells whether a schema takes anything.
fn is_open(schema: &Value) -> bool {
    schema == &Value::Bool(true) || schema.as_object().is_some_and(Map::is_empty)
}

fn schema(place: &str, before: &Value, after: &Value, depth: usize, found: &mut FoundChange) {
    if !found.spend([before, after]) {
        return found
            .add(Meaning::Breaking, format_args!("{place}: changed too much to be judged"));
    }
    if before == after || is_open(before) && is_open(after) {
        return;
    }
    if is_open(after) {
        return found.add(Meaning::Compatible, format_args!("{place}: anything is taken"));
    }
    if before == &Value::Bool(false) {
        return found.add(Meaning::Compatible, format_args!("{place}: something is taken"));
    }
    if is_open(before) {
        return found.add(Meaning::Breaking, format_args!("{place}: only some values are taken"));
    }
    let (Some(then), Some(now)) = (before.as_object(), after.as_object()) else {
        return found.add(Meaning::Breaking, format_args!("{place}: another schema"));
    };
    if depth == DEPTH_MAX {
        return found
            .add(Meaning::Breaking, format_args!("{place}: changed too deep to be judged"));
    }
    types(place, then, now, found);
    values(place, then, now, found);
    bounds(place, then, now, found);
    properties(place, then, now, depth, found);
    items(place, then, now, depth, found);
    definitions(place, then, now, found);
    others(place, then, now, found);
}

fn not_judged(place: &str, word: &str, found: &mut FoundChange) {
    found.add(Meaning::Breaking, format_args!("{place}: `{word}` changed, and is not judged"));
}

fn types(
    place: &str,
    then: &Map<String, Value>,
    now: &Map<String, Value>,
    found: &mut FoundChange,
) {
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
    found.add(meaning, format_args!("{place}: {} became {}", shown(&was), shown(&is)));
}

fn values(
    place: &str,
    then: &Map<String, Value>,
    now: &Map<String, Value>,
    found: &mut FoundChange,
) {
    let of = |schema: &Map<String, Value>| schema.get("enum").and_then(Value::as_array).cloned();
    match (of(then), of(now)) {
        (was, is) if was == is => {}
        (None, Some(_)) => {
            found.add(Meaning::Breaking, format_args!("{place}: only listed values are taken"))
        }
        (Some(_), None) => {
            found.add(Meaning::Compatible, format_args!("{place}: any value is taken"))
        }
        (Some(was), Some(is)) => {
            // Lists of strangers are long: each value is looked up, and not compared with all.
            let (before, after): (BTreeSet<String>, BTreeSet<String>) =
                (was.iter().map(in_order).collect(), is.iter().map(in_order).collect());
            for gone in was.iter().filter(|value| !after.contains(&in_order(value))) {
                found.add(Meaning::Breaking, format_args!("{place}: the value {gone} is gone"));
            }
            for new in is.iter().filter(|value| !before.contains(&in_order(value))) {
                found.add(Meaning::Compatible, format_args!("{place}: the value {new} is new"));
            }
        }
        _ => {}
    }
}

fn bounds(
    place: &str,
    then: &Map<String, Value>,
    now: &Map<String, Value>,
    found: &mut FoundChange,
) {
    let mut judge = |word: &str, takes_more: &dyn Fn(f64, f64) -> bool| {
        let (was, is) = (then.get(word), now.get(word));
        if was == is {
            return;
        }
        let meaning = match (was.map(Value::as_f64), is.map(Value::as_f64)) {
            (_, None) => Meaning::Compatible,
            // Written in two ways.
            (Some(Some(was)), Some(Some(is))) if was == is && was.abs() < EXACT_MAX => return,
            (Some(Some(was)), Some(Some(is))) if was != is && takes_more(was, is) => {
                Meaning::Compatible
            }
            _ => Meaning::Breaking,
        };
        found.add(meaning, format_args!("{place}: {word}"));
    };
    for (word, higher_is_stricter) in BOUNDS {
        judge(word, &|was, is| (is < was) == higher_is_stricter);
    }
    judge("multipleOf", &divides);
}

/// Tells whether every multiple of `was` is one of `is`.
fn divides(was: f64, is: f64) -> bool {
    let ratio = was / is;
    // Tenths are not exact.
    ratio < RATIO_MAX && (ratio - ratio.round()).abs() <= ratio * 4.0 * f64::EPSILON
}

/// What an object takes under names that it does not list.
fn additional(schema: &Map<String, Value>) -> &Value {
    schema.get("additionalProperties").unwrap_or(&Value::Bool(true))
}

fn properties(
    place: &str,
    then: &Map<String, Value>,
    now: &Map<String, Value>,
    depth: usize,
    found: &mut FoundChange,
) {
    let empty = Map::new();
    let of = |schema: &Map<String, Value>| -> Map<String, Value> {
        schema.get("properties").and_then(Value::as_object).unwrap_or(&empty).clone()
    };
    let required = |schema: &Map<String, Value>| -> BTreeSet<String> {
        let names = schema.get("required").and_then(Value::as_array);
        names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let (others, others_now) = (additional(then), additional(now));
    let is_closed = |others: &Value| others == &Value::Bool(false);
    let has_rest = |schema: &Map<String, Value>| schema.contains_key("unevaluatedProperties");
    if others != others_now && (has_rest(then) || has_rest(now)) {
        not_judged(place, "additionalProperties", found);
    } else if is_closed(others_now) && !is_closed(others) {
        found.add(Meaning::Breaking, format_args!("{place}: unknown parameters are refused"));
    } else if is_closed(others) && !is_closed(others_now) {
        found.add(Meaning::Compatible, format_args!("{place}: unknown parameters are taken"));
    } else {
        let place = place_of(format_args!("{place}, unknown parameters"));
        schema(&place, others, others_now, depth + 1, found);
    }
    let (was, is) = (of(then), of(now));
    let (must, must_now) = (required(then), required(now));
    for name in must_now.difference(&must) {
        found.add(Meaning::Breaking, format_args!("{place}: {name} is required"));
    }
    for name in must.difference(&must_now).filter(|name| is.contains_key(*name)) {
        found.add(Meaning::Compatible, format_args!("{place}: {name} is required no more"));
    }
    for (name, then) in was.iter().filter(|(name, _)| !is.contains_key(*name)) {
        let is_refused = is_closed(others_now) || has_rest(now);
        let meaning = if is_refused { Meaning::Breaking } else { Meaning::Compatible };
        found.add(meaning, format_args!("{place}: {name} is gone"));
        // It is one of the others from now on.
        if others_now.is_object() {
            schema(&place_of(format_args!("{place}, {name}")), then, others_now, depth + 1, found);
        }
    }
    for (name, now) in &is {
        let place_below = place_of(format_args!("{place}, {name}"));
        match was.get(name) {
            Some(then) => schema(&place_below, then, now, depth + 1, found),
            None => {
                // It was one of the others until now. Where those were anything, nobody gave it.
                if !is_open(others) && others.is_object() {
                    schema(&place_below, others, now, depth + 1, found);
                }
                if !must_now.contains(name) {
                    found.add(Meaning::Compatible, format_args!("{place}: {name} is new"));
                }
            }
        }
    }
}

fn items(
    place: &str,
    then: &Map<String, Value>,
    now: &Map<String, Value>,
    depth: usize,
    found: &mut FoundChange,
) {
    let (was, is) = (then.get("items"), now.get("items"));
    let has_rest = |schema: &Map<String, Value>| schema.contains_key("unevaluatedItems");
    if was != is && (has_rest(then) || has_rest(now)) {
        return not_judged(place, "items", found);
    }
    let [was, is] = [was, is].map(|items| items.unwrap_or(&Value::Bool(true)));
    schema(&place_of(format_args!("{place}[]")), was, is, depth + 1, found);
}

/// Schemas that others refer to. Whoever refers to one that is gone or new has changed.
fn definitions(
    place: &str,
    then: &Map<String, Value>,
    now: &Map<String, Value>,
    found: &mut FoundChange,
) {
    for word in ["$defs", "definitions"] {
        let (was, is) = (then.get(word), now.get(word));
        if was == is {
            continue;
        }
        let same = match (was.and_then(Value::as_object), is.and_then(Value::as_object)) {
            (Some(was), Some(is)) => {
                was.iter().all(|(name, schema)| is.get(name).is_none_or(|now| now == schema))
            }
            _ => was.is_none() || is.is_none(),
        };
        match same {
            true => found.add(Meaning::Compatible, format_args!("{place}: {word}")),
            false => not_judged(place, word, found),
        }
    }
}

/// All words that are not understood any further.
fn others(
    place: &str,
    then: &Map<String, Value>,
    now: &Map<String, Value>,
    found: &mut FoundChange,
) {
    let words: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    let is_bound = |word: &str| BOUNDS.iter().any(|(bound, _)| *bound == word);
    // Where something is said of what no other word speaks of, fewer words say less.
    let has_rest = now.keys().any(|word| word.starts_with("unevaluated"));
    for word in words {
        let (was, is) = (then.get(word), now.get(word));
        let of =
            |value: Option<&Value>| value.filter(|value| *value != &Value::Bool(false)).cloned();
        let is_same = match word.as_str() {
            "uniqueItems" => of(was) == of(is),
            _ => was == is,
        };
        if is_same || JUDGED.contains(&word.as_str()) || is_bound(word) {
            continue;
        }
        let is_lifted = match word.as_str() {
            "uniqueItems" => of(is).is_none(),
            word => is.is_none() && TAKE_AWAY.contains(&word),
        };
        match is_lifted && !has_rest {
            true => found.add(Meaning::Compatible, format_args!("{place}: {word}")),
            false => not_judged(place, word, found),
        }
    }
}

#[cfg(test)]
mod tests;
