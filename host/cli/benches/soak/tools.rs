//! The tools of a soak: good ones that must go on as ever, and hostile ones beside them.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolhost::{Host, HostSettings};
use toolhost_core::tool::{Code, Origin};
use toolhost_sources::folder::Folder;
use toolhost_state::config;
use toolhost_state::config::Config;
use toolhost_state::trust_store::{self, Pin};
use toolhost_testing::guests::made;
use toolhost_wasm::digest;

use crate::BUILDS;

/// Whose bounds a tool has to keep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    /// Every call answers, and soon.
    Good,
    /// Every call is stopped or refused in the foreseen way.
    Hostile,
}

/// How calls of one kind have to end.
#[derive(Clone, Copy)]
pub(crate) enum Ends {
    /// With an answer that contains this, for the call of this number.
    Answer(fn(u64) -> String),
    /// With any answer, or refused.
    Said,
    /// Stopped for one of these reasons, or refused.
    Stopped(&'static [Code]),
}

/// One tool, and how it is called.
pub(crate) struct SoakTool {
    pub(crate) nature: Nature,
    pub(crate) tool: String,
    /// Of two thousand calls so many, on average.
    pub(crate) weight: u32,
    pub(crate) arguments: fn(u64) -> String,
    pub(crate) ends: Ends,
}

/// The limits that differ from the defaults: loops end after a second, and each hostile plugin is
/// let out of quarantine every five seconds, so that hostile calls run all the time.
const LIMITS: &str = r#"[limits]
wall_time_max = "1s"
quarantine_time = "5s"
quarantine_time_max = "5s"
"#;

fn good(
    tool: &str,
    weight: u32,
    arguments: fn(u64) -> String,
    part: fn(u64) -> String,
) -> SoakTool {
    let ends = Ends::Answer(part);
    SoakTool { nature: Nature::Good, tool: tool.to_owned(), weight, arguments, ends }
}

/// Of 2,000 calls 1,900 are good, most of them short, and 100 hostile.
pub(crate) fn kinds() -> Vec<SoakTool> {
    let mut kinds = vec![
        good(
            "echo",
            500,
            |n| json!({ "text": format!("call {n}") }).to_string(),
            |n| format!(r#"{{"result":"call {n}"}}"#),
        ),
        good(
            "count_words",
            600,
            |n| json!({ "text": "word ".repeat((n % 20) as usize) }).to_string(),
            |n| format!(r#"{{"words":{}}}"#, n % 20),
        ),
        good(
            "json_query",
            100,
            |n| {
                json!({ "filter": ".a[] | select(.b > 1) | .c", "json": { "a": [{ "b": n + 2, "c": n }, { "b": 0 }] } }).to_string()
            },
            |n| format!(r#""results":[{n}]"#),
        ),
        good(
            "keep",
            100,
            |n| {
                json!({ "steps": [["set", format!("key {}", n % 100), format!("{n}")]] })
                    .to_string()
            },
            |_| "[null]".to_owned(),
        ),
        good(
            "read_file",
            100,
            |n| json!({ "path": "/data/lines.txt", "offset": n % 90 + 1, "limit": 3 }).to_string(),
            |n| format!("|line {}", n % 90 + 1),
        ),
    ];
    for (tool, weight, _, ends) in hostile() {
        let (nature, arguments): (_, fn(u64) -> String) = (Nature::Hostile, |_| "{}".to_owned());
        kinds.push(SoakTool { nature, tool: tool.to_owned(), weight, arguments, ends });
    }
    kinds
}

/// Tools that do the worst they can; each is a plugin of its own.
pub(crate) fn hostile() -> [(&'static str, u32, Value, Ends); 7] {
    [
        ("loops_for_ever", 20, json!({ "spin": 0 }), Ends::Stopped(&[Code::Deadline])),
        ("sleeps_for_ever", 20, json!({ "sleep": 0 }), Ends::Stopped(&[Code::Deadline])),
        ("panics", 20, json!({ "trap": "boo" }), Ends::Stopped(&[Code::Trap])),
        ("recurses_for_ever", 10, json!({ "recurse": 0 }), Ends::Stopped(&[Code::Trap])),
        (
            "floods_the_output",
            10,
            json!({ "repeat": ["0123456789abcdef", 1 << 20] }),
            Ends::Stopped(&[Code::OutputTooLarge]),
        ),
        ("floods_the_log", 15, json!({ "log": 10_000 }), Ends::Said),
        (
            "takes_all_memory",
            5,
            json!({ "grab": 0 }),
            Ends::Stopped(&[Code::Memory, Code::Deadline]),
        ),
    ]
}

/// A host with all of them, and what it lives in.
pub(crate) async fn host(home: &TempDir) -> Arc<Host> {
    let home = home.path().canonicalize().expect("a folder");
    let [plugins, data, state] = ["plugins", "data", "state"].map(|name| home.join(name));
    for folder in [&plugins, &data, &state] {
        fs::create_dir(folder).expect("a folder");
    }
    for id in ["probe", "json", "keeper", "files"] {
        fs::write(plugins.join(format!("{id}.wasm")), BUILDS.guest(id)).expect("written");
    }
    for (tool, _, answer, _) in hostile() {
        let description = json!({ "tools": [{ "name": tool, "answer": answer }] });
        let file = plugins.join(format!("{}.wasm", tool.replace('_', "-")));
        fs::write(file, made(BUILDS.guest("made"), &description)).expect("written");
    }
    let lines: String = (1..=100).map(|n| format!("line {n}\n")).collect();
    fs::write(data.join("lines.txt"), lines).expect("written");
    let digests = ["json", "files"].map(|id| (id.to_owned(), digest_of(&plugins, id)));
    trust_store::record_bundled(&state, &digests).expect("recorded");
    for id in ["keeper", "files"] {
        pin(&plugins, &state, id);
    }
    let grants = format!(
        "[plugins.keeper]\nkv = true\n[plugins.files]\ndirs = [\"{}=/data:ro\"]\n",
        data.display()
    );
    let config = config::parse(&format!("{LIMITS}{grants}"), &Config::default());
    let settings = HostSettings {
        folders: vec![Folder { path: plugins, origin: Origin::Project }],
        config: config.expect("a configuration"),
        compiler: Some(BUILDS.program().into()),
        state: Some(state),
        ..HostSettings::default()
    };
    let host = Host::start(settings).expect("a host");
    for status in host.loaded().await.iter() {
        assert!(status.state.is_ok(), "{status:?}");
    }
    Arc::new(host)
}

/// What `toolhost grant` remembers of the bytes that it grants something to.
fn pin(plugins: &Path, state: &Path, id: &str) {
    let digest = digest_of(plugins, id);
    let pin = Pin { folder: plugins.to_owned(), id: id.to_owned(), digest };
    trust_store::pin(state, &pin).expect("pinned");
}

fn digest_of(plugins: &Path, id: &str) -> String {
    let component = fs::read(plugins.join(format!("{id}.wasm"))).expect("a guest");
    digest(&component).to_string()
}
