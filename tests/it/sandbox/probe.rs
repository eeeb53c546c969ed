//! `toolhost probe`: a stranger's tool with every grant denied, and what it tried.

use std::fs;

use expect_test::{Expect, expect};

use crate::support::{Lab, guest};

/// Probes the hostile guest with these steps.
fn check(lab: &Lab, steps: &str, with: &[&str], expected: &Expect) {
    let steps = format!("{{\"steps\": {steps}}}");
    let mut arguments = vec!["probe", "plugins/hostile.wasm", "attack", steps.as_str()];
    arguments.extend(with);
    expected.assert_eq(&lab.run(&arguments));
}

fn lab() -> Lab {
    let lab = Lab::new().with("hostile.wasm", guest("hostile"));
    fs::create_dir(lab.work().join("data")).expect("a folder");
    fs::write(lab.work().join("data/file"), "inside").expect("written");
    lab
}

#[test]
fn what_was_tried_is_printed_as_grants() {
    check(
        &lab(),
        r#"[{"std": "data/file"}, {"std": "/etc/passwd"}, {"env": "GIVEN"}, {"kv_get": "a"},
            {"secret": "KEY"}, {"secret": "OTHER"},
            {"file": {"at": "/", "do": "create", "path": "out/x", "to": ["", "x"]}},
            {"request": {"authority": "api.test", "path": "/v1?key=value"}}]"#,
        &[],
        &expect![[r#"
            exit 0
            --- stdout
            Every grant was denied.

            The tool answered:
            [{"error":"Operation not permitted (os error 63)"},{"error":"Operation not permitted (os error 63)"},null,{"error":"Error::NotGranted(\"the store of plugin:hostile is not granted: run `toolhost grant hostile --kv`\")"},{"present":false,"placeholder":null},{"present":false,"placeholder":null},{"error":"not-permitted"},{"error":"GET https://api.test/v1 is not granted: run `toolhost grant hostile --http https://api.test`"}]

            It tried in vain:
              HOME/project/data/file (is not granted, and no directory is)  [dirs=HOME/project/data:ro]
              /etc/passwd (is not granted, and no directory is)  [dirs=/etc:ro]
              the variable GIVEN (is not granted)  [env=GIVEN]
              the variable HOME (is not granted)  [env=HOME]
              the variable PATH (is not granted)  [env=PATH]
              the store of plugin:hostile (is not granted)  [kv]
              the secret KEY (is not granted)  [secrets=KEY@*.test:*:header=x-key]
              the secret OTHER (is nothing that this tool of plugin:hostile asks for, so no grant would help)  [secrets=OTHER]
              GET https://api.test/v1 (is not granted)  [http=https://api.test]
              a path that is not on this machine

            It did not get to everything it asks for:
              asks for secrets {"name":"KEY","hosts":["*.test:*","localhost:*"],"header":"x-key"}: to steal it; to grant it, run `toolhost grant hostile --secret 'KEY@localhost:*:header=x-key'`

            To let it get further in another probe:
              toolhost probe plugins/hostile.wasm attack '{"steps": [{"std": "data/file"}, {"std": "/etc/passwd"}, {"env": "GIVEN"}, {"kv_get": "a"},
                        {"secret": "KEY"}, {"secret": "OTHER"},
                        {"file": {"at": "/", "do": "create", "path": "out/x", "to": ["", "x"]}},
                        {"request": {"authority": "api.test", "path": "/v1?key=value"}}]}' --with dirs=HOME/project/data:ro --with dirs=/etc:ro --with http=https://api.test --with env=GIVEN --with env=HOME --with env=PATH --with 'secrets=KEY@*.test:*:header=x-key' --with kv
            To grant it for good:
              toolhost grant hostile --dir HOME/project/data:ro --dir /etc:ro --http https://api.test --env GIVEN --env HOME --env PATH --secret 'KEY@*.test:*:header=x-key' --kv
            --- stderr
        "#]],
    );
}

