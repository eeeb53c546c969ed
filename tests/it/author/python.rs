//! Python scripts, through the host and the program: what they can do, and how they are refused.

use std::fs;
use std::time::Duration;

use expect_test::{Expect, expect};

use crate::support::server::TestServer;
use crate::support::{Lab, shown, without_digests};

/// What the host says of each of these scripts, if it does not load.
pub(crate) async fn refused(scripts: &[(&str, &str)], expected: &Expect) {
    let lab = scripts.iter().fold(Lab::new(), |lab, (name, text)| lab.with(name, text));
    let host = lab.host().await;
    let statuses = host.loaded().await;
    let mut said = String::new();
    for (name, _) in scripts {
        let status = statuses.iter().find(|status| status.location.ends_with(name));
        said += &format!("{name}: {}\n", shown(status.expect("a status"), &host));
    }
    expected.assert_eq(&said);
}

#[tokio::test]
async fn what_is_wrong_with_a_script_is_said() {
    let tool = |rest: &str| format!("from toolhost import need, plugin, tool\n\n{rest}");
    let function = |head: &str, parameters: &str| {
        tool(&format!("{head}\ndef words({parameters}):\n    \"\"\"Counts words.\"\"\"\n"))
    };
    let scripts = [
        ("syntax.py", "x = (1,\n".to_owned()),
        ("indent.py", "if True:\nx = 1\n".to_owned()),
        ("missing.py", "import json\nimport numpy\n".to_owned()),
        ("sibling.py", "from lib import count\n".to_owned()),
        ("name.py", "from toolhost import tol\n".to_owned()),
        ("crash.py", "import json\n\ndef f():\n    return 1 / 0\n\nf()\n".to_owned()),
        ("nothing.py", "x = 1\n".to_owned()),
        ("bytes.py", function("@tool()", "x: bytes")),
        ("untyped.py", function("@tool()", "x")),
        ("stars.py", function("@tool()", "*x: str")),
        ("example.py", function("@tool(examples=[({\"y\": 1}, \"\")])", "x: int")),
        ("unknown.py", function("@tool(colour=\"red\")", "x: int")),
        (
            "twice.py",
            function("@tool()", "x: int")
                + "\n@tool(name=\"words\")\ndef b() -> str:\n    \"\"\"B.\"\"\"\n",
        ),
        ("need.py", tool("need.env()\n")),
        ("exit.py", "import sys\nsys.exit(2)\n".to_owned()),
        ("file.py", "open('/etc/passwd').read()\n".to_owned()),
        ("input.py", "input()\n".to_owned()),
        ("deep.py", "def f():\n    return f()\n\nf()\n".to_owned()),
        ("empty.py", String::new()),
    ];
    let scripts: Vec<(&str, &str)> =
        scripts.iter().map(|(name, text)| (*name, text.as_str())).collect();
    refused(&scripts, &expect![[r#"
        syntax.py: `register` says: syntax.py:1: SyntaxError: '(' was never closed
        indent.py: `register` says: indent.py:2: IndentationError: expected an indented block after 'if' statement on line 1
        missing.py: `register` says: missing.py:2: no module named 'numpy': a script can import its own modules and what the runner has (csv, json, re, ...); for others build a component with `toolhost build`
        sibling.py: `register` says: sibling.py:1: no module named 'lib': a script can import its own modules and what the runner has (csv, json, re, ...); for others build a component with `toolhost build`
        name.py: `register` says: name.py:1: ImportError: cannot import name 'tol' from 'toolhost' (/0/toolhost/__init__.py)
        crash.py: `register` says: crash.py:4: ZeroDivisionError: division by zero
        nothing.py: `register` says: nothing.py: the plugin defines nothing; make a function a tool with `@tool` above it, or a hook with `@hook(...)`
        bytes.py: `register` says: bytes.py:3: words: parameter `x: bytes` has no JSON Schema; allowed are str, int, float, bool, None, list, tuple, set, dict, dataclasses, TypedDict, Enum, Literal, Optional, Union, Any, Annotated, date, datetime, time, Decimal, UUID and Path
        untyped.py: `register` says: untyped.py:3: words: parameter `x` has no type; write `x: str`, or what it is
        stars.py: `register` says: stars.py:3: words: parameter `*x: str` has no name of its own; write each parameter by its name, or take a `dict`
        example.py: `register` says: example.py:3: words: example 1 does not fit the parameters: /y: unknown field `y`; known are x
        unknown.py: `register` says: unknown.py:3: TypeError: tool() got an unexpected keyword argument 'colour'
        twice.py: `register` says: twice.py:7: words: there are two tools of this name; the other is at twice.py:3
        need.py: `register` says: need.py:3: need.env takes at least one name
        exit.py: `register` says: exit.py:2: SystemExit: 2
        file.py: `register` says: file.py:1: FileNotFoundError: [Errno 44] No such file or directory: '/etc/passwd'
        input.py: `register` says: input.py:1: EOFError: EOF when reading a line
        deep.py: `register` says: deep.py:2: RecursionError: maximum recursion depth exceeded
        empty.py: `register` says: empty.py: the plugin defines nothing; make a function a tool with `@tool` above it, or a hook with `@hook(...)`
    "#]]).await;
}

#[tokio::test]
async fn a_script_that_takes_too_long_to_load_is_stopped() {
    let lab = Lab::new()
        .config("[limits]\nregister_time_max = \"2s\"")
        .with("endless.py", "while True:\n    pass\n")
        .with("asleep.py", "import time\ntime.sleep(60)\n")
        .with("fine.py", "from toolhost import tool\n\n@tool()\ndef fine() -> str:\n    \"\"\"Is.\"\"\"\n    return ''\n");
    let said = "`register` did not return within `register_time_max` of 2s; the plugin must not loop or wait there";
    let host = lab.host().await;
    let statuses = host.loaded().await;
    for (file, expected) in [("endless.py", said), ("asleep.py", said), ("fine.py", "tools: fine")]
    {
        let status = statuses.iter().find(|status| status.location.ends_with(file));
        assert_eq!(shown(status.expect("a status"), &host), expected);
    }
}

#[test]
fn the_example_queries_a_granted_directory() {
    let lab = Lab::new().with_folder("plugins/csv-query");
    let data = lab.work().join("data");
    fs::create_dir(&data).expect("a folder");
    fs::write(data.join("scores.csv"), "name;team;points\nAda;red;7\nBob;blue;3\nCleo;red;5\n")
        .expect("written");
    let path = format!("path={}", data.join("scores.csv").display());
    let call = ["call", "csv_query", "--arg", &path, "--arg", "limit=1"];
    let grant = format!("{}:ro", data.display());
    let transcript = [
        lab.run(&["list"]),
        lab.run(&call),
        lab.run(&["grant", "csv-query", "--dir", &grant]),
        lab.run(&call),
        lab.run(&["call", "csv_query", "--arg", &path, "--arg", "group_by=[\"team\"]"]),
        lab.run(&[
            "call",
            "csv_query",
            "--arg",
            &path,
            "--arg",
            "where=[{\"column\": \"x\", \"op\": \"=\"}]",
        ]),
    ];
    expect![[r#"
        exit 0
        --- stdout
        TOOL         TOOLSET  SOURCE            STATE             TOKENS
        csv_query    data     plugin:csv-query  ready, untrusted  914
        result_read  results  builtin           ready             166
        --- stderr

        exit 1
        --- stdout
        --- stderr
        refused: HOME/project/data/scores.csv is not granted, and no directory is: run `toolhost grant csv-query --dir HOME/project/data:ro`
        error[failed]: `HOME/project/data/scores.csv` cannot be read: its directory is not granted: run `toolhost grant csv-query --dir HOME/project/data:ro`

        exit 0
        --- stdout
        plugin:csv-query may use HOME/project/data:ro, as long as its bytes are sha256:DIGEST
        --- stderr

        exit 0
        --- stdout
        {"columns":["name","team","points"],"rows":[["Ada","red",7]],"rows_matched":3,"rows_total":3,"next_offset":1}
        --- stderr

        exit 0
        --- stdout
        {"columns":["team"],"rows":[["red"],["blue"]],"rows_matched":3,"rows_total":3,"groups":2}
        --- stderr

        exit 1
        --- stdout
        --- stderr
        error[invalid_arguments]: there is no column `x`; there are name, team, points
    "#]].assert_eq(&without_digests(&transcript.join("\n")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_uses_what_it_asks_for_and_was_granted() {
    let server = TestServer::answering("HTTP/1.1 200 \r\ncontent-length: 6\r\n\r\nhello!").await;
    let mixed = include_str!("../load/scripts/mixed.py");
    let lab = Lab::new().with("mixed.py", mixed);
    uses_what_was_granted(&server, &lab, &expect![[r#"
        exit 1
        --- stdout
        --- stderr
        error[failed]: GET http://localhost:PORT/ is not granted: run `toolhost grant mixed --http 'http://localhost:*'`

        exit 1
        --- stdout
        --- stderr
        error[failed]: the store of plugin:mixed is not granted: run `toolhost grant mixed --kv`

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

/// Grants everything to `mixed`, and calls what uses it.
pub(crate) async fn uses_what_was_granted(server: &TestServer, lab: &Lab, expected: &Expect) {
    let secret = lab.run_with(&["secret", "set", "TOKEN"], "hunter2-hunter2\n");
    assert!(secret.starts_with("exit 0"), "{secret}");
    let port = server.port;
    let url = format!("url=http://localhost:{port}/");
    let http = format!("http://localhost:{port}");
    let secret = format!("TOKEN@localhost:{port}:header=x-token");
    let grants =
        ["grant", "mixed", "--http", &http, "--secret", &secret, "--kv", "--env", "GREETING"];
    let transcript = [
        lab.run(&["call", "ask", "--arg", &url]),
        lab.run(&["call", "count"]),
        lab.run(&grants),
        lab.run(&["call", "ask", "--arg", &url]),
        lab.run(&["call", "count"]),
        lab.run(&["call", "count", "--arg", "by=41"]),
    ];
    let said = transcript.join("\n").replace(&port.to_string(), "PORT");
    expected.assert_eq(&without_digests(&said));
    tokio::time::timeout(Duration::from_secs(60), server.requested()).await.expect("a request");
    let sent = server.requests().join("");
    assert!(sent.contains("x-token: hunter2-hunter2"), "{sent}");
    assert!(sent.contains("GET /?q=a%20b"), "{sent}");
}
