//! The real process with witnesses of its log: honest ones, and ones that lie.

mod restored;

use crate::harness::certificates::Authority;
use crate::harness::http::Call;
use crate::harness::process::{EXECUTE, Process, SIGN, command, drive, publish_step, run, text};
use crate::harness::samples::{path, payment};
use crate::harness::wire::{eventually, poll};
use crate::harness::witness::{Mode, Seen, Witness, log_key, policy, vkey, write_policy};
use gateway_domain::log::{SignedCheckpoint, TlogProof, WitnessPolicy};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Starts a gateway with these witnesses, of which `needed` must cosign.
fn start(folder: &Path, witnesses: &[&Witness], needed: usize, overrides: &[(&str, &str)]) -> Process {
    let policy = policy(folder, witnesses, needed);
    let own = [("witness_policy", policy.to_str().unwrap()), ("witness_every_ms", "50")];
    Process::start(folder, None, &[&own, overrides].concat())
}

/// A gateway whose log all these witnesses cosigned, with a payment; its operation, and the checkpoint.
fn cosigned_payment(folder: &Path, witnesses: &[&Witness]) -> (Process, Value, String) {
    let process = start(folder, witnesses, witnesses.len(), &[]);
    let view = drive(&process.address, SIGN, &payment("one"), &[EXECUTE, publish_step()]).unwrap();
    let shown = witnessed(&process);
    (process, view, shown)
}

fn submit(process: &Process, idempotency_key: &str) -> Value {
    process.post(SIGN, Some(&payment(idempotency_key)))["operation"].clone()
}

/// The size of the log.
fn log_size(process: &Process) -> u64 {
    checkpoint(&text(&process.address, "/v1/log/checkpoint")).unverified().size()
}

fn checkpoint(text: &str) -> SignedCheckpoint {
    text.parse().unwrap()
}

/// Waits until the gateway shows a cosigned checkpoint of the whole log, and returns it.
#[track_caller]
fn witnessed(process: &Process) -> String {
    let size = log_size(process);
    let read = || Call::get("/v1/log/checkpoint?witnessed=true").send(&process.address).unwrap();
    let answer =
        poll(read, |answer| answer.status == 200 && checkpoint(&answer.text).unverified().size() >= size);
    answer.text
}

/// The refusals of a witness that are counted with this reason.
fn n_refusals(process: &Process, witness: &str, reason: &str) -> u64 {
    let metrics = text(&process.address, "/metrics");
    let name = "operation_gateway_witness_refusals_total";
    let line = format!("{name}{{witness=\"{witness}\",reason=\"{reason}\"}} ");
    metrics.lines().find_map(|found| found.strip_prefix(&line)).map_or(0, |n| n.parse().unwrap())
}

/// What readiness says of the witnesses.
fn report(process: &Process) -> String {
    let (status, readiness) = process.readiness();
    assert_eq!(status, 200, "{readiness}");
    readiness["witnesses"].as_str().unwrap_or_default().to_owned()
}

/// Runs `evidence verify` in the folder `reader`, where the gateway has no files.
fn verify(reader: &Path, evidence: &Value, policy: &str) -> (i32, String, String) {
    let file = |name: &str| reader.join(name).to_str().unwrap().to_owned();
    fs::write(file("evidence.json"), evidence.to_string()).unwrap();
    fs::write(file("policy"), policy).unwrap();
    let (evidence, roots, policy) = (file("evidence.json"), file("roots.json"), file("policy"));
    let arguments = ["evidence", "verify", &evidence, "--trust", &roots, "--witness-policy", &policy];
    run(&reader.join("no-gateway"), &[], &arguments)
}

