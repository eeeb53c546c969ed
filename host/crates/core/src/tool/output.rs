//! What a tool answers, and the one text of it that a model reads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

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
    /// Bytes of all blocks, the structured value and the extensions together.
    pub fn len(&self) -> u64 {
        let blocks = self.content.iter().map(Content::len).sum::<usize>();
        let extensions = self.extensions.iter().map(|(name, text)| name.len() + text.len());
        let structured = self.structured.as_ref().map_or(0, String::len);
        (blocks + structured + extensions.sum::<usize>()) as u64
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
                // JSON of the tool is passed on as it stands: as a value it would take many times
                // the memory, and lose the digits of large numbers.
                let mut text = String::from(r#"{"content":["#);
                for (place, block) in blocks.iter().enumerate() {
                    text.push_str(if place == 0 { "" } else { "," });
                    match block {
                        Content::Json(json) => {
                            text.push_str(r#"{"type":"json","json":"#);
                            text.push_str(json);
                            text.push('}');
                        }
                        other => text.push_str(&other.to_json().to_string()),
                    }
                }
                text.push(']');
                if let Some(structured) = &self.structured {
                    text.push_str(r#","structured":"#);
                    text.push_str(structured);
                }
                text.push('}');
                text
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

/// Numbers beyond 64 bits lose digits here; what a model reads never comes this way.
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
