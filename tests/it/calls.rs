//! `operation-gateway op`, `key` and `policy preview` with the real process.

use crate::harness::approvers::Signers;
use crate::harness::custody;
use crate::harness::modes::{Deployment, Mode, TestCaller, claims};
use crate::harness::process::{Process, command};
use crate::harness::samples::payment;
use crate::harness::secrets::write_private;
use gateway_domain::testing::approvers::{key, registry};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Runs a command against the gateway at this address; returns exit code, output and errors.
fn call(folder: &Path, address: &str, arguments: &[&str]) -> (i32, String, String) {
    let mut command = command(folder, &[]);
    command.env_clear().env("OPERATION_GATEWAY_URL", format!("http://{address}")).args(arguments);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The JSON that a command prints, which must end with 0.
#[track_caller]
fn ok(folder: &Path, address: &str, arguments: &[&str]) -> Value {
    let (code, out, errors) = call(folder, address, arguments);
    assert_eq!(code, 0, "{arguments:?}: {out}{errors}");
    serde_json::from_str(&out).unwrap()
}

const PAY: [&str; 12] = [
    "op",
    "submit",
    "--idempotency-key=one",
    "--from=acct-operating",
    "--to=acct-supplier",
    "--amount-minor=12500",
    "--currency=EUR",
    "--reference=invoice 17",
    "--key=treasury-1",
    "--participants=0,1,2",
    "--subject=carol",
    "--json",
];

#[test]
fn payment_is_made_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    let run = |arguments: &[&str]| ok(folder.path(), &process.address, arguments);
    let submitted = run(&PAY);
    assert_eq!(
        (&submitted["state"], &submitted["intent"]["amount_minor"]),
        (&json!("pending_approval"), &json!(12500))
    );
    let id = submitted["operation_id"].as_str().unwrap();
    assert_eq!(run(&PAY)["operation_id"], id, "a repeat is the same operation");
    let other = PAY.map(|word| if word == "--amount-minor=12500" { "--amount-minor=99999" } else { word });
    let (code, printed, errors) = call(folder.path(), &process.address, &other);
    assert_eq!((code, printed.as_str()), (1, ""));
    assert!(errors.contains("idempotency_mismatch") && errors.contains(id), "{errors}");
    let mine = call(folder.path(), &process.address, &["op", "list", "--awaiting-me", "--subject=alice"]);
    assert!(mine.0 == 0 && mine.1.lines().count() == 1 && mine.1.contains(id), "{mine:?}");
    for subject in ["--subject=alice", "--subject=bob"] {
        run(&["op", "approve", id, subject]);
    }
    let none = call(folder.path(), &process.address, &["op", "list", "--awaiting-me", "--subject=alice"]);
    assert_eq!((none.0, none.1.as_str()), (0, ""));
    assert_eq!(run(&["op", "execute", id])["state"], "executed");
    assert_eq!(run(&["op", "publish", id])["state"], "published");
    assert_eq!(run(&["op", "show", id, "--wait-for=published"])["state"], "published");
    let evidence = folder.path().join("evidence.json");
    let (code, ..) =
        call(folder.path(), &process.address, &["op", "evidence", id, "--to", evidence.to_str().unwrap()]);
    assert_eq!(code, 0);
    let document: Value = serde_json::from_slice(&fs::read(evidence).unwrap()).unwrap();
    let (code, events, _) = call(
        folder.path(),
        &process.address,
        &["op", "watch", "--from=0", "--key=treasury-1", "--state=published", "--count=2"],
    );
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The key that was made on first use, and the payment.
    assert_eq!((code, &events[1]["operation_id"]), (0, &json!(id)));
    let of_payment = document["events"].as_array().unwrap().last().unwrap();
    assert_eq!(events[1]["seq"], of_payment["seq"]);
    let preview = folder.path().join("preview.json");
    fs::write(&preview, json!({ "intent": payment("other") }).to_string()).unwrap();
    assert_eq!(run(&["policy", "preview", preview.to_str().unwrap()])["decision"], "ALLOW");
}

