//! A project of a thousand plugins that nobody has trusted, half of them scripts, as the program's own
//! commands and one client of `serve` see it, also beside cores that are kept busy.
//!
//! Bounds: every plugin is loaded, and each of its tools is listed and answers; after a flood of calls that
//! take all they can, and half a minute of rest, the program has at most 64 MiB more than before.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Options;
use crate::guests::{build_rust, made};
use crate::tools::hostile;
use crate::vitals::resident_mib;

/// Longer than anything takes that is not stuck.
const PATIENCE: Duration = Duration::from_secs(1_800);
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
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let tools = runtime.block_on(project(&home, options.plugins));
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
async fn project(home: &Path, plugins: usize) -> BTreeSet<String> {
    let [guests, folder] = [home.join("guests"), home.join("project/plugins")];
    for folder in [&guests, &folder] {
        fs::create_dir_all(folder).expect("a folder");
    }
    fs::write(home.join("toolhost.toml"), CONFIGURATION).expect("written");
    build_rust("tests/guests", &guests).await;
    let component = fs::read(guests.join("made.wasm")).expect("a guest");
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
    let mut program = Command::new(env!("CARGO_BIN_EXE_toolhost"));
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
    let mut client = StdioClient::start(home);
    let mut names = client.names();
    println!("serve: {} tools after {:.1} s", names.len(), start.elapsed().as_secs_f64());
    while !tools.is_subset(&names) && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(250));
        names = client.names();
    }
    println!("serve: {} tools after {:.1} s", names.len(), start.elapsed().as_secs_f64());
    let start = Instant::now();
    let calls: Vec<_> = tools.iter().map(|tool| (tool.as_str(), json!({ "text": tool }))).collect();
    let answers = client.calls(&calls);
    let is_right = |(tool, answer): &(&String, String)| answer.contains(tool.as_str());
    let wrong: Vec<_> = tools.iter().zip(answers).filter(|pair| !is_right(pair)).collect();
    let time = start.elapsed().as_secs_f64();
    println!("serve: {} tools answered in {time:.1} s", tools.len() - wrong.len());
    if let Some((tool, answer)) = wrong.first() {
        broken.push(format!("{} tools did not answer; the first, {tool}: {answer}", wrong.len()));
    }
    let before = client.resident_mib();
    let greedy = (0..FLOOD).flat_map(|_| hostile().map(|(tool, ..)| (tool, json!({}))));
    let flood: Vec<_> = greedy.collect();
    let start = Instant::now();
    let answers = client.calls(&flood);
    let time = start.elapsed().as_secs_f64();
    let most = client.resident_mib();
    std::thread::sleep(REST);
    let after = client.resident_mib();
    println!(
        "memory: {before:.1} MiB before {} greedy calls of {time:.1} s, {most:.1} MiB after them, {after:.1} MiB after {} s of rest",
        answers.len(),
        REST.as_secs(),
    );
    if after > before + GROWTH_MIB_MAX {
        broken.push(format!("memory grew from {before:.1} MiB to {after:.1} MiB"));
    }
    println!("serve: ended {:.1} s after its stdin", client.end().as_secs_f64());
}

/// A client that calls by stdio.
struct StdioClient {
    child: Child,
    stdin: ChildStdin,
    messages: Receiver<Value>,
    next: u64,
}

impl StdioClient {
    fn start(home: &Path) -> StdioClient {
        let mut command = program(home, "serve");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program");
        let (stdin, stdout) = (child.stdin.take().expect("stdin"), child.stdout.take());
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout.expect("stdout")).lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).expect("JSON");
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut client = StdioClient { child, stdin, messages, next: 0 };
        let id = client.ask(
            "initialize",
            &json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": { "name": "soak", "version": "1" },
            }),
        );
        client.answer(&mut vec![id]);
        client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").expect("it reads");
    }

    fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// The next answer to one of these requests, with the id that it takes out of them.
    fn answer(&mut self, open: &mut Vec<u64>) -> (u64, Value) {
        loop {
            let message = self.messages.recv_timeout(PATIENCE).expect("an answer");
            let place = open.iter().position(|id| message["id"] == *id);
            if let Some(place) = place {
                return (open.swap_remove(place), message);
            }
        }
    }

    /// The names of all pages.
    fn names(&mut self) -> BTreeSet<String> {
        let (mut names, mut cursor) = (BTreeSet::new(), Value::Null);
        loop {
            let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
            let id = self.ask("tools/list", &params);
            let (_, answer) = self.answer(&mut vec![id]);
            let tools = answer["result"]["tools"].as_array().expect("tools");
            names.extend(tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)));
            cursor = answer["result"]["nextCursor"].clone();
            if cursor.is_null() {
                return names;
            }
        }
    }

    /// Calls each of these; returns what they answered, in the same order.
    fn calls(&mut self, calls: &[(&str, Value)]) -> Vec<String> {
        let (mut open, mut answers) = (Vec::new(), vec![String::new(); calls.len()]);
        let first = self.next + 1;
        let mut left = calls.iter();
        loop {
            while open.len() < AT_ONCE
                && let Some((tool, arguments)) = left.next()
            {
                let params = json!({ "name": tool, "arguments": arguments });
                open.push(self.ask("tools/call", &params));
            }
            if open.is_empty() {
                return answers;
            }
            let (id, message) = self.answer(&mut open);
            answers[(id - first) as usize] = message.to_string();
        }
    }

    fn resident_mib(&self) -> f64 {
        resident_mib(&self.child.id().to_string())
    }

    /// Closes its stdin; returns how long it took to end.
    fn end(self) -> Duration {
        let StdioClient { mut child, stdin, .. } = self;
        let start = Instant::now();
        drop(stdin);
        child.wait().expect("it ends");
        start.elapsed()
    }
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
