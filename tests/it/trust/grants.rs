//! Directories: what is needed *and* granted, to these very bytes, and nothing beyond.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::json;
use toolhost::{Host, HostSettings};
use toolhost_core::tool::Call;
use toolhost_policy::capability::OwnFolder;
use toolhost_state::trust_store;
use toolhost_wasm::{DirectoryRules, digest};

use crate::support::{Lab, answer, built_for, guest, made};

/// A lab with the guest `probe` and a folder `data`, which has a file.
fn lab() -> Lab {
    let lab = Lab::new().with("probe.wasm", guest("probe"));
    fs::create_dir(lab.work().join("data")).expect("a folder");
    fs::write(lab.work().join("data/file"), "inside").expect("written");
    lab
}

/// The same, with `data` granted as `/data` to the guest's bytes.
fn granted(access: &str) -> Lab {
    let lab = lab();
    let data = lab.work().join("data");
    let lab =
        lab.config(&format!("[plugins.probe]\ndirs = [\"{}=/data:{access}\"]", data.display()));
    let pin = trust_store::Pin {
        folder: lab.plugins().canonicalize().expect("a folder"),
        id: "probe".to_owned(),
        digest: digest(&guest("probe")).to_string(),
    };
    trust_store::pin(&lab.home().join("state"), &pin).expect("pinned");
    lab
}

/// Trusts the guest's bytes no more.
fn unpin(lab: &Lab) {
    let folder = lab.plugins().canonicalize().expect("a folder");
    trust_store::unpin(&lab.home().join("state"), &folder, "probe").expect("unpinned");
}

async fn ask(host: &Host, tool: &str, text: &str) -> String {
    answer(host, tool, json!({ "text": text })).await
}

