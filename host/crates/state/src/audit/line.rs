//! From an event to the members of its lines: bounded, safe to show, and without secrets.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::SystemTime;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::AuditSettings;
use super::event::{Answer, Called, Event, GrantEvent, LoadEvent, SecretChange, Text, hex};
use toolhost_core::text;
use toolhost_core::tool::{Code, Refusal};

/// Bytes of arguments and of a result, where contents are asked for.
const CONTENTS_BYTES_MAX: usize = 4 << 10;
/// Characters of a name: of a tool, a caller, a plugin.
const NAME_CHARS_MAX: usize = 128;
/// Characters of anything else: a path, a grant, a reason.
const WORDS_CHARS_MAX: usize = 500;
/// Grants of one line.
const GRANTS_MAX: usize = 64;

/// The members of one line: JSON without its braces, and without those that chain it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineMembers {
    pub(super) json: String,
    /// A call, to which the denials after it belong.
    pub(super) is_call: bool,
    /// A denial within the call before it.
    pub(super) is_of_call: bool,
}

/// A line, as it is written.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[expect(clippy::large_enum_variant, reason = "made and written at once")]
enum AuditLine<'a> {
    Call {
        tool: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        source: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        digest: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_call: Option<String>,
        arguments: Digested<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ran: Option<Digested<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Digested<'a>>,
        used: &'a [String],
        refused: usize,
        wall_us: u64,
        guest_us: u64,
        memory_bytes: u64,
        host_calls: u64,
        code: &'a str,
    },
    Denial {
        tool: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        source: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        digest: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        what: Option<String>,
        why: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        grant: Option<String>,
    },
    Load {
        path: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        source: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        digest: Option<&'a str>,
        ok: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        origin: Option<&'a str>,
        tools: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        waits: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        serving: Option<&'a str>,
    },
    Grant(GrantsChange<'a>),
    Revoke(GrantsChange<'a>),
    Secret {
        name: String,
        change: &'a str,
        by: &'a str,
    },
    Trust {
        what: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
        digest: String,
        by: &'a str,
    },
    Gap {
        lost: u64,
        why: String,
    },
    Rotation {
        previous: &'a str,
        removed: &'a [String],
    },
}

/// A source and its bytes.
#[derive(Clone, Copy)]
struct SourceBytes<'a> {
    source: Option<&'a str>,
    digest: Option<&'a str>,
}

/// A change of grants.
#[derive(Serialize)]
struct GrantsChange<'a> {
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<&'a str>,
    grants: Vec<String>,
    by: &'a str,
}

/// A text by its digest.
#[derive(Serialize)]
struct Digested<'a> {
    bytes: usize,
    sha256: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// How a large text begins.
pub(super) fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(CONTENTS_BYTES_MAX)]
}

/// Adds the lines of an event.
pub(super) fn push(
    lines: &mut VecDeque<LineMembers>,
    time: SystemTime,
    event: &Event,
    settings: &AuditSettings,
) {
    let line = match event {
        Event::Call(called) => return push_call(lines, time, called, settings),
        Event::Load(loaded) => load(loaded),
        Event::Grant(granted) => AuditLine::Grant(change(granted)),
        Event::Revoke(granted) => AuditLine::Revoke(change(granted)),
        Event::Secret(secret) => AuditLine::Secret {
            name: name(&secret.name),
            change: match secret.change {
                SecretChange::Set => "set",
                SecretChange::Removed => "removed",
            },
            by: secret.by,
        },
        Event::Trust(trusted) => AuditLine::Trust {
            what: words(&trusted.what),
            folder: trusted.folder.as_ref().map(|folder| words(&folder.display().to_string())),
            digest: name(&trusted.digest),
            by: trusted.by,
        },
    };
    lines.push_back(members(time, &line, settings));
}

/// A line for events that are not in the log.
pub(super) fn gap(lost: u64, why: &str, settings: &AuditSettings) -> LineMembers {
    members(SystemTime::now(), &AuditLine::Gap { lost, why: words(why) }, settings)
}

/// The first line of a file that follows another.
pub(super) fn rotation(
    previous: &str,
    removed: &[String],
    settings: &AuditSettings,
) -> LineMembers {
    members(SystemTime::now(), &AuditLine::Rotation { previous, removed }, settings)
}

