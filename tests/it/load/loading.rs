//! Foreign files in the folder: each says on one line what is wrong, and hurts nobody.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;
use toolhost_state::trust_store;
use toolhost_wasm::digest;

use crate::support::{Lab, answer, from_wat, guest, registering, shown};

async fn check(file: &str, bytes: impl AsRef<[u8]>, expected: &str) {
    let lab = Lab::new().with(file, bytes).with("json.wasm", guest("json"));
    let status = lab.status(file).await;
    assert!(status.contains(expected), "{status:?} lacks {expected:?}");
    let lines = status.lines().filter(|line| !line.starts_with("left out")).count();
    assert_eq!(lines, 1, "{status}");
    assert!(!status.chars().any(|letter| letter.is_control() && letter != '\n'), "{status:?}");
    assert_eq!(lab.status("json.wasm").await, "tools: json_query json_schema_infer");
}

#[tokio::test]
async fn files_that_are_no_plugins() {
    check("x.wasm", "hello", "not WebAssembly; replace it by a component, or remove it").await;
    check("x.wasm", "", "the file is empty").await;
    check(
        "x.wasm",
        b"\0asm\x01\0\0\0",
        "a core module, not a component; build it with `toolhost build`",
    )
    .await;
    check("x.wasm", &guest("probe")[..50_000], "truncated: the file ends after 50000 bytes").await;
    check("x.wasm", wat::parse_str("(component)").expect("WAT"), "not a toolhost plugin").await;
    check("x y.wasm", guest("probe"), "`x y` is no plugin id").await;
    check("ümlaut.wasm", guest("probe"), "is no plugin id").await;
    check("X.WASM", registering("one upper"), "tools: upper").await;
}

