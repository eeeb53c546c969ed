//! Taking secrets out of a response while it streams by.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use toolhost_state::secret::{Redactor, SecretValue};

use crate::table::Table;

const BODY_BYTES: usize = 4 << 20;
const CHUNK_BYTES: usize = 16 << 10;
/// How far apart secrets stand in a body that has any.
const HIT_EVERY_BYTES: usize = 64 << 10;
/// Bytes a second, in the decimal megabytes that networks are sold by.
const MEGABYTES_PER_SECOND_MIN: f64 = 500.0;

pub(crate) fn run(table: &mut Table) {
    for count in [1, 4, 16] {
        let values: Vec<(String, SecretValue)> = (0..count).map(secret).collect();
        let secrets: Vec<_> = values.iter().map(|(name, value)| (&**name, value)).collect();
        let redactor = Redactor::new(&secrets);
        let clean = body();
        let mut hit = clean.clone();
        for (place, (_, value)) in
            (0..BODY_BYTES - CHUNK_BYTES).step_by(HIT_EVERY_BYTES).zip(values.iter().cycle())
        {
            // Across the border of two chunks.
            let start = place + CHUNK_BYTES - 10;
            let value = value.expose().as_bytes();
            hit[start..start + value.len()].copy_from_slice(value);
        }
        for (body, what) in [(clean, "clean"), (hit, "a hit every 64 KiB")] {
            let name = format!("redact: {count} secrets, {what}");
            stream(table, &name, &redactor, &Bytes::from(body));
        }
    }
}

fn stream(table: &mut Table, name: &str, redactor: &Redactor, body: &Bytes) {
    let mut times = Vec::new();
    for _ in 0..100 {
        let mut stream = redactor.stream();
        let start = Instant::now();
        for place in (0..body.len()).step_by(CHUNK_BYTES) {
            black_box(stream.push(body.slice(place..place + CHUNK_BYTES)));
        }
        black_box(stream.finish());
        times.push(start.elapsed());
    }
    table.row_at_least(name, &mut times, BODY_BYTES, MEGABYTES_PER_SECOND_MIN);
}

/// Secrets as services give them out, of four kinds.
fn secret(index: usize) -> (String, SecretValue) {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut random = ChaCha8Rng::seed_from_u64(index as u64);
    let mut letters = |count, from: &[u8]| -> String {
        (0..count).map(|_| char::from(from[random.random_range(0..from.len())])).collect()
    };
    let value = match index % 4 {
        0 => format!("ghp_{}", letters(36, &LETTERS[..62])),
        1 => letters(32, b"0123456789abcdef"),
        2 => format!("{}=", letters(43, LETTERS)),
        _ => format!("https://hooks.example.com/{}", letters(24, &LETTERS[..62])),
    };
    (format!("SECRET_{index}"), SecretValue::new(value).expect("a value"))
}

/// A body as an interface of the web answers: names, numbers, addresses, digests, base64.
fn body() -> Vec<u8> {
    let mut random = ChaCha8Rng::seed_from_u64(1_000);
    let mut text = String::new();
    while text.len() < BODY_BYTES {
        let (id, digest) = (random.random::<u32>(), random.random::<u128>());
        writeln!(
            text,
            "{{\"id\": {id}, \"name\": \"item {}\", \"url\": \"https://api.example.com/items/{id}\", \
             \"sha\": \"{digest:032x}\", \"content\": \"aGVsbG8gd29ybGQh{}\"}},",
            random.random::<u8>(),
            random.random::<u64>(),
        )
        .expect("a text grows");
    }
    text.truncate(BODY_BYTES);
    text.into_bytes()
}
