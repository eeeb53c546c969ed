//! The authority a plugin asks for, as typed constructors over the open record of the contract.

use serde_json::{Value, json};

use crate::bindings::toolhost::plugin::types;

/// Where in a request a secret belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot<'a> {
    /// The header of this name, such as `authorization`.
    Header(&'a str),
    /// The query parameter of this name, such as `appid`.
    Query(&'a str),
}

/// One piece of authority the plugin asks for; the operator decides whether it gets it.
#[derive(Clone, Debug)]
pub struct Need(types::Need);

impl Need {
    /// Asks for a kind of authority by its name, with its value as the contract defines it.
    ///
    /// The other constructors cover the kinds of contract 0.1; this one is for later kinds.
    pub fn new(kind: &str, value: &Value) -> Need {
        Need(types::Need {
            kind: kind.to_owned(),
            value: value.to_string(),
            tools: Vec::new(),
            reason: String::new(),
        })
    }

    /// Asks to read a directory and everything below it: at `path` as the plugin sees it, or `*`
    /// for whichever the operator grants.
    pub fn read_directory(path: &str) -> Need {
        Need::new("dirs", &json!({ "path": path, "access": "ro" }))
    }

    /// Asks to read and change a directory and everything below it; `path` as for
    /// [`read_directory`](Need::read_directory).
    pub fn write_directory(path: &str) -> Need {
        Need::new("dirs", &json!({ "path": path, "access": "rw" }))
    }

    /// Asks to send HTTP requests to these hosts.
    pub fn http<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Need {
        Need::new("http", &json!({ "hosts": hosts.into_iter().collect::<Vec<_>>() }))
    }

    /// Asks for these environment variables.
    pub fn env<'a>(names: impl IntoIterator<Item = &'a str>) -> Need {
        Need::new("env", &json!({ "names": names.into_iter().collect::<Vec<_>>() }))
    }

    /// Asks for a secret that the host puts into requests to these hosts, in this slot; see
    /// [`secrets`](crate::secrets). A host is written `HOST` or `HOST:PORT`.
    pub fn secret<'a>(
        name: &str,
        hosts: impl IntoIterator<Item = &'a str>,
        slot: Slot<'_>,
    ) -> Need {
        let (slot, of) = match slot {
            Slot::Header(header) => ("header", header),
            Slot::Query(parameter) => ("query", parameter),
        };
        let hosts: Vec<_> = hosts.into_iter().collect();
        Need::new("secrets", &json!({ "name": name, "hosts": hosts, slot: of }))
    }

    /// Asks for a store of the plugin's own; see [`kv`](crate::kv).
    pub fn kv() -> Need {
        Need::new("kv", &json!({}))
    }

    /// Asks to hear of calls of other plugins' tools: `events` are `request`, `pre-call`,
    /// `post-call` and `transform`; a tool is a name, or the beginning of names and `*`.
    pub fn hooks<'a>(
        events: impl IntoIterator<Item = &'a str>,
        tools: impl IntoIterator<Item = &'a str>,
    ) -> Need {
        let (events, tools): (Vec<_>, Vec<_>) =
            (events.into_iter().collect(), tools.into_iter().collect());
        Need::new("hooks", &json!({ "events": events, "tools": tools }))
    }

    /// Says why, in one sentence for the person who decides.
    #[must_use]
    pub fn reason(mut self, reason: &str) -> Need {
        self.0.reason = reason.to_owned();
        self
    }

    /// Narrows the need to these tools; without it, it is for all of them.
    #[must_use]
    pub fn tools<'a>(mut self, tools: impl IntoIterator<Item = &'a str>) -> Need {
        self.0.tools = tools.into_iter().map(str::to_owned).collect();
        self
    }

    pub(crate) fn into_contract(self) -> types::Need {
        self.0
    }
}
