//! The guests of the tests, in one plugins folder.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;
use toolhost_testing::{GuestBuilds, builds, guests};

/// What the benchmarks have to build.
pub(crate) static BUILDS: GuestBuilds = builds!();

pub(crate) struct Guests {
    folder: TempDir,
}

impl Guests {
    pub(crate) fn build() -> Guests {
        let folder = TempDir::new().expect("a folder");
        for entry in fs::read_dir(BUILDS.guests()).expect("a folder").flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "wasm") {
                fs::copy(entry.path(), folder.path().join(entry.file_name())).expect("copied");
            }
        }
        for id in ["words-py", "words-js"] {
            let path = folder.path().join(format!("{id}.wasm"));
            fs::write(path, BUILDS.script(id)).expect("written");
        }
        Guests { folder }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub(crate) fn component(&self, id: &str) -> Vec<u8> {
        fs::read(self.folder.path().join(format!("{id}.wasm"))).expect("a guest")
    }

    /// The guest `register` with one tool of this name.
    pub(crate) fn registering(&self, tool: &str) -> Vec<u8> {
        guests::registering(self.component("register"), &format!("one {tool}"))
    }

    /// The guest `made`, made of this description.
    pub(crate) fn made(&self, description: &Value) -> Vec<u8> {
        guests::made(self.component("made"), description)
    }
}