#[test]
fn independent_program_verifies_cosignatures() {
    let (folder, reader) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let key = log_key(folder.path());
    let [one, two] = [1, 2].map(|number| Witness::start(number, &key));
    let (process, view, shown) = cosigned_payment(folder.path(), &[&one, &two]);
    // Proofs have the cosigned checkpoint, and a program that ignores witnesses accepts them.
    let evidence = process.get(&path(&view, "/evidence"));
    let (id, seq) = (view["operation_id"].as_str().unwrap(), evidence["total_events"].as_u64().unwrap());
    let proof = text(&process.address, &format!("/v1/log/tlog-proof?operation_id={id}&seq={seq}"));
    assert_eq!(proof.parse::<TlogProof>().unwrap().checkpoint.to_string(), shown);
    assert!(proof.ends_with(&shown), "{proof}");
    fs::write(reader.path().join("proof"), &proof).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/verify_tlog_proof.py");
    let python = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.arg(&script).arg(reader.path().join("proof")).arg(key.to_string());
        let output = command.arg(evidence["record_root"].as_str().unwrap()).args(arguments).output().unwrap();
        (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let (accepted, output) = python(&[]);
    assert!(accepted && output.contains("has the event at"), "{output}");
    let (accepted, output) = python(&[&vkey(1), &vkey(2)]);
    assert!(accepted && output.contains("cosigned by witness.example/1, witness.example/2"), "{output}");
    let (accepted, output) = python(&[&vkey(1), &vkey(3)]);
    assert!(!accepted && output.contains("the witness witness.example/3 did not cosign"), "{output}");
}

#[test]
fn witnessed_log_is_verified_offline_with_the_policy() {
    let (folder, reader) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let key = log_key(folder.path());
    let [one, two] = [1, 2].map(|number| Witness::start(number, &key));
    let (process, view, shown) = cosigned_payment(folder.path(), &[&one, &two]);
    let kept = fs::read_to_string(folder.path().join("log.checkpoint")).unwrap();
    assert_eq!(kept, shown);
    let size = checkpoint(&shown).verify(std::slice::from_ref(&key)).unwrap().size();
    assert_eq!((size, one.size(), two.size()), (log_size(&process), size, size));
    let policy: WitnessPolicy = fs::read_to_string(folder.path().join("witnesses")).unwrap().parse().unwrap();
    assert_eq!(policy.quorum(&checkpoint(&shown)).unwrap().len(), 2);
    let shown_by_readiness = format!("the newest witnessed checkpoint has {size} entries");
    poll(|| report(&process), |report| *report == shown_by_readiness);
    let metrics = text(&process.address, "/metrics");
    assert!(metrics.contains(&format!("\noperation_gateway_witnessed_log_entries {size}\n")), "{metrics}");
    let age = metrics
        .lines()
        .find_map(|line| line.strip_prefix("operation_gateway_witnessed_checkpoint_age_seconds "));
    assert!(age.unwrap().parse::<u64>().unwrap() < 600, "{metrics}");

    // `evidence verify` requires the quorum of the reader's own policy.
    let evidence = process.get(&path(&view, "/evidence"));
    let proof = evidence["log"]["proof"].as_str().unwrap();
    let (code, roots, _) = run(folder.path(), &[], &["evidence", "roots"]);
    assert_eq!(code, 0);
    fs::write(reader.path().join("roots.json"), roots).unwrap();
    let verify = |evidence: &Value, policy: &str| verify(reader.path(), evidence, policy);
    let lines = |seeds: &[u8]| {
        seeds.iter().map(|seed| format!("witness w{seed} {}\n", vkey(*seed))).collect::<String>()
    };
    let (code, out, err) = verify(&evidence, &(lines(&[1, 2]) + "group g all w1 w2\nquorum g\n"));
    assert!(
        code == 3 && out.contains("ok    witnesses: 2 of 2 needed cosigned: `witness.example/1` at "),
        "{out}{err}"
    );
    let (code, out, _) = verify(&evidence, &(lines(&[1, 3, 4]) + "group g 2 w1 w3 w4\nquorum g\n"));
    let missing = "FAIL  witnesses: /log/proof: the quorum needs 2 cosignatures, and there are 1: missing is any of `w3`, `w4`";
    assert!(code == 1 && out.contains(missing), "{out}");
    let (code, _, err) = verify(&evidence, &(lines(&[1]) + "quorum w2\n"));
    assert!(code == 2 && err.contains("line 2: no earlier line defines `w2`"), "{err}");
    // A cosignature of another checkpoint is no cosignature of this one.
    let old = text(&process.address, "/v1/log/checkpoint");
    submit(&process, "two");
    let newer = witnessed(&process);
    let body = |note: &str| note.split_once("\n\n").unwrap().1.to_owned();
    let cosignatures: String = body(&newer).lines().skip(1).map(|line| format!("{line}\n")).collect();
    let mut forged = evidence.clone();
    let bare = format!("{}{old}{cosignatures}", proof.strip_suffix(&shown).unwrap());
    assert_eq!(old.lines().next(), shown.lines().next());
    forged["log"]["proof"] = json!(bare);
    let (code, out, _) = verify(&forged, &(lines(&[1]) + "quorum w1\n"));
    assert!(
        code == 1
            && out.contains(
                "FAIL  witnesses: /log/proof: the signature of `witness.example/1` does not verify"
            ),
        "{out}"
    );
}

#[test]
fn restarted_gateway_continues_at_the_size_that_each_witness_has() {
    let folder = tempfile::tempdir().unwrap();
    let key = log_key(folder.path());
    let witness = Witness::start(1, &key);
    let process = start(folder.path(), &[&witness], 1, &[]);
    submit(&process, "one");
    witnessed(&process);
    process.terminate();
    let size = witness.size();
    witness.state().seen.clear();
    let process = start(folder.path(), &[&witness], 1, &[]);
    submit(&process, "two");
    witnessed(&process);
    let first = witness.state().seen[0];
    assert!(first.old == size && first.size > size && first.status == 200, "{first:?}");
    process.terminate();
    // Without the file the witness names its size, and is asked once more.
    fs::remove_file(folder.path().join("log.checkpoint")).unwrap();
    let size = witness.size();
    witness.state().seen.clear();
    let process = start(folder.path(), &[&witness], 1, &[]);
    submit(&process, "three");
    witnessed(&process);
    let seen = witness.state().seen.clone();
    assert!(seen[0].old == 0 && seen[0].status == 409, "{seen:?}");
    assert_eq!(seen[1], Seen { old: size, size: seen[0].size, status: 200 });
}

/// A second replica, or a witness that another copy of the log was shown to, has cosigned more than this gateway knows.
#[test]
fn witness_that_says_it_is_ahead_is_shown_and_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let key = log_key(folder.path());
    let witness = Witness::start(1, &key);
    witness.state().mode = Mode::Ahead;
    let process = start(folder.path(), &[&witness], 1, &[]);
    eventually("the refusal is not counted", || n_refusals(&process, "w1", "ahead") > 0);
    let ahead = "the newest witnessed checkpoint has 0 entries; `w1` has a log of 10";
    poll(|| report(&process), |report| report.starts_with(ahead));
    assert_eq!(submit(&process, "goes on")["state"], "pending_approval");
    let answer = Call::get("/v1/log/checkpoint?witnessed=true").send(&process.address).unwrap();
    assert_eq!((answer.status, &answer.json()["error"]), (404, &json!("not_found")));
    witness.state().mode = Mode::Honest;
    witnessed(&process);
    eventually("the witness is still shown", || !report(&process).contains("w1"));
}

