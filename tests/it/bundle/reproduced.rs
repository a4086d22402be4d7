//! The committed bundles are what their committed sources give, byte for byte.

use super::{bundle, repository};

/// Bundles that are not built from a Rust package in `policy-guest/<bundle>`: none.
const ELSEWHERE: [&str; 0] = [];

#[test]
fn the_committed_bundles_are_what_their_sources_give() {
    let root = repository();
    let mut built = 0;
    for entry in std::fs::read_dir(root.join("bundles")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let (folder, sources) = (format!("bundles/{name}"), format!("policy-guest/{name}"));
        if !root.join(&folder).is_dir() || ELSEWHERE.contains(&name.as_str()) {
            continue;
        }
        assert!(root.join(&sources).is_dir(), "`{folder}` has no sources in `{sources}`");
        bundle(&root, &["build", &sources, "--into", &folder, "--locked", "--check"]).ok();
        built += 1;
    }
    assert!(built > 0);
}
