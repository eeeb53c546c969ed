//! The forms in which a secret's value comes back from a server that echoes it, as far as they can
//! be listed. What can be written in more ways than that is seen through by `views`.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use super::VALUE_BYTES_MIN;
use super::views;

type FormBytes = Zeroizing<Vec<u8>>;

/// The value as it is and as escapes leave it, each once. None is shorter than a value may be.
pub(super) fn plain(value: &str) -> Vec<FormBytes> {
    let mut forms = vec![value.as_bytes().to_vec()];
    // Forms write `+` for a space, and may escape the rest.
    forms.push(value.replace(' ', "+").into_bytes());
    // Who escapes each byte as if it were a character.
    forms.push(value.bytes().map(char::from).collect::<String>().into_bytes());
    // Where a value has what looks like an escape, seeing through escapes changes it as well.
    for level in 0..views::LEVELS_MAX {
        let seen = views::unescaped(&forms[if level == 0 { 0 } else { forms.len() - 1 }]);
        forms.push(seen);
    }
    let mut forms: Vec<FormBytes> = forms.into_iter().map(Zeroizing::new).collect();
    forms.retain(|form| form.len() >= VALUE_BYTES_MIN);
    sorted(forms)
}

/// The value in hexadecimal digits of lower case.
pub(super) fn hexadecimal(value: &str) -> FormBytes {
    Zeroizing::new(value.bytes().flat_map(|byte| hex(byte, false).into_bytes()).collect())
}

/// The same in upper case.
pub(super) fn upper_hexadecimal(value: &str) -> FormBytes {
    Zeroizing::new(value.bytes().flat_map(|byte| hex(byte, true).into_bytes()).collect())
}

/// The value in base64 of both alphabets, whatever stands before it.
pub(super) fn base64(value: &str) -> Vec<FormBytes> {
    let of = |alignment| {
        [aligned(value, alignment, &STANDARD_NO_PAD), aligned(value, alignment, &URL_SAFE_NO_PAD)]
    };
    sorted((0..3).flat_map(of).map(|form| Zeroizing::new(form.into_bytes())).collect())
}

fn sorted(mut forms: Vec<FormBytes>) -> Vec<FormBytes> {
    forms.sort_by(|left, right| left.as_slice().cmp(right));
    forms.dedup();
    forms
}

fn hex(byte: u8, upper: bool) -> String {
    if upper { format!("{byte:02X}") } else { format!("{byte:02x}") }
}

/// The value in base64 behind as many other bytes as `alignment` says: those characters that
/// depend on the value alone. Up to four bits at either end stand in characters that others
/// share.
fn aligned(value: &str, alignment: usize, engine: &impl Engine) -> String {
    const BITS: usize = 6;
    let padded = Zeroizing::new([&[0; 2][..alignment], value.as_bytes()].concat());
    let (start, end) = (alignment * 8, padded.len() * 8);
    engine.encode(&padded)[start.div_ceil(BITS)..end / BITS].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(forms: &[FormBytes]) -> Vec<String> {
        forms.iter().map(|form| String::from_utf8_lossy(form).into_owned()).collect()
    }

    #[test]
    fn a_token_has_few_forms() {
        assert_eq!(texts(&plain("token-123")), ["token-123"]);
        // Alone, behind one byte and behind two: what does not depend on these.
        assert_eq!(texts(&base64("token-123")), ["0b2tlbi0xMj", "Rva2VuLTEyM", "dG9rZW4tMTIz"]);
        assert_eq!(texts(&[hexadecimal("token-/1")]), ["746f6b656e2d2f31"]);
        assert_eq!(
            texts(&plain("a value: %41\\u0042")),
            ["a value: %41\\u0042", "a value: AB", "a+value:+%41\\u0042"]
        );
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
                        let found = base64(value).iter().any(|form| {
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
