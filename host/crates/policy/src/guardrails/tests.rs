//! A turn as it goes by, and what the guardrails say to it.

use serde_json::{Map, Value, json};

use super::*;

fn object(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

fn fails(
    guardrails: &mut Guardrails,
    tool: &str,
    arguments: Value,
) -> Option<(&'static str, usize)> {
    let observed = Observed { failed: true, text: "no" };
    guardrails
        .after(&Signature::new(tool, &object(arguments)), observed)
        .map(|note| (note.code, note.count))
}

fn returns(
    guardrails: &mut Guardrails,
    tool: &str,
    arguments: Value,
    text: &str,
) -> Option<(&'static str, usize)> {
    let observed = Observed { failed: false, text };
    guardrails
        .after(&Signature::new(tool, &object(arguments)), observed)
        .map(|note| (note.code, note.count))
}

fn hard() -> Guardrails {
    Guardrails::new(GuardrailSettings { hard_stop_enabled: true, ..GuardrailSettings::default() })
}

#[test]
fn the_same_failing_call_is_warned_of_from_the_second_time_on() {
    let mut guardrails = Guardrails::new(GuardrailSettings::default());
    let arguments = || json!({ "a": { "x": 1, "y": 2 }, "b": 3 });
    let reordered = || json!({ "b": 3, "a": { "y": 2, "x": 1 } });
    assert_eq!(fails(&mut guardrails, "t", arguments()), None);
    let code = "repeated_exact_failure_warning";
    assert_eq!(fails(&mut guardrails, "t", reordered()), Some((code, 2)));
    for count in 3..20 {
        assert_eq!(fails(&mut guardrails, "t", arguments()), Some((code, count)));
        assert_eq!(
            guardrails.before(&Signature::new("t", &object(arguments()))),
            None,
            "hard stops are opt-in"
        );
    }
}

#[test]
fn a_success_resets_the_streaks() {
    let mut guardrails = Guardrails::new(GuardrailSettings::default());
    assert_eq!(fails(&mut guardrails, "t", json!({})), None);
    assert_eq!(returns(&mut guardrails, "t", json!({}), "ok"), None);
    assert_eq!(fails(&mut guardrails, "t", json!({})), None);
    assert_eq!(fails(&mut guardrails, "t", json!({ "a": 1 })), None);
    assert_eq!(returns(&mut guardrails, "t", json!({ "a": 2 }), "ok"), None);
    assert_eq!(fails(&mut guardrails, "t", json!({ "a": 3 })), None);
    // The streak of a call goes on, whatever other calls of its tool did.
    assert_eq!(fails(&mut guardrails, "t", json!({})), Some(("repeated_exact_failure_warning", 2)));
}

#[test]
fn a_tool_that_only_fails_is_warned_of_from_the_third_time_on() {
    let mut guardrails = Guardrails::new(GuardrailSettings::default());
    let mut fail = |number: usize| fails(&mut guardrails, "t", json!({ "n": number }));
    assert_eq!((fail(1), fail(2)), (None, None));
    assert_eq!(fail(3), Some(("same_tool_failure_warning", 3)));
    // Of two warnings the one about the same call is given.
    assert_eq!(fail(3), Some(("repeated_exact_failure_warning", 2)));
    assert_eq!(fail(4), Some(("same_tool_failure_warning", 5)));
}

#[test]
fn a_look_that_shows_nothing_new_is_warned_of() {
    let mut guardrails = Guardrails::new(GuardrailSettings::default());
    let code = "idempotent_no_progress_warning";
    let mut search = |text| returns(&mut guardrails, "web_search", json!({ "query": "x" }), text);
    assert_eq!(search("a"), None);
    assert_eq!((search("a"), search("a")), (Some((code, 2)), Some((code, 3))));
    assert_eq!((search("b"), search("b")), (None, Some((code, 2))));
    for tool in ["mcp__filesystem__read_file", "browser_snapshot", "read_file"] {
        assert_eq!(returns(&mut guardrails, tool, json!({}), "a"), None);
        assert_eq!(returns(&mut guardrails, tool, json!({}), "a"), Some((code, 2)));
    }
    for tool in ["terminal", "mcp__filesystem__write_file", "mcp__other__read_file"] {
        assert_eq!(returns(&mut guardrails, tool, json!({}), "a"), None);
        assert_eq!(returns(&mut guardrails, tool, json!({}), "a"), None);
    }
}

#[test]
fn the_sixth_same_failing_call_is_refused() {
    let mut guardrails = hard();
    let arguments = object(json!({}));
    for _ in 0..5 {
        assert_eq!(guardrails.before(&Signature::new("t", &arguments)), None);
        fails(&mut guardrails, "t", json!({}));
    }
    let block = guardrails.before(&Signature::new("t", &arguments)).expect("refused");
    let message = "t was not run: 5 failures of this call with the same arguments; read the \
                   error, then change the arguments or the approach, or say what is in the way";
    assert_eq!(
        block.to_error().to_json(),
        json!({
            "error": message,
            "code": "denied",
            "guardrail": {
                "code": "repeated_exact_failure_block",
                "count": 5,
                "message": message,
                "tool": "t",
            },
        })
    );
    assert_eq!(guardrails.before(&Signature::new("t", &object(json!({ "a": 1 })))), None);
    guardrails.begin_turn();
    assert_eq!(guardrails.before(&Signature::new("t", &arguments)), None);
}

#[test]
fn a_tool_that_failed_eight_times_is_refused() {
    let mut guardrails = hard();
    for number in 1..=7 {
        fails(&mut guardrails, "t", json!({ "n": number }));
    }
    assert_eq!(guardrails.before(&Signature::new("t", &object(json!({})))), None);
    let observed = Observed { failed: true, text: "no" };
    let note =
        guardrails.after(&Signature::new("t", &object(json!({}))), observed).expect("a note");
    assert!(note.hard_stop);
    assert_eq!(
        note.to_string(),
        "[Tool loop hard stop: same_tool_failure_halt; count=8; further calls of t are refused \
         in this turn: 8 failures of this tool in a row, with any arguments; find out why it \
         fails, use another tool, or say what is in the way]"
    );
    let block =
        guardrails.before(&Signature::new("t", &object(json!({ "n": 99 })))).expect("refused");
    assert_eq!((block.code, block.count), ("same_tool_failure_halt", 8));
    assert_eq!(guardrails.before(&Signature::new("other", &object(json!({})))), None);
}

#[test]
fn a_look_that_showed_the_same_five_times_is_refused() {
    let mut guardrails = hard();
    let arguments = object(json!({ "q": 1 }));
    for _ in 0..5 {
        assert_eq!(guardrails.before(&Signature::new("web_search", &arguments)), None);
        returns(&mut guardrails, "web_search", json!({ "q": 1 }), "same");
    }
    let block = guardrails.before(&Signature::new("web_search", &arguments)).expect("refused");
    assert_eq!((block.code, block.count), ("idempotent_no_progress_block", 5));
    assert_eq!(guardrails.before(&Signature::new("web_search", &object(json!({ "q": 2 })))), None);
}

#[test]
fn warnings_can_be_switched_off_alone() {
    let settings = GuardrailSettings {
        warnings_enabled: false,
        hard_stop_enabled: true,
        ..GuardrailSettings::default()
    };
    let mut guardrails = Guardrails::new(settings);
    for _ in 0..5 {
        assert_eq!(fails(&mut guardrails, "t", json!({})), None);
    }
    assert!(guardrails.before(&Signature::new("t", &object(json!({})))).is_some());
}

#[test]
fn a_threshold_of_zero_refuses_no_first_call() {
    let none = Thresholds { exact_failure: 0, same_tool_failure: 0, idempotent_no_progress: 0 };
    let mut guardrails = Guardrails::new(GuardrailSettings {
        hard_stop_enabled: true,
        warn_after: none,
        hard_stop_after: none,
        ..GuardrailSettings::default()
    });
    assert_eq!(guardrails.before(&Signature::new("t", &object(json!({})))), None);
    assert_eq!(returns(&mut guardrails, "t", json!({}), "ok"), None);
    assert_eq!(fails(&mut guardrails, "t", json!({})), Some(("same_tool_failure_halt", 1)));
}

#[test]
fn a_warning_is_written_as_a_suffix() {
    let mut guardrails = Guardrails::new(GuardrailSettings::default());
    fails(&mut guardrails, "t", json!({}));
    let observed = Observed { failed: true, text: "no" };
    let note =
        guardrails.after(&Signature::new("t", &object(json!({}))), observed).expect("a note");
    let suffix = "[Tool loop warning: repeated_exact_failure_warning; count=2; t: 2 failures of \
                  this call with the same arguments; read the error, then change the arguments \
                  or the approach, or say what is in the way]";
    assert_eq!(note.to_string(), suffix);
    let result = Err(CallError::new(Code::Failed, "no"));
    let result = annotate(result, &note.to_string());
    assert_eq!(result.expect_err("an error").message, format!("no\n\n{suffix}"));
}

#[test]
fn calls_that_vary_without_end_are_forgotten() {
    let mut guardrails = Guardrails::new(GuardrailSettings::default());
    fails(&mut guardrails, "t", json!({ "n": 0 }));
    for number in 1..=recent::ENTRIES_MAX {
        fails(&mut guardrails, "t", json!({ "n": number }));
    }
    let (code, _) = fails(&mut guardrails, "t", json!({ "n": 0 })).expect("a note");
    assert_eq!(code, "same_tool_failure_warning", "the first is forgotten");
}

#[test]
fn reads_and_guardrails_do_not_both_speak() {
    let (mut guardrails, mut reads) =
        (Guardrails::new(GuardrailSettings::default()), Reads::default());
    let mut voices = |tool: &str| {
        let arguments = object(json!({ "path": "a" }));
        let signature = Signature::new(tool, &arguments);
        let block = reads.before(&signature);
        if block.is_some() {
            return "refused by reads";
        }
        let page = ToolOutput {
            content: vec![Content::Json(r#"{"content":"same"}"#.to_owned())],
            ..ToolOutput::default()
        };
        let result = reads.after(&signature, Ok(page.clone()));
        let (failed, text) = match &result {
            Ok(output) => (false, output.to_json_text()),
            Err(error) => (true, error.to_json().to_string()),
        };
        let note = guardrails.after(&signature, Observed { failed, text: &text });
        match (result == Ok(page), note) {
            (true, None) => "none",
            (false, None) => "reads",
            (true, Some(_)) => "guardrails",
            (false, Some(_)) => "both",
        }
    };
    let search = [(); 5].map(|()| voices("search_files"));
    assert_eq!(search, ["none", "guardrails", "reads", "refused by reads", "refused by reads"]);
    let read = [(); 3].map(|()| voices("read_file"));
    assert_eq!(read, ["none", "reads", "reads"]);
}
