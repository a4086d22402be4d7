//! Starts that must fail, with one error line, a non-zero exit code, and without leaving files behind; and in little room.

use crate::bundle::{bundle, copy};
use crate::harness::process::{EXECUTE, Process, SECRET_MODES, SIGN, command, drive, limited};
use crate::harness::samples::payment;
use crate::harness::secrets::{make_private, write_private};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(crate) fn assert_nothing_was_created(folder: &Path) {
    for name in ["gateway.db", "nodes", "authority.key", "log.key"] {
        assert!(!folder.join(name).exists(), "`{name}` was left behind");
    }
}

/// Copies the default policy into `folder`; returns the copy's path.
fn copy_bundle(folder: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("bundles/payment-guard");
    let target = folder.join("bundle");
    copy(&root, &target);
    target
}

#[test]
fn altered_bundle_prevents_startup() {
    let folder = tempfile::tempdir().unwrap();
    let start_error = |bundle: &Path| {
        let line = Process::start_error(folder.path(), &[("policy_bundle", bundle.to_str().unwrap())]);
        assert_nothing_was_created(folder.path());
        line
    };
    let missing = start_error(&folder.path().join("nowhere"));
    assert!(missing.contains("policy bundle") && missing.contains("/nowhere` cannot be read"), "{missing}");

    let unsigned = copy_bundle(folder.path());
    fs::remove_dir_all(unsigned.join("signatures")).unwrap();
    assert!(start_error(&unsigned).contains("signatures by trusted keys"));

    let altered = copy_bundle(folder.path());
    let mut bytes = fs::read(altered.join("policy.wasm")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(altered.join("policy.wasm"), bytes).unwrap();
    assert!(start_error(&altered).contains("bundle file `policy.wasm` was changed"));

    let undecodable = copy_bundle(folder.path());
    fs::write(undecodable.join("manifest.json"), "{").unwrap();
    assert!(start_error(&undecodable).contains("`manifest.json` is not valid"));

    let extra = copy_bundle(folder.path());
    fs::write(extra.join("tests/more.json"), "[]").unwrap();
    fs::copy(altered.parent().unwrap().join("bundle/policy.wasm"), extra.join("policy.wasm")).unwrap();
    assert!(start_error(&extra).contains("bundle"));
}

#[test]
fn folder_that_is_not_a_bundle_is_named_with_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let start_error = |bundle: &str| {
        let bundle = folder.path().join(bundle);
        let line = Process::start_error(folder.path(), &[("policy_bundle", bundle.to_str().unwrap())]);
        line.replace(folder.path().to_str().unwrap(), "FOLDER")
    };
    bundle(folder.path(), &["new", "acme"]).ok();
    assert_eq!(
        start_error("acme"),
        "operation-gateway: policy bundle `FOLDER/acme`: the folder has the sources of a policy: name the folder `bundle` in it, \
         once `operation-gateway bundle build` and `bundle sign` have completed it"
    );
    assert_eq!(
        start_error("acme/policy"),
        "operation-gateway: policy bundle `FOLDER/acme/policy`: bundle file `manifest.json` is missing"
    );
}

#[test]
fn unsatisfied_trust_roots_or_pin_prevent_startup() {
    let folder = tempfile::tempdir().unwrap();
    let pin = "0".repeat(64);
    assert!(
        Process::start_error(folder.path(), &[("policy_pins", &pin)])
            .contains("is not among the pinned ones")
    );
    assert!(Process::start_error(folder.path(), &[("policy_pins", "x")]).contains("pin `x`"));
    let roots = folder.path().join("roots.json");
    fs::write(&roots, r#"{"roots":[]}"#).unwrap();
    assert!(
        Process::start_error(folder.path(), &[("policy_trust_roots", roots.to_str().unwrap())])
            .contains("trust roots")
    );
    assert!(
        Process::start_error(folder.path(), &[("policy_trust_roots", "/nowhere")])
            .contains("policy trust roots")
    );
    assert_nothing_was_created(folder.path());
}

#[test]
fn wrong_settings_prevent_startup() {
    let folder = tempfile::tempdir().unwrap();
    for (name, value) in
        [("bind", "nowhere"), ("required_approvals", "-1"), ("log", "a=b=c"), ("auth_mode", "none")]
    {
        assert!(Process::start_error(folder.path(), &[(name, value)]).contains(&format!("setting `{name}`")));
    }
    let output = command(folder.path(), &[]).env("SVC_OPERATION_GATEWAY_NO_SUCH", "1").output().unwrap();
    assert!(!output.status.success());
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("`SVC_OPERATION_GATEWAY_NO_SUCH` names no setting")
    );
    assert_nothing_was_created(folder.path());
}

#[test]
fn taken_port_prevents_startup() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let line = Process::start_error(folder.path(), &[("bind", &address)]);
    assert!(line.contains(&address) && line.contains("in use"), "{line}");
    assert_nothing_was_created(folder.path());
}

