//! What `watch` shows: events in, rows out. Pure; nothing is read or drawn here.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, SystemTime};

use toolhost_core::text;
use toolhost_core::tool::Code;
use toolhost_state::audit::Record;

/// How far back calls count.
pub(super) const WINDOW: Duration = Duration::from_secs(5 * 60);
/// Calls that are remembered; beyond, the oldest are forgotten before their time.
const CALLS_MAX: usize = 20_000;
/// Events that are remembered.
const EVENTS_MAX: usize = 1_000;
/// Files whose loads are remembered; beyond, counting begins anew.
const SOURCES_MAX: usize = 10_000;
/// Characters of the filter.
const FILTER_CHARS_MAX: usize = 100;
/// Codes of calls that never ran, so that their times say nothing.
const NOT_RUN: [Code; 8] = [
    Code::UnknownTool,
    Code::InvalidArguments,
    Code::Denied,
    Code::Busy,
    Code::Quarantined,
    Code::Pending,
    Code::NotInSession,
    Code::Unavailable,
];

/// A plugin, as a host that has just loaded it knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PluginRow {
    /// Such as `plugin:json`; or the file, if its name is no id.
    pub(super) source: String,
    /// The file.
    pub(super) path: String,
    /// SHA-256 of its bytes, if it loaded.
    pub(super) digest: Option<String>,
    /// In a word or two.
    pub(super) state: String,
    /// How many tools of it can be called.
    pub(super) tools: usize,
}

/// A tool, as that host knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ToolRow {
    pub(super) name: String,
    pub(super) source: String,
    /// In a word or two.
    pub(super) state: String,
}

/// What there is to be called at present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Inventory {
    pub(super) plugins: Vec<PluginRow>,
    pub(super) tools: Vec<ToolRow>,
}

/// A part of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pane {
    Plugins,
    Tools,
    Events,
}

impl Pane {
    pub(super) const ALL: [Pane; 3] = [Pane::Plugins, Pane::Tools, Pane::Events];

    pub(super) fn title(self) -> &'static str {
        match self {
            Pane::Plugins => "Plugins",
            Pane::Tools => "Tools",
            Pane::Events => "Events",
        }
    }

    pub(super) fn headings(self) -> &'static [&'static str] {
        match self {
            Pane::Plugins => {
                &["PLUGIN", "STATE", "TOOLS", "LOADS", "RELOADS", "LAST LOAD", "CALLS", "REFUSED"]
            }
            Pane::Tools => {
                &["TOOL", "SOURCE", "STATE", "CALLS", "FAILED", "REFUSED", "P50", "P99", "LAST"]
            }
            Pane::Events => &["TIME", "KIND", "WHAT"],
        }
    }

    /// The columns that make way on a narrow terminal, the first to go first.
    pub(super) fn dispensable(self) -> &'static [usize] {
        match self {
            Pane::Plugins => &[3, 4, 5, 7, 6, 2],
            Pane::Tools => &[8, 6, 5, 4, 7, 1, 3],
            Pane::Events => &[],
        }
    }
}

/// What a person did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Press {
    Up,
    Down,
    Tab,
    Enter,
    Escape,
    Backspace,
    Letter(char),
    /// Ctrl-C.
    Interrupt,
}

/// What is to be done then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Quit,
    Refresh,
}

/// One call of the log.
#[derive(Clone, Debug)]
struct LastCall {
    time: SystemTime,
    tool: String,
    source: String,
    wall: Duration,
    code: String,
}

/// Loads of one plugin.
#[derive(Clone, Debug, Default)]
struct Loads {
    count: usize,
    reloads: usize,
    digest: String,
    last: Option<SystemTime>,
}

/// Calls of one tool or one plugin, added up.
#[derive(Clone, Debug, Default)]
struct Sum {
    calls: usize,
    failed: usize,
    refused: usize,
    times: Vec<Duration>,
    last: Option<SystemTime>,
}

