//! Random values in random forms, in random surroundings and chunks: whoever undoes the form on
//! what comes out does not find the value, and what has no value comes out as it was.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::*;

const ROUNDS: usize = 320;

/// A way to write a value, and to read what was written so.
struct Way {
    write: fn(&mut ChaCha8Rng, &[u8]) -> Vec<u8>,
    read: fn(&[u8]) -> Vec<u8>,
}

const WAYS: [Way; 8] = [
    Way { write: |_, value| value.to_vec(), read: <[u8]>::to_vec },
    Way { write: percent, read: |text| percent_encoding::percent_decode(text).collect() },
    Way { write: json, read: unescaped },
    Way {
        write: |random, value| {
            let once = json(random, value);
            json(random, &once)
        },
        read: |text| unescaped(&unescaped(text)),
    },
    Way { write: entities, read: resolved },
    Way { write: hexadecimal, read: numbers },
    Way {
        write: decimal,
        read: |text| {
            text.split(|byte| !byte.is_ascii_digit())
                .filter_map(|number| str::from_utf8(number).ok()?.parse::<u8>().ok())
                .collect()
        },
    },
    Way { write: base64, read: unwrapped },
];

fn percent(random: &mut ChaCha8Rng, value: &[u8]) -> Vec<u8> {
    let often = [0.1, 0.5, 1.0][random.random_range(0..3)];
    let write = |byte: &u8| match random.random_bool(often) || !byte.is_ascii_alphanumeric() {
        true if random.random_bool(0.5) => format!("%{byte:02x}").into_bytes(),
        true => format!("%{byte:02X}").into_bytes(),
        false => vec![*byte],
    };
    value.iter().flat_map(write).collect()
}

fn json(random: &mut ChaCha8Rng, value: &[u8]) -> Vec<u8> {
    let often = [0.1, 0.5, 1.0][random.random_range(0..3)];
    let mut text = String::new();
    for character in String::from_utf8_lossy(value).chars() {
        if random.random_bool(often) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                text += &match random.random_bool(0.5) {
                    true => format!("\\u{unit:04x}"),
                    false => format!("\\u{unit:04X}"),
                };
            }
        } else if matches!(character, '"' | '\\') {
            text.extend(['\\', character]);
        } else {
            text.push(character);
        }
    }
    text.into_bytes()
}

/// As a reader of JSON does it that takes what is no escape as it is.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let text: Vec<char> = String::from_utf8_lossy(text).chars().collect();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let unit = || {
            let digits: String = text.get(at + 2..at + 6)?.iter().collect();
            u16::from_str_radix(&digits, 16).ok()
        };
        match (text[at], text.get(at + 1)) {
            ('\\', Some('u')) if unit().is_some() => {
                out.extend(unit());
                at += 6;
            }
            ('\\', Some(next)) if "\"\\/".contains(*next) => {
                out.extend_from_slice(next.encode_utf16(&mut [0; 2]));
                at += 2;
            }
            (other, _) => {
                out.extend_from_slice(other.encode_utf16(&mut [0; 2]));
                at += 1;
            }
        }
    }
    String::from_utf16_lossy(&out).into_bytes()
}

fn entities(random: &mut ChaCha8Rng, value: &[u8]) -> Vec<u8> {
    let often = [0.1, 0.5, 1.0][random.random_range(0..3)];
    let mut text = String::new();
    for character in String::from_utf8_lossy(value).chars() {
        let number = u32::from(character);
        match character {
            '&' => text += "&amp;",
            _ if random.random_bool(often) && random.random_bool(0.5) => {
                text += &format!("&#{number};");
            }
            _ if random.random_bool(often) => text += &format!("&#x{number:X};"),
            other => text.push(other),
        }
    }
    text.into_bytes()
}

fn resolved(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text).into_owned();
    let mut parts = text.split('&');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(';').unwrap_or(("", part));
        let number = match name.strip_prefix("#x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => name.strip_prefix('#').and_then(|digits| digits.parse().ok()),
        };
        match number.and_then(char::from_u32) {
            Some(character) => {
                out.push(character);
                out += rest;
            }
            None if name == "amp" => {
                out.push('&');
                out += rest;
            }
            None => {
                out.push('&');
                out += part;
            }
        }
    }
    out.into_bytes()
}

