//! What one build of a plugin declares, and how another differs from it, for whoever decides
//! whether the other may take its place. Pure; it decides nothing.

mod change;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use toolhost_core::text;
use toolhost_core::text::suspect::visible;
use toolhost_core::tool::{Need, Registration, ToolName, ToolSpec};

use crate::capability::required;

pub use change::{Change, Meaning, changes};

/// Differences that are told; a person has seen enough then.
const DIFFERENCES_MAX: usize = 200;
/// Characters of a text that a difference shows.
const SHOWN_CHARS_MAX: usize = 200;

/// All that a build declares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surface {
    contract: String,
    imports: BTreeSet<String>,
    needs: Vec<Need>,
    /// Definitions of its tools, by name.
    tools: BTreeMap<String, Value>,
}

/// The same, with a hash in place of each definition: small enough to be remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outline {
    /// The version of the contract it was built for.
    pub contract: String,
    /// What it imports.
    pub imports: BTreeSet<String>,
    /// What it asks for.
    pub needs: Vec<Need>,
    /// SHA-256 of each tool's definition, by name.
    pub tools: BTreeMap<String, String>,
    /// SHA-256 of all definitions.
    pub definitions: String,
    /// It was too large to be remembered: imports, needs and tools are not known.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_cut: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// One difference, from an earlier build to a later one. As a text it is one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What differs, such as `tool search /description`.
    pub place: String,
    /// How it was; nothing if it was not there.
    pub before: Option<String>,
    /// How it is; nothing if it is not there.
    pub after: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| text::cut(&visible(text), SHOWN_CHARS_MAX);
        let place = shown(&self.place);
        let with = |text: &str| match text {
            "" => String::new(),
            text => format!(": {}", shown(text)),
        };
        match (&self.before, &self.after) {
            (None, Some(after)) => write!(formatter, "+ {place}{}", with(after)),
            (Some(before), None) => write!(formatter, "- {place}{}", with(before)),
            (Some(before), Some(after)) => {
                write!(formatter, "~ {place}: {} -> {}", shown(before), shown(after))
            }
            (None, None) => write!(formatter, "~ {place}"),
        }
    }
}

impl Surface {
    /// What a registration declares, with the contract and the imports of its build.
    pub fn new(contract: &str, imports: &[String], registration: &Registration) -> Surface {
        let specs = || registration.tools.iter().map(|tool| tool.spec());
        Surface {
            contract: contract.to_owned(),
            imports: imports.iter().cloned().collect(),
            needs: registration.needs.iter().cloned().chain(specs().filter_map(required)).collect(),
            tools: specs().map(|spec| (spec.name.to_string(), definition(spec))).collect(),
        }
    }

    /// The surface with hashes in place of definitions.
    pub fn outline(&self) -> Outline {
        let hash = |value: &Value| {
            let digest = Sha256::digest(value.to_string());
            digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let tools: BTreeMap<String, String> =
            self.tools.iter().map(|(name, definition)| (name.clone(), hash(definition))).collect();
        Outline {
            contract: self.contract.clone(),
            imports: self.imports.clone(),
            needs: self.needs.clone(),
            definitions: hash(&json!(tools)),
            tools,
            is_cut: false,
        }
    }
}

impl Outline {
    /// The names of its tools, as a reader takes them; none where the outline was too large to be
    /// remembered.
    pub fn names(&self) -> Option<BTreeSet<String>> {
        let names = self.tools.keys().map(|name| Some(ToolName::new(name).ok()?.skeleton()));
        if self.is_cut { None } else { names.collect() }
    }

    /// The same without what grows with the plugin, if all of it has more than `bytes_max` bytes.
    pub fn within(self, bytes_max: usize) -> Outline {
        if self.bytes() <= bytes_max {
            return self;
        }
        let Outline { contract, definitions, .. } = self;
        Outline { contract, definitions, is_cut: true, ..Outline::default() }
    }

    /// Bytes of its texts.
    pub fn bytes(&self) -> usize {
        let tools = self.tools.iter().map(|(name, hash)| name.len() + hash.len());
        let needs = self.needs.iter().map(|need| {
            let tools = need.tools.iter().map(String::len).sum::<usize>();
            need.kind.len() + need.value.to_string().len() + need.reason.len() + tools
        });
        tools.chain(needs).chain(self.imports.iter().map(String::len)).sum()
    }

