//! Components made of WebAssembly text, for tests and fuzz targets alike.

use std::path::Path;

/// A component made of a core module in WebAssembly text, for the world `plugin`.
pub fn from_wat(module: &str) -> Vec<u8> {
    let mut resolve = wit_parser::Resolve::default();
    // Fuzz targets are a package at another depth.
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let contract = folders.find_map(|folder| Some(folder.join("wit")).filter(|wit| wit.is_dir()));
    let (package, _) = resolve.push_dir(contract.expect("the contract")).expect("the contract");
    let world = resolve.select_world(&[package], Some("plugin")).expect("the world");
    let mut module = wat::parse_str(module).expect("valid WAT");
    let encoding = wit_component::StringEncoding::UTF8;
    wit_component::embed_component_metadata(&mut module, &resolve, world, encoding)
        .expect("metadata");
    wit_component::ComponentEncoder::default()
        .module(&module)
        .and_then(|mut encoder| encoder.encode())
        .expect("a component")
}