/// One witness is honest and enough for the quorum; the other lies in each way in turn.
#[test]
fn lying_witness_delays_nothing_and_leaves_no_line() {
    let folder = tempfile::tempdir().unwrap();
    let key = log_key(folder.path());
    let (honest, liar) = (Witness::start(1, &key), Witness::start(2, &key));
    let process = start(folder.path(), &[&liar, &honest], 1, &[]);
    for (number, (mode, reason)) in [
        (Mode::OtherKey, "invalid"),
        (Mode::OtherText, "invalid"),
        (Mode::Future, "invalid"),
        (Mode::Huge, "invalid"),
        (Mode::NonsenseConflict, "invalid"),
        (Mode::EndlessConflict, "conflict"),
        (Mode::Redirect, "status"),
        (Mode::Broken, "status"),
        (Mode::Ahead, "ahead"),
    ]
    .into_iter()
    .enumerate()
    {
        liar.state().mode = mode;
        // The request that was under way has its answer.
        let before = n_refusals(&process, "w2", reason);
        submit(&process, &format!("lie {number}"));
        let shown = witnessed(&process);
        eventually(&format!("{mode:?} is not counted"), || n_refusals(&process, "w2", reason) > before);
        let lines: Vec<_> = shown.lines().filter(|line| line.starts_with('\u{2014}')).collect();
        assert!(lines.len() == 2 && lines[1].contains("witness.example/1 "), "{mode:?} {shown}");
        poll(|| report(&process), |report| report.contains("; `w2` "));
        // What it does not cosign it has not got: later proofs still fit.
        liar.state().last = None;
    }
    // The other witness is left out of further rounds until its time is over.
    liar.state().mode = Mode::Silent;
    for number in 0..3 {
        submit(&process, &format!("silence {number}"));
        witnessed(&process);
    }
    // All within the ten seconds of the one request that is under way.
    assert_eq!(n_refusals(&process, "w2", "no_answer"), 0);
}

