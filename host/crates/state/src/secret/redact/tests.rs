//! Tests of redaction: cases with their answers. What is random is in `forms`.

mod forms;

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use bytes::Bytes;

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
        ("s3cr3t-ke&#121", "[REDACTED:KEY]"),
        ("s3cr3t-ke&#x79", "[REDACTED:KEY]"),
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

#[test]
fn escaped_values_make_way() {
    let secret = "s3cr3t-key/9";
    let each = |write: &dyn Fn(u8) -> String| secret.bytes().map(write).collect::<String>();
    let wrapped = |text: String, width: usize, line_break: &str| {
        let lines: Vec<&str> = text
            .as_bytes()
            .chunks(width)
            .map(|line| str::from_utf8(line).expect("ASCII"))
            .collect();
        lines.join(line_break)
    };
    for form in [
        each(&|byte| format!("%{byte:02x}")),
        each(&|byte| format!("%{byte:02X}")),
        each(&|byte| format!("\\u{byte:04x}")),
        each(&|byte| format!("\\u{byte:04X}")),
        each(&|byte| format!("\\\\u{byte:04x}")),
        each(&|byte| format!("\\u{{{byte:x}}}")),
        each(&|byte| format!("\\x{byte:02x}")),
        each(&|byte| format!("\\{byte:03o}")),
        each(&|byte| format!("%25{byte:02x}")),
        each(&|byte| format!("%u{byte:04x}")),
        each(&|byte| format!("&#{byte};")),
        each(&|byte| format!("&#x{byte:x};")),
        each(&|byte| format!("&amp;#{byte};")),
        each(&|byte| format!("{}\0", char::from(byte))),
        secret.replace('r', "%72"),
        secret.replace('-', "&#45;"),
        secret.replace('/', "\\/"),
        each(&|byte| format!("{byte:02x}:")),
        each(&|byte| format!("{byte:02X}-")),
        each(&|byte| format!("{byte:02x} ")),
        each(&|byte| format!("0x{byte:02x}, ")),
        each(&|byte| format!("\\\\x{byte:02x}")),
        each(&|byte| format!("{byte:02x},\n    ")),
        each(&|byte| format!("{byte}, ")),
        each(&|byte| format!("{byte}\n  ")),
        wrapped(each(&|byte| format!("{byte:02x}")), 8, "\n"),
        wrapped(STANDARD.encode(secret), 4, "\r\n"),
        wrapped(STANDARD.encode(secret), 7, "\n"),
        wrapped(STANDARD.encode(secret), 5, "\\r\\n"),
        wrapped(STANDARD.encode(secret), 1, "\n"),
        wrapped(URL_SAFE.encode(secret), 10, "\n      "),
        wrapped(STANDARD.encode(format!("abcdefg{secret}hijk")), 9, "\n"),
        wrapped(STANDARD.encode(format!("abcdefgh{secret}hijk")), 9, "\r\n"),
        STANDARD.encode(format!("//>>{secret}")).replace('/', "%2F").replace('+', "%2B"),
    ] {
        let text = format!("<{form}|>");
        let redactor = redactor(&[("K", secret)]);
        let found = redactor.text(&text).into_owned();
        assert!(found.contains("[REDACTED:K]"), "{form}: {found}");
        for length in [1, 2, 3, 7, 64] {
            let chunked = in_chunks(&redactor, text.as_bytes(), (0..text.len()).map(|_| length));
            assert_eq!(String::from_utf8_lossy(&chunked), found, "{text} by {length}");
        }
    }
}

