//! The shape of JSON values, merged over all of them, written as a JSON Schema.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// What has been seen at one place of the values.
#[derive(Default)]
struct Shape {
    /// Scalar types in the order they were first seen.
    scalars: Vec<&'static str>,
    array: Option<Box<Shape>>,
    object: Option<Object>,
    /// How many values were seen here.
    count: usize,
}

#[derive(Default)]
struct Object {
    count: usize,
    properties: Vec<(String, Shape)>,
    /// Where each name stands in `properties`, which keeps the order of first sight.
    places: HashMap<String, usize>,
}

/// Returns the JSON Schema that all of `values` match.
pub(crate) fn schema(values: &[Value]) -> Value {
    let mut shape = Shape::default();
    for value in values {
        shape.see(value);
    }
    shape.schema()
}

impl Shape {
    fn see(&mut self, value: &Value) {
        self.count += 1;
        match value {
            Value::Null => self.see_scalar("null"),
            Value::Bool(_) => self.see_scalar("boolean"),
            Value::Number(number) if number.is_f64() => self.see_scalar("number"),
            Value::Number(_) => self.see_scalar("integer"),
            Value::String(_) => self.see_scalar("string"),
            Value::Array(items) => {
                let shape = self.array.get_or_insert_default();
                items.iter().for_each(|item| shape.see(item));
            }
            Value::Object(members) => self.object.get_or_insert_default().see(members),
        }
    }

    fn see_scalar(&mut self, name: &'static str) {
        if !self.scalars.contains(&name) {
            self.scalars.push(name);
        }
        // Every integer is a number.
        if self.scalars.contains(&"number") {
            self.scalars.retain(|name| *name != "integer");
        }
    }

    fn schema(&self) -> Value {
        let mut branches = Vec::new();
        match self.scalars.as_slice() {
            [] => {}
            [one] => branches.push(json!({ "type": one })),
            several => branches.push(json!({ "type": several })),
        }
        if let Some(items) = &self.array {
            branches.push(match items.count {
                0 => json!({ "type": "array" }),
                _ => json!({ "type": "array", "items": items.schema() }),
            });
        }
        if let Some(object) = &self.object {
            branches.push(object.schema());
        }
        match branches.len() {
            1 => branches.remove(0),
            _ => json!({ "anyOf": branches }),
        }
    }
}

impl Object {
    fn see(&mut self, members: &Map<String, Value>) {
        self.count += 1;
        for (name, value) in members {
            let place = *self.places.entry(name.clone()).or_insert_with(|| {
                self.properties.push((name.clone(), Shape::default()));
                self.properties.len() - 1
            });
            self.properties[place].1.see(value);
        }
    }

    fn schema(&self) -> Value {
        let properties: Map<String, Value> =
            self.properties.iter().map(|(name, shape)| (name.clone(), shape.schema())).collect();
        let required: Vec<&String> = self
            .properties
            .iter()
            .filter(|(_, shape)| shape.count == self.count)
            .map(|(name, _)| name)
            .collect();
        let mut schema = json!({ "type": "object", "properties": properties });
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema
    }
}
