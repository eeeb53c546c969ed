//! Schemas and values that a seeded generator makes as nasty as it can: preparing one and checking
//! the other stays within a stated multiple, which the kernel enforces. Each pair is handed to the
//! process that checks, with as much memory as is stated, and so many CPU seconds that a slow machine
//! has enough, and work without bounds has not.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};
use toolhost_core::json::Size;
use toolhost_core::limits::Limits;
use toolhost_kernel::checker::CHECK_COMMAND;
use toolhost_schema::schema::{self, QUICK_WORK_MAX, Schema};

/// What the program itself takes, mapped.
const PROGRAM_BYTES: u64 = 320 << 20;
/// Of memory, for each byte of the limit on expanded schemas and on their patterns.
const BYTES_FOR_SCHEMA: u64 = 12;
/// Of memory, for each byte of the value's text.
const BYTES_FOR_VALUE: u64 = 100;
/// Steps within a CPU second on a machine a hundred times slower than usual ones.
const STEPS_A_SECOND: u64 = 1_000_000;
const PAIRS: u64 = 400;
/// Of the text of what is copied, in one place.
const COPIED_BYTES: usize = 20_000;

struct Generator {
    random: ChaCha8Rng,
}

impl Generator {
    fn below(&mut self, count: usize) -> usize {
        self.random.random_range(0..count.max(1))
    }

    /// A schema with so many levels below.
    fn schema(&mut self, levels: usize) -> Value {
        let mut members = Map::new();
        for _ in 0..1 + self.below(3) {
            let (key, value) = self.keyword(levels);
            members.insert(key.to_owned(), value);
        }
        Value::Object(members)
    }

    /// A schema, and how often it may be copied at most.
    fn copied(&mut self, levels: usize, most: usize) -> (Value, usize) {
        let one = self.schema(levels);
        let room = 1 + COPIED_BYTES / one.to_string().len();
        let count = 1 + self.below(most.min(room));
        (one, count)
    }

    fn schemas(&mut self, levels: usize, most: usize) -> Value {
        let (one, count) = self.copied(levels, most);
        vec![one; count].into()
    }

    fn named(&mut self, levels: usize, most: usize, name: impl Fn(usize) -> String) -> Value {
        let (one, count) = self.copied(levels, most);
        Value::Object((0..count).map(|n| (name(n), one.clone())).collect())
    }

    fn keyword(&mut self, levels: usize) -> (&'static str, Value) {
        let deeper = levels.saturating_sub(1);
        let leaf = levels == 0;
        match self.below(if leaf { 7 } else { 22 }) {
            0 => ("type", json!(["array", "object", "string", "integer"])),
            1 => {
                let count = 1 + self.below(600);
                ("enum", (0..count).map(|n| json!([n, "v"])).collect())
            }
            2 => {
                let count = self.below(800);
                let pattern = match self.below(4) {
                    0 => format!("(?:{}){{0}}", r"\s".repeat(count / 8)),
                    1 => format!("(?:{}){{0}}", r"\p{L}{0}".repeat(count / 40)),
                    _ => format!("^[ab]*a[ab]{{{count}}}c"),
                };
                ("pattern", json!(pattern))
            }
            3 => ("required", (0..self.below(300)).map(|n| json!(format!("k{n}"))).collect()),
            4 => ("uniqueItems", json!(true)),
            5 => ("$ref", json!(format!("#/$defs/d{}", self.below(8)))),
            6 => ("multipleOf", json!(1e-7)),
            7 | 8 => ("anyOf", self.schemas(deeper, 40)),
            9 => ("allOf", self.schemas(deeper, 12)),
            10 => ("oneOf", self.schemas(deeper, 12)),
            11 => ("not", self.schema(deeper)),
            12 | 13 => ("items", self.schema(deeper)),
            14 => ("contains", self.schema(deeper)),
            15 => {
                let long = if self.below(4) == 0 { self.below(300) } else { 0 };
                ("properties", self.named(deeper, 30, |n| format!("k{}{n}", "k".repeat(long))))
            }
            16 => {
                let pattern = |n| format!("^[ab]*a[ab]{{{n}}}");
                ("patternProperties", self.named(deeper, 20, pattern))
            }
            17 => ("additionalProperties", self.schema(deeper)),
            18 => ("propertyNames", self.schema(deeper)),
            19 => ("if", self.schema(deeper)),
            20 => ("unevaluatedProperties", self.schema(deeper)),
            _ => ("unevaluatedItems", self.schema(deeper)),
        }
    }