fn hexadecimal(random: &mut ChaCha8Rng, value: &[u8]) -> Vec<u8> {
    let gaps = [
        "",
        ":",
        "-",
        " ",
        ", ",
        "\n",
        ",\n        ",
        "\\x",
        "%",
        "\",\"",
        "], [x",
        " + ",
        "'), ('",
        "][",
    ];
    let (gap, upper) = (gaps[random.random_range(0..gaps.len())], random.random_bool(0.5));
    let write = |byte: &u8| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
    value.iter().map(write).collect::<Vec<_>>().join(gap).into_bytes()
}

/// All digits that stand there, in pairs.
fn numbers(text: &[u8]) -> Vec<u8> {
    let digits: Vec<u32> = text.iter().filter_map(|byte| char::from(*byte).to_digit(16)).collect();
    let pairs = |from: usize| -> Vec<u8> {
        digits[from.min(digits.len())..]
            .chunks_exact(2)
            .map(|pair| (pair[0] * 16 + pair[1]) as u8)
            .collect()
    };
    [pairs(0), pairs(1)].concat()
}

fn decimal(random: &mut ChaCha8Rng, value: &[u8]) -> Vec<u8> {
    let gap = [",", ", ", " ", "\n", ",\n  "][random.random_range(0..5)];
    value.iter().map(u8::to_string).collect::<Vec<_>>().join(gap).into_bytes()
}

fn base64(random: &mut ChaCha8Rng, value: &[u8]) -> Vec<u8> {
    let mut around = |most| -> Vec<u8> {
        (0..random.random_range(0..most)).map(|_| random.random_range(b' '..b'~')).collect()
    };
    let whole = [around(80), value.to_vec(), around(80)].concat();
    let text = match random.random_range(0..4) {
        0 => STANDARD.encode(whole),
        1 => STANDARD_NO_PAD.encode(whole),
        2 => URL_SAFE.encode(whole),
        _ => URL_SAFE_NO_PAD.encode(whole),
    };
    let width = [2, 5, 11, 60, 64, 76, 10_000][random.random_range(0..7)];
    let gap = ["\n", "\r\n", "\n    ", " "][random.random_range(0..4)];
    let lines: Vec<&[u8]> = text.as_bytes().chunks(width).collect();
    lines.join(gap.as_bytes())
}

/// What stands there in base64, read at each place as if it began there.
fn unwrapped(text: &[u8]) -> Vec<u8> {
    let number = |byte: &u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    };
    let mut digits: Vec<u32> = text.iter().filter_map(number).map(u32::from).collect();
    // As if there were no end.
    digits.extend([0; 4]);
    let read = |from: usize| -> Vec<u8> {
        let four = digits[from.min(digits.len())..].chunks_exact(4);
        four.flat_map(|four| {
            let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit);
            bits.to_be_bytes()[1..].to_vec()
        })
        .collect()
    };
    (0..4).flat_map(read).collect()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn random_value(random: &mut ChaCha8Rng) -> String {
    let letters: Vec<char> = [
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
        "0123456789abcdef",
        "ab",
        "aB3+/=%\\\"&;#.-_ xu04ü€😀",
    ][random.random_range(0..4)]
    .chars()
    .collect();
    let length = [8..12, 20..60, 20..60, 200..400][random.random_range(0..4)].clone();
    let length = random.random_range(length);
    let inner: String =
        (0..length).map(|_| letters[random.random_range(0..letters.len())]).collect();
    format!("k{inner}z")
}

fn surroundings(random: &mut ChaCha8Rng) -> Vec<u8> {
    let pieces = [
        "words of a text, ",
        "{\"a\": [1, 2, 3]}",
        "\n",
        " ",
        "%20",
        "\\n",
        "\\\"",
        "&amp; ",
        "&",
        "\\",
        "%",
        "00 11 22 ",
        "c2VjcmV0\n",
        "https://example.com/?q=%41&r=",
        "2026-01-01T00:00:00",
    ];
    (0..random.random_range(0..12))
        .flat_map(|_| pieces[random.random_range(0..pieces.len())].bytes())
        .collect()
}

