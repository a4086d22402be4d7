//! What the vectors of the committed bundle (`bundles/cedar-example/tests`) cannot show: malformed data, and the rest of the language.

mod documents;

use crate::CedarGuest;
use crate::prepared::Prepared;
use gateway_policy_sdk::testing::{approved, asset_action, data, facts, key_change, payment};
use gateway_policy_sdk::{Data, Decision, Moment, Policy, Request, Verdict};

const PERMIT_ALL: &str = "permit (principal, action, resource);";

/// A bundle's files below `data/`, as text.
fn files(all: &[(&str, &str)]) -> impl Data + use<> {
    let quoted = |text: &str| if text.starts_with('[') { text.to_owned() } else { format!("{text:?}") };
    let all: Vec<_> = all.iter().map(|(file, text)| (*file, quoted(text))).collect();
    data(&all.iter().map(|(file, text)| (*file, text.as_str())).collect::<Vec<_>>())
}

fn judge(request: &Request, policies: &str, schema: &str, known: &[(&str, &str)]) -> Verdict {
    let files = files(&[("policies.cedar", policies), ("schema.cedarschema", schema)]);
    CedarGuest::evaluate(request, &facts(known), &files)
}

#[track_caller]
fn check(policies: &str, decision: Decision, code: &str, detail: &str) {
    let verdict = judge(&payment("acct-1", "acct-2", 100), policies, "", &[]);
    assert_eq!(verdict.decision, decision, "{verdict:?}");
    assert!(verdict.reasons.iter().all(|reason| reason.code == code), "{verdict:?}");
    assert!(said(&verdict).contains(detail), "{verdict:?}");
}

/// The operands of the first reason.
fn said(verdict: &Verdict) -> String {
    let operands = verdict.reasons[0].operands.iter();
    operands.map(|it| format!("{} {}\n", it.name, it.value)).collect()
}

/// The fault of files that `bundle build` refuses.
#[track_caller]
fn refused(all: &[(&str, &str)]) -> String {
    Prepared::read(&files(all)).err().expect("a fault")
}

#[test]
fn unusable_policies_deny() {
    check("", Decision::Deny, "cedar_no_permit", "");
    let template = format!("{PERMIT_ALL}\npermit (principal == ?principal, action, resource);");
    check(&template, Decision::Deny, "cedar_error", "data/policies.cedar:2:1: templates are not supported");
    let missing = CedarGuest::evaluate(&payment("a", "b", 1), &facts(&[]), &files(&[]));
    assert_eq!((missing.decision, missing.reasons[0].code.as_str()), (Decision::Deny, "cedar_error"));
}

#[test]
fn syntax_error_names_file_line_and_column() {
    let fault = refused(&[(
        "policies.cedar",
        "// first\npermit (principal, action, resource)\n  when { true false };",
    )]);
    assert!(fault.starts_with("data/policies.cedar:3:15: unexpected token `false`"), "{fault}");
    let fault = refused(&[("policies.cedar", "permit (principal, action")]);
    assert!(fault.starts_with("data/policies.cedar:1:26: unexpected end of input"), "{fault}");
    let fault =
        refused(&[("policies.cedar", PERMIT_ALL), ("schema.cedarschema", "type Facts = {\n  x: Long;\n};")]);
    assert!(fault.starts_with("data/schema.cedarschema:2:10: "), "{fault}");
}

#[test]
fn disjunction_of_60_ranges_is_answered() {
    let ranges: Vec<_> = (0..60)
        .map(|n| format!("context.payment.amount_minor > {n}000 && context.payment.amount_minor < {n}500"))
        .collect();
    let policy = format!(
        "permit (principal, action == Action::\"payment\", resource) when {{ {} }};",
        ranges.join(" || ")
    );
    // Without optimisation, Cedar needs more stack than a thread of the tests has.
    let evaluate = move || {
        for (amount, decision) in [(59_250, Decision::Allow), (59_750, Decision::Deny)] {
            let verdict = judge(&payment("a", "b", amount), &policy, "", &[]);
            assert!(verdict.reasons.iter().all(|it| it.code != "cedar_error"), "{verdict:?}");
            assert_eq!(verdict.decision, decision);
        }
    };
    std::thread::Builder::new().stack_size(64 << 20).spawn(evaluate).unwrap().join().unwrap();
}

