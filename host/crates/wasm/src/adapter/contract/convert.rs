//! From the records of the contract to the words of the host, and every bound of a
//! registration on the way. A tool that breaks a rule is left out with the reason; only a
//! registration that breaks one as a whole fails.

use serde_json::Value;

use super::bindings::types;
use crate::adapter::{Offers, Registered, Registering, bounded};
use crate::instance::too_large;
use crate::load_error::LoadError;
use crate::redaction::Redaction;
use toolhost_core::json;
use toolhost_core::limits::Limits;
use toolhost_core::text;
use toolhost_core::tool::{
    Annotations, CallError, Code, Content, Example, NameError, Need, Reason, Rejection, ToolName,
    ToolOutput, ToolSpec, check_toolset,
};
use toolhost_schema::schema;

/// Bounds of small things, as `wit/types.wit` states them.
const NAME_BYTES_MAX: usize = 128;
const VERSION_BYTES_MAX: usize = 64;
const NEEDS_MAX: usize = 64;
const NEED_BYTES_MAX: usize = 8 << 10;
const NEED_KIND_BYTES_MAX: usize = 64;
const NEED_REASON_BYTES_MAX: usize = 512;
const EXTENSIONS_MAX: usize = 64;
/// Each is read as JSON, which takes many times the memory of its text.
const EXTENSION_BYTES_MAX: usize = 64 << 10;
const EXTENSION_NAME_BYTES_MAX: usize = 128;
/// An empty block takes no bytes of the output, and some hundred of the host's memory.
const BLOCKS_MAX: usize = 4_096;
const EMOJI_BYTES_MAX: usize = 32;
const VARIABLES_MAX: usize = 32;
const VARIABLE_BYTES_MAX: usize = 128;
const EXAMPLES_MAX: usize = 16;
const EXAMPLE_BYTES_MAX: usize = 64 << 10;

impl Registering for types::Registration {
    fn bytes(&self) -> u64 {
        bytes(self)
    }

    fn check(self: Box<Self>, offers: Offers, limits: &Limits) -> Result<Registered, LoadError> {
        registration(*self, offers, limits)
    }
}

/// Bytes of all texts of a registration.
fn bytes(registration: &types::Registration) -> u64 {
    let pairs = |pairs: &[(String, String)]| {
        pairs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
    };
    let tool = |tool: &types::Tool| {
        let examples = tool.examples.iter().map(|example| {
            example.arguments.len() + example.expected.as_ref().map_or(0, String::len)
        });
        tool.name.len()
            + tool.description.len()
            + tool.parameters.len()
            + tool.output.as_ref().map_or(0, String::len)
            + tool.requires_env.iter().map(String::len).sum::<usize>()
            + examples.sum::<usize>()
            + pairs(&tool.extensions)
    };
    let need = |need: &types::Need| {
        let tools = need.tools.iter().map(String::len).sum::<usize>();
        need.kind.len() + need.value.len() + need.reason.len() + tools
    };
    let tools = registration.tools.iter().map(tool).sum::<usize>();
    let needs = registration.needs.iter().map(need).sum::<usize>();
    (tools + needs + pairs(&registration.extensions)) as u64
}

