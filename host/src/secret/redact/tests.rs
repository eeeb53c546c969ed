//! Tests of redaction: cases with their answers, and random texts against the obvious way.

use std::borrow::Cow;
use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use bytes::Bytes;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::*;

fn value(text: &str) -> SecretValue {
    SecretValue::new(text.to_owned()).expect(text)
}

fn redactor(secrets: &[(&str, &str)]) -> Redactor {
    let values: Vec<_> = secrets.iter().map(|(name, text)| (*name, value(text))).collect();
    let secrets: Vec<_> = values.iter().map(|(name, value)| (*name, value)).collect();
    Redactor::new(&secrets)
}

/// Redacts a text in chunks of the given lengths; the last chunk takes the rest.
fn in_chunks(
    redactor: &Redactor,
    text: &[u8],
    lengths: impl IntoIterator<Item = usize>,
) -> Vec<u8> {
    let (mut stream, mut rest, mut out) = (redactor.stream(), text, Vec::new());
    for length in lengths {
        let (chunk, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        out.extend_from_slice(&stream.push(Bytes::copy_from_slice(chunk)));
    }
    out.extend_from_slice(&stream.push(Bytes::copy_from_slice(rest)));
    out.extend_from_slice(&stream.finish());
    out
}

fn check(secrets: &[(&str, &str)], text: &str, expected: &str) {
    let redactor = redactor(secrets);
    assert_eq!(redactor.text(text), expected, "{text}");
    assert_eq!(matches!(redactor.text(text), Cow::Borrowed(_)), text == expected);
    for length in [1, 2, 3, 7, 8, 9, 64] {
        let chunked = in_chunks(&redactor, text.as_bytes(), (0..text.len()).map(|_| length));
        assert_eq!(String::from_utf8_lossy(&chunked), expected, "{text} by {length}");
    }
    for first in 0..text.len() {
        let chunked = in_chunks(&redactor, text.as_bytes(), [first]);
        assert_eq!(String::from_utf8_lossy(&chunked), expected, "{text} at {first}");
    }
}

#[test]
fn values_make_way() {
    let one = [("KEY", "s3cr3t-key")];
    for (text, expected) in [
        ("", ""),
        ("nothing here", "nothing here"),
        ("s3cr3t-ke", "s3cr3t-ke"),
        ("s3cr3t-key", "[REDACTED:KEY]"),
        ("Bearer s3cr3t-key.", "Bearer [REDACTED:KEY]."),
        ("s3cr3t-s3cr3t-key s3cr3t-key", "s3cr3t-[REDACTED:KEY] [REDACTED:KEY]"),
        ("s3cr3t-keys3cr3t-key", "[REDACTED:KEY][REDACTED:KEY]"),
        ("ü s3cr3t-key ü", "ü [REDACTED:KEY] ü"),
        ("S3CR3T-KEY", "S3CR3T-KEY"),
    ] {
        check(&one, text, expected);
    }
    check(&[], "s3cr3t-key", "s3cr3t-key");
}

#[test]
fn encoded_values_make_way() {
    let secret = "a b\"c/d+é=";
    for form in [
        secret,
        r#"a b\"c/d+é="#,
        r#"a b\"c\/d+\u00e9="#,
        r#"a b\u0022c/d\u002B\u00E9="#,
        "a%20b%22c%2Fd%2B%C3%A9%3D",
        "a%20b%22c%2fd%2b%c3%a9%3d",
        "a+b%22c%2Fd%2B%C3%A9%3D",
        "61206222632f642bc3a93d",
        "61206222632F642BC3A93D",
    ] {
        check(&[("K", secret)], &format!("<{form}>"), "<[REDACTED:K]>");
    }
    // The value behind none to three other bytes; the ends of a character belong to others.
    let one = [("KEY", "s3cr3t-key")];
    for (whole, expected) in [
        ("s3cr3t-key", "[REDACTED:KEY]Q=="),
        ("us3cr3t-key:", "dX[REDACTED:KEY]k6"),
        ("us:s3cr3t-key", "dXM6[REDACTED:KEY]Q=="),
        ("user:s3cr3t-key", "dXNlcjp[REDACTED:KEY]"),
    ] {
        check(&one, &STANDARD.encode(whole), expected);
    }
    check(&[("K", "??>>~~??>>")], &URL_SAFE.encode("??>>~~??>>~"), "[REDACTED:K]n4=");
    check(&[("K", "??>>~~??>>")], &STANDARD.encode("??>>~~??>>~"), "[REDACTED:K]n4=");
}

#[test]
fn overlapping_values_go_together() {
    let periodic = [("P", "abcabcabc")];
    check(&periodic, "xabcabcabcabcx", "x[REDACTED:P]x");
    check(&periodic, "abcabcabcabcabcabcabcabcab", "[REDACTED:P]ab");
    let two = [("A", "abcdefgh"), ("B", "efghijkl")];
    check(&two, "-abcdefghijkl-", "-[REDACTED:A]-");
    check(&two, "-abcdefghefghijkl-", "-[REDACTED:A][REDACTED:B]-");
    check(&two, "-abcdefgefghijkl-", "-abcdefg[REDACTED:B]-");
    // The longest that begins there counts, and what begins inside of it goes with it.
    let nested = [("SHORT", "abcdefgh"), ("LONG", "abcdefghijklm"), ("INNER", "fghijklmno")];
    check(&nested, "abcdefgh abcdefghijklm", "[REDACTED:SHORT] [REDACTED:LONG]");
    check(&nested, "abcdefghijklmno.", "[REDACTED:LONG].");
    check(&nested, "abcdefghijkl", "[REDACTED:SHORT]ijkl");
    // Of equal values the first name counts.
    check(&[("A", "abcdefgh"), ("B", "abcdefgh")], "abcdefgh", "[REDACTED:A]");
}

#[test]
fn a_replacement_completes_no_value() {
    let nameless = "\u{fffd}\u{fffd}\u{fffd}";
    for other in [
        "REDACTED",
        "REDACTED:KEY",
        "password[",
        "]password",
        "pass[RED",
        "KEY]pass",
        "x[REDACTED:KEY]x",
    ] {
        let secrets = [("KEY", "s3cr3t-key"), ("OTHER", other)];
        check(&secrets, "(s3cr3t-key)", &format!("({nameless})"));
        let text = other.replace("[RED", "s3cr3t-key").replace(['[', ']'], "s3cr3t-key");
        let found = redactor(&secrets).text(&text).into_owned();
        assert!(!found.contains(other), "{found}");
    }
    // A bracket alone does no harm, nor does part of a name.
    check(&[("KEY", "pass[word"), ("B", "KEYKEYKEY")], "pass[word", "[REDACTED:KEY]");
    // A name that is none cannot break JSON.
    check(&[("\"", "s3cr3t-key")], "s3cr3t-key", "[REDACTED:SECRET]");
}

#[test]
fn a_stream_holds_back_no_more_than_it_must() {
    let redactor = redactor(&[("KEY", "s3cr3t-key")]);
    let mut stream = redactor.stream();
    let mut push = |chunk: &'static str| {
        let decided = stream.push(Bytes::from_static(chunk.as_bytes()));
        String::from_utf8(decided.to_vec()).expect("UTF-8")
    };
    assert_eq!(push("event: one\n"), "event: one\n");
    assert_eq!(push("s3cr3t-"), "");
    assert_eq!(push(""), "");
    assert_eq!(push("k"), "");
    assert_eq!(push("ing s"), "s3cr3t-king ");
    assert_eq!(push("3cr3t-key"), "[REDACTED:KEY]");
    assert_eq!(push("s3cr3t-key s3"), "[REDACTED:KEY] ");
    assert_eq!(stream.finish(), "s3");
}