#[test]
fn validation_error_names_file_line_and_column() {
    let faults = [
        (
            "permit (principal, action == Action::\"payment\", resource)\nwhen { context.payment.amount > 1 };",
            "2:8: ",
            "amount",
        ),
        ("permit (principal, action == Action::\"pay\", resource);", "1:30: ", "Action::\"pay\""),
        ("permit (principal, action, resource) when { context.facts[\"x\"] > 1 };", "1:45: ", "x"),
        (
            "permit (principal, action == Action::\"payment\", resource)\nwhen { context.payment.reference like \"a*\" };",
            "2:8: ",
            "reference",
        ),
    ];
    for (policy, place, detail) in faults {
        let fault = refused(&[("policies.cedar", policy)]);
        assert!(
            fault.starts_with(&format!("data/policies.cedar:{place}")) && fault.contains(detail),
            "{fault}"
        );
    }
    let fault =
        refused(&[("policies.cedar", PERMIT_ALL), ("schema.cedarschema", "type Facts = {\n  x: Role\n};")]);
    assert!(fault.contains("`x` of type `Facts`"), "{fault}");
}

#[test]
fn failing_policy_denies_even_if_another_permits() {
    for failing in ["forbid", "permit"] {
        let overflow = format!(
            "{PERMIT_ALL}\n@id(\"broken\") {failing} (principal, action == Action::\"payment\", resource)
             when {{ context.payment.amount_minor * 9223372036854775807 > 0 }};"
        );
        check(
            &overflow,
            Decision::Deny,
            "cedar_error",
            "policy broken\nplace data/policies.cedar:2:1\nfault ",
        );
    }
}

#[test]
fn fact_of_another_type_denies() {
    let decide = |kind: &str, value: &[(&str, &str)], condition: &str| {
        let policy = format!("permit (principal, action, resource) when {{ {condition} }};");
        judge(&payment("a", "b", 1), &policy, &format!("type Facts = {{ \"x.y\": {kind} }};"), value).decision
    };
    let value = "context.facts[\"x.y\"]";
    let cases = [
        ("Long", "-12", format!("{value} == -12")),
        ("Bool", "true", value.to_owned()),
        ("String", "12", format!("{value} == \"12\"")),
        ("Set<String>", " a, b,,", format!("{value} == [\"a\", \"b\"]")),
        ("decimal", "10000.5", format!("{value}.greaterThan(decimal(\"10000.0\"))")),
        ("datetime", "951782400001", format!("{value} == datetime(\"2000-02-29T00:00:00.001Z\")")),
    ];
    for (kind, text, condition) in cases {
        assert_eq!(decide(kind, &[("x.y", text)], &condition), Decision::Allow, "{kind}");
        assert_eq!(decide(kind, &[], "true"), Decision::Deny, "{kind} is required and missing");
    }
    let unusable = [
        ("Long", "12.5"),
        ("Long", "9223372036854775808"),
        ("Long", ""),
        ("Bool", "yes"),
        ("decimal", "1.23456"),
        ("datetime", "now"),
    ];
    for (kind, value) in unusable {
        assert_eq!(decide(kind, &[("x.y", value)], "true"), Decision::Deny, "{kind} {value}");
    }
    let optional = judge(&payment("a", "b", 1), PERMIT_ALL, "type Facts = { \"x.y\"?: Long };", &[]);
    assert_eq!(optional.decision, Decision::Allow);
}

#[test]
fn cedar_escape_names_are_plain_field_names() {
    let mut request = asset_action();
    let gateway_policy_sdk::Intent::AssetAction(action) = &mut request.intent else { unreachable!() };
    action.public_fields = vec![("__entity".into(), "x".into()), ("__extn".into(), "y".into())];
    let policy = "permit (principal, action == Action::\"asset_action\", resource) when { context.asset_action.fields.__entity == \"x\" };";
    let verdict = judge(&request, policy, "type Fields = { __entity: String, other?: Long };", &[]);
    assert_eq!(verdict.decision, Decision::Allow, "{verdict:?}");
}

