//! The forms in which a secret's value comes back from a server that echoes it.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

/// How a writer of JSON escapes what it need not.
#[derive(Clone, Copy)]
struct Json {
    /// ASCII characters that it writes as `\u....`.
    escaped: &'static str,
    /// It writes `\/` for `/`.
    slash: bool,
    /// It writes all but ASCII as `\u....`.
    ascii: bool,
    /// Its hexadecimal digits are upper case.
    upper: bool,
}

const BARE: Json = Json { escaped: "", slash: false, ascii: false, upper: false };

const JSON: [Json; 6] = [
    // JavaScript, serde.
    BARE,
    // Python.
    Json { ascii: true, ..BARE },
    // PHP.
    Json { ascii: true, slash: true, ..BARE },
    // Go.
    Json { escaped: "<>&", ..BARE },
    // Gson.
    Json { escaped: "<>&='", ..BARE },
    // .NET.
    Json { escaped: "<>&'\"+`", ascii: true, upper: true, ..BARE },
];

/// What stands for itself in percent-encoded text besides letters and digits: RFC 3986,
/// `encodeURIComponent`, `encodeURI`, Python's `quote`, and forms.
const PERCENT: [&str; 5] = ["-_.~", "-_.!~*'()", "-_.!~*'();/?:@&=+$,#", "-_.~/", "*-._"];
/// The last of them writes `+` for a space.
const FORM: usize = PERCENT.len() - 1;

/// The value itself and its encoded forms, each once. None is shorter than the value's own
/// shortest length, eight bytes.
pub(super) fn all(value: &str) -> Vec<Zeroizing<Vec<u8>>> {
    let mut forms: Vec<Zeroizing<Vec<u8>>> = Vec::new();
    let mut add = |form: String| forms.push(Zeroizing::new(form.into_bytes()));
    add(value.to_owned());
    for how in JSON {
        add(json(value, how));
    }
    for upper in [true, false] {
        for (index, unescaped) in PERCENT.iter().enumerate() {
            add(percent(value, unescaped, index == FORM, upper));
        }
        add(value.bytes().map(|byte| hex(byte, upper)).collect());
    }
    for alignment in 0..3 {
        add(base64(value, alignment, &STANDARD_NO_PAD));
        add(base64(value, alignment, &URL_SAFE_NO_PAD));
    }
    forms.sort_by(|left, right| left.as_slice().cmp(right));
    forms.dedup();
    forms
}

fn hex(byte: u8, upper: bool) -> String {
    if upper { format!("{byte:02X}") } else { format!("{byte:02x}") }
}

fn json(value: &str, how: Json) -> String {
    let mut text = String::with_capacity(2 * value.len());
    for character in value.chars() {
        if how.escaped.contains(character) || how.ascii && !character.is_ascii() {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                let [high, low] = unit.to_be_bytes();
                text.push_str(&format!("\\u{}{}", hex(high, how.upper), hex(low, how.upper)));
            }
            continue;
        }
        if matches!(character, '"' | '\\') || how.slash && character == '/' {
            text.push('\\');
        }
        text.push(character);
    }
    text
}

fn percent(value: &str, unescaped: &str, plus: bool, upper: bool) -> String {
    let mut text = String::with_capacity(3 * value.len());
    for byte in value.bytes() {
        match byte {
            b' ' if plus => text.push('+'),
            _ if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            _ if unescaped.as_bytes().contains(&byte) => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{}", hex(byte, upper))),
        }
    }
    text
}

/// The value in base64 behind as many other bytes as `alignment` says: those characters that
/// depend on the value alone. Up to four bits at either end stand in characters that others
/// share.
fn base64(value: &str, alignment: usize, engine: &impl Engine) -> String {
    const BITS: usize = 6;
    let padded = Zeroizing::new([&[0; 2][..alignment], value.as_bytes()].concat());
    let (start, end) = (alignment * 8, padded.len() * 8);
    engine.encode(&padded)[start.div_ceil(BITS)..end / BITS].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, expected: &[&str]) {
        let mut expected: Vec<&[u8]> = expected.iter().map(|form| form.as_bytes()).collect();
        expected.sort_unstable();
        let forms = all(value);
        let found: Vec<&[u8]> = forms.iter().map(|form| form.as_slice()).collect();
        let text = |forms: &[&[u8]]| {
            forms.iter().map(|form| String::from_utf8_lossy(form).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(text(&found), text(&expected));
    }

    #[test]
    fn a_token_has_few_forms() {
        let hexadecimal = "746f6b656e2d313233";
        // `token-123` alone, behind one byte and behind two: what does not depend on these.
        check(
            "token-123",
            &[
                "token-123",
                "dG9rZW4tMTIz",
                "Rva2VuLTEyM",
                "0b2tlbi0xMj",
                hexadecimal,
                &hexadecimal.to_uppercase(),
            ],
        );
    }

    #[test]
    fn forms_that_others_make_of_it_are_known() {
        let value = "aA1~ \"ü/+?&=<\\";
        let forms: Vec<String> =
            all(value).iter().map(|form| String::from_utf8_lossy(form).into_owned()).collect();
        for written in [
            // serde_json, JSON.stringify
            r#"aA1~ \"ü/+?&=<\\"#,
            // json.dumps
            r#"aA1~ \"\u00fc/+?&=<\\"#,
            // json_encode
            r#"aA1~ \"\u00fc\/+?&=<\\"#,
            // encoding/json
            r#"aA1~ \"ü/+?\u0026=\u003c\\"#,
            // System.Text.Json
            r#"aA1~ \u0022\u00FC/\u002B?\u0026=\u003C\\"#,
            // encodeURIComponent, urllib.parse.quote, urlencode
            "aA1~%20%22%C3%BC%2F%2B%3F%26%3D%3C%5C",
            "aA1~%20%22%C3%BC/%2B%3F%26%3D%3C%5C",
            "aA1%7E+%22%C3%BC%2F%2B%3F%26%3D%3C%5C",
            "aA1~%20%22%c3%bc%2f%2b%3f%26%3d%3c%5c",
        ] {
            assert!(forms.iter().any(|form| form == written), "{written}\n{forms:#?}");
        }
        assert!(forms.iter().all(|form| form.len() >= 8));
    }

    #[test]
    fn base64_of_anything_around_it_has_one_of_the_forms() {
        for value in ["12345678", "123456789", "\u{3ff}\u{7ff}??>>~~"] {
            for before in 0..6 {
                for after in 0..6 {
                    let whole = [&b"\xff<:x9?"[..before], value.as_bytes(), &b"~\xff=:a0"[..after]];
                    for text in [
                        STANDARD_NO_PAD.encode(whole.concat()),
                        URL_SAFE_NO_PAD.encode(whole.concat()),
                    ] {
                        let found = all(value).iter().any(|form| {
                            text.as_bytes()
                                .windows(form.len())
                                .any(|window| window == form.as_slice())
                        });
                        assert!(found, "{value} {before} {after}");
                    }
                }
            }
        }
    }
}