#[test]
fn foreign_databases_prevent_startup() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("other.db");
    let url = format!("sqlite://{}", database.display());
    fs::write(&database, "this is a letter, not a database, and long enough to have a header of its own")
        .unwrap();
    assert!(Process::start_error(folder.path(), &[("database_url", &url)]).contains("database"));
    assert_eq!(&fs::read(&database).unwrap()[..16], b"this is a letter");
    assert!(
        Process::start_error(folder.path(), &[("database_url", "sqlite:///proc/none/gateway.db")])
            .contains("database")
    );
    assert!(Process::start_error(folder.path(), &[("database_url", "mysql://x")]).contains("database"));
}

#[test]
fn second_gateway_on_the_same_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Process::start(folder.path(), None, &[]);
    let line = Process::start_error(folder.path(), &[]);
    assert!(line.contains("is already open in another process"), "{line}");
}

#[test]
fn readable_authority_key_prevents_startup() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("authority.key");
    fs::write(&key, "00".repeat(32)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(Process::start_error(folder.path(), &[]).contains("must be 0600"));
}

#[test]
fn readable_log_key_or_reused_authority_key_prevents_startup() {
    let folder = tempfile::tempdir().unwrap();
    write_private(folder.path().join("authority.key"), "00".repeat(32));
    write_private(folder.path().join("log.key"), "00".repeat(32));
    let line = Process::start_error(folder.path(), &[]);
    assert!(line.contains("log key: must be another key than the authority's"), "{line}");
    fs::set_permissions(folder.path().join("log.key"), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(Process::start_error(folder.path(), &[]).contains("must be 0600"));
}

/// Starts a gateway, submits a payment so that its nodes create a key, and stops it.
fn run_once(folder: &Path, overrides: &[(&str, &str)]) {
    let process = Process::start(folder, None, overrides);
    process.post(SIGN, Some(&payment("run")));
    assert!(process.terminate().0.success());
    assert!(folder.join("nodes/node-0.db").exists());
}

#[test]
fn invalid_node_key_prevents_startup() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.key");
    let start_error = || {
        let line = Process::start_error(folder.path(), &[("node_key", path.to_str().unwrap())]);
        assert!(!folder.path().join("nodes").exists());
        line.replace(path.to_str().unwrap(), "KEY")
    };
    let prefix = "operation-gateway: node key: the";
    write_private(&path, "00112233");
    assert_eq!(
        start_error(),
        format!("{prefix} key file `KEY` is not 32 bytes or 64 lowercase hexadecimal characters")
    );
    write_private(&path, "00".repeat(32));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(start_error(), format!("{prefix} file `KEY` has mode 0644; {SECRET_MODES}"));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    make_private(&path);
    assert_eq!(start_error(), format!("{prefix} file `KEY` is not a regular file"));
}

#[test]
fn invalid_node_passphrase_prevents_startup() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("passphrase");
    let overrides = [("node_passphrase_file", path.to_str().unwrap())];
    let start_error = || {
        let line = Process::start_error(folder.path(), &overrides);
        assert!(!folder.path().join("nodes").exists());
        line.replace(path.to_str().unwrap(), "FILE")
    };
    let prefix = "operation-gateway: node key: the";
    assert_eq!(
        start_error(),
        format!("{prefix} file `FILE` cannot be opened: No such file or directory (os error 2)")
    );
    write_private(&path, "too short\n");
    assert_eq!(start_error(), format!("{prefix} passphrase has 9 bytes; it must have 12 to 1024"));
    write_private(&path, "correct horse\nbattery staple\n");
    assert_eq!(start_error(), format!("{prefix} passphrase file `FILE` is not one line of text"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(start_error(), format!("{prefix} file `FILE` has mode 0640; {SECRET_MODES}"));
    let both = Process::start_error(folder.path(), &[overrides[0], ("node_key", "k")]);
    assert!(both.contains("setting `node_passphrase_file` must not be given together with `node_key`"));
}

#[test]
fn wrong_node_key_prevents_startup() {
    let folder = tempfile::tempdir().unwrap();
    run_once(folder.path(), &[]);
    let (key, other) = (folder.path().join("nodes/node.key"), folder.path().join("other.key"));
    write_private(&other, "01".repeat(32));
    let line = Process::start_error(folder.path(), &[("node_key", other.to_str().unwrap())]);
    assert!(
        line.starts_with("operation-gateway: nodes: the node's store is sealed under another key: "),
        "{line}"
    );
    // A missing key is not replaced by a new one.
    fs::rename(&key, folder.path().join("away")).unwrap();
    let line = Process::start_error(folder.path(), &[]);
    assert!(
        line.ends_with("nodes/node.key` cannot be opened: No such file or directory (os error 2)"),
        "{line}"
    );
    assert!(!key.exists());
    fs::rename(folder.path().join("away"), &key).unwrap();
    run_once(folder.path(), &[]);
}

#[test]
fn wrong_node_passphrase_prevents_startup() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("passphrase");
    let overrides = [("node_passphrase_file", path.to_str().unwrap())];
    write_private(&path, "correct horse battery\n");
    run_once(folder.path(), &overrides);
    assert!(!folder.path().join("nodes/node.key").exists());
    run_once(folder.path(), &overrides);
    write_private(&path, "correct horse battery staple\n");
    assert!(
        Process::start_error(folder.path(), &overrides)
            .contains("the node's store is sealed under another key")
    );
    write_private(&path, "correct horse battery\n");
    let stretching = folder.path().join("nodes/stretching.json");
    let written = fs::read_to_string(&stretching).unwrap();
    fs::write(&stretching, written.replace("65536", "1024")).unwrap();
    assert!(
        Process::start_error(folder.path(), &overrides).contains("65536 to 1048576 KiB of memory, not 1024")
    );
    fs::remove_file(&stretching).unwrap();
    let line = Process::start_error(folder.path(), &overrides);
    assert!(line.ends_with("stretching.json`: entity not found") && !stretching.exists(), "{line}");
}

