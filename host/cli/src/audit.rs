//! `toolhost audit`

mod selected;

use std::time::{Duration, SystemTime};

use clap::Subcommand;
use serde_json::{Value, json};

use super::Global;
use super::failure::Failure;
use super::home::Home;
use super::ui::{self, Ui};
use selected::{Changes, SelectedLines};
use toolhost_core::text;
use toolhost_state::audit::{
    self, Audit, AuditSettings, Damage, Head, LogProblem, Part, Record, Verified,
};
use toolhost_state::config::Config;

/// Entries that are shown where nothing else is said.
const ENTRIES: usize = 20;
/// Characters of a digest, for people.
const DIGEST_CHARS: usize = 12;

/// Shows what was done: calls, denials, grants, trust, and loads of changed bytes, the newest last.
///
/// These are the last 20 entries, calls before all others where not all fit. A load that changed
/// nothing is no entry.
///
/// The log is on unless `enabled = false` is set under `[audit]` in the operator's `toolhost.toml`.
/// It has digests of arguments and results, and their beginnings only with `contents = true`.
/// `toolhost audit verify` checks that nothing in it was changed.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct AuditArguments {
    #[command(subcommand)]
    command: Option<AuditCommand>,

    /// Only what is about this tool.
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,

    /// Only what is not older than this: a duration such as `90min`, or a time such as
    /// `2026-01-31T12:00:00Z`.
    #[arg(long, value_name = "TIME", value_parser = read_since)]
    since: Option<SystemTime>,

    /// Only calls, and uses of something within calls, that were denied.
    #[arg(long)]
    denied: bool,

    /// The last N entries; by default 20, and with `--since` all.
    #[arg(short = 'n', long = "last", value_name = "N")]
    last: Option<usize>,

    /// Every record as it stands in the log, also loads that changed nothing.
    #[arg(long, conflicts_with = "last")]
    all: bool,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Checks that no line of the log was changed, removed, inserted or moved. The exit code is 1
    /// if one was.
    ///
    /// It cannot detect that the newest lines were cut off after their writer had stopped, that
    /// lines were added at the end, or that everything from some line on was rewritten. Whoever can
    /// write to the folder can do these.
    Verify,
}

fn read_since(text: &str) -> Result<SystemTime, String> {
    if let Ok(duration) = humantime::parse_duration(text) {
        return SystemTime::now().checked_sub(duration).ok_or_else(|| "it is too long".to_owned());
    }
    humantime::parse_rfc3339_weak(text).map_err(|_| {
        "write a duration such as `1h` or a time such as `2026-01-31T12:00:00Z`".to_owned()
    })
}

impl Home {
    /// A chain of this user's audit log, for a command that changes something by itself.
    pub(super) fn audit(&self, config: &Config) -> Audit {
        if !config.audit.enabled {
            return Audit::off();
        }
        Audit::open(AuditSettings::new(&self.state, &config.limits))
    }
}

pub(super) fn run(ui: &Ui, global: &Global, given: &AuditArguments) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let folder = audit::folder(&home.state);
    let parts = audit::parts(&folder).map_err(|error| {
        Failure::usage(format!("the audit log {} cannot be read: {error}", folder.display()))
    })?;
    match given.command {
        Some(AuditCommand::Verify) => verify(ui, parts),
        None => {
            let ShownLines { entries: 0, records } = show(ui, given, parts)? else { return Ok(()) };
            ui::error_line(&match records {
                _ if !home.operators_config(global).audit.enabled => format!(
                    "no entries: the audit log is off; set `enabled = true` under `[audit]` in {}",
                    home.operators_file(global).display()
                ),
                0 => format!("no entries: the audit log {} is empty", folder.display()),
                _ => format!("no entries: none of {records} records is what was asked for"),
            });
            Ok(())
        }
    }
}

/// How much was shown.
pub(super) struct ShownLines {
    entries: usize,
    /// Of so many records that there are.
    records: usize,
}

/// Shows what is asked for of a log.
pub(super) fn show(
    ui: &Ui,
    given: &AuditArguments,
    parts: Vec<Part>,
) -> Result<ShownLines, Failure> {
    let most = match given {
        AuditArguments { all: true, .. } => None,
        AuditArguments { last: Some(last), .. } => Some(*last),
        AuditArguments { since: Some(_), .. } => None,
        _ => Some(ENTRIES),
    };
    let (mut changes, mut selected) = (Changes::default(), most.map(SelectedLines::new));
    let mut shown = ShownLines { entries: 0, records: 0 };
    for part in parts {
        let name = part.name.clone();
        for (number, record) in audit::read(part) {
            match record {
                Ok(record) => {
                    shown.records += 1;
                    let is_entry = changes.has(&record) || given.all;
                    if !is_entry || !is_meant(given, &record) {
                        continue;
                    }
                    match &mut selected {
                        Some(selected) => selected.push(record),
                        None => {
                            print(ui, &record)?;
                            shown.entries += 1;
                        }
                    }
                }
                Err(damage) => damaged(&name, number, &damage),
            }
        }
    }
    let Some(selected) = selected else { return Ok(shown) };
    let (count, entries) = (selected.count(), selected.into_entries());
    for record in &entries {
        print(ui, record)?;
    }
    if count > entries.len() && given.last.is_none() {
        ui::error_line(&format!(
            "the last {} of {count} entries; `-n N`, `--since TIME` or `--all` shows more",
            entries.len()
        ));
    }
    Ok(ShownLines { entries: count, ..shown })
}

