//! What keeps the gateway from starting: one clear line, a non-zero exit, nothing half-started.

use crate::harness::process::command;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// Starts and expects it to end by itself: the one line it said.
#[track_caller]
fn refused(folder: &Path, given: &[(&str, &str)]) -> String {
    let output = command(folder, given).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{text}");
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("operation-gateway: ")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(!text.contains("panicked"), "{text}");
    lines[0].to_owned()
}

fn nothing_was_made(folder: &Path) {
    for name in ["gateway.db", "nodes", "authority.key"] {
        assert!(!folder.join(name).exists(), "`{name}` was left behind");
    }
}

/// A copy of the committed bundle.
fn bundle(folder: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("bundles/payment-guard");
    let copy = folder.join("bundle");
    copy_folder(&root, &copy);
    copy
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target)
        } else {
            drop(fs::copy(entry.path(), target))
        }
    }
}

#[test]
fn bundles_that_are_not_as_signed() {
    let folder = tempfile::tempdir().unwrap();
    let start = |bundle: &Path| {
        let line = refused(folder.path(), &[("policy_bundle", bundle.to_str().unwrap())]);
        nothing_was_made(folder.path());
        line
    };
    assert!(start(&folder.path().join("nowhere")).contains("policy bundle"));

    let unsigned = bundle(folder.path());
    fs::remove_dir_all(unsigned.join("signatures")).unwrap();
    assert!(start(&unsigned).contains("signatures by trusted keys"));

    let altered = bundle(folder.path());
    let mut bytes = fs::read(altered.join("policy.wasm")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(altered.join("policy.wasm"), bytes).unwrap();
    assert!(start(&altered).contains("bundle file `policy.wasm` was changed"));

    let undecodable = bundle(folder.path());
    fs::write(undecodable.join("manifest.json"), "{").unwrap();
    assert!(start(&undecodable).contains("`manifest.json` is not valid"));

    let extra = bundle(folder.path());
    fs::write(extra.join("tests/more.json"), "[]").unwrap();
    fs::copy(altered.parent().unwrap().join("bundle/policy.wasm"), extra.join("policy.wasm")).unwrap();
    assert!(start(&extra).contains("bundle"));
}

#[test]
fn trust_roots_and_pins_that_do_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    let pin = "0".repeat(64);
    assert!(refused(folder.path(), &[("policy_pins", &pin)]).contains("is not among the pinned ones"));
    assert!(refused(folder.path(), &[("policy_pins", "x")]).contains("pin `x`"));
    let roots = folder.path().join("roots.json");
    fs::write(&roots, r#"{"roots":[]}"#).unwrap();
    assert!(
        refused(folder.path(), &[("policy_trust_roots", roots.to_str().unwrap())]).contains("trust roots")
    );
    assert!(refused(folder.path(), &[("policy_trust_roots", "/nowhere")]).contains("policy trust roots"));
    nothing_was_made(folder.path());
}

#[test]
fn settings_that_are_wrong() {
    let folder = tempfile::tempdir().unwrap();
    for (name, value) in
        [("bind", "nowhere"), ("required_approvals", "-1"), ("log", "a=b=c"), ("auth_mode", "none")]
    {
        assert!(refused(folder.path(), &[(name, value)]).contains(&format!("setting `{name}`")));
    }
    let output = command(folder.path(), &[]).env("SVC_OPERATION_GATEWAY_NO_SUCH", "1").output().unwrap();
    assert!(!output.status.success());
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("`SVC_OPERATION_GATEWAY_NO_SUCH` names no setting")
    );
    nothing_was_made(folder.path());
}

#[test]
fn a_port_that_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let line = refused(folder.path(), &[("bind", &address)]);
    assert!(line.contains(&address) && line.contains("in use"), "{line}");
    nothing_was_made(folder.path());
}

#[test]
fn databases_that_are_not_ours() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("other.db");
    let url = format!("sqlite://{}", database.display());
    fs::write(&database, "this is a letter, not a database, and long enough to have a header of its own")
        .unwrap();
    assert!(refused(folder.path(), &[("database_url", &url)]).contains("database"));
    assert_eq!(&fs::read(&database).unwrap()[..16], b"this is a letter");
    assert!(
        refused(folder.path(), &[("database_url", "sqlite:///proc/none/gateway.db")]).contains("database")
    );
    assert!(refused(folder.path(), &[("database_url", "mysql://x")]).contains("database"));
}

#[test]
fn a_second_gateway_on_the_same_store() {
    let folder = tempfile::tempdir().unwrap();
    let _first = crate::harness::process::Process::start(folder.path(), None, &[]);
    let line = refused(folder.path(), &[]);
    assert!(line.contains("is already open in another process"), "{line}");
}

#[test]
fn an_authority_key_others_can_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("authority.key");
    fs::write(&key, "00".repeat(32)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refused(folder.path(), &[]).contains("must be 0600"));
}