#[test]
fn nobody_reads_a_value_in_any_form() {
    let mut random = ChaCha8Rng::seed_from_u64(16);
    for round in 0..ROUNDS {
        let secret = random_value(&mut random);
        let redactor = redactor(&[("KEY", &secret)]);
        let Way { write, read } = &WAYS[round % WAYS.len()];
        let mut text = surroundings(&mut random);
        // What ends a surrounding must not be a part of the form.
        text.push(b'|');
        let form = write(&mut random, secret.as_bytes());
        assert!(contains(&read(&form), secret.as_bytes()), "{round}: {secret}");
        text.extend_from_slice(&form);
        text.push(b'|');
        text.extend(surroundings(&mut random));
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let whole = redactor.bytes(&text).into_owned();
        assert!(
            contains(&whole, b"[REDACTED:KEY]") || contains(&whole, NAMELESS.as_bytes()),
            "{round}: {secret} is in {}",
            shown(&text)
        );
        assert!(
            !contains(&read(&whole), secret.as_bytes()),
            "{round}: {secret} is in {}",
            shown(&whole)
        );
        for _ in 0..3 {
            let most = [2, 12, 100, 1_000][random.random_range(0..4)];
            let lengths: Vec<usize> =
                (0..text.len()).map(|_| random.random_range(0..most)).collect();
            let chunked = in_chunks(&redactor, &text, lengths.iter().copied());
            assert_eq!(shown(&chunked), shown(&whole), "{round}: {} in {lengths:?}", shown(&text));
        }
    }
}

/// Nothing of a value comes out before it is known to be none: a stream that ends in the middle of
/// it has shown nothing of it until then.
#[test]
fn a_beginning_is_held_back_in_any_form() {
    let mut random = ChaCha8Rng::seed_from_u64(17);
    for round in 0..ROUNDS {
        let secret = random_value(&mut random);
        let redactor = redactor(&[("KEY", &secret)]);
        let Way { write, .. } = &WAYS[round % WAYS.len()];
        let form = write(&mut random, secret.as_bytes());
        // Base64 has something else around the value.
        if round % WAYS.len() == WAYS.len() - 1 {
            continue;
        }
        let text = [b"|", &form[..form.len() - 1]].concat();
        let mut stream = redactor.stream();
        let mut out = Vec::new();
        for byte in &text {
            out.extend_from_slice(&stream.push(Bytes::copy_from_slice(&[*byte])));
        }
        assert!(out.len() <= 1, "{round}: {secret}: {}", String::from_utf8_lossy(&out));
        out.extend_from_slice(&stream.finish());
        assert!(out.len() >= text.len().min(8), "{round}: {secret}");
    }
}

#[test]
fn what_has_no_value_stays_as_it_is() {
    let mut random = ChaCha8Rng::seed_from_u64(18);
    let values: Vec<String> = (0..6).map(|_| random_value(&mut random)).collect();
    let secrets: Vec<(&str, &str)> = ["A", "B", "C", "D", "E", "F"]
        .into_iter()
        .zip(values.iter().map(|value| &**value))
        .collect();
    let redactor = redactor(&secrets);
    let other = random_value(&mut random);
    for round in 0..ROUNDS {
        let mut text = surroundings(&mut random);
        let other = &other.as_bytes()[..random.random_range(0..other.len())];
        text.extend((WAYS[round % WAYS.len()].write)(
            &mut random,
            &String::from_utf8_lossy(other).into_owned().into_bytes(),
        ));
        text.extend((0..random.random_range(0..200)).map(|_| random.random::<u8>()));
        assert!(matches!(redactor.bytes(&text), Cow::Borrowed(_)), "{round}");
        let chunked = in_chunks(&redactor, &text, (0..text.len()).map(|_| 5));
        assert_eq!(chunked, text, "{round}");
    }
}
