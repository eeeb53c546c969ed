//! The patterns of a schema: how large they are compiled, before the validator compiles them.
//!
//! A pattern runs in time linear in its input, but with every state of its automaton as the
//! factor. So states are counted, and all patterns of a schema share one bound on memory.

use std::collections::HashMap;

use regex_automata::nfa::thompson;
use serde_json::Value;

use super::expand::{is_list, is_map, is_one};
use super::{Expensive, SchemaError};
use toolhost_core::limits::Limits;
use toolhost_core::runtime::Stop;

/// Memory of one compiled `pattern`, and of its cache.
pub(super) const PATTERN_MEMORY_BYTES_MAX: usize = 1 << 20;
/// What a matcher keeps of one automaton: itself, its reverse, and a cache for running it.
const COPIES: u64 = 6;
/// What a matcher holds beside, however short its pattern is.
const MATCHER_BYTES: u64 = 6 << 10;
/// What is said of a pattern that was not looked at; such a schema is not compiled.
const STATES_UNKNOWN: u64 = 100_000;

/// Steps, some nanoseconds each, that reading all patterns of a schema may take.
const READ_STEPS_MAX: u64 = 4_000_000;
/// What one class such as `\s` is written out as, in bytes. The pattern is read anew after each.
const CLASS_BYTES: u64 = 170;
/// Steps of making one class of Unicode's, such as `\p{L}`.
const UNICODE_STEPS: u64 = 4_000;
/// Steps of making any class without regard to case.
const CASELESS_STEPS: u64 = 16_000;

/// States of each pattern of a schema.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    states: HashMap<String, u64>,
    /// Memory of all of them, about.
    pub(super) bytes: u64,
    /// Steps of reading all of them, at most.
    read_steps: u64,
    stop: Stop,
}

impl Patterns {
    /// Compiles every pattern of a schema without references, each once.
    pub(super) fn of(
        schema: &Value,
        limits: &Limits,
        stop: &Stop,
    ) -> Result<Patterns, SchemaError> {
        let mut patterns = Patterns { stop: stop.clone(), ..Patterns::default() };
        patterns.collect(schema, &mut Vec::new(), limits.schema_patterns_bytes_max.0)?;
        Ok(patterns)
    }

    /// States of a pattern: the most steps for each byte that it is matched against.
    pub(super) fn states(&self, pattern: &str) -> u64 {
        self.states.get(pattern).copied().unwrap_or(STATES_UNKNOWN)
    }

    fn collect<'a>(
        &mut self,
        schema: &'a Value,
        path: &mut Vec<&'a str>,
        allowed: u64,
    ) -> Result<(), SchemaError> {
        let Value::Object(members) = schema else { return Ok(()) };
        for (key, value) in members {
            path.push(key);
            match value {
                Value::String(pattern) if key == "pattern" => {
                    self.add(pattern, key, path, allowed)?;
                }
                Value::Object(schemas) if is_map(key) => {
                    for (name, schema) in schemas {
                        if key == "patternProperties" {
                            self.add(name, key, path, allowed)?;
                        }
                        path.push(name);
                        self.collect(schema, path, allowed)?;
                        path.pop();
                    }
                }
                Value::Array(schemas) if is_list(key) => {
                    schemas.iter().try_for_each(|schema| self.collect(schema, path, allowed))?;
                }
                schema if is_one(key) => self.collect(schema, path, allowed)?,
                _ => {}
            }
            path.pop();
        }
        Ok(())
    }

    fn add(
        &mut self,
        pattern: &str,
        keyword: &str,
        path: &[&str],
        allowed: u64,
    ) -> Result<(), SchemaError> {
        if self.states.contains_key(pattern) {
            return Ok(());
        }
        super::check(&self.stop)?;
        let too_large = || SchemaError::PatternsTooLarge {
            at: Expensive::new(keyword, path.iter().copied()),
            allowed,
        };
        self.read_steps = self.read_steps.saturating_add(read_steps(pattern));
        if self.read_steps > READ_STEPS_MAX {
            return Err(SchemaError::PatternsTooDear(Expensive::new(
                keyword,
                path.iter().copied(),
            )));
        }
        let left = allowed.saturating_sub(self.bytes) / COPIES;
        let size_max = PATTERN_MEMORY_BYTES_MAX.min(usize::try_from(left).unwrap_or(usize::MAX));
        let invalid = || super::invalid::pattern(keyword, path, pattern);
        let translated = jsonschema_regex::to_rust_regex(pattern).map_err(|()| invalid())?;
        let mut compiler = thompson::Compiler::new();
        compiler.configure(thompson::Config::new().nfa_size_limit(Some(size_max)));
        match compiler.build(&translated) {
            Ok(automaton) => {
                // A prefix, a word or a choice of words is compared as text, without an automaton.
                self.bytes += match jsonschema_regex::analyze_pattern(pattern) {
                    Some(_) => pattern.len() as u64,
                    None => MATCHER_BYTES + automaton.memory_usage() as u64 * COPIES,
                };
                self.states.insert(pattern.to_owned(), automaton.states().len() as u64);
                Ok(())
            }
            Err(error) if error.size_limit().is_some() => Err(too_large()),
            Err(_) => Err(invalid()),
        }
    }
}

/// How many steps it takes at most to read a pattern, before anything of it is compiled.
fn read_steps(pattern: &str) -> u64 {
    let count = |text: &str| pattern.matches(text).count() as u64;
    let escapes = count("\\");
    let read_once = pattern.len() as u64 + CLASS_BYTES * escapes;
    let is_caseless = pattern.split("(?").skip(1).any(|flags| {
        flags.chars().take_while(|flag| flag.is_ascii_alphabetic()).any(|flag| flag == 'i')
    });
    let classes = escapes + count("[") + count(".");
    let dear = (count("\\p") + count("\\P")) * UNICODE_STEPS
        + if is_caseless { (classes + pattern.len() as u64 / 16) * CASELESS_STEPS } else { 0 };
    (1 + escapes) * read_once + dear
}