fn says_no(answer: &str) {
    assert!(answer.contains(r#""code":"failed""#), "{answer}");
}

#[tokio::test]
async fn a_granted_directory_is_read() {
    let lab = granted("ro");
    let host = lab.host().await;
    assert_eq!(ask(&host, "look", "/data").await, r#"{"result":"file"}"#);
    assert_eq!(ask(&host, "look", "/data/file").await, r#"{"result":"inside"}"#);
    // Reading is not writing, and the grant is for the tools that ask for it.
    says_no(&ask(&host, "scribble", "/data/new").await);
    says_no(&ask(&host, "look", "/").await);
    let peek: serde_json::Value =
        serde_json::from_str(&answer(&host, "peek", json!({})).await).expect("JSON");
    assert_eq!((&peek["root"], &peek["write"]), (&json!(null), &json!(false)));
}

#[tokio::test]
async fn a_directory_granted_for_writing_is_written() {
    let lab = granted("rw");
    let host = lab.host().await;
    assert_eq!(ask(&host, "scribble", "/data/new").await, r#"{"result":"written"}"#);
    assert_eq!(fs::read_to_string(lab.work().join("data/new")).expect("read"), "scribbled");
}

#[tokio::test]
async fn nothing_leads_out_of_a_granted_directory() {
    let lab = granted("rw");
    let data = lab.work().join("data");
    fs::write(lab.work().join("secret"), "secret").expect("written");
    symlink("../secret", data.join("relative")).expect("a link");
    symlink(lab.work().join("secret"), data.join("absolute")).expect("a link");
    symlink("loop", data.join("loop")).expect("a link");
    let host = lab.host().await;
    for path in ["/data/relative", "/data/absolute", "/data/loop", "/data/../secret", "/etc/passwd"]
    {
        says_no(&ask(&host, "look", path).await);
    }
    says_no(&ask(&host, "link", "/data/../secret /data/linked").await);
    for path in ["/data/relative", "/data/absolute"] {
        says_no(&ask(&host, "scribble", path).await);
    }
    assert_eq!(fs::read_to_string(lab.work().join("secret")).expect("read"), "secret");
}

#[tokio::test]
async fn a_directory_is_held_by_handle() {
    let lab = granted("ro");
    let host = lab.host().await;
    let data = lab.work().join("data");
    fs::rename(&data, lab.work().join("moved")).expect("renamed");
    fs::create_dir(&data).expect("a folder");
    fs::write(data.join("other"), "another").expect("written");
    assert_eq!(ask(&host, "look", "/data").await, r#"{"result":"file"}"#);
}

/// What `list` says of grants, and what the plugin sees.
async fn pending(lab: &Lab, expected: &str) {
    let host = lab.host().await;
    let statuses = host.loaded().await;
    let ready = statuses[0].state.as_ref().expect("it loads");
    let waits =
        ready.pending.iter().map(|pending| format!("{}; {}", pending.why, pending.meanwhile));
    let said = ready.grants.iter().cloned().chain(waits).collect::<Vec<_>>().join("\n");
    assert!(said.contains(expected), "{said}");
    says_no(&ask(&host, "look", "/data").await);
}

#[tokio::test]
async fn a_grant_without_a_pin_is_pending() {
    let lab = granted("ro");
    unpin(&lab);
    pending(
        &lab,
        "is pending: `toolhost.toml` grants something to its id and does not say of which folder;",
    )
    .await;
}

#[tokio::test]
async fn a_grant_to_other_bytes_is_pending() {
    let lab = granted("ro").with("probe.wasm", built_for("0.1.1", guest("probe")));
    pending(
        &lab,
        "its bytes are not those that were trusted; it serves without what it was granted",
    )
    .await;
}

#[tokio::test]
async fn a_grant_to_the_same_id_elsewhere_is_nobody_elses() {
    let lab = granted("ro");
    let pin = trust_store::Pin {
        folder: PathBuf::from("/elsewhere"),
        id: "probe".to_owned(),
        digest: digest(&guest("probe")).to_string(),
    };
    unpin(&lab);
    trust_store::pin(&lab.home().join("state"), &pin).expect("pinned");
    let host = lab.host().await;
    says_no(&ask(&host, "look", "/data").await);
    // It is a plugin without grants, and nobody is asked to give it one.
    let ready = host.loaded().await[0].state.clone().expect("it loads");
    assert_eq!((ready.granted.flags(), ready.grants, ready.pending), (vec![], vec![], None));
}

#[tokio::test]
async fn a_bundled_plugin_needs_no_pin() {
    let lab = granted("ro");
    unpin(&lab);
    lab.record_bundled("probe");
    let host = lab.host().await;
    assert_eq!(ask(&host, "look", "/data").await, r#"{"result":"file"}"#);
}

#[tokio::test]
async fn a_grant_that_touches_the_hosts_own_folders_gives_nothing() {
    let lab = granted("ro");
    let own = |path: PathBuf| OwnFolder { path, what: "toolhost's state", readable: false };
    let data = lab.work().join("data").canonicalize().expect("a folder");
    for path in [data.clone(), data.join("below"), lab.home().canonicalize().expect("a folder")] {
        let directories = DirectoryRules { own: vec![own(path)], ..DirectoryRules::default() };
        let host = Host::start(HostSettings { directories, ..lab.settings() }).expect("a host");
        let statuses = host.loaded().await;
        let grants = statuses[0].state.as_ref().expect("it loads").grants.join("\n");
        assert!(grants.contains("holds toolhost's state; grant a narrower directory"), "{grants}");
        says_no(&ask(&host, "look", "/data").await);
    }
}

#[tokio::test]
async fn a_grant_for_one_call_is_for_one_call() {
    let lab = lab();
    let host = lab.host().await;
    let look = Call::new("look", r#"{"text": "/data"}"#);
    let dirs = vec![format!("{}=/data:ro", lab.work().join("data").display())];
    let outcome = host.call(Call { dirs: dirs.clone(), ..look.clone() }).await;
    assert_eq!(outcome.to_json_text(), r#"{"result":"file"}"#);
    says_no(&host.call(look).await.to_json_text());
    // Only to tools which ask.
    let echo = host.call(Call { dirs, ..Call::new("echo", r#"{"text": "a"}"#) }).await;
    assert_eq!(
        echo.to_json_text(),
        r#"{"error":"`echo` of plugin:probe does not ask for the directory /data, so it is not granted","code":"denied"}"#
    );
}

#[test]
fn the_program_grants_and_revokes() {
    let lab = lab().config("# mine\n[limits]\ntools_max = 100\n");
    let look = ["call", "look", "--arg", "text=data/file"];
    assert!(lab.run(&look).starts_with("exit 1\n"));
    let granted = lab.run(&["grant", "probe", "--dir", "data:ro", "--dir", "data=in:ro"]);
    let digest = digest(&guest("probe"));
    assert_eq!(
        granted,
        format!(
            "exit 0\n--- stdout\n\
             plugin:probe may use HOME/project/data:ro, as long as its bytes are sha256:{digest}\n\
             plugin:probe may use HOME/project/data=in:ro, as long as its bytes are sha256:{digest}\n\
             --- stderr\n"
        )
    );
    let config = fs::read_to_string(lab.home().join("toolhost.toml")).expect("written");
    assert!(config.starts_with("# mine\n[limits]\ntools_max = 100\n"), "{config}");
    assert!(lab.run(&["call", "look", "--arg", "text=in/file"]).contains("\ninside\n"));
    let absolute = format!("text={}", lab.work().join("data/file").display());
    assert!(lab.run(&["call", "look", "--arg", &absolute]).contains("\ninside\n"));
    assert!(lab.run(&["revoke", "probe"]).contains("plugin:probe has lost 2 grants"));
    assert!(lab.run(&["call", "look", "--arg", "text=in/file"]).starts_with("exit 1\n"));
    assert!(lab.run(&["revoke", "probe"]).contains("plugin:probe had no grant"));
}

#[test]
fn the_working_directory_is_seen_as_a_dot() {
    let lab = lab();
    let look = ["call", "look", "--dir", ".:ro", "--arg", "text=data/file"];
    assert!(lab.run(&look).contains("\ninside\n"), "{}", lab.run(&look));
}

#[test]
fn wrong_grants_are_explained() {
    let lab = lab();
    let check = |arguments: &[&str], expected: &str| {
        let printed = lab.run(arguments);
        assert!(printed.starts_with("exit 2\n"), "{printed}");
        assert!(printed.contains(expected), "{printed}");
    };
    check(&["grant", "probe", "--dir", "data"], "it says neither ro nor rw; write DIR[=GUEST]:ro");
    check(&["grant", "probe", "--dir", "none:ro"], "cannot be granted: No such file");
    check(&["grant", "probe", "--dir", "data/file:ro"], "cannot be granted: Not a directory");
    check(&["grant", "none", "--dir", "data:ro"], "there is no plugin `none`");
    check(&["grant", "probe", "--dir", "../project:ro"], "the path has `..`");
    check(
        &["grant", "probe", "--dir", "/:ro"],
        "which holds what the system knows of processes, toolhost among them; grant another directory",
    );
    check(
        &["grant", "probe", "--dir", ".:rw"],
        "which holds plugins; grant a narrower directory, or grant `ro`",
    );
    check(&["call", "look", "{}", "--dir", "data"], "it says neither ro nor rw");
    check(&["call", "look", "{}", "--dir", "none:ro"], "cannot be granted: No such file");
    check(&["call", "look", "{}", "--dir", "data/file:ro"], "cannot be granted: not a directory");
    let state = format!("{}:ro", lab.home().join("state").display());
    fs::create_dir_all(lab.home().join("state")).expect("a folder");
    check(&["grant", "probe", "--dir", &state], "it holds toolhost's state");
    // Nothing was written.
    assert!(!lab.home().join("toolhost.toml").exists());
}

#[test]
fn what_a_load_would_refuse_is_not_granted() {
    let lab = lab();
    let (runners, elsewhere) = (lab.home().join("runners"), lab.work().join("elsewhere"));
    fs::create_dir_all(&runners).expect("a folder");
    fs::create_dir(&elsewhere).expect("a folder");
    symlink(elsewhere.join("python.wasm"), runners.join("python.wasm")).expect("a link");
    let said = lab.run(&["grant", "probe", "--dir", "elsewhere:rw"]);
    assert!(said.starts_with("exit 2\n"), "{said}");
    assert!(said.contains("elsewhere cannot be granted: "), "{said}");
    assert!(lab.run(&["grant", "probe", "--dir", "data:rw"]).starts_with("exit 0\n"));
}

#[test]
fn a_secret_that_is_not_set_is_told() {
    let lab = Lab::new().with("weather.wasm", guest("weather"));
    let grant = "OPENWEATHER_API_KEY@api.openweathermap.org:query=appid";
    let granted = lab.run(&["grant", "weather", "--secret", grant]);
    assert!(granted.starts_with("exit 0"), "{granted}");
    let told = "the secret OPENWEATHER_API_KEY is granted and not set: run `toolhost secret set OPENWEATHER_API_KEY`";
    for command in ["list", "doctor"] {
        let printed = lab.run(&[command]);
        assert!(printed.contains(told), "{printed}");
    }
    let set = lab.run_with(&["secret", "set", "OPENWEATHER_API_KEY"], "0123456789\n");
    assert!(set.starts_with("exit 0"), "{set}");
    assert!(!lab.run(&["list"]).contains("not set"));
    // Taken back alone, it is gone; what was not granted cannot be taken back.
    let revoke = ["revoke", "weather", "--secret", grant];
    assert!(lab.run(&revoke).contains("plugin:weather has lost 1 grant"));
    let refused = lab.run(&revoke);
    assert!(refused.starts_with("exit 2"), "{refused}");
    assert!(refused.contains("plugin:weather had no such grant"), "{refused}");
}

#[test]
fn a_new_grant_revives_no_old_one_for_other_bytes() {
    let lab = lab();
    assert!(lab.run(&["grant", "probe", "--dir", "data:ro"]).starts_with("exit 0"));
    let other = made(&json!({
        "tools": [{ "name": "other" }],
        "needs": [
            { "kind": "env", "value": { "names": ["TOKEN"] } },
            { "kind": "dirs", "value": { "path": "*", "access": "ro" } },
        ],
    }));
    fs::write(lab.plugins().join("probe.wasm"), other).expect("written");
    let data = lab
        .work()
        .join("data")
        .display()
        .to_string()
        .replace(&*lab.home().to_string_lossy(), "HOME");
    let refused = lab.run(&["grant", "probe", "--env", "TOKEN"]);
    assert!(refused.starts_with("exit 2"), "{refused}");
    let all = format!("toolhost grant probe --dir {data}:ro --env TOKEN");
    assert!(refused.contains(&all), "{refused}");
    let config = fs::read_to_string(lab.home().join("toolhost.toml")).expect("a configuration");
    assert!(!config.contains("TOKEN"), "{config}");
    assert!(lab.run(&["list"]).contains("its bytes are not those that were trusted"));
    let both = ["grant", "probe", "--dir", "data:ro", "--env", "TOKEN"];
    assert!(lab.run(&both).starts_with("exit 0"), "{}", lab.run(&both));
}

#[test]
fn a_grant_ahead_of_a_need_is_meant() {
    let lab = Lab::new().with("weather.wasm", guest("weather"));
    let refused = |flags: &[&str], expected: &[&str]| {
        let printed = lab.run(&[&["grant", "weather"], flags].concat());
        assert!(printed.starts_with("exit 2\n"), "{printed}");
        for expected in expected {
            assert!(printed.contains(expected), "lacks {expected}:\n{printed}");
        }
    };
    refused(
        &["--kv"],
        &[
            "error: plugin:weather asks for no store, so `--kv` would give it nothing",
            "hint: it asks for http {\"hosts\":[\"https://api.openweathermap.org\"]}",
            "hint: it asks for secrets ",
            "hint: to grant it all the same, add `--anyway`",
        ],
    );
    refused(&["--dir", ".:ro"], &["asks for no directory"]);
    refused(&["--hook", "pre-call:*"], &["asks for no hook"]);
    refused(&["--env", "HOME"], &["`--env HOME` would give it nothing"]);
    refused(
        &["--http", "https://a.example"],
        &["does not ask for that: `--http https://a.example`"],
    );
    let host = ["--http", "https://api.openweathermap.org"];
    refused(
        &[&host, &["--secret", "OTHER@api.openweathermap.org:query=appid"][..]].concat(),
        &["`--secret OTHER@"],
    );
    // Nothing was written.
    assert!(!lab.home().join("toolhost.toml").exists());
    let wider = ["grant", "weather", "--http", "https://*.openweathermap.org"];
    assert!(lab.run(&wider).starts_with("exit 0\n"), "{}", lab.run(&wider));
    let anyway = ["grant", "weather", "--kv", "--anyway"];
    assert!(lab.run(&anyway).starts_with("exit 0\n"), "{}", lab.run(&anyway));
}

#[test]
fn what_cannot_be_revoked_is_an_error() {
    let lab = Lab::new().with("weather.wasm", guest("weather"));
    let host = ["grant", "weather", "--http", "https://api.openweathermap.org"];
    assert!(lab.run(&host).starts_with("exit 0\n"));
    let file = lab.home().join("toolhost.toml");
    let before = fs::read_to_string(&file).expect("a configuration");
    let refused = |arguments: &[&str], expected: &str| {
        let printed = lab.run(&[&["revoke"], arguments].concat());
        assert!(printed.starts_with("exit 2\n"), "{printed}");
        assert!(printed.contains(expected), "lacks {expected}:\n{printed}");
        assert_eq!(fs::read_to_string(&file).expect("a configuration"), before);
    };
    refused(&["nosuch"], "error: there is no plugin `nosuch`");
    refused(&["wether"], "hint: did you mean `weather`?");
    refused(&["wether", "--kv"], "hint: did you mean `weather`?");
    refused(
        &["./nowhere/weather"],
        "there is no plugin ./nowhere/weather, and nothing is recorded of one",
    );
    refused(&["weather", "--kv"], "plugin:weather had no such grant: --kv; nothing is taken back");
    refused(&["weather", "--kv"], "hint: it holds --http https://api.openweathermap.org");
    // All of it or nothing.
    refused(
        &["weather", "--http", "https://api.openweathermap.org", "--env", "A"],
        "no such grant: --env A;",
    );
    // Its file is gone, and it is still known.
    fs::remove_file(lab.plugins().join("weather.wasm")).expect("removed");
    let printed = lab.run(&["revoke", "weather"]);
    assert!(printed.contains("plugin:weather has lost 1 grant"), "{printed}");
    assert!(lab.run(&["revoke", "weather"]).starts_with("exit 2\n"));
}

#[test]
fn a_projects_file_takes_no_guard_away() {
    let lab = Lab::new()
        .config("[plugins.guard]\nhooks = [\"pre-call:*\"]\n")
        .with("probe.wasm", guest("probe"));
    fs::write(
        lab.work().join("toolhost.toml"),
        "[limits]\nhook_time_max = \"1ms\"\n[plugins.guard]\nhooks = []\n",
    )
    .expect("written");
    let printed = lab.run(&["call", "echo", r#"{"text": "x"}"#]);
    assert!(printed.starts_with("exit 3"), "{printed}");
    assert!(
        printed.contains("what `[plugins.guard]` in the project's toolhost.toml allows is ignored"),
        "{printed}"
    );
}

#[test]
fn the_configuration_that_was_named_is_not_granted() {
    let lab = lab();
    fs::create_dir(lab.work().join("ops")).expect("a folder");
    fs::write(lab.work().join("ops/mine.toml"), "").expect("written");
    let printed = lab.run(&["grant", "probe", "--config", "ops/mine.toml", "--dir", "ops:rw"]);
    assert!(printed.contains("mine.toml, which holds toolhost's configuration"), "{printed}");
}

#[tokio::test]
async fn a_tool_without_any_directory_is_told_of() {
    let host = Lab::new().with("probe.wasm", guest("probe")).host().await;
    for (path, told) in [
        (
            "/usr/none",
            "/usr/none is not granted, and no directory is: run `toolhost grant probe --dir /usr:ro`",
        ),
        (
            "/none/file",
            "/none/file is not granted, and no directory is: no grant of the directory it is in is proposed, since it holds the home of a user; move it to another one",
        ),
        (
            "/",
            "/ is not granted, and no directory is: no grant of it is proposed, since it holds the home of a user; name a narrower directory",
        ),
        // It does not come to asking for any.
        (
            "\0",
            "any directory, which `look` asks for, is not granted: if it needs one here, run `toolhost grant probe --dir DIR:ro`",
        ),
    ] {
        let outcome = crate::support::call(&host, "look", json!({ "text": path })).await;
        assert_eq!(outcome.refusals[0].to_string(), told);
        assert!(outcome.to_json_text().contains(told));
    }
}
