//! What is a script, what of it is looked at, and what is read.

use super::*;

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
}

fn names(script: &Script) -> Vec<&str> {
    script.modules.iter().map(|module| module.path.as_str()).collect()
}

#[test]
fn a_folder_is_a_script_by_its_main_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = [
        ("words/plugin.py", "import lib.count"),
        ("words/lib/count.py", "x = 1"),
        ("words/a.py", ""),
        ("words/test_plugin.py", ""),
        ("words/tests/test_all.py", ""),
        ("words/__pycache__/plugin.cpython.pyc", ""),
        ("words/.hidden.py", ""),
        ("words/_part.py", ""),
        ("words/plugins/words/plugin.py", ""),
        ("words/plugins/other.py", ""),
        ("words/other.js", ""),
        ("words/README.md", ""),
        ("rust/src/lib.rs", ""),
        ("one.ts", "let a: string"),
        ("one.d.ts", ""),
        ("_part.py", ""),
        ("test_one.py", ""),
    ];
    write(folder.path(), &files);
    let at = |name: &str| language(&folder.path().join(name));
    assert_eq!(at("words"), Some(Language::Python));
    assert_eq!(at("one.ts"), Some(Language::JavaScript));
    for none in ["rust", "one.d.ts", "_part.py", "test_one.py", "words/README.md", "gone"] {
        assert_eq!(at(none), None, "{none}");
    }
    let words = folder.path().join("words");
    let script = Script::read(&ReadScope::Own, &words, "r", &Limits::default()).expect("a script");
    assert_eq!(names(&script), ["plugin.py", "_part.py", "a.py", "lib/count.py"]);
    assert_eq!(unpack(&script.pack(), &Limits::default()), Ok(Some(script)));
    assert_eq!(whole(&words.join("plugin.py")), words);
    assert_eq!(whole(&words.join("a.py")), words.join("a.py"));
    assert_eq!(
        (stem(&words), stem(&folder.path().join("one.ts"))),
        ("words".to_owned(), "one".to_owned())
    );
    let before = stamp(&words);
    assert_eq!(stamp(&words), before);
    fs::write(words.join("lib/more.py"), "").expect("written");
    assert_ne!(stamp(&words), before);
}

#[test]
fn no_more_is_looked_at_than_the_bounds() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = Limits {
        script_files_max: toolhost_core::limits::Count(3),
        plugin_files_max: toolhost_core::limits::Count(1),
        ..Limits::default()
    };
    let names = ["plugin.py", "a.py", "b.py", "c.py", "d.py", "e.py"];
    for script in ["one", "two", "three"] {
        let files = names.map(|name| (format!("{script}/{name}"), ""));
        let files = files.each_ref().map(|(name, text)| (&**name, *text));
        write(folder.path(), &files);
    }
    let (one, two, three) =
        (folder.path().join("one"), folder.path().join("two"), folder.path().join("three"));
    // Four of each: with the fourth it is known to be too large.
    let mut left = EntriesLeft::new(&limits);
    assert_eq!(left.count(&one, &limits), Ok(()));
    assert_eq!(left.left, 6);
    assert_eq!(left.count(&two, &limits), Ok(()));
    assert_eq!(left.count(&three, &limits), Err(ScriptError::TooCrowded(10)));
    assert_eq!(left.count(&one.join("a.py"), &limits), Ok(()));
    // Nothing is known of modules that are not looked at, but that some were added.
    assert_eq!(stamp_within(&one, 6).0.len(), 6);
    let before = stamp_within(&one, 5);
    assert_eq!((before.0.len(), folders(&one, 5)), (1, vec![one.clone()]));
    fs::write(one.join("f.py"), "").expect("written");
    assert_ne!(stamp_within(&one, 5), before);
}

/// A link in a script may lead out of its project, and is not looked at.
#[test]
fn links_in_a_script_are_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), &[("words/plugin.js", ""), ("out", ""), ("other/x.txt", "")]);
    let link = |name: &str| {
        let link = folder.path().join(name);
        std::os::unix::fs::symlink(folder.path().join("out"), link).expect("a link");
    };
    link("words/plugin.mjs");
    link("other/x.py");
    let words = folder.path().join("words");
    let before = stamp(&words);
    fs::write(folder.path().join("out"), "more").expect("written");
    assert_eq!((before.0.len(), stamp(&words)), (2, before));
    let ignored = ignored(&folder.path().join("other"), &mut EntriesLeft::new(&Limits::default()));
    assert!(ignored.is_some_and(|why| why.contains("without a main file")));
}

#[test]
fn what_is_no_script_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = [("two/plugin.py", ""), ("two/plugin.js", ""), ("big.py", "12345678901")];
    write(folder.path(), &files);
    fs::write(folder.path().join("binary.py"), [0xff, 0xfe]).expect("written");
    let limits = Limits {
        script_bytes_max: toolhost_core::limits::Bytes(10),
        script_files_max: toolhost_core::limits::Count(1),
        ..Limits::default()
    };
    let refused = |name: &str, expected: &str| {
        let path = folder.path().join(name);
        let error = Script::read(&ReadScope::Own, &path, "r", &limits).expect_err(name);
        assert!(error.to_string().contains(expected), "{error}");
    };
    refused("two", "`plugin.py` and `plugin.js`");
    refused("big.py", "`script_bytes_max` of 10");
    refused("binary.py", "UTF-8");
    write(folder.path(), &[("many/plugin.py", ""), ("many/a.py", "")]);
    refused("many", "`script_files_max` of 1");
    refused("none.py", "cannot be read");
    write(folder.path(), &[("linked/a.py", ""), ("main.py", "")]);
    let link = folder.path().join("linked/plugin.py");
    std::os::unix::fs::symlink(folder.path().join("main.py"), &link).expect("a link");
    refused("linked", "`plugin.py` is a link, and links are not followed");
    fs::remove_file(&link).expect("removed");
    assert_eq!(language(&folder.path().join("linked")), None);
}