#[test]
fn clean_chunks_are_not_copied() {
    let redactor = redactor(&[("KEY", "s3cr3t-key")]);
    let mut stream = redactor.stream();
    let chunk = Bytes::from("A chunk without any secret in it. ".repeat(100));
    for _ in 0..3 {
        let passed = stream.push(chunk.clone());
        assert_eq!((passed.as_ptr(), passed.len()), (chunk.as_ptr(), chunk.len()));
    }
    // Nor is one whose end is held back.
    let chunk = Bytes::from("A chunk that ends like this: s3cr");
    let passed = stream.push(chunk.clone());
    assert_eq!((passed.as_ptr(), passed.len()), (chunk.as_ptr(), chunk.len() - 4));
}

/// The obvious way: every byte of every occurrence of every form is marked, and every run of
/// overlapping occurrences makes way for one replacement.
fn obvious(secrets: &[(&str, SecretValue)], text: &[u8]) -> Vec<u8> {
    let forms: Vec<_> = secrets
        .iter()
        .flat_map(|(name, value)| {
            forms::all(value.expose()).into_iter().map(move |form| (name, form))
        })
        .collect();
    let (mut out, mut hidden) = (Vec::new(), 0);
    for start in 0..=text.len() {
        let here = forms.iter().filter(|(_, form)| text[start..].starts_with(form));
        // Of the longest, the first.
        if let Some((name, form)) = here.rev().max_by_key(|(_, form)| form.len()) {
            if start >= hidden {
                out.extend_from_slice(format!("[REDACTED:{name}]").as_bytes());
            }
            hidden = hidden.max(start + form.len());
        }
        if start >= hidden {
            out.extend(text.get(start));
        }
    }
    out
}

