//! What became of a call, in the words of MCP.
//!
//! Only a tool that does not exist is an error of the protocol. Whatever else went wrong is a
//! result that says so, because clients show models results and not errors.

use rmcp::model::{CallToolResult, ContentBlock, ErrorData, MetaObject, Resource};
use serde_json::{Map, Value, json};

use toolhost_core::json;
use toolhost_core::tool::{CallError, Code, Content, Outcome, ToolOutput};

/// Values of structured content; each takes some hundred bytes at most.
const VALUE_NODES_MAX: u64 = 500_000;

/// Why structured output is missing that a tool promises.
const REPLACED: &str = "the tool promises structured output, but a hook or the host replaced its answer, which follows as text";
/// Why structured output is not passed on.
const NO_OBJECT: &str =
    "the tool's structured output is no JSON object, as MCP has it; it follows as text";

/// What is returned for a call.
pub(super) fn answer(outcome: Outcome) -> Result<CallToolResult, ErrorData> {
    let mut result = match &outcome.result {
        Ok(output) => success(output, outcome.is_structured),
        Err(error) if error.code == Code::UnknownTool => return Err(unknown(error)),
        Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_json().to_string())]),
    };
    if !outcome.repairs.is_empty() {
        let mut meta = Map::new();
        meta.insert("toolhost/tool".to_owned(), outcome.tool.into());
        meta.insert("toolhost/repairs".to_owned(), outcome.repairs.into());
        result.meta = Some(MetaObject(meta));
    }
    Ok(result)
}

fn unknown(error: &CallError) -> ErrorData {
    ErrorData::invalid_params(error.message.clone(), Some(error.to_json()))
}

/// An answer whose session has said structured output as a text too. One that lacks what was
/// promised is an error, since clients check a success against the schema.
fn success(output: &ToolOutput, is_structured: bool) -> CallToolResult {
    let mut content: Vec<ContentBlock> = output.content.iter().map(block).collect();
    match output.structured.as_deref().map_or(Err(REPLACED.to_owned()), structured) {
        Err(why) if is_structured => {
            let error = CallError::new(Code::Failed, why).to_json();
            content.insert(0, ContentBlock::text(error.to_string()));
            CallToolResult::error(content)
        }
        value => {
            let mut result = CallToolResult::success(content);
            result.structured_content = value.ok();
            result
        }
    }
}

/// The value of structured output, or why it cannot be passed on.
fn structured(text: &str) -> Result<Value, String> {
    let size = json::measure(text).map_err(|error| error.to_string())?;
    if size.nodes > VALUE_NODES_MAX {
        return Err(format!(
            "the tool's structured output has {} values, and MCP clients are sent at most \
             {VALUE_NODES_MAX}: ask for less; its text follows",
            size.nodes
        ));
    }
    let value = json::read(text).map_err(|error| error.to_string())?;
    // All eras know objects.
    if value.is_object() { Ok(value) } else { Err(NO_OBJECT.to_owned()) }
}

fn block(content: &Content) -> ContentBlock {
    match content {
        Content::Text(text) | Content::Json(text) => ContentBlock::text(text.clone()),
        Content::Resource { uri, media_type, text: None } => {
            let mut link = Resource::new(uri.clone(), name(uri));
            link.mime_type = media_type.clone();
            ContentBlock::resource_link(link)
        }
        // The host's own form of these is the protocol's.
        others => serde_json::from_value(others.to_json()).unwrap_or_else(|error| {
            tracing::error!("a block of an answer is in no form of MCP: {error}");
            ContentBlock::text(json!({ "error": "a part is left out" }).to_string())
        }),
    }
}

/// What a resource is called: the last part of its URI that says something.
fn name(uri: &str) -> &str {
    let parts = uri.rsplit(['/', ':']);
    parts.into_iter().find(|part| !part.is_empty()).unwrap_or(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_success_has_what_was_promised() {
        let check = |structured: Option<&str>, is_structured: bool| {
            let content = vec![Content::Text("said".to_owned())];
            let structured = structured.map(str::to_owned);
            let output = ToolOutput { content, structured, extensions: Vec::new() };
            let result = success(&output, is_structured);
            let texts = result.content.iter().filter_map(|block| block.as_text());
            let texts: Vec<_> = texts.map(|text| text.text.clone()).collect();
            (result.is_error, result.structured_content, texts)
        };
        let said = || vec!["said".to_owned()];
        assert_eq!(check(None, false), (Some(false), None, said()));
        assert_eq!(check(Some("[1]"), false), (Some(false), None, said()));
        assert_eq!(check(Some("{}"), true), (Some(false), Some(json!({})), said()));
        for (structured, why) in [(None, REPLACED), (Some("[1]"), NO_OBJECT)] {
            let (is_error, value, texts) = check(structured, true);
            assert_eq!((is_error, value, texts[1].as_str()), (Some(true), None, "said"));
            assert!(texts[0].contains(why), "{texts:?}");
        }
    }
}
