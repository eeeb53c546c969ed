//! How well a schema tells a model what to give: descriptions, enums, `required`, formats.

use serde_json::{Map, Value};

use super::prose;
use super::{Finding, Level};

/// Characters of the shortest description of a parameter that says something.
const DESCRIPTION_CHARS_MIN: usize = 8;
/// References that are followed from one place.
const REFERENCES_MAX: usize = 8;

/// Formats that readers of schemas know: those of JSON Schema, and for numbers those of OpenAPI
/// and of `schemars`.
const FORMATS: [&str; 35] = [
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uuid",
    "uri-template",
    "json-pointer",
    "relative-json-pointer",
    "regex",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "int128",
    "uint",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "uint128",
    "float",
    "double",
    "byte",
    "binary",
];

/// Keywords with one schema, and with a list or an object of them.
const SCHEMA: [&str; 4] = ["items", "additionalProperties", "contains", "not"];
const SCHEMAS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
const NAMED: [&str; 3] = ["$defs", "definitions", "patternProperties"];

/// Finds what could be better in the parameters of one tool.
pub(super) fn findings(tool: &str, parameters: &Value) -> Vec<Finding> {
    let mut reader = SchemaReader { tool, root: parameters, found: Vec::new() };
    if parameters.get("additionalProperties").is_none() {
        reader.push(
            Level::Warning,
            "additional-properties",
            "/parameters",
            "it does not say whether arguments that it does not name are allowed, so misspelled ones are passed over",
            "set `\"additionalProperties\": false`",
        );
    }
    reader.schema("/parameters", parameters);
    reader.found
}

struct SchemaReader<'a> {
    tool: &'a str,
    root: &'a Value,
    found: Vec<Finding>,
}

impl<'a> SchemaReader<'a> {
    fn push(
        &mut self,
        level: Level,
        rule: &'static str,
        pointer: &str,
        message: impl Into<String>,
        repair: impl Into<String>,
    ) {
        let place = format!("{} {pointer}", self.tool);
        self.found.push(Finding::new(level, rule, place, message, repair));
    }

    /// A schema, and all within it. Schemas of strangers are at most `schema_depth_max` deep.
    fn schema(&mut self, pointer: &str, schema: &'a Value) {
        let Some(members) = schema.as_object() else { return };
        self.format(pointer, members);
        if let Some(properties) = members.get("properties").and_then(Value::as_object) {
            self.object(pointer, members, properties);
            for (name, property) in properties {
                self.schema(&below(&format!("{pointer}/properties"), name), property);
            }
        }
        for keyword in SCHEMA {
            if let Some(inner) = members.get(keyword) {
                self.schema(&format!("{pointer}/{keyword}"), inner);
            }
        }
        for keyword in SCHEMAS {
            let list = members.get(keyword).and_then(Value::as_array);
            for (index, inner) in list.into_iter().flatten().enumerate() {
                self.schema(&format!("{pointer}/{keyword}/{index}"), inner);
            }
        }
        for keyword in NAMED {
            let named = members.get(keyword).and_then(Value::as_object);
            for (name, inner) in named.into_iter().flatten() {
                self.schema(&below(&format!("{pointer}/{keyword}"), name), inner);
            }
        }
    }

    fn format(&mut self, pointer: &str, members: &Map<String, Value>) {
        let Some(format) = members.get("format").and_then(Value::as_str) else { return };
        if !FORMATS.contains(&format) {
            let message =
                format!("nobody checks the format `{format}`, and some vendors refuse it");
            let repair = "say it in the description, or with `pattern`";
            self.push(Level::Warning, "format", pointer, message, repair);
        }
    }

    fn object(
        &mut self,
        pointer: &str,
        members: &'a Map<String, Value>,
        properties: &'a Map<String, Value>,
    ) {
        let required: Vec<&str> = members
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for name in &required {
            if !properties.contains_key(*name) {
                let is_closed = members.get("additionalProperties") == Some(&Value::Bool(false));
                let level = if is_closed { Level::Error } else { Level::Warning };
                let message = format!("`required` names `{name}`, which is no property");
                let repair = "add the property, or take it out of `required`";
                self.push(level, "required", pointer, message, repair);
            }
        }
        for (name, property) in properties {
            let pointer = below(&format!("{pointer}/properties"), name);
            self.property(&pointer, property, required.contains(&name.as_str()));
        }
    }

    fn property(&mut self, pointer: &str, property: &'a Value, is_required: bool) {
        let views = self.resolved(property);
        let member = |name: &str| views.iter().find_map(|view| view.get(name));
        let description = member("description").and_then(Value::as_str).unwrap_or_default().trim();
        let has_default = member("default").is_some();
        let is_listed = ["enum", "const", "anyOf", "oneOf", "pattern"]
            .iter()
            .any(|keyword| member(keyword).is_some());
        let may_be_text = match member("type") {
            None => true,
            Some(Value::String(name)) => name == "string",
            Some(Value::Array(names)) => names.iter().any(|name| name == "string"),
            Some(_) => false,
        };

        let length = prose::length(description);
        if length < DESCRIPTION_CHARS_MIN {
            let message = match length {
                0 => "it has no description, so a model guesses from its name".to_owned(),
                _ => format!("its description `{description}` says too little"),
            };
            let repair = format!(
                "describe what it is, in {DESCRIPTION_CHARS_MIN} characters or more, with an example where that helps"
            );
            self.push(Level::Warning, "parameter-description", pointer, message, repair);
        }
        let values = prose::values(description);
        if !values.is_empty() && !is_listed && may_be_text {
            let list: Vec<String> =
                values.iter().map(|value| Value::from(value.as_str()).to_string()).collect();
            let message = "its description lists the values, and its schema allows any text";
            let repair = format!("add `\"enum\": [{}]`", list.join(", "));
            self.push(Level::Warning, "enum", pointer, message, repair);
        }
        if is_required && has_default {
            let message = "it is required, and has a default that is never used";
            let repair = "take it out of `required`, or remove the default";
            self.push(Level::Warning, "required", pointer, message, repair);
        } else if is_required && prose::says_optional(description) {
            let message = "its description says that it may be left out, and it is required";
            let repair = "take it out of `required`, or change the description";
            self.push(Level::Warning, "required", pointer, message, repair);
        } else if !is_required && prose::says_required(description) {
            let message = "its description says that it is required, and it is not";
            let repair = "name it in `required`, or change the description";
            self.push(Level::Warning, "required", pointer, message, repair);
        }
    }

