//! Starting a host on 100 plugins: compiled from nothing, and from the cache.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use toolhost::{Host, HostSettings};
use toolhost_core::tool::Origin;
use toolhost_sources::folder::Folder;
use toolhost_wasm::digest;

use crate::bare::Bare;
use crate::guests::Guests;
use crate::table::Table;

const PLUGINS: usize = 100;
const ROUNDS: usize = 15;

async fn start(plugins: &Path, cache: &Path) -> Duration {
    let start = Instant::now();
    let folder = Folder { path: plugins.to_owned(), origin: Origin::Project };
    let cache = Some(cache.to_owned());
    let settings = HostSettings { folders: vec![folder], cache, ..HostSettings::default() };
    let host = Host::start(settings).expect("a host");
    host.loaded().await;
    // One is the host's own.
    assert_eq!(host.catalog().tools().len(), PLUGINS + 1);
    start.elapsed()
}

pub(crate) async fn run(table: &mut Table, guests: &Guests) {
    let home = tempfile::tempdir().expect("a folder");
    let (plugins, codes) = (home.path().join("plugins"), home.path().join("codes"));
    fs::create_dir(&plugins).expect("a folder");
    fs::create_dir(&codes).expect("a folder");
    let bare = Bare::new();
    for n in 0..PLUGINS {
        let component = guests.registering(&format!("tool_{n}"));
        fs::write(codes.join(format!("p{n}.cwasm")), bare.precompile(&component)).expect("written");
        fs::write(plugins.join(format!("p{n}.wasm")), component).expect("written");
    }
    let cold = start(&plugins, &home.path().join("cache")).await;
    table.row("load: 100 plugins, cold", &mut [cold], None);

    // In turns, so that both meet the same machine.
    let (mut alone, mut library) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        // Its own engine too, as the host starts one.
        let bare = Bare::new();
        for n in 0..PLUGINS {
            let component = fs::read(plugins.join(format!("p{n}.wasm"))).expect("read");
            assert_eq!(digest(&component).len(), 64);
            bare.map(&codes.join(format!("p{n}.cwasm"))).register().await;
        }
        alone.push(begin.elapsed());
        library.push(start(&plugins, &home.path().join("cache")).await);
    }
    let alone = table.row("load: 100 cached, bare sequence", &mut alone, None);
    table.row("load: 100 cached, through the library", &mut library, Some((alone, 1.5)));
}
