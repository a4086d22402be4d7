//! Activation and refusal of bundles in the real process: through files, signals, signed records and crashes.

mod latency;
mod load;

use crate::harness::bundles::{Site, hash, key, release, replace, status, wait_until, wait_until_active};
use crate::harness::process::{Process, SIGN, text};
use crate::harness::samples::payment;
use serde_json::{Value, json};
use std::fs;

/// The answer to a preview, which must be 200.
fn preview(process: &Process) -> Value {
    process.post("/v1/policy/preview", Some(&json!({ "intent": payment("preview") })))
}

/// A submission must be refused, since the policy cannot decide.
#[track_caller]
fn assert_submission_unavailable(process: &Process, idempotency_key: &str) {
    let (status, answer) = process.call("POST", SIGN, Some(&payment(idempotency_key)));
    assert_eq!((status, &answer["error"]), (503, &json!("policy_unavailable")), "{answer}");
}

#[test]
fn newer_bundle_is_activated_on_sighup_and_not_before() {
    let site = Site::new();
    site.offer(&release(1, &key(1)));
    let mut process = site.start(0, None);
    assert_eq!(status(&process.address)["active"]["bundle_hash"], hash(&release(1, &key(1))));
    site.offer(&release(2, &key(1)));
    assert_eq!(status(&process.address)["active"]["activation_sequence"], 1);
    process.sighup();
    process.wait_for_line("policy bundle active");
    let shown = wait_until_active(&process.address, &release(2, &key(1)));
    assert_eq!(preview(&process)["bundle_hash"], hash(&release(2, &key(1))));
    let active = &shown["active"];
    assert_eq!((&active["kind"], &active["bundle"]["version"]), (&json!("activate"), &json!("test-2")));
    assert_eq!(active["bundle"]["validity"], json!({ "not_before_ms": null, "not_after_ms": null }));
    assert!(active["activated_at_ms"].as_u64() > Some(1_700_000_000_000));
    assert_eq!(active["signers"].as_array().unwrap().len(), 1);
    let sequences: Vec<_> =
        shown["history"].as_array().unwrap().iter().map(|it| it["activation_sequence"].clone()).collect();
    assert_eq!(sequences, [2, 1]);
}

#[test]
fn watched_bundle_is_activated_without_a_signal_and_refusals_are_reported() {
    let site = Site::new();
    site.offer(&release(5, &key(1)));
    let process = site.start(20, None);
    site.offer(&release(6, &key(2)));
    wait_until_active(&process.address, &release(6, &key(2)));
    let mut last_refused = release(6, &key(1));
    for (offered, why) in
        [(release(5, &key(1)), "is not above 6"), (release(7, &key(9)), "0 of 1 signatures")]
    {
        site.offer(&offered);
        let hash = hash(&offered);
        let shown = wait_until(&process.address, |it| {
            it["refused"][0]["bundle_hash"] == hash.as_str()
                && it["refused"][0]["why"].to_string().contains(why)
        });
        assert_eq!(shown["active"]["activation_sequence"], 6);
        assert_eq!(shown["last_refusal"]["offer"], "bundle");
        let (code, ready) = process.readiness();
        assert_eq!((code, &ready["status"]), (200, &json!("ready")), "{ready}");
        assert_eq!(ready["checks"]["policy"]["refused"][0]["bundle_hash"], hash);
        last_refused = offered;
    }
    let metrics = text(&process.address, "/metrics");
    for line in [
        "operation_gateway_policy_activations_total{kind=\"activate\"} 2",
        "operation_gateway_policy_refusals_total{offer=\"bundle\"} ",
        "operation_gateway_policy_judges 1",
    ] {
        assert!(metrics.contains(line), "`{line}` is not in {metrics}");
    }
    let active = hash(&release(6, &key(1)));
    assert!(metrics.contains(&format!("active_bundle_info{{bundle_hash=\"{active}\"}} 1")), "{metrics}");
    assert!(!metrics.contains(&hash(&last_refused)), "a refused bundle is a label");
}

