//! A guest with a tool for everything a call can do, good and bad.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use toolhost_sdk::bindings::toolhost::plugin::progress;
use toolhost_sdk::{
    Context, Error, Json, Need, Output, Structured, arguments, log, plugin, private, tool,
};

#[arguments]
struct Nothing {}

#[arguments]
struct Text {
    /// Any text.
    text: String,
}

#[arguments]
struct Amount {
    /// How much.
    n: u64,
}

/// A kind of thing.
#[arguments]
enum Kind {
    /// A small one.
    Small,
    /// A large one.
    Large,
}

/// Every kind of argument, to look at the schema.
#[arguments]
struct Every {
    /// A text.
    text: String,
    /// A kind.
    kind: Kind,
    /// A number with a default.
    #[serde(default = "seven")]
    count: u8,
    /// A list that may be left out.
    list: Option<Vec<f64>>,
}

fn seven() -> u8 {
    7
}

#[arguments(allow_unknown_fields)]
struct Open {
    text: String,
}

#[derive(private::serde::Serialize, private::schemars::JsonSchema)]
#[serde(crate = "toolhost_sdk::private::serde")]
#[schemars(crate = "toolhost_sdk::private::schemars")]
struct Sum {
    sum: u64,
}

/// Returns the text.
#[tool(toolset = "probe", read_only, example = (r#"{"text": "hello"}"#, "hello"))]
fn echo(arguments: Text) -> Result<String, Error> {
    Ok(arguments.text)
}

/// Takes every kind of argument.
#[tool(toolset = "probe", emoji = "🧪", max_result_size_chars = 9)]
fn every(arguments: Every) -> Result<Json<Value>, Error> {
    let kind = match arguments.kind {
        Kind::Small => "small",
        Kind::Large => "large",
    };
    let Every { text, count, list, .. } = arguments;
    Ok(Json(json!({ "text": text, "kind": kind, "count": count, "list": list })))
}

/// Takes any further argument.
#[tool(toolset = "probe")]
fn open(arguments: Open) -> Result<String, Error> {
    Ok(arguments.text)
}

/// Returns the text as a block that claims to be JSON.
#[tool(toolset = "probe")]
fn claim_json(arguments: Text) -> Result<Output, Error> {
    Ok(Output::empty().with_json_text(arguments.text))
}

/// Returns one block of each kind.
#[tool(toolset = "probe")]
fn blocks(_: Nothing) -> Result<Output, Error> {
    Ok(Output::empty()
        .with_text("text")
        .with_json(&json!({ "a": 1 }))?
        .with_image("image/png", vec![1, 2, 3])
        .with_audio("audio/wav", vec![4])
        .with_resource("file:///x", Some("text/plain"), Some("inside".to_owned())))
}

/// Returns structured output that matches its schema.
#[tool(toolset = "probe")]
fn structured(arguments: Amount) -> Result<Structured<Sum>, Error> {
    Ok(Structured(Sum { sum: arguments.n }))
}

/// Counts the words of a text.
#[tool(toolset = "probe")]
fn count_words(arguments: Text) -> Result<Json<Value>, Error> {
    Ok(Json(json!({ "words": arguments.text.split_whitespace().count() })))
}

/// Counts its calls within one instance.
#[tool(toolset = "probe")]
fn count(_: Nothing) -> Result<Json<u32>, Error> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    Ok(Json(CALLS.fetch_add(1, Ordering::Relaxed) + 1))
}

/// Returns what the host said about the call.
#[tool(toolset = "probe")]
fn context(_: Nothing, context: &Context) -> Result<Json<Value>, Error> {
    Ok(Json(json!({
        "session": context.session_id,
        "task": context.task_id,
        "call": context.tool_call_id,
        "remaining_ms": context.remaining_ms,
    })))
}

/// Tries to reach what it may not, and returns what it found.
#[tool(toolset = "probe")]
fn peek(_: Nothing) -> Result<Json<Value>, Error> {
    let folder = |path: &str| std::fs::read_dir(path).map(|entries| entries.count()).ok();
    let variables: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
    let arguments: Vec<String> = std::env::args().collect();
    Ok(Json(json!({
        "root": folder("/"),
        "here": folder("."),
        "write": std::fs::write("x", "y").is_ok(),
        "variables": variables,
        "arguments": arguments,
        "stdin": std::io::stdin().lines().count(),
    })))
}

/// Reads a file, or lists a directory.
#[tool(toolset = "probe")]
fn look(arguments: Text) -> Result<String, Error> {
    let path = arguments.text;
    if std::fs::metadata(&path)?.is_dir() {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&path)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        return Ok(names.join(" "));
    }
    Ok(std::fs::read_to_string(path)?)
}

/// Writes a file.
#[tool(toolset = "probe")]
fn scribble(arguments: Text) -> Result<String, Error> {
    std::fs::write(arguments.text, "scribbled")?;
    Ok("written".to_owned())
}

/// Makes a link from one path to another.
#[tool(toolset = "probe")]
fn link(arguments: Text) -> Result<String, Error> {
    let (from, to) = arguments.text.split_once(' ').ok_or(Error::failed("two paths"))?;
    std::fs::hard_link(from, to)?;
    Ok("linked".to_owned())
}

/// Says no.
#[tool(toolset = "probe")]
fn fail(arguments: Text) -> Result<String, Error> {
    Err(Error::failed(arguments.text))
}

/// Does not like its arguments.
#[tool(toolset = "probe")]
fn dislike(arguments: Text) -> Result<String, Error> {
    Err(Error::bad_argument("/text", arguments.text))
}

/// Cannot work.
#[tool(toolset = "probe")]
fn miss(arguments: Text) -> Result<String, Error> {
    Err(Error::not_available(arguments.text))
}