#[tokio::test]
async fn what_is_ignored_is_said() {
    use std::os::unix::ffi::OsStrExt;
    let lab = Lab::new();
    let strange = |bytes: &[u8]| std::ffi::OsStr::from_bytes(bytes).to_owned();
    for folder in ["words", "words/lib", "node_modules", "rust", ".hidden", "empty"] {
        fs::create_dir(lab.plugins().join(folder)).expect("a folder");
    }
    fs::create_dir(lab.plugins().join(strange(b"folder\xff"))).expect("a folder");
    for file in ["words/main.py", "node_modules/x.js", "rust/Cargo.toml", ".hidden/x.py"] {
        fs::write(lab.plugins().join(file), "").expect("written");
    }
    fs::write(lab.plugins().join(strange(b"script\xff.py")), "").expect("written");
    fs::write(lab.plugins().join(strange(b"component\xff.wasm")), "").expect("written");
    let host = lab.host().await;
    let mut said: Vec<String> = host
        .loaded()
        .await
        .iter()
        .map(|status| {
            let name = status.location.short();
            format!("{name}: {}", shown(status, &host))
        })
        .collect();
    said.sort();
    expect_test::expect![[r#"
        component\u{fffd}.wasm: `component\u{fffd}` is no plugin id: allowed are 1 to 40 characters of a-z 0-9 - (case and _ are folded); rename the file
        folder\u{fffd}: its name is not UTF-8; rename it
        script\u{fffd}.py: its name is not UTF-8; rename it
        words: a folder without a main file; name the one that has the tools plugin.py, plugin.js, plugin.mjs or plugin.ts"#]]
    .assert_eq(&said.join("\n").replace('\u{fffd}', r"\u{fffd}"));
    let listed = lab.run(&["list"]);
    assert!(listed.contains("plugins/words: a folder without a main file"), "{listed}");
}

#[tokio::test]
async fn things_that_are_no_files() {
    let lab = Lab::new().with("json.wasm", guest("json"));
    let make = |name: &str| lab.plugins().join(name);
    let pipe = rustix::fs::Mode::from_bits_truncate(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, make("pipe.wasm"), rustix::fs::FileType::Fifo, pipe, 0)
        .expect("a pipe");
    fs::create_dir(make("folder.wasm")).expect("a folder");
    let _socket = std::os::unix::net::UnixListener::bind(make("socket.wasm")).expect("a socket");
    std::os::unix::fs::symlink("loop.wasm", make("loop.wasm")).expect("a link");
    std::os::unix::fs::symlink("/dev/zero", make("device.wasm")).expect("a link");
    std::os::unix::fs::symlink("nowhere", make("dangling.wasm")).expect("a link");
    std::os::unix::fs::symlink("json.wasm", make("twice.wasm")).expect("a link");
    assert_eq!(lab.status("pipe.wasm").await, "a named pipe, not a regular file; remove it");
    assert_eq!(lab.status("folder.wasm").await, "a directory, not a regular file; remove it");
    assert!(
        lab.status("socket.wasm").await.contains("cannot be read")
            || lab.status("socket.wasm").await.contains("a socket")
    );
    assert!(lab.status("loop.wasm").await.starts_with("cannot be read: "));
    let device = lab.status("device.wasm").await;
    assert!(device.starts_with("leads out of its project by a link"), "{device}");
    assert!(lab.status("dangling.wasm").await.starts_with("cannot be read: "));
    assert_eq!(lab.status("json.wasm").await, "tools: json_query json_schema_infer");
}

#[tokio::test]
async fn an_unreadable_file() {
    let lab = Lab::new().with("x.wasm", guest("json"));
    let path = lab.plugins().join("x.wasm");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("changed");
    let status = lab.status("x.wasm").await;
    // The superuser reads everything.
    if rustix::process::geteuid().is_root() {
        assert_eq!(status, "tools: json_query json_schema_infer");
    } else {
        assert!(status.starts_with("cannot be read: "), "{status}");
    }
}

#[tokio::test]
async fn a_file_over_the_size_limit() {
    let lab = Lab::new()
        .config("[limits]\ncomponent_bytes_max = \"64 KiB\"")
        .with("x.wasm", guest("probe"));
    let status = lab.status("x.wasm").await;
    assert!(status.contains("exceeds `component_bytes_max` of 65536"), "{status}");
    // A sparse file takes no space and no time.
    let lab = Lab::new().with("x.wasm", "");
    let file =
        fs::OpenOptions::new().write(true).open(lab.plugins().join("x.wasm")).expect("opened");
    file.set_len(10 << 30).expect("grown");
    let status = lab.status("x.wasm").await;
    assert!(status.contains("file of 10737418240 bytes exceeds"), "{status}");
}

#[tokio::test]
async fn registrations_that_are_odd() {
    check("x.wasm", registering("none"), "tools: ").await;
    check("x.wasm", registering("peek"), "tools: blind").await;
}

#[tokio::test]
async fn tools_that_break_a_rule_are_left_out_alone() {
    let schema = |text: &str| registering(&format!("schema {text}"));
    check("x.wasm", schema("{"), "left out `shaped`: `parameters`: schema is not JSON").await;
    check(
        "x.wasm",
        schema(r#"{"type":"array"}"#),
        "left out `shaped`: `parameters`: schema must describe an object",
    )
    .await;
    check(
        "x.wasm",
        schema(r#"{"allOf":[{"$ref":"file:///etc/passwd"}]}"#),
        "never reads files or the network",
    )
    .await;
    check(
        "x.wasm",
        schema(r#"{"allOf":[{"$ref":"http://a.example/x"}]}"#),
        "never reads files or the network",
    )
    .await;
    check(
        "x.wasm",
        registering("deep"),
        "left out `shaped`: `parameters`: schema is nested more than 32 levels",
    )
    .await;
    check(
        "x.wasm",
        registering("describe 9000"),
        "left out `wordy`: description of 9000 exceeds the allowed 8192",
    )
    .await;
    check("x.wasm", registering("describe 8192"), "tools: good wordy").await;
    check("x.wasm", registering("name"), "left out `\\u{1b}[31mred\\u{202e}`: ").await;
    check("x.wasm", registering("two same same"), "declares `same` twice").await;
    check("x.wasm", registering("two get_it get-it"), "which a reader takes for one").await;
    check("x.wasm", registering("one read_file"), "the name of a core tool").await;
    check("x.wasm", registering("toolset web"), "`web` is a built-in toolset").await;
    check("x.wasm", registering("toolset mcp-github"), "which is for MCP servers").await;
    check(
        "x.wasm",
        registering("override json_query"),
        "allow_tool_override = true` in toolhost.toml",
    )
    .await;
}

#[tokio::test]
async fn the_operator_lets_a_plugin_override() {
    let lab = Lab::new()
        .config("[plugins.x]\nallow_tool_override = true")
        .granted("x", registering("override echo"))
        .with("probe.wasm", guest("probe"));
    let host = lab.host().await;
    assert_eq!(answer(&host, "echo", json!({})).await, r#"{"result":"echo of override echo"}"#);
    let status = lab.status("probe.wasm").await;
    assert!(
        status.contains("left out `echo`: replaced by the tool of the same name of plugin:x"),
        "{status}"
    );
    // When the file goes, the shadowed tool returns.
    fs::remove_file(lab.plugins().join("x.wasm")).expect("removed");
    let host = lab.host().await;
    assert_eq!(answer(&host, "echo", json!({ "text": "a" })).await, r#"{"result":"a"}"#);
}

#[tokio::test]
async fn two_files_with_one_id_are_both_refused_and_named() {
    let lab = Lab::new().with("my-tool.wasm", guest("json")).with("My_Tool.wasm", guest("json"));
    for file in ["my-tool.wasm", "My_Tool.wasm"] {
        let status = lab.status(file).await;
        assert!(status.contains("`My_Tool.wasm`") && status.contains("`my-tool.wasm`"), "{status}");
        assert!(
            status.ends_with("have the same plugin id `my-tool`; rename or remove all but one")
        );
    }
}

#[tokio::test]
async fn the_same_bytes_count_once() {
    let lab = Lab::new().with("a.wasm", guest("json")).with("b.wasm", guest("json"));
    let host = lab.host().await;
    let twin = host.loaded().await[1].state.clone().expect("it loads").same_as;
    assert!(twin.is_some_and(|twin| twin.ends_with("a.wasm")));
    assert_eq!(host.catalog().tools().len(), 3);
}

#[tokio::test]
async fn only_recorded_bytes_are_bundled() {
    let bytes = registering("one read_file");
    let lab = Lab::new().with("files.wasm", &bytes);
    let refused = lab.status("files.wasm").await;
    assert!(refused.contains("the name of a core tool"), "{refused}");
    let state = lab.home().join("state");
    trust_store::record_bundled(&state, &[("files".into(), digest(&bytes).to_string())])
        .expect("recorded");
    assert_eq!(lab.status("files.wasm").await, "tools: read_file");
    // A copied name gains nothing.
    let lab = lab.with("files.wasm", registering("one write_file"));
    assert!(lab.status("files.wasm").await.contains("the name of a core tool"));
}

#[test]
fn a_file_that_is_replaced_while_it_is_read_is_read_whole() {
    let lab = Lab::new().with("x.wasm", registering("one first"));
    let path = lab.plugins().join("x.wasm");
    let versions = [registering("one first"), registering("one second")];
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut statuses = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in versions.iter().cycle() {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
                // As a careless copy does: truncated first, then written in pieces.
                let mut file = fs::File::create(&path).expect("created");
                for piece in version.chunks(20_000) {
                    std::io::Write::write_all(&mut file, piece).expect("written");
                }
                drop(file);
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        for _ in 0..5 {
            statuses.push(runtime.block_on(lab.status("x.wasm")));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    for status in statuses {
        let whole = ["tools: first", "tools: second"].contains(&&*status);
        // Caught in the act every time, it says so; a piece of a file never counts.
        let torn = status.starts_with("truncated")
            || status.starts_with("changed while")
            || status.starts_with("not WebAssembly (the file is empty)");
        assert!(whole || torn, "{status}");
    }
}

#[tokio::test]
async fn a_component_that_imports_the_unknown_names_it() {
    let module = r#"(module
        (import "toolhost:plugin/log@0.1.0" "log" (func (param i32 i32 i32)))
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
        (func (export "register") (result i32) unreachable)
        (func (export "call") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
            (result i32) unreachable)
    )"#;
    let mut bytes = from_wat(module);
    // An interface that no host has, of the same length.
    let known = b"toolhost:plugin/log@0.1.0";
    let places: Vec<usize> =
        (0..bytes.len() - known.len()).filter(|&start| bytes[start..].starts_with(known)).collect();
    assert!(!places.is_empty());
    for start in places {
        bytes[start..start + known.len()].copy_from_slice(b"toolhost:plugin/lag@0.1.0");
    }
    check("x.wasm", bytes, "toolhost:plugin/lag@0.1.0").await;
}

#[tokio::test]
async fn compiled_components_are_kept_and_shared() {
    let lab = Lab::new().with("json.wasm", guest("json"));
    lab.host().await;
    let kept = || {
        let name = format!("{}-", digest(&guest("json")));
        let cache = crate::support::cache();
        let folders = [cache.clone(), cache.join("untrusted")];
        let files = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("the cache"));
        files.flatten().find(|file| file.file_name().to_string_lossy().starts_with(&name))
    };
    let modified =
        |file: &fs::DirEntry| file.metadata().expect("a file").modified().expect("a time");
    let before = modified(&kept().expect("a kept component"));
    lab.host().await;
    assert_eq!(modified(&kept().expect("a kept component")), before);
}

#[tokio::test]
async fn a_cache_that_others_can_enter_is_not_used() {
    let lab = Lab::new().with("x.wasm", registering("one first"));
    let open = lab.home().join("open");
    fs::create_dir(&open).expect("a folder");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("changed");
    let settings = toolhost::HostSettings { cache: Some(open.clone()), ..lab.settings() };
    let host = toolhost::Host::start(settings).expect("a host");
    host.loaded().await;
    assert!(fs::read_dir(&open).expect("the folder").next().is_none());
    assert_eq!(answer(&host, "first", json!({})).await, r#"{"result":"first of one first"}"#);
}

#[tokio::test]
async fn a_damaged_kept_component_is_compiled_again() {
    let lab = Lab::new().with("x.wasm", registering("one first"));
    let cache = lab.home().join("cache");
    let settings = || toolhost::HostSettings { cache: Some(cache.clone()), ..lab.settings() };
    let run = async || {
        let host = toolhost::Host::start(settings()).expect("a host");
        host.loaded().await;
        answer(&host, "first", json!({})).await
    };
    let expected = r#"{"result":"first of one first"}"#;
    assert_eq!(run().await, expected);
    let kept = fs::read_dir(cache.join("untrusted")).expect("the cache").flatten();
    let kept = kept.map(|file| file.path()).next().expect("a file");
    for damage in [&b""[..], b"nonsense"] {
        replace(&kept, damage);
        assert_eq!(run().await, expected);
    }
}

/// As another process would: what is mapped is not written to.
fn replace(path: &Path, bytes: &[u8]) {
    let part = path.with_extension("part");
    fs::write(&part, bytes).expect("written");
    fs::rename(part, path).expect("renamed");
}