#[test]
fn crash_between_record_and_swap_restarts_with_the_recorded_bundle() {
    let site = Site::new();
    site.offer(&release(1, &key(1)));
    // The failpoint is passed first by the activation at the start.
    let mut process = site.start(0, Some("policy-activation-recorded:2"));
    site.offer(&release(2, &key(1)));
    process.sighup();
    process.wait_for_line("failpoint policy-activation-recorded");
    process.kill();
    // It does not matter which bundle is in the folder at the restart.
    for offered in [None, Some(release(1, &key(1))), Some(release(2, &key(1)))] {
        match &offered {
            Some(files) => site.offer(files),
            None => fs::remove_dir_all(site.path("bundle")).unwrap(),
        }
        let process = site.start(0, None);
        let shown = wait_until_active(&process.address, &release(2, &key(1)));
        assert_eq!(shown["history"].as_array().unwrap().len(), 2);
        assert_eq!(preview(&process)["bundle_hash"], hash(&release(2, &key(1))));
        assert!(process.terminate().0.success());
    }
}

#[test]
fn signed_record_rolls_back_and_its_replay_is_refused() {
    let site = Site::new();
    let (old, new) = (release(1, &key(1)), release(2, &key(1)));
    site.offer(&old);
    let process = site.start(20, None);
    site.offer(&new);
    wait_until_active(&process.address, &new);
    site.write_record(3, &old);
    let shown = wait_until_active(&process.address, &old);
    assert_eq!(
        (&shown["active"]["kind"], &shown["active"]["reason"]),
        (&json!("rollback"), &json!("a test"))
    );
    let mut used = fs::read(site.path("activation.json")).unwrap();
    site.offer(&release(4, &key(1)));
    wait_until_active(&process.address, &release(4, &key(1)));
    used.push(b'\n');
    replace(&site.path("activation.json"), &used);
    let shown = wait_until(&process.address, |it| it["refused"][0]["offer"] == "activation");
    assert!(shown["refused"][0]["why"].to_string().contains("sequence 3 is not above 4"), "{shown}");
    assert_eq!(shown["active"]["bundle_hash"], hash(&release(4, &key(1))));
}

#[test]
fn revoked_signer_disables_its_bundle_until_an_acceptable_one_is_offered() {
    let site = Site::new();
    site.offer(&release(1, &key(1)));
    let mut process = site.start(0, None);
    assert_eq!(process.readiness().0, 200);
    site.trust(&[&key(1)]);
    process.sighup();
    process.wait_for_line("policy offer refused");
    wait_until(&process.address, |it| it["fault"] == "untrusted_bundle");
    let (code, body) = process.readiness();
    assert_eq!((code, &body["checks"]["policy"]["status"]), (503, &json!("failed")), "{body}");
    assert_eq!((&body["status"], &body["checks"]["store"]["status"]), (&json!("not_ready"), &json!("ok")));
    assert_submission_unavailable(&process, "revoked");
    assert_eq!(preview(&process)["reasons"], json!(["policy_fault:untrusted_bundle"]));
    drop(process);

    // A restarted gateway rejects the bundle too, and reports it.
    let process = site.start(20, None);
    assert_eq!(
        (process.readiness().0, &status(&process.address)["fault"]),
        (503, &json!("no_active_bundle"))
    );
    site.offer(&release(2, &key(2)));
    wait_until_active(&process.address, &release(2, &key(2)));
    assert_eq!(process.readiness().0, 200);
    process.post(SIGN, Some(&payment("revoked")));
}

