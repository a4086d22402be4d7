//! Approver roles, required roles and tiers from the bundle's data.

use super::{ALONE, SEPARATED, TWO, check_unreadable, codes, details, judge_with};
use gateway_policy_sdk::testing::{approved, payment};
use gateway_policy_sdk::{Decision, Group, Moment, Request, Verdict};

const FILE: &str = "quorum.json";

/// A payment approved by these people, each given as `name:role,role`.
fn by(moment: Moment, amount_minor: i64, people: &[&str]) -> Request {
    let names: Vec<&str> = people.iter().map(|person| person.split(':').next().unwrap()).collect();
    let mut request = approved(payment("acct-1", "acct-2", amount_minor), moment, &names);
    for (approval, person) in request.approvals.iter_mut().zip(people) {
        let roles = person.split_once(':').map_or("", |(_, roles)| roles);
        approval.by.roles = roles.split(',').filter(|role| !role.is_empty()).map(str::to_owned).collect();
    }
    request
}

fn judge(data: &str, request: &Request) -> Verdict {
    judge_with(request, &[("deployment.permitted_recipients", "*"), TWO, ALONE], &[(FILE, data)])
}

#[track_caller]
fn check(data: &str, amount_minor: i64, people: &[&str], required: u32, satisfied: bool) {
    let quorum = judge(data, &by(Moment::Admission, amount_minor, people)).quorum;
    assert_eq!(
        (quorum.required, quorum.satisfied),
        (required, satisfied),
        "{people:?} under {data}: {quorum:?}"
    );
}

const TIERS: &str = r#"{"payments":{"EUR":[
    {"from":0,"approvals":1},
    {"from":100,"approvals":3},
    {"from":1000,"approvals":4,"roles":{"treasurer":2}}]}}"#;

#[test]
fn the_quorum_rises_with_the_amount_and_is_at_least_the_deployments() {
    for (amount, required) in [(1, 2), (99, 2), (100, 3), (999, 3), (1_000, 4), (i64::MAX, 4)] {
        check(TIERS, amount, &["a", "b", "c:treasurer", "d:treasurer"], required, true);
        let n_people = usize::try_from(required).unwrap() - 1;
        check(TIERS, amount, &["a:treasurer", "b:treasurer", "c"][..n_people], required, false);
    }
    check(TIERS, 1_000, &["a", "b", "c", "d:treasurer"], 4, false);
    check(TIERS, 999, &["a", "b", "c"], 3, true);
}

