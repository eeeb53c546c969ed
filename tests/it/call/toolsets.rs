//! Toolsets as a person sees them: what there is, what a session gets of it, and why not.

use expect_test::{Expect, expect};
use serde_json::json;

use crate::support::{Lab, guest, made};

/// A plugin with a tool of each fate: one that lacks a variable, one whose check says no, and
/// one that works.
pub(crate) fn fates() -> Vec<u8> {
    made(&json!({
        "tools": [
            { "name": "needs_token", "toolset": "web", "requires_env": ["TOKEN"] },
            { "name": "offline", "toolset": "web", "check": "no network" },
            { "name": "works", "toolset": "made" },
        ],
        "needs": [{ "kind": "hooks", "value": { "events": ["pre-call"], "tools": ["*"] } }],
    }))
}

/// A folder with that plugin, which may join built-in toolsets, and toolsets of a user.
pub(crate) fn lab() -> Lab {
    Lab::new().granted("fates", fates()).with("json.wasm", guest("json")).config(
        "[plugins.fates]\nallow_tool_override = true\n\
         [toolsets.mine]\ndescription = \"What I use.\"\ntools = [\"works\", \"gone\"]\nincludes = [\"data\", \"wbe\"]\n\
         [toolsets.here]\nincludes = [\"there\"]\n\
         [toolsets.there]\nincludes = [\"here\"]\n\
         [platforms.cli]\ntoolsets = [\"mine\", \"fiel\"]\nknown = [\"data\", \"made\"]\n",
    )
}

fn run(arguments: &[&str], expected: &Expect) {
    expected.assert_eq(&lab().run(arguments));
}

/// The names that `schema` lists, and what it says on stderr.
fn schema(arguments: &[&str], expected: &Expect) {
    let printed = lab().run(&[&["schema", "--format", "mcp"], arguments].concat());
    let (head, stderr) = printed.split_once("--- stderr\n").expect("stderr");
    let (code, stdout) = head.split_once("--- stdout\n").expect("stdout");
    let listed: serde_json::Value = serde_json::from_str(stdout).unwrap_or_default();
    let names = listed.as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str());
    let names = names.collect::<Vec<_>>().join(" ");
    expected.assert_eq(&format!("{code}{names}\n--- stderr\n{stderr}"));
}

