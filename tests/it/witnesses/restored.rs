//! A database that is not the one of the witnessed checkpoint.

use super::{checkpoint, log_size, n_refusals, report, start, submit, witnessed};
use crate::harness::process::{Process, SIGN, run, stdout};
use crate::harness::samples::{path, payment, with};
use crate::harness::wire::{eventually, poll};
use crate::harness::witness::{Witness, log_key};
use serde_json::json;
use std::fs;
use std::path::Path;

/// The reason in `/readyz`, of a gateway that must refuse to write.
#[track_caller]
fn refusal(process: &Process) -> String {
    let (status, readiness) = process.readiness();
    assert_eq!(status, 503, "{readiness}");
    let detail = readiness["checks"]["store"]["detail"].as_str().unwrap().to_owned();
    let (status, refused) = process.call("POST", SIGN, Some(&payment("refused")));
    assert_eq!((status, &refused["error"]), (503, &json!("store_unavailable")), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains(&detail), "{refused}");
    detail
}

/// `SIZE:ROOT` of the kept checkpoint.
fn kept(folder: &Path) -> String {
    let kept = checkpoint(&fs::read_to_string(folder.join("log.checkpoint")).unwrap());
    format!("{}:{}", kept.unverified().size(), kept.unverified().root())
}

#[test]
fn older_copy_is_noticed_by_the_file_alone_until_the_loss_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let key = log_key(folder);
    let witness = Witness::start(1, &key);
    let copy = folder.join("copy.db");
    let copy = copy.to_str().unwrap();
    let process = start(folder, &[&witness], 1, &[]);
    let before = submit(&process, "before");
    stdout(run(folder, &[], &["backup", copy]));
    let in_copy = log_size(&process);
    // No node has seen these, so only the file knows of them.
    let lost = submit(&process, "lost");
    submit(&process, "lost too");
    witnessed(&process);
    let signed = log_size(&process);
    process.terminate();
    stdout(run(folder, &[], &["restore", copy]));
    let value = kept(folder);

    let process = start(folder, &[&witness], 1, &[]);
    let n_seen = witness.state().seen.len();
    let detail = refusal(&process);
    let sizes = format!("its log has {in_copy} entries, and the witnessed checkpoint {signed}");
    assert!(detail.contains("older copy") && detail.contains(&sizes), "{detail}");
    assert!(detail.ends_with(&format!("`lost_checkpoint={value}`")), "{detail}");
    assert_eq!(process.get(&path(&before, ""))["state"], "pending_approval");
    assert_eq!((log_size(&process), witness.state().seen.len()), (in_copy, n_seen));
    let (_, log) = process.terminate();
    assert!(log.iter().any(|line| line.contains("older copy") && line.contains("\"ERROR\"")), "{log:?}");

    // Neither another checkpoint nor the absence of witnesses accepts it.
    for wrong in
        [format!("{in_copy}:{}", value.split_once(':').unwrap().1), format!("{signed}:{}", "0".repeat(64))]
    {
        let process = start(folder, &[&witness], 1, &[("lost_checkpoint", &wrong)]);
        refusal(&process);
    }
    refusal(&Process::start(folder, None, &[]));
    assert_eq!(kept(folder), value);

    let process = start(folder, &[&witness], 1, &[("lost_checkpoint", &value)]);
    assert_eq!(submit(&process, "lost")["operation_id"], lost["operation_id"]);
    let aside = fs::read_to_string(folder.join("log.checkpoint.lost-1")).unwrap();
    let aside = checkpoint(&aside);
    assert_eq!(format!("{}:{}", aside.unverified().size(), aside.unverified().root()), value);
    assert_eq!(kept(folder).split_once(':').unwrap().0, in_copy.to_string());
    // The witness has more, so it cosigns nothing; it stops nothing either.
    eventually("no refusal is counted", || n_refusals(&process, "w1", "ahead") > 0);
    let ahead = format!("; `w1` has a log of {signed} entries");
    poll(|| report(&process), |report| report.contains(&ahead));
    submit(&process, "further");
    submit(&process, "and further");
    eventually("no refusal is counted", || n_refusals(&process, "w1", "inconsistent") > 0);
    assert_eq!(witness.size(), signed);
    process.terminate();

    // The setting does not accept a further loss.
    let process = start(folder, &[&witness], 1, &[("lost_checkpoint", &value)]);
    assert_eq!(process.readiness().0, 200);
    process.terminate();
    fs::remove_file(folder.join("gateway.db")).unwrap();
    let process = start(folder, &[&witness], 1, &[("lost_checkpoint", &value)]);
    assert!(refusal(&process).contains(&format!("the witnessed checkpoint {in_copy}")));
}

