//! The steps of `host/docs/policy-authors.md`: from an empty folder to a policy decision.

use super::reports::mask_hashes;
use super::{CommandOutput, bundle, command, value};
use crate::harness::custody;
use crate::harness::process::{EXECUTE, Process, SIGN, drive, publish_step};
use crate::harness::samples::{approval, path, with};
use crate::harness::terminal::run_at_terminal;
use crate::harness::verify;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn guide_path() -> PathBuf {
    super::repository().join("host/docs/policy-authors.md")
}

fn guide() -> String {
    fs::read_to_string(guide_path()).unwrap()
}

/// The transcript at the beginning of the guide.
fn transcript(guide: &str) -> &str {
    guide.split("```text\n").nth(1).unwrap().split("```").next().unwrap()
}

/// The commands of a transcript: lines that begin with `$` and may end with a time, each without the output below it.
fn commands(transcript: &str) -> Vec<&str> {
    transcript.split("$ ").skip(1).map(|step| step.lines().next().unwrap()).collect()
}

/// The words after `operation-gateway` in a command of the transcript.
fn arguments(command: &str) -> Vec<&str> {
    let mut words = command.split("  ").next().unwrap().split(' ');
    assert_eq!(words.next().unwrap(), "operation-gateway", "{command}");
    words.collect()
}

/// Runs the commands of the guide's transcript at a terminal, except the last one, which starts the gateway. Returns the
/// transcript with what they print, and the arguments of the last one.
///
/// With `INSTA_UPDATE=always` it writes a transcript that differs into the guide.
fn run_transcript(folder: &Path) -> (String, Vec<String>) {
    let guide = guide();
    let expected = transcript(&guide);
    let mut commands = commands(expected);
    let serve = commands.pop().unwrap();
    let mut printed = String::new();
    for line in commands {
        let arguments = arguments(line);
        let mut command = command(folder);
        assert_eq!(arguments[0], "bundle");
        command.args(&arguments[1..]);
        let (output, screen) = run_at_terminal(command, "");
        assert!(output.status.success(), "{line}: {screen}");
        printed += &format!("$ {line}\n{}", String::from_utf8(output.stdout).unwrap());
        match arguments[1] {
            "build" | "test" => {
                assert!(screen.contains("compiling the component"), "{line}: {screen}");
                assert!(
                    screen.contains("Compiling") && screen.contains("acme-limits v0.1.0"),
                    "{line}: {screen}"
                );
            }
            _ => assert_eq!(screen, "", "{line}"),
        }
    }
    printed += &format!("$ {serve}\n");
    let is_same = mask_hashes(expected) == mask_hashes(&printed);
    if !is_same && std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(guide_path(), guide.replacen(expected, &printed, 1)).unwrap();
    }
    assert!(
        is_same,
        "the guide shows another output than the commands print; INSTA_UPDATE=always corrects it:\n{printed}"
    );
    (printed, arguments(serve).into_iter().map(str::to_owned).collect())
}

/// Runs the commands of the guide at a terminal, then the quickstart under the new policy.
#[test]
fn guide_shows_what_its_commands_print_and_the_new_policy_admits_the_quickstart() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let (printed, serve) = run_transcript(here);
    let hash = value(&printed, "bundle hash").to_owned();

    let pinned = ["verify", "acme-limits", "--trust", "roots.json", "--pin", &hash];
    assert_eq!(value(&bundle(here, &pinned).ok(), "bundle hash"), hash);
    bundle(here, &["lint", "acme-limits", "--strict"]).ok();
    bundle(here, &["pack", "acme-limits", "acme-limits.tar"]).ok();
    let activate = ["activate", "acme-limits.tar", "--into", "active", "--trust", "roots.json"];
    assert_eq!(value(&bundle(here, &activate).ok(), "bundle hash"), hash);

    let settings: Vec<(String, String)> = serve
        .chunks(2)
        .map(|pair| (pair[0][2..].replace('-', "_"), here.join(&pair[1]).to_str().unwrap().to_owned()))
        .chain([("policy_pins".to_owned(), hash.clone())])
        .collect();
    let settings: Vec<_> = settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let gateway = Process::start(here, None, &settings);
    let preview = |amount_minor: i64| {
        let (status, answer) =
            gateway.call("POST", "/v1/policy/preview", Some(&json!({ "intent": quickstart(amount_minor) })));
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let answer = preview(12_500);
    assert_eq!((&answer["decision"], &answer["bundle_hash"]), (&json!("ALLOW"), &json!(hash)));
    assert_eq!(answer["reasons"], json!(["amount_permitted: amount 12500, currency EUR, limit 100000"]));
    assert_eq!(preview(100_001)["decision"], "DENY");

    let view = drive(&gateway.address, SIGN, &quickstart(12_500), &[EXECUTE, publish_step()]).unwrap();
    assert_eq!(
        (&view["state"], &view["approvals"]["subjects"]),
        (&json!("published"), &json!(["alice", "bob"]))
    );
    verify::bip340(&view);
    // The key that this payment needed was created by the gateway itself; a client may not create one.
    let (status, refused) = gateway.call("POST", custody::KEYS, Some(&custody::key("treasury-1")));
    assert_eq!((status, &refused["error"]), (403, &json!("policy_rejected")), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("not_a_payment"), "{refused}");
    // The template gives no reason for an approval that does not count.
    let other = with(quickstart(1), "/idempotency_key", json!("own"));
    let operation = gateway.post(SIGN, Some(&other))["operation"].clone();
    let (status, refused) = gateway.call("POST", &path(&operation, "/approve"), Some(&approval("carol")));
    assert_eq!(
        (status, &refused["message"]),
        (403, &json!("approval of `carol` does not count: the policy gives no reason, and lacks 2 more"))
    );
}