#[test]
fn only_what_is_here_or_was_said_is_named_and_only_what_can_be_granted() {
    let python = r#"
from toolhost import need, tool

need.read_directory("*", reason="to read")

@tool
def read_py(path: str) -> str:
    """Reads a file.

    Args:
        path: The file.
    """
    for hidden in ("/opt-none/x", "/usr/none/x", "/usr/bin/env"):
        try:
            open(hidden)
        except OSError:
            pass
    return open(path).read()
"#;
    let javascript = r#"
import { files, need, tool } from 'toolhost-sdk';

need.readDirectory('*', { reason: 'to read' });

/**
 * Reads a file.
 *
 * @param {string} path The file.
 */
function read_js({ path }) {
  return files.readText(path);
}
tool(read_js);
"#;
    let lab = lab().with("py.py", python).with("js.js", javascript);
    fs::write(lab.work().join("README.md"), "# Here\n").expect("written");
    let probe = |file: &str, tool: &str, path: &str| {
        let arguments = serde_json::json!({ "path": path }).to_string();
        let said = lab.run(&["probe", &format!("plugins/{file}"), tool, &arguments]);
        let (_, tried) = said.split_once("It tried in vain:").unwrap_or_else(|| panic!("{said}"));
        for wrong in ["/0/", "/1/", "/opt-none", "/usr/none", "/.:", "dirs=/:"] {
            assert!(!tried.contains(wrong), "{wrong}: {said}");
        }
        said
    };
    for (file, tool) in [("py.py", "read_py"), ("js.js", "read_js")] {
        let id = file.split('.').next().expect("an id");
        // The narrowest directory, as an absolute path.
        let said = probe(file, tool, "data/file");
        let (_, grant) =
            said.split_once(&format!("toolhost grant {id} ")).unwrap_or_else(|| panic!("{said}"));
        assert!(grant.contains("--dir HOME/project/data:ro"), "{said}");
        assert!(said.contains("--with dirs=HOME/project/data:ro"), "{said}");
        let said = probe(file, tool, "README.md");
        assert!(said.contains("--dir HOME/project:ro"), "{said}");
        // What is not there yet was asked for all the same; what holds it is there.
        let said = probe(file, tool, "data/none/x");
        assert!(said.contains("HOME/project/data/none/x"), "{said}");
        assert!(said.contains("dirs=HOME/project/data:ro"), "{said}");
        // What `grant` would refuse is not recommended: the root, a home, the host's own.
        let state = lab.home().join("state/x").display().to_string();
        for path in ["/none", "/home/none/x", &state] {
            let said = probe(file, tool, path);
            let (_, tried) = said.split_once("It tried in vain:").expect("a list");
            let shown = path.replace(&*lab.home().to_string_lossy(), "HOME");
            let line = tried.lines().find(|line| line.contains(&format!("  {shown} (")));
            let line = line.unwrap_or_else(|| panic!("{path}: {said}"));
            assert!(line.contains("[no directory that would do can be granted]"), "{said}");
        }
    }
    // Below what was said, what is not there is as unknown as elsewhere; and above it, it is said.
    let said = probe("py.py", "read_py", ".");
    assert!(said.contains("HOME/project (") && said.contains("dirs=HOME/project:ro"), "{said}");
    assert!(!said.contains("HOME/project/0"), "{said}");
    let said = probe("py.py", "read_py", "../project/data/..");
    assert!(said.contains("HOME/project (") && said.contains("dirs=HOME/project:ro"), "{said}");
    let said = probe("py.py", "read_py", "data/file");
    assert!(said.contains("not on this machine"), "{said}");
    assert!(said.contains("/usr/bin/env") && said.contains("dirs=/usr/bin:ro"), "{said}");
}

