//! Scripts as bytes: one file, as builds of scripts are kept.

use serde::Deserialize;

use super::{Script, ScriptError};
use toolhost_core::limits::Limits;

/// Bytes of a module's path, as file systems have them.
const PATH_BYTES_MAX: u64 = 4_096;
/// Bytes of JSON that one byte of text may take.
const ESCAPED_BYTES_MAX: u64 = 6;
/// Bytes of JSON that a module takes beside its text: its path, and what is around both.
const PACKED_MODULE_BYTES_MAX: u64 = ESCAPED_BYTES_MAX * PATH_BYTES_MAX + 64;
/// How a packed script begins.
const PACKED: &str = r#"{"toolhost-script":1,"#;

/// Reads what [`Script::pack`] gave; none if these bytes are something else.
///
/// # Errors
/// If it is larger than a script may be: whoever packed it need not have been this host.
pub fn unpack(bytes: &[u8], limits: &Limits) -> Result<Option<Script>, ScriptError> {
    if !bytes.starts_with(PACKED.as_bytes()) {
        return Ok(None);
    }
    let (bytes_max, files_max) = (limits.script_bytes_max.0, limits.script_files_max.0);
    let packed_max = bytes_max.saturating_mul(ESCAPED_BYTES_MAX)
        + (files_max as u64 + 1) * PACKED_MODULE_BYTES_MAX;
    if bytes.len() as u64 > packed_max {
        return Err(ScriptError::TooLarge(bytes_max));
    }
    let Ok(script) = serde_json::from_slice::<Script>(bytes) else { return Ok(None) };
    if script.modules.len() > files_max {
        return Err(ScriptError::TooMany(files_max));
    }
    let paths: u64 = script.modules.iter().map(|module| module.path.len() as u64).sum();
    if script.bytes() > bytes_max || paths > files_max as u64 * PATH_BYTES_MAX {
        return Err(ScriptError::TooLarge(bytes_max));
    }
    Ok(Some(script))
}

/// The digest of the runner that a packed script is for; none if these bytes are something else.
/// It holds nothing else of it.
pub fn runner_of(bytes: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct For {
        runner: String,
    }
    let is_packed = bytes.starts_with(PACKED.as_bytes());
    is_packed.then(|| serde_json::from_slice::<For>(bytes).ok()).flatten().map(|of| of.runner)
}

#[cfg(test)]
mod tests {
    use super::super::{Language, Module};
    use super::*;

    #[test]
    fn a_packed_script_has_the_limits_of_one_that_is_not() {
        let limits = Limits {
            script_bytes_max: toolhost_core::limits::Bytes(10),
            script_files_max: toolhost_core::limits::Count(2),
            ..Limits::default()
        };
        let packed = |count: usize, text: &str| {
            let module = |number| Module { path: format!("{number}.py"), text: text.to_owned() };
            let modules = (0..count).map(module).collect();
            let (language, runner) = (Language::Python, "r".to_owned());
            Script { version: 1, language, runner, modules }.pack()
        };
        let unpack = |bytes: &[u8]| super::unpack(bytes, &limits);
        // Five bytes each, and thirty as they are packed.
        assert!(unpack(&packed(2, "\u{1}\u{1}\u{1}\u{1}\u{1}")).expect("small").is_some());
        assert_eq!(unpack(&packed(3, "")), Err(ScriptError::TooMany(2)));
        assert_eq!(unpack(&packed(2, "123456")), Err(ScriptError::TooLarge(10)));
        // This much is not even looked at.
        let mut large = packed(1, "");
        large.resize(1 << 20, b' ');
        assert_eq!(unpack(&large), Err(ScriptError::TooLarge(10)));
        assert_eq!(unpack(b"\0asm"), Ok(None));
    }
}
