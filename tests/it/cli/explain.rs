//! Why a tool is listed or not, as `explain` tells it.

use expect_test::{Expect, expect};
use serde_json::json;

use crate::call::toolsets::lab;
use crate::support::{Lab, check_program as check, guest, made};

/// Plugins of which two have one name, and one has a name of the host; and a copy.
pub(crate) fn two_of_one_name() -> Lab {
    let tools = json!([{ "name": "json_query", "overrides": true }, { "name": "terminal" }]);
    Lab::new()
        .with("json.wasm", guest("json"))
        .with("copy.wasm", guest("json"))
        .granted("other", made(&json!({ "tools": tools })))
}

/// Digests change whenever a guest is built with another compiler.
pub(crate) fn without_digests(line: &str) -> String {
    let is_digest = |word: &&str| {
        matches!(word.len(), 12 | 64) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let words = |letter: char| !letter.is_ascii_alphanumeric();
    match line.split(words).find(is_digest) {
        // In a table, columns stay in line.
        Some(digest) if digest.len() == 12 => line.replace(digest, "DIGEST......"),
        Some(digest) => line.replace(digest, "DIGEST"),
        None => line.to_owned(),
    }
}

#[test]
fn explain_tells_the_whole_chain() {
    explain(
        &lab(),
        &["works"],
        &expect![[r#"
            exit 0
            --- stdout
            plugin:fates
              file: plugins/fates.wasm (in a project's folder, trusted)
              digest: sha256:DIGEST
              plugin: made 1.0.0, built for contract 0.1.0
              registered: `works` by plugin:fates
              asks for: hooks {"events":["pre-call"],"tools":["*"]}
              granted: nothing

            works of plugin:fates
              toolset: made; also in mine
              requires: nothing
              available: yes
              may: only compute and answer
              session: has it, as it has every tool
              hooks: none
              listed: yes

            It is listed and can be called.
            --- stderr
        "#]],
    );
    explain(
        &lab(),
        &["works", "--enable", "data"],
        &expect![[r#"
            exit 0
            --- stdout
            plugin:fates
              file: plugins/fates.wasm (in a project's folder, trusted)
              digest: sha256:DIGEST
              plugin: made 1.0.0, built for contract 0.1.0
              registered: `works` by plugin:fates
              asks for: hooks {"events":["pre-call"],"tools":["*"]}
              granted: nothing

            works of plugin:fates
              toolset: made; also in mine
              requires: nothing
              available: yes
              may: only compute and answer
              session: does not have it: none of its toolsets is enabled
              hooks: none
              listed: no: hidden from the model

            To list it: add one of its toolsets to --enable, such as `--enable made`.
            --- stderr
        "#]],
    );
    explain(
        &lab(),
        &["works", "--platform", "telegram", "--disable", "made"],
        &expect![[r#"
            exit 0
            --- stdout
            plugin:fates
              file: plugins/fates.wasm (in a project's folder, trusted)
              digest: sha256:DIGEST
              plugin: made 1.0.0, built for contract 0.1.0
              registered: `works` by plugin:fates
              asks for: hooks {"events":["pre-call"],"tools":["*"]}
              granted: nothing

            works of plugin:fates
              toolset: made; also in mine
              requires: nothing
              available: yes
              may: only compute and answer
              session: does not have it: disabled by `made`
              hooks: none
              listed: no: hidden from the model

            To list it: take `made` out of --disable.
            --- stderr
        "#]],
    );
    explain(
        &lab(),
        &["needs_token"],
        &expect![[r#"
            exit 0
            --- stdout
            plugin:fates
              file: plugins/fates.wasm (in a project's folder, trusted)
              digest: sha256:DIGEST
              plugin: made 1.0.0, built for contract 0.1.0
              registered: `needs_token` by plugin:fates
              asks for: hooks {"events":["pre-call"],"tools":["*"]}
              granted: nothing

            needs_token of plugin:fates
              toolset: web; also in debugging, safe
              requires: the variables TOKEN
              available: no: it requires the variable `TOKEN`, which it was not granted: run `toolhost grant fates --env TOKEN`
              may: only compute and answer
              session: has it, as it has every tool
              hooks: none
              listed: no: hidden from the model

            To list it: run `toolhost grant fates --env TOKEN`.
            --- stderr
        "#]],
    );
    explain(
        &lab(),
        &["offline", "--json"],
        &expect![[r#"
            exit 0
            --- stdout
            {
              "tool": "offline",
              "listed": false,
              "sources": [
                {
                  "what": "plugin:fates",
                  "file": "plugins/fates.wasm (in a project's folder, trusted)",
                  "digest": "sha256:DIGEST",
                  "plugin": "made 1.0.0, built for contract 0.1.0",
                  "registered": "`offline` by plugin:fates",
                  "asks_for": "hooks {\"events\":[\"pre-call\"],\"tools\":[\"*\"]}",
                  "granted": "nothing"
                }
              ],
              "steps": {
                "what": "offline of plugin:fates",
                "toolset": "web; also in debugging, safe",
                "requires": "nothing",
                "available": "no: no network",
                "may": "only compute and answer",
                "session": "has it, as it has every tool",
                "hooks": "none",
                "listed": "no: hidden from the model"
              },
              "conclusion": "To list it: see to what its check asks for (no network)."
            }
            --- stderr
        "#]],
    );
}

#[test]
fn explain_says_who_has_the_name() {
    explain(
        &two_of_one_name(),
        &["json_query"],
        &expect![[r#"
            exit 0
            --- stdout
            plugin:copy
              file: plugins/copy.wasm (in a project's folder: untrusted, so it takes no name from another)
              digest: sha256:DIGEST
              plugin: json 0.1.0, built for contract 0.1.0
              registered: `json_query` by plugin:copy
              asks for: nothing
              granted: nothing

            plugin:json
              file: plugins/json.wasm (in a project's folder: untrusted, so it takes no name from another)
              digest: sha256:DIGEST
              not counted: plugins/copy.wasm is the same plugin

            plugin:other
              file: plugins/other.wasm (in a project's folder, trusted)
              digest: sha256:DIGEST
              plugin: made 1.0.0, built for contract 0.1.0
              rejected: plugin:other asks to replace `json_query` of plugin:copy and may not; set `plugins."HOME/project/plugins/other".allow_tool_override = true` in toolhost.toml
              asks for: nothing
              granted: nothing

            json_query of plugin:copy
              toolset: data
              requires: nothing
              available: yes
              may: only compute and answer
              session: has it, as it has every tool
              hooks: none
              listed: yes

            It is listed and can be called.
            --- stderr
            ERROR toolhost_kernel::registry::rules: plugin:other may not replace `json_query` of plugin:copy: set `plugins."HOME/project/plugins/other".allow_tool_override = true` in toolhost.toml
        "#]],
    );
    explain(
        &two_of_one_name(),
        &["terminal"],
        &expect![[r#"
            exit 0
            --- stdout
            plugin:other
              file: plugins/other.wasm (in a project's folder, trusted)
              digest: sha256:DIGEST
              plugin: made 1.0.0, built for contract 0.1.0
              rejected: `terminal` is the name of a core tool; rename it, or set `plugins."HOME/project/plugins/other".allow_tool_override = true` in toolhost.toml
              asks for: nothing
              granted: nothing

            To list it: rename it, or set `plugins."HOME/project/plugins/other".allow_tool_override = true` in toolhost.toml.
            --- stderr
            ERROR toolhost_kernel::registry::rules: plugin:other may not replace `json_query` of plugin:copy: set `plugins."HOME/project/plugins/other".allow_tool_override = true` in toolhost.toml
        "#]],
    );
    let allowed = two_of_one_name().config("[plugins.other]\nallow_tool_override = true\n");
    explain(
        &allowed,
        &["json_query"],
        &expect![[r#"
            exit 0
            --- stdout
            plugin:copy
              file: plugins/copy.wasm (in a project's folder: untrusted, so it takes no name from another)
              digest: sha256:DIGEST
              plugin: json 0.1.0, built for contract 0.1.0
              replaced: by the tool of the same name of plugin:other
              asks for: nothing
              granted: nothing

            plugin:json
              file: plugins/json.wasm (in a project's folder: untrusted, so it takes no name from another)
              digest: sha256:DIGEST
              not counted: plugins/copy.wasm is the same plugin

            plugin:other
              file: plugins/other.wasm (in a project's folder, trusted)
              digest: sha256:DIGEST
              plugin: made 1.0.0, built for contract 0.1.0
              registered: `json_query` by plugin:other
              asks for: nothing
              granted: nothing

            json_query of plugin:other
              toolset: made
              requires: nothing
              available: yes
              may: only compute and answer
              session: has it, as it has every tool
              hooks: none
              listed: yes

            It is listed and can be called.
            --- stderr
        "#]],
    );
}

#[test]
fn explain_knows_grants_and_hooks() {
    let lab = lab();
    let granted = lab.run(&["grant", "fates", "--env", "TOKEN", "--hook", "pre-call:json_*"]);
    assert!(granted.starts_with("exit 0\n"), "{granted}");
    explain(
        &lab,
        &["needs_token"],
        &expect![[r#"
            exit 0
            --- stdout
            plugin:fates
              file: plugins/fates.wasm (in a project's folder, trusted)
              digest: sha256:DIGEST
              plugin: made 1.0.0, built for contract 0.1.0
              registered: `needs_token` by plugin:fates
              asks for: hooks {"events":["pre-call"],"tools":["*"]}
              granted: --env TOKEN; --hook 'pre-call:json_*'

            needs_token of plugin:fates
              toolset: web; also in debugging, safe
              requires: the variables TOKEN
              available: no: it requires the variable `TOKEN`, which is granted and not set: set `TOKEN` in the environment of toolhost
              may: hear of other tools' calls
              session: has it, as it has every tool
              hooks: none: its source has hooks itself
              listed: no: hidden from the model

            To list it: set `TOKEN` in the environment of toolhost.
            --- stderr
        "#]],
    );
    explain(
        &lab,
        &["json_query", "--platform", "none", "--enable", "x"],
        &expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: the argument '--platform <NAME>' cannot be used with '--enable <A,B>'

        Usage: toolhost explain --platform <NAME> <NAME>

        For more information, try '--help'.
    "#]],
    );
    explain(
        &lab,
        &["json_query", "--disable", "data,web,all"],
        &expect![[r#"
            exit 0
            --- stdout
            plugin:json
              file: plugins/json.wasm (in a project's folder: untrusted, so it takes no name from another)
              digest: sha256:DIGEST
              plugin: json 0.1.0, built for contract 0.1.0
              registered: `json_query` by plugin:json
              asks for: nothing
              granted: nothing

            json_query of plugin:json
              toolset: data; also in mine
              requires: nothing
              available: yes
              may: only compute and answer
              session: does not have it: disabled by `data` and `all`
              hooks: plugin:fates hears pre-call
              listed: no: hidden from the model

            To list it: take `data` and `all` out of --disable.
            --- stderr
        "#]],
    );
}

#[test]
fn toolsets_plugins_and_servers_are_explained() {
    let lab = lab().with("broken.wasm", "hello");
    let config = std::fs::read_to_string(lab.home().join("toolhost.toml")).unwrap_or_default();
    let lab = lab.config(&format!("{config}\n[mcp_servers.github]\ncommand = \"x\"\n"));
    for (name, expected) in [
        (
            "fates",
            &["plugin:fates\n", "file: plugins/fates.wasm", "tools: ", "granted: nothing"][..],
        ),
        ("plugin:fates", &["plugin:fates\n", "state: "]),
        ("fates.wasm", &["plugin:fates\n"]),
        ("broken", &["plugin:broken\n", "why: not WebAssembly; replace it by a component"]),
        ("made", &["toolset made\n", "works of plugin:fates", "nobody provides: "]),
        ("github", &["mcp:github\n", "[mcp_servers.github] in toolhost.toml"]),
        ("mcp:github", &["mcp:github\n"]),
    ] {
        let shown = lab.run(&["explain", name]);
        assert!(shown.starts_with("exit 0\n"), "{name}: {shown}");
        for expected in expected {
            assert!(shown.contains(expected), "{name}, {expected}: {shown}");
        }
        assert_eq!(shown.contains("broken.wasm"), name == "broken", "{name}: {shown}");
        let json = lab.run(&["explain", name, "--json"]);
        assert!(json.contains(&format!(r#""name": "{name}""#)), "{name}: {json}");
    }
    let near = lab.run(&["explain", "fate"]);
    assert!(near.contains("there is no such name; near: fates"), "{near}");
}

#[test]
fn explain_of_nobodys_tool_helps() {
    let lab = lab().with("broken.wasm", "hello");
    explain(
        &lab,
        &["wroks"],
        &expect![[r#"
            exit 2
            --- stdout
            --- stderr
            error: wroks: there is no such name; near: works
            hint: `toolhost list` shows tools, plugins and files that did not load; `toolhost toolsets` shows toolsets
        "#]],
    );
    explain(
        &lab,
        &["web_search", "--json"],
        &expect![[r#"
            exit 2
            --- stdout
            --- stderr
            error: web_search: there is no such name; near: x_search, search
            hint: it is a core tool, of the toolsets browser, coding, debugging, safe, search, web, and no source provides it
            hint: `toolhost list` shows tools, plugins and files that did not load; `toolhost toolsets` shows toolsets
        "#]],
    );
    check(
        &["explain"],
        &expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: the following required arguments were not provided:
          <NAME>

        Usage: toolhost explain <NAME>

        For more information, try '--help'.
    "#]],
    );
}

fn explain(lab: &Lab, arguments: &[&str], expected: &Expect) {
    let printed = lab.run(&[&["explain"], arguments].concat());
    let lines: Vec<String> = printed.lines().map(without_digests).collect();
    expected.assert_eq(&format!("{}\n", lines.join("\n")));
}