/// Random values over few letters, so that they overlap; random texts of pieces of their forms;
/// random chunks. Many secrets and few, so that both ways to search are taken.
#[test]
fn any_chunks_give_what_the_whole_gives() {
    const NAMES: [&str; 12] = ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L"];
    let mut random = ChaCha8Rng::seed_from_u64(20);
    let (mut hits, mut widths) = (0, BTreeSet::new());
    for round in 0..600 {
        let letters =
            [&["a", "b"][..], &["a", "b", "+", "\"", "ü", "/", " "], &["0", "6", "1"]][round % 3];
        let secrets: Vec<(&str, SecretValue)> = NAMES[..random.random_range(1..=NAMES.len())]
            .iter()
            .map(|name| {
                let length = [8..14, 20..40][round % 2].clone();
                let length = random.random_range(length);
                let inner: String =
                    (0..length).map(|_| letters[random.random_range(0..letters.len())]).collect();
                let from = usize::from(!inner.starts_with(' ') && random.random_bool(0.5));
                (*name, value(&format!("x{inner}x")[from..]))
            })
            .collect();
        let by_reference: Vec<_> = secrets.iter().map(|(name, value)| (*name, value)).collect();
        let redactor = Redactor::new(&by_reference);
        widths.extend(redactor.patterns.iter().map(|patterns| patterns.search.width()));
        let forms: Vec<_> =
            secrets.iter().flat_map(|(_, value)| forms::all(value.expose())).collect();
        let mut text = Vec::new();
        for _ in 0..random.random_range(0..12) {
            let form = &forms[random.random_range(0..forms.len())];
            let (mut start, mut end) = (0, form.len());
            if random.random_bool(0.6) {
                start = random.random_range(0..form.len());
                end = random.random_range(start..=form.len());
            }
            text.extend_from_slice(&form[start..end]);
            if random.random_bool(0.2) {
                text.extend((0..random.random_range(0..20)).map(|_| random.random::<u8>()));
            }
        }
        let expected = obvious(&secrets, &text);
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(shown(&redactor.bytes(&text)), shown(&expected), "{round}: {}", shown(&text));
        for _ in 0..8 {
            let most = [2, 12, 100][random.random_range(0..3)];
            let lengths: Vec<usize> =
                (0..text.len()).map(|_| random.random_range(0..most)).collect();
            let chunked = in_chunks(&redactor, &text, lengths.iter().copied());
            assert_eq!(
                shown(&chunked),
                shown(&expected),
                "{round}: {} in {lengths:?}",
                shown(&text)
            );
        }
        for form in &forms {
            let left = expected.windows(form.len()).any(|window| window == form.as_slice());
            assert!(!left, "{round}: {} in {}", shown(form), shown(&expected));
        }
        hits += usize::from(expected != text);
    }
    assert!(hits > 400, "{hits}");
    // The vector search, and tables of the narrowest and the widest windows.
    assert!(widths.contains(&KEY_BYTES) && widths.contains(&16), "{widths:?}");
}