#[test]
fn new_bundle_is_not_activated_on_an_older_copy() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let key = log_key(folder);
    let witness = Witness::start(1, &key);
    let strict = concat!(env!("CARGO_MANIFEST_DIR"), "/../bundles/payment-guard-strict");
    let copy = folder.join("copy.db");
    let copy = copy.to_str().unwrap();
    let active = |process: &Process| process.readiness().1["checks"]["policy"]["bundle_hash"].clone();
    let process = start(folder, &[&witness], 1, &[("policy_bundle", strict)]);
    let before = active(&process);
    let submit = |name: &str| {
        let payment = with(payment(name), "/payment/currency", json!("XTS"));
        assert_eq!(
            process.call("POST", SIGN, Some(&with(payment, "/payment/amount_minor", json!(60)))).0,
            200
        );
    };
    // Has the nodes make the key, so that they know of nothing that the copy lacks.
    submit("before");
    stdout(run(folder, &[], &["backup", copy]));
    let in_copy = log_size(&process);
    submit("lost");
    witnessed(&process);
    process.terminate();
    stdout(run(folder, &[], &["restore", copy]));

    // The default bundle has a higher sequence. It waits, also when its file is read again.
    let process = start(folder, &[&witness], 1, &[("policy_watch_ms", "50")]);
    refusal(&process);
    // The time of six such readings, of which nothing is told.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!((active(&process), log_size(&process)), (before.clone(), in_copy));
    process.terminate();

    let value = kept(folder);
    let process = start(folder, &[&witness], 1, &[("lost_checkpoint", &value)]);
    assert_ne!(active(&process), before);
    assert_eq!(log_size(&process), in_copy + 1);
}

#[test]
fn log_that_was_continued_from_a_copy_is_refused_by_the_witness_and_by_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let key = log_key(folder);
    let witness = Witness::start(1, &key);
    let (copy, file, hidden) = (folder.join("copy.db"), folder.join("log.checkpoint"), folder.join("hidden"));
    let process = start(folder, &[&witness], 1, &[]);
    submit(&process, "before");
    stdout(run(folder, &[], &["backup", copy.to_str().unwrap()]));
    submit(&process, "lost");
    witnessed(&process);
    let signed = log_size(&process);
    process.terminate();
    stdout(run(folder, &[], &["restore", copy.to_str().unwrap()]));

    // The file was removed: the witness refuses the other log at the same size, and a larger one.
    fs::rename(&file, &hidden).unwrap();
    let process = start(folder, &[&witness], 1, &[]);
    submit(&process, "another");
    assert_eq!(log_size(&process), signed);
    eventually("the fork is not refused", || n_refusals(&process, "w1", "conflict") > 0);
    submit(&process, "and more");
    eventually("the fork is not refused", || n_refusals(&process, "w1", "inconsistent") > 0);
    assert!(log_size(&process) > signed && !file.exists());
    process.terminate();

    fs::rename(&hidden, &file).unwrap();
    let process = start(folder, &[&witness], 1, &[]);
    let detail = refusal(&process);
    let what =
        format!("its first {signed} entries were changed, or an older copy of the database was continued");
    assert!(detail.contains(&what) && detail.contains(&kept(folder)), "{detail}");
}

#[test]
fn damaged_or_foreign_file_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let key = log_key(folder);
    let witness = Witness::start(1, &key);
    let file = folder.join("log.checkpoint");
    let process = start(folder, &[&witness], 1, &[]);
    submit(&process, "one");
    let shown = witnessed(&process);
    process.terminate();
    let value = kept(folder);
    let size = checkpoint(&shown).unverified().size();
    for (text, why) in [
        (String::new(), "it is damaged"),
        (shown[..shown.len() - 20].to_owned(), "it is damaged"),
        (shown.split_once("\n\n").unwrap().0.to_owned(), "it is damaged"),
        ("x".repeat(300_000), "longer than"),
        (
            shown.replacen(&format!("\n{size}\n"), "\n1\n", 1),
            "the signature of `operation-gateway.local/log` does not verify",
        ),
    ] {
        fs::write(&file, &text).unwrap();
        // No value of the setting accepts such a file.
        let error = Process::start_error(folder, &[("lost_checkpoint", &value)]);
        assert!(error.contains("witnessed checkpoint `") && error.contains(why), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }

    // A log with another name is another log, until the operator says so.
    fs::write(&file, &shown).unwrap();
    let renamed = [("log_origin", "operation-gateway.local/second")];
    let error = Process::start_error(folder, &renamed);
    let why = "no key is trusted for the log `operation-gateway.local/log`";
    assert!(error.contains(why) && error.ends_with(&format!("`lost_checkpoint={value}`")), "{error}");
    let process = Process::start(folder, None, &[renamed[0], ("lost_checkpoint", &value)]);
    assert_eq!(process.readiness().0, 200);
    assert_eq!(fs::read_to_string(folder.join("log.checkpoint.lost-1")).unwrap(), shown);
    let now = checkpoint(&fs::read_to_string(&file).unwrap());
    assert_eq!((now.unverified().origin(), now.unverified().size()), (renamed[0].1, size));
}
