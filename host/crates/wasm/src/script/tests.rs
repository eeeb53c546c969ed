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