/// Everything that is shown, and where a person is.
#[derive(Clone, Debug)]
pub(super) struct WatchView {
    known: Inventory,
    calls: VecDeque<LastCall>,
    denials: VecDeque<(SystemTime, String, String)>,
    loads: BTreeMap<String, Loads>,
    /// The bytes that were loaded last from each file.
    seen: BTreeMap<String, String>,
    events: VecDeque<[String; 3]>,
    damaged: usize,
    notice: Option<String>,
    failure: Option<String>,
    pane: Pane,
    selected: [usize; 3],
    filter: String,
    is_filtering: bool,
}

impl WatchView {
    /// With a notice, which is shown until there is an event.
    pub(super) fn new(notice: Option<String>) -> WatchView {
        WatchView {
            known: Inventory::default(),
            calls: VecDeque::new(),
            denials: VecDeque::new(),
            loads: BTreeMap::new(),
            seen: BTreeMap::new(),
            events: VecDeque::new(),
            damaged: 0,
            notice,
            failure: None,
            pane: Pane::Plugins,
            selected: [0; 3],
            filter: String::new(),
            is_filtering: false,
        }
    }

    /// Takes what a host knows by now.
    pub(super) fn know(&mut self, known: Inventory) {
        self.known = known;
        self.failure = None;
    }

    /// Takes why no host can be asked. What was known stays.
    pub(super) fn fail(&mut self, why: &str) {
        self.failure = Some(format!("The plugins cannot be looked at: {}", text::one_line(why)));
    }

    /// Takes a record of the log, with what it says in words. Loads of the same bytes as before are
    /// counted, and no events. Returns whether a host may know more by now than the one that was
    /// asked last.
    pub(super) fn note(&mut self, record: &Record, words: &str) -> bool {
        let (tool, source) = (record.str("tool").to_owned(), source(record));
        let is_news = match record.kind.as_str() {
            "call" => {
                let wall = Duration::from_micros(record.number("wall_us"));
                let code = record.str("code").to_owned();
                self.calls.push_back(LastCall { time: record.time, tool, source, wall, code });
                false
            }
            "denial" => {
                self.denials.push_back((record.time, tool, source));
                false
            }
            "load" => self.loaded(record),
            kind => ["grant", "revoke", "trust", "secret"].contains(&kind),
        };
        while self.calls.len() > CALLS_MAX {
            self.calls.pop_front();
        }
        while self.denials.len() > CALLS_MAX {
            self.denials.pop_front();
        }
        // A host that starts loads everything, and most of that is as it was.
        if record.kind == "load" && !is_news {
            return false;
        }
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        let time = humantime::format_rfc3339_seconds(record.time).to_string();
        let time = time.trim_end_matches('Z').split('T').nth(1).unwrap_or_default().to_owned();
        self.events.push_back([time, text::one_line(&record.kind), text::one_line(words)]);
        if self.selected[Pane::Events as usize] > 0 {
            // The newest stands first, so what was selected moves down.
            self.selected[Pane::Events as usize] += 1;
        }
        is_news
    }

    /// A load is news if it is neither of the bytes that are known to lie there, nor of those that
    /// were loaded from there before: others may have folders that are not shown here.
    fn loaded(&mut self, record: &Record) -> bool {
        let (path, digest) = (record.str("path"), record.str("digest"));
        let source = source(record);
        if self.loads.len() > SOURCES_MAX || self.seen.len() > SOURCES_MAX {
            (self.loads, self.seen) = Default::default();
        }
        let loads = self.loads.entry(source).or_default();
        loads.count += 1;
        if !digest.is_empty() {
            loads.reloads += usize::from(!loads.digest.is_empty() && loads.digest != digest);
            loads.digest = digest.to_owned();
        }
        loads.last = Some(record.time);
        let seen = self.seen.insert(path.to_owned(), digest.to_owned());
        let known = self.known.plugins.iter().find(|plugin| plugin.path == path);
        let known = known.map(|plugin| plugin.digest.as_deref().unwrap_or_default());
        known != Some(digest) && seen.as_deref() != Some(digest)
    }

    /// Counts a line of the log that is no record.
    pub(super) fn damaged(&mut self) {
        self.damaged += 1;
    }

