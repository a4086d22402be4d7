//! Rebuilds the committed bundles from their sources; each component must be the same, byte for byte.

use super::{bundle, repository};

/// Bundles that reuse the component of another bundle with other data.
const SAME_COMPONENT: [(&str, &str); 1] = [("payment-guard-strict", "payment-guard")];

/// Bundles that take minutes to build. `policy-guest/build.sh cedar-example cedar` builds `cedar-example`, and
/// `policy-guest/examples/treasury/cedar.sh` builds `treasury`, which `tests/it/treasury.rs` runs. The vectors of the first and its
/// signature are tested in `host/policy/src/tests/default_policy.rs`, and the snapshot of a module in `tests/snapshot.rs` there.
const NOT_REBUILT: [&str; 2] = ["cedar-example", "treasury"];

#[test]
fn committed_components_are_reproducible_from_their_sources() {
    let root = repository();
    let mut built = 0;
    for entry in std::fs::read_dir(root.join("bundles")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let shared = SAME_COMPONENT.iter().find(|(bundle, _)| *bundle == name);
        let (folder, source) =
            (format!("bundles/{name}"), shared.map_or(name.as_str(), |(_, source)| source));
        let sources = format!("policy-guest/{source}");
        if NOT_REBUILT.contains(&name.as_str()) || !root.join(&folder).is_dir() {
            continue;
        }
        assert!(root.join(&sources).is_dir(), "`{folder}` has no sources in `{sources}`");
        bundle(&root, &["build", &sources, "--into", &folder, "--locked", "--check"]).ok();
        built += 1;
    }
    assert!(built > 0);
}
