//! What the tests share, for the program of this package; most of it is `toolhost-testing`.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use expect_test::Expect;
use serde_json::Value;
use toolhost::Host;
use toolhost_author::Places;
use toolhost_testing::{GuestBuilds, Tested, builds, guests};
use toolhost_wasm::RunnerPlaces;

pub(crate) use toolhost_testing::client;
pub(crate) use toolhost_testing::component::{self, from_wat};
pub(crate) use toolhost_testing::guests::built_for;
pub(crate) use toolhost_testing::lab::{answer, bundled, call, shown};
pub(crate) use toolhost_testing::put_runner;
pub(crate) use toolhost_testing::server;
pub(crate) use toolhost_testing::text::{without_digests, without_times};

static BUILDS: GuestBuilds = builds!();

/// The program of this package.
pub(crate) struct Program;

impl Tested for Program {
    fn builds() -> &'static GuestBuilds {
        &BUILDS
    }
}

/// A home and a plugins folder that go with the test.
pub(crate) type Lab = toolhost_testing::Lab<Program>;

/// The runners of scripts, built where the program under test looks for them.
pub(crate) static RUNNERS: LazyLock<RunnerPlaces> = LazyLock::new(|| BUILDS.runners().clone());

/// The folder with packages of others that tests run against, installed.
pub(crate) static PACKAGES: LazyLock<PathBuf> = LazyLock::new(|| BUILDS.packages().to_owned());

/// What builds components of scripts.
pub(crate) fn places() -> Places {
    BUILDS.places()
}

/// The component of a Rust guest or a bundled plugin.
pub(crate) fn guest(id: &str) -> Vec<u8> {
    BUILDS.guest(id)
}

/// The component of a guest in Python (`words-py`) or JavaScript (`words-js`).
pub(crate) fn script(id: &str) -> Vec<u8> {
    BUILDS.script(id)
}

/// The guest `register`, made to register in the way that `mode` says.
pub(crate) fn registering(mode: &str) -> Vec<u8> {
    guests::registering(guest("register"), mode)
}

/// The guest `made`, made of this description; its source says what that can hold.
pub(crate) fn made(description: &Value) -> Vec<u8> {
    guests::made(guest("made"), description)
}

/// Compiled components, shared by all tests and kept between runs.
pub(crate) fn cache() -> PathBuf {
    BUILDS.components()
}

/// A host with the guest `probe`.
pub(crate) async fn probe() -> Arc<Host> {
    Arc::new(Lab::new().with("probe.wasm", guest("probe")).host().await)
}

/// A folder with the bundled plugin `json` and the guest `probe`.
pub(crate) fn json_and_probe() -> Lab {
    let lab = Lab::new().with("json.wasm", guest("json")).with("probe.wasm", guest("probe"));
    lab.record_bundled("json");
    lab
}

/// Runs the program in such a folder and compares all it printed.
pub(crate) fn check_program(arguments: &[&str], expected: &Expect) {
    expected.assert_eq(&json_and_probe().run(arguments));
}
