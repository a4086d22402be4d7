//! Custody rules and their quorums from the bundle's data.

use super::{ALONE, RECIPIENTS, TWO, check_unreadable, codes, details, judge_with};
use gateway_policy_sdk::testing::{approved, asset_action, key_change, payment};
use gateway_policy_sdk::{Decision, Moment, Request, Verdict};

const FILE: &str = "custody.json";

fn judge(data: &str, request: &Request) -> Verdict {
    judge_with(request, &[TWO, ALONE], &[(FILE, data)])
}

fn reasons(data: &str, request: &Request) -> String {
    codes(&judge(data, request).reasons).join(" ")
}

/// Permits every custody operation, as the bundle of the development profile does.
const ANY: &str = r#"{"chains":{"*":""},"assets":{"*":{"*":{}}},
    "key_operations":{"key_create":{},"refresh":{},"reshare":{},"rotate":{},"recover":{}}}"#;
const KEY_OPERATIONS: [&str; 5] = ["key_create", "refresh", "reshare", "rotate", "recover"];

#[test]
fn a_kind_without_a_rule_is_denied() {
    let refused = |files: &[(&str, &str)], request: &Request, expected: &[&str]| {
        let verdict = judge_with(request, &[TWO, ALONE], files);
        assert_eq!(
            (verdict.decision, codes(&verdict.reasons)),
            (Decision::Deny, expected.to_vec()),
            "{files:?}"
        );
    };
    let (chain, action) = ("chain_not_permitted", "action_not_permitted");
    for files in [&[][..], &[(FILE, "{}")], &[(FILE, r#"{"key_operations":{"recover":{}}}"#)]] {
        refused(files, &asset_action(), &[chain, action]);
    }
    for files in [&[][..], &[(FILE, "{}")], &[(FILE, r#"{"chains":{"*":""},"assets":{"*":{"*":{}}}}"#)]] {
        for operation in KEY_OPERATIONS {
            refused(files, &key_change(operation), &["key_operation_not_permitted"]);
        }
    }
    refused(&[(FILE, r#"{"assets":{"asset-1":{"transfer":{}}}}"#)], &asset_action(), &[chain]);
    refused(&[(FILE, r#"{"chains":{"eip155:1":""}}"#)], &asset_action(), &[action]);
    // Approvals do not replace a rule.
    let approved = approved(asset_action(), Moment::Admission, &["bob", "carol"]);
    refused(&[], &approved, &[chain, action, "quorum_reached"]);
    // Payments depend on the deployment's recipients, not on custody rules.
    let pays = |facts: &[(&str, &str)]| judge_with(&payment("acct-1", "acct-2", 1), facts, &[(FILE, ANY)]);
    assert_eq!(pays(&[RECIPIENTS, TWO, ALONE]).decision, Decision::Allow);
    assert_eq!(pays(&[TWO, ALONE]).decision, Decision::Deny);
}

#[test]
fn unlisted_chains_and_actions_are_denied() {
    let action = asset_action();
    for data in [
        r#"{"chains":{"eip155:1":""},"assets":{"asset-1":{"transfer":{}}}}"#,
        r#"{"chains":{"eip155:1":""},"assets":{"asset-1":{"transfer":{},"burn":{}}},"key_operations":{}}"#,
    ] {
        assert_eq!(reasons(data, &action), "custody_intent_permitted", "{data}");
    }
    for (chains, assets, expected, name) in [
        ("{}", r#"{"asset-1":{"transfer":{}}}"#, "chain_not_permitted", "chain eip155:1"),
        (r#"{"eip155:2":""}"#, r#"{"asset-1":{"transfer":{}}}"#, "chain_not_permitted", "chain eip155:1"),
        (r#"{"eip155:1":""}"#, "{}", "action_not_permitted", "action asset-1/transfer"),
        (
            r#"{"eip155:1":""}"#,
            r#"{"asset-2":{"transfer":{}}}"#,
            "action_not_permitted",
            "action asset-1/transfer",
        ),
        (
            r#"{"eip155:1":""}"#,
            r#"{"asset-1":{"burn":{}}}"#,
            "action_not_permitted",
            "action asset-1/transfer",
        ),
    ] {
        let data = format!(r#"{{"chains":{chains},"assets":{assets}}}"#);
        let verdict = judge(&data, &action);
        assert_eq!((verdict.decision, codes(&verdict.reasons)), (Decision::Deny, vec![expected]), "{data}");
        assert!(details(&verdict, expected)[0].starts_with(name), "{verdict:?}");
    }
    let both = reasons(r#"{"chains":{},"assets":{}}"#, &action);
    assert_eq!(both, "chain_not_permitted action_not_permitted");
}

#[test]
fn a_star_matches_only_names_that_are_not_listed() {
    let allows = |data: &str, request: &Request| judge(data, request).decision == Decision::Allow;
    assert!(allows(ANY, &asset_action()));
    assert!(KEY_OPERATIONS.iter().all(|operation| allows(ANY, &key_change(operation))));
    for (data, is_allowed) in [
        (r#"{"chains":{"*":""},"assets":{"asset-1":{"*":{}}}}"#, true),
        (r#"{"chains":{"*":""},"assets":{"*":{"transfer":{}}}}"#, true),
        (r#"{"chains":{"*":""},"assets":{"*":{"burn":{}}}}"#, false),
        // A listed asset has only its own actions, not those under `*`.
        (r#"{"chains":{"*":""},"assets":{"asset-1":{"burn":{}},"*":{"*":{}}}}"#, false),
        (r#"{"chains":{"eip155:2":""},"assets":{"*":{"*":{}}}}"#, false),
        (r#"{"chains":"*","assets":{"*":{"*":{}}}}"#, false),
        (r#"{"chains":{"*":""},"assets":{"*":"*"}}"#, false),
    ] {
        assert_eq!(allows(data, &asset_action()), is_allowed, "{data}");
    }
    let data = r#"{"chains":{"*":""},"assets":{"asset-1":{"*":{"approvals":3},"transfer":{"approvals":5}}}}"#;
    assert_eq!(judge(data, &asset_action()).quorum.required, 5, "a name takes precedence over `*`");
    assert!(!allows(r#"{"key_operations":{"*":{}}}"#, &key_change("recover")), "no `*` for key operations");
}

#[test]
fn unlisted_key_operations_are_denied() {
    let data = r#"{"key_operations":{"refresh":{},"rotate":{"approvals":3}}}"#;
    for permitted in ["refresh", "rotate"] {
        assert_eq!(reasons(data, &key_change(permitted)), "custody_intent_permitted");
    }
    for refused in ["key_create", "reshare", "recover"] {
        let verdict = judge(data, &key_change(refused));
        assert_eq!(codes(&verdict.reasons), ["key_operation_not_permitted"]);
        assert_eq!(
            details(&verdict, "key_operation_not_permitted")[0],
            format!("operation {refused}, place data/custody.json /key_operations/{refused}")
        );
    }
}

#[test]
fn actions_and_key_operations_have_their_own_quorums() {
    let data = r#"{"chains":{"*":""},"assets":{"asset-1":{"transfer":{"approvals":3,"roles":{"approver":2}}}},
        "key_operations":{"recover":{"approvals":4},"refresh":{"approvals":1}}}"#;
    let required = |request: Request| judge(data, &request).quorum.required;
    assert_eq!(required(asset_action()), 3);
    assert_eq!((required(key_change("recover")), required(key_change("refresh"))), (4, 2));
    let by = |people: &[&str]| judge(data, &approved(asset_action(), Moment::Admission, people)).decision;
    assert_eq!(by(&["a", "b"]), Decision::Deny);
    assert_eq!(by(&["a", "b", "c"]), Decision::Allow);
}

#[test]
fn a_malformed_custody_file_denies() {
    let action = asset_action();
    for (data, place) in [
        ("5", ""),
        (r#"{"chain":{}}"#, " /chain"),
        (r#"{"chains":["eip155:1"]}"#, " /chains"),
        (r#"{"chains":{"*":""},"assets":{"asset-1":["transfer"]}}"#, " /assets/asset-1"),
        (
            r#"{"chains":{"*":""},"assets":{"asset-1":{"transfer":{"approval":1}}}}"#,
            " /assets/asset-1/transfer/approval",
        ),
    ] {
        check_unreadable(&action, FILE, data, place);
    }
    check_unreadable(&key_change("refresh"), FILE, r#"{"key_operations":["refresh"]}"#, " /key_operations");
    check_unreadable(
        &key_change("refresh"),
        FILE,
        r#"{"key_operations":{"refresh":{"approvals":"2"}}}"#,
        " /key_operations/refresh/approvals",
    );
}
