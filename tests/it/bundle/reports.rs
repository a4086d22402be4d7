//! Reports that the subcommands print. In snapshots, hashes and large numbers are replaced, since they change with the policy.

use super::{
    alter_manifest, bundle, committed, copy, copy_unsigned, manifest, payment_guard, replace_in, sign,
};
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::fs;

/// Replaces hexadecimal words of 32 or more digits by `[hash]`, and numbers of four or more digits by `[n]`.
fn mask(text: &str) -> String {
    let is_number = |word: &str| word.len() >= 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    mask_words(text, |word| hash_mask(word).or(is_number(word).then_some("[n]")))
}

/// Replaces hexadecimal words of 32 or more digits by `[hash]`.
pub(super) fn mask_hashes(text: &str) -> String {
    mask_words(text, hash_mask)
}

fn hash_mask(word: &str) -> Option<&'static str> {
    let is_hash = word.len() >= 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then_some("[hash]")
}

/// Replaces each word that has a mask.
fn mask_words(text: &str, mask: impl Fn(&str) -> Option<&'static str>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let end = rest.find(|character| !is_word(character)).unwrap_or(rest.len()).max(first.len_utf8());
        let (word, after) = rest.split_at(end);
        out.push_str(mask(word).unwrap_or(word));
        rest = after;
    }
    out
}

fn guard() -> String {
    payment_guard().to_str().unwrap().to_owned()
}

#[test]
fn help_lists_all_subcommands() {
    assert_snapshot!(bundle(&payment_guard(), &["--help"]).ok());
}

#[test]
fn inspect_prints_manifest_and_signers() {
    assert_snapshot!(mask(&bundle(&payment_guard(), &["inspect", "."]).ok()));
}

#[test]
fn inspect_reports_files_that_do_not_match() {
    let folder = tempfile::tempdir().unwrap();
    copy(&payment_guard(), folder.path());
    let at = |name: &str| folder.path().join(name);
    fs::write(at("tests/extra.json"), "[]").unwrap();
    fs::write(at("tests/quorum.json"), "[]").unwrap();
    fs::remove_file(at("tests/custody.json")).unwrap();
    let output = bundle(folder.path(), &["inspect", "."]).ok();
    let faults: Vec<_> = output.lines().filter(|line| line.starts_with("FAULT")).collect();
    let expected = [
        "FAULT       `tests/custody.json` is missing",
        "FAULT       `tests/quorum.json` was changed",
        "FAULT       `tests/extra.json` is not in the manifest",
    ];
    assert_eq!(faults, expected);
    assert!(output.contains("over this manifest, not verified"), "{output}");
    replace_in(&at("manifest.json"), "\"version\": \"", "\"version\": \"9");
    let output = bundle(folder.path(), &["inspect", "."]).ok();
    assert!(output.contains("over ANOTHER MANIFEST, not verified"), "{output}");
}

#[test]
fn lint_prints_findings() {
    assert_snapshot!(mask(&bundle(&payment_guard(), &["lint", "."]).ok()));
    let json = bundle(&payment_guard(), &["lint", ".", "--json"]).ok();
    assert_eq!(
        json,
        bundle(&payment_guard(), &["lint", &guard(), "--json"]).ok(),
        "the report depends on the path"
    );
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["bundle_id"], "payment-guard");
}

#[test]
fn verify_prints_signers_and_vectors() {
    let trust = committed("trust-development.json");
    assert_snapshot!(mask(&bundle(&payment_guard(), &["verify", ".", "--trust", &trust]).ok()));
}

#[test]
fn failing_vector_is_reported_by_test_and_lint() {
    let folder = tempfile::tempdir().unwrap();
    copy_unsigned(folder.path());
    let unused =
        r#""obligations": [ { "code": "never_said", "text": "", "severity": "error", "remedy": "" },"#;
    replace_in(&folder.path().join("manifest.json"), "\"obligations\": [", unused);
    replace_in(&folder.path().join("tests/custody.json"), "\"required\": 2", "\"required\": 3");
    assert_snapshot!("failing_vector_test", mask(&bundle(folder.path(), &["test", "."]).findings()));
    assert_snapshot!("failing_vector_lint", mask(&bundle(folder.path(), &["lint", "."]).findings()));
}

#[test]
fn answers_to_vectors_that_pass_are_shown_on_request_and_in_json() {
    let guard = payment_guard();
    let run = |arguments: &[&str]| bundle(&guard, &[&["test", "."], arguments].concat()).ok();
    let answers = run(&["--answers"]);
    let first = "passed  tests/custody.json: ";
    assert!(
        answers.starts_with(first) && answers.contains("\n  says      quorum_reached: approvals 2"),
        "{answers}"
    );
    assert!(answers.ends_with(&run(&[])), "the report follows");
    let json: Value = serde_json::from_str(&run(&["--json"])).unwrap();
    let vectors = json["vectors"].as_array().unwrap();
    assert_eq!(vectors.len(), answers.matches("passed  tests/").count());
    assert!(vectors.iter().all(|it| it["passes"] == true && it["actual"] == it["expected"]), "{json}");
    assert!(vectors.iter().any(|it| it["statements"][0].is_string()), "{json}");
}