#[test]
fn key_is_made_and_signs_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    let run = |arguments: &[&str]| ok(folder.path(), &process.address, arguments);
    let file = |name: &str, body: Value| {
        let path = folder.path().join(name);
        fs::write(&path, body.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (create, sign) = (file("key.json", custody::key("cold")), file("sign.json", custody::sign("s-1")));
    // Without a `client` in the body it is the caller.
    let mut body = custody::key("warm");
    body.as_object_mut().unwrap().remove("client");
    let warm = run(&["key", "create", &file("warm.json", body), "--subject=carol"]);
    assert_eq!((&warm["state"], &warm["intent"]["key_ref"]), (&json!("pending_approval"), &json!("warm")));
    let evidence =
        process.get(&format!("/v1/custody/operations/{}/evidence", warm["operation_id"].as_str().unwrap()));
    assert_eq!(
        (&evidence["submitter"]["client_id"], &evidence["submitter"]["subject_id"]),
        (&json!("command-line"), &json!("carol"))
    );
    for submit in [&["key", "create", &create][..], &["key", "sign", "cold", &sign]] {
        let submitted = run(submit);
        let id = submitted["operation_id"].as_str().unwrap();
        for subject in ["--subject=alice", "--subject=bob"] {
            run(&["op", "approve", id, subject]);
        }
        run(&["op", "execute", id]);
        if submit[1] == "sign" {
            assert_eq!(run(&["op", "publish", id])["state"], "published");
        }
    }
    assert_eq!(run(&["key", "show", "cold"])["state"], "active");
    let (code, keys, _) = call(folder.path(), &process.address, &["key", "list"]);
    assert!(code == 0 && keys.lines().count() == 2 && keys.contains("\"cold\""), "{keys}");
}

#[test]
fn failures_have_exit_codes_and_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path(), None, &[]);
    let run = |arguments: &[&str]| call(folder.path(), &process.address, arguments);
    let submitted = ok(folder.path(), &process.address, &PAY);
    let id = submitted["operation_id"].as_str().unwrap();
    let line = |(code, out, errors): (i32, String, String), expected: i32| {
        assert_eq!((code, out.as_str(), errors.lines().count()), (expected, "", 1), "{errors}");
        errors
    };
    let unknown = line(run(&["op", "show", &"0".repeat(64)]), 1);
    assert!(unknown.contains("404 (operation_not_found)"), "{unknown}");
    let early = line(run(&["op", "execute", id]), 1);
    assert!(early.contains("409 "), "{early}");
    let late = line(run(&["op", "show", id, "--wait-for=published", "--within=0"]), 3);
    assert!(late.contains("is still `pending_approval`"), "{late}");
    let nameless = line(run(&["op", "approve", id]), 2);
    assert!(nameless.contains("--subject"), "{nameless}");
    let away = line(call(folder.path(), "127.0.0.1:1", &["op", "show", id, "--retry-seconds=0"]), 4);
    assert!(away.contains("the gateway does not answer"), "{away}");
    let body = folder.path().join("faults.json");
    fs::write(&body, json!({ "payment": { "amount_minor": "x", "currency": 1 } }).to_string()).unwrap();
    let faults = line(run(&["op", "submit", body.to_str().unwrap()]), 1);
    assert!(faults.contains("/payment/amount_minor") && faults.contains("/payment/currency"), "{faults}");
    let missing = line(run(&["key", "create", "nothing.json"]), 2);
    assert!(missing.contains("`nothing.json` cannot be read"), "{missing}");
    run(&["op", "cancel", id, "--reason=twice"]);
    let (code, out, errors) = run(&["op", "show", id, "--wait-for=published"]);
    assert!(code == 1 && out.contains("cancelled") && errors.contains("failed with `cancelled`"), "{errors}");
}

#[test]
fn approver_signs_and_the_file_of_gateways_has_the_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let signers = Signers::new();
    let seed = folder.path().join("alice.key");
    write_private(&seed, hex::encode(key(1).to_bytes()));
    fs::write(signers.path(), registry(&signers.entries())).unwrap();
    let settings = signers.settings("optional");
    let process = Process::start(folder.path(), None, &settings);
    let gateways = folder.path().join("gateways.toml");
    let known = format!(
        "[local]\nurl = \"http://{}\"\nsubject = \"alice\"\nroles = [\"approver\"]\n",
        process.address
    );
    fs::write(&gateways, known).unwrap();
    let submitted = ok(folder.path(), &process.address, &PAY);
    let id = submitted["operation_id"].as_str().unwrap();
    let named = ["--gateways", gateways.to_str().unwrap(), "--gateway=local"];
    let signed = ["op", "approve", id, "--signing-key", seed.to_str().unwrap(), "--yes"];
    let (code, out, shown) = call(folder.path(), "127.0.0.1:1", &[&signed[..], &named].concat());
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("`alice` approves operation"), "{shown}");
    let approved: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(approved["approvals"]["subjects"], json!(["alice"]));
    let evidence = process.get(&format!("/v1/operations/{id}/evidence"));
    let disclosed = evidence["events"][2]["disclosures"].as_array().unwrap();
    assert!(disclosed.iter().any(|one| one["path"] == "/change/approval/signature"), "{disclosed:?}");
    let again = call(folder.path(), "127.0.0.1:1", &[&signed[..], &named].concat());
    assert_eq!((again.0, again.1, again.2.as_str()), (0, out, ""), "the answer to the first try was lost");
    let reject = ["op", "reject", id, "--reason=not ours", "--signing-key", seed.to_str().unwrap(), "--yes"];
    let (code, out, shown) = call(folder.path(), "127.0.0.1:1", &[&reject[..], &named].concat());
    assert_eq!(code, 0, "{shown}");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["failure"]["code"], "rejected");
    let (code, _, late) = call(folder.path(), "127.0.0.1:1", &[&signed[..], &named].concat());
    assert!(code == 2 && late.contains("the operation is `failed` already"), "{late}");
    let (code, _, errors) = call(
        folder.path(),
        "127.0.0.1:1",
        &["op", "show", id, "--gateways", gateways.to_str().unwrap(), "--gateway=other"],
    );
    assert!(code == 2 && errors.contains("has no gateway `other`"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn token_comes_from_a_private_file() {
    let folder = tempfile::tempdir().unwrap();
    let deployment = Deployment::start(Mode::Jwks).await;
    let caller = TestCaller {
        client: "desk",
        subject: "alice",
        roles: "approver",
        scopes: "operations.*",
        tenant: None,
    };
    let token = deployment.token(&claims(caller));
    let path = folder.path().join("token");
    fs::write(&path, format!("{token}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let arguments = ["op", "list", "--token-file", path.to_str().unwrap()];
    let (code, _, errors) = call(folder.path(), "127.0.0.1:1", &arguments);
    assert!(code == 2 && errors.contains("has mode 0644"), "{errors}");
    assert!(!errors.contains(&token));
}
