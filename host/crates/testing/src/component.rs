//! Components made of WebAssembly text, for tests and fuzz targets alike.

/// The contract.
const WIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit");

/// A component made of a core module in WebAssembly text, for the world `plugin`.
pub(crate) fn from_wat(module: &str) -> Vec<u8> {
    let mut resolve = wit_parser::Resolve::default();
    let (package, _) = resolve.push_dir(WIT).expect("the contract");
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
