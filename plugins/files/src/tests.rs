//! Both tools on real files, natively; what the sandbox adds is tested with the host.

use std::fs;

use tempfile::TempDir;
use toolhost_sdk::testing::call;

use super::*;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn put(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    fs::write(&path, text).expect("written");
    path.to_string_lossy().into_owned()
}

fn ask<T: toolhost_sdk::Tool>(arguments: Value) -> Result<Value, String> {
    let output = call::<T>(&arguments.to_string());
    output
        .map(|output| serde_json::from_str(&output.text()).expect("JSON"))
        .map_err(|error| error.message().to_owned())
}

fn read(arguments: Value) -> Result<Value, String> {
    ask::<read_file>(arguments)
}

fn refused(path: &str, expected: &str) {
    let message = read(serde_json::json!({ "path": path })).expect_err(path);
    assert!(message.contains(expected), "{message}");
}

#[test]
fn a_page_of_numbered_lines() {
    let folder = folder();
    let path = put(&folder, "ten", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
    let page = read(serde_json::json!({ "path": path, "offset": 3, "limit": 2 })).expect("a page");
    assert_eq!(page["content"], "3|3\n4|4");
    assert_eq!(page["hint"], "Use offset=5 to continue reading (showing 3-4 of 10 lines)");
    assert_eq!((&page["next_offset"], &page["truncated"]), (&5.into(), &true.into()));
    let whole = read(serde_json::json!({ "path": path })).expect("a page");
    assert_eq!((&whole["total_lines"], &whole["file_size"]), (&10.into(), &21.into()));
    assert_eq!(whole["truncated"], false);
    assert!(whole["content"].as_str().expect("text").ends_with("\n10|10"));
    let past = read(serde_json::json!({ "path": path, "offset": 99 })).expect("a page");
    assert_eq!(
        (&past["content"], &past["hint"]),
        (&"".into(), &"offset=99 is past the end: the file has 10 line(s)".into())
    );
    let empty = put(&folder, "empty", "");
    assert_eq!(read(serde_json::json!({ "path": empty })).expect("a page")["content"], "");
}

#[test]
fn the_budget_cuts_at_a_line() {
    let folder = folder();
    let path = put(&folder, "long", format!("{}\n", "x".repeat(100)).repeat(3_000));
    let page = read(serde_json::json!({ "path": path, "limit": 2_000 })).expect("a page");
    assert_eq!((&page["next_offset"], &page["truncated_by"]), (&954.into(), &"bytes".into()));
    assert_eq!(
        page["hint"],
        "Output truncated at the 100,000-char read budget after 953 line(s) (showing lines 1-953 of 3000). Use offset=954 to continue."
    );
    let wide = put(&folder, "wide", "é".repeat(5_000));
    let page = read(serde_json::json!({ "path": wide })).expect("a page");
    assert_eq!(page["content"], format!("1|{}... [truncated]", "é".repeat(2_000)));
}

#[test]
fn what_is_not_read() {
    let folder = folder();
    refused(
        "/dev/zero",
        "Cannot read '/dev/zero': this is a device file that would block or produce infinite output.",
    );
    refused("/proc/self/environ", "this is a device file");
    refused("/proc/self/../self/fd/0", "this is a device file");
    refused("a.png", "Cannot read binary file 'a.png' (.png). Use vision_analyze for images");
    refused("a.docx", "not supported yet");
    refused(&put(&folder, ".env", "A=1"), "is a secret-bearing environment file");
    refused(&put(&folder, "noise", [0_u8, 1, 2, 3, 255]), "more than 30 %");
    refused(&folder.path().to_string_lossy(), "it is a directory");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/dev/zero", &link).expect("a link");
    refused(&link.to_string_lossy(), "this is a device file");
    let link = folder.path().join("settings");
    std::os::unix::fs::symlink(".env", &link).expect("a link");
    refused(&link.to_string_lossy(), "is a secret-bearing environment file");
    put(&folder, "README.md", "");
    let missing = folder.path().join("REDME.md");
    refused(&missing.to_string_lossy(), "README.md");
}

#[test]
fn lines_are_found() {
    let folder = folder();
    put(&folder, "a.rs", "fn one() {}\nfn two() {}\n");
    put(&folder, "b.txt", "fn three\n");
    put(&folder, ".hidden", "fn four\n");
    put(&folder, "target/c.rs", "fn five\n");
    put(&folder, ".gitignore", "target\n");
    put(&folder, "config/.env", "fn six\n");
    let path = folder.path().to_string_lossy().into_owned();
    let search = |more: Value| {
        let mut arguments = serde_json::json!({ "path": path });
        let members = arguments.as_object_mut().expect("an object");
        members.extend(more.as_object().expect("an object").clone());
        ask::<search_files>(arguments)
    };
    let found = search(serde_json::json!({ "pattern": r"fn \w+" })).expect("found");
    assert_eq!(found["total_count"], 3);
    assert_eq!(found["matches"][0]["line"], 1);
    assert_eq!(found["matches"][2]["content"], "fn three");
    let found = search(serde_json::json!({ "pattern": "fn", "file_glob": "*.rs", "limit": 1 }))
        .expect("found");
    assert_eq!((&found["truncated"], &found["next_offset"]), (&true.into(), &1.into()));
    let found =
        search(serde_json::json!({ "pattern": "fn", "output_mode": "count" })).expect("found");
    assert_eq!(found["counts"][format!("{path}/a.rs")], 2);
    let found = search(serde_json::json!({ "pattern": "two", "context": 1 })).expect("found");
    assert_eq!(
        found["matches_text"],
        format!("{path}/a.rs-1-fn one() {{}}\n{path}/a.rs:2:fn two() {{}}")
    );
    let found = search(serde_json::json!({ "pattern": "*.rs", "target": "find" })).expect("found");
    assert_eq!(found["files"], serde_json::json!([format!("{path}/a.rs")]));
    let none =
        search(serde_json::json!({ "pattern": "fn", "file_glob": "*.none" })).expect("found");
    assert_eq!(none["total_count"], 0);
    let error = search(serde_json::json!({ "pattern": "(" })).expect_err("no pattern");
    assert!(error.contains("not a regular expression"), "{error}");
    let error = search(serde_json::json!({ "pattern": r"a\nb" })).expect_err("no pattern");
    assert!(error.contains("The search is by line"), "{error}");
    let error = search(serde_json::json!({ "pattern": "x", "path": format!("{path}/none") }))
        .expect_err("no path");
    assert!(error.starts_with("Path not found: "), "{error}");
}
