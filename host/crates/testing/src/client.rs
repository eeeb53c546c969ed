//! A client that says exactly what a test wants it to say.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::Lab;

/// Longer than anything takes that is not stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(900);

/// One connection to the program.
pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: mpsc::Receiver<Value>,
    /// Dropped to begin to read.
    gate: Option<mpsc::Sender<()>>,
    stderr: JoinHandle<String>,
    /// What came while something else was waited for.
    pub(crate) heard: Vec<Value>,
}

impl Client {
    pub(crate) fn start(lab: &Lab, arguments: &[&str]) -> Client {
        let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
        command.arg("serve").args(arguments);
        Client::with(command)
    }

    /// A connection that has begun in the older way.
    pub(crate) fn initialized(lab: &Lab, arguments: &[&str]) -> Client {
        let mut client = Client::start(lab, arguments);
        client.initialize();
        client
    }

    pub(crate) fn with(command: Command) -> Client {
        let mut client = Client::deaf(command);
        client.listen();
        client
    }

    /// A connection from which nothing is read until [`Client::listen`].
    pub(crate) fn deaf(mut command: Command) -> Client {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("stdout"));
        let mut stderr = child.stderr.take().expect("stderr");
        let (sender, messages) = mpsc::channel();
        let (gate, begins) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            // Also when the client is gone.
            let _ = begins.recv();
            for line in BufReader::new(stdout).lines() {
                let line = line.expect("a line");
                let message: Value = serde_json::from_str(&line).expect("nothing but messages");
                assert_eq!(message["jsonrpc"], "2.0", "{line}");
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).expect("UTF-8");
            text
        });
        Client { child, stdin, messages, gate: Some(gate), stderr, heard: Vec::new() }
    }

    /// Begins to read.
    pub(crate) fn listen(&mut self) {
        self.gate.take();
    }

    pub(crate) fn initialize(&mut self) -> Value {
        self.begin();
        self.answer("start")
    }

    /// Begins in the older way, and does not wait for an answer.
    pub(crate) fn begin(&mut self) {
        self.begin_with("2025-06-18");
    }

    /// Begins in the older way, with a revision.
    pub(crate) fn begin_with(&mut self, revision: &str) {
        self.ask(
            "start",
            "initialize",
            json!({
                "protocolVersion": revision,
                "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            }),
        );
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("an open stdin");
        stdin.write_all(bytes).and_then(|()| stdin.flush()).expect("written");
    }

    pub(crate) fn say(&mut self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
    }

    /// Sends a request.
    pub(crate) fn ask(&mut self, id: impl Into<Value>, method: &str, parameters: Value) {
        let id: Value = id.into();
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters });
        self.say(&message.to_string());
    }

    /// Sends a request of a client of the newer era, which says with each who it is.
    pub(crate) fn ask_modern(&mut self, id: i64, method: &str, mut parameters: Value) {
        parameters["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        self.ask(id, method, parameters);
    }

    pub(crate) fn ask_tool(&mut self, id: i64, tool: &str, arguments: Value) {
        self.ask(id, "tools/call", json!({ "name": tool, "arguments": arguments }));
    }

    /// The program's process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the answer to a request.
    pub(crate) fn answer(&mut self, id: impl Into<Value>) -> Value {
        let id: Value = id.into();
        self.hear(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Waits for an error that answers what has no id that can be read.
    pub(crate) fn without_id(&mut self) -> Value {
        self.hear(|message| message.get("id").is_none() && message.get("error").is_some())
    }

    /// Waits for a notification.
    pub(crate) fn notification(&mut self, method: &str) -> Value {
        self.hear(|message| message["method"] == method)
    }

    fn hear(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.heard.iter().position(&is_meant) {
            return self.heard.remove(place);
        }
        let start = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(start.elapsed());
            match self.messages.recv_timeout(left) {
                Ok(message) if is_meant(&message) => return message,
                Ok(message) => self.heard.push(message),
                Err(error) => panic!("{error}; heard: {:#?}", self.heard),
            }
        }
    }

    /// Calls a tool and returns what came of it.
    pub(crate) fn call(&mut self, id: i64, tool: &str, arguments: Value) -> Value {
        self.ask_tool(id, tool, arguments);
        self.answer(id)
    }

    /// The names of all tools, page by page, and how many pages there were.
    pub(crate) fn list(&mut self) -> (Vec<String>, usize) {
        let (mut names, mut pages, mut parameters) = (Vec::new(), 0, json!({}));
        loop {
            pages += 1;
            let id = format!("page {pages}");
            self.ask(id.as_str(), "tools/list", parameters);
            let page = self.answer(id.as_str());
            let tools = page["result"]["tools"].as_array().unwrap_or_else(|| panic!("{page}"));
            names
                .extend(tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()));
            match page["result"].get("nextCursor") {
                Some(cursor) => parameters = json!({ "cursor": cursor }),
                None => return (names, pages),
            }
        }
    }

    /// Says a line, and tells whether anybody was there.
    pub(crate) fn try_say(&mut self, line: &str) -> bool {
        let stdin = self.stdin.as_mut().expect("an open stdin");
        writeln!(stdin, "{line}").is_ok()
    }

    /// Closes stdin.
    pub(crate) fn close(&mut self) {
        drop(self.stdin.take());
    }

    /// Closes stdin, and returns the exit code and what was logged.
    pub(crate) fn end(mut self) -> (i32, String) {
        self.close();
        self.wait()
    }

    /// Stops listening, so that the program has nobody to write to.
    pub(crate) fn deafen(&mut self) {
        // The thread that reads ends at the next message, and its pipe with it.
        self.messages = mpsc::channel().1;
    }

    pub(crate) fn wait(mut self) -> (i32, String) {
        let code = self.exit();
        (code, self.stderr.join().expect("stderr"))
    }

    /// Waits until the program has ended, and reads nothing of what it said.
    pub(crate) fn unread_end(mut self) -> i32 {
        self.exit()
    }

    fn exit(&mut self) -> i32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status.code().expect("an exit code");
            }
            assert!(start.elapsed() < PATIENCE, "the program does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
