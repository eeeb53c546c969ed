//! A log from both ends: what is noted and what is found, tampering in every way, files that are
//! full, disks that fail, and many chains at once.

use std::fs;
use std::path::Path;
use std::sync::Barrier;

use serde_json::json;

use super::*;
use toolhost_core::tool::{Caller, Code, Content, Refusal, SourceId};

fn settings(folder: &Path) -> AuditSettings {
    AuditSettings::new(folder, &Limits::default())
}

fn log(folder: &Path) -> Audit {
    Audit::open(settings(folder))
}

fn called(tool: &str) -> Called {
    Called {
        tool: tool.to_owned(),
        source: Some(SourceId::Mcp("server".to_owned())),
        digest: None,
        caller: Caller::default(),
        arguments: Text::Whole("{}".to_owned()),
        ran: None,
        answer: Some(Answer::Text(Text::Whole("[]".to_owned()))),
        code: None,
        cancelled: false,
        used: Vec::new(),
        refusals: Vec::new(),
        why: None,
        wall: Duration::from_micros(15),
        guest: Duration::from_micros(5),
        memory_bytes: 65_536,
        host_calls: 3,
    }
}

/// Notes calls, each in a batch of its own.
fn write(audit: &Audit, tools: &[&str]) {
    for tool in tools {
        audit.note(called(tool));
        audit.flush();
    }
}

fn verified(state: &Path) -> Verified {
    let parts = parts(&folder(state)).expect("files");
    verify(parts.into_iter().map(|part| (part.name.clone(), part)))
}

fn records(state: &Path) -> Vec<Record> {
    let parts = parts(&folder(state)).expect("files");
    let lines = parts.into_iter().flat_map(read);
    lines.map(|(_, record)| record.expect("a record")).collect()
}

fn names(folder: &Path) -> Vec<String> {
    parts(folder).expect("files").into_iter().map(|part| part.name).collect()
}

