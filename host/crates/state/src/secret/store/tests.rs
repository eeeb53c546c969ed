//! Tests of the store: what is kept, for whom, and what is refused.

use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;

fn home() -> (TempDir, SecretStore) {
    let home = TempDir::new().expect("a folder");
    let store = SecretStore::open(&home.path().join("state"), Keyring::None);
    (home, store)
}

fn value(text: &str) -> SecretValue {
    SecretValue::new(text.to_owned()).expect(text)
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changed");
}

/// The error that everything which reads gives, without the path of the home.
fn refusal(home: &TempDir, store: &SecretStore) -> String {
    let shown =
        |error: SecretError| error.to_string().replace(&*home.path().to_string_lossy(), "HOME");
    let error = shown(store.names().expect_err("a refusal"));
    assert_eq!(shown(store.value("A").expect_err("a refusal")), error);
    assert_eq!(shown(store.remove("A").expect_err("a refusal")), error);
    assert_eq!(shown(store.set("A", &value("12345678")).expect_err("a refusal")), error);
    error
}

#[test]
fn values_are_kept_replaced_and_removed() {
    let (home, store) = home();
    assert_eq!(store.names().expect("none"), []);
    assert!(store.value("A").expect("none").is_none());
    assert!(!store.remove("A").expect("none"));
    assert!(!home.path().join("state").exists(), "reading makes no folder");

    let kept = |replaced| KeptSecret { place: SecretPlace::File, replaced, warning: None };
    assert_eq!(store.set("B", &value("value of \"b\"")).expect("kept"), kept(false));
    assert_eq!(store.set("A", &value("first value")).expect("kept"), kept(false));
    assert_eq!(store.set("A", &value("second value")).expect("kept"), kept(true));
    let named = |name: &str| (name.to_owned(), SecretPlace::File);
    assert_eq!(store.names().expect("names"), [named("A"), named("B")]);
    assert_eq!(store.value("A").expect("read").expect("a value").expose(), "second value");
    let values = store.values(["B", "C", "A", "B"]).expect("read");
    let values: Vec<_> = values.iter().map(|(name, value)| (&**name, value.expose())).collect();
    assert_eq!(values, [("A", "second value"), ("B", "value of \"b\"")]);

    assert!(store.remove("A").expect("removed"));
    assert!(!store.remove("A").expect("gone"));
    assert_eq!(store.names().expect("names"), [named("B")]);
    let of = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((of(&store.file()), of(&home.path().join("state"))), (0o600, 0o700));
}

#[test]
fn names_are_checked_and_counted() {
    let (_home, store) = home();
    for name in ["", "A-B", "A=hunter22", &"x".repeat(129)] {
        let error = store.set(name, &value("12345678")).expect_err("a refusal").to_string();
        assert!(error.starts_with("that is no name of a secret"), "{error}");
        assert!(!error.contains("hunter22"), "{error}");
        assert!(store.value(name).expect("none").is_none());
    }
    let entries: Vec<String> = (0..SECRETS_MAX).map(|n| format!("\"N{n}\": \"keyring\"")).collect();
    let text = format!("{{\"secrets\": {{{}}}}}", entries.join(", "));
    fs::create_dir(&store.folder).expect("a folder");
    fs::write(store.file(), text).expect("written");
    mode(&store.file(), 0o600);
    let error = store.set("A", &value("12345678")).expect_err("full").to_string();
    assert_eq!(
        error,
        "there are 256 secrets, which is the most; remove one with `toolhost secret remove NAME`"
    );
    assert!(store.set("N7", &value("12345678")).expect("in place of another").replaced);
}

#[test]
fn what_others_can_reach_is_refused() {
    let (home, store) = home();
    store.set("A", &value("12345678")).expect("kept");
    for (given, shown) in [(0o644, "644"), (0o640, "640"), (0o602, "602"), (0o610, "610")] {
        mode(&store.file(), given);
        assert_eq!(
            refusal(&home, &store),
            format!(
                "HOME/state/secrets.json lies open to other users (mode {shown}); run `chmod 600 \
                 HOME/state/secrets.json`, and replace the secrets if somebody may have read them"
            )
        );
    }
    mode(&store.file(), 0o600);
    mode(&store.folder, 0o770);
    assert!(refusal(&home, &store).contains("run `chmod 700 HOME/state`,"));
    mode(&store.folder, 0o755);
    assert!(store.value("A").expect("read").is_some(), "a folder may be looked into");

    let elsewhere = home.path().join("elsewhere");
    fs::rename(store.file(), &elsewhere).expect("moved");
    symlink(&elsewhere, store.file()).expect("linked");
    assert_eq!(
        refusal(&home, &store),
        "HOME/state/secrets.json is a symbolic link; remove it, and put the file itself in its place"
    );
    fs::remove_file(store.file()).expect("removed");
    fs::create_dir(store.file()).expect("a folder");
    assert_eq!(refusal(&home, &store), "HOME/state/secrets.json is no regular file; remove it");
}

