//! What a tool answers, and the one text of it that a model reads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

/// The answer of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOutput {
    /// The blocks, in order.
    pub content: Vec<Content>,
    /// The same answer for programs, as JSON text that has been checked to be JSON.
    pub structured: Option<String>,
    /// Names the host does not know, with JSON text; reported, without effect.
    pub extensions: Vec<(String, String)>,
}

/// One block of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// JSON text that has been checked to be JSON.
    Json(String),
    /// A picture.
    Image {
        /// Such as `image/png`.
        media_type: String,
        /// The bytes themselves.
        data: Vec<u8>,
    },
    /// A sound.
    Audio {
        /// Such as `audio/wav`.
        media_type: String,
        /// The bytes themselves.
        data: Vec<u8>,
    },
    /// A pointer to a resource.
    Resource {
        /// The resource's URI.
        uri: String,
        /// Such as `text/plain`, if known.
        media_type: Option<String>,
        /// The resource's text, if included.
        text: Option<String>,
    },
}

impl ToolOutput {
    /// Bytes of all blocks and the structured value together.
    pub fn len(&self) -> u64 {
        let blocks = self.content.iter().map(Content::len).sum::<usize>();
        (blocks + self.structured.as_ref().map_or(0, String::len)) as u64
    }

    /// Tells whether there is nothing in it at all.
    pub fn is_empty(&self) -> bool {
        self.content.is_empty() && self.structured.is_none()
    }

    /// The answer as a model reads it; always JSON text.
    ///
    /// A single JSON block is passed on as it is; a single text block becomes
    /// `{"result": text}`; anything else `{"content": [...]}` with blocks shaped as in MCP.
    pub fn to_json_text(&self) -> String {
        match self.content.as_slice() {
            [Content::Json(json)] => json.clone(),
            [Content::Text(text)] => json!({ "result": text }).to_string(),
            blocks => {
                let mut object = Map::new();
                let blocks = blocks.iter().map(Content::to_json).collect();
                object.insert("content".to_owned(), Value::Array(blocks));
                if let Some(structured) = &self.structured {
                    object.insert("structured".to_owned(), parsed(structured));
                }
                Value::Object(object).to_string()
            }
        }
    }
}

impl Content {
    fn len(&self) -> usize {
        match self {
            Content::Text(text) | Content::Json(text) => text.len(),
            Content::Image { media_type, data } | Content::Audio { media_type, data } => {
                media_type.len() + data.len()
            }
            Content::Resource { uri, media_type, text } => {
                let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
                uri.len() + optional(media_type) + optional(text)
            }
        }
    }

    /// The block in the shape of an MCP content block.
    pub fn to_json(&self) -> Value {
        match self {
            Content::Text(text) => json!({ "type": "text", "text": text }),
            Content::Json(text) => json!({ "type": "json", "json": parsed(text) }),
            Content::Image { media_type, data } => {
                json!({ "type": "image", "mimeType": media_type, "data": BASE64.encode(data) })
            }
            Content::Audio { media_type, data } => {
                json!({ "type": "audio", "mimeType": media_type, "data": BASE64.encode(data) })
            }
            Content::Resource { uri, media_type, text } => {
                let mut resource = json!({ "uri": uri });
                if let Some(media_type) = media_type {
                    resource["mimeType"] = json!(media_type);
                }
                if let Some(text) = text {
                    resource["text"] = json!(text);
                }
                json!({ "type": "resource", "resource": resource })
            }
        }
    }
}

/// Numbers beyond 64 bits lose digits here; a single JSON block never comes this way.
fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|_| Value::String(json.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: Vec<Content>, expected: &str) {
        let output = ToolOutput { content, ..ToolOutput::default() };
        assert_eq!(output.to_json_text(), expected);
    }

    #[test]
    fn a_model_always_reads_json() {
        check(vec![], r#"{"content":[]}"#);
        check(vec![Content::Text("a \"b\"".into())], r#"{"result":"a \"b\""}"#);
        check(
            vec![Content::Json("[1, 12345678901234567890123]".into())],
            "[1, 12345678901234567890123]",
        );
        check(
            vec![
                Content::Text("a".into()),
                Content::Json("{}".into()),
                Content::Image { media_type: "image/png".into(), data: vec![1, 2] },
                Content::Resource { uri: "x:y".into(), media_type: None, text: Some("t".into()) },
            ],
            concat!(
                r#"{"content":[{"type":"text","text":"a"},{"type":"json","json":{}},"#,
                r#"{"type":"image","mimeType":"image/png","data":"AQI="},"#,
                r#"{"type":"resource","resource":{"uri":"x:y","text":"t"}}]}"#
            ),
        );
    }
}