fn push_call(
    lines: &mut VecDeque<LineMembers>,
    time: SystemTime,
    called: &Called,
    settings: &AuditSettings,
) {
    let source = called.source.as_ref().map(|source| words(&source.to_string()));
    let whose = SourceBytes { source: source.as_deref(), digest: called.digest.as_deref() };
    let optional = |text: &Option<String>| text.as_deref().map(name);
    let tool = name(&called.tool);
    let code = if called.cancelled { "cancelled" } else { called.code.map_or("ok", Code::as_str) };
    let call = AuditLine::Call {
        tool: tool.clone(),
        source: whose.source.map(Cow::Borrowed),
        digest: whose.digest,
        session: optional(&called.caller.session),
        task: optional(&called.caller.task),
        tool_call: optional(&called.caller.tool_call),
        arguments: digested(&called.arguments, settings),
        ran: called.ran.as_ref().map(|text| digested(text, settings)),
        result: called.answer.as_ref().map(|answer| match answer {
            Answer::Output(output) => digest(&output.to_json_text(), settings),
            Answer::Text(text) => digested(text, settings),
        }),
        used: &called.used,
        refused: called.refusals.len(),
        wall_us: micros(called.wall),
        guest_us: micros(called.guest),
        memory_bytes: called.memory_bytes,
        host_calls: called.host_calls,
        code,
    };
    lines.push_back(LineMembers { is_call: true, ..members(time, &call, settings) });
    let by_rule = called.code.filter(|code| is_denial(*code));
    let of_call = by_rule.map(|code| AuditLine::Denial {
        tool: tool.clone(),
        source: whose.source.map(Cow::Borrowed),
        digest: whose.digest,
        code: Some(code.as_str()),
        what: None,
        why: words(called.why.as_deref().unwrap_or_default()),
        grant: None,
    });
    let within = called.refusals.iter().map(|refusal| refused(&tool, whose, refusal));
    lines.extend(
        of_call
            .into_iter()
            .chain(within)
            .map(|line| LineMembers { is_of_call: true, ..members(time, &line, settings) }),
    );
}

/// Tells whether a rule or the operator refuses what is refused with this code, and not the
/// state of things.
fn is_denial(code: Code) -> bool {
    matches!(code, Code::Denied | Code::NotInSession | Code::Pending | Code::Quarantined)
}

fn refused<'a>(tool: &str, whose: SourceBytes<'a>, refusal: &Refusal) -> AuditLine<'a> {
    let grant = refusal.grant.as_ref();
    AuditLine::Denial {
        tool: tool.to_owned(),
        source: whose.source.map(Cow::Borrowed),
        digest: whose.digest,
        code: None,
        what: Some(words(&refusal.what)),
        why: words(&refusal.why),
        grant: grant.map(|(kind, text)| words(&format!("{kind}:{text}"))),
    }
}

fn load(loaded: &LoadEvent) -> AuditLine<'_> {
    AuditLine::Load {
        path: words(&loaded.place),
        source: loaded.source.as_ref().map(|source| Cow::Owned(words(&source.to_string()))),
        digest: loaded.digest.as_deref(),
        ok: loaded.reason.is_none(),
        origin: loaded.origin,
        tools: loaded.tools,
        reason: loaded.reason.as_deref().map(words),
        waits: loaded.waits.as_deref().map(words),
        serving: loaded.serving.as_deref(),
    }
}

fn change(granted: &GrantEvent) -> GrantsChange<'_> {
    GrantsChange {
        what: words(&granted.what),
        folder: granted.folder.as_ref().map(|folder| words(&folder.display().to_string())),
        digest: granted.digest.as_deref(),
        grants: granted.grants.iter().take(GRANTS_MAX).map(|grant| words(grant)).collect(),
        by: granted.by,
    }
}

fn members(time: SystemTime, line: &AuditLine<'_>, settings: &AuditSettings) -> LineMembers {
    // Of texts, numbers and lists, so it cannot fail.
    let json = serde_json::to_string(line).unwrap_or_default();
    let json = match &settings.redact {
        Some(redact) => redacted(json, redact),
        None => json,
    };
    let inner = json.strip_prefix('{').and_then(|json| json.strip_suffix('}')).unwrap_or_default();
    let time = humantime::format_rfc3339_millis(time);
    LineMembers { json: format!("\"time\":\"{time}\",{inner}"), is_call: false, is_of_call: false }
}

/// Without secrets. One whose value reaches beyond a text of the line takes all of it away.
fn redacted(json: String, redact: &super::Redact) -> String {
    let mut safe = json.clone();
    redact(&mut safe);
    if safe == json || serde_json::from_str::<serde_json::Value>(&safe).is_ok() {
        return safe;
    }
    r#"{"kind":"gap","lost":1,"why":"a secret stood across the members of this line"}"#.to_owned()
}

fn digested<'a>(text: &'a Text, settings: &AuditSettings) -> Digested<'a> {
    match text {
        Text::Whole(text) => digest(text, settings),
        Text::Hashed { bytes, sha256, beginning } => Digested {
            bytes: *bytes,
            sha256: Cow::Borrowed(sha256),
            text: settings.contents.then(|| shown(beginning, settings)),
        },
    }
}

fn digest(text: &str, settings: &AuditSettings) -> Digested<'static> {
    Digested {
        bytes: text.len(),
        sha256: Cow::Owned(hex(&Sha256::digest(text))),
        text: settings.contents.then(|| shown(text, settings)),
    }
}

/// The beginning, without secrets: those are searched for before the line is made, which escapes once
/// more what is JSON already.
fn shown(text: &str, settings: &AuditSettings) -> String {
    let mut text = text.to_owned();
    if let Some(redact) = &settings.redact {
        redact(&mut text);
    }
    text::printable(beginning(&text))
}

fn name(given: &str) -> String {
    safe(given, NAME_CHARS_MAX)
}

fn words(given: &str) -> String {
    safe(given, WORDS_CHARS_MAX)
}

fn safe(given: &str, chars_max: usize) -> String {
    // Most names are plain, and then nothing is looked at twice.
    let is_plain = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    if given.len() <= chars_max && given.bytes().all(is_plain) {
        return given.to_owned();
    }
    text::one_line(&text::cut(given, chars_max))
}

fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