    /// A schema, and those that it refers to: what it says itself comes first.
    fn resolved(&self, schema: &'a Value) -> Vec<&'a Value> {
        let mut views = vec![schema];
        let mut at = schema;
        for _ in 0..REFERENCES_MAX {
            // `allOf` of one is how some write a reference with a description.
            let single = at.get("allOf").and_then(Value::as_array).filter(|list| list.len() == 1);
            let at_reference = single.map_or(at, |list| &list[0]);
            let reference = at_reference.get("$ref").and_then(Value::as_str);
            let target = reference.and_then(|reference| reference.strip_prefix('#'));
            let Some(target) = target.and_then(|pointer| self.root.pointer(pointer)) else { break };
            views.push(target);
            at = target;
        }
        views
    }
}

/// The pointer to a member.
fn below(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(properties: Value, more: Value, expected: &Expect) {
        let mut schema = json!({
            "type": "object", "properties": properties, "additionalProperties": false,
        });
        if let (Value::Object(schema), Value::Object(more)) = (&mut schema, more) {
            schema.extend(more);
        }
        let lines: String =
            findings("t", &schema).iter().map(|finding| format!("{finding}\n")).collect();
        expected.assert_eq(&lines);
    }

    #[test]
    fn a_schema_that_says_all_has_nothing_to_say_of() {
        check(
            json!({
                "city": { "type": "string", "description": "The city, such as `Paris`." },
                "units": { "$ref": "#/$defs/Units" },
                "mode": { "allOf": [{ "$ref": "#/$defs/Units" }], "description": "One of `a` or `b`." },
                "limit": { "type": "integer", "format": "uint", "default": 3,
                           "description": "How many; defaults to 3." },
            }),
            json!({
                "required": ["city"],
                "$defs": { "Units": { "enum": ["a", "b"], "description": "Units of the answer." } },
            }),
            &expect![""],
        );
    }

    #[test]
    fn descriptions_of_parameters() {
        check(
            json!({ "a": { "type": "string" }, "b": { "type": "string", "description": "The b" },
                    "c/d": { "type": "array", "description": "All of them.", "items": {
                        "type": "object", "properties": { "inner": true } } } }),
            json!({}),
            &expect![[r#"
                warning[parameter-description] t /parameters/properties/a: it has no description, so a model guesses from its name; describe what it is, in 8 characters or more, with an example where that helps
                warning[parameter-description] t /parameters/properties/b: its description `The b` says too little; describe what it is, in 8 characters or more, with an example where that helps
                warning[parameter-description] t /parameters/properties/c~1d/items/properties/inner: it has no description, so a model guesses from its name; describe what it is, in 8 characters or more, with an example where that helps
            "#]],
        );
    }

    #[test]
    fn values_that_stand_in_prose_only() {
        let said = "The order: one of asc or desc.";
        check(
            json!({
                "bad": { "type": ["string", "null"], "description": said },
                "enum": { "type": "string", "enum": ["asc", "desc"], "description": said },
                "number": { "type": "integer", "description": "Must be `1` or `2`." },
            }),
            json!({}),
            &expect![[r#"
                warning[enum] t /parameters/properties/bad: its description lists the values, and its schema allows any text; add `"enum": ["asc", "desc"]`
            "#]],
        );
    }

    #[test]
    fn required_says_what_descriptions_say() {
        let text = |description: &str| json!({ "type": "string", "description": description });
        let mut with_default = text("The third of them.");
        with_default["default"] = json!("x");
        check(
            json!({ "a": text("Optional text."), "b": text("A text (required)."), "c": with_default }),
            json!({ "required": ["a", "c", "gone"] }),
            &expect![[r#"
                error[required] t /parameters: `required` names `gone`, which is no property; add the property, or take it out of `required`
                warning[required] t /parameters/properties/a: its description says that it may be left out, and it is required; take it out of `required`, or change the description
                warning[required] t /parameters/properties/b: its description says that it is required, and it is not; name it in `required`, or change the description
                warning[required] t /parameters/properties/c: it is required, and has a default that is never used; take it out of `required`, or remove the default
            "#]],
        );
    }

    #[test]
    fn formats_and_other_arguments() {
        let text = json!({ "type": "string", "format": "city", "description": "The city's name." });
        let lines: Vec<String> =
            findings("t", &json!({ "type": "object", "properties": { "a": text } }))
                .iter()
                .map(|finding| format!("{} {}", finding.rule, finding.place))
                .collect();
        assert_eq!(
            lines,
            ["additional-properties t /parameters", "format t /parameters/properties/a"]
        );
    }

    #[test]
    fn a_reference_in_a_circle_ends() {
        let circle = json!({
            "type": "object", "additionalProperties": false,
            "properties": { "a": { "$ref": "#/$defs/a" } },
            "$defs": { "a": { "$ref": "#/$defs/a" } },
        });
        assert_eq!(findings("t", &circle).len(), 1);
    }
}
