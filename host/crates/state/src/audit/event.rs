//! What is noted, as those who note it have it: nothing is hashed, cut or escaped yet.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::line;
use toolhost_core::tool::{Caller, Code, Refusal, SourceId, ToolOutput};

/// Something that stands in the audit log.
#[derive(Clone, Debug)]
pub enum Event {
    /// A call that came to an end, with what it was refused.
    Call(Box<Called>),
    /// A plugin that loaded, or did not.
    Load(Box<LoadEvent>),
    /// A plugin was granted something.
    Grant(Box<GrantEvent>),
    /// A plugin lost what it was granted.
    Revoke(Box<GrantEvent>),
    /// A secret was set or removed.
    Secret(Box<SecretChanged>),
    /// Bytes were trusted.
    Trust(Box<TrustEvent>),
}

/// One call.
#[derive(Clone, Debug)]
pub struct Called {
    /// The tool, or the name that was called, if no tool has it.
    pub tool: String,
    /// Whose tool it is.
    pub source: Option<SourceId>,
    /// SHA-256 of the plugin's bytes, in hexadecimal.
    pub digest: Option<Arc<str>>,
    /// Who called.
    pub caller: Caller,
    /// The arguments as the caller wrote them.
    pub arguments: Text,
    /// The arguments as the tool was to get them, if repair or hooks had changed them.
    pub ran: Option<Text>,
    /// What the caller was told; none if the call was stopped by its caller.
    pub answer: Option<Answer>,
    /// The kind of error; none for an answer.
    pub code: Option<Code>,
    /// The call was stopped by whoever made it.
    pub cancelled: bool,
    /// The authority the call made use of.
    pub used: Vec<String>,
    /// What it asked for in vain.
    pub refusals: Vec<Refusal>,
    /// Why it was denied or refused, if it was.
    pub why: Option<String>,
    /// From entering the host to leaving it.
    pub wall: Duration,
    /// Of that, the time in which the guest ran.
    pub guest: Duration,
    /// The most memory the guest had.
    pub memory_bytes: u64,
    /// Calls of the guest into the host.
    pub host_calls: u64,
}

/// A text, or what is kept of a large one.
#[derive(Clone, Debug)]
pub enum Text {
    /// All of it.
    Whole(String),
    /// Of a large text.
    Hashed {
        /// Its length.
        bytes: usize,
        /// SHA-256 of it, in hexadecimal.
        sha256: String,
        /// How it begins.
        beginning: String,
    },
}

impl Text {
    /// What is kept of a large text.
    pub fn hashed(text: &str) -> Text {
        let beginning = line::beginning(text).to_owned();
        Text::Hashed { bytes: text.len(), sha256: hex(&Sha256::digest(text)), beginning }
    }

    fn held(&self) -> usize {
        match self {
            Text::Whole(text) => text.len(),
            Text::Hashed { beginning, .. } => beginning.len(),
        }
    }
}

/// What a caller was told.
#[derive(Clone, Debug)]
pub enum Answer {
    /// An output, which is not yet the text that a model reads.
    Output(ToolOutput),
    /// That text.
    Text(Text),
}

/// One load.
#[derive(Clone, Debug)]
pub struct LoadEvent {
    /// Where it is: a file, a folder that cannot be read, or what else names it.
    pub place: String,
    /// The source, if there is a name for one.
    pub source: Option<SourceId>,
    /// SHA-256 of its bytes, in hexadecimal, if it loaded.
    pub digest: Option<Arc<str>>,
    /// How far it is trusted with names, as a word, if it loaded.
    pub origin: Option<&'static str>,
    /// Names of its tools in the catalog.
    pub tools: usize,
    /// Why it is no plugin.
    pub reason: Option<String>,
    /// What it waits for, if it does.
    pub waits: Option<String>,
    /// SHA-256 of the kept build that serves in its place, if one does.
    pub serving: Option<Arc<str>>,
}

/// What a plugin was granted, or lost.
#[derive(Clone, Debug)]
pub struct GrantEvent {
    /// To what: a plugin, such as `plugin:weather`; or what is no longer trusted.
    pub what: String,
    /// The folder of the plugin; none of what is bundled.
    pub folder: Option<PathBuf>,
    /// SHA-256 of the bytes it was given to, in hexadecimal.
    pub digest: Option<String>,
    /// The grants, as they are written on the command line; none means all there were.
    pub grants: Vec<String>,
    /// Who did it, such as `cli`.
    pub by: &'static str,
}

/// What became of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretChange {
    /// It got a value.
    Set,
    /// It was removed.
    Removed,
}

/// A secret that was changed. Its value is never here.
#[derive(Clone, Debug)]
pub struct SecretChanged {
    /// Its name.
    pub name: String,
    /// What became of it.
    pub change: SecretChange,
    /// Who did it, such as `cli`.
    pub by: &'static str,
}

/// Bytes that were trusted.
#[derive(Clone, Debug)]
pub struct TrustEvent {
    /// What they are: a plugin, or a file of a project.
    pub what: String,
    /// The folder of the plugin, if it is one.
    pub folder: Option<PathBuf>,
    /// SHA-256 of them, in hexadecimal.
    pub digest: String,
    /// Who did it, such as `cli`.
    pub by: &'static str,
}

impl Event {
    /// Bytes of its texts, as far as they may be large.
    pub(super) fn held(&self) -> usize {
        let Event::Call(called) = self else { return 0 };
        let answer = match &called.answer {
            Some(Answer::Output(output)) => output.len() as usize,
            Some(Answer::Text(text)) => text.held(),
            None => 0,
        };
        called.arguments.held() + called.ran.as_ref().map_or(0, Text::held) + answer
    }
}

macro_rules! events {
    ($($kind:ident $type:ty;)*) => {
        $( impl From<$type> for Event {
            fn from(value: $type) -> Event {
                Event::$kind(Box::new(value))
            }
        } )*
    };
}

events! {
    Call Called;
    Load LoadEvent;
    Secret SecretChanged;
    Trust TrustEvent;
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)] as char);
        text.push(DIGITS[usize::from(byte & 15)] as char);
    }
    text
}
