//! Malformed data, which the vectors of the committed bundle (`bundles/cedar-example/tests`) cannot show.

use crate::CedarGuest;
use gateway_policy_sdk::testing::{asset_action, data, facts, key_change, payment};
use gateway_policy_sdk::{Decision, Policy, Request, Verdict};

const PERMIT_ALL: &str = "permit (principal, action, resource);";

fn judge(request: &Request, policies: Option<&str>, settings: &str, known: &[(&str, &str)]) -> Verdict {
    let text = policies.map(|text| format!("{text:?}"));
    let mut files = vec![("settings.json", settings)];
    files.extend(text.as_deref().map(|text| ("policies.cedar", text)));
    CedarGuest::evaluate(request, &facts(known), &data(&files))
}

#[track_caller]
fn check(policies: &str, decision: Decision, code: &str, detail: &str) {
    let verdict = judge(&payment("acct-1", "acct-2", 100), Some(policies), "{}", &[]);
    assert_eq!(verdict.decision, decision, "{verdict:?}");
    assert!(verdict.reasons.iter().all(|reason| reason.code == code), "{verdict:?}");
    assert!(said(&verdict).contains(detail), "{verdict:?}");
}

/// The operands of the first reason.
fn said(verdict: &Verdict) -> String {
    format!("{:?}", verdict.reasons[0].operands)
}

#[test]
fn unusable_policies_deny() {
    check("permit (principal, action", Decision::Deny, "cedar_error", "cannot be read");
    check("", Decision::Deny, "cedar_no_permit", "");
    check(
        &format!("{PERMIT_ALL} permit (principal == ?principal, action, resource);"),
        Decision::Deny,
        "cedar_error",
        "template",
    );
    let missing = judge(&payment("a", "b", 1), None, "{}", &[]);
    assert_eq!((missing.decision, missing.reasons[0].code.as_str()), (Decision::Deny, "cedar_error"));
}

#[test]
fn a_failing_policy_denies_even_if_another_permits() {
    for failing in ["forbid", "permit"] {
        let policies = format!(
            "{PERMIT_ALL} @id(\"broken\") {failing} (principal, action, resource) when {{ context.nothing }};"
        );
        check(&policies, Decision::Deny, "cedar_error", "policy `broken`");
    }
    let overflow = format!(
        "{PERMIT_ALL} forbid (principal, action, resource) when {{ context.payment.amount_minor * 9223372036854775807 > 0 }};"
    );
    check(&overflow, Decision::Deny, "cedar_error", "policy `policy1`");
}

#[test]
fn unreadable_settings_deny_and_the_detail_names_the_file() {
    for settings in
        [r#"{"fact": {}}"#, r#"{"facts": {"x": "number"}}"#, r#"{"required_approvals": -1}"#, "[]", "1"]
    {
        let verdict = judge(&payment("a", "b", 1), Some(PERMIT_ALL), settings, &[]);
        assert_eq!(verdict.decision, Decision::Deny, "{settings}: {verdict:?}");
        assert!(said(&verdict).contains("settings.json"), "{verdict:?}");
    }
}

#[test]
fn a_fact_of_another_type_denies() {
    let policy = |condition: &str| format!("permit (principal, action, resource) when {{ {condition} }};");
    let decide = |kind: &str, value: &str, condition: &str| {
        let settings = format!("{{\"facts\": {{\"x.y\": \"{kind}\"}}}}");
        judge(&payment("a", "b", 1), Some(&policy(condition)), &settings, &[("x.y", value)]).decision
    };
    let value = "context.facts[\"x.y\"]";
    assert_eq!(decide("long", "-12", &format!("{value} == -12")), Decision::Allow);
    assert_eq!(decide("bool", "true", value), Decision::Allow);
    assert_eq!(decide("string", "12", &format!("{value} == \"12\"")), Decision::Allow);
    assert_eq!(decide("set", " a, b,,", &format!("{value} == [\"a\", \"b\"]")), Decision::Allow);
    for (kind, value) in [("long", "12.5"), ("long", "9223372036854775808"), ("long", ""), ("bool", "yes")] {
        assert_eq!(decide(kind, value, "true"), Decision::Deny, "{kind} {value}");
    }
    assert_eq!(
        judge(&payment("a", "b", 1), Some(&policy("context.facts has \"x.y\"")), "{}", &[("x.y", "1")])
            .decision,
        Decision::Deny
    );
}

#[test]
fn cedar_escape_names_are_plain_field_names() {
    let mut request = asset_action();
    let gateway_policy_sdk::Intent::AssetAction(action) = &mut request.intent else { unreachable!() };
    action.public_fields = vec![("__entity".into(), "x".into()), ("__extn".into(), "y".into())];
    let policy =
        "permit (principal, action, resource) when { context.asset_action.fields.__entity == \"x\" };";
    let verdict = judge(&request, Some(policy), "{}", &[]);
    assert_eq!(verdict.decision, Decision::Allow, "{verdict:?}");
}

#[test]
fn policies_can_test_groups_roles_and_tenants() {
    let policy = "permit (principal in Role::\"submitter\", action in Action::\"key_change\", resource == Key::\"treasury\")
        when { principal.tenant == resource.tenant && context.key_change.target_epoch == \"2\" && context.threshold == 2
            && context.participants == [0, 1, 2] && !(context has payment) };";
    assert_eq!(judge(&key_change("refresh"), Some(policy), "{}", &[]).decision, Decision::Allow);
    assert_eq!(judge(&payment("a", "b", 1), Some(policy), "{}", &[]).decision, Decision::Deny);
}