/// The gateway must answer and record with this policy fault, while the first release stays active.
fn assert_no_decisions(site: &Site, process: &Process, fault: &str) {
    let shown = wait_until(&process.address, |it| it["fault"] == fault);
    assert_eq!(shown["active"]["bundle_hash"], hash(&release(1, &key(1))), "{shown}");
    let (code, body) = process.readiness();
    let policy = &body["checks"]["policy"];
    assert_eq!(
        (code, &policy["status"], &policy["detail"]),
        (503, &json!("failed"), &json!(fault)),
        "{body}"
    );
    assert!(text(&process.address, "/metrics").contains("operation_gateway_policy_judges 0"));
    assert_submission_unavailable(process, fault);
    // No event is stored: the log has one entry, the activation of the first release.
    let checkpoint = text(&process.address, "/v1/log/checkpoint");
    assert!(checkpoint.contains("\n1\n"), "{checkpoint}");
    let (code, exported, _) = site.run(&["decisions", "export"]);
    let records = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let last = records.rev().find(|record| record["input"]["moment"] == "submit").unwrap();
    let reported = [&last["place"], &last["outcome"]["decision"], &last["outcome"]["fault"]["kind"]];
    assert_eq!((code, reported), (0, [&json!("refusal"), &json!("DENY"), &json!(fault)]), "{last}");
    assert_eq!(preview(process)["reasons"], json!([format!("policy_fault:{fault}")]));
}

#[test]
fn missing_or_unsatisfiable_trust_roots_stop_decisions_and_activations() {
    let site = Site::new();
    site.offer(&release(1, &key(1)));
    let process = site.start(20, None);
    assert_eq!(process.readiness().0, 200);
    site.trust(&[&key(1), &key(2)]);
    assert_no_decisions(&site, &process, "untrusted_bundle");
    // A thief of the revoked key signs a release.
    site.offer(&release(2, &key(1)));
    wait_until(&process.address, |it| it["refused"].to_string().contains(&hash(&release(2, &key(1)))));
    assert_no_decisions(&site, &process, "untrusted_bundle");
    for damaged in [Some(""), Some("{"), None] {
        match damaged {
            Some(text) => replace(&site.path("trust.json"), text.as_bytes()),
            None => fs::remove_file(site.path("trust.json")).unwrap(),
        }
        assert_no_decisions(&site, &process, "no_trust_roots");
        site.trust(&[&key(1), &key(2)]);
        assert_no_decisions(&site, &process, "untrusted_bundle");
    }
    site.trust(&[]);
    wait_until_active(&process.address, &release(2, &key(1)));
    assert_eq!(process.readiness().0, 200);
    process.post(SIGN, Some(&payment("again")));
}

#[test]
fn start_without_trust_roots_comes_up_unready_and_recovers() {
    let site = Site::new();
    site.offer(&release(1, &key(1)));
    assert!(site.start(0, None).terminate().0.success());
    fs::remove_file(site.path("trust.json")).unwrap();
    let process = site.start(20, None);
    assert_eq!(
        (process.readiness().0, &status(&process.address)["fault"]),
        (503, &json!("no_active_bundle"))
    );
    assert_eq!(process.readiness().1["checks"]["policy"]["refused"][0]["offer"], "trust_roots");
    site.trust(&[]);
    wait_until_active(&process.address, &release(1, &key(1)));
    assert_eq!(process.readiness().0, 200);
}

#[test]
fn candidate_is_evaluated_in_shadow_without_effect() {
    let site = Site::new();
    site.offer(&release(1, &key(1)));
    site.offer_candidate(&release(2, &key(2)));
    let process = site.start(0, None);
    process.post(SIGN, Some(&payment("shadow")));
    // Three evaluations: of the development key's creation, its admission, and the payment.
    let shown = wait_until(&process.address, |it| it["candidate"]["shadow"]["evaluated"] == 3);
    let shadow = &shown["candidate"]["shadow"];
    assert_eq!((&shadow["same"], &shadow["dropped"]), (&json!(3), &json!(0)), "{shadow}");
    assert_eq!(shown["candidate"]["bundle"]["bundle_hash"], hash(&release(2, &key(2))));
    assert_eq!(shown["active"]["bundle_hash"], hash(&release(1, &key(1))));
    assert!(text(&process.address, "/metrics").contains("policy_shadow_total{result=\"same\"} 3"));
    wait_until_active(&process.address, &release(1, &key(1)));
}
