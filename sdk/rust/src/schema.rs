//! JSON Schemas of argument and output types, in the form models read best.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

/// Returns the JSON Schema of `T` as text: one self-contained object, without the title and
/// the meta-schema address, which say nothing to a model.
pub fn of<T: JsonSchema>() -> String {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.to_value().to_string()
}