#[test]
fn parts_of_a_value_make_way() {
    let redactor = redactor(&[("KEY", "s3cr3t-key, 9")]);
    let parts = |parts: &[&str]| {
        let mut parts: Vec<Vec<u8>> = parts.iter().map(|part| part.as_bytes().to_vec()).collect();
        redactor.parts(&mut parts);
        parts.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(parts(&["a", "b"]), ["a", "b"]);
    assert_eq!(parts(&["x s3cr3t-key, 9"]), ["x [REDACTED:KEY]"]);
    assert_eq!(parts(&["x s3cr", "3t-k", "ey, 9 y"]), ["x [REDACTED:KEY]", "", " y"]);
    assert_eq!(parts(&["s3cr3t-key", "9"]), ["[REDACTED:KEY]", ""]);
    assert_eq!(parts(&["%733cr3t-", "key%2C%209"]), ["[REDACTED:KEY]", ""]);
    let names = |names: &[&str]| redactor.in_names(names);
    assert_eq!(names(&["date", "x-s3cr3t-key, 9"]), [false, true]);
    assert_eq!(names(&["x-s3cr3t", "-KEY, 9", "server"]), [true, true, false]);
    let upper = super::Redactor::new(&[("KEY", &value("AbCdEfGhIj"))]);
    assert_eq!(upper.in_names(&["abcdefghij", "ABCDEFGHIJ", "abcdefgh"]), [true, true, false]);
    assert!(upper.in_names(&["x", &STANDARD.encode("AbCdEfGhIj").to_ascii_lowercase()])[1]);
}

#[test]
fn names_in_lower_case_are_seen_through() {
    let secret = "tokenABC12345xYz";
    let redactor = redactor(&[("KEY", secret)]);
    let lower = secret.to_ascii_lowercase();
    let each =
        |text: &str, write: &dyn Fn(u8) -> String| text.bytes().map(write).collect::<String>();
    let capitals = |write: &dyn Fn(u8) -> String| {
        each(secret, &|byte| match byte.is_ascii_uppercase() {
            true => write(byte),
            false => char::from(byte).to_string(),
        })
    };
    for name in [
        capitals(&|byte| format!("%{byte:02x}")),
        capitals(&|byte| format!("%25{byte:02x}")),
        capitals(&|byte| format!("\\u{byte:04x}")),
        capitals(&|byte| format!("&#{byte};")),
        each(secret, &|byte| format!("%{byte:02x}")),
        each(secret, &|byte| format!("%25{byte:02x}")),
        each(secret, &|byte| format!("%u{byte:04x}")),
        each(secret, &|byte| format!("\\u{byte:04x}")),
        each(secret, &|byte| format!("{byte}-")),
        each(secret, &|byte| format!("{byte:03}.")),
        each(secret, &|byte| format!("{byte:02x}")),
        each(&lower, &|byte| format!("%{byte:02x}")),
        each(&lower, &|byte| format!("{byte}-")),
        each(&lower, &|byte| format!("{byte:02x}-")),
        STANDARD.encode(&lower),
        lower,
    ] {
        let name = name.to_ascii_lowercase();
        assert_eq!(redactor.in_names(&["date", &format!("x-{name}")]), [false, true], "{name}");
        let (first, second) = name.split_at(name.len() / 2);
        assert_eq!(redactor.spanned(&[first, second]), [true, true], "{first}: {second}");
    }
}

#[test]
fn texts_whose_case_has_changed_are_seen_through() {
    let redactor = redactor(&[("KEY", "tokenABC12345xYz"), ("LOW", "lower-case-9")]);
    for (given, shown) in [
        (
            "https://tokenabc12345xyz.example is not granted",
            "https://[REDACTED:KEY].example is not granted",
        ),
        ("TOKENABC12345XYZ and tokenABC12345xYz", "[REDACTED:KEY] and [REDACTED:KEY]"),
        ("LOWER-CASE-9tokenabc12345xyz", "[REDACTED:LOW][REDACTED:KEY]"),
        ("häuser of token ABC", "häuser of token ABC"),
    ] {
        assert_eq!(redactor.text_of_any_case(given), shown);
    }
}

#[test]
fn a_value_that_spans_a_field_is_seen() {
    let redactor = redactor(&[("USER", "User7:pa55word-990"), ("PAIR", "left: right-and-more")]);
    let spans = |name, value| redactor.spanned(&[name, value]) == [true, true];
    assert!(spans("user7", "pa55word-990"));
    assert!(spans("x-user7", "pa55word-990 and more"));
    assert!(spans("user7:pa55", "word-990"));
    assert!(spans("user7%3a", "pa55word-990"));
    assert!(spans("left", "right-and-more"));
    assert!(!spans("user8", "pa55word-990"));
    assert!(!spans("date", "user7:pa55word-990"));
    assert!(!spans("user7:pa55word-990", "date"));
    // Over more than two: a name, what stands there, and the next name; or the other way round.
    assert_eq!(
        redactor.spanned(&["date", "x", "user7", "pa55", "word-990", "y"]),
        [false, false, true, true, true, false]
    );
    assert_eq!(redactor.spanned(&["a", "User7:", "pa55w", "ord-990"]), [false, true, true, true]);
    assert_eq!(redactor.spanned(&["user7:pa55word-990", "b", "c"]), [false; 3]);
}

/// A number that is too long to be a byte begins no value, however long it goes on.
#[test]
fn a_long_number_is_not_held_back() {
    let redactor = redactor(&[("KEY", "s3cr3t-key")]);
    for digit in ["1", "0", "f"] {
        let (mut stream, mut count) = (redactor.stream(), 0);
        for _ in 0..8 {
            count += stream.push(Bytes::from(digit.repeat(BLOCK_BYTES))).len();
            assert!(stream.held.len() < 100, "{digit}: {}", stream.held.len());
        }
        assert_eq!(count + stream.finish().len(), 8 * BLOCK_BYTES);
    }
    let one = [("KEY", "s3cr3t-key")];
    let rest = "51 99 114 51 116 45 107 101 121";
    check(&one, &format!("<{}115 {rest}>", "0".repeat(13)), "<[REDACTED:KEY]>");
    for before in ["0".repeat(14), "1".repeat(14), "9".repeat(40)] {
        let text = format!("<{before}115 {rest}>");
        check(&one, &text, &text);
    }
    let text = format!("<115 51 99 {}114 51 116 45 107 101 121>", "0".repeat(30));
    check(&one, &text, &text);
}

#[test]
fn zeros_are_seen_through_where_a_value_may_stand() {
    let one = [("KEY", "s3cr3t-key")];
    let wide = |text: &str, zeros: &str| -> String {
        text.chars().flat_map(|letter| [letter.to_string(), zeros.to_owned()]).collect()
    };
    for zeros in ["\0", "\0\0\0"] {
        let text = format!("\0a\0b\0{}\0\0c", wide("x s3cr3t-key y", zeros));
        let expected =
            format!("\0a\0b\0{}[REDACTED:KEY]{zeros}{}\0\0c", wide("x ", zeros), wide(" y", zeros));
        check(&one, &text, &expected);
        check(&one, &wide("s3cr3t-ke", zeros), &wide("s3cr3t-ke", zeros));
    }
    check(&one, &format!("s3cr{}3t-key", "\0".repeat(300)), "[REDACTED:KEY]");
    check(&one, "s3\0cr3t-\0key\0", "[REDACTED:KEY]\0");
}

/// Whoever sends a long value byte by byte, and never whole, does not make the host look at all of
/// it again for each.
#[test]
fn a_long_beginning_is_looked_at_seldom() {
    let long = "0123456789abcdef".repeat(500);
    let redactor = redactor(&[("KEY", &long)]);
    let (mut stream, mut out) = (redactor.stream(), Vec::new());
    let text = format!("{}!", &long[..long.len() - 1]);
    for byte in text.bytes() {
        out.extend_from_slice(&stream.push(Bytes::copy_from_slice(&[byte])));
    }
    assert!(stream.held.len() <= 2 * long.len());
    out.extend_from_slice(&stream.finish());
    assert_eq!(out, text.as_bytes());
}
