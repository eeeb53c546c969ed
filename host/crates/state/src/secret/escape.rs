//! Escapes, as JSON, URLs, HTML and programs write characters: one at a time, read from bytes.

/// What stands at the beginning of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// No escape: the first byte stands for itself.
    Plain,
    /// It may become an escape when more bytes come.
    Unfinished,
    /// An escape of `length` bytes, for the first `count` of `bytes`.
    Escape {
        /// Of the escape.
        length: usize,
        /// What it stands for.
        bytes: [u8; 4],
        /// How many of them count.
        count: usize,
    },
}

/// The bytes with which an escape can begin.
pub(super) const FIRST: [u8; 3] = *b"%\\&";
/// The longest escape: two units of UTF-16.
pub(super) const LENGTH_MAX: usize = 12;
/// Digits of an entity, with zeros before them.
const ENTITY_DIGITS_MAX: usize = 8;
/// The entities that every writer of HTML and XML uses.
const ENTITIES: [(&[u8], u8); 5] =
    [(b"&amp;", b'&'), (b"&lt;", b'<'), (b"&gt;", b'>'), (b"&quot;", b'"'), (b"&apos;", b'\'')];

/// Reads what stands at the beginning of `rest`.
pub(super) fn step(rest: &[u8]) -> Step {
    match rest.first() {
        Some(b'%') => percent(rest),
        Some(b'\\') => backslash(rest),
        Some(b'&') => entity(rest),
        _ => Step::Plain,
    }
}

/// Reads what stands at the beginning of `rest`, where nothing follows it if `is_last`: then an
/// entity ends there that has no semicolon.
pub(super) fn step_to_end(rest: &[u8], is_last: bool) -> Step {
    match step(rest) {
        // Nothing that is longer is unfinished.
        Step::Unfinished if is_last && rest.len() < LENGTH_MAX => {
            let mut ended = [b' '; LENGTH_MAX];
            ended[..rest.len()].copy_from_slice(rest);
            step(&ended[..=rest.len()])
        }
        step => step,
    }
}

fn byte(length: usize, byte: u8) -> Step {
    Step::Escape { length, bytes: [byte, 0, 0, 0], count: 1 }
}

fn character(length: usize, number: u32) -> Step {
    let Some(character) = char::from_u32(number) else { return Step::Plain };
    let mut bytes = [0; 4];
    let count = character.encode_utf8(&mut bytes).len();
    Step::Escape { length, bytes, count }
}

/// Some digits at a place, as a number; or what follows from there being others.
fn digits(rest: &[u8], at: usize, count: usize, radix: u32) -> Result<u32, Step> {
    let mut number = 0;
    for place in at..at + count {
        let Some(byte) = rest.get(place) else { return Err(Step::Unfinished) };
        let digit = char::from(*byte).to_digit(radix).ok_or(Step::Plain)?;
        number = number * radix + digit;
    }
    Ok(number)
}