fn print(ui: &Ui, record: &Record) -> Result<(), Failure> {
    if ui.json { ui.json_text(&record.text) } else { ui.line(&in_words(record)) }
}

fn is_meant(given: &AuditArguments, record: &Record) -> bool {
    given.tool.as_deref().is_none_or(|tool| record.str("tool") == tool)
        && given.since.is_none_or(|since| record.time >= since)
        && (!given.denied || record.kind == "denial")
}

fn damaged(file: &str, line: u64, damage: &Damage) {
    ui::error_line(&format!(
        "warning: {file}:{line} is damaged: {damage}; see `toolhost audit verify`"
    ));
}

/// One record, on one line.
pub(super) fn in_words(record: &Record) -> String {
    let time = humantime::format_rfc3339_millis(record.time);
    text::one_line(&format!("{time} {:<8} {}", record.kind, about(record)))
}

/// What a record says, without its time and kind.
pub(super) fn about(record: &Record) -> String {
    match record.kind.as_str() {
        "call" => call(record),
        "denial" => denial(record),
        "load" => load(record),
        "grant" | "revoke" => format!("{} {}", record.str("what"), grants(record)),
        "secret" => format!("{} {}", record.str("name"), record.str("change")),
        "trust" => format!("{} {}", record.str("what"), digest(record, "digest")),
        "gap" => {
            format!("{} records are not here: {}", record.number("lost"), record.str("why"))
        }
        "rotation" => format!("follows {}", digest(record, "previous")),
        _ => record.text.clone(),
    }
}

fn call(record: &Record) -> String {
    let micros = |name| humantime::format_duration(Duration::from_micros(record.number(name)));
    let mut line = format!(
        "{} {} {} in {} (guest {}), {} KiB, {} host calls",
        record.str("tool"),
        source(record),
        record.str("code"),
        micros("wall_us"),
        micros("guest_us"),
        record.number("memory_bytes").div_ceil(1_024),
        record.number("host_calls"),
    );
    let used = texts(record, "used");
    if !used.is_empty() {
        line += &format!(", used {used}");
    }
    line
}

fn denial(record: &Record) -> String {
    let (what, why) = (record.str("what"), record.str("why"));
    // Of a whole call, the reason says what it was.
    let about = if what.is_empty() { why.to_owned() } else { format!("{what} {why}") };
    format!("{} {} {about}", record.str("tool"), source(record))
}

fn load(record: &Record) -> String {
    match record.members.get("ok").and_then(Value::as_bool) {
        Some(true) => {
            let (origin, tools) = (record.str("origin"), record.number("tools"));
            format!("{} {} {origin}, {tools} tools", source(record), digest(record, "digest"))
        }
        _ => format!("{} failed: {}", record.str("path"), record.str("reason")),
    }
}

/// The beginning of a digest: enough to tell it from others.
fn digest<'a>(record: &'a Record, name: &str) -> &'a str {
    let digest = record.str(name);
    digest.get(..DIGEST_CHARS).unwrap_or(digest)
}

fn source(record: &Record) -> &str {
    match record.str("source") {
        "" => "-",
        source => source,
    }
}

fn grants(record: &Record) -> String {
    match texts(record, "grants") {
        all if all.is_empty() => "everything".to_owned(),
        grants => grants,
    }
}

fn texts(record: &Record, name: &str) -> String {
    let list = record.members.get(name).and_then(Value::as_array);
    let texts: Vec<&str> = list.into_iter().flatten().filter_map(Value::as_str).collect();
    texts.join(", ")
}

fn verify(ui: &Ui, parts: Vec<Part>) -> Result<(), Failure> {
    let found = audit::verify(parts.into_iter().map(|part| (part.name.clone(), part)));
    let head = match found.head {
        Head::Empty => "empty",
        Head::Beginning => "beginning",
        Head::Removed => "rotated",
        Head::Unknown => "unknown",
    };
    let Verified { records, chains, files, gaps, lost, problem_count, .. } = found;
    if ui.json {
        let problem = |LogProblem { file, line, what }: &LogProblem| json!({ "file": file, "line": line, "what": what });
        ui.json(&json!({
            "ok": problem_count == 0, "records": records, "chains": chains, "files": files,
            "head": head, "gaps": gaps, "lost": lost, "problem_count": problem_count,
            "problems": found.problems.iter().map(problem).collect::<Vec<_>>(),
        }))?;
    } else {
        for LogProblem { file, line, what } in &found.problems {
            ui.line(&format!("{file}:{line}: {what}"))?;
        }
        let of = format!("{records} records of {chains} chains in {files} files");
        ui.line(&match problem_count {
            0 if records == 0 => "ok: there is no audit log yet".to_owned(),
            0 => format!("ok: {of}"),
            1 => format!("1 problem in {of}"),
            count => format!("{count} problems in {of}"),
        })?;
        if found.head == Head::Removed {
            ui.line("Older files were removed to make room (`audit_bytes_max`).")?;
        }
        if gaps > 0 {
            ui.line(&format!("{lost} records were lost, as {gaps} of kind `gap` say."))?;
        }
    }
    if problem_count == 0 { Ok(()) } else { Err(Failure::broken()) }
}
