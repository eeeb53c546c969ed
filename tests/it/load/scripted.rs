//! Plugins that are scripts, in the words of every command: found, shown, granted, changed.

mod running;

use std::fs;

use expect_test::expect;

use crate::support::{Lab, without_digests, without_times};

const WORDS: &str = r#"from toolhost import kv, need, tool
from lib.count import count

need.kv(reason="to remember")

@tool(toolset="text", examples=[({"text": "a b"}, "2")])
def count_words(text: str) -> int:
    """Counts the words of a text.

    Args:
        text: The text.
    """
    kv.set("last", text)
    return count(text)
"#;

/// A folder `words` that is a script.
fn lab() -> Lab {
    let lab = Lab::new();
    fs::create_dir_all(lab.plugins().join("words/lib")).expect("a folder");
    lab.with("words/plugin.py", WORDS)
        .with("words/lib/count.py", "def count(text):\n    return len(text.split())\n")
}

#[test]
fn commands_show_a_script() {
    let lab = lab();
    let transcript = [
        lab.run(&["inspect", "plugins/words"]),
        lab.run(&["inspect", "plugins/words/plugin.py"]).lines().next().expect("a line").to_owned(),
        lab.run(&["describe", "count_words"]),
        lab.run(&["explain", "count_words"]),
        lab.run(&["check", "plugins/words"]),
        lab.run(&["probe", "plugins/words", "count_words", r#"{"text": "a"}"#]),
    ];
    let said = without_times(&without_digests(&transcript.join("\n")));
    expect![[r#"
        exit 0
        --- stdout
        plugin:words is plugin 0.0.0
          file       plugins/words
          size       360 bytes of Python, run by the host's runner of it
          digest     sha256:DIGEST, of its modules and the runner
          contract   0.1.0
          runner     made with Rust, component-init-transform 0.2.0, rustc 1.75.0, wit-component 0.245.1

        Asks for, and gets what of it you grant:
          kv: to keep values from one call to the next
              for all tools; its reason: to remember

        Imports, the most it could ask for:
          refuses without a grant: files, network, HTTP, environment, secrets, values kept between calls
          reaches nothing outside: clock, random numbers, log, progress, standard streams and exit, waiting and streams
          Its runner contains CPython: these imports come with the Python runtime and say nothing about this tool.

        Tools:
          count_words  (toolset text)
              Counts the words of a text.
              arguments: text (string)

        Warnings: none

        Tokens of each definition in a prompt:
              61  count_words
              61  in total
        --- stderr

        exit 0
        exit 0
        --- stdout
        ⚡ count_words  (toolset text, from plugin:words)

        Counts the words of a text.

        Arguments:
          text  (string, required)
              The text.

        Examples:
          toolhost call count_words '{"text":"a b"}'

        Asks for:
          kv {}: to remember
        --- stderr

        exit 0
        --- stdout
        plugin:words
          file: plugins/words (in a project's folder: untrusted, so it takes no name from another)
          digest: sha256:DIGEST
          plugin: plugin 0.0.0, built for contract 0.1.0
          registered: `count_words` by plugin:words
          asks for: kv {}: to remember
          granted: nothing

        count_words of plugin:words
          toolset: text
          requires: nothing
          available: yes
          may: only compute and answer
          session: has it, as it has every tool
          hooks: none
          listed: yes

        It is listed and can be called.
        --- stderr

        exit 0
        --- stdout
        plugins/words is plugin 0.0.0: 1 tool, 360 bytes
        warning[annotations] count_words: it does not say whether it changes anything outside itself; set the annotation `read-only` to true or false
        note[example] count_words /examples/0: skipped: needs `--kv`; try it with `toolhost probe --with`, or add one that needs nothing

        TOOL EXAMPLES CALL TOKENS
        count_words 1 skipped - 61
        61 tokens in all; `register` takes N ms

        0 errors, 1 warning, 1 note
        --- stderr

        exit 0
        --- stdout
        Every grant was denied.

        The tool gave no answer [failed]: the store of plugin:words is not granted: run `toolhost grant words --kv`

        It tried in vain:
          the store of plugin:words (is not granted)  [kv]

        To let it get further in another probe:
          toolhost probe plugins/words count_words '{"text": "a"}' --with kv
        To grant it for good:
          toolhost grant words --kv
        --- stderr
    "#]].assert_eq(&said);
}

#[test]
fn a_grant_is_for_every_module_of_a_script() {
    let lab = lab();
    let grant = lab.run(&["grant", "words", "--kv"]);
    let called = lab.run(&["call", "count_words", "--arg", "text=a b"]);
    // One module changes, and no other file of the folder counts.
    fs::write(lab.plugins().join("words/test_plugin.py"), "").expect("written");
    let tested = lab.run(&["call", "count_words", "--arg", "text=a b"]);
    assert_eq!(called, tested);
    fs::write(lab.plugins().join("words/lib/count.py"), "def count(text):\n    return 7\n")
        .expect("written");
    let transcript = [
        grant,
        called,
        lab.run(&["list"]),
        lab.run(&["call", "count_words", "--arg", "text=a b"]),
        lab.run(&["trust", "words", "--yes"]),
        lab.run(&["call", "count_words", "--arg", "text=a b"]),
    ];
    expect![[r#"
        exit 0
        --- stdout
        plugin:words may use a store of its own, as long as its bytes are sha256:DIGEST
        --- stderr

        exit 0
        --- stdout
        2
        --- stderr

        exit 0
        --- stdout
        TOOL         TOOLSET  SOURCE        STATE              TOKENS
        count_words  text     plugin:words  ready, kept build  61
        result_read  results  builtin       ready              166

        Pending:
          plugin:words: its bytes are not those that were trusted; its build sha256:DIGEST keeps serving; look at it with `toolhost inspect plugins/words`, then run `toolhost trust words`
        --- stderr

        exit 0
        --- stdout
        2
        --- stderr

        exit 0
        --- stdout
        plugin:words: plugins/words
          digest   sha256:DIGEST
          made as  plugin 0.0.0, 344 bytes
          tools    count_words
          asks for kv {}: to remember
          granted  --kv
          pending  its bytes are not those that were trusted; its build sha256:DIGEST keeps serving
        plugin:words is trusted, as long as its bytes are sha256:DIGEST
        --- stderr

        exit 0
        --- stdout
        7
        --- stderr
    "#]].assert_eq(&without_digests(&transcript.join("\n")));
}

#[test]
fn two_scripts_cannot_have_one_tool_or_one_id() {
    let script = |name: &str| {
        format!(
            "from toolhost import tool\n\n@tool()\ndef {name}() -> str:\n    \"\"\"Says.\"\"\"\n    return __name__\n"
        )
    };
    let lab = Lab::new()
        .with("a.py", script("say"))
        .with("b.py", script("say"))
        .with("c.py", script("other"))
        .with("c.js", "")
        .with("d.wasm", "hello")
        .with("d.py", script("third"));
    expect![[r#"
        exit 0
        --- stdout
        TOOL         TOOLSET  SOURCE    STATE             TOKENS
        result_read  results  builtin   ready             166
        say          a        plugin:a  ready, untrusted  36

        Not loaded:
          plugins/c.js: `c.js` and `c.py` have the same plugin id `c`; rename or remove all but one
          plugins/c.py: `c.js` and `c.py` have the same plugin id `c`; rename or remove all but one
          plugins/d.py: `d.py` and `d.wasm` have the same plugin id `d`; rename or remove all but one
          plugins/d.wasm: `d.py` and `d.wasm` have the same plugin id `d`; rename or remove all but one

        Left out:
          plugin:b `say`: `say` is already registered by plugin:a; remove plugin:a or plugin:b, or rename the tool of one of them
        --- stderr

        exit 0
        --- stdout
        a
        --- stderr
    "#]].assert_eq(&[lab.run(&["list"]), lab.run(&["call", "say"])].join("\n"));
}

#[test]
fn a_component_of_a_script_is_built_beside_no_script() {
    let lab = lab();
    let transcript = [
        lab.run(&["build", "plugins/words", "--yes"]),
        lab.run(&["build", "plugins/words", "--out", "dist", "--json"]),
        lab.run(&["inspect", "dist/words.wasm"]).lines().next().expect("a line").to_owned(),
        lab.run(&["call", "count_words", "--arg", "text=a b c", "--plugins", "dist"]),
    ];
    let said = without_digests(&transcript.join("\n"));
    let said: Vec<&str> = said.lines().filter(|line| !line.contains("\"bytes\"")).collect();
    expect![[r#"
        exit 2
        --- stdout
        --- stderr
        building HOME/project/plugins/words runs its author's code as you, outside the sandbox
        error: plugins has the script `words`; beside it `words.wasm` would have the same plugin id, and neither would be loaded. Put the component elsewhere, with `--out dist`

        exit 0
        --- stdout
        [
          {
            "id": "words",
            "path": "dist/words.wasm",
            "digest": "sha256:DIGEST",
          }
        ]
        --- stderr

        exit 0
        exit 1
        --- stdout
        --- stderr
        error[failed]: the store of plugin:words is not granted: run `toolhost grant words --kv`
    "#]].assert_eq(&(said.join("\n") + "\n"));
}

#[test]
fn the_program_says_where_files_are() {
    let lab = Lab::new();
    let all = lab.run(&["where"]);
    let shown: Vec<&str> = all.lines().filter(|line| !line.starts_with("cache ")).collect();
    expect![[r#"
        exit 0
        --- stdout
        configuration  HOME/toolhost.toml
        plugins        HOME/plugins
        bundled        HOME/bundled
        runners        HOME/runners
        data           HOME
        state          HOME/state
        --- stderr
    "#]]
    .assert_eq(&(shown.join("\n") + "\n"));
    assert_eq!(lab.run(&["where", "runners"]), "exit 0\n--- stdout\nHOME/runners\n--- stderr\n");
}

#[test]
fn a_main_file_that_is_a_link_is_refused() {
    let lab = lab();
    let main = lab.plugins().join("words/plugin.py");
    fs::rename(&main, lab.work().join("main.py")).expect("renamed");
    std::os::unix::fs::symlink(lab.work().join("main.py"), &main).expect("a link");
    expect![[r#"
        exit 0
        --- stdout
        TOOL         TOOLSET  SOURCE   STATE  TOKENS
        result_read  results  builtin  ready  166

        Not loaded:
          plugins/words: its main file `plugin.py` is a link, and links are not followed; put the file itself there
        --- stderr
    "#]]
    .assert_eq(&lab.run(&["list"]));
}

#[test]
fn a_script_is_developed_in_its_own_folder() {
    let lab = lab();
    let source = lab.work().join("mine");
    fs::rename(lab.plugins().join("words"), &source).expect("renamed");
    let mut digests = Vec::new();
    for _ in 0..2 {
        let output = lab
            .command(env!("CARGO_BIN_EXE_toolhost"))
            .current_dir(&source)
            .args(["dev", ".", "--once"])
            .output()
            .expect("the program");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let inspected = lab.run(&["inspect", "mine", "--json"]);
        let digest = inspected.lines().find(|line| line.contains("\"digest\"")).map(str::to_owned);
        digests.push(digest.expect("a digest"));
        // The copy lies where hosts look, and is no part of it.
        assert!(lab.plugins().join("mine/plugin.py").is_file(), "{text}");
        assert!(!source.join("plugins").exists());
    }
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn a_main_file_stands_for_its_script() {
    let lab = lab();
    let whole = lab.run(&["check", "plugins/words", "--json"]);
    let stable = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.contains("_us\"")).map(str::to_owned).collect()
    };
    assert!(
        whole.contains(r#""id": "words""#) && whole.contains(r#""name": "count_words""#),
        "{whole}"
    );
    assert_eq!(stable(&lab.run(&["check", "plugins/words/plugin.py", "--json"])), stable(&whole));
}

#[test]
fn a_main_file_in_a_plugins_folder_is_a_plugin_of_its_own() {
    let text = "from toolhost import tool\n\n@tool\ndef say() -> str:\n    \"\"\"Says.\"\"\"\n    return \"hello\"\n";
    let lab = Lab::new().with("plugin.py", text);
    for arguments in [
        vec!["check", "plugins/plugin.py"],
        vec!["probe", "plugins/plugin.py", "say", "{}"],
        vec!["inspect", "plugins/plugin.py"],
    ] {
        let said = lab.run(&arguments);
        assert!(said.starts_with("exit 0"), "{said}");
        let is_whole = said.contains("plugin:plugins") || said.contains("neither Cargo.toml");
        assert!(!is_whole, "{said}");
    }
}