    /// Forgets what is too old to count.
    pub(super) fn forget(&mut self, now: SystemTime) {
        let is_old = |time: SystemTime| age(now, time) > WINDOW;
        while self.calls.front().is_some_and(|call| is_old(call.time)) {
            self.calls.pop_front();
        }
        while self.denials.front().is_some_and(|(time, ..)| is_old(*time)) {
            self.denials.pop_front();
        }
    }

    /// Sets what is shown above the panes as long as there is no event.
    pub(super) fn say(&mut self, notice: Option<String>) {
        self.notice = notice;
    }

    /// What to say above the panes, if anything.
    pub(super) fn notice(&self) -> Option<String> {
        match (self.failure.as_ref().or(self.notice.as_ref()), self.damaged) {
            (Some(notice), _) => Some(notice.clone()),
            (None, 0) => None,
            (None, count) => Some(format!(
                "{count} lines of the audit log are not records; see `toolhost audit verify`"
            )),
        }
    }

    /// Tells whether any event was seen.
    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    pub(super) fn pane(&self) -> Pane {
        self.pane
    }

    /// The row where a person is.
    pub(super) fn selected(&self, pane: Pane, rows: usize) -> usize {
        self.selected[pane as usize].min(rows.saturating_sub(1))
    }

    /// The filter as it is being written, or as it holds.
    pub(super) fn filter(&self) -> Option<(&str, bool)> {
        (self.is_filtering || !self.filter.is_empty())
            .then_some((self.filter.as_str(), self.is_filtering))
    }

    /// All in one line.
    pub(super) fn summary(&self) -> String {
        let failed = self.calls.iter().filter(|call| call.code != "ok").count();
        let counted = |count: usize, what: &str| {
            format!("{count} {what}{}", if count == 1 { "" } else { "s" })
        };
        format!(
            "{}, {}; last {} min: {}, {failed} failed, {} refused",
            counted(self.known.plugins.len(), "plugin"),
            counted(self.known.tools.len(), "tool"),
            WINDOW.as_secs() / 60,
            counted(self.calls.len(), "call"),
            self.denials.len()
        )
    }

    /// What a key does.
    pub(super) fn press(&mut self, press: Press) -> Wish {
        if press == Press::Interrupt {
            return Wish::Quit;
        }
        if self.is_filtering {
            match press {
                Press::Enter | Press::Tab => self.is_filtering = false,
                Press::Escape => {
                    self.is_filtering = false;
                    self.filter.clear();
                }
                Press::Backspace => drop(self.filter.pop()),
                Press::Letter(letter) if self.filter.chars().count() < FILTER_CHARS_MAX => {
                    self.filter.push(letter);
                }
                _ => {}
            }
            return Wish::Nothing;
        }
        match press {
            Press::Letter('q') => return Wish::Quit,
            Press::Letter('r') => return Wish::Refresh,
            Press::Letter('/') => self.is_filtering = true,
            Press::Escape => self.filter.clear(),
            Press::Tab => {
                let next = (self.pane as usize + 1) % Pane::ALL.len();
                self.pane = Pane::ALL[next];
            }
            Press::Up | Press::Letter('k') => {
                let at = self.selected(self.pane, self.rows(self.pane, SystemTime::now()).len());
                self.selected[self.pane as usize] = at.saturating_sub(1);
            }
            Press::Down | Press::Letter('j') => {
                let rows = self.rows(self.pane, SystemTime::now()).len();
                let at = self.selected(self.pane, rows) + 1;
                self.selected[self.pane as usize] = at.min(rows.saturating_sub(1));
            }
            _ => {}
        }
        Wish::Nothing
    }

    /// The rows of a pane that pass the filter, a cell for each heading.
    pub(super) fn rows(&self, pane: Pane, now: SystemTime) -> Vec<Vec<String>> {
        let rows = match pane {
            Pane::Plugins => self.plugin_rows(now),
            Pane::Tools => self.tool_rows(now),
            Pane::Events => self.events.iter().rev().map(|event| event.to_vec()).collect(),
        };
        let wanted = self.filter.to_lowercase();
        let passes = |row: &Vec<String>| row.join(" ").to_lowercase().contains(&wanted);
        rows.into_iter().filter(passes).collect()
    }

