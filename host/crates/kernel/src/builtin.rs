//! Tools that read the host: `result_read`, for results that were too large to show.
//!
//! They are published like those of any source and run through dispatch; what they read is
//! lent to their call by its session.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use toolhost_core::tool::{
    Annotations, CallError, Code, Content, Invocation, Origin, Registration, SourceId, Tool,
    ToolName, ToolOutput, ToolSpec,
};

/// Characters that `result_read` returns unless it is told otherwise.
const LIMIT: usize = 20_000;
/// The most characters it returns at once: what is larger would be kept again.
const LIMIT_MAX: usize = 50_000;

/// What the host itself publishes.
pub fn registration() -> Registration {
    Registration {
        source: SourceId::Builtin,
        origin: Origin::Builtin,
        rank: 0,
        allow_tool_override: true,
        tools: vec![Arc::new(ResultRead::new())],
        needs: Vec::new(),
        hooks: None,
        digest: None,
        trusted: true,
        rejected: Vec::new(),
        waiting: Vec::new(),
    }
}

/// Reads a part of a result that its session kept.
struct ResultRead {
    spec: ToolSpec,
}

#[derive(Debug, Deserialize)]
struct ReadArguments {
    id: String,
    #[serde(default)]
    offset: usize,
    #[serde(default = "limit")]
    limit: usize,
}

fn limit() -> usize {
    LIMIT
}

impl ResultRead {
    fn new() -> ResultRead {
        let parameters = json!({
            "type": "object",
            "properties": {
                "id": {
                    "type": "string",
                    "description": "The id that stands in the preview of the result."
                },
                "offset": {
                    "type": "integer", "minimum": 0, "default": 0,
                    "description": "The character to begin with, counted from 0."
                },
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT,
                    "description": "How many characters to return."
                }
            },
            "required": ["id"],
            "additionalProperties": false
        });
        let description = "Reads a part of a tool's result that was too large to show. A result like that is shown as a preview with an id; offsets count characters. Results are kept until the session ends.";
        let name = ToolName::new("result_read").expect("a name");
        let annotations = Annotations { read_only: Some(true), ..Annotations::default() };
        let spec = ToolSpec::new(name, "results", description, parameters);
        ResultRead { spec: ToolSpec { annotations, ..spec } }
    }
}

impl Tool for ResultRead {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(
        &'a self,
        invocation: Invocation<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        let read = || {
            let failed = |reason: String| CallError::new(Code::Failed, reason);
            let ReadArguments { id, offset, limit } = serde_json::from_str(invocation.arguments)
                .map_err(|error| CallError::new(Code::InvalidArguments, error.to_string()))?;
            let kept = invocation
                .kept
                .ok_or_else(|| failed("this call belongs to no session".to_owned()))?;
            let part = kept.read(&id, offset, limit.min(LIMIT_MAX)).map_err(failed)?;
            Ok(ToolOutput { content: vec![Content::Json(part)], ..ToolOutput::default() })
        };
        let part = read();
        Box::pin(async { part })
    }
}
