//! Secrets and credential identifiers appear in no answer, log, export or file, except a key in its own file.

use crate::harness::certificates::Authority;
use crate::harness::process::{Process, SIGN, request, run};
use crate::harness::samples::{approval, path, payment, publication, with};
use crate::harness::secrets::write_private;
use crate::harness::tls::{Files, Trust, connect};
use crate::harness::wire::get_on;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const CANARIES: [&str; 5] = [
    "canary-share-mul-8f1d",
    "canary-helper-share-77aa",
    "canary-kernel-payload-c0de",
    "canary-token-51ab",
    "canary-certificate-9e42",
];

/// Adds the paths and contents of all files below a folder.
fn read_files(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_files(&path, found);
        } else {
            found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
}

pub(crate) fn contains(bytes: &[u8], part: impl AsRef<[u8]>) -> bool {
    let part = part.as_ref();
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn node_key_appears_only_in_its_own_file() {
    let folder = tempfile::tempdir().unwrap();
    let passphrase = folder.path().join("passphrase");
    write_private(&passphrase, "canary-passphrase-5e11");
    for overrides in [&[][..], &[("node_passphrase_file", passphrase.to_str().unwrap())]] {
        let data = folder.path().join(format!("data-{}", overrides.len()));
        std::fs::create_dir(&data).unwrap();
        let process = Process::start(&data, None, &[&[("log", "trace")], overrides].concat());
        process.post(SIGN, Some(&payment("key")));
        let mut files = Vec::new();
        read_files(&data, &mut files);
        assert!(files.iter().any(|(path, _)| path.ends_with("node-0.db")));
        let key = data.join("nodes/node.key");
        let secret = if overrides.is_empty() {
            assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o7777, 0o600);
            std::fs::read_to_string(&key).unwrap().trim_end().to_owned()
        } else {
            assert!(!key.exists());
            std::fs::read_to_string(&passphrase).unwrap()
        };
        let own = key.display().to_string();
        let raw = hex::decode(&secret).unwrap_or_else(|_| secret.clone().into_bytes());
        for (path, bytes) in files.iter().filter(|(path, _)| *path != own) {
            assert!(!contains(bytes, &secret) && !contains(bytes, &raw), "{path}");
        }
        let (_, log) = process.terminate();
        assert!(!log.iter().any(|line| line.contains(&secret)));
    }
}

/// The seeds and the TLS key, encoded and raw, after the gateway served, reloaded, logged errors, and showed and rotated keys.
#[test]
fn every_key_appears_only_in_its_own_file() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    let files = Files::write(folder.path(), &authority.server(), &authority);
    let overrides = [files.settings("off"), vec![("log", "trace")]].concat();
    let own = ["authority.key", "log.key", "nodes/node.key", "tls.key"].map(|name| folder.path().join(name));
    let mut printed = vec![run(folder.path(), &overrides, &["keys", "generate"]).1];
    let secrets: Vec<_> = own.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let mut process = Process::start(folder.path(), None, &overrides);
    let mut stream = connect(&process.address, &Trust::new(&authority, None)).unwrap();
    assert_eq!(get_on(&mut stream, "/readyz").unwrap().0, 200);
    // A request without TLS causes a line at level DEBUG.
    assert!(request(&process.address, "GET", "/readyz", None).is_err());
    process.sighup();
    process.wait_for_line("reloaded certificates");
    std::fs::write(&files.certificate, "none").unwrap();
    process.sighup();
    process.wait_for_line("could not reload certificates");
    // The last one fails: there are no nodes yet.
    for (arguments, expected) in
        [(["keys", "show"].as_slice(), 0), (&["config"], 0), (&["evidence", "roots"], 2)]
    {
        let (code, out, err) = run(folder.path(), &overrides, arguments);
        assert_eq!(code, expected, "{err}");
        printed.extend([out, err]);
    }
    printed.extend(process.terminate().1);
    printed.push(run(folder.path(), &overrides, &["keys", "rotate", "authority"]).1);
    printed.push(run(folder.path(), &overrides, &["keys", "rotate", "node"]).1);

    let mut stored_files = Vec::new();
    read_files(folder.path(), &mut stored_files);
    for (path, secret) in own.iter().zip(&secrets) {
        // For a PEM key, each line except the first and last; for a seed, its hex digits and its bytes.
        for line in secret.lines().filter(|line| !line.starts_with('-') && line.len() >= 32) {
            assert!(!printed.iter().any(|text| text.contains(line)), "{} was printed", path.display());
            let raw = hex::decode(line).unwrap_or_else(|_| line.as_bytes().to_vec());
            for (other, bytes) in stored_files.iter().filter(|(other, _)| Path::new(other) != path) {
                let is_there = contains(bytes, line) || contains(bytes, &raw);
                assert!(!is_there, "{} is in {other}", path.display());
            }
        }
    }
    let is_verbose = |line: &String| line.contains("TRACE") || line.contains("DEBUG");
    assert!(printed.iter().any(is_verbose), "the log must be verbose");
}

