//! A project of a thousand plugins that nobody has trusted, half of them scripts, as the program's own
//! commands and one client of `serve` see it, also beside cores that are kept busy.
//!
//! Bounds: every plugin is loaded, and each of its tools is listed and answers; after a flood of calls that
//! take all they can, and half a minute of rest, the program has at most 64 MiB more than before.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolhost_testing::client::{McpClient, PATIENCE};
use toolhost_testing::guests::made;

use crate::tools::hostile;
use crate::vitals::resident_mib;
use crate::{BUILDS, Options};

/// Calls of the client at once.
const AT_ONCE: usize = 32;
/// Calls of each greedy tool.
const FLOOD: usize = 60;
const REST: Duration = Duration::from_secs(30);
const GROWTH_MIB_MAX: f64 = 64.0;
/// Greedy tools are called again and again, so none of them is quarantined.
const CONFIGURATION: &str = "[limits]\nwall_time_max = \"5s\"\nquarantine_failures_max = 100\n";

/// Returns the bounds that were not kept, as sentences.
pub(crate) fn run(options: &Options) -> Vec<String> {
    let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = home.expect("a folder");
    let home = folder.path().canonicalize().expect("a folder");
    let tools = project(&home, options.plugins);
    println!(
        "many: {} plugins, {} threads keep cores busy, {} cores",
        options.plugins,
        options.busy,
        std::thread::available_parallelism().map_or(1, usize::from),
    );
    let busy = Busy::start(options.busy);
    let mut broken = Vec::new();
    for what in ["cold", "again"] {
        listed(&home, &tools, what, &mut broken);
    }
    served(&home, &tools, &mut broken);
    busy.end();
    broken
}

/// Writes the plugins; returns the names of the tools that have to answer.
fn project(home: &Path, plugins: usize) -> BTreeSet<String> {
    let folder = home.join("project/plugins");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(home.join("toolhost.toml"), CONFIGURATION).expect("written");
    let component = BUILDS.guest("made");
    let component = |name: &str, answer: &Value| {
        let tool = json!({ "name": name, "description": "Says it.", "answer": answer });
        made(component.clone(), &json!({ "name": name, "tools": [tool] }))
    };
    for (tool, _, answer, _) in hostile() {
        let file = folder.join(format!("{}.wasm", tool.replace('_', "-")));
        fs::write(file, component(tool, &answer)).expect("written");
    }
    let mut tools = BTreeSet::new();
    for number in 0..plugins {
        let tool = format!("tool_{number}");
        let (extension, text) = match number % 4 {
            1 => ("py", python(&tool).into_bytes()),
            3 => ("js", javascript(&tool).into_bytes()),
            _ => ("wasm", component(&tool, &json!("echo"))),
        };
        fs::write(folder.join(format!("p{number}.{extension}")), text).expect("written");
        tools.insert(tool);
    }
    tools
}

fn python(tool: &str) -> String {
    format!(
        "from toolhost import tool\n\n\n@tool\ndef {tool}(text: str) -> str:\n    \"\"\"Says it.\"\"\"\n    return text\n"
    )
}

fn javascript(tool: &str) -> String {
    format!(
        "import {{ tool }} from 'toolhost-sdk';\n\n/**\n * Says it.\n *\n * @param {{string}} text The text.\n */\nexport function {tool}({{ text }}) {{\n  return text;\n}}\n\ntool({tool});\n"
    )
}

fn program(home: &Path, command: &str) -> Command {
    let mut program = Command::new(BUILDS.program());
    program.arg(command).current_dir(home.join("project"));
    program.env("TOOLHOST_HOME", home).env_remove("TOOLHOST_CACHE");
    program
}

