//! A client that says exactly what a test wants it to say.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lab::{Lab, Tested};

/// Longer than anything takes that is not stuck.
pub const PATIENCE: Duration = Duration::from_secs(900);

/// One connection to the program.
pub struct McpClient {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: mpsc::Receiver<Value>,
    /// Dropped to begin to read.
    gate: Option<mpsc::Sender<()>>,
    stderr: JoinHandle<String>,
    /// What came while something else was waited for.
    pub heard: Vec<Value>,
}

impl McpClient {
    /// A connection to `toolhost serve` in a lab.
    pub fn start<T: Tested>(lab: &Lab<T>, arguments: &[&str]) -> McpClient {
        let mut command = lab.command(T::builds().program());
        command.arg("serve").args(arguments);
        McpClient::with(command)
    }

    /// A connection that has begun in the older way.
    pub fn initialized<T: Tested>(lab: &Lab<T>, arguments: &[&str]) -> McpClient {
        let mut client = McpClient::start(lab, arguments);
        client.initialize();
        client
    }

    /// A connection to what a command runs.
    pub fn with(command: Command) -> McpClient {
        let mut client = McpClient::deaf(command);
        client.listen();
        client
    }

    /// A connection from which nothing is read until [`McpClient::listen`].
    pub fn deaf(mut command: Command) -> McpClient {
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
        McpClient { child, stdin, messages, gate: Some(gate), stderr, heard: Vec::new() }
    }

    /// Begins to read.
    pub fn listen(&mut self) {
        self.gate.take();
    }

    /// Begins in the older way; returns the answer.
    pub fn initialize(&mut self) -> Value {
        self.begin();
        self.answer("start")
    }

    /// Begins in the older way, and does not wait for an answer.
    pub fn begin(&mut self) {
        self.begin_with("2025-06-18");
    }

    /// Begins in the older way, with a revision.
    pub fn begin_with(&mut self, revision: &str) {
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

    /// Writes bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("an open stdin");
        stdin.write_all(bytes).and_then(|()| stdin.flush()).expect("written");
    }

    /// Says a line.
    pub fn say(&mut self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
    }

    /// Sends a request.
    pub fn ask(&mut self, id: impl Into<Value>, method: &str, parameters: Value) {
        let id: Value = id.into();
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters });
        self.say(&message.to_string());
    }

    /// Sends a request of a client of the newer era, which says with each who it is.
    pub fn ask_modern(&mut self, id: i64, method: &str, mut parameters: Value) {
        parameters["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        self.ask(id, method, parameters);
    }

    /// Sends a call of a tool.
    pub fn ask_tool(&mut self, id: i64, tool: &str, arguments: Value) {
        self.ask(id, "tools/call", json!({ "name": tool, "arguments": arguments }));
    }

    /// The program's process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the answer to a request.
    pub fn answer(&mut self, id: impl Into<Value>) -> Value {
        let id: Value = id.into();
        self.hear(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Waits for the answer to any of these requests, and takes its id out of them.
    pub fn answer_to_any(&mut self, open: &mut Vec<u64>) -> (u64, Value) {
        let place = |message: &Value| open.iter().position(|id| message["id"] == *id);
        let message = self.hear(|message| place(message).is_some());
        let place = place(&message).expect("one of them");
        let id = open.swap_remove(place);
        (id, message)
    }

    /// Waits for an error that answers what has no id that can be read.
    pub fn without_id(&mut self) -> Value {
        self.hear(|message| message.get("id").is_none() && message.get("error").is_some())
    }

    /// Waits for a notification.
    pub fn notification(&mut self, method: &str) -> Value {
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
    pub fn call(&mut self, id: i64, tool: &str, arguments: Value) -> Value {
        self.ask_tool(id, tool, arguments);
        self.answer(id)
    }

    /// The names of all tools, page by page, and how many pages there were.
    pub fn list(&mut self) -> (Vec<String>, usize) {
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
    pub fn try_say(&mut self, line: &str) -> bool {
        let stdin = self.stdin.as_mut().expect("an open stdin");
        writeln!(stdin, "{line}").is_ok()
    }

    /// Closes stdin.
    pub fn close(&mut self) {
        drop(self.stdin.take());
    }

    /// Closes stdin, and returns the exit code and what was logged.
    pub fn end(mut self) -> (i32, String) {
        self.close();
        self.wait()
    }

    /// Stops listening, so that the program has nobody to write to.
    pub fn deafen(&mut self) {
        // The thread that reads ends at the next message, and its pipe with it.
        self.messages = mpsc::channel().1;
    }

    /// Waits until the program has ended; returns the exit code and what was logged.
    pub fn wait(mut self) -> (i32, String) {
        let code = self.exit();
        (code, self.stderr.join().expect("stderr"))
    }

    /// Waits until the program has ended, and reads nothing of what it said.
    pub fn unread_end(mut self) -> i32 {
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
