//! The console of the real process, in headless Chromium. `tests/console/drive.mjs` has the scenarios.

use crate::harness::custody;
use crate::harness::process::{EXECUTE, Process, SIGN, drive as harness_drive, publish_step, run};
use crate::harness::samples::payment;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The browser, by its names on Debian and elsewhere.
fn chromium() -> PathBuf {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let folders: Vec<_> = env::split_paths(&env::var_os("PATH").unwrap()).collect();
    let found = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    found
        .into_iter()
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("no Chromium (Debian: apt-get install chromium)"))
}

/// Runs a scenario against a gateway; returns what it printed. Screenshots go to `target/console/SCENARIO`.
fn drive(scenario: &str) -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("console");
    assert!(sources.join("node_modules").exists(), "run `npm ci --prefix tests/console --ignore-scripts`");
    let folder = tempfile::tempdir().unwrap();
    let registry = folder.path().join("approvers.json");
    fs::write(&registry, json!({"format": "svc/approvers/v2", "approvers": []}).to_string()).unwrap();
    let signed = [
        ("signed_approvals", "required"),
        ("approvers_file", registry.to_str().unwrap()),
        ("policy_watch_ms", "100"),
    ];
    let candidate = folder.path().join("candidate");
    let watched = [("policy_candidate", candidate.to_str().unwrap()), ("policy_watch_ms", "100")];
    let cedar = sources.parent().unwrap().join("../bundles/cedar-example");
    let settings = match scenario {
        "passkeys" => signed.as_slice(),
        "decisions" | "denied" | "reasons" => &[("permitted_recipients", "acct-known")],
        "rule" => &[("policy_bundle", cedar.to_str().unwrap())],
        "accessible" | "candidate" | "policy" => {
            let strict = sources.parent().unwrap().join("../bundles/payment-guard-strict");
            assert!(Command::new("cp").arg("-rL").args([&strict, &candidate]).status().unwrap().success());
            &watched
        }
        _ => &[],
    };
    if scenario == "denied" {
        // Submitted under rules that permitted it.
        Process::start(folder.path(), None, &[]).post(SIGN, Some(&payment("before")));
    }
    let process = Process::start(folder.path(), None, settings);
    if ["approves", "offline"].contains(&scenario) {
        // Nodes have keys, and the roots of trust name them, once they have signed something.
        harness_drive(&process.address, SIGN, &payment("before"), &[EXECUTE, publish_step()]).unwrap();
    }
    let roots_file = folder.path().join("roots.json");
    if ["approves", "offline"].contains(&scenario) {
        let (code, roots, errors) = run(folder.path(), settings, &["evidence", "roots"]);
        assert_eq!(code, 0, "{errors}");
        fs::write(&roots_file, roots).unwrap();
    }
    let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("console").join(scenario);
    fs::create_dir_all(&shots).unwrap();
    let config = json!({
        "base": format!("http://localhost:{}", process.address.rsplit(':').next().unwrap()),
        "chromium": chromium(), "folder": shots, "registry": registry, "roots": roots_file, "key": custody::key("treasury-1"),
        "candidate": candidate,
    });
    let mut command = Command::new("node");
    command.arg(sources.join("drive.mjs")).args([scenario, &config.to_string()]);
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    printed.into_owned()
}

#[test]
fn approver_sees_a_payment_in_words_approves_it_and_verifies_its_evidence() {
    println!("{}", drive("approves"));
}

#[test]
fn page_offers_no_approval_of_what_would_not_be_signed() {
    println!("{}", drive("lies"));
}

#[test]
fn approvers_approve_and_reject_with_passkeys() {
    println!("{}", drive("passkeys"));
}

#[test]
fn approval_of_an_operation_that_changed_meanwhile_is_a_clear_error() {
    println!("{}", drive("changed"));
}

#[test]
fn what_happens_while_a_page_is_loading_is_shown_or_said() {
    println!("{}", drive("loading"));
}

#[test]
fn what_came_of_a_request_is_said_of_its_own_operation() {
    println!("{}", drive("leaves"));
}

#[test]
fn amounts_have_the_decimals_of_their_currency_and_are_not_rounded() {
    println!("{}", drive("amounts"));
}

#[test]
fn answers_between_page_and_gateway_do_not_change_the_words_of_what_is_signed() {
    println!("{}", drive("between"));
}

#[test]
fn console_is_opened_by_links_and_says_when_its_reader_is_signed_out() {
    println!("{}", drive("linked"));
}

#[test]
fn page_recovers_by_itself() {
    println!("{}", drive("recovers"));
}

#[test]
fn windows_of_a_reader_share_one_stream_of_events_and_hidden_ones_have_none() {
    println!("{}", drive("shared"));
}

#[test]
fn page_opened_hidden_shows_the_present_state_when_it_is_seen() {
    println!("{}", drive("unseen"));
}

#[test]
fn stream_of_events_is_taken_only_from_a_window_that_is_silent() {
    println!("{}", drive("silent"));
}

#[test]
fn console_works_behind_a_path_of_a_proxy() {
    println!("{}", drive("behind"));
}

#[test]
fn evidence_in_a_file_is_verified_offline() {
    println!("{}", drive("offline"));
}

#[test]
fn first_view_takes_a_second_on_a_slow_connection() {
    println!("{}", drive("slow"));
}

#[test]
fn every_page_is_accessible_by_keyboard_light_dark_and_narrow() {
    println!("{}", drive("accessible"));
}

#[test]
fn api_is_documented_in_the_browser_without_another_host() {
    println!("{}", drive("documents"));
}

#[test]
fn policy_page_shows_the_candidate_and_refused_offers() {
    println!("{}", drive("policy"));
}

#[test]
fn decisions_are_found_by_filters_that_stay_in_the_address() {
    println!("{}", drive("decisions"));
}

#[test]
fn differences_of_the_candidate_are_listed_with_both_verdicts() {
    println!("{}", drive("candidate"));
}

#[test]
fn what_a_submitter_wrote_is_text_in_the_reasons_of_a_decision() {
    println!("{}", drive("reasons"));
}

#[test]
fn decision_page_names_the_cedar_rule_and_who_is_missing() {
    println!("{}", drive("rule"));
}

#[test]
fn refused_approval_links_to_its_decision_and_that_to_the_operation() {
    println!("{}", drive("denied"));
}

#[test]
fn reader_without_audit_read_is_told_which_scope_decisions_need() {
    println!("{}", drive("scopes"));
}

#[test]
fn names_are_never_markup_and_other_tenants_see_nothing() {
    println!("{}", drive("hostile"));
}

/// The committed program is what the sources give.
#[test]
fn checks_of_the_page_are_reproducible_from_their_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output = Command::new(root.join("host/console/build.sh")).arg("--check").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
