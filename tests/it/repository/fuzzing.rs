//! Every fuzz target on its corpus and on seeded mutations of it: the same inputs each time, so a
//! failure is a failure everywhere. `make fuzz` looks further.

#[path = "../../fuzz/targets.rs"]
mod targets;

use crate::support::component;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use toolhost_core::limits::Limits;
use toolhost_state::audit::{self, Audit, AuditSettings, LoadEvent, TrustEvent};

use crate::support::Lab;
use targets::{TARGETS, image, plugin_with};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/corpus");

/// The seeds of a target: what stands in the corpus, sorted.
fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(Path::new(CORPUS).join(name)).expect("a corpus");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{name} has no seeds");
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).expect("a seed");
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}

/// Runs a target on its seeds, and on so many mutations of each.
fn fuzz(name: &str, mutations: u64) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target");
    let seeds = corpus(name);
    let run = |input: &[u8], what: &str| {
        if catch_unwind(|| target(input)).is_err() {
            let found = std::env::temp_dir().join(format!("toolhost-fuzz-{name}"));
            fs::write(&found, input).expect("written");
            panic!("{name} fails on {what}; it is in {}", found.display());
        }
    };
    for (path, seed) in &seeds {
        run(seed, &path.display().to_string());
    }
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for (path, seed) in &seeds {
        for number in 0..mutations {
            let mut input = seed.clone();
            for _ in 0..=number % 6 {
                mutate(&mut input, &seeds, &mut random);
            }
            run(&input, &format!("mutation {number} of {}", path.display()));
        }
    }
}

/// Numbers at the edge of what fields of binary formats can hold.
const EDGES: [&[u8]; 5] =
    [&[0xff; 4], &[0; 4], &[0xff, 0xff, 0xff, 0x7f], &[0x80, 0x80, 0x80, 0x80, 0x10], &[0; 16]];

/// Changes an input in one of the ways in which files break and people break files.
fn mutate(input: &mut Vec<u8>, seeds: &[(PathBuf, Vec<u8>)], random: &mut ChaCha8Rng) {
    let at = random.random_range(0..=input.len());
    let length = random.random_range(0..=32).min(input.len() - at);
    match random.random_range(0..8) {
        0 if at < input.len() => input[at] ^= 1 << random.random_range(0..8),
        1 if at < input.len() => input[at] = random.random(),
        2 => drop(input.drain(at..at + length)),
        3 => input.truncate(at),
        4 => {
            let piece = input[at..at + length].to_vec();
            let to = random.random_range(0..=input.len());
            drop(input.splice(to..to, piece));
        }
        5 => {
            let edge = EDGES[random.random_range(0..EDGES.len())];
            let end = (at + edge.len()).min(input.len());
            drop(input.splice(at..end, edge.iter().copied()));
        }
        6 => {
            let (_, other) = &seeds[random.random_range(0..seeds.len())];
            let from = random.random_range(0..=other.len());
            let piece = other[from..other.len().min(from + 64)].to_vec();
            drop(input.splice(at..at, piece));
        }
        _ => input.insert(at, random.random()),
    }
}

#[test]
fn components() {
    fuzz("component", 10_000);
}

#[test]
fn registrations() {
    fuzz("registration", 3_000);
}

#[test]
fn configurations() {
    fuzz("configuration", 10_000);
}

#[test]
fn locks() {
    fuzz("lock", 10_000);
}

#[test]
fn arguments() {
    fuzz("arguments", 10_000);
}

#[test]
fn schemas() {
    fuzz("schema", 5_000);
}

#[test]
fn audit_logs() {
    fuzz("audit", 10_000);
}

/// Seeds of plugins are made, so that they follow the contract; `UPDATE_EXPECT=1` writes them.
#[test]
fn made_seeds_are_what_they_are_made_of() {
    let image = image();
    let made = [("registration/whole", image.clone()), ("component/whole", plugin_with(&image))];
    for (path, bytes) in made {
        let path = Path::new(CORPUS).join(path);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, &bytes).expect("written");
        }
        assert!(fs::read(&path).expect("a seed") == bytes, "{} is old", path.display());
    }
}

/// A seed that nothing accepts would hold every target up at its door.
#[tokio::test]
async fn the_made_seed_is_a_whole_plugin() {
    let lab = Lab::new().with("x.wasm", plugin_with(&image()));
    assert_eq!(lab.status("x.wasm").await, "tools: echo");
    let statuses = lab.host().await.loaded().await;
    let ready = statuses[0].state.as_ref().expect("it loads");
    assert_eq!((ready.needs.len(), ready.facts.extensions().len()), (1, 1));
}

/// So would a log in which nothing is right; `UPDATE_EXPECT=1` writes another.
#[test]
fn the_made_log_is_whole() {
    let path = Path::new(CORPUS).join("audit/whole");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let state = tempfile::tempdir().expect("a folder");
        for what in ["plugin:weather", "mcp:github"] {
            let audit = Audit::open(AuditSettings::new(state.path(), &Limits::default()));
            audit.note(TrustEvent {
                what: what.to_owned(),
                folder: None,
                digest: "ab12".to_owned(),
                by: "cli",
            });
            audit.note(LoadEvent {
                place: "/p/plugins/weather.wasm".to_owned(),
                source: None,
                digest: Some("ab12".into()),
                origin: Some("project"),
                tools: 1,
                reason: None,
                waits: Some("nobody has looked".to_owned()),
                serving: Some("cd34".into()),
            });
        }
        fs::copy(audit::folder(state.path()).join("audit.jsonl"), &path).expect("copied");
    }
    let log = fs::File::open(&path).expect("a seed");
    let verified = audit::verify([("whole".to_owned(), log)]);
    assert_eq!((verified.records, verified.chains, verified.problems.len()), (4, 2, 0));
}