/// Checks a registration.
fn registration(
    registration: types::Registration,
    offers: Offers,
    limits: &Limits,
) -> Result<Registered, LoadError> {
    let nonsense = |problem: String| Err(LoadError::Nonsense(problem));
    let (given, allowed) = (registration.tools.len(), limits.tools_max.0);
    if given > allowed {
        return Err(LoadError::TooManyTools { given, allowed });
    }
    if registration.name.len() > NAME_BYTES_MAX || registration.version.len() > VERSION_BYTES_MAX {
        return nonsense(format!(
            "its name may have {NAME_BYTES_MAX} bytes and its version {VERSION_BYTES_MAX}"
        ));
    }
    if registration.needs.len() > NEEDS_MAX {
        return nonsense(format!("{} needs; allowed are {NEEDS_MAX}", registration.needs.len()));
    }
    if registration.extensions.len() > EXTENSIONS_MAX {
        let given = registration.extensions.len();
        return nonsense(format!("{given} extensions; allowed are {EXTENSIONS_MAX}"));
    }
    let nonsensical = |reason: Reason| LoadError::Nonsense(reason.to_string());
    extensions_fit(&registration.extensions).map_err(nonsensical)?;
    let too_large = |need: &&types::Need| {
        need.value.len() > NEED_BYTES_MAX
            || need.kind.len() > NEED_KIND_BYTES_MAX
            || need.reason.len() > NEED_REASON_BYTES_MAX
    };
    if let Some(need) = registration.needs.iter().find(too_large) {
        let kind = text::one_line(&text::cut(&need.kind, 40));
        return nonsense(format!(
            "of need `{kind}` the kind may have {NEED_KIND_BYTES_MAX} bytes, the value \
             {NEED_BYTES_MAX} and the reason {NEED_REASON_BYTES_MAX}"
        ));
    }
    if let Some(need) = registration.needs.iter().find(|need| need.tools.len() > allowed) {
        let kind = text::one_line(&text::cut(&need.kind, 40));
        let given = need.tools.len();
        return nonsense(format!(
            "need `{kind}` names {given} tools; allowed are {allowed}; without any it is for all"
        ));
    }
    let (mut specs, mut rejected) = (Vec::new(), Vec::new());
    for tool in registration.tools {
        let name = text::one_line(&text::cut(&tool.name, 80));
        match spec(tool, offers, limits) {
            Ok(spec) => specs.push(spec),
            Err(reason) => rejected.push(Rejection { tool: name, reason }),
        }
    }
    Ok(Registered {
        name: registration.name,
        version: registration.version,
        specs,
        rejected,
        needs: registration.needs.into_iter().map(need).collect(),
        extensions: registration.extensions,
    })
}

fn spec(tool: types::Tool, offers: Offers, limits: &Limits) -> Result<ToolSpec, Reason> {
    let of_name = |error: NameError| Reason::without_repair(error.to_string());
    let name = ToolName::new(&tool.name).map_err(of_name)?;
    check_toolset(&tool.toolset).map_err(of_name)?;
    at_most("description", tool.description.len(), limits.description_bytes_max.as_usize())?;
    at_most("emoji", tool.emoji.as_ref().map_or(0, String::len), EMOJI_BYTES_MAX)?;
    at_most("requires-env", tool.requires_env.len(), VARIABLES_MAX)?;
    for variable in &tool.requires_env {
        at_most("a name in requires-env", variable.len(), VARIABLE_BYTES_MAX)?;
    }
    at_most("examples", tool.examples.len(), EXAMPLES_MAX)?;
    for example in &tool.examples {
        let expected = example.expected.as_ref().map_or(0, String::len);
        at_most("an example", example.arguments.len().max(expected), EXAMPLE_BYTES_MAX)?;
    }
    at_most("extensions", tool.extensions.len(), EXTENSIONS_MAX)?;
    extensions_fit(&tool.extensions)?;
    let schema = |name: &str, text: &str| {
        schema::parse(text, limits).map_err(|error| error.reason().of(format_args!("`{name}`")))
    };
    let parameters = schema("parameters", &tool.parameters)?;
    let output = tool.output.map(|text| schema("output", &text)).transpose()?;
    Ok(ToolSpec {
        name,
        toolset: tool.toolset,
        description: tool.description,
        parameters,
        output,
        emoji: tool.emoji,
        requires_env: tool.requires_env,
        max_result_size_chars: tool.max_result_size_chars,
        overrides: tool.overrides,
        has_check: tool.has_check && offers.availability,
        has_dynamic_schema: tool.has_dynamic_schema && offers.schema_override,
        annotations: Annotations {
            read_only: tool.annotations.read_only,
            destructive: tool.annotations.destructive,
            idempotent: tool.annotations.idempotent,
            open_world: tool.annotations.open_world,
        },
        examples: tool
            .examples
            .into_iter()
            .map(|example| Example { arguments: example.arguments, expected: example.expected })
            .collect(),
        extensions: tool.extensions,
    })
}

