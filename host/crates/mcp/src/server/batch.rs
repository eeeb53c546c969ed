//! Batches: several messages in one array, as revisions before 2025-06-18 have them.
//!
//! Each message is handled as if it stood on a line of its own, and so is its answer: what is
//! bounded and refused there is here, too. What this file does not do: tell whether the messages
//! are in order.

use rmcp::model::ProtocolVersion;
use serde::de::IgnoredAny;

/// Messages of one batch; of the others each request is refused.
pub(super) const MESSAGES_MAX: usize = 1_024;

/// Tells whether clients of a revision may send batches.
pub(super) fn are_of(version: &ProtocolVersion) -> bool {
    [ProtocolVersion::V_2024_11_05, ProtocolVersion::V_2025_03_26].contains(version)
}

/// Tells whether a line is a batch, if it is JSON.
pub(super) fn is_batch(line: &[u8]) -> bool {
    line.trim_ascii_start().first() == Some(&b'[')
}

/// The elements of a batch that is JSON, in their order.
pub(super) fn elements(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = line.trim_ascii_start().get(1..).unwrap_or_default();
    std::iter::from_fn(move || {
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
        values.next()?.ok()?;
        let (element, after) = rest.split_at(values.byte_offset());
        // Without the comma or the bracket.
        rest = after.trim_ascii_start().get(1..).unwrap_or_default();
        Some(element.trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found() {
        for (line, expected) in [
            (" [ ] ", ""),
            ("[1]", "1"),
            (r#" [ {"a":[1,"],"]} , "b" ,[2 ] ] "#, r#"{"a":[1,"],"]};"b";[2 ]"#),
            ("[1,2,true,null]", "1;2;true;null"),
        ] {
            let found: Vec<_> = elements(line.as_bytes()).map(String::from_utf8_lossy).collect();
            assert_eq!(found.join(";"), expected, "{line}");
        }
    }
}
