//! Policy bundles whose component is written as WebAssembly text.

use super::bundles::key;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_policy::bundle::pack;
use gateway_policy::{Bundle, BundleFiles, Evaluator, Pins, PolicyEngine, TrustPolicy};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

/// A loaded bundle, without data or vectors, whose component has `pages` pages of memory and this body of `evaluate`. Its
/// fuel limit is the maximum.
pub(crate) fn load_guest(pages: u32, evaluate: &str) -> Evaluator {
    let engine = PolicyEngine::new().unwrap();
    let manifest = r#"{"bundle_id":"hostile","version":"1","sequence":1,"world":"svc:policy@1.x",
        "limits":{"fuel":50000000,"memory_bytes":16777216},"capabilities":[],"facts":[],"reasons":[],"obligations":[],"files":{}}"#;
    let draft = [("manifest.json", manifest.into()), ("policy.wasm", component(pages, evaluate))];
    let files = BundleFiles::new(draft.map(|(name, bytes): (&str, Vec<u8>)| (name.to_owned(), bytes)));
    let files = pack::complete(&engine, &files.unwrap()).unwrap();
    let files = files.with([pack::sign(&files, &key(1)).unwrap()]).unwrap();
    let trust = TrustPolicy::of_one("author", Hex32::new(key(1).verifying_key().to_bytes()));
    let bundle = Bundle::verify(files, &trust, &Pins::default(), EpochMs(1)).unwrap();
    Evaluator::link(&engine, &bundle).unwrap()
}

fn component(pages: u32, evaluate: &str) -> Vec<u8> {
    let module = format!(
        r#"(module
            (memory (export "memory") {pages})
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 32768))
            (func (export "describe") (result i32) (i32.const 0))
            (func (export "evaluate") (param i32) (result i32) (local $i i32) {evaluate}))"#
    );
    let mut module = wat::parse_str(module).unwrap();
    let mut resolve = wit_parser::Resolve::default();
    let package = resolve.push_str("policy.wit", include_str!("../../../wit/policy.wit")).unwrap();
    let world = resolve.select_world(&[package], Some("policy")).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().encode().unwrap()
}
