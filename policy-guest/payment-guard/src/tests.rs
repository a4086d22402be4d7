mod custody;
mod limits;
mod quorum;
mod recipients;

use crate::PaymentGuard;
use gateway_policy_sdk::testing::{approved, asset_action, data, facts, key_change, payment};
use gateway_policy_sdk::{Decision, Moment, Policy, Request, Statement, Verdict};

const RECIPIENTS: (&str, &str) = ("deployment.permitted_recipients", "acct-2, acct-3");
const TWO: (&str, &str) = ("deployment.required_approvals", "2");
const ALONE: (&str, &str) = ("deployment.separation_of_duties", "false");
const SEPARATED: (&str, &str) = ("deployment.separation_of_duties", "true");

fn judge(request: &Request, pairs: &[(&str, &str)]) -> Verdict {
    PaymentGuard::evaluate(request, &facts(pairs), &data(&[]))
}

/// As [`judge`], with data files.
fn judge_with(request: &Request, pairs: &[(&str, &str)], files: &[(&str, &str)]) -> Verdict {
    PaymentGuard::evaluate(request, &facts(pairs), &data(files))
}

/// The operands of every reason and obligation with this code, each as `name value, name value`.
fn details(verdict: &Verdict, code: &str) -> Vec<String> {
    let all = verdict.reasons.iter().chain(&verdict.obligations);
    all.filter(|statement| statement.code == code).map(operands).collect()
}

fn operands(statement: &Statement) -> String {
    let texts = statement.operands.iter().map(|operand| format!("{} {}", operand.name, operand.value));
    texts.collect::<Vec<_>>().join(", ")
}

#[track_caller]
fn check_unreadable(request: &Request, file: &str, text: &str, place: &str) {
    let verdict =
        judge_with(request, &[("deployment.permitted_recipients", "*"), TWO, ALONE], &[(file, text)]);
    assert_eq!(verdict.decision, Decision::Deny, "{text}");
    assert!(!codes(&verdict.reasons).contains(&"quorum_reached"), "{text}");
    let details = details(&verdict, "data_unreadable");
    assert!(
        details.iter().any(|detail| detail.starts_with(&format!("place data/{file}{place}, must_be "))),
        "{text}: {details:?}"
    );
}

fn codes(statements: &[Statement]) -> Vec<&str> {
    statements.iter().map(|statement| statement.code.as_str()).collect()
}

#[track_caller]
fn check(
    request: &Request,
    pairs: &[(&str, &str)],
    decision: Decision,
    reasons: &[&str],
    obligations: &[&str],
) {
    let verdict = judge(request, pairs);
    assert_eq!(
        (verdict.decision, codes(&verdict.reasons), codes(&verdict.obligations)),
        (decision, reasons.to_vec(), obligations.to_vec()),
        "{verdict:?}"
    );
}

#[test]
fn a_permitted_payment_is_allowed_and_obliges_to_collect_approvals() {
    let request = payment("acct-1", "acct-2", 100);
    check(
        &request,
        &[RECIPIENTS, TWO, ALONE],
        Decision::Allow,
        &["recipient_permitted", "amount_positive"],
        &["collect_approvals"],
    );
    let verdict = judge(&request, &[RECIPIENTS, TWO, ALONE]);
    assert_eq!(operands(&verdict.obligations[0]), "approvals 0, required 2, missing 2");
    assert_eq!((verdict.quorum.required, verdict.quorum.satisfied), (2, false));
}

#[test]
fn recipients_match_whole_names_only() {
    let permitted = |recipients: &str, account: &str| {
        let facts = [("deployment.permitted_recipients", recipients), TWO, ALONE];
        judge(&payment("acct-1", account, 1), &facts).decision == Decision::Allow
    };
    assert!(permitted("acct-2,acct-3", "acct-3") && permitted(" acct-2 , acct-3 ", "acct-3"));
    assert!(permitted("*", "anybody") && permitted("acct-2,*", "anybody"));
    for (recipients, account) in [
        ("acct-2,acct-3", "acct-"),
        ("acct-2,acct-3", "acct-2,acct-3"),
        ("", ""),
        (",", ""),
        ("acct-2", "ACCT-2"),
        ("", "x"),
    ] {
        assert!(!permitted(recipients, account), "`{account}` in `{recipients}`");
    }
}

#[test]
fn a_refused_recipient_is_named_with_the_fact_to_change() {
    let verdict = judge(&payment("acct-1", "acct-9", 1), &[RECIPIENTS, TWO, ALONE]);
    assert_eq!(operands(&verdict.reasons[0]), "account acct-9, place deployment.permitted_recipients");
    check(
        &payment("acct-1", "acct-9", 1),
        &[TWO, ALONE],
        Decision::Deny,
        &["recipient_not_permitted", "amount_positive"],
        &["collect_approvals"],
    );
}

