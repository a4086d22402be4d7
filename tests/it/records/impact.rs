//! `policy impact`: the recorded decisions, evaluated by another bundle.

use super::decisions::RecordedDecisions;
use crate::harness::bundles::{key, paid_bundle, write_folder};
use crate::harness::process::{error_line, stdout};
use gateway_policy::bundle::pack;
use gateway_policy::{BundleFiles, PolicyEngine};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The folder of the committed default policy.
fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bundles/payment-guard")
}

/// A folder with the committed policy in which a word of code and manifest is replaced by another of the same length; without
/// vectors and signatures.
fn altered_policy(from: &str, to: &str) -> TempDir {
    assert_eq!(from.len(), to.len());
    let replaced = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        for at in 0..bytes.len().saturating_sub(from.len()) {
            if bytes[at..].starts_with(from.as_bytes()) {
                bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
            }
        }
        bytes
    };
    let files = BundleFiles::read(&committed()).unwrap();
    let kept =
        files.iter().filter(|(name, _)| !name.starts_with("tests/") && !name.starts_with("signatures/"));
    let files = BundleFiles::new(kept.map(|(name, bytes)| (name.to_owned(), replaced(bytes)))).unwrap();
    let files = pack::complete(&PolicyEngine::new().unwrap(), &files).unwrap();
    let folder = tempfile::tempdir().unwrap();
    write_folder(folder.path(), &files);
    folder
}

/// The report of `policy impact --json`.
fn impact(recorded: &RecordedDecisions, candidate: &Path, more: &[&str]) -> Value {
    let arguments = [&["policy", "impact", candidate.to_str().unwrap(), "--json"], more].concat();
    let out = stdout(recorded.run(&arguments));
    serde_json::from_str(&out).unwrap()
}

/// The counts of a report that are not zero.
fn counts(report: &Value) -> Value {
    let members = report.as_object().unwrap().iter();
    members
        .filter(|(name, count)| name.starts_with("n_") && **count != 0)
        .map(|(name, count)| (name.clone(), count.clone()))
        .collect()
}

#[test]
fn impact_evaluates_every_decision_with_the_candidate() {
    let recorded = RecordedDecisions::record();
    let lines = recorded.export(&[]);
    let n_lines = lines.len();
    let n_with = |word: &str| lines.iter().filter(|line| line["outcome"].to_string().contains(word)).count();

    let same = impact(&recorded, &committed(), &[]);
    assert_eq!(counts(&same), json!({ "n_decisions": n_lines, "n_same": n_lines }));
    assert_eq!((&same["unsigned"], &same["differences"]), (&json!(false), &json!([])));
    assert!(same["fuel_max"].as_u64().unwrap() >= same["fuel_median"].as_u64().unwrap());
    assert_eq!(counts(&impact(&recorded, &committed(), &["--last", "5"]))["n_decisions"], 5);

    // A renamed reason of payments.
    let n_payments = n_with("amount_positive");
    assert!(n_payments > 0 && n_payments < n_lines);
    let renamed = altered_policy("amount_positive", "amount_negative");
    let renamed = impact(&recorded, renamed.path(), &["--unsigned"]);
    let expected = json!({ "n_decisions": n_lines, "n_reasons": n_payments, "n_same": n_lines - n_payments });
    assert_eq!((counts(&renamed), &renamed["unsigned"]), (expected, &json!(true)));
    assert_eq!(renamed["differences"].as_array().unwrap().len(), n_payments.min(20));

    // The text output.
    let path = committed();
    let (code, out, _) = recorded.run(&["policy", "impact", path.to_str().unwrap(), "--unsigned"]);
    assert_eq!(code, 0);
    assert!(out.contains("UNSIGNED") && out.contains(&format!("decisions   {n_lines}\n")), "{out}");
}