/// One `toolhost list`.
fn listed(home: &Path, tools: &BTreeSet<String>, what: &str, broken: &mut Vec<String>) {
    let start = Instant::now();
    let output = program(home, "list").arg("--json").output().expect("the program");
    let time = start.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&output.stdout);
    let missing: Vec<_> =
        tools.iter().filter(|tool| !text.contains(&format!("\"{tool}\""))).collect();
    println!("list, {what}: {} tools in {time:.1} s", tools.len() - missing.len());
    if let Some(first) = missing.first() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said: String = said.chars().take(2_000).collect();
        broken.push(format!("{} tools are not listed, the first {first}: {said}", missing.len()));
    }
}

/// One client of `toolhost serve`.
fn served(home: &Path, tools: &BTreeSet<String>, broken: &mut Vec<String>) {
    let start = Instant::now();
    let mut client = McpClient::with(program(home, "serve"));
    client.initialize();
    let mut found = names(&mut client);
    println!("serve: {} tools after {:.1} s", found.len(), start.elapsed().as_secs_f64());
    while !tools.is_subset(&found) && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(250));
        found = names(&mut client);
    }
    println!("serve: {} tools after {:.1} s", found.len(), start.elapsed().as_secs_f64());
    let start = Instant::now();
    let wanted: Vec<_> =
        tools.iter().map(|tool| (tool.as_str(), json!({ "text": tool }))).collect();
    let answers = calls(&mut client, 0, &wanted);
    let is_right = |(tool, answer): &(&String, String)| answer.contains(tool.as_str());
    let wrong: Vec<_> = tools.iter().zip(answers).filter(|pair| !is_right(pair)).collect();
    let time = start.elapsed().as_secs_f64();
    println!("serve: {} tools answered in {time:.1} s", tools.len() - wrong.len());
    if let Some((tool, answer)) = wrong.first() {
        broken.push(format!("{} tools did not answer; the first, {tool}: {answer}", wrong.len()));
    }
    let before = resident_mib(&client.id().to_string());
    let greedy = (0..FLOOD).flat_map(|_| hostile().map(|(tool, ..)| (tool, json!({}))));
    let flood: Vec<_> = greedy.collect();
    let start = Instant::now();
    let answers = calls(&mut client, wanted.len() as u64, &flood);
    let time = start.elapsed().as_secs_f64();
    let most = resident_mib(&client.id().to_string());
    std::thread::sleep(REST);
    let after = resident_mib(&client.id().to_string());
    println!(
        "memory: {before:.1} MiB before {} greedy calls of {time:.1} s, {most:.1} MiB after them, {after:.1} MiB after {} s of rest",
        answers.len(),
        REST.as_secs(),
    );
    if after > before + GROWTH_MIB_MAX {
        broken.push(format!("memory grew from {before:.1} MiB to {after:.1} MiB"));
    }
    let start = Instant::now();
    client.end();
    println!("serve: ended {:.1} s after its stdin", start.elapsed().as_secs_f64());
}

/// Calls each of these; returns what they answered, in the same order.
fn calls(client: &mut McpClient, first: u64, calls: &[(&str, Value)]) -> Vec<String> {
    let (mut open, mut answers) = (Vec::new(), vec![String::new(); calls.len()]);
    let mut left = (first..).zip(calls);
    loop {
        while open.len() < AT_ONCE
            && let Some((id, (tool, arguments))) = left.next()
        {
            client.ask(id, "tools/call", json!({ "name": tool, "arguments": arguments }));
            open.push(id);
        }
        if open.is_empty() {
            return answers;
        }
        let (id, message) = client.answer_to_any(&mut open);
        answers[(id - first) as usize] = message.to_string();
    }
}

/// The names of all pages.
fn names(client: &mut McpClient) -> BTreeSet<String> {
    client.list().0.into_iter().collect()
}

/// Threads that keep cores busy.
struct Busy {
    is_over: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Busy {
    fn start(threads: usize) -> Busy {
        let is_over = Arc::new(AtomicBool::new(false));
        let spin = |_| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..threads).map(spin).collect();
        Busy { is_over, threads }
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("a loop does not panic");
        }
    }
}