/// The cosignatures are almost ten minutes old, so the log is sent again though it did not grow.
#[test]
fn log_that_did_not_grow_is_cosigned_again_after_ten_minutes() {
    let folder = tempfile::tempdir().unwrap();
    let key = log_key(folder.path());
    let witness = Witness::start(1, &key);
    witness.state().mode = Mode::Late;
    let process = start(folder.path(), &[&witness], 1, &[]);
    let first = witnessed(&process);
    let size = checkpoint(&first).unverified().size();
    witness.state().mode = Mode::Honest;
    let read = || text(&process.address, "/v1/log/checkpoint?witnessed=true");
    let again = poll(read, |shown| *shown != first);
    assert_eq!(checkpoint(&again).unverified(), checkpoint(&first).unverified());
    let seen = witness.state().seen.clone();
    assert_eq!(seen, [Seen { old: 0, size, status: 200 }, Seen { old: size, size, status: 200 }]);
}

#[test]
fn https_witness_is_verified_with_the_system_s_authorities() {
    let folder = tempfile::tempdir().unwrap();
    let key = log_key(folder.path());
    let (authority, other) = (Authority::new("witness"), Authority::new("other"));
    let witness = Witness::start_tls(1, &key, &authority);
    let policy = policy(folder.path(), &[&witness], 1);
    let settings = [("witness_policy", policy.to_str().unwrap()), ("witness_every_ms", "50")];
    let trusting = |authority: &Authority| {
        let file = folder.path().join("ca.pem");
        fs::write(&file, authority.pem()).unwrap();
        let mut command = command(folder.path(), &settings);
        command.env("SSL_CERT_FILE", file);
        Process::start_command(command)
    };
    let process = trusting(&other);
    eventually("the certificate is accepted", || n_refusals(&process, "w1", "no_answer") > 0);
    assert_eq!(witness.size(), 0);
    process.terminate();
    witnessed(&trusting(&authority));
}

#[test]
fn wrong_policy_stops_the_start_and_names_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let error = |text: &str| {
        let policy = write_policy(folder.path(), text);
        Process::start_error(folder.path(), &[("witness_policy", policy.to_str().unwrap())])
    };
    let key = vkey(1);
    for (text, why) in [
        (format!("witness a {key} https://w.example\nquorum b\n"), "line 2: no earlier line defines `b`"),
        (
            format!("witness a {key} https://w.example\nquorum none\n"),
            "the quorum must be a witness or a group",
        ),
        (format!("witness a {key}\nquorum a\n"), "the witness `a` has no URL"),
        (
            format!("witness a {key} http://w.example\nquorum a\n"),
            "the witness `a`: the URL `http://w.example` must be",
        ),
        (String::new(), "there is no line `quorum`"),
    ] {
        let error = error(&text);
        assert!(error.contains("witness policy `") && error.contains(why), "{error}");
    }
    let missing = Process::start_error(folder.path(), &[("witness_policy", "missing")]);
    assert!(missing.contains("witness policy `missing`"), "{missing}");
    assert!(!folder.path().join("gateway.db").exists());
}