/// Opening a pipe would block until another process writes to it.
#[test]
fn secret_that_is_a_pipe_or_links_to_a_readable_file_prevents_startup() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, open, link) =
        (folder.path().join("pipe"), folder.path().join("open"), folder.path().join("link"));
    assert!(std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&pipe).status().unwrap().success());
    fs::write(&open, "00".repeat(32)).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    std::os::unix::fs::symlink(&open, &link).unwrap();
    for name in ["authority_key", "log_key", "node_key", "node_passphrase_file"] {
        let line = Process::start_error(folder.path(), &[(name, pipe.to_str().unwrap())]);
        assert!(line.ends_with("is not a regular file"), "{name}: {line}");
        let line = Process::start_error(folder.path(), &[(name, link.to_str().unwrap())]);
        assert!(line.contains("has mode 0644"), "{name}: {line}");
    }
    // A symbolic link to a private file is accepted.
    make_private(&open);
    drop(Process::start(folder.path(), None, &[("node_key", link.to_str().unwrap())]));
}

#[test]
fn invalid_authentication_settings_prevent_startup() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let path = file.to_str().unwrap();
    let start_error = |overrides: &[(&str, &str)]| {
        let line = Process::start_error(folder.path(), overrides);
        assert_nothing_was_created(folder.path());
        line.replace(path, "FILE")
    };
    let introspection = [
        ("auth_mode", "introspection"),
        ("introspection_url", "http://127.0.0.1:1/introspect"),
        ("introspection_client_id", "gateway"),
        ("introspection_client_secret_file", path),
    ];
    assert!(
        start_error(&introspection).contains("introspection client secret: the file `FILE` cannot be opened")
    );
    write_private(&file, "canary-one\ncanary-two\n");
    let line = start_error(&introspection);
    assert!(line.contains("introspection client secret") && !line.contains("canary"), "{line}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(start_error(&introspection).contains(&format!("has mode 0644; {SECRET_MODES}")));
    let jwks = [("auth_mode", "jwks"), ("token_issuer", "i"), ("token_audience", "a")];
    let from_file = [&jwks[..], &[("jwks_file", path)]].concat();
    assert!(start_error(&from_file).contains("issuer's keys `FILE`: the document is not a JSON Web Key Set"));
    fs::write(&file, r#"{"keys":[]}"#).unwrap();
    assert!(start_error(&from_file).contains("issuer's keys `FILE`: no key in it can be used"));
    let with_ca =
        [&jwks[..], &[("jwks_url", "https://127.0.0.1:1/jwks"), ("identity_provider_ca", path)]].concat();
    assert!(start_error(&with_ca).contains("identity provider's authorities `FILE`"));
    let plain = [&jwks[..], &[("jwks_url", "http://issuer.example/jwks")]].concat();
    assert!(start_error(&plain).contains("setting `jwks_url` must be an `https` URL"));
    let all_addresses = [("auth_mode", "trusted_headers"), ("trusted_proxies", "::/0")];
    assert!(
        start_error(&all_addresses).contains("setting `trusted_proxies` must be addresses and CIDR blocks")
    );
}

#[test]
fn sigterm_during_the_start_stops_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::spawn(command(folder.path(), &[]));
    process.wait_for_line("policy bundle active");
    let (status, log) = process.terminate();
    assert!(status.success(), "{status}: {log:#?}");
    assert!(log.iter().any(|line| line.contains("operation-gateway stopped")), "{log:#?}");
}

/// Room for 64 evaluations takes 516 GiB of addresses, twice with embedded nodes.
#[test]
fn gateway_signs_in_a_small_address_space() {
    let folder = tempfile::tempdir().unwrap();
    let command = limited(&command(folder.path(), &[]), &format!("-v {}", 120 << 20));
    let process = Process::start_command(command);
    assert_eq!(drive(&process.address, SIGN, &payment("small"), &[EXECUTE]).unwrap()["state"], "executed");
    let (_, lines) = process.terminate();
    assert!(lines.iter().any(|line| line.contains("room for few policy evaluations")), "{lines:?}");
}
