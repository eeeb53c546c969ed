//! What a registration says that a person should look at before it is trusted: every text of it,
//! with the tool and the place it stands at.
//!
//! Which texts are suspect, [`text::suspect`](toolhost_core::text::suspect) knows; this module knows where
//! a registration has texts. It decides nothing: whoever shows a plugin shows these, and whoever
//! loads one may wait for a person when there are any.

use std::collections::BTreeSet;

use serde_json::Value;

use toolhost_core::text::suspect::{Suspect, SuspectKind, suspects, visible};
use toolhost_core::tool::{Need, Registration, ToolSpec};

/// Suspicions that one registration may give; a person has seen enough then.
const SUSPICIONS_MAX: usize = 100;
/// Bytes of a pointer, since a stranger chose the names in it.
const POINTER_BYTES_MAX: usize = 500;

/// Something suspect, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// The tool whose definition has it; without one, it is the plugin's own.
    pub tool: Option<String>,
    /// A JSON pointer into the definition, with the names of the contract, such as
    /// `/parameters/properties/path/description`. What is suspect is the text at this place, or
    /// the name that ends the pointer. A long one is cut.
    pub pointer: String,
    /// What it is.
    pub suspect: Suspect,
}

/// Everything of a plugin's registration that has texts.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    /// The plugin's name.
    pub name: &'a str,
    /// The plugin's version.
    pub version: &'a str,
    /// Its tools and needs.
    pub registration: &'a Registration,
    /// Its extensions, each with JSON text.
    pub extensions: &'a [(String, String)],
}

/// Finds what is suspect in a registration: the plugin's own texts first, then those of each
/// tool, at most 100.
///
/// `others` are names of tools of others: a description that names one of them, and not as a
/// word of English, speaks about more than its own tool. Names of the registration itself do
/// not count.
pub fn suspicions<'a>(
    texts: &Texts<'_>,
    others: impl IntoIterator<Item = &'a str>,
) -> Vec<Suspicion> {
    let own: BTreeSet<&str> =
        texts.registration.tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    let others = others.into_iter().filter(|name| !own.contains(name)).collect();
    let mut reader = TextReader { others, tool: None, found: Vec::new() };
    reader.plain("/name", texts.name);
    reader.plain("/version", texts.version);
    for (index, need) in texts.registration.needs.iter().enumerate() {
        reader.need(&format!("/needs/{index}"), need);
    }
    reader.extensions(texts.extensions);
    for tool in &texts.registration.tools {
        if reader.found.len() >= SUSPICIONS_MAX {
            break;
        }
        reader.tool(tool.spec());
    }
    reader.found.truncate(SUSPICIONS_MAX);
    reader.found
}

/// Finds what is suspect in a definition that a plugin gives while it runs. Names of tools of
/// others do not count: whoever describes a tool by what is listed beside it may name these.
pub fn in_definition(description: &str, parameters: &Value) -> Vec<Suspicion> {
    let mut reader = TextReader { others: BTreeSet::new(), tool: None, found: Vec::new() };
    reader.plain("/description", description);
    reader.value("/parameters", parameters);
    reader.found
}

/// Those suspicions for which a plugin has to wait for a person: all but names of other tools,
/// which many a good description has.
pub fn to_wait_for(suspicions: &[Suspicion]) -> impl Iterator<Item = &Suspicion> {
    suspicions.iter().filter(|suspicion| suspicion.suspect.kind != SuspectKind::OtherTool)
}

impl std::fmt::Display for Suspicion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Suspicion { tool, pointer, suspect } = self;
        let tool = tool.as_ref().map(|tool| format!("`{tool}` ")).unwrap_or_default();
        let (pointer, what, excerpt) = (visible(pointer), suspect.what, &suspect.excerpt);
        write!(formatter, "{tool}{pointer} {what}: {excerpt}")
    }
}

/// Reads texts one after the other.
struct TextReader<'a> {
    others: BTreeSet<&'a str>,
    tool: Option<String>,
    found: Vec<Suspicion>,
}

