//! What enforcing limits costs a guest that only computes: through the library with every limit
//! on, against wasmtime alone with the same epochs and no other limit.

use toolhost::{Host, HostSettings};
use toolhost_core::tool::{Call, Origin};
use toolhost_sources::folder::Folder;
use toolhost_testing::component::from_wat;

use crate::bare::Bare;
use crate::table::{Table, in_turns};

/// About 50 ms of arithmetic.
const ROUNDS: u64 = 40_000_000;

/// A plugin with one tool, `work`, that computes and has nothing to say.
fn working() -> Vec<u8> {
    let module = format!(
        r#"(module
            (memory (export "memory") 1)
            (data (i32.const 20) "\00\01\00\00\01\00\00\00")
            (data (i32.const 256)
                "\00\04\00\00\04\00\00\00\08\04\00\00\01\00\00\00\00\00\00\00\00\00\00\00\0c\04\00\00\02\00\00\00")
            (data (i32.const 1024) "work\00\00\00\00t\00\00\00{{}}")
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 8192)
            (func (export "register") (result i32) i32.const 0)
            (func (export "call") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
                (result i32)
                (local $left i64) (local $x i64)
                (local.set $left (i64.const {ROUNDS}))
                (loop $more
                    (local.set $x (i64.add (i64.const 1442695040888963407)
                        (i64.mul (local.get $x) (i64.const 6364136223846793005))))
                    (local.set $left (i64.sub (local.get $left) (i64.const 1)))
                    (br_if $more (i64.ne (local.get $left) (i64.const 0))))
                (i64.store (i32.const 4096) (local.get $x))
                i32.const 2048)
        )"#
    );
    from_wat(&module)
}

pub(crate) async fn run(table: &mut Table) {
    let folder = tempfile::tempdir().expect("a folder");
    let component = working();
    std::fs::write(folder.path().join("work.wasm"), &component).expect("written");
    let folders = vec![Folder { path: folder.path().to_owned(), origin: Origin::Project }];
    let host = Host::start(HostSettings { folders, ..HostSettings::default() }).expect("a host");
    host.loaded().await;

    let bare = Bare::new();
    let ready = bare.compile(&component).without_limits();
    let (mut alone, mut limited) = in_turns(
        60,
        1,
        async || {
            // The host has a clock of its own, which is not to be measured with two.
            let _clock = bare.run_clock();
            ready.call("work", "{}").await;
        },
        async || {
            let outcome = host.call(Call::new("work", "{}")).await;
            assert!(outcome.result.is_ok(), "{outcome:?}");
        },
    )
    .await;
    let alone = table.row("50 ms of arithmetic: wasmtime alone", &mut alone, None);
    table.row("50 ms of arithmetic: within limits", &mut limited, Some((alone, 1.05)));
}
