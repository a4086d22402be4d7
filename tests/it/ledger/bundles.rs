//! `ledger fsck` checks the files of stored bundles.

use super::history::History;
use crate::harness::process::run;

#[tokio::test(flavor = "multi_thread")]
async fn stored_bundle_with_altered_files_is_found() {
    let history = History::written().await;
    let damages = [
        (
            "UPDATE policy_bundle_files SET bytes = CAST(bytes || 'x' AS BLOB) WHERE name = 'policy.wasm'",
            "`policy.wasm` was changed",
        ),
        ("DELETE FROM policy_bundle_files WHERE name = 'policy.wasm'", "`policy.wasm`"),
        (
            "UPDATE policy_bundle_files SET bytes = CAST(replace(CAST(bytes AS TEXT), 'test-1000001', 'test-1000009') AS BLOB) WHERE name = 'manifest.json'",
            "the files have another hash",
        ),
        ("UPDATE policy_bundles SET bundle_id = 'another'", "`bundle_id` is not the manifest's"),
        ("UPDATE policy_bundle_files SET name = '../x' WHERE name = 'policy.wasm'", "../x"),
    ];
    for (damage, expected) in damages {
        history.damage(damage).await;
        let (code, out, err) = run(history.world.folder(), &[], &["ledger", "fsck"]);
        assert_eq!((code, err.as_str()), (1, ""), "{damage}");
        let is_found = |line: &str| line.starts_with("policy_bundle") && line.contains(expected);
        assert!(out.lines().any(is_found), "{damage}: {out}");
        let (json_code, json, _) = run(history.world.folder(), &[], &["ledger", "fsck", "--json"]);
        assert_eq!((json_code, json.lines().count()), (1, out.lines().count() - 2), "{json}");
    }
}