#[test]
fn undeclared_fact_is_reported_by_name() {
    let folder = tempfile::tempdir().unwrap();
    copy_unsigned(folder.path());
    for file in ["custody", "payments", "quorum"] {
        let path = folder.path().join(format!("tests/{file}.json"));
        let mut vectors: Vec<Value> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        vectors.truncate(1);
        vectors[0]["facts"] = json!({});
        fs::write(path, json!(vectors).to_string()).unwrap();
    }
    alter_manifest(folder.path(), |manifest| manifest["facts"] = json!([]));
    bundle(folder.path(), &["complete", "."]).ok();
    let undeclared = "undeclared_fact: `deployment.permitted_recipients`";
    let tested = bundle(folder.path(), &["test", "."]).findings();
    assert!(tested.contains(&format!("\n  fault     {undeclared}\n")), "{tested}");
    let json = bundle(folder.path(), &["test", ".", "--json"]).findings();
    let json: Value = serde_json::from_str(&json).unwrap();
    let faults: Vec<_> = json["vectors"].as_array().unwrap().iter().map(|it| &it["fault"]).collect();
    assert!(faults.contains(&&json!(undeclared)), "{json}");
    let linted = bundle(folder.path(), &["lint", "."]).findings();
    let finding = format!("vector_faults: a vector ends in the fault {undeclared}, not in a verdict\n");
    assert!(linted.contains(&finding), "{linted}");
    let refused = sign(folder.path(), ".").error_line();
    assert!(refused.contains("gives the fault undeclared_fact: `deployment."), "{refused}");
}

#[test]
fn bundle_of_another_tool_is_completed_and_can_be_signed() {
    let folder = tempfile::tempdir().unwrap();
    copy(&payment_guard(), folder.path());
    let complete = || bundle(folder.path(), &["complete", "."]).ok();
    assert!(complete().contains("(unchanged)"), "a complete bundle was changed");
    let mut committed_files = Value::Null;
    alter_manifest(folder.path(), |manifest| {
        committed_files = manifest["files"].take();
        (manifest["files"], manifest["capabilities"]) = (json!({}), json!([]));
    });
    let output = complete();
    assert!(output.contains("signatures  1 of the previous bundle dropped"), "{output}");
    assert_eq!(manifest(folder.path())["files"], committed_files);
    let signed = sign(folder.path(), ".").ok();
    let inspected = bundle(&payment_guard(), &["inspect", "."]).ok();
    assert_eq!(super::value(&signed, "bundle hash"), super::value(&inspected, "bundle hash"));
}

#[test]
fn reason_codes_without_a_vector_fail_only_when_requested() {
    let folder = tempfile::tempdir().unwrap();
    copy(committed("payment-guard-strict").as_ref(), folder.path());
    bundle(folder.path(), &["test", ".", "--strict"]).ok();
    fs::remove_dir_all(folder.path().join("signatures")).unwrap();
    fs::remove_file(folder.path().join("tests/custody.json")).unwrap();
    let output = bundle(folder.path(), &["test", "."]).ok();
    assert!(output.contains("not covered: `custody_intent_permitted`"), "{output}");
    bundle(folder.path(), &["test", ".", "--strict"]).findings();
}

#[test]
fn diff_prints_changed_files_and_decisions() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    copy(&payment_guard(), &old);
    copy(&payment_guard(), &new);
    let none = bundle(folder.path(), &["diff", "old", "new"]).ok();
    assert!(none.contains("verdicts    0 of ") && none.lines().count() == 3, "{none}");

    fs::remove_dir_all(new.join("signatures")).unwrap();
    fs::remove_file(new.join("tests/custody.json")).unwrap();
    let manifest = fs::read_to_string(new.join("manifest.json")).unwrap();
    // With less fuel than the heaviest vector needs, the same code gives another answer.
    let start = manifest.find("\"fuel\": ").unwrap() + "\"fuel\": ".len();
    let end = start + manifest[start..].find(',').unwrap();
    let manifest = format!("{}{}{}", &manifest[..start], 6_000, &manifest[end..]);
    let manifest = manifest.replacen("\"amount_positive\"", "\"amount_plus\"", 1);
    fs::write(new.join("manifest.json"), manifest).unwrap();
    let output = bundle(folder.path(), &["diff", "old", "new"]).ok();
    for part in [
        "~ limits/fuel: ",
        "- file tests/custody.json: ",
        "- reason amount_positive: (info) ",
        "+ reason amount_plus: (info) ",
        "policy_fault:",
    ] {
        assert!(output.contains(part), "no `{part}` in {output}");
    }
    let json: Value =
        serde_json::from_str(&bundle(folder.path(), &["diff", "old", "new", "--json"]).ok()).unwrap();
    assert!(!json["verdicts"]["differences"].as_array().unwrap().is_empty());
    // The vectors of both bundles are evaluated, whichever is the old one.
    let back: Value =
        serde_json::from_str(&bundle(folder.path(), &["diff", "new", "old", "--json"]).ok()).unwrap();
    assert_eq!(back["verdicts"]["n_asked"], json["verdicts"]["n_asked"]);
}