#[test]
fn another_owners_file_is_refused() {
    let (_home, store) = home();
    store.set("A", &value("12345678")).expect("kept");
    let metadata = fs::metadata(store.file()).expect("there");
    let ours = metadata.uid();
    // Only root can give files away; anybody else looks at a file of root's.
    let (path, owner) = match ours {
        0 => {
            std::os::unix::fs::chown(store.file(), Some(4_321), None).expect("given away");
            (store.file(), 4_321)
        }
        _ => (PathBuf::from("/etc/passwd"), 0),
    };
    let metadata = fs::metadata(&path).expect("there");
    let error = check_access(&path, &metadata, 0o077, "600").expect_err("a refusal").to_string();
    let (path, expected) = (
        path.display(),
        format!(
            "belongs to user {owner}, and you are user {ours}; run toolhost as its owner, or run `chown {ours} "
        ),
    );
    assert_eq!(error, format!("{path} {expected}{path}`"));
    if ours == 0 {
        assert_eq!(store.names().expect_err("a refusal").to_string(), error);
    }
}

#[test]
fn a_damaged_file_shows_nothing_of_itself() {
    let (home, store) = home();
    fs::create_dir(&store.folder).expect("a folder");
    for text in [
        "",
        "hunter2hunter2",
        r#"{"secrets": {"A": "hunter2hunter2"}}"#,
        r#"{"secrets": {"A": {"file": 1, "hunter2hunter2": 2}}}"#,
        r#"{"secrets": "hunter2hunter2"}"#,
        r#"{"secrets": {"A": {"file": "hunter2hunter2"#,
    ] {
        fs::write(store.file(), text).expect("written");
        mode(&store.file(), 0o600);
        let error = refusal(&home, &store);
        assert!(error.starts_with("HOME/state/secrets.json is damaged (line "), "{error}");
        assert!(error.ends_with("); remove it, then set the secrets again"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    // What somebody wrote by hand is checked like what is set.
    fs::write(store.file(), r#"{"secrets": {"A": {"file": "short"}}}"#).expect("written");
    let error = store.value("A").expect_err("a refusal").to_string();
    assert!(
        error.starts_with("what is kept of the secret A cannot be used: the value has 5 bytes"),
        "{error}"
    );
}

#[test]
fn a_keyring_out_of_reach_is_named() {
    let (_home, store) = home();
    fs::create_dir(&store.folder).expect("a folder");
    fs::write(store.file(), r#"{"secrets": {"A": "keyring"}}"#).expect("written");
    mode(&store.file(), 0o600);
    assert_eq!(store.names().expect("names"), [("A".to_owned(), SecretPlace::Keyring)]);
    let expected = "the secret A lies in the keyring, which cannot be reached from here \
                    (DBUS_SESSION_BUS_ADDRESS names no session bus); unlock or start the keyring, \
                    or set it again with `toolhost secret set A`";
    assert_eq!(store.value("A").expect_err("a refusal").to_string(), expected);
    assert_eq!(store.remove("A").expect_err("a refusal").to_string(), expected);
    let kept = store.set("A", &value("12345678")).expect("kept");
    let warning = "the keyring still has the value from before".to_owned();
    assert_eq!(
        kept,
        KeptSecret { place: SecretPlace::File, replaced: true, warning: Some(warning) }
    );
    assert!(store.remove("A").expect("removed"));
}

/// A bus that is not there, and one that accepts and never says a word.
#[cfg(target_os = "linux")]
#[test]
fn a_keyring_that_fails_gives_way_to_the_file() {
    let home = TempDir::new().expect("a folder");
    let path = home.path().join("bus");
    let store = |name: &str| {
        let address = format!("unix:path={}", home.path().join(name).display());
        SecretStore::open(&home.path().join("state"), Keyring::SecretService { address })
    };
    let warning = |name| {
        let kept = store(name).set("A", &value("12345678")).expect("kept");
        assert_eq!(kept.place, SecretPlace::File);
        kept.warning.expect("a warning")
    };
    let _silent = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let absent = warning("absent");
    assert!(absent.starts_with("the keyring does not work ("), "{absent}");
    assert_eq!(
        warning("bus"),
        "the keyring has not answered within 5 s, so the value is kept in the file"
    );
    assert_eq!(store("bus").value("A").expect("read").expect("kept").expose(), "12345678");
}
