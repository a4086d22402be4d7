//! `policy impact`: what another policy would have decided.

use super::story::Story;
use crate::harness::bundles::write_folder;
use gateway_policy::bundle::pack;
use gateway_policy::{BundleFiles, PolicyEngine};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bundles/payment-guard")
}

/// The committed policy with one word, in code and manifest, replaced by another of the same length; without its vectors
/// and signatures.
fn candidate(from: &str, to: &str) -> TempDir {
    assert_eq!(from.len(), to.len());
    let exchanged = |bytes: &[u8]| {
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
    let files = BundleFiles::new(kept.map(|(name, bytes)| (name.to_owned(), exchanged(bytes)))).unwrap();
    let files = pack::complete(&PolicyEngine::new().unwrap(), &files).unwrap();
    let folder = tempfile::tempdir().unwrap();
    write_folder(folder.path(), &files);
    folder
}

fn impact(story: &Story, candidate: &Path, more: &[&str]) -> Value {
    let arguments = [&["policy", "impact", candidate.to_str().unwrap(), "--json"], more].concat();
    let (code, out, err) = story.tool(&arguments);
    assert_eq!((code, err.as_str()), (0, ""));
    serde_json::from_str(&out).unwrap()
}

/// Counts that are not zero.
fn counts(report: &Value) -> Value {
    let members = report.as_object().unwrap().iter();
    members
        .filter(|(name, count)| name.starts_with("n_") && **count != 0)
        .map(|(name, count)| (name.clone(), count.clone()))
        .collect()
}

#[test]
fn impact_evaluates_every_decision_with_the_candidate() {
    let story = Story::recorded();
    let lines = story.export(&[]);
    let n_lines = lines.len();
    let with = |word: &str| {
        let has = |line: &&Value| line["outcome"].to_string().contains(word);
        lines.iter().filter(has).count()
    };

    let same = impact(&story, &committed(), &[]);
    assert_eq!(counts(&same), json!({ "n_decisions": n_lines, "n_same": n_lines }));
    assert_eq!((&same["unsigned"], &same["differences"]), (&json!(false), &json!([])));
    assert!(same["fuel_max"].as_u64().unwrap() >= same["fuel_median"].as_u64().unwrap());
    assert_eq!(counts(&impact(&story, &committed(), &["--last", "5"]))["n_decisions"], 5);

    // One condition gives another reason: payments only.
    let n_payments = with("amount_positive");
    assert!(n_payments > 0 && n_payments < n_lines);
    let renamed = candidate("amount_positive", "amount_negative");
    let renamed = impact(&story, renamed.path(), &["--unsigned"]);
    let expected = json!({ "n_decisions": n_lines, "n_reasons": n_payments, "n_same": n_lines - n_payments });
    assert_eq!((counts(&renamed), &renamed["unsigned"]), (expected, &json!(true)));
    assert_eq!(renamed["differences"].as_array().unwrap().len(), n_payments.min(20));

    // A fact that was not recorded is unknown, not absent.
    let n_asked = with("deployment.permitted_recipients");
    let curious = candidate("deployment.permitted_recipients", "deployment.permitted_recipientz");
    let curious = impact(&story, curious.path(), &["--unsigned"]);
    let expected = json!({ "n_decisions": n_lines, "n_same": n_lines - n_asked, "n_unknown": n_asked });
    assert_eq!(counts(&curious), expected);

    // The text output.
    let path = committed();
    let (code, out, _) = story.tool(&["policy", "impact", path.to_str().unwrap(), "--unsigned"]);
    assert_eq!(code, 0);
    assert!(out.contains("UNSIGNED") && out.contains(&format!("decisions   {n_lines}\n")), "{out}");
}

/// The strict bundle has no asset `btc`, and reads past spending for payments, which was not recorded.
#[test]
fn impact_counts_and_lists_decisions_that_a_stricter_policy_denies() {
    let story = Story::recorded();
    let lines = story.export(&[]);
    let of = |kind: &str| lines.iter().filter(|line| line["input"]["intent"]["kind"] == kind).count();
    let strict = impact(&story, &committed().with_file_name("payment-guard-strict"), &[]);
    assert_eq!((of("asset_action"), of("key_create")), (4, 12), "{lines:#?}");
    assert_eq!(
        (&strict["n_allow_to_deny"], &strict["n_deny_to_allow"]),
        (&json!(4), &json!(0)),
        "{strict:#}"
    );
    assert_eq!((&strict["n_unknown"], &strict["n_faults"]), (&json!(of("payment")), &json!(0)), "{strict:#}");
    let listed = strict["differences"].as_array().unwrap();
    let denied: Vec<_> = listed.iter().filter(|one| one["allow_to_deny"] == true).collect();
    assert!(denied.iter().all(|one| one["operation_id"].as_str().unwrap().len() == 64), "{listed:#?}");
}

#[test]
fn impact_refuses_an_untrusted_candidate() {
    let story = Story::recorded();
    let untrusted = candidate("amount_positive", "amount_negative");
    let (code, out, err) = story.tool(&["policy", "impact", untrusted.path().to_str().unwrap()]);
    assert_eq!((code, out.as_str(), err.lines().count()), (2, "", 1), "{err}");
    assert!(err.contains("has 0 of 1 signatures"), "{err}");
}