/// The payment of `scripts/quickstart`, which names no key.
fn quickstart(amount_minor: i64) -> Value {
    json!({
        "idempotency_key": "quickstart-1",
        "payment": {
            "from_account": "acct-operating", "to_account": "acct-supplier", "amount_minor": amount_minor, "currency": "EUR",
        },
        "requested_participants": [0, 1, 2],
        "publication_mode": "manual",
        "client": { "client_id": "treasury", "subject_id": "carol", "roles": ["operator"], "scopes": ["operations.sign"] },
    })
}

#[test]
fn guide_has_every_command() {
    let (guide, help) = (guide(), bundle(&super::repository(), &["--help"]).ok());
    let table = guide.split("\n## Commands\n").nth(1).unwrap();
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names: Vec<_> = commands.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"complete") && names.contains(&"help"), "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        let is_named = table
            .lines()
            .any(|line| line.contains(&format!("`{name} ")) || line.contains(&format!("`{name}`")));
        assert!(is_named, "the guide does not list `{name}`");
    }
}

#[test]
fn build_gives_the_same_bytes_in_another_folder() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let deep = other.path().join("a folder/that is deeper and has spaces");
    fs::create_dir_all(&deep).unwrap();
    let build = |folder: &std::path::Path, settings: &[(&str, &str)]| {
        bundle(folder, &["new", "acme"]).ok();
        let mut build = command(folder);
        build.args(["build", "acme", "--locked"]).envs(settings.iter().copied());
        let output = CommandOutput::from(build.output().unwrap());
        assert_eq!(output.stderr, "", "progress is for terminals");
        output.ok();
        let read = |name: &str| fs::read(folder.join("acme/bundle").join(name)).unwrap();
        (read("policy.wasm"), read("manifest.json"))
    };
    // Build settings of a machine must change nothing.
    let other_settings = [("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"), ("RUSTFLAGS", "-Copt-level=1")];
    let (first, second) = (build(one.path(), &[]), build(&deep, &other_settings));
    assert!(first == second, "{} and {} bytes", first.0.len(), second.0.len());
    let path = one.path().to_str().unwrap().as_bytes();
    assert!(!first.0.windows(path.len()).any(|window| window == path), "the component contains a path");

    let source = one.path().join("acme/policy/src/lib.rs");
    let changed = fs::read_to_string(&source).unwrap().replace("amount_permitted\"", "amount_tolerated\"");
    fs::write(&source, changed).unwrap();
    let check = bundle(one.path(), &["build", "acme", "--locked", "--check"]);
    assert!(check.error_line().contains("the bundle has"), "the sources no longer give the component");

    // A policy that panics, in the component only, says where and why.
    let panics = "if cfg!(target_arch = \"wasm32\") { panic!(\"no rate of {}\", payment.currency) }\n    let pointer =";
    let broken = fs::read_to_string(&source).unwrap().replacen("let pointer =", panics, 1);
    fs::write(&source, broken.replace("amount_tolerated\"", "amount_permitted\"")).unwrap();
    let failed = bundle(one.path(), &["test", "acme"]);
    let shown = &failed.stdout;
    let place = rest_of_line(shown, "the policy wrote: panicked at policy/src/lib.rs:");
    assert!(place.contains("no rate of EUR"), "{shown}\n{}", failed.stderr);
}

/// The rest of the line after this text.
fn rest_of_line<'a>(text: &'a str, before: &str) -> &'a str {
    text.split_once(before).map_or("", |(_, rest)| rest.lines().next().unwrap_or_default())
}
