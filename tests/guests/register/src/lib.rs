//! A guest whose `register` does what a word in its data says. Tests change the word in the
//! built component, so that one build serves for every way of registering.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ptr;

use toolhost_sdk::Context;
use toolhost_sdk::bindings::toolhost::plugin::types::{
    Annotations, Content, Registration, Tool, ToolError, ToolOutput,
};
use toolhost_sdk::bindings::{Guest, exports};
use toolhost_sdk::hooks;

/// The marker, a word, and what belongs to it.
static MODE: [u8; 96] =
    *b"toolhost-test-mode:one first                                                                    ";

struct Plugin;

impl Guest for Plugin {
    fn register() -> Result<Registration, String> {
        let mode = mode();
        let (word, rest) = mode.split_once(' ').unwrap_or((&mode, ""));
        let tools = match word {
            "one" => vec![tool(rest)],
            "two" => rest.split(' ').map(tool).collect(),
            "override" => vec![Tool { overrides: true, ..tool(rest) }],
            "toolset" => vec![Tool { toolset: rest.to_owned(), ..tool("grouped") }],
            "schema" => vec![Tool { parameters: rest.to_owned(), ..tool("shaped") }, tool("good")],
            "deep" => vec![Tool { parameters: deep(1_000), ..tool("shaped") }, tool("good")],
            "describe" => {
                let description = "x".repeat(rest.parse().unwrap_or_default());
                vec![Tool { description, ..tool("wordy") }, tool("good")]
            }
            "many" => {
                (0..rest.parse().unwrap_or(0)).map(|n: u32| tool(&format!("tool_{n}"))).collect()
            }
            "none" => Vec::new(),
            "huge" => vec![Tool { description: "x".repeat(10 << 20), ..tool("huge") }],
            "name" => {
                vec![Tool { name: "\u{1b}[31mred\u{202e}".to_owned(), ..tool("x") }, tool("good")]
            }
            "refuse" => return Err("\u{1b}[31mnot today".to_owned()),
            "panic" => panic!("cannot register\u{7}"),
            #[allow(clippy::empty_loop)]
            "loop" => loop {
                std::hint::black_box(());
            },
            "sleep" => {
                std::thread::sleep(std::time::Duration::from_secs(3_600));
                Vec::new()
            }
            "random" => {
                let number = RandomState::new().hash_one(0);
                vec![tool(&format!("tool_{number}"))]
            }
            "peek" => vec![tool(if std::fs::read_dir("/").is_ok() { "sees" } else { "blind" })],
            _ => return Err(format!("unknown mode {word}")),
        };
        Ok(Registration {
            name: "register".to_owned(),
            version: "1.0.0".to_owned(),
            tools,
            needs: Vec::new(),
            extensions: Vec::new(),
        })
    }

    fn call(tool: String, _: String, _: Context) -> Result<ToolOutput, ToolError> {
        let content = vec![Content::Text(format!("{} of {}", tool, mode()))];
        Ok(ToolOutput { content, structured: None, extensions: Vec::new() })
    }
}

impl exports::toolhost::plugin::availability::Guest for Plugin {
    fn check(_: String) -> Result<(), String> {
        Ok(())
    }
}

impl exports::toolhost::plugin::schema_override::Guest for Plugin {
    fn describe(_: String, _: Vec<String>) -> Option<String> {
        None
    }
}

impl exports::toolhost::plugin::hooks::Guest for Plugin {
    fn request(_: hooks::HookedCall) -> Result<Option<String>, String> {
        Ok(None)
    }

    fn pre_call(_: hooks::HookedCall) -> Result<hooks::Decision, String> {
        Ok(hooks::Decision::Allow)
    }

    fn post_call(_: hooks::HookedCall, _: hooks::HookedOutcome) -> Result<(), String> {
        Ok(())
    }

    fn transform(_: hooks::HookedCall, _: hooks::HookedOutcome) -> Result<Option<String>, String> {
        Ok(None)
    }
}

toolhost_sdk::bindings::export!(Plugin with_types_in toolhost_sdk::bindings);

fn mode() -> String {
    // Volatile, so that the compiler does not read it at build time.
    let bytes = unsafe { ptr::read_volatile(&MODE) };
    let text = String::from_utf8_lossy(&bytes["toolhost-test-mode:".len()..]).into_owned();
    text.trim_end().to_owned()
}

fn tool(name: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        toolset: "registered".to_owned(),
        description: "Says which tool it is.".to_owned(),
        parameters: r#"{"type":"object","properties":{}}"#.to_owned(),
        output: None,
        emoji: None,
        requires_env: Vec::new(),
        max_result_size_chars: None,
        overrides: false,
        has_check: false,
        has_dynamic_schema: false,
        annotations: Annotations {
            read_only: None,
            destructive: None,
            idempotent: None,
            open_world: None,
        },
        examples: Vec::new(),
        extensions: Vec::new(),
    }
}

fn deep(levels: usize) -> String {
    format!("{}{{}}{}", r#"{"not":"#.repeat(levels), "}".repeat(levels))
}