/// The strict bundle does not permit the asset `btc`. For payments it reads past spending, which was not recorded and follows from the events.
#[test]
fn impact_counts_and_lists_decisions_that_a_stricter_policy_denies() {
    let recorded = RecordedDecisions::record();
    let lines = recorded.export(&[]);
    let n_of = |kind: &str| lines.iter().filter(|line| line["input"]["intent"]["kind"] == kind).count();
    let candidate = committed().with_file_name("payment-guard-strict");
    let strict = impact(&recorded, &candidate, &["--list", "1000"]);
    assert_eq!((n_of("asset_action"), n_of("key_create")), (4, 12), "{lines:#?}");
    assert_eq!(
        (&strict["n_allow_to_deny"], &strict["n_deny_to_allow"]),
        (&json!(4), &json!(0)),
        "{strict:#}"
    );
    let others = ["n_unknown", "n_uncertain", "n_faults"].map(|count| &strict[count]);
    assert_eq!(others, [0, 0, 0], "{strict:#}");
    let listed = strict["differences"].as_array().unwrap();
    let denied: Vec<_> = listed.iter().filter(|one| one["allow_to_deny"] == true).collect();
    assert!(denied.iter().all(|one| one["operation_id"].as_str().unwrap().len() == 64), "{listed:#?}");
    let (before, after) = (&denied[0]["before"], &denied[0]["after"]);
    assert_eq!((&before["decision"], &after["decision"]), (&json!("ALLOW"), &json!("DENY")));
    assert!(!after["reasons"][0]["operands"].as_array().unwrap().is_empty(), "{after:#}");

    // The payment counts from its admission on: not in its own decisions, but in the preview after it.
    let computed = |decision: &Value| {
        let facts = decision["computed"].as_array().unwrap().iter();
        let mut facts = facts.filter(|fact| fact["name"] == "velocity.account.24h.units");
        facts.next().map(|fact| fact["value"].as_str().unwrap().to_owned())
    };
    let of_paid: Vec<_> = listed.iter().filter(|one| one["operation_id"] == json!(recorded.paid)).collect();
    // Its submission, two approvals, its admission, and the approval that was refused.
    assert_eq!(of_paid.len(), 5, "{of_paid:#?}");
    assert!(of_paid.iter().all(|one| computed(one).as_deref() == Some("0")), "{of_paid:#?}");
    let preview = listed.iter().find(|one| one["decision"] == "preview 1").unwrap();
    let paid = json!({ "amount_minor": 12500, "currency": "EUR", "recipient": "acct-supplier-0042" });
    assert_eq!((computed(preview).as_deref(), &preview["payment"]), (Some("12500"), &paid));
    assert_eq!((&preview["subject_id"], &preview["assumed"]), (&json!("carol"), &json!([])));
    let amount = &strict["amounts"]["EUR"]["otherwise_different"];
    assert!(amount["payments"].as_u64().unwrap() >= 2, "{amount}");
    assert_eq!(amount["amount_minor"].as_u64(), amount["payments"].as_u64().map(|n| n * 12500));

    // The text output.
    let (_, out, _) = recorded.run(&["policy", "impact", candidate.to_str().unwrap(), "--list", "1000"]);
    for line in [
        "  submitted by carol (",
        "  pays         12500 EUR to acct-supplier-0042\n",
        "  computed     velocity.account.24h.units=12500\n",
        "\nEUR         otherwise_different: ",
    ] {
        assert!(out.contains(line), "`{line}` is not in {out}");
    }
}

/// The candidate requires three approvals for a recipient that was never paid.
#[test]
fn impact_knows_earlier_payments_to_the_recipient() {
    let recorded = RecordedDecisions::record();
    let folder = tempfile::tempdir().unwrap();
    write_folder(folder.path(), &paid_bundle(1, &key(1)));
    let report = impact(&recorded, folder.path(), &["--unsigned", "--list", "1000"]);
    assert_eq!((&report["n_unknown"], &report["n_uncertain"]), (&json!(0), &json!(0)), "{report:#}");
    let count = |decision: &Value| {
        let mut facts = decision["computed"].as_array().unwrap().iter();
        facts.find(|fact| fact["name"] == "recipient.paid_count").unwrap()["value"].clone()
    };
    let listed = report["differences"].as_array().unwrap();
    let of_paid: Vec<_> = listed.iter().filter(|one| one["operation_id"] == json!(recorded.paid)).collect();
    assert!(!of_paid.is_empty() && of_paid.iter().all(|one| count(one) == Value::Null), "{of_paid:#?}");
    let preview = listed.iter().find(|one| one["decision"] == "preview 1").unwrap();
    assert_eq!(count(preview), "1", "{preview:#}");
}

#[test]
fn impact_refuses_an_untrusted_candidate() {
    let recorded = RecordedDecisions::record();
    let untrusted = altered_policy("amount_positive", "amount_negative");
    let err = error_line(recorded.run(&["policy", "impact", untrusted.path().to_str().unwrap()]), 2);
    assert!(err.contains("has 0 of 1 signatures"), "{err}");
}
