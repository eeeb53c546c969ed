//! Records in, rows out.

use super::*;

/// A record of the log with these members.
fn record(seconds: u64, kind: &str, members: &str) -> Record {
    let time =
        humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    let line = format!(
        r#"{{"chain":"c","seq":0,"time":"{time}","kind":"{kind}",{members},"prev":"","hash":"{}"}}"#,
        "0".repeat(64)
    );
    Record::parse(line.as_bytes()).expect("a record")
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn call(seconds: u64, tool: &str, wall_us: u64, code: &str) -> Record {
    let members =
        format!(r#""tool":"{tool}","source":"plugin:p","wall_us":{wall_us},"code":"{code}""#);
    record(seconds, "call", &members)
}

fn load(seconds: u64, digest: &str) -> Record {
    let members = format!(r#""path":"/p.wasm","source":"plugin:p","digest":"{digest}","ok":true"#);
    record(seconds, "load", &members)
}

fn known() -> Inventory {
    let plugin = PluginRow {
        source: "plugin:p".into(),
        path: "/p.wasm".into(),
        digest: Some("d1".into()),
        state: "ready".into(),
        tools: 2,
    };
    let tool = |name: &str| ToolRow {
        name: name.into(),
        source: "plugin:p".into(),
        state: "ready".into(),
    };
    Inventory { plugins: vec![plugin], tools: vec![tool("a"), tool("b")] }
}

fn view() -> WatchView {
    let mut view = WatchView::new(None);
    view.know(known());
    view
}

fn lines(view: &WatchView, pane: Pane, now: u64) -> Vec<String> {
    view.rows(pane, at(now)).iter().map(|row| row.join(" ")).collect()
}

#[test]
fn calls_are_added_up_by_tool() {
    let mut view = view();
    for micros in 1..=100 {
        assert!(!view.note(&call(1_000, "b", micros * 1_000, "ok"), "b"));
    }
    view.note(&call(1_001, "b", 200_000, "failed"), "b");
    // It never ran, so its time says nothing.
    view.note(&call(1_002, "b", 1, "denied"), "b");
    view.note(&record(1_002, "denial", r#""tool":"b","source":"plugin:p","why":"no""#), "b");
    view.note(&call(1_003, "gone", 5, "unknown_tool"), "gone");
    assert_eq!(
        lines(&view, Pane::Tools, 1_012),
        [
            "b plugin:p ready 102 2 1 51.0 ms 100 ms 10 s",
            "gone plugin:p not here 1 1 0 - - 9 s",
            "a plugin:p ready 0 0 0 - - -",
        ]
    );
    assert_eq!(view.summary(), "1 plugin, 2 tools; last 5 min: 103 calls, 3 failed, 1 refused");
    assert_eq!(lines(&view, Pane::Plugins, 1_012), ["plugin:p ready 2 0 0 - 103 1"]);
}

#[test]
fn what_is_older_than_the_window_does_not_count() {
    let mut view = view();
    view.note(&call(1_000, "a", 1_000, "ok"), "a");
    view.note(&record(1_000, "denial", r#""tool":"a","source":"plugin:p","why":"no""#), "a");
    view.note(&call(1_200, "a", 2_000, "ok"), "a");
    view.forget(at(1_300));
    assert!(view.summary().contains("2 calls"), "{}", view.summary());
    view.forget(at(1_301));
    assert!(view.summary().contains("1 call, 0 failed, 0 refused"), "{}", view.summary());
    // A clock that went back forgets nothing.
    view.forget(at(0));
    assert!(view.summary().contains("1 call,"), "{}", view.summary());
    for seconds in 0..CALLS_MAX as u64 + 10 {
        view.note(&call(2_000 + seconds % 2, "a", 1, "ok"), "a");
    }
    assert_eq!((view.calls.len(), view.events.len()), (CALLS_MAX, EVENTS_MAX));
}

#[test]
fn loads_are_counted_and_only_other_bytes_are_news() {
    let mut view = view();
    // Another process started, with the same bytes.
    assert!(!view.note(&load(10, "d1"), ""));
    assert!(view.note(&load(20, "d2"), ""));
    // The host that was asked knows of these bytes only.
    assert!(!view.note(&load(30, "d1"), ""));
    assert_eq!(lines(&view, Pane::Plugins, 35), ["plugin:p ready 2 3 2 5 s 0 0"]);
    let other = r#""path":"/other.wasm","source":"plugin:other","digest":"d","ok":true"#;
    assert!(view.note(&record(40, "load", other), ""));
    // It lies in a folder that is not shown here, so it would be news for ever.
    assert!(!view.note(&record(41, "load", other), ""));
    let broken = r#""path":"/p.wasm","source":"plugin:p","ok":false,"reason":"truncated""#;
    assert!(view.note(&record(50, "load", broken), ""));
    for kind in ["grant", "revoke", "trust", "secret"] {
        assert!(view.note(&record(60, kind, r#""what":"plugin:p""#), ""), "{kind}");
    }
    assert!(!view.note(&record(60, "gap", r#""lost":1"#), ""));
}

#[test]
fn the_newest_event_stands_first_and_the_selection_stays_on_its_row() {
    let mut view = view();
    view.press(Press::Tab);
    view.press(Press::Tab);
    assert_eq!(view.pane(), Pane::Events);
    view.note(&call(3_661, "a", 1, "ok"), "first \u{1b}[31m");
    view.note(&call(3_662, "a", 1, "ok"), "second");
    assert_eq!(
        lines(&view, Pane::Events, 0),
        ["01:01:02 call second", "01:01:01 call first \\u{1b}[31m"]
    );
    view.press(Press::Down);
    assert_eq!(view.selected(Pane::Events, 2), 1);
    view.note(&call(3_663, "a", 1, "ok"), "third");
    assert_eq!(view.selected(Pane::Events, 3), 2);
    view.press(Press::Down);
    assert_eq!(view.selected(Pane::Events, 3), 2);
    view.press(Press::Up);
    assert_eq!(view.selected(Pane::Events, 3), 1);
    view.press(Press::Tab);
    assert_eq!((view.pane(), view.selected(Pane::Plugins, 0)), (Pane::Plugins, 0));
}

#[test]
fn the_filter_chooses_rows_of_every_pane() {
    let mut view = view();
    view.note(&call(1, "a", 1, "ok"), "called");
    assert_eq!(view.press(Press::Letter('/')), Wish::Nothing);
    for letter in "Qx".chars() {
        // Keys are letters of the filter now.
        assert_eq!(view.press(Press::Letter(letter)), Wish::Nothing);
    }
    assert_eq!(view.filter(), Some(("Qx", true)));
    assert!(Pane::ALL.into_iter().all(|pane| view.rows(pane, at(1)).is_empty()));
    view.press(Press::Backspace);
    view.press(Press::Backspace);
    view.press(Press::Letter('B'));
    view.press(Press::Enter);
    assert_eq!(view.filter(), Some(("B", false)));
    assert_eq!(lines(&view, Pane::Tools, 1), ["b plugin:p ready 0 0 0 - - -"]);
    view.press(Press::Escape);
    assert_eq!((view.filter(), view.rows(Pane::Tools, at(1)).len()), (None, 2));
    view.press(Press::Letter('/'));
    for _ in 0..1_000 {
        view.press(Press::Letter('x'));
    }
    assert_eq!(view.filter().expect("a filter").0.len(), FILTER_CHARS_MAX);
    view.press(Press::Escape);
    assert_eq!(view.filter(), None);
}

#[test]
fn keys_are_wishes() {
    let mut view = view();
    assert_eq!(view.press(Press::Letter('q')), Wish::Quit);
    assert_eq!(view.press(Press::Letter('r')), Wish::Refresh);
    assert_eq!(view.press(Press::Letter('z')), Wish::Nothing);
    view.press(Press::Letter('/'));
    assert_eq!(view.press(Press::Interrupt), Wish::Quit);
}

#[test]
fn a_notice_is_shown_and_damage_is_counted() {
    let mut view = WatchView::new(Some("the audit log is off".into()));
    assert_eq!(view.notice().as_deref(), Some("the audit log is off"));
    view.say(None);
    assert_eq!((view.notice(), view.has_events()), (None, false));
    view.fail("toolhost.toml:\u{1b} broken");
    assert_eq!(
        view.notice().as_deref(),
        Some("The plugins cannot be looked at: toolhost.toml:\\u{1b} broken")
    );
    view.know(known());
    assert_eq!(view.notice(), None);
    view.damaged();
    assert!(view.notice().expect("a notice").contains("1 lines"));
}

#[test]
fn times_have_three_figures() {
    let times: Vec<String> = [1_234, 12_340, 123_400, 1_234_000, 12_340_000]
        .map(|micros| shown(Some(Duration::from_micros(micros))))
        .to_vec();
    assert_eq!(times, ["1.23 ms", "12.3 ms", "123 ms", "1234 ms", "12.3 s"]);
    let ages: Vec<String> =
        [0, 119, 120, 7_199, 7_200].map(|then| ago(at(then), Some(at(0)))).to_vec();
    assert_eq!(ages, ["0 s", "119 s", "2 min", "119 min", "2 h"]);
    assert_eq!(percentile(&[], 50), None);
    assert_eq!(percentile(&[Duration::ZERO], 99), Some(Duration::ZERO));
}
