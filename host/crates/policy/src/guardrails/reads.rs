//! Repeated reads and searches: what the model has already seen is not shown to it again.
//!
//! Two rules. *The same read*: a `read_file` of the same region whose result is what it was
//! before is answered with "unchanged" the second time, and with an error from the third time
//! on. Hermes compares times of modification; a host cannot see those of files that only a
//! sandboxed plugin opens, so it compares digests of results, and has to run the call to do so.
//! *In a row*: the same `read_file` or `search_files` with no other call between is warned of
//! the third time and refused the fourth.
//!
//! Where both would speak, the first does: a read that it answers is not counted by the second,
//! which is left with files that change at every look, and searches. So whoever waits for a file
//! to change sees it when it does.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use toolhost_core::tool::{CallError, Code, Content, ToolOutput};

use super::recent::{CallKey, Recent};
use super::{Signature, annotate};

/// The tool whose results are compared.
pub(super) const READ: &str = "read_file";
/// The other tool of the rule of calls in a row.
pub(super) const SEARCH: &str = "search_files";
/// What `read_file` takes for an `offset` that is not given.
pub(super) const OFFSET_DEFAULT: u64 = 1;
/// What `read_file` takes for a `limit` that is not given.
pub(super) const LIMIT_DEFAULT: u64 = 500;
/// The same calls in a row from which on the result carries a warning.
const IN_A_ROW_WARN: usize = 3;
/// The same calls in a row from which on the call is refused.
const IN_A_ROW_BLOCK: usize = 4;

/// What a session remembers of reads and searches. It outlives turns.
///
/// It remembers the 4,096 regions that were read last, by digest.
#[derive(Debug, Default)]
pub struct Reads {
    /// The digest of a region's last result, and how often it was asked for in that state.
    seen: Recent<(CallKey, usize)>,
    /// The last call, if it was a read or a search, and how often it ran in a row.
    last: Option<(CallKey, usize)>,
}

/// Why a read or a search must not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// How often it was called in a row, this time included.
    pub count: usize,
    /// For the model: what happened, and what to do instead.
    pub message: String,
}

impl Repeated {
    /// The refusal as a model reads it.
    pub fn to_error(&self) -> CallError {
        CallError::new(Code::Denied, self.message.clone()).with("already_called", self.count)
    }
}

impl Reads {
    /// Tells whether a call must not run. It has to be asked before every call that would run,
    /// whatever the tool, because any other call ends a row.
    ///
    /// Which call it is, its signature says.
    pub fn before(&mut self, signature: &Signature<'_>) -> Option<Repeated> {
        let Signature { tool, read: Some(key), .. } = *signature else {
            self.last = None;
            return None;
        };
        let (_, count) = match &mut self.last {
            Some(last) if last.0 == key => last,
            last => last.insert((key, 0)),
        };
        if *count + 1 < IN_A_ROW_BLOCK {
            return None;
        }
        *count += 1;
        let count = *count;
        let message = format!(
            "BLOCKED: You have called {tool} with the same arguments {count} times in a row. \
             STOP repeating this call: use what it has returned, or go on with something else."
        );
        Some(Repeated { count, message })
    }

    /// Counts a read or a search that ran, and returns its result, replaced or annotated where a
    /// rule says so. Other calls pass.
    pub fn after(
        &mut self,
        signature: &Signature<'_>,
        result: Result<ToolOutput, CallError>,
    ) -> Result<ToolOutput, CallError> {
        let Signature { tool, read: Some(key), .. } = *signature else {
            return result;
        };
        if tool == READ
            && let Some(replaced) = self.replaced(key, &result)
        {
            return replaced;
        }
        // Calls that run beside each other may have begun in between; they end the row.
        let count = match &mut self.last {
            Some((last, count)) if *last == key => {
                *count += 1;
                *count
            }
            _ => return result,
        };
        if count < IN_A_ROW_WARN {
            return result;
        }
        let warning = format!(
            "You have called {tool} with the same arguments {count} times in a row. Use what \
                 it has returned; the next such call will be refused."
        );
        warn(result, &warning)
    }

    /// Forgets everything. It is for the moment when a context is compressed: what was shown
    /// before is no longer there.
    pub fn reset(&mut self) {
        self.seen.clear();
        self.last = None;
    }