    fn root(&mut self) -> Value {
        let mut root = self.schema(4);
        root["type"] = json!("object");
        let defs = (0..8).map(|n| {
            let mut schema = self.schema(2);
            // The laughs: each twice the next.
            if self.below(2) == 0 && n < 7 {
                schema["allOf"] = json!([{ "$ref": format!("#/$defs/d{}", n + 1) }, {
                    "$ref": format!("#/$defs/d{}", n + 1)
                }]);
            }
            (format!("d{n}"), schema)
        });
        root["$defs"] = Value::Object(defs.collect());
        root
    }

    /// A value with so many levels below.
    fn value(&mut self, levels: usize, wide: usize) -> Value {
        match self.below(if levels == 0 { 3 } else { 6 }) {
            0 => json!(1e300),
            1 => json!("ab".repeat(self.below(wide * 8))),
            2 => json!({}),
            3 | 4 => {
                let one = self.value(levels - 1, wide / 3);
                (0..self.below(wide)).map(|_| one.clone()).collect()
            }
            _ => {
                let one = self.value(levels - 1, wide / 3);
                let named = |n| (format!("k{n}"), one.clone());
                Value::Object((0..self.below(wide)).map(named).collect())
            }
        }
    }
}

/// What the process says within these limits: a verdict, or why it refuses the schema.
fn checked(schema: &str, value: &str, cpu_seconds: u64, memory: u64) -> Result<u8, String> {
    let limits = Limits::default();
    let head = [
        cpu_seconds,
        memory,
        limits.schema_expanded_bytes_max.0,
        limits.schema_patterns_bytes_max.0,
        schema.len() as u64,
    ];
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolhost"))
        .arg(CHECK_COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    let mut stdin = child.stdin.take().expect("its input");
    let input =
        [&head.map(u64::to_le_bytes).concat(), schema.as_bytes(), value.as_bytes()].concat();
    // A process that refuses the schema does not read the value.
    let _ = stdin.write_all(&input);
    drop(stdin);
    let (mut stdout, mut stderr) = (Vec::new(), String::new());
    child.stdout.take().expect("stdout").read_to_end(&mut stdout).expect("an answer");
    child.stderr.take().expect("stderr").read_to_string(&mut stderr).expect("a reason");
    let end = child.wait().expect("an end");
    match stdout.first() {
        Some(verdict) => Ok(*verdict),
        None if end.code() == Some(1) => Err(stderr),
        None => panic!("{end}: {stderr}\n{schema}\n{}", &value[..value.len().min(2_000)]),
    }
}

#[test]
fn work_stays_within_a_stated_multiple() {
    let limits = Limits::default();
    let mut generator = Generator { random: ChaCha8Rng::seed_from_u64(7) };
    let (mut verdicts, mut refusals) = (0, 0);
    for _ in 0..PAIRS {
        let schema = generator.root().to_string();
        let value = generator.value(4, 60);
        let text = value.to_string();
        let memory = PROGRAM_BYTES
            + BYTES_FOR_SCHEMA
                * (limits.schema_expanded_bytes_max.0 + limits.schema_patterns_bytes_max.0)
            + BYTES_FOR_VALUE * text.len() as u64;
        let compiled = schema::parse(&schema, &limits)
            .and_then(|schema| Schema::compile(&schema, &limits))
            .map_err(|error| error.to_string());
        let work = compiled.as_ref().map_or(0, |compiled| compiled.work(Size::of(&value)));
        if schema.len() > limits.schema_bytes_max.as_usize() || work > 100 * QUICK_WORK_MAX {
            continue;
        }
        let verdict = checked(&schema, &text, 10 + work / STEPS_A_SECOND, memory);
        match (verdict, &compiled) {
            (Ok(verdict), Ok(compiled)) => {
                assert_eq!(verdict == b'+', compiled.fits(&value), "{schema}");
                verdicts += 1;
            }
            (Err(_), Err(_)) => refusals += 1,
            (verdict, _) => panic!("{verdict:?}, here {compiled:?}: {schema}"),
        }
    }
    assert!(verdicts > 50, "{verdicts} verdicts, {refusals} refusals");
}
