//! What schemas of strangers cost where no value is checked: places that a validator keeps, builds
//! that are compared, definitions that are shown.

use std::sync::Arc;

use serde_json::{Value, json};
use toolhost::schema::Format;
use toolhost::session::SessionSettings;

use super::{generated, lab, left_out, tool};

/// Schemas without keywords, so many below one long name.
fn empty_below_a_long_name(open: &str, one: &str, count: usize, close: &str) -> Value {
    generated(json!([
        [r#"{"type":"object","properties":{""#, 1],
        ["n", 32_000],
        [format!(r#"":{{{open}"#), 1],
        [one, count],
        [format!("{close}}}}}}}"), 1],
    ]))
}

#[tokio::test(flavor = "multi_thread")]
async fn places_of_empty_schemas_count() {
    for schema in [
        empty_below_a_long_name(r#""properties":{"#, r#""p%":{},"#, 3_000, r#""z":{}}"#),
        empty_below_a_long_name(r#""properties":{"#, r#""p%":true,"#, 2_500, r#""z":{}}"#),
        empty_below_a_long_name(r#""allOf":["#, "{},", 3_900, "{}]"),
        empty_below_a_long_name(r#""anyOf":["#, "true,", 3_900, "{}]"),
        empty_below_a_long_name(r#""prefixItems":["#, "{},", 3_900, "{}]"),
    ] {
        let text = left_out("", schema).await;
        assert!(text.contains("`schema_expanded_bytes_max`"), "{text}");
        assert!(text.contains("tools: u"), "{text}");
    }
}

/// Each waits for what the tool says of itself before it renders.
#[tokio::test(flavor = "multi_thread")]
async fn who_lists_at_once_shares_one_rendering() {
    let lab = lab("", &[tool("t", json!({ "describe": r#"{"description":"d"}"# }))]);
    let host = lab.host().await;
    let session = host.session(SessionSettings::default()).expect("a session");
    for format in Format::ALL {
        let list = || host.definitions(&session, format);
        let (one, two, three) = tokio::join!(list(), list(), list());
        assert!(Arc::ptr_eq(&one, &two) && Arc::ptr_eq(&two, &three), "{format}");
    }
}