#[test]
fn policies_can_test_groups_roles_and_tenants() {
    let policy = "permit (principal in Role::\"submitter\", action in Action::\"key_change\", resource == Key::\"treasury\")
        when { principal.tenant == resource.tenant && context.key_change has target_epoch && context.key_change.target_epoch == \"2\"
            && context has threshold && context.threshold == 2 && context.participants == [0, 1, 2] };";
    assert_eq!(judge(&key_change("refresh"), policy, "", &[]).decision, Decision::Allow);
    assert_eq!(judge(&payment("a", "b", 1), policy, "", &[]).decision, Decision::Deny);
}

#[test]
fn policies_can_name_entities_of_the_bundle() {
    let policy = "permit (principal, action == Action::\"payment\", resource)
        when { AddressBook::\"suppliers\".accounts.contains(context.payment.to_account) };";
    let schema = "entity AddressBook { accounts: Set<String> };";
    let entities = r#"[{"uid": {"type": "AddressBook", "id": "suppliers"}, "attrs": {"accounts": ["b"]}, "parents": []}]"#;
    let all = [("policies.cedar", policy), ("schema.cedarschema", schema), ("entities.json", entities)];
    for (to, decision) in [("b", Decision::Allow), ("c", Decision::Deny)] {
        let verdict = CedarGuest::evaluate(&payment("a", to, 1), &facts(&[]), &files(&all));
        assert_eq!(verdict.decision, decision, "{verdict:?}");
    }
    let subject = r#"[{"uid": {"type": "Subject", "id": "alice"}, "attrs": {"person": "alice", "tenant": "t", "attributes": {}}, "parents": []}]"#;
    let fault = refused(&[("policies.cedar", PERMIT_ALL), ("entities.json", subject)]);
    assert!(fault.contains("Subject::\"alice\""), "{fault}");
}

const FLAGSHIP: &str = r#"
    permit (principal in Role::"submitter", action == Action::"payment", resource);
    @quorum("3 treasurer, 1 checker") forbid (principal, action == Action::"payment", resource)
    when { context.payment.amount_minor > 1000000 };
    @quorum("2") forbid (principal, action, resource);
    @group("treasurer") permit (principal in Role::"treasurer", action == Action::"approve", resource);
    @group("checker") permit (principal in Role::"checker", action == Action::"approve", resource)
    when { principal != resource.submitter };"#;

fn with_roles(amount: i64, people: &[(&str, &str)]) -> Verdict {
    let subjects: Vec<_> = people.iter().map(|(subject, _)| *subject).collect();
    let mut request = approved(payment("a", "b", amount), Moment::Admission, &subjects);
    for (approval, (_, roles)) in request.approvals.iter_mut().zip(people) {
        approval.by.roles = roles.split(' ').map(str::to_owned).collect();
    }
    judge(&request, FLAGSHIP, "", &[])
}

#[test]
fn quorum_counts_the_groups_of_the_policies_that_apply() {
    let small = with_roles(100, &[("bob", "x"), ("carol", "y")]);
    assert_eq!((small.decision, small.quorum.required, small.quorum.satisfied), (Decision::Allow, 2, true));
    let people = [("bob", "treasurer"), ("carol", "treasurer"), ("dave", "treasurer checker")];
    let large = with_roles(1_000_001, &people);
    assert_eq!(
        (large.decision, large.quorum.required, large.quorum.satisfied),
        (Decision::Allow, 3, true),
        "{large:?}"
    );
    let without_checker =
        with_roles(1_000_001, &[("bob", "treasurer"), ("carol", "treasurer"), ("dave", "treasurer")]);
    assert_eq!((without_checker.decision, without_checker.quorum.satisfied), (Decision::Deny, false));
    let checkers: Vec<_> =
        without_checker.quorum.groups.iter().map(|it| (&*it.name, it.needed, it.have.len())).collect();
    assert_eq!(checkers, [("checker", 1, 0), ("treasurer", 3, 3)]);
    let same_person =
        with_roles(1_000_001, &[("bob", "treasurer"), ("bob", "treasurer"), ("dave", "treasurer checker")]);
    assert_eq!((same_person.decision, same_person.quorum.subjects.len()), (Decision::Deny, 2));
}

#[test]
fn quorum_that_cannot_be_reached_or_read_is_refused() {
    let cases = [
        ("@quorum(\"two\") forbid (principal, action, resource);", "is not understood"),
        ("@quorum(\"0\") forbid (principal, action, resource);", "is not understood"),
        ("@quorum(\"1 a, 2 a\") forbid (principal, action, resource);", "names a group twice"),
        ("@quorum(\"1 a\") forbid (principal, action, resource);", "no policy has `@group(\"a\")`"),
        (
            "@quorum(\"1\") permit (principal, action, resource);",
            "belong to a `forbid` without `@group` and `@code`",
        ),
        ("@group(\"a\") forbid (principal, action, resource);", "`@group` belongs to a `permit`"),
    ];
    for (policy, expected) in cases {
        let fault = refused(&[("policies.cedar", policy)]);
        assert!(fault.starts_with("data/policies.cedar:1:1: ") && fault.contains(expected), "{fault}");
    }
}

#[test]
fn changed_file_is_noticed() {
    let prepared =
        Prepared::read(&files(&[("policies.cedar", PERMIT_ALL)])).unwrap_or_else(|fault| panic!("{fault:?}"));
    assert!(prepared.check(&files(&[("policies.cedar", PERMIT_ALL)])).is_ok());
    for changed in [("policies.cedar", "// none"), ("schema.cedarschema", "")] {
        let fault = prepared.check(&files(&[("policies.cedar", PERMIT_ALL), changed])).unwrap_err();
        assert!(format!("{fault:?}").contains(changed.0), "{fault:?}");
    }
}

#[test]
fn groups_can_compare_attributes_of_people() {
    let policies = r#"permit (principal, action, resource);
        @quorum("1 other_team") forbid (principal, action, resource);
        @group("other_team") permit (principal, action == Action::"approve", resource)
        when { principal.attributes.team != resource.submitter.attributes.team };"#;
    let satisfied = |team: &str| {
        let mut request = approved(payment("a", "b", 1), Moment::Admission, &["bob"]);
        request.submitter.attributes = vec![("team".into(), "trading".into())];
        request.approvals[0].by.attributes = vec![("team".into(), team.into())];
        judge(&request, policies, "type Attributes = { team: String };", &[]).quorum.satisfied
    };
    assert!(satisfied("risk") && !satisfied("trading"));
}

/// The operand of the obligation `admit_not_before`.
fn waits_until(verdict: &Verdict) -> Option<u64> {
    let mut obligations = verdict.obligations.iter();
    let found = obligations.find(|it| it.code == "admit_not_before")?;
    assert_eq!(found.operands[0].name, "at_ms");
    found.operands[0].value.parse().ok()
}

#[test]
fn wait_begins_with_the_last_approval_that_counts() {
    let policies = r#"permit (principal, action, resource);
        @quorum("2") @wait("24h") forbid (principal, action == Action::"payment", resource)
        when { context.payment.amount_minor > 10 };
        @wait("90m") forbid (principal, action, resource);"#;
    let of = |amount, approvers: &[&str]| {
        let mut request = approved(payment("a", "b", amount), Moment::Approval, approvers);
        for (nth, approval) in request.approvals.iter_mut().enumerate() {
            approval.at_ms = 1_000 * (nth as u64 + 1);
        }
        judge(&request, policies, "", &[("deployment.required_approvals", "0")])
    };
    assert_eq!(waits_until(&of(11, &["bob", "eve"])), Some(2_000 + 86_400_000));
    assert_eq!(waits_until(&of(11, &["bob"])), None, "no quorum");
    assert_eq!(waits_until(&of(10, &["bob"])), Some(1_000 + 5_400_000));
    let without = of(10, &[]);
    assert_eq!(
        (without.quorum.required, without.quorum.satisfied),
        (1, false),
        "a wait begins with an approval"
    );
}

#[test]
fn postponed_admission_is_tried_again_while_the_policy_applies() {
    let policies = r#"permit (principal, action, resource);
        @postpone("1h") forbid (principal, action, resource)
        when { context.facts["time.weekday.UTC"] == "sunday" };"#;
    let schema = r#"type Facts = { "time.weekday.UTC": String };"#;
    let on = |day: &str, known: &[(&str, &str)]| {
        let request = approved(payment("a", "b", 1), Moment::Admission, &["bob"]);
        let known = [&[("time.weekday.UTC", day)], known].concat();
        judge(&request, policies, schema, &known)
    };
    let now = [("time.now_ms", "5000")];
    assert_eq!(waits_until(&on("sunday", &now)), Some(5_000 + 3_600_000));
    let monday = on("monday", &now);
    assert_eq!((waits_until(&monday), monday.decision), (None, Decision::Allow));
    assert_eq!(on("sunday", &[]).decision, Decision::Deny, "without a clock");
}

#[test]
fn policy_with_a_code_gives_it_as_its_reason() {
    check(
        r#"@code("open") permit (principal, action, resource);"#,
        Decision::Allow,
        "open",
        "policy policy0",
    );
    let closed = r#"permit (principal, action, resource);
        @id("weekend") @code("closed") @remedy("on a working day") forbid (principal, action, resource);"#;
    check(
        closed,
        Decision::Deny,
        "closed",
        "policy weekend\nplace data/policies.cedar:2:9\nremedy on a working day",
    );
}

#[test]
fn misplaced_or_unreadable_conditions_name_their_place() {
    for (policy, fault) in [
        (r#"@wait("24h") permit (principal, action, resource);"#, "belong to a `forbid`"),
        (r#"@code("x") @wait("24h") forbid (principal, action, resource);"#, "without `@group` and `@code`"),
        (
            r#"@code("x") @group("a") permit (principal, action == Action::"approve", resource);"#,
            "`@code` belongs to a policy without `@group`",
        ),
        (r#"@wait("24") forbid (principal, action, resource);"#, "write minutes, hours or days"),
        (r#"@wait("0h") forbid (principal, action, resource);"#, "write minutes, hours or days"),
        (r#"@wait("367d") forbid (principal, action, resource);"#, "at most `366d`"),
        (r#"@postpone("-1h") forbid (principal, action, resource);"#, "`@postpone(\"-1h\")`"),
        (r#"@postpone("h") forbid (principal, action, resource);"#, "`@postpone(\"h\")`"),
    ] {
        let found = refused(&[("policies.cedar", policy)]);
        assert!(found.starts_with("data/policies.cedar:1:1: ") && found.contains(fault), "{policy}: {found}");
    }
}

#[test]
fn payment_is_compared_by_its_value_in_the_currency_of_the_rates() {
    let policies = r#"permit (principal, action == Action::"payment", resource)
        when { context.payment has value && context.payment.value.lessThanOrEqual(decimal("10.00")) };"#;
    let decision = |rates: &str, amount| {
        let files = data(&[("policies.cedar", &format!("{policies:?}")), ("rates.json", rates)]);
        CedarGuest::evaluate(&payment("a", "b", amount), &facts(&[]), &files).decision
    };
    let rates = r#"{"currency":"CHF","rates":{"EUR":{"rate":"0.5","decimals":2}}}"#;
    assert_eq!((decision(rates, 2_000), decision(rates, 2_001)), (Decision::Allow, Decision::Deny));
    assert_eq!(decision(r#"{"currency":"CHF","rates":{}}"#, 1), Decision::Deny, "no rate");
    let zero = r#"{"currency":"CHF","rates":{"EUR":{"rate":"0.0","decimals":2}}}"#;
    assert_eq!(decision(zero, 1), Decision::Deny);
}