    fn plugin_rows(&self, now: SystemTime) -> Vec<Vec<String>> {
        let sums = self.sums(|_, source| source.to_owned());
        let none = (Loads::default(), Sum::default());
        let row = |plugin: &PluginRow| {
            let loads = self.loads.get(&plugin.source).unwrap_or(&none.0);
            let sum = sums.get(&plugin.source).unwrap_or(&none.1);
            vec![
                text::one_line(&plugin.source),
                text::one_line(&plugin.state),
                plugin.tools.to_string(),
                loads.count.to_string(),
                loads.reloads.to_string(),
                ago(now, loads.last),
                sum.calls.to_string(),
                sum.refused.to_string(),
            ]
        };
        self.known.plugins.iter().map(row).collect()
    }

    fn tool_rows(&self, now: SystemTime) -> Vec<Vec<String>> {
        let mut sums = self.sums(|tool, source| (tool.to_owned(), source.to_owned()));
        let row = |tool: &str, source: &str, state: &str, mut sum: Sum| {
            sum.times.sort_unstable();
            vec![
                text::one_line(tool),
                text::one_line(source),
                text::one_line(state),
                sum.calls.to_string(),
                sum.failed.to_string(),
                sum.refused.to_string(),
                shown(percentile(&sum.times, 50)),
                shown(percentile(&sum.times, 99)),
                ago(now, sum.last),
            ]
        };
        let mut rows = Vec::new();
        for tool in &self.known.tools {
            let sum = sums.remove(&(tool.name.clone(), tool.source.clone())).unwrap_or_default();
            rows.push((sum.calls, row(&tool.name, &tool.source, &tool.state, sum)));
        }
        // Those of other folders, and names that no tool has.
        for ((tool, source), sum) in sums {
            rows.push((sum.calls, row(&tool, &source, "not here", sum)));
        }
        // Stable: those with as many calls stay sorted by name.
        rows.sort_by_key(|(calls, _)| std::cmp::Reverse(*calls));
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Calls and denials, added up by what `key` makes of tool and source.
    fn sums<K: Ord>(&self, key: impl Fn(&str, &str) -> K) -> BTreeMap<K, Sum> {
        let mut sums: BTreeMap<K, Sum> = BTreeMap::new();
        for call in &self.calls {
            let sum = sums.entry(key(&call.tool, &call.source)).or_default();
            sum.calls += 1;
            sum.failed += usize::from(call.code != "ok");
            sum.last = Some(call.time);
            if !NOT_RUN.iter().any(|code| code.as_str() == call.code) {
                sum.times.push(call.wall);
            }
        }
        for (_, tool, source) in &self.denials {
            sums.entry(key(tool, source)).or_default().refused += 1;
        }
        sums
    }
}

fn source(record: &Record) -> String {
    match record.str("source") {
        "" => "-".to_owned(),
        source => source.to_owned(),
    }
}

/// By nearest rank: the time within which so many of a hundred calls were over.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.max(1) - 1).copied()
}

/// How long something took, to three figures.
fn shown(time: Option<Duration>) -> String {
    let Some(time) = time else { return "-".to_owned() };
    let millis = time.as_secs_f64() * 1_000.0;
    match millis {
        _ if millis < 10.0 => format!("{millis:.2} ms"),
        _ if millis < 100.0 => format!("{millis:.1} ms"),
        _ if millis < 10_000.0 => format!("{millis:.0} ms"),
        _ => format!("{:.1} s", millis / 1_000.0),
    }
}

fn ago(now: SystemTime, time: Option<SystemTime>) -> String {
    let Some(time) = time else { return "-".to_owned() };
    match age(now, time).as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

/// None at all if clocks disagree.
fn age(now: SystemTime, time: SystemTime) -> Duration {
    now.duration_since(time).unwrap_or_default()
}

#[cfg(test)]
mod tests;
