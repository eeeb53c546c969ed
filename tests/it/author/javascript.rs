//! JavaScript and TypeScript scripts, through the host and the program: what they can do, and how
//! they are refused.

use std::fs;

use expect_test::expect;

use crate::author::python::{refused, uses_what_was_granted};
use crate::support::Lab;
use crate::support::server::TestServer;

#[tokio::test]
async fn what_is_wrong_with_a_script_is_said() {
    let tool =
        |rest: &str| format!("import {{ need, plugin, tool }} from 'toolhost-sdk';\n\n{rest}");
    let function = |comment: &str, options: &str| {
        tool(&format!(
            "/**\n * Counts words.\n{comment} */\nfunction words({{ x }}) {{}}\ntool(words{options});\n"
        ))
    };
    let scripts = [
        ("syntax.js", "const x = (1,\n".to_owned()),
        ("broken.ts", "let x: string = ;\n".to_owned()),
        ("await.js", "await fetch('https://example.com');\n".to_owned()),
        ("missing.js", "import _ from 'lodash';\n".to_owned()),
        ("sibling.js", "import { a } from './lib/a.js';\n".to_owned()),
        ("name.js", "import { tol } from 'toolhost-sdk';\ntol();\n".to_owned()),
        ("crash.js", "function f() {\n  return undefined.x;\n}\n\nf();\n".to_owned()),
        ("nothing.js", "const x = 1;\n".to_owned()),
        ("type.js", function(" * @param {Date} x When.\n", "")),
        ("undocumented.js", function("", "")),
        ("other.js", function(" * @param {string} x X.\n * @param {string} y Y.\n", "")),
        ("unknown.js", function(" * @param {string} x X.\n", ", { colour: 'red' }")),
        ("example.js", function(" * @param {string} x X.\n", ", { examples: [{ args: {} }] }")),
        ("twice.js", function(" * @param {string} x X.\n", "") + "tool(words);\n"),
        ("property.js", tool("const word = /\\p{L}/u;\n")),
        ("node.js", "import fs from 'node:fs';\n".to_owned()),
        ("require.js", "const fs = require('fs');\n".to_owned()),
        ("thrown.js", "throw 'just a text';\n".to_owned()),
        ("deep.js", "const f = () => f() + 1;\nf();\n".to_owned()),
        ("empty.js", String::new()),
    ];
    let scripts: Vec<(&str, &str)> =
        scripts.iter().map(|(name, text)| (*name, text.as_str())).collect();
    refused(&scripts, &expect![[r#"
        syntax.js: `register` says: syntax.js:2: SyntaxError: the file ends in the middle of something: expected expression, got '}'
        broken.ts: `register` says: broken.ts:1: SyntaxError: Unexpected token
        await.js: `register` says: await.js:1: SyntaxError: await is only valid in async functions, async generators and modules; a script cannot wait while it is loaded, so use await inside of an async function
        missing.js: `register` says: missing.js:1: no module named 'lodash': a script can import its own modules (by './...') and what the runner has (toolhost-sdk, zod); for others build a component with `toolhost build`
        sibling.js: `register` says: sibling.js:1: no module './lib/a.js': the script has sibling.js
        name.js: `register` says: name.js:1: 'toolhost-sdk' exports no `tol`; it exports BadArguments, FileError, KvError, NotAvailable, ToolError, audio, env, fetch, files, hooks, image, json, kv, log, need, output, plugin, progress, resource, secrets, ...
        crash.js: `register` says: crash.js:2: TypeError: can't access property "x" of undefined
        nothing.js: `register` says: nothing: the plugin defines nothing; make a function a tool with tool(...)
        type.js: `register` says: type.js:7: words: parameter `x: Date` has no JSON Schema (`Date`); allowed are string, number, integer, boolean, null, 'a' | 'b', T[], { name: T, other?: T }, Record<string, T>, object and any
        undocumented.js: `register` says: undocumented.js:6: words: parameter `x` is not documented; add `@param {string} x ...`
        other.js: `register` says: other.js:8: words: documents `y`, which the function does not take; it takes x
        unknown.js: `register` says: unknown.js:8: tool: unknown key `colour`; known are name, toolset, description, parameters, output, emoji, requiresEnv, maxResultSizeChars, overrides, readOnly, destructive, idempotent, openWorld, check, describe, examples, extensions
        example.js: `register` says: example.js:8: words: an example is { arguments: { ... }, expected: 'text of the output' }, or without `expected`
        twice.js: `register` says: twice.js:9: this plugin defines the tool `words` twice
        property.js: `register` says: property.js:3: SyntaxError: invalid property name in regular expression
        node.js: `register` says: node.js:1: no module named 'node:fs': a script can import its own modules (by './...') and what the runner has (toolhost-sdk, zod); for others build a component with `toolhost build`
        require.js: `register` says: require.js:1: ReferenceError: require is not defined
        thrown.js: `register` says: thrown.js: Error: just a text
        deep.js: `register` says: deep.js:1: InternalError: too much recursion
        empty.js: `register` says: empty: the plugin defines nothing; make a function a tool with tool(...)
    "#]]).await;
}

#[tokio::test]
async fn a_script_that_takes_too_long_to_load_is_stopped() {
    let lab =
        Lab::new().config("[limits]\nregister_time_max = \"2s\"").with("endless.js", "for (;;);\n");
    assert_eq!(
        lab.status("endless.js").await,
        "`register` did not return within `register_time_max` of 2s; the plugin must not loop or wait there"
    );
}

#[test]
fn the_example_converts_a_page() {
    let lab = Lab::new().with_folder("plugins/html-to-markdown");
    let page = "<h1>Tea</h1><p>Is <b>hot</b>, says <a href='cup'>the cup</a>.</p>";
    fs::write(lab.work().join("page.html"), page).expect("written");
    let transcript = [
        lab.run(&["list"]),
        lab.run(&["describe", "html_to_markdown"]),
        lab.run(&[
            "call",
            "html_to_markdown",
            "--arg",
            "html=@page.html",
            "--arg",
            "base_url=https://example.com/",
        ]),
        lab.run(&["call", "html_to_markdown", "--arg", "html=x", "--arg", "base_url=nowhere"]),
    ];
    expect![[r#"
        exit 0
        --- stdout
        TOOL              TOOLSET  SOURCE                   STATE             TOKENS
        html_to_markdown  text     plugin:html-to-markdown  ready, untrusted  236
        result_read       results  builtin                  ready             166
        --- stderr

        exit 0
        --- stdout
        📝 html_to_markdown  (toolset text, from plugin:html-to-markdown)

        Converts HTML to Markdown: headings, paragraphs, emphasis, links, images, lists, code, quotes and
        tables. Scripts, styles and comments are left out. Broken HTML is read as well as it can be.

        Arguments:
          html  (string, required)
              The HTML, a whole page or a part of one.
          base_url  (string)
              The address of the page, such as `https://example.com/docs/`: relative links and images become absolute.
          main_only  (boolean, default false)
              Leave out navigation, headers, footers, sidebars and forms.
          links  (boolean, default true)
              Keep the addresses of links; if false, only their text.
          images  (boolean, default true)
              Keep images; if false, only their alternative text.

        Examples:
          toolhost call html_to_markdown '{"html":"<h1>Tea</h1><p>Is <b>hot</b>.</p>"}'
          toolhost call html_to_markdown '{"html":"<ul><li><a href=\"cup\">Cup</a><li>Pot</ul>","base_url":"https://example.com/tea/"}'
          toolhost call html_to_markdown '{"html":"<table><tr><th>Leaf<th>Minutes<tr><td>Green<td>2</table>"}'
        --- stderr

        exit 0
        --- stdout
        # Tea

        Is **hot**, says [the cup](https://example.com/cup).
        --- stderr

        exit 1
        --- stdout
        --- stderr
        error[invalid_arguments]: `nowhere` is no address; give one such as https://example.com/docs/
    "#]].assert_eq(&transcript.join("\n"));
}

#[tokio::test]
async fn typescript_is_a_script_too() {
    let text = "import { tool } from 'toolhost-sdk';\n\ninterface Text {\n  /** The text. */\n  text: string;\n}\n\n\
        /** Counts words. */\nfunction words({ text }: Text): number {\n  return text.split(' ').length;\n}\ntool(words);\n";
    let lab = Lab::new().with("words.ts", text);
    assert_eq!(lab.status("words.ts").await, "tools: words");
    let printed = lab.run(&["call", "words", "--arg", "text=a b"]);
    assert_eq!(printed, "exit 0\n--- stdout\n2\n--- stderr\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_uses_what_it_asks_for_and_was_granted() {
    let server = TestServer::answering("HTTP/1.1 200 \r\ncontent-length: 6\r\n\r\nhello!").await;
    let mixed = include_str!("../load/scripts/mixed.js");
    let lab = Lab::new().with("mixed.js", mixed);
    uses_what_was_granted(&server, &lab, &expect![[r#"
        exit 1
        --- stdout
        --- stderr
        refused: GET http://localhost:PORT/ is not granted: run `toolhost grant mixed --http 'http://localhost:*'`
        error[failed]: TypeError: no answer from http://localhost:PORT: the host refused the request, or the network failed. If it is not granted: `toolhost grant ID --http http://localhost:PORT` with the id of this plugin, which must ask for it with need.http: NetworkError when attempting to fetch resource (mixed.js:61)

        exit 1
        --- stdout
        --- stderr
        error[failed]: KvError: the store of plugin:mixed is not granted: run `toolhost grant mixed --kv` (mixed.js:51)

        exit 0
        --- stdout
        plugin:mixed may use the HTTP host http://localhost:PORT, as long as its bytes are sha256:DIGEST
        plugin:mixed may use the variable GREETING, as long as its bytes are sha256:DIGEST
        plugin:mixed may use the secret TOKEN@localhost:PORT:header=x-token, as long as its bytes are sha256:DIGEST
        plugin:mixed may use a store of its own, as long as its bytes are sha256:DIGEST
        --- stderr

        exit 0
        --- stdout
        {"status":200,"text":"hello!","token":true}
        --- stderr

        exit 0
        --- stdout
        1
        --- stderr

        exit 0
        --- stdout
        42
        --- stderr
    "#]]).await;
}