fn one(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// `%61`, `%u0061`.
fn percent(rest: &[u8]) -> Step {
    let read = match rest.get(1) {
        Some(b'u' | b'U') => return unit(rest),
        _ => digits(rest, 1, 2, 16),
    };
    read.map_or_else(|step| step, |number| byte(3, one(number)))
}

/// `\u0061`, `\u{61}`, `\x61`, `\141`, `\n`, `\"`.
fn backslash(rest: &[u8]) -> Step {
    match rest.get(1) {
        None => Step::Unfinished,
        Some(b'u') if rest.get(2) == Some(&b'{') => braces(rest),
        Some(b'u' | b'U') => unit(rest),
        Some(b'x' | b'X') => {
            digits(rest, 2, 2, 16).map_or_else(|step| step, |number| byte(4, one(number)))
        }
        Some(b'0'..=b'3') => {
            digits(rest, 1, 3, 8).map_or_else(|step| step, |number| byte(4, one(number)))
        }
        Some(b'n') => byte(2, b'\n'),
        Some(b'r') => byte(2, b'\r'),
        Some(b't') => byte(2, b'\t'),
        Some(b'b') => byte(2, 8),
        Some(b'f') => byte(2, 12),
        Some(same) if same.is_ascii_punctuation() => byte(2, *same),
        Some(_) => Step::Plain,
    }
}

/// A unit of UTF-16 behind two bytes, or two that are one character.
fn unit(rest: &[u8]) -> Step {
    let first = match digits(rest, 2, 4, 16) {
        Ok(first) => first,
        Err(step) => return step,
    };
    if !(0xd800..0xdc00).contains(&first) {
        return character(6, first);
    }
    match (rest.get(6), rest.get(7)) {
        (None, _) => return Step::Unfinished,
        (Some(mark), _) if *mark != rest[0] => return Step::Plain,
        (_, None) => return Step::Unfinished,
        (_, Some(b'u' | b'U')) => {}
        _ => return Step::Plain,
    }
    match digits(rest, 8, 4, 16) {
        Ok(second @ 0xdc00..0xe000) => {
            character(12, 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
        }
        Ok(_) => Step::Plain,
        Err(step) => step,
    }
}

fn braces(rest: &[u8]) -> Step {
    for count in 0..=6 {
        match rest.get(3 + count) {
            None => return Step::Unfinished,
            Some(b'}') if count > 0 => {
                let number = digits(rest, 3, count, 16);
                return number.map_or_else(|step| step, |number| character(4 + count, number));
            }
            Some(byte) if byte.is_ascii_hexdigit() => {}
            Some(_) => return Step::Plain,
        }
    }
    Step::Plain
}

/// `&#97;`, `&#x61;`, either without its semicolon, `&amp;`.
fn entity(rest: &[u8]) -> Step {
    if rest.get(1).is_some_and(|byte| *byte != b'#') {
        for (name, stands_for) in ENTITIES {
            if rest.starts_with(name) {
                return byte(name.len(), stands_for);
            }
            if name.starts_with(rest) {
                return Step::Unfinished;
            }
        }
        return Step::Plain;
    }
    let (start, radix) = match rest.get(2) {
        None => return Step::Unfinished,
        Some(b'x' | b'X') => (3, 16),
        Some(_) => (2, 10),
    };
    let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
    let count = rest[start..].iter().take(ENTITY_DIGITS_MAX).take_while(is_digit).count();
    let end = start + count;
    match (rest.get(end), digits(rest, start, count, radix)) {
        (None, _) if count < ENTITY_DIGITS_MAX => Step::Unfinished,
        (_, Err(step)) => step,
        (_, Ok(_)) if count == 0 => Step::Plain,
        (None, _) => Step::Unfinished,
        (Some(after), Ok(number)) => character(end + usize::from(*after == b';'), number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_whole() {
        for (escape, expected) in [
            ("%61", "a"),
            ("%u0061", "a"),
            (r"\u0061", "a"),
            (r"\U00fc", "ü"),
            (r"\ud83d\ude00", "\u{1f600}"),
            (r"\u{1f600}", "\u{1f600}"),
            (r"\x61", "a"),
            (r"\141", "a"),
            (r"\n", "\n"),
            (r"\/", "/"),
            (r"\\", r"\"),
            ("&#97;", "a"),
            ("&#0097;", "a"),
            ("&#x1F600;", "\u{1f600}"),
            ("&amp;", "&"),
            ("&quot;", "\""),
        ] {
            let Step::Escape { length, bytes, count } = step(escape.as_bytes()) else {
                panic!("{escape}: {:?}", step(escape.as_bytes()));
            };
            assert_eq!((length, &bytes[..count]), (escape.len(), expected.as_bytes()), "{escape}");
            assert!(length <= LENGTH_MAX);
            for end in 1..escape.len() {
                assert_eq!(step(&escape.as_bytes()[..end]), Step::Unfinished, "{escape} {end}");
            }
        }
        for plain in ["%6x", "%ux", r"\q", r"\u00g0", r"\ud83d.", r"\udc00", r"\u{110000}", "& b"] {
            assert_eq!(step(plain.as_bytes()), Step::Plain, "{plain}");
        }
        assert_eq!(step(b"&#97 "), step(b"&#97&"));
        for entity in ["&#97", "&#x61", "&#00000097", "&#x00000061"] {
            let Step::Escape { length, bytes, .. } = step_to_end(entity.as_bytes(), true) else {
                panic!("{entity}");
            };
            assert_eq!((length, bytes[0]), (entity.len(), b'a'), "{entity}");
            assert_eq!(step_to_end(entity.as_bytes(), false), Step::Unfinished, "{entity}");
        }
        for plain in
            ["%6", "%u006", r"\", r"\u006", r"\ud83d", r"\ud83d\ude0", "&", "&#", "&#x", "&am"]
        {
            assert_eq!(step_to_end(plain.as_bytes(), true), Step::Plain, "{plain}");
        }
    }
}