/// Bounds each extension by itself.
fn extensions_fit(extensions: &[(String, String)]) -> Result<(), Reason> {
    for (name, value) in extensions {
        let shown = text::one_line(&text::cut(name, 40));
        if name.len() > EXTENSION_NAME_BYTES_MAX {
            let given = name.len();
            return Err(Reason::new(
                format!(
                    "the name of extension `{shown}` has {given} bytes; allowed are {EXTENSION_NAME_BYTES_MAX}"
                ),
                "shorten it",
            ));
        }
        if value.len() > EXTENSION_BYTES_MAX {
            let given = value.len();
            return Err(Reason::new(
                format!(
                    "extension `{shown}` has {given} bytes of JSON; allowed are {EXTENSION_BYTES_MAX}"
                ),
                "put what is larger in a file of the plugin, or answer it with a tool",
            ));
        }
    }
    Ok(())
}

fn at_most(what: &str, given: usize, allowed: usize) -> Result<(), Reason> {
    if given > allowed {
        let problem = format!("{what} of {given} exceeds the allowed {allowed}");
        return Err(Reason::without_repair(problem));
    }
    Ok(())
}

fn need(need: types::Need) -> Need {
    Need { kind: need.kind, value: need.value, tools: need.tools, reason: need.reason }
}

/// Checks an output: its size, and that what claims to be JSON is.
pub(super) fn output(output: types::ToolOutput, limits: &Limits) -> Result<ToolOutput, CallError> {
    for (what, given, allowed) in [
        ("blocks", output.content.len(), BLOCKS_MAX),
        ("extensions", output.extensions.len(), EXTENSIONS_MAX),
    ] {
        if given > allowed {
            let message =
                format!("stopped: output of {given} {what} exceeds the allowed {allowed}");
            return Err(CallError::new(Code::OutputTooLarge, message));
        }
    }
    let output = ToolOutput {
        content: output.content.into_iter().map(content).collect(),
        structured: output.structured,
        extensions: output.extensions,
    };
    let (given, allowed) = (output.len(), limits.output_bytes_max.0);
    if given > allowed {
        return Err(too_large(&given.to_string(), allowed));
    }
    let blocks = output.content.iter().filter_map(|block| match block {
        Content::Json(text) => Some(("a JSON block", text)),
        _ => None,
    });
    let structured = output.structured.iter().map(|text| ("`structured`", text));
    for (what, text) in blocks.chain(structured) {
        if let Err(error) = json::measure(text) {
            let message = format!("the tool returned {what} that is not JSON ({error})");
            // Only errors of the data quote the guest.
            let message = if error.is_data() { text::sanitized(&message) } else { message };
            return Err(CallError::new(Code::Failed, message));
        }
    }
    Ok(output)
}

fn content(content: types::Content) -> Content {
    match content {
        types::Content::Text(text) => Content::Text(text),
        types::Content::Json(text) => Content::Json(text),
        types::Content::Image(blob) => {
            Content::Image { media_type: blob.media_type, data: blob.data }
        }
        types::Content::Audio(blob) => {
            Content::Audio { media_type: blob.media_type, data: blob.data }
        }
        types::Content::Resource(link) => {
            Content::Resource { uri: link.uri, media_type: link.media_type, text: link.text }
        }
    }
}

/// An error of the tool itself. Its text is bounded and sanitised, for a model is to read it; secrets
/// are taken out before, since nobody finds the rest of one that was cut.
pub(super) fn tool_error(
    error: types::ToolError,
    redaction: &Redaction,
    limits: &Limits,
) -> CallError {
    let bounded = |mut message: String| {
        redaction.redact(&mut message);
        bounded(message, limits.error_bytes_max.as_usize())
    };
    let sanitised = |message: String| text::sanitized(&bounded(message));
    let error = match error {
        types::ToolError::Failed(message) => CallError::new(Code::Failed, sanitised(message)),
        types::ToolError::NotAvailable(message) => {
            CallError::new(Code::Unavailable, sanitised(message))
        }
        types::ToolError::BadArguments(bad) => {
            let error = CallError::new(Code::InvalidArguments, sanitised(bad.message));
            match bad.path {
                Some(path) => error.with("path", Value::String(bounded(path))),
                None => error,
            }
        }
    };
    CallError { by_tool: true, ..error }
}
