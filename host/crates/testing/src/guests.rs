//! Guests changed after they were built, so that one build is many plugins.

use serde_json::Value;

/// The component of the guest `register`, made to register in the way that `mode` says.
#[must_use]
pub fn registering(mut bytes: Vec<u8>, mode: &str) -> Vec<u8> {
    const MARKER: &[u8] = b"toolhost-test-mode:one first ";
    const PREFIX: usize = "toolhost-test-mode:".len();
    const LENGTH: usize = 96;
    let place = bytes.windows(MARKER.len()).position(|window| window == MARKER);
    let place = place.expect("the marker") + PREFIX;
    let padded = format!("{mode:<width$}", width = LENGTH - PREFIX);
    assert_eq!(padded.len(), LENGTH - PREFIX, "too long: {mode}");
    bytes[place..place + padded.len()].copy_from_slice(padded.as_bytes());
    bytes
}

/// The component of the guest `made`, made of this description; its source says what that can hold.
#[must_use]
pub fn made(mut bytes: Vec<u8>, description: &Value) -> Vec<u8> {
    const MARKER: &[u8] = b"toolhost-test-made:{";
    const PREFIX: usize = "toolhost-test-made:".len();
    const LENGTH: usize = 16_384;
    let place = bytes.windows(MARKER.len()).position(|window| window == MARKER);
    let place = place.expect("the marker") + PREFIX;
    let mut padded = description.to_string().into_bytes();
    assert!(padded.len() <= LENGTH - PREFIX, "too long: {description}");
    padded.resize(LENGTH - PREFIX, b' ');
    bytes[place..place + padded.len()].copy_from_slice(&padded);
    bytes
}

/// A component as if it had been built for another version of the contract.
#[must_use]
pub fn built_for(version: &str, mut bytes: Vec<u8>) -> Vec<u8> {
    let known = b"@0.1.0";
    assert_eq!(version.len() + 1, known.len());
    for interface in ["types", "log", "progress", "availability", "schema-override", "hooks"] {
        let name = format!("toolhost:plugin/{interface}");
        let whole = [name.as_bytes(), known].concat();
        let places: Vec<usize> = (0..bytes.len().saturating_sub(whole.len()))
            .filter(|&start| bytes[start..].starts_with(&whole))
            .collect();
        for start in places {
            let end = start + whole.len();
            bytes[end - version.len()..end].copy_from_slice(version.as_bytes());
        }
    }
    bytes
}