impl TextReader<'_> {
    fn need(&mut self, pointer: &str, need: &Need) {
        self.plain(&format!("{pointer}/kind"), &need.kind);
        self.json(&format!("{pointer}/value"), &need.value);
        self.texts(&format!("{pointer}/tools"), &need.tools);
        self.plain(&format!("{pointer}/reason"), &need.reason);
    }

    fn tool(&mut self, spec: &ToolSpec) {
        self.tool = Some(spec.name.to_string());
        self.plain("/name", spec.name.as_str());
        self.plain("/toolset", &spec.toolset);
        self.described("/description", &spec.description);
        self.value("/parameters", &spec.parameters);
        if let Some(output) = &spec.output {
            self.value("/output", output);
        }
        if let Some(emoji) = &spec.emoji {
            self.plain("/emoji", emoji);
        }
        self.texts("/requires-env", &spec.requires_env);
        for (index, example) in spec.examples.iter().enumerate() {
            self.json(&format!("/examples/{index}/arguments"), &example.arguments);
            if let Some(expected) = &example.expected {
                self.plain(&format!("/examples/{index}/expected"), expected);
            }
        }
        self.extensions(&spec.extensions);
        self.tool = None;
    }

    fn extensions(&mut self, extensions: &[(String, String)]) {
        for (name, value) in extensions {
            let pointer = below("/extensions", name);
            self.plain(&pointer, name);
            self.json(&pointer, value);
        }
    }

    fn texts(&mut self, pointer: &str, texts: &[String]) {
        for (index, text) in texts.iter().enumerate() {
            self.plain(&format!("{pointer}/{index}"), text);
        }
    }

    /// JSON text: as it stands, and what its strings say when their escapes are read.
    fn json(&mut self, pointer: &str, text: &str) {
        let before = self.found.len();
        self.plain(pointer, text);
        let seen: BTreeSet<&str> =
            self.found[before..].iter().map(|suspicion| suspicion.suspect.what).collect();
        if let Ok(value) = serde_json::from_str(text) {
            let start = self.found.len();
            self.value(pointer, &value);
            // What both readings show is told once.
            let mut within = self.found.split_off(start);
            within.retain(|suspicion| !seen.contains(suspicion.suspect.what));
            self.found.append(&mut within);
        }
    }

    /// All names and texts of a JSON value, which is not deep.
    fn value(&mut self, pointer: &str, value: &Value) {
        self.walk(&TextPlace::Root(pointer), value);
    }

    /// A pointer is written only where something is found: for each element of a long array that
    /// would take many times the memory of the array.
    fn walk(&mut self, place: &TextPlace<'_>, value: &Value) {
        if self.found.len() > SUSPICIONS_MAX {
            return;
        }
        match value {
            Value::String(text) => self.described_at(place, text),
            Value::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    self.walk(&TextPlace::Element(place, index), value);
                }
            }
            Value::Object(members) => {
                for name in members.keys() {
                    self.plain_at(&TextPlace::Member(place, name), name);
                }
                for (name, value) in members {
                    self.walk(&TextPlace::Member(place, name), value);
                }
            }
            _ => {}
        }
    }

    /// A text in which tools of others may be named.
    fn described(&mut self, pointer: &str, text: &str) {
        self.described_at(&TextPlace::Root(pointer), text);
    }

    fn described_at(&mut self, place: &TextPlace<'_>, text: &str) {
        self.plain_at(place, text);
        if let Some(range) = other_tool(text, &self.others) {
            let what = "names a tool of others";
            self.push(place, Suspect::new(SuspectKind::OtherTool, what, text, range));
        }
    }

    fn plain(&mut self, pointer: &str, text: &str) {
        self.plain_at(&TextPlace::Root(pointer), text);
    }

    fn plain_at(&mut self, place: &TextPlace<'_>, text: &str) {
        for suspect in suspects(text) {
            self.push(place, suspect);
        }
    }

    fn push(&mut self, place: &TextPlace<'_>, suspect: Suspect) {
        // A little over the bound, so that it can be told that there is more.
        if self.found.len() <= SUSPICIONS_MAX {
            let (tool, pointer) = (self.tool.clone(), place.pointer());
            self.found.push(Suspicion { tool, pointer, suspect });
        }
    }
}

/// Where a value stands, as far as that is known without writing it down.
enum TextPlace<'a> {
    Root(&'a str),
    Element(&'a TextPlace<'a>, usize),
    Member(&'a TextPlace<'a>, &'a str),
}

impl TextPlace<'_> {
    fn pointer(&self) -> String {
        match self {
            TextPlace::Root(pointer) => (*pointer).to_owned(),
            TextPlace::Element(place, index) => below(&place.pointer(), &index.to_string()),
            TextPlace::Member(place, name) => below(&place.pointer(), name),
        }
    }
}

/// The pointer to a member.
fn below(pointer: &str, name: &str) -> String {
    if pointer.len() > POINTER_BYTES_MAX {
        return pointer.to_owned();
    }
    let name = toolhost_core::text::cut(name, POINTER_BYTES_MAX / 2);
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Where a text names one of `others`. A name that may be a word of English, such as `memory`,
/// counts only where it is set apart as a name.
fn other_tool(text: &str, others: &BTreeSet<&str>) -> Option<std::ops::Range<usize>> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let mut place = 0;
    for part in text.split_inclusive(|letter: char| !is_part(letter)) {
        let start = place;
        place += part.len();
        let name = part.trim_end_matches(|letter: char| !is_part(letter));
        if name.is_empty() || !others.contains(name) {
            continue;
        }
        let range = start..start + name.len();
        let (before, after) = (&text[..range.start], &text[range.end..]);
        let is_quoted = before.ends_with('`') && after.starts_with('`');
        if name.contains('_') || is_quoted || after.starts_with(" tool") {
            return Some(range);
        }
    }
    None
}

#[cfg(test)]
mod tests;
