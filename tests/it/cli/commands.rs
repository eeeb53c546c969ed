//! The program as a person uses it: exit code, stdout and stderr of each command in one block.

use std::fs;

use expect_test::expect;

use crate::support::{Lab, check_program as check, guest, json_and_probe as lab, registering};

#[test]
fn list_shows_tools_and_problems() {
    let lab = Lab::new()
        .with("json.wasm", guest("json"))
        .with("broken.wasm", "hello")
        .with("x.wasm", registering("two json_query fine"));
    expect![[r#"
        exit 0
        --- stdout
        TOOL               TOOLSET     SOURCE       STATE             TOKENS
        fine               registered  plugin:x     ready, untrusted  33
        json_query         data        plugin:json  ready, untrusted  242
        json_schema_infer  data        plugin:json  ready, untrusted  153
        result_read        results     builtin      ready             166

        Not loaded:
          plugins/broken.wasm: not WebAssembly; replace it by a component, or remove it

        Left out:
          plugin:x `json_query`: `json_query` is already registered by plugin:json; remove plugin:json or plugin:x, or rename the tool of one of them
        --- stderr
    "#]].assert_eq(&lab.run(&["list"]));
    expect![[r#"
        exit 0
        --- stdout
        {
          "tools": [
            {
              "name": "fine",
              "toolset": "registered",
              "source": "plugin:x",
              "state": "ready, untrusted",
              "tokens": 33
            },
            {
              "name": "json_query",
              "toolset": "data",
              "source": "plugin:json",
              "state": "ready, untrusted",
              "tokens": 242
            },
            {
              "name": "json_schema_infer",
              "toolset": "data",
              "source": "plugin:json",
              "state": "ready, untrusted",
              "tokens": 153
            },
            {
              "name": "result_read",
              "toolset": "results",
              "source": "builtin",
              "state": "ready",
              "tokens": 166
            }
          ],
          "not_loaded": [
            {
              "place": "plugins/broken.wasm",
              "reason": "not WebAssembly; replace it by a component, or remove it"
            }
          ],
          "pending": [],
          "left_out": [
            {
              "place": "plugin:x `json_query`",
              "reason": "`json_query` is already registered by plugin:json; remove plugin:json or plugin:x, or rename the tool of one of them"
            }
          ],
          "idle_grants": []
        }
        --- stderr
    "#]].assert_eq(&lab.run(&["list", "--json"]));
}

#[test]
fn list_of_nothing_says_what_to_do() {
    let lab = Lab::new();
    expect![[r#"
        exit 0
        --- stdout
        TOOL         TOOLSET  SOURCE   STATE  TOKENS
        result_read  results  builtin  ready  166
        --- stderr
    "#]]
    .assert_eq(&lab.run(&["list"]));
    fs::remove_dir(lab.plugins()).expect("removed");
    assert!(lab.run(&["list"]).starts_with("exit 0\n"));
}

#[test]
fn schema_is_openais_function_list() {
    let lab = Lab::new().with("json.wasm", guest("json"));
    expect![[r#"
        exit 0
        --- stdout
        [
          {
            "type": "function",
            "function": {
              "name": "json_query",
              "description": "Runs a jq filter over JSON and returns the results in order, as\n`{\"results\": [...], \"truncated\": false}`.\n\nUse it to select, reshape, count, sort or aggregate JSON instead of reading all of it.\nThe language is jq's, with its standard library; there are no modules, no environment\nvariables, and no further inputs.",
              "parameters": {
                "type": "object",
                "additionalProperties": false,
                "properties": {
                  "filter": {
                    "type": "string",
                    "description": "A jq filter, such as `.items[] | select(.price > 10) | .name`."
                  },
                  "json": {
                    "description": "The JSON value to query. Give this or `text`."
                  },
                  "text": {
                    "type": "string",
                    "description": "JSON as text: one value, or several one after the other (JSON Lines); the filter runs\non each. Give this or `json`.",
                    "nullable": true
                  },
                  "limit": {
                    "type": "integer",
                    "format": "uint",
                    "minimum": 1,
                    "description": "The most results to return.",
                    "maximum": 10000,
                    "default": 100
                  }
                },
                "required": [
                  "filter"
                ]
              }
            }
          },
          {
            "type": "function",
            "function": {
              "name": "json_schema_infer",
              "description": "Infers the JSON Schema that a JSON value matches.\n\nUse it to learn the shape of unknown or large JSON before querying it. Objects in one\narray are merged: a property is `required` if all of them have it.",
              "parameters": {
                "type": "object",
                "additionalProperties": false,
                "properties": {
                  "json": {
                    "description": "The JSON value to describe. Give this or `text`."
                  },
                  "text": {
                    "type": "string",
                    "description": "JSON as text: one value, or several one after the other (JSON Lines), which are\ndescribed together. Give this or `json`.",
                    "nullable": true
                  }
                }
              }
            }
          }
        ]
        --- stderr
    "#]].assert_eq(&lab.run(&["schema"]));
}

#[test]
fn describe_explains_one_tool() {
    check(
        &["describe", "every"],
        &expect![[r#"
        exit 0
        --- stdout
        🧪 every  (toolset probe, from plugin:probe)

        Takes every kind of argument.

        Arguments:
          text  (string, required)
              A text.
          kind  (Small or Large, required)
              A kind.
          count  (integer, default 7)
              A number with a default.
          list  (array or null)
              A list that may be left out.

        Asks for:
          teleport {"to":"mars"}: to get there (a kind this host does not know: it grants nothing)
        --- stderr
    "#]],
    );
    check(
        &["describe", "json_query"],
        &expect![[r#"
        exit 0
        --- stdout
        🔎 json_query  (toolset data, from plugin:json)

        Runs a jq filter over JSON and returns the results in order, as
        `{"results": [...], "truncated": false}`.

        Use it to select, reshape, count, sort or aggregate JSON instead of reading all of it.
        The language is jq's, with its standard library; there are no modules, no environment
        variables, and no further inputs.

        Arguments:
          filter  (string, required)
              A jq filter, such as `.items[] | select(.price > 10) | .name`.
          json  (any JSON)
              The JSON value to query. Give this or `text`.
          text  (string or null)
              JSON as text: one value, or several one after the other (JSON Lines); the filter runs
              on each. Give this or `json`.
          limit  (integer, default 100)
              The most results to return.

        Examples:
          toolhost call json_query '{"filter": "[.[] | select(.n > 1) | .name]", "json": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]}'
          toolhost call json_query '{"filter": ".id", "text": "{\"id\": 1}\n{\"id\": 2}"}'
        --- stderr
    "#]],
    );
    check(
        &["describe", "jsonquery"],
        &expect![[r#"
            exit 2
            --- stdout
            --- stderr
            error[unknown_tool]: Unknown tool: jsonquery
            hint: did you mean `json_query`?
        "#]],
    );
    check(
        &["describe", "weather"],
        &expect![[r#"
            exit 2
            --- stdout
            --- stderr
            error[unknown_tool]: Unknown tool: weather
            hint: `toolhost list` shows all tools, and why a file is none
        "#]],
    );
}

#[test]
fn call_prints_the_answer() {
    check(
        &["call", "json_query", r#"{"filter": ".a[]", "json": {"a": [1, 2]}}"#],
        &expect![[r#"
            exit 0
            --- stdout
            {"results":[1,2],"truncated":false}
            --- stderr
        "#]],
    );
    check(
        &["call", "blocks"],
        &expect![[r#"
        exit 0
        --- stdout
        text
        {"a":1}
        [image, image/png, 3 bytes; see --json]
        [audio, audio/wav, 1 bytes; see --json]
        [resource file:///x]
        inside
        --- stderr
    "#]],
    );
    check(
        &["call", "echo", "--arg", "text=\u{1b}[31mred\u{202e}"],
        &expect![[r#"
        exit 0
        --- stdout
        \u{1b}[31mred\u{202e}
        --- stderr
    "#]],
    );
    check(
        &["call", "claim_json", "--arg", r#"text="\u009b""#],
        &expect![[r#"
        exit 0
        --- stdout
        "\u009b"
        --- stderr
    "#]],
    );
    check(
        &["call", "every", "--arg", "text=7", "--arg", "kind=Small", "--arg", "list=[1]"],
        &expect![[r#"
        exit 0
        --- stdout
        {"text":"7","kind":"small","count":7,"list":[1.0]}
        --- stderr
    "#]],
    );
    check(
        &["call", "report", r#"{"n": 1}"#],
        &expect![[r#"
        exit 0
        --- stdout
        reported
        --- stderr
        progress 0 of 1: step
    "#]],
    );
    check(
        &["call", "chatter", r#"{"n": 1}"#],
        &expect![[r#"
        exit 0
        --- stdout
        said
        --- stderr
         WARN toolhost::guest: probe: line 0\u{1b}[31m
    "#]],
    );
}

#[test]
fn call_reads_arguments_from_files_and_stdin() {
    let lab = lab();
    fs::write(lab.work().join("a.json"), r#"{"text": "from a file"}"#).expect("written");
    fs::write(lab.work().join("text"), "the value").expect("written");
    assert!(lab.run(&["call", "echo", "@a.json"]).contains("\nfrom a file\n"));
    assert!(lab.run_with(&["call", "echo", "-"], r#"{"text": "typed"}"#).contains("\ntyped\n"));
    assert!(lab.run(&["call", "echo", "--arg", "text=@text"]).contains("\nthe value\n"));
    assert!(lab.run(&["call", "echo", "--arg", "text=@@text"]).contains("\n@text\n"));
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: the file none.json cannot be read: No such file or directory (os error 2)
    "#]]
    .assert_eq(&lab.run(&["call", "echo", "@none.json"]));
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: `--arg text` has no `=`
        hint: write `--arg KEY=VALUE`, or give all arguments as one JSON object
    "#]]
    .assert_eq(&lab.run(&["call", "echo", "--arg", "text"]));
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        error: the argument '[JSON]' cannot be used with '--arg <KEY=VALUE>'

        Usage: toolhost call <TOOL> <JSON>

        For more information, try '--help'.
    "#]]
    .assert_eq(&lab.run(&["call", "echo", "{}", "--arg", "text=x"]));
}

#[test]
fn json_holds_the_whole_outcome() {
    let output = lab().run(&["call", "crash", r#"{"text": "boo"}"#, "--json"]);
    let json = output.lines().skip(2).take_while(|line| *line != "--- stderr");
    let json: String = json.collect::<Vec<_>>().join("\n");
    let outcome: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(output.starts_with("exit 4\n"));
    assert_eq!((&outcome["ok"], &outcome["generation"]), (&false.into(), &2.into()));
    assert_eq!(outcome["error"]["code"], "trap");
    assert!(outcome["stderr"].as_str().expect("stderr").contains("boo"));
    assert!(outcome["elapsed_ms"].as_f64().expect("a number") > 0.0);
    assert!(output.ends_with("--- stderr\n"), "{output}");
}

#[test]
fn completions_know_the_commands() {
    let bash = lab().run(&["completions", "bash"]);
    assert!(bash.starts_with("exit 0\n") && bash.contains("describe"), "{bash}");
}

#[test]
fn help_names_every_command_and_exit_code() {
    let help = lab().run(&["--help"]);
    for word in [
        "list",
        "toolsets",
        "schema",
        "describe",
        "call",
        "explain",
        "inspect",
        "doctor",
        "sample",
        "build",
        "completions",
        "--json",
        "--plugins",
        "--config",
        "--verbose",
        "Exit codes",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
}