/// Fails by `?`.
#[tool(toolset = "probe")]
fn parse(arguments: Text) -> Result<Json<i32>, Error> {
    Ok(Json(arguments.text.parse::<i32>()?))
}

/// Never returns.
#[tool(toolset = "probe")]
#[allow(clippy::empty_loop)]
fn spin(_: Nothing) -> Result<String, Error> {
    loop {
        black_box(());
    }
}

/// Waits in the host.
#[tool(toolset = "probe")]
fn sleep(arguments: Amount) -> Result<String, Error> {
    std::thread::sleep(Duration::from_millis(arguments.n));
    Ok("awake".to_owned())
}

/// Takes memory, in MiB, and crashes if it gets none.
#[tool(toolset = "probe")]
fn grab(arguments: Amount) -> Result<String, Error> {
    let mut blocks = Vec::new();
    for _ in 0..arguments.n {
        blocks.push(black_box(vec![1_u8; 1 << 20]));
    }
    Ok(format!("{} MiB", blocks.len()))
}

/// Asks for memory, in MiB, and copes if it gets none.
#[tool(toolset = "probe")]
fn try_grab(arguments: Amount) -> Result<String, Error> {
    let mut block: Vec<u8> = Vec::new();
    let bytes = usize::try_from(arguments.n << 20)?;
    Ok(match block.try_reserve_exact(bytes) {
        Ok(()) => "got it".to_owned(),
        Err(_) => "did without".to_owned(),
    })
}

/// Calls itself for ever.
#[tool(toolset = "probe")]
#[allow(unconditional_recursion)]
fn recurse(_: Nothing) -> Result<Json<u64>, Error> {
    fn deeper(n: u64) -> u64 {
        black_box(deeper(black_box(n + 1)) + 1)
    }
    Ok(Json(deeper(0)))
}

/// Panics.
#[tool(toolset = "probe")]
fn crash(arguments: Text) -> Result<String, Error> {
    panic!("{}", arguments.text)
}

/// Ends its process.
#[tool(toolset = "probe")]
fn exit(arguments: Amount) -> Result<String, Error> {
    std::process::exit(i32::try_from(arguments.n)?)
}

/// Returns so many bytes.
#[tool(toolset = "probe")]
fn flood(arguments: Amount) -> Result<String, Error> {
    Ok("x".repeat(usize::try_from(arguments.n)?))
}

/// Logs so many lines.
#[tool(toolset = "probe")]
fn chatter(arguments: Amount) -> Result<String, Error> {
    for line in 0..arguments.n {
        log::warn(&format!("line {line}\u{1b}[31m"));
    }
    Ok("said".to_owned())
}

/// Logs one line of so many bytes.
#[tool(toolset = "probe")]
fn shout(arguments: Amount) -> Result<String, Error> {
    log::warn(&"x".repeat(usize::try_from(arguments.n)?));
    Ok("said".to_owned())
}

/// Reports progress so many times.
#[tool(toolset = "probe")]
fn report(arguments: Amount) -> Result<String, Error> {
    for done in 0..arguments.n {
        progress::progress(done as f64, Some(arguments.n as f64), Some("step"));
    }
    Ok("reported".to_owned())
}

/// Writes to stdout and stderr.
#[tool(toolset = "probe")]
fn write(arguments: Text) -> Result<String, Error> {
    println!("{}", arguments.text);
    eprintln!("{}", arguments.text);
    Ok("written".to_owned())
}

fn ready() -> Result<(), String> {
    Ok(())
}

#[allow(clippy::empty_loop)]
fn never() -> Result<(), String> {
    loop {
        black_box(());
    }
}

fn not_today() -> Result<(), String> {
    Err("no TOKEN\u{1b}".to_owned())
}

fn broken() -> Result<(), String> {
    panic!("cannot check")
}

/// Its check never answers.
#[tool(toolset = "probe", check = never)]
fn checked_for_ever(_: Nothing) -> Result<String, Error> {
    Ok("here".to_owned())
}

/// Its check says no.
#[tool(toolset = "probe", check = not_today)]
fn checked_away(_: Nothing) -> Result<String, Error> {
    Ok("here".to_owned())
}

/// Its check crashes.
#[tool(toolset = "probe", check = broken)]
fn checked_broken(_: Nothing) -> Result<String, Error> {
    Ok("here".to_owned())
}

/// Requires a variable.
#[tool(toolset = "probe", requires_env = ["TOKEN"])]
fn needy(_: Nothing) -> Result<String, Error> {
    Ok("here".to_owned())
}

fn described(available: &[String]) -> Option<String> {
    Some(json!({ "description": format!("among {}", available.len()) }).to_string())
}

/// Uses the optional interfaces.
#[tool(toolset = "probe", check = ready, describe = described)]
fn optional(_: Nothing) -> Result<String, Error> {
    Ok("here".to_owned())
}

plugin! {
    tools: [
        echo, every, open, claim_json, blocks, structured, count_words, count, context, peek, look, scribble, link, fail, dislike,
        miss, parse, spin, sleep, grab, try_grab, recurse, crash, exit, flood, chatter, shout,
        report, write, optional, checked_for_ever, checked_away, checked_broken, needy,
    ],
    needs: [
        Need::http(["api.example.com"]).reason("to ask it").tools(["echo"]),
        Need::new("teleport", &json!({ "to": "mars" })).reason("to get there"),
        Need::read_directory("*").tools(["look"]),
        Need::write_directory("*").tools(["scribble", "link"]),
    ],
    extensions: [("vendor.color".to_owned(), "\"red\"".to_owned())],
}