#[test]
fn amounts_below_one_are_denied_with_every_other_failed_condition() {
    for amount_minor in [0, -1, i64::MIN] {
        check(
            &payment("acct-1", "acct-9", amount_minor),
            &[RECIPIENTS, TWO, ALONE],
            Decision::Deny,
            &["recipient_not_permitted", "amount_not_positive"],
            &["collect_approvals"],
        );
    }
    let verdict = judge(&payment("acct-1", "acct-2", i64::MIN), &[RECIPIENTS, TWO, ALONE]);
    assert_eq!(operands(&verdict.reasons[1]), "amount_minor -9223372036854775808, currency EUR");
}

#[test]
fn a_missing_quorum_denies_only_at_admission_and_in_previews_with_approvals() {
    let half = |moment| approved(payment("acct-1", "acct-2", 1), moment, &["bob"]);
    let base = &["recipient_permitted", "amount_positive"][..];
    let denied = &["recipient_permitted", "amount_positive", "quorum_not_reached"][..];
    let facts = [RECIPIENTS, TWO, ALONE];
    check(&half(Moment::Approval), &facts, Decision::Allow, base, &["collect_approvals"]);
    check(&half(Moment::Admission), &facts, Decision::Deny, denied, &[]);
    check(&half(Moment::Preview), &facts, Decision::Deny, denied, &[]);
    let empty = approved(payment("acct-1", "acct-2", 1), Moment::Preview, &[]);
    check(&empty, &facts, Decision::Allow, base, &["collect_approvals"]);
}

#[test]
fn two_distinct_people_reach_a_quorum_of_two() {
    let by = |subjects: &[&str]| approved(payment("acct-1", "acct-2", 1), Moment::Admission, subjects);
    let reached = &["recipient_permitted", "amount_positive", "quorum_reached"][..];
    check(&by(&["bob", "carol"]), &[RECIPIENTS, TWO, SEPARATED], Decision::Allow, reached, &[]);
    let verdict = judge(&by(&["bob", "bob", "bob"]), &[RECIPIENTS, TWO, ALONE]);
    assert_eq!((verdict.decision, verdict.quorum.subjects), (Decision::Deny, vec!["bob".to_owned()]));
    let verdict = judge(&by(&["carol", "bob", "carol"]), &[RECIPIENTS, TWO, ALONE]);
    assert_eq!(verdict.quorum.subjects, ["carol", "bob"]);
}

#[test]
fn the_submitters_own_approval_counts_only_without_separation_of_duties() {
    let request = approved(payment("acct-1", "acct-2", 1), Moment::Admission, &["alice", "bob"]);
    assert_eq!(judge(&request, &[RECIPIENTS, TWO, ALONE]).decision, Decision::Allow);
    for facts in [&[RECIPIENTS, TWO, SEPARATED][..], &[RECIPIENTS, TWO]] {
        let verdict = judge(&request, facts);
        assert_eq!((verdict.decision, verdict.quorum.subjects), (Decision::Deny, vec!["bob".to_owned()]));
        assert_eq!(operands(&verdict.reasons[2]), "approvals 1, required 2, missing 1, submitter alice");
    }
}

#[test]
fn one_approval_is_required_unless_the_deployment_sets_another_number() {
    let required = |pairs: &[(&str, &str)]| judge(&payment("acct-1", "acct-2", 1), pairs).quorum.required;
    assert_eq!(required(&[RECIPIENTS]), 1);
    assert_eq!(required(&[("deployment.required_approvals", "0")]), 0);
    assert_eq!(required(&[("deployment.required_approvals", "99999999999")]), u32::MAX);
    let none = approved(payment("acct-1", "acct-2", 1), Moment::Admission, &[]);
    let facts = [RECIPIENTS, ("deployment.required_approvals", "0")];
    check(&none, &facts, Decision::Allow, &["recipient_permitted", "amount_positive", "quorum_reached"], &[]);
}

#[test]
fn unreadable_facts_deny() {
    let request = approved(payment("acct-1", "acct-2", 1), Moment::Approval, &["bob", "carol"]);
    for fact in [("deployment.required_approvals", "two"), ("deployment.separation_of_duties", "yes")] {
        let verdict = judge(&request, &[RECIPIENTS, fact]);
        assert_eq!(verdict.decision, Decision::Deny, "{fact:?}");
        assert!(codes(&verdict.reasons).contains(&"fact_unreadable"), "{verdict:?}");
    }
    let verdict = judge(&request, &[RECIPIENTS, ("deployment.required_approvals", "-1")]);
    assert!(!verdict.quorum.satisfied, "{verdict:?}");
}

#[test]
fn listed_custody_operations_need_only_the_quorum() {
    let listed = r#"{"chains":{"*":""},"assets":{"*":{"*":{}}},"key_operations":{"refresh":{}}}"#;
    let judge = |request: &Request| judge_with(request, &[TWO], &[("custody.json", listed)]);
    for request in [asset_action(), key_change("refresh")] {
        let submitted = judge(&request);
        assert_eq!(codes(&submitted.reasons), ["custody_intent_permitted"]);
        assert_eq!(codes(&submitted.obligations), ["collect_approvals"]);
        let admitted = judge(&approved(request, Moment::Admission, &["bob", "carol"]));
        assert_eq!(admitted.decision, Decision::Allow);
        assert_eq!(codes(&admitted.reasons), ["custody_intent_permitted", "quorum_reached"]);
    }
}
