//! JSON Schemas of argument and output types, in the form models read best.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

/// Returns the JSON Schema of `T` as text: one self-contained object, without the title, the
/// meta-schema address and the description of the whole, which say nothing to a model that
/// the tool's own description does not.
pub fn of<T: JsonSchema>() -> String {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.remove("description");
    schema.to_value().to_string()
}
