//! From a saved file to its new answer, with the event of the file system: a Rust component whose
//! bytes are new, also as `toolhost dev` compiles it, one whose compiled code is kept, a script, and
//! a self-contained component of one, as `toolhost dev` compiles it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use toolhost::{Host, HostSettings};
use toolhost_core::tool::{Call, Origin};
use toolhost_sources::folder::Folder;
use toolhost_sources::reload::SourceStatus;
use toolhost_wasm::script::Language;

use crate::guests::{BUILDS, Guests};
use crate::table::Table;

const ROUNDS: usize = 200;
const BUDGET: Duration = Duration::from_millis(100);
/// Of a component with a whole interpreter.
const LARGE_BUDGET: Duration = Duration::from_secs(2);
const LARGE_ROUNDS: usize = 6;
/// How long a host may take to see a change, and to compile a runner.
const PATIENCE: Duration = Duration::from_secs(300);

/// A host on one plugin, which is saved again and again.
struct Saving {
    home: TempDir,
    host: Host,
    file: PathBuf,
    /// The tool that is called, and with what.
    call: (&'static str, &'static str),
    /// What is saved is the user's own, as in `toolhost dev`.
    own: bool,
}

impl Saving {
    /// The first build is loaded already.
    async fn start(name: &str, first: &[u8], runner: Option<&Path>) -> Saving {
        let home = tempfile::tempdir().expect("a folder");
        let [plugins, state] = ["plugins", "state"].map(|name| home.path().join(name));
        for folder in [&plugins, &state] {
            fs::create_dir(folder).expect("a folder");
        }
        let file = plugins.join(name);
        fs::write(&file, first).expect("written");
        let settings = HostSettings {
            folders: vec![Folder { path: plugins, origin: Origin::Project }],
            cache: Some(home.path().join("cache")),
            compiler: Some(BUILDS.program().into()),
            runners: runner
                .map(|path| (Language::Python, vec![path.to_owned()]))
                .into_iter()
                .collect(),
            state: Some(state),
            ..HostSettings::default()
        };
        let host = Host::start(settings).expect("a host");
        for status in host.loaded().await.iter() {
            assert!(status.state.is_ok(), "{status:?}");
        }
        Saving { home, host, file, call: ("say", "{}"), own: false }
    }

    /// Saves a build as editors do, and returns the time until it has answered this.
    async fn save(&self, bytes: &[u8], answer: &str) -> Duration {
        let (mut generations, mut sources) = (self.host.subscribe(), self.host.sources());
        let part = self.home.path().join("plugins/.part");
        let start = Instant::now();
        fs::write(&part, bytes).expect("written");
        if self.own {
            self.host.own(&part).await.expect("it can be read");
        }
        fs::rename(part, &self.file).expect("renamed");
        let changed = tokio::time::timeout(PATIENCE, generations.changed()).await;
        changed.expect("seen").expect("a host");
        let outcome = self.host.call(Call::new(self.call.0, self.call.1)).await;
        let time = start.elapsed();
        assert!(outcome.to_json_text().contains(answer), "{answer}: {outcome:?}");
        // It is remembered too, so that the next one finds a host at rest.
        let digest = self.host.catalog().find(self.call.0).and_then(|entry| entry.digest.clone());
        let is_told = |status: &SourceStatus| {
            let serving = status.serving().map(|ready| Arc::clone(&ready.facts.digest));
            !status.loading && serving == digest
        };
        let told = sources.wait_for(|shown| shown.statuses.iter().all(is_told));
        tokio::time::timeout(PATIENCE, told).await.expect("told").expect("a host");
        time
    }
}

pub(crate) async fn run(table: &mut Table, guests: &Guests) {
    self_contained(table, guests).await;
    let component = |answer: &str| {
        let tool = json!({ "name": "say", "answer": { "text": answer } });
        guests.made(&json!({ "tools": [tool] }))
    };
    let mut saving = Saving::start("say.wasm", &component("build 0"), None).await;
    let mut times = Vec::new();
    for round in 1..=ROUNDS {
        let answer = format!("build {round}");
        times.push(saving.save(&component(&answer), &answer).await);
    }
    // The first reload starts what the others find. The old build serves meanwhile.
    table.row("reload: a Rust component, compiled", &mut times[1..], None);
    times.clear();
    saving.own = true;
    for round in 1..=ROUNDS {
        let answer = format!("own build {round}");
        times.push(saving.save(&component(&answer), &answer).await);
    }
    table.row_within("reload: a Rust component, in `dev`", &mut times[1..], BUDGET);
    saving.own = false;
    times.clear();
    for round in 0..ROUNDS {
        let answer = format!("build {}", round % 2);
        times.push(saving.save(&component(&answer), &answer).await);
    }
    table.row_within("reload: a Rust component, code kept", &mut times[1..], BUDGET);
    script(table).await;
}

/// A component with an interpreter of Python.
async fn self_contained(table: &mut Table, guests: &Guests) {
    // A custom section makes another build of it.
    let component = guests.component("words-py");
    let build = |round: u8| [&component[..], &[0, 3, 1, b'x', round]].concat();
    let mut saving = Saving::start("words.wasm", &build(0), None).await;
    (saving.call, saving.own) = (("count_words_py", r#"{"text": "a b"}"#), true);
    let mut times = Vec::new();
    for round in 1..=LARGE_ROUNDS {
        times.push(saving.save(&build(round as u8), "2").await);
    }
    table.row_within("reload: a Python component, in `dev`", &mut times[1..], LARGE_BUDGET);
}

/// A script in Python, if its runner lies beside the program, where `make` puts it.
async fn script(table: &mut Table) {
    let runner = BUILDS.program().with_file_name("runners/python.wasm");
    if !runner.is_file() {
        let runner = runner.display();
        table.note(&format!("reload: a Python script: skipped, there is no {runner}"));
        return;
    }
    let text = |answer: &str| {
        format!(
            "from toolhost import tool\n\n\n@tool()\ndef say() -> str:\n    \"\"\"Says something.\"\"\"\n    return \"{answer}\"\n"
        )
    };
    let start = Instant::now();
    let saving = Saving::start("say.py", text("build 0").as_bytes(), Some(&runner)).await;
    let first = start.elapsed();
    let mut times = Vec::new();
    for round in 1..=ROUNDS {
        let answer = format!("build {round}");
        times.push(saving.save(text(&answer).as_bytes(), &answer).await);
    }
    table.row_within("reload: a Python script", &mut times[1..], BUDGET);
    table.note(&format!("reload: the runner was compiled once, in {:.1} s", first.as_secs_f64()));
}