#[test]
fn a_call_is_one_line_with_digests() {
    let home = tempfile::tempdir().expect("a folder");
    let output = ToolOutput {
        content: vec![Content::Json(r#"{"a":"the result"}"#.to_owned())],
        ..ToolOutput::default()
    };
    let audit = log(home.path());
    audit.note(Called {
        arguments: Text::Whole(r#"{"the": "arguments"}"#.to_owned()),
        answer: Some(Answer::Output(output)),
        used: vec!["kv".to_owned()],
        ..called("echo")
    });
    drop(audit);
    let text = fs::read_to_string(folder(home.path()).join("audit.jsonl")).expect("a log");
    assert!(!text.contains("the result") && !text.contains("the arguments"), "{text}");
    let [record] = &records(home.path())[..] else { panic!("{text}") };
    let sha256 = |text: &str| event::hex(&<sha2::Sha256 as sha2::Digest>::digest(text));
    let members = |name: &str| &record.members[name];
    assert_eq!(
        [members("arguments"), members("result"), members("used"), members("code")],
        [
            &json!({ "bytes": 20, "sha256": sha256(r#"{"the": "arguments"}"#) }),
            &json!({ "bytes": 18, "sha256": sha256(r#"{"a":"the result"}"#) }),
            &json!(["kv"]),
            &json!("ok")
        ]
    );
    let numbers = ["wall_us", "guest_us", "memory_bytes", "host_calls", "seq"];
    assert_eq!(numbers.map(|name| record.number(name)), [15, 5, 65_536, 3, 0]);
    assert_eq!((record.kind.as_str(), record.str("source")), ("call", "mcp:server"));
    let found = verified(home.path());
    assert_eq!((found.records, found.chains, found.files, found.head), (1, 1, 1, Head::Beginning));
}

#[test]
fn contents_stand_there_only_if_asked_for_bounded_and_without_secrets() {
    let home = tempfile::tempdir().expect("a folder");
    let redact: Redact = Arc::new(|text| *text = text.replace("hunter22", "[REDACTED:KEY]"));
    let audit = Audit::open(AuditSettings {
        contents: true,
        redact: Some(redact),
        ..settings(home.path())
    });
    let long = format!("hunter22 \u{202e}{}", "x".repeat(10_000));
    let arguments = audit.text(long.clone());
    audit.note(Called { arguments, ran: Some(Text::hashed(&long)), ..called("hunter22") });
    drop(audit);
    let [record] = &records(home.path())[..] else { panic!("one record") };
    assert!(!record.text.contains("hunter22") && !record.text.contains('\u{202e}'));
    let text = record.members["arguments"]["text"].as_str().expect("a text");
    assert!(text.starts_with("[REDACTED:KEY] \\u{202e}xxx"), "{text}");
    assert!((4_000..4_200).contains(&text.len()), "{}", text.len());
    assert_eq!(record.members["arguments"], record.members["ran"]);
}

#[test]
fn a_secret_within_json_is_found_before_the_line_escapes_it_once_more() {
    let home = tempfile::tempdir().expect("a folder");
    let redact: Redact = Arc::new(|text| *text = text.replace(r#"hun\"ter22"#, "[REDACTED:KEY]"));
    let audit = Audit::open(AuditSettings {
        contents: true,
        redact: Some(redact),
        ..settings(home.path())
    });
    let arguments = audit.text(serde_json::json!({ "key": r#"hun"ter22"# }).to_string());
    audit.note(Called { arguments, ..called("look") });
    drop(audit);
    let [record] = &records(home.path())[..] else { panic!("one record") };
    assert_eq!(record.members["arguments"]["text"], r#"{"key":"[REDACTED:KEY]"}"#);
}

#[test]
fn names_of_strangers_are_bounded_and_safe() {
    let home = tempfile::tempdir().expect("a folder");
    let long = "\u{1b}[31m\n".repeat(100_000);
    let refusal = Refusal {
        what: long.clone(),
        why: long.clone(),
        repair: long.clone(),
        grant: Some(("http".to_owned(), long.clone())),
    };
    let audit = log(home.path());
    audit.note(Called {
        caller: Caller {
            session: Some(long.clone()),
            task: Some(long.clone()),
            tool_call: Some(long.clone()),
        },
        refusals: vec![refusal],
        code: Some(Code::Denied),
        why: Some(long.clone()),
        ..called(&long)
    });
    drop(audit);
    let records = records(home.path());
    let kinds: Vec<&str> = records.iter().map(|record| record.kind.as_str()).collect();
    assert_eq!(kinds, ["call", "denial", "denial"]);
    for record in &records {
        assert!(record.text.len() < 8_192, "{}", record.text.len());
        assert!(!record.text.contains("\\u001b") && !record.text.contains("\\n"));
    }
    // Each belongs to the call.
    assert!(records[1..].iter().all(|record| record.number("call") == 0));
}

/// Two chains in turns, whose lines a change is made to; then what is found.
fn tampered(change: impl Fn(&mut Vec<String>)) -> Verified {
    let home = tempfile::tempdir().expect("a folder");
    let (one, other) = (log(home.path()), log(home.path()));
    write(&one, &["a", "b"]);
    write(&other, &["c", "d"]);
    write(&one, &["e"]);
    drop((one, other));
    assert_eq!(verified(home.path()).problems, []);
    let path = folder(home.path()).join("audit.jsonl");
    let text = fs::read_to_string(&path).expect("a log");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    change(&mut lines);
    fs::write(&path, lines.join("\n") + "\n").expect("written");
    verified(home.path())
}

/// A line that says something else, with a hash that fits.
fn forged(line: &str, from: &str, to: &str) -> String {
    let (hashed, _) = line.split_once(",\"hash\"").expect("a hash");
    let hashed = hashed.replace(from, to);
    let hash = event::hex(&<sha2::Sha256 as sha2::Digest>::digest(&hashed));
    format!("{hashed},\"hash\":\"{hash}\"}}")
}

#[test]
fn tampering_is_found_with_its_line() {
    let lines = |found: Verified| -> Vec<u64> {
        assert_eq!(found.problem_count, found.problems.len() as u64);
        found.problems.iter().map(|problem| problem.line).collect()
    };
    let changed = |lines: &mut Vec<String>| lines[1] = lines[1].replace("\"b\"", "\"x\"");
    assert_eq!(lines(tampered(changed)), [2]);
    // With a hash that fits, the next line does not.
    let forge = |lines: &mut Vec<String>| lines[1] = forged(&lines[1], "\"b\"", "\"x\"");
    assert_eq!(lines(tampered(forge)), [3, 5]);
    for place in 0..4 {
        let found = tampered(|lines| drop(lines.remove(place)));
        assert!(lines(found)[0] == place as u64 + 1, "{place}");
        let found = tampered(|lines| lines.swap(place, place + 1));
        assert!(lines(found)[0] <= place as u64 + 2, "{place}");
        let found = tampered(|lines| lines.insert(place + 1, lines[place].clone()));
        assert_eq!(lines(found)[0], place as u64 + 2, "{place}");
    }
    // A line that fits what stands before it does not fit what stands after it.
    let insert = |lines: &mut Vec<String>| {
        let new = forged(&lines[2], "\"chain\":\"", "\"chain\":\"0");
        lines.insert(2, new);
    };
    assert_eq!(lines(tampered(insert)), [4]);
    // One chain alone is gone.
    let chain = |lines: &mut Vec<String>| {
        let id = lines[2][..30].to_owned();
        lines.retain(|line| !line.starts_with(&id));
    };
    assert_eq!(lines(tampered(chain)), [3]);
    let garbage = |lines: &mut Vec<String>| lines[2] = "\u{0}garbage".to_owned();
    assert_eq!(lines(tampered(garbage))[0], 3);
    // The newest of a chain were cut off, and it goes on.
    assert_eq!(lines(tampered(|lines| drop(lines.drain(1..4)))), [2]);
    // What is cut off at the end is not found: this is said to be so.
    assert_eq!(lines(tampered(|lines| lines.truncate(2))), [0; 0]);
}

#[test]
fn a_newest_line_that_was_cut_off_is_found_when_its_chain_goes_on() {
    let home = tempfile::tempdir().expect("a folder");
    let audit = log(home.path());
    write(&audit, &["a", "b"]);
    let path = folder(home.path()).join("audit.jsonl");
    let text = fs::read_to_string(&path).expect("a log");
    fs::write(&path, text.lines().next().expect("a line").to_owned() + "\n").expect("written");
    write(&audit, &["c"]);
    let found = verified(home.path());
    assert_eq!(found.problems.len(), 1, "{found:?}");
    assert!(found.problems[0].what.contains("number 2 after 0"), "{found:?}");
}

#[test]
fn half_a_line_is_found_and_then_cut_off_with_a_word() {
    let home = tempfile::tempdir().expect("a folder");
    write(&log(home.path()), &["a"]);
    let path = folder(home.path()).join("audit.jsonl");
    let mut text = fs::read(&path).expect("a log");
    text.extend(b"{\"chain\":\"half a line \xff");
    fs::write(&path, text).expect("written");
    let found = verified(home.path());
    assert_eq!((found.problem_count, found.problems[0].line), (1, 2));
    write(&log(home.path()), &["b"]);
    let found = verified(home.path());
    assert_eq!((found.problems, found.gaps, found.records), (vec![], 1, 3));
}

#[test]
fn a_file_without_lines_is_no_obstacle() {
    let home = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(folder(home.path())).expect("a folder");
    let path = folder(home.path()).join("audit.jsonl");
    fs::write(&path, vec![b'x'; 3 * LINE_BYTES_MAX]).expect("written");
    write(&log(home.path()), &["a"]);
    let found = verified(home.path());
    assert_eq!((found.records, found.problem_count), (1, 1), "{found:?}");
    assert_eq!(found.problems[0].what, Damage::TooLong.to_string());
}

#[test]
fn what_does_not_fit_into_the_queue_is_a_gap() {
    let home = tempfile::tempdir().expect("a folder");
    let audit = Audit::open(AuditSettings { queue_max: 1, ..settings(home.path()) });
    // Nothing is written as long as the lock is held by somebody else.
    let locked = crate::atomic_file::lock(&folder(home.path())).expect("locked");
    for _ in 0..100 {
        audit.note(called("many"));
    }
    drop(locked);
    drop(audit);
    let found = verified(home.path());
    assert_eq!((found.problems, found.gaps > 0), (vec![], true));
    assert_eq!(found.records - found.gaps + found.lost, 100);
    let records = records(home.path());
    assert!(records.last().is_some_and(|record| record.kind == "gap"), "it comes last");
}

#[test]
fn a_disk_that_fails_and_works_again_is_said() {
    let home = tempfile::tempdir().expect("a folder");
    let path = folder(home.path());
    fs::write(&path, "a file in its place").expect("written");
    let audit = Audit::open(AuditSettings { queue_max: 4, ..settings(home.path()) });
    for _ in 0..20 {
        audit.note(called("while it fails"));
        audit.flush();
    }
    fs::remove_file(&path).expect("removed");
    audit.note(called("after"));
    drop(audit);
    let records = records(home.path());
    let kept = records.iter().filter(|record| record.kind == "call").count() as u64;
    let found = verified(home.path());
    assert_eq!((found.problems, kept + found.lost), (vec![], 21));
    let gap = records.iter().find(|record| record.kind == "gap").expect("a gap");
    assert!(gap.str("why").starts_with("the disk failed: "), "{}", gap.text);
}

#[test]
fn a_full_file_makes_way_and_the_oldest_is_removed() {
    let home = tempfile::tempdir().expect("a folder");
    let limits = (Bytes(4_000), Bytes(16_000));
    let small =
        || AuditSettings { file_bytes_max: limits.0, bytes_max: limits.1, ..settings(home.path()) };
    let audit = Audit::open(small());
    write(&audit, &["first"; 20]);
    let folder = folder(home.path());
    let before = names(&folder);
    assert!(before.len() > 2, "{before:?}");
    assert_eq!(verified(home.path()).problems, []);
    assert_eq!(verified(home.path()).head, Head::Beginning);
    // Another process takes over.
    let other = Audit::open(small());
    write(&other, &["second"; 60]);
    write(&audit, &["third"; 2]);
    let found = verified(home.path());
    assert_eq!((found.problems, found.head), (vec![], Head::Removed));
    let bytes = parts(&folder)
        .expect("files")
        .into_iter()
        .map(|part| fs::metadata(folder.join(&part.name)).expect("a file").len());
    let (all, largest) = bytes.fold((0, 0), |(all, largest), one| (all + one, one.max(largest)));
    assert!(all <= limits.1.0 && largest <= limits.0.0 + 1_000, "{all} {largest}");
    assert!(records(home.path()).iter().any(|record| record.str("tool") == "third"));

    // Files that somebody else removed are missed: in the middle, and at the beginning.
    let names = names(&folder);
    fs::rename(folder.join(&names[1]), home.path().join("kept")).expect("moved");
    let found = verified(home.path());
    assert_eq!((found.problems[0].file.as_str(), found.problems[0].line), (&*names[2], 1));
    assert!(found.problems[0].what.contains(&names[1]), "{found:?}");
    fs::rename(folder.join(&names[0]), home.path().join("first")).expect("moved");
    let found = verified(home.path());
    assert_eq!((found.head, found.problem_count), (Head::Unknown, 1), "{found:?}");
}

#[test]
fn many_chains_hang_together() {
    let home = tempfile::tempdir().expect("a folder");
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let small =
                    AuditSettings { file_bytes_max: Bytes(30_000), ..settings(home.path()) };
                let audit = Audit::open(small);
                start.wait();
                for call in 0..100 {
                    audit.note(called("echo"));
                    if call % 7 == 0 {
                        audit.flush();
                    }
                }
            });
        }
    });
    let found = verified(home.path());
    let calls = records(home.path()).iter().filter(|record| record.kind == "call").count();
    assert_eq!((found.problems, found.chains, calls), (vec![], 4, 400));
    assert!(found.files > 2);
}

#[test]
fn any_bytes_are_read() {
    let check = |bytes: &[u8], expected: &[&str]| {
        let lines: Vec<String> = read(bytes)
            .map(|(number, line)| format!("{number} {}", line.expect_err("damage")))
            .collect();
        assert_eq!(lines.len(), expected.len(), "{lines:?}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.contains(expected), "{lines:?}");
        }
    };
    check(b"", &[]);
    check(b"\n", &["1 it is no record"]);
    check(b"\xff\n{}", &["1 it is not UTF-8", "2 it is not finished"]);
    let long = [vec![b'a'; LINE_BYTES_MAX + 1], b"\nb\n".to_vec()].concat();
    check(&long, &["1 it has more than", "2 it is no record"]);
    check(&vec![b'a'; 2 * LINE_BYTES_MAX], &["1 it has more than"]);
    let hash = format!(",\"hash\":\"{}\"}}\n", "é".repeat(32));
    check(hash.as_bytes(), &["1 it is no record: it ends in no hash"]);
    let deep = format!("{}{},\"hash\":\"{}\"}}\n", "{\"a\":", "[".repeat(1_000), "0".repeat(64));
    check(deep.as_bytes(), &["1 it is no record"]);
}
