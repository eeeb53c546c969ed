//! Which records of the log are entries that people look at, and the last few of them.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use toolhost_state::audit::Record;

/// Files whose last load is remembered; beyond, their next load counts as a change.
const FILES_MAX: usize = 10_000;
/// What makes two loads of a file the same.
const OF_LOAD: [&str; 5] = ["ok", "digest", "reason", "waits", "serving"];

/// Knows what became of each file when it was loaded last.
#[derive(Debug, Default)]
pub(super) struct Changes {
    loads: HashMap<String, [Value; OF_LOAD.len()]>,
}

impl Changes {
    /// Tells whether a record says something new: not a load with the same end as the one before.
    pub(super) fn has(&mut self, record: &Record) -> bool {
        if record.kind != "load" {
            return true;
        }
        if self.loads.len() >= FILES_MAX {
            self.loads.clear();
        }
        let load = OF_LOAD.map(|name| record.members.get(name).cloned().unwrap_or_default());
        let before = self.loads.insert(record.str("path").to_owned(), load.clone());
        before.as_ref() != Some(&load)
    }
}

/// The last few entries: calls and their denials before all others.
#[derive(Debug)]
pub(super) struct SelectedLines {
    most: usize,
    count: usize,
    /// Each with its place among all.
    calls: VecDeque<(usize, Record)>,
    others: VecDeque<(usize, Record)>,
}

impl SelectedLines {
    pub(super) fn new(most: usize) -> SelectedLines {
        SelectedLines { most, count: 0, calls: VecDeque::new(), others: VecDeque::new() }
    }

    pub(super) fn push(&mut self, record: Record) {
        let is_of_call = ["call", "denial"].contains(&&*record.kind);
        let entries = if is_of_call { &mut self.calls } else { &mut self.others };
        entries.push_back((self.count, record));
        if entries.len() > self.most {
            entries.pop_front();
        }
        self.count += 1;
    }

    /// How many there were in all.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Those that are shown, in the order in which they came.
    pub(super) fn into_entries(self) -> Vec<Record> {
        let room = self.most - self.calls.len();
        let surplus = self.others.len().saturating_sub(room);
        let others = self.others.into_iter().skip(surplus);
        let mut entries: Vec<(usize, Record)> = self.calls.into_iter().chain(others).collect();
        entries.sort_by_key(|(place, _)| *place);
        entries.into_iter().map(|(_, record)| record).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: &str, members: &str) -> Record {
        let line = format!(
            r#"{{"chain":"c","seq":0,"time":"1970-01-01T00:00:00Z","kind":"{kind}",{members},"prev":"","hash":"{}"}}"#,
            "0".repeat(64)
        );
        Record::parse(line.as_bytes()).expect("a record")
    }

    fn load(path: &str, digest: &str) -> Record {
        record("load", &format!(r#""path":"{path}","ok":true,"digest":"{digest}""#))
    }

    #[test]
    fn a_load_with_the_same_end_is_no_change() {
        let mut changes = Changes::default();
        let mut has = |record: Record| changes.has(&record);
        assert!(has(load("/a", "1")) && has(load("/b", "1")));
        assert!(!has(load("/a", "1")) && has(load("/a", "2")) && has(load("/a", "1")));
        let failed = || record("load", r#""path":"/a","ok":false,"reason":"why""#);
        assert!(has(failed()) && !has(failed()));
        let call = || record("call", r#""tool":"t""#);
        assert!(has(call()) && has(call()));
    }

    #[test]
    fn calls_come_before_all_others() {
        let shown = |kinds: &[&str], most: usize| {
            let mut selected = SelectedLines::new(most);
            for (place, kind) in kinds.iter().enumerate() {
                selected.push(record(kind, &format!(r#""place":{place}"#)));
            }
            let places = |record: &Record| record.number("place");
            (selected.count(), selected.into_entries().iter().map(places).collect::<Vec<_>>())
        };
        let kinds = ["call", "load", "call", "denial", "load", "grant", "load"];
        assert_eq!(shown(&kinds, 20), (7, vec![0, 1, 2, 3, 4, 5, 6]));
        assert_eq!(shown(&kinds, 5), (7, vec![0, 2, 3, 5, 6]));
        assert_eq!(shown(&kinds, 2), (7, vec![2, 3]));
        assert_eq!(shown(&kinds, 0), (7, vec![]));
    }
}
