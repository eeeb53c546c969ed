//! The bundled plugin `files` in its sandbox: what is granted is read, and paths of all kinds.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolhost::Host;
use toolhost_core::tool::Call;

use crate::support::{Lab, guest};

struct Files {
    lab: Lab,
    host: Host,
}

impl Files {
    async fn new() -> Files {
        let lab = Lab::new().with("files.wasm", guest("files"));
        lab.record_bundled("files");
        fs::create_dir(lab.work().join("data")).expect("a folder");
        let host = lab.host().await;
        Files { lab, host }
    }

    fn data(&self) -> PathBuf {
        self.lab.work().join("data")
    }

    /// Calls a tool with the folder `data` granted as `/data`.
    async fn ask(&self, tool: &str, arguments: Value) -> String {
        let dirs = vec![format!("{}=/data:ro", self.data().display())];
        let call = Call { dirs, ..Call::new(tool, arguments.to_string()) };
        self.host.call(call).await.to_json_text()
    }

    async fn read(&self, path: &str) -> String {
        self.ask("read_file", json!({ "path": path })).await
    }

    async fn refused(&self, path: &str, expected: &str) {
        let answer = self.read(path).await;
        assert!(
            answer.contains(expected) && answer.contains(r#""code":"failed""#),
            "{path}: {answer}"
        );
    }
}

#[tokio::test]
async fn without_a_grant_the_answer_names_the_command() {
    let files = Files::new().await;
    for (tool, arguments) in [
        ("read_file", json!({ "path": "README.md" })),
        ("read_file", json!({ "path": "/data/README.md" })),
        ("search_files", json!({ "pattern": "x" })),
    ] {
        let answer = files.host.call(Call::new(tool, arguments.to_string())).await.to_json_text();
        assert!(answer.contains("`toolhost grant files --dir DIR:ro`"), "{answer}");
    }
}

#[tokio::test]
async fn a_path_that_leads_up_is_answered_with_the_directory_that_would_do() {
    let files = Files::new().await;
    let (work, home) = (files.lab.work(), files.lab.home().to_owned());
    let mut settings = files.lab.settings();
    settings.directories.working = Some(files.data());
    let host = Host::start(settings).expect("a host");
    host.loaded().await;
    for (path, proposed) in [("..", &work), ("../nothing", &work), ("../..", &home)] {
        for (tool, arguments) in [
            ("read_file", json!({ "path": path })),
            ("search_files", json!({ "pattern": "x", "path": path })),
        ] {
            let answer = host.call(Call::new(tool, arguments.to_string())).await;
            let refused: Vec<String> = answer.refusals.iter().map(ToString::to_string).collect();
            let grant = format!("`toolhost grant files --dir {}:ro`", proposed.display());
            // A home of toolhost's own is granted to nobody.
            let expected = if *proposed == home { "name a narrower directory" } else { &grant };
            assert!(refused[0].contains(expected), "{tool} {path}: {refused:?}");
        }
    }
}

#[tokio::test]
async fn a_granted_file_is_read_and_found() {
    let files = Files::new().await;
    fs::write(files.data().join("a.txt"), "one\ntwo\n").expect("written");
    let page: Value = serde_json::from_str(&files.read("/data/a.txt").await).expect("JSON");
    assert_eq!(page["content"], "1|one\n2|two");
    let found = files.ask("search_files", json!({ "pattern": "tw", "path": "/data" })).await;
    assert_eq!(
        found,
        r#"{"total_count":1,"matches":[{"path":"/data/a.txt","line":2,"content":"two"}]}"#
    );
    files.refused("/data/b.txt", "not found: /data/b.txt. Similar files: /data/a.txt").await;
}

#[tokio::test]
async fn paths_of_all_kinds() {
    let files = Files::new().await;
    let data = files.data();
    fs::write(files.lab.work().join("secret"), "secret").expect("written");
    fs::write(data.join(OsStr::from_bytes(b"n\xffn")), "strange").expect("written");
    symlink("../secret", data.join("out")).expect("a link");
    symlink("loop", data.join("loop")).expect("a link");
    let mode = rustix::fs::Mode::from_bits_truncate(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, data.join("pipe"), rustix::fs::FileType::Fifo, mode, 0)
        .expect("a pipe");
    let _socket = std::os::unix::net::UnixListener::bind(data.join("socket")).expect("a socket");
    files.refused("/data/pipe", "not a regular file").await;
    files.refused("/data/socket", "not a regular file").await;
    files.refused("/data/loop", "Cannot read '/data/loop'").await;
    files.refused("/data", "it is a directory").await;
    for path in ["/data/out", "/data/../secret", "../secret", "/etc/passwd", ""] {
        let answer = files.read(path).await;
        assert!(answer.contains(r#""code":"failed""#) && !answer.contains(":secret"), "{answer}");
    }
    // WASI lists no folder with a name that is no text; then the answer says so.
    fs::write(data.join("plain"), "strange too").expect("written");
    let found = files.ask("search_files", json!({ "pattern": "strange", "path": "/data" })).await;
    let said = found.contains(r#""path":"/data/plain""#)
        || found.contains("1 place(s) could not be listed or read, and may hold more");
    assert!(said, "{found}");
    fs::remove_file(data.join(OsStr::from_bytes(b"n\xffn"))).expect("removed");
    let found = files.ask("search_files", json!({ "pattern": "strange", "path": "/data" })).await;
    assert!(found.contains(r#""path":"/data/plain""#), "{found}");
}

#[tokio::test]
async fn a_huge_sparse_file_takes_no_time() {
    let files = Files::new().await;
    let sparse = fs::File::create(files.data().join("sparse")).expect("created");
    sparse.set_len(10 << 30).expect("grown");
    let start = Instant::now();
    files.refused("/data/sparse", "is not text").await;
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_file_that_changes_while_it_is_read() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let files = runtime.block_on(Files::new());
    let path = files.data().join("log");
    fs::write(&path, "line\n".repeat(200_000)).expect("written");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut answers = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut grow = true;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let mut file = fs::OpenOptions::new().append(true).open(&path).expect("opened");
                if grow {
                    file.write_all(&b"more\n".repeat(1_000)).expect("written");
                } else {
                    file.set_len(500_000).expect("cut");
                }
                grow = !grow;
            }
        });
        for _ in 0..10 {
            answers.push(runtime.block_on(files.read("/data/log")));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    for answer in answers {
        let page: Value = serde_json::from_str(&answer).expect("JSON");
        assert!(page["content"].as_str().expect("a page").starts_with("1|line\n2|line"));
    }
}

#[test]
fn the_readme_of_a_granted_working_directory_just_works() {
    let lab = Lab::new().with("files.wasm", guest("files"));
    lab.record_bundled("files");
    fs::write(lab.work().join("README.md"), "# Here\n").expect("written");
    let read = ["call", "read_file", r#"{"path": "README.md"}"#];
    assert!(lab.run(&read).contains("`toolhost grant files --dir DIR:ro`"));
    assert!(lab.run(&["grant", "files", "--dir", ".:ro"]).starts_with("exit 0\n"));
    assert!(lab.run(&read).contains(r##""content":"1|# Here""##), "{}", lab.run(&read));
}