#[test]
fn schema_lists_what_is_selected_and_can_work() {
    schema(
        &[],
        &expect![[r#"
            exit 0
            json_query json_schema_infer works
            --- stderr
            note: left out because they cannot work at present: needs_token, offline; `toolhost list` says why
        "#]],
    );
    schema(
        &["--enable", "data"],
        &expect![[r#"
        exit 0
        json_query json_schema_infer
        --- stderr
    "#]],
    );
    schema(
        &["--enable", "data, made", "--enable", "mine"],
        &expect![[r#"
        exit 0
        json_query json_schema_infer works
        --- stderr
    "#]],
    );
    schema(
        &["--enable", ""],
        &expect![[r#"
        exit 0

        --- stderr
    "#]],
    );
    schema(
        &["--disable", "data"],
        &expect![[r#"
            exit 0
            works
            --- stderr
            note: left out because they cannot work at present: needs_token, offline; `toolhost list` says why
        "#]],
    );
    schema(
        &["--enable", "data", "--disable", "all"],
        &expect![[r#"
        exit 0

        --- stderr
    "#]],
    );
    schema(
        &["--platform", "cli"],
        &expect![[r#"
        exit 0
        json_query json_schema_infer works
        --- stderr
        warning: Unknown toolset: fiel; did you mean `file`?
    "#]],
    );
    schema(
        &["--platform", "cli", "--disable", "data"],
        &expect![[r#"
        exit 0
        works
        --- stderr
        warning: Unknown toolset: fiel; did you mean `file`?
    "#]],
    );
    schema(
        &["--platform", "telegrm"],
        &expect![[r#"
            exit 0
            json_query json_schema_infer works
            --- stderr
            warning: Unknown platform: telegrm, which has what `cli` has; did you mean `telegram`?
            note: left out because they cannot work at present: needs_token, offline; `toolhost list` says why
        "#]],
    );
    schema(
        &["--disable", "hermes-telegram"],
        &expect![[r#"
            exit 0
            json_query json_schema_infer works
            --- stderr
            note: disabling `hermes-telegram` takes away no tool, since all it has are core tools; to take away core tools, disable their toolsets, such as `terminal` or `web`
            note: left out because they cannot work at present: needs_token, offline; `toolhost list` says why
        "#]],
    );
}

#[test]
fn an_unknown_toolset_loses_nothing_else() {
    schema(
        &["--enable", "dta,made", "--disable", "zzz"],
        &expect![[r#"
        exit 0
        works
        --- stderr
        warning: Unknown toolset: dta; did you mean `data`?
        warning: Unknown toolset: zzz
    "#]],
    );
}

#[test]
fn schema_has_the_form_of_a_vendor() {
    run(
        &["schema", "--enable", "made", "--format", "anthropic"],
        &expect![[r#"
        exit 0
        --- stdout
        [
          {
            "name": "works",
            "description": "Made for a test.",
            "input_schema": {
              "type": "object",
              "properties": {}
            }
          }
        ]
        --- stderr
    "#]],
    );
    run(
        &["schema", "--enable", "made", "--format", "gemini"],
        &expect![[r#"
        exit 0
        --- stdout
        [
          {
            "name": "works",
            "description": "Made for a test."
          }
        ]
        --- stderr
    "#]],
    );
}

#[test]
fn list_counts_tokens() {
    run(
        &["list", "--tokens"],
        &expect![[r#"
            exit 0
            --- stdout
            TOOL               TOOLSET  SOURCE        STATE             TOKENS  SHARE
            json_query         data     plugin:json   ready, untrusted  242     40.8%
            result_read        results  builtin       ready             166     28.0%
            json_schema_infer  data     plugin:json   ready, untrusted  153     25.8%
            works              made     plugin:fates  ready             32      5.4%
            needs_token        web      plugin:fates  unavailable       34      -
            offline            web      plugin:fates  unavailable       33      -

            593 tokens for 4 tools; 2 more cannot work at present and are not counted

            Unavailable:
              needs_token: it requires the variable `TOKEN`, which it was not granted: run `toolhost grant fates --env TOKEN`
              offline: no network
            --- stderr
        "#]],
    );
    run(
        &["list", "--tokens", "--format", "gemini", "--enable", "data"],
        &expect![[r#"
            exit 0
            --- stdout
            TOOL               TOOLSET  SOURCE       STATE             TOKENS  SHARE
            json_query         data     plugin:json  ready, untrusted  268     60.1%
            json_schema_infer  data     plugin:json  ready, untrusted  178     39.9%

            446 tokens for 2 tools
            --- stderr
        "#]],
    );
    run(
        &["list", "--enable", "terminal"],
        &expect![[r#"
        exit 0
        --- stdout
        No tools: there are some, and none is in an enabled toolset; `toolhost toolsets` lists these.
        --- stderr
    "#]],
    );
    run(
        &["list", "--tokens", "--enable", "web,made", "--json"],
        &expect![[r#"
            exit 0
            --- stdout
            {
              "tools": [
                {
                  "name": "works",
                  "toolset": "made",
                  "source": "plugin:fates",
                  "state": "ready",
                  "tokens": 32,
                  "share_percent": 100.0
                },
                {
                  "name": "needs_token",
                  "toolset": "web",
                  "source": "plugin:fates",
                  "state": "unavailable",
                  "tokens": 34,
                  "reason": "it requires the variable `TOKEN`, which it was not granted: run `toolhost grant fates --env TOKEN`",
                  "share_percent": null
                },
                {
                  "name": "offline",
                  "toolset": "web",
                  "source": "plugin:fates",
                  "state": "unavailable",
                  "tokens": 33,
                  "reason": "no network",
                  "share_percent": null
                }
              ],
              "tokens": 32,
              "not_loaded": [],
              "pending": [],
              "left_out": [],
              "idle_grants": []
            }
            --- stderr
        "#]],
    );
}

#[test]
fn toolsets_are_listed() {
    let printed = lab().run(&["toolsets"]);
    let shown = |line: &&str| {
        [
            "NAME", "data ", "file", "here", "made", "mine", "web", "safe", "context", "warning",
            "exit",
        ]
        .iter()
        .any(|word| line.starts_with(word))
    };
    let lines: Vec<&str> = printed.lines().filter(shown).collect();
    expect![[r#"
        exit 0
        NAME                   TOOLS    WHERE FROM  AVAILABLE
        context_engine         0 of 0   built-in    no: it has no tools
        data                   2 of 2   registered  yes
        file                   0 of 4   built-in    no: no source provides its tools
        here                   0 of 0   yours       no: it has no tools
        made                   1 of 1   registered  yes
        mine                   3 of 4   yours       yes
        safe                   2 of 6   built-in    no: it requires the variable `TOKEN`, which it was not granted: run `toolhost grant fates --env TOKEN`
        web                    2 of 4   built-in    no: it requires the variable `TOKEN`, which it was not granted: run `toolhost grant fates --env TOKEN`
        warning: toolsets include one another in a circle: `here` -> `there` -> `here`; take `here` out of `includes` of `there`"#]].assert_eq(&lines.join("\n"));
    let json = lab().run(&["toolsets", "--json"]);
    assert!(json.contains(r#""requirements": ["#), "{json}");
}

#[test]
fn one_toolset_is_explained() {
    run(
        &["toolsets", "mine"],
        &expect![[r#"
            exit 0
            --- stdout
            mine  (yours)
            What I use.

            Available: yes
            Includes: data, wbe (adds nothing: Unknown toolset: wbe; did you mean `web`?)

            TOOL               NAMED BY  SOURCE        STATE
            gone               itself    -             not here: no source provides it
            json_query         included  plugin:json   ready
            json_schema_infer  included  plugin:json   ready
            works              itself    plugin:fates  ready
            --- stderr
            warning: toolsets include one another in a circle: `here` -> `there` -> `here`; take `here` out of `includes` of `there`
        "#]],
    );
    run(
        &["toolsets", "web_tools"],
        &expect![[r#"
            exit 0
            --- stdout
            web_tools  (legacy)

            Available: no: no source provides its tools

            TOOL         NAMED BY  SOURCE  STATE
            web_extract  itself    -       not here: no source provides it
            web_search   itself    -       not here: no source provides it
            --- stderr
            warning: toolsets include one another in a circle: `here` -> `there` -> `here`; take `here` out of `includes` of `there`
        "#]],
    );
    run(
        &["toolsets", "web", "--json"],
        &expect![[r#"
            exit 0
            --- stdout
            {
              "name": "web",
              "description": "Search the web and read pages.",
              "origin": "built-in",
              "available": false,
              "reason": "it requires the variable `TOKEN`, which it was not granted: run `toolhost grant fates --env TOKEN`",
              "includes": [],
              "requirements": [
                "TOKEN"
              ],
              "tools": [
                {
                  "name": "needs_token",
                  "is_direct": true,
                  "source": "plugin:fates",
                  "state": "unavailable: it requires the variable `TOKEN`, which it was not granted: run `toolhost grant fates --env TOKEN`"
                },
                {
                  "name": "offline",
                  "is_direct": true,
                  "source": "plugin:fates",
                  "state": "unavailable: no network"
                },
                {
                  "name": "web_extract",
                  "is_direct": true,
                  "source": null,
                  "state": "not here: no source provides it"
                },
                {
                  "name": "web_search",
                  "is_direct": true,
                  "source": null,
                  "state": "not here: no source provides it"
                }
              ]
            }
            --- stderr
            warning: toolsets include one another in a circle: `here` -> `there` -> `here`; take `here` out of `includes` of `there`
        "#]],
    );
    run(
        &["toolsets", "context_engine"],
        &expect![[r#"
            exit 0
            --- stdout
            context_engine  (built-in)
            Tools of the active context engine; empty until one adds some.

            Available: no: it has no tools
            It has no tools.
            --- stderr
            warning: toolsets include one another in a circle: `here` -> `there` -> `here`; take `here` out of `includes` of `there`
        "#]],
    );
}

#[test]
fn a_sample_is_drawn() {
    run(
        &["sample", "balanced", "--seed", "2"],
        &expect![[r#"
        exit 0
        --- stdout
        Seed 2

        TOOLSET  HERE    TOOLS
        vision   0 of 1  vision_analyze

        To use them: --enable vision
        --- stderr
    "#]],
    );
    run(
        &["sample", "minimal", "--seed", "18446744073709551615", "--json"],
        &expect![[r#"
        exit 0
        --- stdout
        {
          "distribution": "minimal",
          "seed": 18446744073709551615,
          "toolsets": [
            {
              "name": "web",
              "tools": [
                {
                  "name": "needs_token",
                  "is_here": true
                },
                {
                  "name": "offline",
                  "is_here": true
                },
                {
                  "name": "web_extract",
                  "is_here": false
                },
                {
                  "name": "web_search",
                  "is_here": false
                }
              ]
            }
          ]
        }
        --- stderr
    "#]],
    );
    let printed = lab().run(&["sample", "minimal"]);
    assert!(printed.starts_with("exit 0\n--- stdout\nSeed "), "{printed}");
}
