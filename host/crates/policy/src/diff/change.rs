//! What a changed build means for whoever calls its tools: which changes break calls that worked,
//! and whether it asks for more.

mod schema;

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::Surface;
use toolhost_core::json::Size;
use toolhost_core::text;
use toolhost_core::text::suspect::visible;

/// Changes that are told.
const CHANGES_MAX: usize = 50;
const CHARS_MAX: usize = 200;
/// Characters of a place, so that what is said of it is seen as well.
const PLACE_CHARS_MAX: usize = 120;
/// Most that is compared of one tool, in steps: a thing can be compared with many.
const WORK_MAX: u64 = 2_000_000;

/// What a change means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meaning {
    /// Calls that worked may fail.
    Breaking,
    /// It asks for more than before.
    Widened,
    /// It asks for less than before.
    Narrowed,
    /// Calls that worked still do.
    Compatible,
}

/// One change. As a text it is one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What it means.
    pub meaning: Meaning,
    /// What has changed, in words.
    pub what: String,
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = match self.meaning {
            Meaning::Breaking => "breaking",
            Meaning::Widened => "asks for more",
            Meaning::Narrowed => "asks for less",
            Meaning::Compatible => "compatible",
        };
        write!(formatter, "{meaning}: {}", text::cut(&visible(&self.what), CHARS_MAX))
    }
}

/// Judges how one build differs from the one before, what breaks first.
pub fn changes(before: &Surface, after: &Surface) -> Vec<Change> {
    let mut found = FoundChange::default();
    for name in before.tools.keys().filter(|name| !after.tools.contains_key(*name)) {
        found.add(Meaning::Breaking, format_args!("tool {name} is gone"));
    }
    for (name, now) in &after.tools {
        match before.tools.get(name) {
            None => found.add(Meaning::Compatible, format_args!("tool {name} is new")),
            Some(then) if then == now => {}
            Some(then) => tool(name, then, now, &mut found),
        }
    }
    for need in after.needs.iter().filter(|need| !before.needs.contains(need)) {
        found.add(Meaning::Widened, format_args!("need {} {}", need.kind, need.value));
    }
    for need in before.needs.iter().filter(|need| !after.needs.contains(need)) {
        found.add(Meaning::Narrowed, format_args!("need {} {}", need.kind, need.value));
    }
    found.first()
}

/// Changes as they are found, of which only those that may be told are kept.
#[derive(Default)]
struct FoundChange {
    kept: Vec<Change>,
    /// How many there are, whether they are kept or not.
    count: usize,
    /// What has been compared of the present tool.
    work: u64,
}

impl FoundChange {
    fn add(&mut self, meaning: Meaning, what: fmt::Arguments<'_>) {
        self.count += 1;
        let of_this = self.kept.iter().filter(|change| change.meaning == meaning).count();
        if of_this < CHANGES_MAX {
            self.kept.push(Change { meaning, what: what.to_string() });
        }
    }

    /// Counts values that are about to be compared; false once they are too many.
    fn spend(&mut self, values: [&Value; 2]) -> bool {
        for value in values {
            if self.work <= WORK_MAX {
                self.work += Size::of(value).steps();
            }
        }
        self.work <= WORK_MAX
    }

    /// Those that are told.
    fn first(mut self) -> Vec<Change> {
        self.kept.sort_by_key(|change| change.meaning);
        self.kept.truncate(CHANGES_MAX);
        self.kept
    }
}

/// A place, however long the names on the way there are.
fn place(words: fmt::Arguments<'_>) -> String {
    text::cut(&words.to_string(), PLACE_CHARS_MAX)
}

fn tool(name: &str, before: &Value, after: &Value, found: &mut FoundChange) {
    let empty = Map::new();
    let [then, now] = [before, after].map(|tool| tool.as_object().unwrap_or(&empty));
    let keys: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    for key in keys {
        let (then, now) = (then.get(key), now.get(key));
        if then == now {
            continue;
        }
        match key.as_str() {
            "parameters" => {
                let [then, now] = [then, now].map(|schema| schema.unwrap_or(&Value::Null));
                let count = found.count;
                found.work = 0;
                schema::compare(&place(format_args!("tool {name}")), then, now, found);
                if found.count == count {
                    let words = format_args!("tool {name}: descriptions of its parameters");
                    found.add(Meaning::Compatible, words);
                }
            }
            key => found.add(Meaning::Compatible, format_args!("tool {name}: its {key}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use toolhost_core::tool::Need;

    fn surface(tools: Value, needs: &[&str]) -> Surface {
        let need = |kind: &&str| Need {
            kind: (*kind).to_owned(),
            value: "{}".to_owned(),
            tools: Vec::new(),
            reason: String::new(),
        };
        let tools = tools.as_object().expect("tools").clone();
        Surface {
            needs: needs.iter().map(need).collect(),
            tools: tools.into_iter().collect(),
            ..Surface::default()
        }
    }

    #[test]
    fn tools_and_needs_come_and_go() {
        let before = surface(json!({ "a": {}, "b": { "description": "x" } }), &["http"]);
        let after = surface(json!({ "b": { "description": "y" }, "c": {} }), &["dirs"]);
        let found: Vec<String> = changes(&before, &after).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "breaking: tool a is gone",
                "asks for more: need dirs {}",
                "asks for less: need http {}",
                "compatible: tool b: its description",
                "compatible: tool c is new",
            ]
        );
        assert!(changes(&after, &after).is_empty());
    }

    #[test]
    fn a_schema_that_differs_only_in_descriptions_is_compatible() {
        let of = |schema: Value| surface(json!({ "t": { "parameters": schema } }), &[]);
        let described = |text: &str| of(json!({ "properties": { "a": { "description": text } } }));
        let found: Vec<String> =
            changes(&described("x"), &described("y")).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["compatible: tool t: descriptions of its parameters"]);
        let found = changes(&described("x"), &of(json!({ "not": {} })));
        assert_eq!(found[0].to_string(), "breaking: tool t: `not` changed, and is not judged");
    }
}