#[test]
fn the_directory_above_is_named() {
    let lab = lab().with("files.wasm", guest("files"));
    let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
    command.current_dir(lab.work().join("data")).arg("probe").arg(lab.plugins().join("files.wasm"));
    let output = command.args(["search_files", r#"{"path": "..", "pattern": "x"}"#]).output();
    let said = String::from_utf8(output.expect("the program").stdout).expect("UTF-8");
    let said = said.replace(&*lab.home().to_string_lossy(), "HOME");
    assert!(said.contains("HOME/project (") && said.contains("dirs=HOME/project:ro"), "{said}");
}

#[test]
fn with_grants_it_comes_further() {
    let lab = lab();
    let here = format!("dirs={}=.:ro", lab.work().display());
    check(
        &lab,
        r#"[{"std": "data/file"}, {"kv_set": ["a", "b"]}, {"kv_get": "a"},
            {"request": {"scheme": "http", "authority": "127.0.0.1:1", "path": "/"}}]"#,
        &["--with", &here, "--with", "kv", "--with", "http=http://*:*"],
        &expect![[r#"
            exit 0
            --- stdout
            Every grant was denied but dirs=HOME/project=.:ro, http=http://*:*, kv.

            The tool answered:
            [{"text":"inside"},"ok","b",{"error":"GET http://127.0.0.1:1/ is refused, since its host has an address that is loopback: if that is meant, run `toolhost grant hostile --http http://127.0.0.1:1`"}]

            It tried in vain:
              GET http://127.0.0.1:1/ (is refused, since its host has an address that is loopback)  [http=http://127.0.0.1:1]

            It did not get to everything it asks for:
              asks for env {"names":["GIVEN","HOME","PATH"]}: to look around; to grant it, run `toolhost grant hostile --env GIVEN --env HOME --env PATH`
              asks for secrets {"name":"KEY","hosts":["*.test:*","localhost:*"],"header":"x-key"}: to steal it; to grant it, run `toolhost grant hostile --secret 'KEY@*.test:*:header=x-key' --secret 'KEY@localhost:*:header=x-key'`

            To let it get further in another probe:
              toolhost probe plugins/hostile.wasm attack '{"steps": [{"std": "data/file"}, {"kv_set": ["a", "b"]}, {"kv_get": "a"},
                        {"request": {"scheme": "http", "authority": "127.0.0.1:1", "path": "/"}}]}' --with dirs=HOME/project=.:ro --with 'http=http://*:*' --with http=http://127.0.0.1:1 --with kv
            To grant it for good:
              toolhost grant hostile --dir HOME/project=.:ro --http 'http://*:*' --http http://127.0.0.1:1 --kv
            --- stderr
        "#]],
    );
    // Nothing of it is there for the next.
    let again = lab.run(&[
        "probe",
        "plugins/hostile.wasm",
        "attack",
        r#"{"steps": [{"kv_get": "a"}]}"#,
        "--with",
        "kv",
    ]);
    assert!(again.contains("[null]"), "{again}");
    assert!(!lab.home().join("state/kv").exists());
}

#[test]
fn weather_comes_as_far_as_its_grants() {
    let lab = Lab::new().with("weather.wasm", guest("weather"));
    let probe = ["probe", "plugins/weather.wasm", "weather_now", r#"{"city": "Oslo"}"#];
    expect![[r#"
        exit 0
        --- stdout
        Every grant was denied.

        The tool gave no answer [failed]: GET https://api.openweathermap.org/data/2.5/weather is not granted: run `toolhost grant weather --http https://api.openweathermap.org`

        It tried in vain:
          GET https://api.openweathermap.org/data/2.5/weather (is not granted)  [http=https://api.openweathermap.org]

        It did not get to everything it asks for:
          asks for secrets {"name":"OPENWEATHER_API_KEY","hosts":["api.openweathermap.org"],"query":"appid"}: the key of your account at OpenWeatherMap; to grant it, run `toolhost grant weather --secret OPENWEATHER_API_KEY@api.openweathermap.org:query=appid`

        To let it get further in another probe:
          toolhost probe plugins/weather.wasm weather_now '{"city": "Oslo"}' --with http=https://api.openweathermap.org
        To grant it for good:
          toolhost grant weather --http https://api.openweathermap.org
        --- stderr
    "#]].assert_eq(&lab.run(&probe));
    let json = lab.run(&[&probe[..], &["--json"]].concat());
    assert!(json.contains(r#""grant": "http=https://api.openweathermap.org""#), "{json}");
}

#[test]
fn what_cannot_be_probed_is_explained() {
    let lab = lab();
    let mut said = String::new();
    for arguments in [
        &["probe", "plugins/none.wasm", "attack"][..],
        &["probe", "plugins/hostile.wasm", "nothing"],
        &["probe", "plugins/hostile.wasm", "attack", "[]"],
        &["probe", "plugins/hostile.wasm", "attack", "--with", "teleport=mars"],
        &["probe", "plugins/hostile.wasm", "attack", "--with", "http"],
        &["probe", "plugins/hostile.wasm", "attack", "--with", "hooks=request:*"],
    ] {
        said += &lab.run(arguments).replace("--- stdout\n", "");
    }
    expect![[r#"
        exit 2
        --- stderr
        error: plugins/none.wasm: cannot be read: No such file or directory (os error 2); check that it is there and may be read
        exit 3
        --- stderr
        error[unknown_tool]: Unknown tool: nothing
        exit 3
        --- stderr
        error[invalid_arguments]: arguments must be a JSON object such as {"key": "value"}; given is an array
        exit 2
        --- stderr
        error: `--with teleport` names no kind of grant
        hint: kinds are dirs, http, env, secrets and kv, as in `--with http=https://api.example.com`
        exit 2
        --- stderr
        error: `` is no HTTP grant: it has no host, or too many words; write [METHODS ][SCHEME://]HOST[:PORT][/PREFIX][ private], such as https://api.example.com, *.example.com or `GET,POST https://api.example.com/v1/`
        exit 2
        --- stderr
        error: `--with hooks` names no kind of grant
        hint: kinds are dirs, http, env, secrets and kv, as in `--with http=https://api.example.com`
    "#]].assert_eq(&said);
}

#[test]
fn no_grant_is_proposed_that_would_mean_another_directory() {
    let lab = lab().with("probe.wasm", guest("probe"));
    for (folder, why) in [
        ("=x", "its path cannot be written as a grant, in which `=` separates two paths"),
        ("a=b", "its path cannot be written as a grant"),
        ("two\nlines", "its path has characters that cannot be typed"),
        ("esc\u{1b}[1m", "its path has characters that cannot be typed"),
        ("right\u{202e}left", "its path has characters that cannot be typed"),
        ("user", "it holds the home of a user"),
    ] {
        fs::create_dir_all(lab.work().join(folder)).expect("a folder");
        let path = lab.work().join(folder).join("file");
        let run = |arguments: &[&str]| {
            let mut command = lab.command(env!("CARGO_BIN_EXE_toolhost"));
            let output = command.env("HOME", lab.work().join("user")).args(arguments).output();
            let output = output.expect("the program");
            String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8")
        };
        let arguments = serde_json::json!({ "text": path }).to_string();
        let said = run(&["call", "look", "--json", &arguments]);
        assert!(said.contains(why) && !said.contains("toolhost grant"), "{folder:?}: {said}");
        let steps = serde_json::json!({ "steps": [{ "std": path }] }).to_string();
        let said = run(&["probe", "plugins/hostile.wasm", "attack", &steps]);
        let is_proposed = ["--dir /", "--dir '/", "dirs=/"].iter().any(|flag| said.contains(flag));
        assert!(said.contains("It tried in vain") && !is_proposed, "{folder:?}: {said}");
    }
    // What looks strange and reads back as it is.
    for (folder, flag) in [("a:rw", "a:rw:ro"), ("it's", "it'\\''s:ro'")] {
        fs::create_dir(lab.work().join(folder)).expect("a folder");
        let arguments = serde_json::json!({ "text": lab.work().join(folder) }).to_string();
        let said = lab.run(&["call", "look", "--json", &arguments]);
        let said = said.replace("\\\\", "\\");
        assert!(said.contains("toolhost grant probe --dir") && said.contains(flag), "{said}");
    }
}