    /// What the rule of the same read says in place of a result, if it says anything.
    fn replaced(
        &mut self,
        key: CallKey,
        result: &Result<ToolOutput, CallError>,
    ) -> Option<Result<ToolOutput, CallError>> {
        let Ok(output) = result else {
            self.seen.remove(&key);
            return None;
        };
        let shown: CallKey = Sha256::digest(output.to_json_text()).into();
        let times = match self.seen.get(&key) {
            Some((before, times)) if *before == shown => times + 1,
            _ => 1,
        };
        self.seen.insert(key, (shown, times));
        match times {
            1 => None,
            2 => Some(Ok(unchanged())),
            _ => Some(Err(already_read(times))),
        }
    }
}

fn unchanged() -> ToolOutput {
    let answer = json!({
        "status": "unchanged",
        "message": "The file has not changed since you last read this region. What you read then \
                    is still current; use it instead of reading again.",
        "dedup": true,
        "content_returned": false,
    });
    ToolOutput { content: vec![Content::Json(answer.to_string())], ..ToolOutput::default() }
}

fn already_read(times: usize) -> CallError {
    let message = format!(
        "BLOCKED: You have called read_file on this exact region {times} times and the file has \
         NOT changed. STOP reading it again: what you read the first time is still current. Go \
         on with your task."
    );
    CallError::new(Code::Failed, message).with("already_read", times)
}

