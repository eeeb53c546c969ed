//! A guest without the SDK, built for a world of its own that has the contract and more.

#![expect(clippy::too_many_arguments, reason = "generated, one for each flat parameter")]

wit_bindgen::generate!({
    inline: "
        package test:foreign;
        world foreign {
            include toolhost:plugin/plugin@0.1.0;
            export surplus: func() -> u32;
            export more;
        }
        interface more { more: func() -> string; }
    ",
    path: "../../../wit",
    world: "test:foreign/foreign",
    generate_all,
});

use toolhost::plugin::types::{Annotations, Content, Tool};

struct Plugin;

impl Guest for Plugin {
    fn register() -> Result<Registration, String> {
        let tool = Tool {
            name: "foreign".to_owned(),
            toolset: "foreign".to_owned(),
            description: "Has more exports than the world asks for.".to_owned(),
            parameters: "{}".to_owned(),
            output: None,
            emoji: None,
            requires_env: Vec::new(),
            max_result_size_chars: None,
            overrides: false,
            // It says so, and exports no such interface.
            has_check: true,
            has_dynamic_schema: true,
            annotations: Annotations {
                read_only: None,
                destructive: None,
                idempotent: None,
                open_world: None,
            },
            examples: Vec::new(),
            extensions: Vec::new(),
        };
        Ok(Registration {
            name: "foreign".to_owned(),
            version: "2.0.0".to_owned(),
            tools: vec![tool],
            needs: Vec::new(),
            extensions: Vec::new(),
        })
    }

    fn call(_: String, arguments: String, _: CallContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput {
            content: vec![Content::Json(arguments)],
            structured: None,
            extensions: Vec::new(),
        })
    }

    fn surplus() -> u32 {
        1
    }
}

impl exports::test::foreign::more::Guest for Plugin {
    fn more() -> String {
        "more".to_owned()
    }
}

export!(Plugin);
