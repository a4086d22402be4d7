//! Secrets in request bodies and credential identifiers appear in no log, view, export or stored byte.

use crate::harness::certificates::Authority;
use crate::harness::process::{Process, request, tool};
use crate::harness::samples::{approval, payment, publication, with};
use crate::harness::tls::{Files, Trust, connect};
use crate::harness::wire::ask;
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

/// Every file below a folder.
fn stored(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            stored(&path, found);
        } else {
            found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
}

fn holds(bytes: &[u8], canary: &str) -> bool {
    bytes.windows(canary.len()).any(|window| window == canary.as_bytes())
}

/// The key that seals the nodes' secrets is in the operator's own file only.
#[test]
fn node_key_appears_only_in_its_own_file() {
    let folder = tempfile::tempdir().unwrap();
    let passphrase = folder.path().join("passphrase");
    std::fs::write(&passphrase, "canary-passphrase-5e11").unwrap();
    std::fs::set_permissions(&passphrase, std::fs::Permissions::from_mode(0o600)).unwrap();
    for given in [&[][..], &[("node_passphrase_file", passphrase.to_str().unwrap())]] {
        let data = folder.path().join(format!("data-{}", given.len()));
        std::fs::create_dir(&data).unwrap();
        let process = Process::start(&data, None, &[&[("log", "trace")], given].concat());
        let submitted = request(&process.address, "POST", "/v1/operations/sign", Some(&payment("key")));
        assert_eq!(submitted.unwrap().0, 200);
        let mut files = Vec::new();
        stored(&data, &mut files);
        assert!(files.iter().any(|(path, _)| path.ends_with("node-0.db")));
        let key = data.join("nodes/node.key");
        let secret = if given.is_empty() {
            assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o7777, 0o600);
            std::fs::read_to_string(&key).unwrap().trim_end().to_owned()
        } else {
            assert!(!key.exists());
            std::fs::read_to_string(&passphrase).unwrap()
        };
        let own = key.display().to_string();
        let raw = hex::decode(&secret).unwrap_or_else(|_| secret.clone().into_bytes());
        for (path, bytes) in files.iter().filter(|(path, _)| *path != own) {
            assert!(!holds(bytes, &secret), "{path}");
            assert!(!bytes.windows(raw.len()).any(|window| window == raw), "{path}");
        }
        let (_, log) = process.terminate();
        assert!(!log.iter().any(|line| line.contains(&secret)));
    }
}

/// Seeds and the TLS key, raw and encoded, while the gateway serves, reloads, logs errors, rotates and shows keys.
#[test]
fn every_key_appears_only_in_its_own_file() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    let files = Files::write(folder.path(), &authority.server(), &authority);
    let given = [files.settings("off"), vec![("log", "trace")]].concat();
    let own = ["authority.key", "log.key", "nodes/node.key", "tls.key"].map(|name| folder.path().join(name));
    let mut printed = vec![tool(folder.path(), &given, &["keys", "generate"]).1];
    let secrets: Vec<_> = own.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let mut process = Process::start(folder.path(), None, &given);
    let mut stream = connect(&process.address, &Trust::new(&authority, None)).unwrap();
    assert_eq!(ask(&mut stream, "/readyz").unwrap().0, 200);
    assert!(
        request(&process.address, "GET", "/readyz", None).is_err(),
        "no TLS, and so a line at level DEBUG"
    );
    process.sighup();
    process.wait_for_line("reloaded certificates");
    std::fs::write(&files.certificate, "none").unwrap();
    process.sighup();
    process.wait_for_line("could not reload certificates");
    for arguments in [["keys", "show"].as_slice(), &["config"], &["evidence", "roots"]] {
        let (code, out, err) = tool(folder.path(), &given, arguments);
        assert_eq!(code, 0, "{err}");
        printed.extend([out, err]);
    }
    printed.extend(process.terminate().1);
    printed.push(tool(folder.path(), &given, &["keys", "rotate", "authority"]).1);
    printed.push(tool(folder.path(), &given, &["keys", "rotate", "node"]).1);

    let mut stored_files = Vec::new();
    stored(folder.path(), &mut stored_files);
    for (path, secret) in own.iter().zip(&secrets) {
        // For a PEM key, each line except the first and last; for a seed, its hex digits and its bytes.
        for line in secret.lines().filter(|line| !line.starts_with('-') && line.len() >= 32) {
            assert!(!printed.iter().any(|text| text.contains(line)), "{} was printed", path.display());
            let raw = hex::decode(line).unwrap_or_else(|_| line.as_bytes().to_vec());
            for (other, bytes) in stored_files.iter().filter(|(other, _)| Path::new(other) != path) {
                let is_there = holds(bytes, line) || bytes.windows(raw.len()).any(|window| window == raw);
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
        let (status, answer) = request(&process.address, method, path, body).unwrap();
        answers.push(answer.to_string());
        (status, answer)
    };
    let credentials = |body: Value| {
        let body = with(body, "/client/token_jti", json!(CANARIES[3]));
        with(body, "/client/cert_sha256", json!(CANARIES[4]))
    };
    let (_, submitted) = call("POST", "/v1/operations/sign", Some(&credentials(payment("canary"))));
    let preview = credentials(with(payment("canary"), "/idempotency_key", Value::Null));
    call("POST", "/v1/policy/preview", Some(&preview));
    let refused = credentials(with(payment("refused"), "/payment/amount_minor", json!(-1)));
    assert_eq!(call("POST", "/v1/operations/sign", Some(&refused)).0, 403);
    let path = format!("/v1/operations/{}", submitted["operation"]["operation_id"].as_str().unwrap());
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
    // Error paths must not repeat them either.
    let wrong = json!({ "signing_share_mul": [CANARIES[0]], "recovery_helper_shares": CANARIES[1] });
    assert_eq!(call("POST", &format!("{path}/execute"), Some(&wrong)).0, 400);
    let wrong = json!({ "effect_id": 7, "secret_kernel_payload": { "secret": CANARIES[2] } });
    assert_eq!(call("POST", &format!("{path}/node-recovery"), Some(&wrong)).0, 400);
    assert_eq!(call("POST", &format!("{path}/publish"), Some(&publication())).0, 200);
    for export in ["audit-replay", "evidence"] {
        assert_eq!(call("GET", &format!("{path}/{export}"), None).0, 200);
    }
    let (code, decisions, _) = tool(folder.path(), &[], &["decisions", "export"]);
    assert!(code == 0 && decisions.lines().count() >= 4, "{decisions}");
    answers.push(decisions);

    let (_, log) = process.terminate();
    assert!(
        log.iter().any(|line| line.contains("TRACE") || line.contains("DEBUG")),
        "the log must be verbose"
    );
    let mut files = Vec::new();
    stored(folder.path(), &mut files);
    assert!(files.iter().any(|(path, _)| path.ends_with("gateway.db")));
    for canary in CANARIES {
        assert!(!answers.iter().any(|answer| answer.contains(canary)), "{canary} was answered");
        assert!(!log.iter().any(|line| line.contains(canary)), "{canary} was logged");
        assert_eq!(files.iter().find(|(_, bytes)| holds(bytes, canary)).map(|(path, _)| path), None);
    }
}