    /// Tells whether a build with this outline asks for nothing that `before` did not ask for.
    pub fn asks_no_more_than(&self, before: &Outline) -> bool {
        let authority = |need: &Need| (need.kind.clone(), need.value.clone(), need.tools.clone());
        let asked: Vec<_> = before.needs.iter().map(authority).collect();
        self.needs.iter().all(|need| asked.contains(&authority(need)))
    }
}

/// How `after` differs from `before`, authority first.
pub fn differences(before: &Surface, after: &Surface) -> Vec<Difference> {
    let mut found = of_authority(&before.outline(), &after.outline());
    let names: BTreeSet<&String> = before.tools.keys().chain(after.tools.keys()).collect();
    for name in names {
        if found.len() > DIFFERENCES_MAX {
            break;
        }
        let place = format!("tool {name}");
        match (before.tools.get(name), after.tools.get(name)) {
            (Some(before), Some(after)) => {
                of_values(&format!("{place} "), before, after, &mut found)
            }
            (before, after) => {
                let words = |definition: &Value| match &definition["description"] {
                    Value::String(text) => text.clone(),
                    _ => String::new(),
                };
                let (before, after) = (before.map(words), after.map(words));
                found.push(Difference { place, before, after });
            }
        }
    }
    found.truncate(DIFFERENCES_MAX);
    found
}

/// The same where of the earlier build only the outline is known.
pub fn differences_in_outline(before: &Outline, after: &Outline) -> Vec<Difference> {
    let mut found = of_authority(before, after);
    let names: BTreeSet<&String> = before.tools.keys().chain(after.tools.keys()).collect();
    for name in names {
        let (before, after) = (before.tools.get(name), after.tools.get(name));
        if before == after {
            continue;
        }
        let is_both = before.is_some() && after.is_some();
        let words = |_: &String| String::new();
        found.push(Difference {
            place: format!("tool {name}"),
            before: before.filter(|_| !is_both).map(words),
            after: after.filter(|_| !is_both).map(words),
        });
    }
    found.truncate(DIFFERENCES_MAX);
    found
}

fn of_authority(before: &Outline, after: &Outline) -> Vec<Difference> {
    let mut found = Vec::new();
    let need = |need: &Need| {
        let tools = match need.tools.as_slice() {
            [] => String::new(),
            tools => format!(" for {}", tools.join(", ")),
        };
        let reason = if need.reason.is_empty() { "" } else { ": " };
        (format!("needs {}", need.kind), format!("{}{tools}{reason}{}", need.value, need.reason))
    };
    for lost in before.needs.iter().filter(|need| !after.needs.contains(need)) {
        let (place, text) = need(lost);
        found.push(Difference { place, before: Some(text), after: None });
    }
    for new in after.needs.iter().filter(|need| !before.needs.contains(need)) {
        let (place, text) = need(new);
        found.push(Difference { place, before: None, after: Some(text) });
    }
    for lost in before.imports.difference(&after.imports) {
        let place = format!("imports {lost}");
        found.push(Difference { place, before: Some(String::new()), after: None });
    }
    for new in after.imports.difference(&before.imports) {
        let place = format!("imports {new}");
        found.push(Difference { place, before: None, after: Some(String::new()) });
    }
    if before.contract != after.contract {
        let (before, after) = (Some(before.contract.clone()), Some(after.contract.clone()));
        found.push(Difference { place: "contract".to_owned(), before, after });
    }
    found
}

/// Walks two values side by side. They are as deep as schemas may be.
fn of_values(place: &str, before: &Value, after: &Value, found: &mut Vec<Difference>) {
    if before == after || found.len() > DIFFERENCES_MAX {
        return;
    }
    if let (Value::Object(left), Value::Object(right)) = (before, after) {
        let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
        for name in names {
            if found.len() > DIFFERENCES_MAX {
                break;
            }
            let below = format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"));
            let below = text::cut(&below, SHOWN_CHARS_MAX);
            match (left.get(name), right.get(name)) {
                (Some(before), Some(after)) => of_values(&below, before, after, found),
                (before, after) => {
                    let (before, after) = (before.map(in_words), after.map(in_words));
                    found.push(Difference { place: below, before, after });
                }
            }
        }
        return;
    }
    let (before, after) = (Some(in_words(before)), Some(in_words(after)));
    found.push(Difference { place: place.to_owned(), before, after });
}

fn in_words(value: &Value) -> String {
    value.to_string()
}

/// All of a tool's definition that a model or a rule sees, in one form.
fn definition(spec: &ToolSpec) -> Value {
    let ToolSpec {
        name: _,
        toolset,
        description,
        parameters,
        output,
        emoji,
        requires_env,
        max_result_size_chars,
        overrides,
        has_check,
        has_dynamic_schema,
        annotations,
        examples,
        extensions,
    } = spec;
    let examples: Vec<Value> = examples
        .iter()
        .map(|example| json!({ "arguments": example.arguments, "expected": example.expected }))
        .collect();
    json!({
        "toolset": toolset,
        "description": description,
        "parameters": parameters,
        "output": output,
        "emoji": emoji,
        "requires-env": requires_env,
        "max-result-size-chars": max_result_size_chars,
        "overrides": overrides,
        "has-check": has_check,
        "has-dynamic-schema": has_dynamic_schema,
        "annotations": {
            "read-only": annotations.read_only,
            "destructive": annotations.destructive,
            "idempotent": annotations.idempotent,
            "open-world": annotations.open_world,
        },
        "examples": examples,
        "extensions": extensions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(kind: &str, value: &str) -> Need {
        let (kind, value) = (kind.to_owned(), value.to_owned());
        Need { kind, value, tools: vec!["t".to_owned()], reason: "why".to_owned() }
    }

    fn surface(imports: &[&str], needs: &[Need], tools: &[(&str, Value)]) -> Surface {
        Surface {
            contract: "0.1.0".to_owned(),
            imports: imports.iter().map(|import| (*import).to_owned()).collect(),
            needs: needs.to_vec(),
            tools: tools.iter().map(|(name, tool)| ((*name).to_owned(), tool.clone())).collect(),
        }
    }

    fn lines(differences: &[Difference]) -> Vec<String> {
        differences.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_part_is_compared() {
        let before = surface(
            &["a", "b"],
            &[need("kv", "{}")],
            &[
                ("gone", json!({"description": "was here"})),
                ("t", json!({"description": "old", "parameters": {"q": {"type": "string"}}})),
                ("same", json!({"description": "same"})),
            ],
        );
        let after = surface(
            &["b", "c"],
            &[need("kv", "{}"), need("http", r#"{"hosts":["x"]}"#)],
            &[
                ("new", json!({"description": "hello\u{202e}"})),
                (
                    "t",
                    json!({"description": "new", "parameters": {"q": {"type": "string"}, "r": 1}}),
                ),
                ("same", json!({"description": "same"})),
            ],
        );
        let expected = [
            r#"+ needs http: {"hosts":["x"]} for t: why"#,
            "- imports a",
            "+ imports c",
            "- tool gone: was here",
            "+ tool new: hello[U+202E]",
            r#"~ tool t /description: "old" -> "new""#,
            "+ tool t /parameters/r: 1",
        ];
        assert_eq!(lines(&differences(&before, &after)), expected);
        let coarse = lines(&differences_in_outline(&before.outline(), &after.outline()));
        assert_eq!(coarse[..3], expected[..3]);
        assert_eq!(coarse[3..], ["- tool gone", "+ tool new", "~ tool t"]);
        assert!(differences(&after, &after).is_empty());
        assert!(!after.outline().asks_no_more_than(&before.outline()));
        assert!(before.outline().asks_no_more_than(&after.outline()));
    }

    #[test]
    fn what_is_told_of_many_differences_is_bounded() {
        let build = |letter: char| {
            let inner = (0..3_000).map(|n| (format!("{letter}{n}"), json!({})));
            let inner: serde_json::Map<String, Value> = inner.collect();
            surface(&[], &[], &[("t", json!({ "n".repeat(32_000): inner }))])
        };
        let found = differences(&build('a'), &build('b'));
        assert_eq!(found.len(), DIFFERENCES_MAX);
        let longest = found.iter().map(|difference| difference.place.len()).max();
        assert!(longest < Some(300), "{longest:?}");
    }

    #[test]
    fn what_a_tool_requires_is_asked_for() {
        let build = |requires: &[&str]| {
            let tool = |name: &str, requires: &[&str]| {
                let name = ToolName::new(name).expect("a name");
                let mut spec = ToolSpec::new(name, "t", "", json!({}));
                spec.requires_env = requires.iter().map(|&name| name.to_owned()).collect();
                spec
            };
            let specs = [tool("first", &["A"]), tool("second", requires)];
            surface(&[], &specs.iter().filter_map(required).collect::<Vec<_>>(), &[]).outline()
        };
        let (before, after) = (build(&[]), build(&["A"]));
        assert!(!after.asks_no_more_than(&before) && before.asks_no_more_than(&after));
    }

    #[test]
    fn differences_are_bounded() {
        let many = |value: i32| {
            let object: serde_json::Map<String, Value> =
                (0..1_000).map(|number| (format!("k{number}"), json!(value))).collect();
            surface(&[], &[], &[("t", json!({ "parameters": object }))])
        };
        let found = differences(&many(1), &many(2));
        assert_eq!(found.len(), DIFFERENCES_MAX);
        let long = |letter: &str| {
            surface(&[], &[], &[("t", json!({ "description": letter.repeat(100_000) }))])
        };
        let line = lines(&differences(&long("a"), &long("b"))).remove(0);
        assert!(line.len() < 1_000, "{}", line.len());
    }
}
