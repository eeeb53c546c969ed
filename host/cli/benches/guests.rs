//! The guests of the tests, built.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use toolhost_author::{self as author, BuildRequest};

pub(crate) struct Guests {
    folder: TempDir,
}

pub(crate) async fn build() -> Guests {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = TempDir::new().expect("a folder");
    build_rust("tests/guests", folder.path()).await;
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (scripts, tools) = (temporary.join("scripts"), temporary.with_file_name("tools"));
    let built = Command::new("sh")
        .arg(root.join("tests/guests/scripts/build.sh"))
        .args([&scripts, &tools])
        .status();
    assert!(built.expect("sh").success());
    for name in ["words-py.wasm", "words-js.wasm"] {
        std::fs::copy(scripts.join(name), folder.path().join(name)).expect("copied");
    }
    Guests { folder }
}

/// Builds the Rust components of a folder of this repository.
pub(crate) async fn build_rust(source: &str, out: &Path) {
    let request = BuildRequest {
        source: Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(source),
        out: out.to_owned(),
        environment: std::env::vars_os().collect(),
        ..BuildRequest::default()
    };
    author::build(&request).await.expect("guests that build");
}

impl Guests {
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub(crate) fn component(&self, id: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(format!("{id}.wasm"))).expect("a guest")
    }

    /// The guest `register` with one tool of this name.
    pub(crate) fn registering(&self, tool: &str) -> Vec<u8> {
        const MARKER: &[u8] = b"toolhost-test-mode:one ";
        let mut bytes = self.component("register");
        let place = bytes.windows(MARKER.len()).position(|window| window == MARKER);
        let start = place.expect("the marker") + MARKER.len();
        let name = format!("{tool:<20}");
        bytes[start..start + name.len()].copy_from_slice(name.as_bytes());
        bytes
    }
}

/// The guest `made`, made of this description; its source says what that can hold.
pub(crate) fn made(mut component: Vec<u8>, description: &Value) -> Vec<u8> {
    const MARKER: &[u8] = b"toolhost-test-made:{}";
    let place = component.windows(MARKER.len()).position(|window| window == MARKER);
    let start = place.expect("the marker") + MARKER.len() - 2;
    let text = description.to_string();
    component[start..start + text.len()].copy_from_slice(text.as_bytes());
    component
}
