//! `operation-gateway evidence roots` and `evidence verify`, run as the real binary.

use crate::harness::process::{EXECUTE, Process, SIGN, drive, error_line, publish_step, run, stdout};
use crate::harness::samples::{path, payment};
use serde_json::{Value, json};
use std::path::Path;

/// Publishes a payment; returns the path of its view.
fn publish_payment(address: &str) -> String {
    path(&drive(address, SIGN, &payment("command"), &[EXECUTE, publish_step()]).unwrap(), "")
}

/// Verifies `evidence.json` with `roots.json` in the folder `reader`, where the gateway has no files.
fn verify(reader: &Path, arguments: &[&str]) -> (i32, String, String) {
    let path = |name: &str| reader.join(name).display().to_string();
    let (file, roots) = (path("evidence.json"), path("roots.json"));
    let all = [&["evidence", "verify", &file, "--trust", &roots], arguments].concat();
    run(&reader.join("no-gateway"), &[], &all)
}

#[test]
fn evidence_verifies_offline_after_the_gateway_stopped() {
    let (folder, reader) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let process = Process::start(folder.path(), None, &[]);
    let path = publish_payment(&process.address);
    let evidence = process.get(&format!("{path}/evidence"));
    let (code, roots, err) = run(folder.path(), &[], &["evidence", "roots"]);
    assert_eq!(code, 0, "{err}");
    drop(process);
    std::fs::write(reader.path().join("evidence.json"), evidence.to_string()).unwrap();
    std::fs::write(reader.path().join("roots.json"), &roots).unwrap();

    let bundle = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/payment-guard");
    let (code, out, err) = verify(reader.path(), &["--bundle", bundle]);
    assert_eq!(code, 3, "{out}{err}");
    let not_checked = [
        "--    policy facts: not checked: `deployment.permitted_recipients`, `deployment.required_approvals`, \
         `deployment.separation_of_duties` are claimed by the gateway alone: the roots do not list them",
        "--    approvals signed: not checked: the approval of `alice`, the approval of `bob` are claimed by the gateway alone: its approver did not sign it",
        "--    key: not checked: the intent names no public key, since the key was not generated when it was submitted",
        "every check that was made holds; those marked -- could not be made",
    ];
    let others: Vec<_> = out.lines().filter(|line| !line.starts_with("ok  ")).collect();
    assert_eq!(others, not_checked);
    assert!(out.contains("policy run again: 4 gave the same answer with the same fuel"), "{out}");

    let strict = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/payment-guard-strict");
    let (code, out, _) = verify(reader.path(), &["--bundle", strict]);
    assert!(
        code == 3 && out.contains("--    policy not run again: not checked: event 1: the bundle "),
        "{out}"
    );
    let (code, out, _) = verify(reader.path(), &["--bundle", strict, "--bundle", bundle]);
    assert!(
        code == 3 && out.contains("policy run again: 4 gave the same answer with the same fuel"),
        "{out}"
    );

    let (code, out, _) = verify(reader.path(), &["--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    let reported = (code, &report["verdict"], &report["checks"][0]["name"]);
    assert_eq!(reported, (3, &json!("not_checked"), &json!("form")));

    let id = evidence["operation_id"].as_str().unwrap();
    let (code, out, _) = verify(reader.path(), &["--operation", id]);
    assert!(code == 3 && out.contains(&format!("ok    operation: `{id}`")), "{out}");
    let (code, out, _) = verify(reader.path(), &["--operation", &"11".repeat(32)]);
    assert!(code == 1 && out.contains("FAIL  operation: /operation_id: the requested operation is"), "{out}");

    // With the facts and the bundle, everything can be checked and holds.
    let mut known: Value = serde_json::from_str(&roots).unwrap();
    known["facts"] = json!({
        "deployment.permitted_recipients": ["*"],
        "deployment.required_approvals": ["2"],
        "deployment.separation_of_duties": ["false"],
    });
    std::fs::write(reader.path().join("roots.json"), known.to_string()).unwrap();
    let (code, out, _) = verify(reader.path(), &[]);
    assert!(code == 3 && out.contains("ok    policy facts: "), "{out}");

    let mut tampered = evidence.clone();
    tampered["intent"]["amount_minor"] = json!(1);
    std::fs::write(reader.path().join("evidence.json"), tampered.to_string()).unwrap();
    let (code, out, _) = verify(reader.path(), &[]);
    assert_eq!(code, 1);
    assert!(
        out.contains(
            "FAIL  operation: /intent/amount_minor: differs from the value that follows from the events"
        ),
        "{out}"
    );
    assert!(out.ends_with("the evidence is not valid\n"), "{out}");
}

/// An auditor with the nodes' logs: the gateway shows everything, and then hides an operation.
#[test]
fn evidence_is_compared_with_the_logs_that_nodes_print() {
    let (folder, reader) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let process = Process::start(folder.path(), None, &[]);
    let evidence = process.get(&format!("{}/evidence", publish_payment(&process.address)));
    let hidden = drive(&process.address, SIGN, &payment("hidden"), &[EXECUTE]).unwrap();
    let write = |name: &str, text: &str| std::fs::write(reader.path().join(name), text).unwrap();
    // The nodes' databases are read while the gateway has them open.
    let mut logs = vec![];
    for node in ["0", "1", "2"] {
        let log = stdout(run(folder.path(), &[], &["nodes", "log", node]));
        write(&format!("{node}.jsonl"), &log);
        logs.push(log);
    }
    let err = error_line(run(folder.path(), &[], &["nodes", "log", "7"]), 2);
    assert!(err.contains("node 7 has no database"), "{err}");
    write("roots.json", &stdout(run(folder.path(), &[], &["evidence", "roots"])));
    write("evidence.json", &evidence.to_string());
    let unpublished = process.get(&path(&hidden, "/evidence"));
    write("hidden.json", &unpublished.to_string());
    drop(process);

    let file = |name: &str| reader.path().join(name).display().to_string();
    let nodes = ["0.jsonl", "1.jsonl", "2.jsonl"].map(|name| format!("--nodes={}", file(name)));
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let (code, out, err) = verify(reader.path(), &nodes);
    assert!(code == 3 && out.contains("ok    node logs: 3"), "{out}{err}");
    assert!(out.contains("ok    released shares: 11 receipts are at their positions"), "{out}");
    let (code, out, _) = verify(reader.path(), &nodes[..1]);
    assert!(code == 3 && out.contains("--    released shares: not checked: the logs of nodes 1, 2"), "{out}");

    // An altered log fails, and a log that is cut off.
    let (first, last) = (logs[0].lines().next().unwrap(), logs[0].lines().last().unwrap());
    let altered = logs[0].replacen("\"attempt\":1", "\"attempt\":2", 1);
    for forged in [altered, format!("{first}\n{last}\n")] {
        write("0.jsonl", &forged);
        let (code, out, _) = verify(reader.path(), &nodes);
        assert!(code == 1 && out.contains("FAIL  node logs: /nodes/0: "), "{out}");
    }
    write("0.jsonl", "{}\n");
    let err = error_line(verify(reader.path(), &nodes), 2);
    assert!(err.contains("0.jsonl") && err.contains("line 1 is not a line of a node's log"), "{err}");
    write("0.jsonl", &logs[0]);

    let audit = |documents: &[&str]| {
        let (documents, roots): (Vec<_>, _) =
            (documents.iter().map(|name| file(name)).collect(), file("roots.json"));
        let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
        let all = [&["evidence", "audit", "--trust", &roots], nodes.as_slice(), &documents].concat();
        run(&reader.path().join("no-gateway"), &[], &all)
    };
    let id = hidden["operation_id"].as_str().unwrap();
    let (code, out, err) = audit(&["evidence.json"]);
    let expected = format!("the node released a share for operation `{id}`, whose evidence was not given");
    assert!(
        code == 1 && out.lines().any(|line| line.starts_with("FAIL") && line.contains(&expected)),
        "{out}{err}"
    );
    // The key's creation is shown by neither.
    let (_, out, _) = audit(&["evidence.json", "hidden.json"]);
    assert!(!out.contains(&expected), "{out}");
    let failures: Vec<_> = out.lines().filter(|line| line.starts_with("FAIL")).collect();
    assert!(failures.len() == 1 && failures[0].contains("operations shown: /nodes/0/2: "), "{out}");
}

#[test]
fn roots_with_the_settings_of_policies_are_compared_with_what_policies_read() {
    let (folder, reader) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let process = Process::start(folder.path(), None, &[]);
    let evidence = process.get(&format!("{}/evidence", publish_payment(&process.address)));
    std::fs::write(reader.path().join("evidence.json"), evidence.to_string()).unwrap();
    let with = |settings: &[(&str, &str)]| {
        let (code, roots, note) = run(folder.path(), settings, &["evidence", "roots", "--with-policy"]);
        let pins = settings.iter().any(|(name, _)| *name == "policy_pins");
        assert!(code == 0 && note.contains("accept every bundle") != pins, "{note}");
        std::fs::write(reader.path().join("roots.json"), roots).unwrap();
        verify(reader.path(), &[])
    };
    let decided = evidence["policy"][0]["bundle_hash"].as_str().unwrap();
    let (code, out, _) = with(&[("policy_pins", decided)]);
    assert!(code == 3 && out.contains("ok    policy facts: "), "{out}");
    let (code, out, _) = with(&[("required_approvals", "3")]);
    assert!(code == 1 && out.contains("FAIL  policy facts: "), "{out}");
    let (code, out, _) = with(&[("policy_pins", &"0".repeat(64))]);
    assert!(code == 1 && out.contains("FAIL  ") && out.contains("bundle"), "{out}");
}

#[test]
fn unreadable_input_is_a_one_line_error() {
    let reader = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(reader.path().join(name), text).unwrap();
    let roots = json!({ "format": "svc/evidence-roots/v1", "authorities": [], "nodes": {}, "logs": [] });
    let cases = [
        (None, Some(roots.to_string()), "evidence.json"),
        (Some("{}"), None, "roots.json"),
        (Some("{"), Some(roots.to_string()), "not JSON"),
        (Some("{}"), Some("{}".to_owned()), "not a roots file"),
        (Some("{}"), Some(roots.to_string().replace("/v1", "/v9")), "format `svc/evidence-roots/v9`"),
        (Some("{}"), Some(roots.to_string().replace("\"logs\":[]", "\"logs\":[\"x\"]")), "a log key"),
    ];
    for (evidence, roots, part) in cases {
        for name in ["evidence.json", "roots.json"] {
            let _ = std::fs::remove_file(reader.path().join(name));
        }
        evidence.inspect(|text| write("evidence.json", text));
        roots.inspect(|text| write("roots.json", text));
        let err = error_line(verify(reader.path(), &[]), 2);
        assert!(err.contains(part), "{part}: {err}");
    }
    // A gateway that was never started has no roots, and asking for them creates none.
    let (code, _, err) = run(reader.path(), &[], &["evidence", "roots"]);
    assert!(code == 2 && err.lines().count() == 1, "{err}");
    assert!(!reader.path().join("authority.key").exists());
}