#[test]
fn a_currency_without_tiers_uses_the_star_tiers() {
    let any = r#"{"payments":{"USD":[{"approvals":9}],"*":[{"approvals":3}]}}"#;
    check(any, 1, &["a", "b"], 3, false);
    check(r#"{"payments":{"EUR":[{"approvals":2}],"*":[{"approvals":9}]}}"#, 1, &["a", "b"], 2, true);
    check(r#"{"payments":{"USD":[{"approvals":9}]}}"#, 1, &["a", "b"], 2, true);
    check(r#"{"payments":{"EUR":[{"from":10,"approvals":9}]}}"#, 9, &["a", "b"], 2, true);
}

#[test]
fn one_person_fills_one_role_unless_roles_are_shared() {
    let rule = r#""payments":{"*":[{"approvals":2,"roles":{"security":1,"treasurer":1}}]}"#;
    let alone = ["{", rule, "}"].concat();
    let shared = ["{", rule, r#","one_person_many_roles":true}"#].concat();
    for (people, by_one, by_many) in [
        (&["a:treasurer", "b:security"][..], true, true),
        (&["a:treasurer,security", "b"], false, true),
        (&["a:treasurer,security", "b:treasurer"], true, true),
        (&["a:treasurer", "b:treasurer,security"], true, true),
        (&["a:security", "b:security"], false, false),
        (&["a:treasurer,security"], false, false),
    ] {
        check(&alone, 1, people, 2, by_one);
        check(&shared, 1, people, 2, by_many);
    }
    // People assigned first must move to other roles to make room for the last one.
    let three = r#"{"payments":{"*":[{"roles":{"a":1,"b":1,"c":1}}]}}"#;
    check(three, 1, &["x:a,b,c", "y:a,b", "z:a"], 2, true);
    check(three, 1, &["x:a,b", "y:a,b", "z:a,b"], 2, false);
    let two = r#"{"payments":{"*":[{"roles":{"a":2}}]},"one_person_many_roles":true}"#;
    check(two, 1, &["x:a", "y"], 2, false);
    check(two, 1, &["x:a", "y:a"], 2, true);
}

#[test]
fn missing_approvals_and_roles_are_named() {
    let verdict = judge(TIERS, &by(Moment::Admission, 1_000, &["a", "b", "c", "d:treasurer"]));
    assert_eq!(verdict.decision, Decision::Deny);
    assert_eq!(details(&verdict, "quorum_not_reached"), ["approvals 4, required 4, missing 0"]);
    let group = |name: &str, needed, have: &[&str]| Group {
        name: name.into(),
        needed,
        have: have.iter().map(|&subject| subject.into()).collect(),
    };
    assert_eq!(verdict.quorum.groups, [group("treasurer", 2, &["d"])]);
    let submitted = judge(TIERS, &payment("acct-1", "acct-2", 1_000));
    assert_eq!(details(&submitted, "collect_approvals"), ["approvals 0, required 4, missing 4"]);
    assert_eq!(submitted.quorum.groups, [group("treasurer", 2, &[])]);
    // A group has those who are seated in it: no person sits twice.
    let two = r#"{"payments":{"*":[{"roles":{"security":1,"treasurer":1}}]}}"#;
    let groups = |people: &[&str]| judge(two, &by(Moment::Admission, 1, people)).quorum.groups;
    assert_eq!(
        groups(&["a:treasurer,security", "b:treasurer"]),
        [group("security", 1, &["a"]), group("treasurer", 1, &["b"])]
    );
    assert_eq!(
        groups(&["a:treasurer,security", "b"]),
        [group("security", 1, &["a"]), group("treasurer", 1, &[])]
    );
}

#[test]
fn an_approval_in_another_role_does_not_count_and_gets_a_reason() {
    let data = r#"{"approver_roles":["approver","tre\"asurer"]}"#;
    let last = by(Moment::Approval, 1, &["a:approver", "b:clerk"]);
    let verdict = judge(data, &last);
    assert_eq!((verdict.decision, verdict.quorum.subjects.clone()), (Decision::Allow, vec!["a".to_owned()]));
    assert_eq!(details(&verdict, "approval_not_counted"), ["subject b, needs_one_of approver, tre\"asurer"]);
    let counted = judge(data, &by(Moment::Approval, 1, &["a:clerk", "b:tre\"asurer"]));
    assert_eq!(counted.quorum.subjects, ["b"]);
    assert!(!codes(&counted.reasons).contains(&"approval_not_counted"));
    check(data, 1, &["a:approver", "b:clerk", "c:approver"], 2, true);
    check(r#"{"approver_roles":[]}"#, 1, &["a:approver", "b:approver"], 2, false);
}

#[test]
fn the_data_may_exclude_the_submitter_but_not_include_it() {
    let by_alice = by(Moment::Admission, 1, &["alice", "bob"]);
    let judged = |data: &str, separation| {
        let facts = [("deployment.permitted_recipients", "*"), TWO, separation];
        judge_with(&by_alice, &facts, &[(FILE, data)]).quorum.satisfied
    };
    assert!(judged("{}", ALONE) && judged(r#"{"submitter_may_approve":true}"#, ALONE));
    assert!(!judged(r#"{"submitter_may_approve":false}"#, ALONE));
    assert!(!judged(r#"{"submitter_may_approve":true}"#, SEPARATED));
    let verdict = judge(r#"{"submitter_may_approve":false}"#, &by(Moment::Approval, 1, &["alice"]));
    assert_eq!(details(&verdict, "approval_not_counted"), ["subject alice, is_submitter true"]);
}

#[test]
fn no_approval_counts_if_the_quorum_file_is_malformed() {
    let request = by(Moment::Admission, 50, &["a", "b", "c", "d", "e"]);
    for (data, place) in [
        ("[]", ""),
        (r#"{"approver_role":["a"]}"#, " /approver_role"),
        (r#"{"approver_roles":"a"}"#, " /approver_roles"),
        (r#"{"approver_roles":[1]}"#, " /approver_roles"),
        (r#"{"submitter_may_approve":"no"}"#, " /submitter_may_approve"),
        (r#"{"one_person_many_roles":1}"#, " /one_person_many_roles"),
        (r#"{"payments":[]}"#, " /payments"),
        (r#"{"payments":{"EUR":{}}}"#, " /payments/EUR"),
        (r#"{"payments":{"*":[5]}}"#, " /payments/*"),
        (r#"{"payments":{"EUR":[{"approval":3}]}}"#, " /payments/EUR/approval"),
        (r#"{"payments":{"EUR":[{"approvals":65}]}}"#, " /payments/EUR/approvals"),
        (r#"{"payments":{"EUR":[{"approvals":-1}]}}"#, " /payments/EUR/approvals"),
        (r#"{"payments":{"EUR":[{"roles":["a"]}]}}"#, " /payments/EUR/roles"),
        (r#"{"payments":{"EUR":[{"roles":{"a":"1"}}]}}"#, " /payments/EUR/roles/a"),
        (r#"{"payments":{"EUR":[{"from":"5"}]}}"#, " /payments/EUR/from"),
        (r#"{"payments":{"EUR":[{"from":5},{"from":5}]}}"#, " /payments/EUR"),
        (r#"{"payments":{"EUR":[{"from":5},{"approvals":3}]}}"#, " /payments/EUR"),
        (r#"{"payments":{"EUR":[{},{"from":5000,"approvalls":9}]}}"#, " /payments/EUR/approvalls"),
    ] {
        check_unreadable(&request, FILE, data, place);
        assert!(!judge(data, &request).quorum.satisfied, "{data}");
    }
}