#[test]
fn request_secrets_reach_only_the_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[("log", "trace")]);
    let mut answers = Vec::new();
    let mut call = |method: &str, path: &str, body: Option<&Value>| {
        let (status, answer) = process.call(method, path, body);
        answers.push(answer.to_string());
        (status, answer)
    };
    let credentials = |body: Value| {
        let body = with(body, "/client/token_jti", json!(CANARIES[3]));
        with(body, "/client/cert_sha256", json!(CANARIES[4]))
    };
    let (_, submitted) = call("POST", SIGN, Some(&credentials(payment("canary"))));
    let preview = credentials(with(payment("canary"), "/idempotency_key", Value::Null));
    call("POST", "/v1/policy/preview", Some(&preview));
    let refused = credentials(with(payment("refused"), "/payment/amount_minor", json!(-1)));
    assert_eq!(call("POST", SIGN, Some(&refused)).0, 403);
    let path = path(&submitted["operation"], "");
    call("POST", &format!("{path}/approve"), Some(&approval("alice")));
    call("POST", &format!("{path}/approve"), Some(&approval("bob")));
    let execute = json!({
        "signing_share_mul": { "secret": CANARIES[0] },
        "recovery_helper_shares": { "0": CANARIES[1] },
    });
    assert_eq!(call("POST", &format!("{path}/execute"), Some(&execute)).0, 200);
    let recovery = json!({
        "effect_id": "e", "result_root": "0".repeat(64), "secret_kernel_payload": { "secret": CANARIES[2] },
    });
    assert_eq!(call("POST", &format!("{path}/node-recovery"), Some(&recovery)).0, 200);
    // Error messages must not contain them either.
    let wrong = json!({ "signing_share_mul": [CANARIES[0]], "recovery_helper_shares": CANARIES[1] });
    assert_eq!(call("POST", &format!("{path}/execute"), Some(&wrong)).0, 400);
    let wrong = json!({ "effect_id": 7, "secret_kernel_payload": { "secret": CANARIES[2] } });
    assert_eq!(call("POST", &format!("{path}/node-recovery"), Some(&wrong)).0, 400);
    assert_eq!(call("POST", &format!("{path}/publish"), Some(&publication())).0, 200);
    for export in ["audit-replay", "evidence"] {
        assert_eq!(call("GET", &format!("{path}/{export}"), None).0, 200);
    }
    let (code, decisions, _) = run(folder.path(), &[], &["decisions", "export"]);
    assert!(code == 0 && decisions.lines().count() >= 4, "{decisions}");
    answers.push(decisions);

    let (_, log) = process.terminate();
    assert!(
        log.iter().any(|line| line.contains("TRACE") || line.contains("DEBUG")),
        "the log must be verbose"
    );
    let mut files = Vec::new();
    read_files(folder.path(), &mut files);
    assert!(files.iter().any(|(path, _)| path.ends_with("gateway.db")));
    for canary in CANARIES {
        assert!(!answers.iter().any(|answer| answer.contains(canary)), "{canary} was answered");
        assert!(!log.iter().any(|line| line.contains(canary)), "{canary} was logged");
        assert_eq!(files.iter().find(|(_, bytes)| contains(bytes, canary)).map(|(path, _)| path), None);
    }
}
