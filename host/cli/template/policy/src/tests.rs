use crate::ExamplePolicy;
use gateway_policy_sdk::testing::{approved, asset_action, data, facts, key_change, payment};
use gateway_policy_sdk::{Decision, Intent, Moment, Policy, Request, Verdict};

fn evaluate(request: &Request) -> Verdict {
    let limits = include_str!("../../bundle/data/limits.json");
    let facts = facts(&[("deployment.required_approvals", "2")]);
    ExamplePolicy::evaluate(request, &facts, &data(&[("limits.json", limits)]))
}

fn reasons(verdict: &Verdict) -> Vec<&str> {
    verdict.reasons.iter().map(|reason| reason.code.as_str()).collect()
}

#[test]
fn payment_within_the_limit_is_allowed_and_needs_approvals() {
    let verdict = evaluate(&payment("acct-1", "acct-2", 12_500));
    assert_eq!((verdict.decision, reasons(&verdict)), (Decision::Allow, vec!["amount_permitted"]));
    assert_eq!(verdict.obligations[0].operands[0].value, "0");
}

#[test]
fn amounts_outside_the_limit_are_denied() {
    for amount_minor in [i64::MIN, -1, 0, 100_001, i64::MAX] {
        let verdict = evaluate(&payment("acct-1", "acct-2", amount_minor));
        assert_eq!((verdict.decision, reasons(&verdict)), (Decision::Deny, vec!["amount_not_permitted"]));
    }
}

#[test]
fn a_currency_without_a_limit_is_denied() {
    let mut request = payment("acct-1", "acct-2", 1);
    if let Intent::Payment(payment) = &mut request.intent {
        payment.currency = "XAU".into();
    }
    let verdict = evaluate(&request);
    assert_eq!((verdict.decision, &*verdict.reasons[0].operands[2].value), (Decision::Deny, "0"));
}

#[test]
fn custody_is_denied() {
    for request in [asset_action(), key_change("key_create"), key_change("rotate")] {
        let verdict = evaluate(&request);
        assert_eq!((verdict.decision, reasons(&verdict)), (Decision::Deny, vec!["not_a_payment"]));
    }
}

#[test]
fn of_the_gateways_own_key_changes_only_a_creation_is_allowed() {
    let by_the_gateway = |operation: &str| {
        let mut request = key_change(operation);
        request.client_id = crate::GATEWAY.into();
        let verdict = evaluate(&request);
        (verdict.decision, verdict.reasons[0].code.clone())
    };
    assert_eq!(by_the_gateway("key_create"), (Decision::Allow, "development_key_permitted".into()));
    assert_eq!(by_the_gateway("rotate"), (Decision::Deny, "not_a_payment".into()));
}

#[test]
fn admission_needs_two_approvers_besides_the_submitter() {
    let admission = |subjects: &[&str]| {
        evaluate(&approved(payment("acct-1", "acct-2", 1), Moment::Admission, subjects)).decision
    };
    assert_eq!(admission(&["bob", "carol"]), Decision::Allow);
    for too_few in [&["bob"][..], &["alice", "bob"], &["bob", "bob"]] {
        assert_eq!(admission(too_few), Decision::Deny, "{too_few:?}");
    }
}