/// A new version that reads more facts has vectors that the old version cannot answer.
#[test]
fn diff_reports_vectors_with_facts_that_one_bundle_does_not_declare() {
    let (guard, strict) = (guard(), committed("payment-guard-strict"));
    let diff = |old: &str, new: &str| -> Value {
        serde_json::from_str(&bundle(&payment_guard(), &["diff", old, new, "--json"]).ok()).unwrap()
    };
    let (upgrade, back) = (diff(&guard, &strict), diff(&strict, &guard));
    let verdicts = &upgrade["verdicts"];
    let only_new = verdicts["only_new"].as_array().unwrap();
    let velocity = |one: &&Value| one["file"] == "tests/velocity.json";
    assert!(only_new.iter().any(|one| velocity(&one)), "{verdicts}");
    for one in only_new {
        assert!(one["undeclared_fact"].as_str().unwrap().starts_with("velocity."), "{one}");
        assert!(one["answer"]["decision"].is_string(), "{one}");
    }
    assert_eq!(verdicts["only_old"], json!([]));
    assert!(
        verdicts["n_asked"].as_u64().unwrap() > 0,
        "vectors whose facts both declare are run: {verdicts}"
    );
    assert_eq!(back["verdicts"]["only_old"], verdicts["only_new"]);
    assert_eq!(back["verdicts"]["only_new"], json!([]));
    assert_eq!(back["verdicts"]["n_asked"], verdicts["n_asked"]);

    let text = bundle(&payment_guard(), &["diff", &guard, &strict]).ok();
    let one = &only_new[0];
    let name = |member: &str| one[member].as_str().unwrap();
    let line = format!("+ {}: {}\n    old  not run: ", name("file"), name("name"));
    assert!(text.contains(&line), "no `{line}` in {text}");
    assert!(
        text.contains(&format!("does not declare the fact `{}`\n    new  ", name("undeclared_fact"))),
        "{text}"
    );
    let end = format!("; {} run by the new bundle only, 0 by the old bundle only\n", only_new.len());
    assert!(text.ends_with(&end), "{text}");
    let text = bundle(&payment_guard(), &["diff", &strict, &guard]).ok();
    assert!(text.contains(&format!("- {}: {}\n    old  ", name("file"), name("name"))), "{text}");
}

#[test]
fn bench_prints_times_and_fuel() {
    let output = bundle(&payment_guard(), &["bench", ".", "--rounds", "3"]).ok();
    assert!(output.contains("p99 us") && output.contains("fuel        "), "{output}");
    let json = bundle(&payment_guard(), &["bench", ".", "--rounds", "3", "--json"]).ok();
    let report: Value = serde_json::from_str(&json).unwrap();
    for cost in report["vectors"].as_array().unwrap() {
        assert!(
            cost["fuel"].as_u64().unwrap() > 0 && cost["memory_bytes"].as_u64().unwrap() >= 65_536,
            "{cost}"
        );
    }
}

#[test]
fn every_command_prints_json() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    copy_unsigned(&here.join("guard"));
    let (key, trust) = (committed("development-signing-key.json"), committed("trust-development.json"));
    let hash = "ab".repeat(32);
    fs::write(here.join("rates.json"), r#"{ "EUR": "1.05" }"#).unwrap();
    let document = ["document", "rates.json", "--name", "rates", "--sequence", "1", "--not-after", "1"];
    let document = [&document[..], &["--key", &key, "--out", "signed.json"]].concat();
    let commands: [&[&str]; 17] = [
        &["new", "acme"],
        &["build", "guard", "--component", "guard/policy.wasm"],
        &["complete", "guard"],
        &["test", "guard"],
        &["bench", "guard", "--rounds", "1"],
        &["key", "new", "author.key", "--roots", "roots.json"],
        &["sign", "guard", "--key", &key],
        &["wit"],
        &["verify", "guard", "--trust", &trust],
        &["inspect", "guard"],
        &["lint", "guard"],
        &["diff", "guard", "guard"],
        &["pack", "guard", "guard.tar"],
        &["activate", "guard", "--into", "active", "--trust", &trust],
        &["rollback", "--to", &hash, "--sequence", "9", "--reason", "why", "--key", &key, "--out", "record"],
        &["countersign", "record", "--key", &key],
        &document,
    ];
    for arguments in commands {
        let output = bundle(here, &[arguments, &["--json"]].concat()).ok();
        let parsed: Result<Value, _> = serde_json::from_str(&output);
        assert!(parsed.is_ok_and(|json| json.is_object()), "{arguments:?}: {output}");
    }
    let help = bundle(here, &["--help"]).ok();
    let n_commands =
        help.lines().filter(|line| line.starts_with("  ") && line.as_bytes()[2].is_ascii_lowercase()).count();
    assert_eq!(n_commands, commands.len() + 1, "every command but `help` is above: {help}");
}

#[test]
fn wit_prints_the_contract_unchanged() {
    let contract = fs::read_to_string(super::repository().join("wit/policy.wit")).unwrap();
    assert_eq!(bundle(&payment_guard(), &["wit"]).ok(), contract);
}
