//! Two tools over JSON that is given inline: `json_query` runs a jq filter, and
//! `json_schema_infer` describes the shape of a value. They need no authority.

mod infer;
mod query;

use serde_json::Value;
use toolhost_sdk::{Error, Json, arguments, plugin, tool};

/// The JSON of a call, given in one of two ways.
struct Input {
    json: Option<Value>,
    text: Option<String>,
}

/// What to query.
#[arguments]
pub struct Query {
    /// A jq filter, such as `.items[] | select(.price > 10) | .name`.
    filter: String,
    /// The JSON value to query. Give this or `text`.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    json: Option<Value>,
    /// JSON as text: one value, or several one after the other (JSON Lines); the filter runs
    /// on each. Give this or `json`.
    text: Option<String>,
    /// The most results to return.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 10_000))]
    limit: usize,
}

/// Runs a jq filter over JSON and returns the results in order, as
/// `{"results": [...], "truncated": false}`.
///
/// Use it to select, reshape, count, sort or aggregate JSON instead of reading all of it.
/// The language is jq's, with its standard library; there are no modules, no environment
/// variables, and no further inputs.
#[tool(
    toolset = "data",
    emoji = "🔎",
    read_only,
    idempotent,
    open_world = false,
    example = (r#"{"filter": "[.[] | select(.n > 1) | .name]", "json": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]}"#, r#"[["b"]]"#),
    example = (r#"{"filter": ".id", "text": "{\"id\": 1}\n{\"id\": 2}"}"#, "[1,2]"),
)]
pub fn json_query(arguments: Query) -> Result<Json<query::Results>, Error> {
    let Query { filter, json, text, limit } = arguments;
    if !(1..=10_000).contains(&limit) {
        return Err(Error::bad_argument("/limit", format!("{limit} is not in 1 to 10,000")));
    }
    let inputs = Input { json, text }.texts()?;
    query::run(&filter, &inputs, limit).map(Json)
}

/// What to describe.
#[arguments]
pub struct Infer {
    /// The JSON value to describe. Give this or `text`.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    json: Option<Value>,
    /// JSON as text: one value, or several one after the other (JSON Lines), which are
    /// described together. Give this or `json`.
    text: Option<String>,
}

/// Infers the JSON Schema that a JSON value matches.
///
/// Use it to learn the shape of unknown or large JSON before querying it. Objects in one
/// array are merged: a property is `required` if all of them have it.
#[tool(
    toolset = "data",
    emoji = "📐",
    read_only,
    idempotent,
    open_world = false,
    example = (r#"{"json": [{"id": 1}, {"id": 2, "name": "b"}]}"#, r#""required":["id"]"#),
)]
pub fn json_schema_infer(arguments: Infer) -> Result<Json<Value>, Error> {
    let inputs = Input { json: arguments.json, text: arguments.text }.values()?;
    Ok(Json(infer::schema(&inputs)))
}

plugin!(tools: [json_query, json_schema_infer]);

impl Input {
    fn values(self) -> Result<Vec<Value>, Error> {
        match (self.json, self.text) {
            (Some(value), None) => Ok(vec![value]),
            (None, Some(text)) => parse(&text),
            (Some(_), Some(_)) => {
                Err(Error::bad_argument("/text", "`json` and `text` are both given; give one"))
            }
            (None, None) => Err(Error::bad_argument("/json", "neither `json` nor `text` is given")),
        }
    }

    fn texts(self) -> Result<Vec<String>, Error> {
        Ok(self.values()?.iter().map(Value::to_string).collect())
    }
}

fn parse(text: &str) -> Result<Vec<Value>, Error> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let values = values
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Error::bad_argument("/text", format!("not JSON: {error}")))?;
    if values.is_empty() {
        return Err(Error::bad_argument("/text", "the text holds no JSON value"));
    }
    Ok(values)
}

/// Tells an explicit `null`, which is a value to query, from an absent field.
fn given<'de, D>(deserializer: D) -> Result<Option<Value>, D::Error>
where
    D: toolhost_sdk::private::serde::Deserializer<'de>,
{
    toolhost_sdk::private::serde::Deserialize::deserialize(deserializer).map(Some)
}

fn default_limit() -> usize {
    100
}

#[cfg(test)]
mod tests {
    use toolhost_sdk::testing::call;

    use super::*;

    fn query(arguments: &str) -> Result<String, String> {
        let output = call::<json_query>(arguments);
        output.map(|output| output.text()).map_err(|error| error.message().to_owned())
    }

    fn infer(arguments: &str) -> String {
        call::<json_schema_infer>(arguments).expect("a schema").text()
    }

    #[test]
    fn filters_run_over_values_and_texts() {
        assert_eq!(
            query(r#"{"filter": "map(.a)", "json": [{"a": 1}, {"a": null}]}"#).unwrap(),
            r#"{"results":[[1,null]],"truncated":false}"#
        );
        assert_eq!(
            query(r#"{"filter": ".", "text": "1 2\n3", "limit": 2}"#).unwrap(),
            r#"{"results":[1,2],"truncated":true}"#
        );
        assert_eq!(
            query(r#"{"filter": ".", "json": null}"#).unwrap(),
            r#"{"results":[null],"truncated":false}"#
        );
    }

    #[test]
    fn large_integers_keep_every_digit() {
        let text = query(r#"{"filter": ".[0] + 1", "json": [9007199254740993]}"#).unwrap();
        assert_eq!(text, r#"{"results":[9007199254740994],"truncated":false}"#);
    }

    #[test]
    fn errors_name_the_place() {
        let check = |arguments, expected: &str| {
            let message = query(arguments).unwrap_err();
            assert!(message.contains(expected), "{message}");
        };
        check(r#"{"filter": ".a | (", "json": 1}"#, "`filter` is not jq");
        check(r#"{"filter": "nope", "json": 1}"#, "no filter `nope`");
        check(r#"{"filter": ".a", "json": 1}"#, "cannot index");
        check(r#"{"filter": ".a"}"#, "neither");
        check(r#"{"filter": ".a", "json": 1, "text": "1"}"#, "both");
        check(r#"{"filter": ".a", "text": "{"}"#, "not JSON");
        check(r#"{"filter": ".", "json": 1, "limit": 0}"#, "1 to 10,000");
        check(r#"{"filter": "halt", "json": 1}"#, "halt");
        check(r#"{"filter": "nan", "json": 1}"#, "not JSON");
    }

    #[test]
    fn objects_of_one_array_are_merged() {
        assert_eq!(
            infer(r#"{"json": [{"a": 1, "b": "x"}, {"a": 1.5}]}"#),
            r#"{"type":"array","items":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"string"}},"required":["a"]}}"#
        );
        assert_eq!(
            infer(r#"{"json": [1, "a", null]}"#),
            r#"{"type":"array","items":{"type":["integer","string","null"]}}"#
        );
        assert_eq!(
            infer(r#"{"text": "[] {}"}"#),
            r#"{"anyOf":[{"type":"array"},{"type":"object","properties":{}}]}"#
        );
    }
}
