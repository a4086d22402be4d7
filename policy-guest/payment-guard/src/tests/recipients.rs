//! The bundle's own list of recipients.

use super::{ALONE, TWO, check_unreadable, codes, details, judge_with};
use gateway_policy_sdk::Decision;
use gateway_policy_sdk::testing::payment;

const FILE: &str = "recipients.json";
const LIST: &str = r#"{"accounts":{"acct-2":"electricity","a/b~c":"rent","7":""}}"#;

#[test]
fn both_the_deployment_and_the_list_must_permit() {
    let permitted = |by_deployment: &str, to: &str| {
        let facts = [("deployment.permitted_recipients", by_deployment), TWO, ALONE];
        judge_with(&payment("acct-1", to, 1), &facts, &[(FILE, LIST)]).decision == Decision::Allow
    };
    assert!(permitted("*", "acct-2") && permitted("*", "a/b~c") && permitted("*", "7"));
    assert!(permitted("acct-2,acct-3", "acct-2"));
    for (by_deployment, to) in [
        ("*", "acct-3"),
        ("acct-3", "acct-2"),
        ("", "acct-2"),
        ("*", "ACCT-2"),
        ("*", "acct-2/"),
        ("*", "a/b"),
        ("*", "8"),
        ("*", ""),
    ] {
        assert!(!permitted(by_deployment, to), "`{to}` by `{by_deployment}`");
    }
}

#[test]
fn each_refusal_names_its_remedy() {
    let facts = [("deployment.permitted_recipients", "acct-3"), TWO, ALONE];
    let verdict = judge_with(&payment("acct-1", "acct-9", 1), &facts, &[(FILE, LIST)]);
    assert_eq!(
        codes(&verdict.reasons),
        ["recipient_not_permitted", "recipient_not_permitted", "amount_positive"]
    );
    assert_eq!(
        details(&verdict, "recipient_not_permitted")[1],
        "account acct-9, place data/recipients.json /accounts"
    );
    let listed = judge_with(&payment("acct-1", "acct-2", 1), &facts, &[(FILE, LIST)]);
    assert_eq!(codes(&listed.reasons), ["recipient_not_permitted", "amount_positive"]);
}

#[test]
fn an_empty_or_malformed_list_denies() {
    let facts = [("deployment.permitted_recipients", "*"), TWO, ALONE];
    let verdict = judge_with(&payment("acct-1", "acct-2", 1), &facts, &[(FILE, r#"{"accounts":{}}"#)]);
    assert_eq!(verdict.decision, Decision::Deny);
    for (to, text, place) in [
        ("acct-9", r#"{"account":{"acct-9":""}}"#, " /account"),
        ("acct-9", r#"{"accounts":["acct-9"]}"#, " /accounts"),
        ("0", r#"{"accounts":["acct-9"]}"#, " /accounts"),
        ("acct-9", r#"["acct-9"]"#, ""),
        ("acct-9", r#"{"accounts":{},"note":"x"}"#, " /note"),
    ] {
        check_unreadable(&payment("acct-1", to, 1), FILE, text, place);
    }
}