/// Adds a warning as the member `_warning` of an answer that is one JSON object, otherwise as a
/// text.
fn warn(mut result: Result<ToolOutput, CallError>, warning: &str) -> Result<ToolOutput, CallError> {
    if let Ok(output) = &mut result
        && let [Content::Json(text)] = output.content.as_mut_slice()
        && let Ok(mut object) = serde_json::from_str::<Map<String, Value>>(text)
        && !object.contains_key("_warning")
    {
        object.insert("_warning".to_owned(), json!(warning));
        *text = Value::Object(object).to_string();
        return result;
    }
    annotate(result, warning)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    fn page(content: &str) -> Result<ToolOutput, CallError> {
        let json = json!({ "content": content }).to_string();
        Ok(ToolOutput { content: vec![Content::Json(json)], ..ToolOutput::default() })
    }

    /// Calls as dispatch does, and returns what the model reads, or `None` if it was refused.
    fn call(reads: &mut Reads, tool: &str, arguments: Value, content: &str) -> Option<Value> {
        let arguments = object(arguments);
        let signature = Signature::new(tool, &arguments);
        if reads.before(&signature).is_some() {
            return None;
        }
        Some(match reads.after(&signature, page(content)) {
            Ok(output) => serde_json::from_str(&output.to_json_text()).expect("JSON"),
            Err(error) => error.to_json(),
        })
    }

    #[test]
    fn g96_a_region_is_shown_once() {
        let mut reads = Reads::default();
        let mut read =
            |content| call(&mut reads, READ, json!({ "path": "a" }), content).expect("ran");
        assert_eq!(read("one"), json!({ "content": "one" }));
        let second = read("one");
        assert_eq!(
            second.as_object().expect("an object").keys().collect::<Vec<_>>(),
            ["status", "message", "dedup", "content_returned"]
        );
        assert_eq!((&second["status"], &second["dedup"]), (&json!("unchanged"), &json!(true)));
        assert_eq!(second["content_returned"], false);
        for times in 3..10 {
            let error = read("one");
            assert_eq!(error["already_read"], times);
            let start = format!(
                "BLOCKED: You have called read_file on this exact region {times} times and the \
                 file has NOT changed. STOP "
            );
            assert!(error["error"].as_str().expect("a text").starts_with(&start), "{error}");
        }
        assert_eq!(read("two"), json!({ "content": "two" }));
        assert_eq!(read("two")["status"], "unchanged");
        assert_eq!(read("two")["already_read"], 3);
        assert_eq!(read("one")["content"], "one", "what came between was another state");
    }

    #[test]
    fn a_region_is_path_offset_and_limit() {
        let mut reads = Reads::default();
        let mut unchanged = |arguments| {
            let answer = call(&mut reads, READ, arguments, "same").expect("ran");
            answer["status"] == "unchanged"
        };
        assert!(!unchanged(json!({ "path": "a" })));
        assert!(!unchanged(json!({ "path": "b" })));
        assert!(!unchanged(json!({ "path": "a", "offset": 2 })));
        assert!(!unchanged(json!({ "path": "a", "limit": 2 })));
        assert!(unchanged(json!({ "limit": 500, "offset": 1, "path": "a" })));
        assert!(unchanged(json!({ "path": "b", "offset": null })));
    }

    #[test]
    fn a_failure_and_a_compressed_context_reset() {
        let mut reads = Reads::default();
        let arguments = json!({ "path": "a" });
        let fresh = |reads: &mut Reads| {
            call(reads, READ, arguments.clone(), "one").expect("ran")["content"] == "one"
        };
        assert!(fresh(&mut reads));
        reads.reset();
        assert!(fresh(&mut reads));
        assert!(!fresh(&mut reads));
        let failure = Err(CallError::new(Code::Failed, "not found"));
        let arguments_of_a = object(json!({ "path": "a" }));
        let failure = reads.after(&Signature::new(READ, &arguments_of_a), failure);
        assert_eq!(failure, Err(CallError::new(Code::Failed, "not found")));
        assert!(fresh(&mut reads));
    }

    #[test]
    fn the_fourth_call_in_a_row_is_refused() {
        let mut reads = Reads::default();
        let arguments = || json!({ "pattern": "x" });
        let search = |reads: &mut Reads| call(reads, SEARCH, arguments(), "hits");
        let warned = |answer: Option<Value>| answer.expect("ran").get("_warning").is_some();
        assert!(!warned(search(&mut reads)));
        assert!(!warned(search(&mut reads)));
        assert!(warned(search(&mut reads)));
        assert_eq!(search(&mut reads), None);
        let again = object(arguments());
        let refused = reads.before(&Signature::new(SEARCH, &again)).expect("refused");
        assert_eq!(refused.count, 5);
        assert_eq!(refused.to_error().to_json()["already_called"], 5);
        assert!(refused.message.starts_with("BLOCKED: You have called search_files with the same"));
        // Any other call ends the row: another search, another tool.
        assert!(!warned(call(&mut reads, SEARCH, json!({ "pattern": "y" }), "hits")));
        assert!(!warned(search(&mut reads)));
        assert!(!warned(search(&mut reads)));
        assert_eq!(
            call(&mut reads, "write_file", json!({}), "ok"),
            Some(json!({ "content": "ok" }))
        );
        assert!(!warned(search(&mut reads)));
    }

    #[test]
    fn a_file_that_changes_at_every_look_is_a_row() {
        let mut reads = Reads::default();
        let mut read = |content| call(&mut reads, READ, json!({ "path": "log" }), content);
        assert_eq!(read("1"), Some(json!({ "content": "1" })));
        assert_eq!(read("2"), Some(json!({ "content": "2" })));
        // A look that showed nothing new is answered by the other rule, and not counted here.
        assert_eq!(read("2").expect("ran")["status"], "unchanged");
        let third = read("3").expect("ran");
        assert_eq!(third["content"], "3");
        assert!(third["_warning"].as_str().expect("a text").contains("3 times in a row"));
        assert_eq!(read("4"), None);
    }

    #[test]
    fn calls_beside_each_other_end_the_row() {
        let mut reads = Reads::default();
        let (one, two) = (object(json!({ "pattern": "1" })), object(json!({ "pattern": "2" })));
        for _ in 0..5 {
            let both = [&one, &two].map(|arguments| Signature::new(SEARCH, arguments));
            for signature in &both {
                assert_eq!(reads.before(signature), None);
            }
            for signature in &both {
                assert_eq!(reads.after(signature, page("hits")), page("hits"));
            }
        }
    }

    #[test]
    fn a_warning_goes_where_it_can() {
        let check = |content: Content, expected: &str| {
            let result = Ok(ToolOutput { content: vec![content], ..ToolOutput::default() });
            assert_eq!(warn(result, "W").expect("an output").to_json_text(), expected);
        };
        check(Content::Json(r#"{"b":1,"a":2}"#.into()), r#"{"b":1,"a":2,"_warning":"W"}"#);
        check(Content::Text("x".into()), r#"{"result":"x\n\nW"}"#);
        check(
            Content::Json("[1]".into()),
            r#"{"content":[{"type":"json","json":[1]},{"type":"text","text":"W"}]}"#,
        );
        let error = Err(CallError::new(Code::Failed, "no"));
        assert_eq!(warn(error, "W").expect_err("an error").message, "no\n\nW");
    }
}
