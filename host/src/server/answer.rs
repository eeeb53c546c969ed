//! What became of a call, in the words of MCP.
//!
//! Only a tool that does not exist is an error of the protocol. Whatever else went wrong is a
//! result that says so, because clients show models results and not errors.

use rmcp::model::{CallToolResult, ContentBlock, ErrorData, MetaObject, Resource};
use serde_json::{Map, Value, json};

use crate::tool::{CallError, Code, Content, Outcome, ToolOutput};

/// What is returned for a call.
pub(super) fn answer(outcome: Outcome) -> Result<CallToolResult, ErrorData> {
    let mut result = match &outcome.result {
        Ok(output) => success(output),
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

fn success(output: &ToolOutput) -> CallToolResult {
    let mut content: Vec<ContentBlock> = output.content.iter().map(block).collect();
    let mut structured_value = None;
    if let Some(structured) = &output.structured {
        let says_so = |block: &Content| matches!(block, Content::Json(text) | Content::Text(text) if text == structured);
        // For clients that look at text only.
        if !output.content.iter().any(says_so) {
            content.push(ContentBlock::text(structured.clone()));
        }
        // All eras know objects; other values are in the text.
        let value = serde_json::from_str(structured).ok();
        structured_value = value.filter(Value::is_object);
    }
    let mut result = CallToolResult::success(content);
    result.structured_content = structured_value;
    result
}

fn block(content: &Content) -> ContentBlock {
    match content {
        Content::Text(text) | Content::Json(text) => ContentBlock::text(text.clone()),
        Content::Resource { uri, media_type, text: None } => {
            let mut link = Resource::new(uri.clone(), name(uri));
            link.mime_type = media_type.clone();
            ContentBlock::resource_link(link)
        }
        // The house's own form of these is the protocol's.
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
