//! What custody may do by the bundle's data, and with whose approval.

use super::{ALONE, TWO, check_unreadable, codes, details, judge_with};
use gateway_policy_sdk::testing::{approved, asset_action, key_change};
use gateway_policy_sdk::{Decision, Moment, Request, Verdict};

const FILE: &str = "custody.json";

fn judge(data: &str, request: &Request) -> Verdict {
    judge_with(request, &[TWO, ALONE], &[(FILE, data)])
}

fn reasons(data: &str, request: &Request) -> String {
    codes(&judge(data, request).reasons).join(" ")
}

#[test]
fn each_list_denies_what_it_does_not_have() {
    let action = asset_action();
    for data in [
        "{}",
        r#"{"chains":{"eip155:1":""}}"#,
        r#"{"assets":{"asset-1":{"transfer":{}}}}"#,
        r#"{"key_operations":{}}"#,
        r#"{"chains":{"eip155:1":""},"assets":{"asset-1":{"transfer":{},"burn":{}}},"key_operations":{}}"#,
    ] {
        assert_eq!(reasons(data, &action), "custody_intent_permitted", "{data}");
    }
    for (data, expected, name) in [
        (r#"{"chains":{}}"#, "chain_not_permitted", "chain `eip155:1`"),
        (
            r#"{"chains":{"eip155:2":""},"assets":{"asset-1":{"transfer":{}}}}"#,
            "chain_not_permitted",
            "chain `eip155:1`",
        ),
        (r#"{"assets":{}}"#, "action_not_permitted", "action `asset-1/transfer`"),
        (r#"{"assets":{"asset-2":{"transfer":{}}}}"#, "action_not_permitted", "action `asset-1/transfer`"),
        (r#"{"assets":{"asset-1":{"burn":{}}}}"#, "action_not_permitted", "action `asset-1/transfer`"),
    ] {
        let verdict = judge(data, &action);
        assert_eq!((verdict.decision, codes(&verdict.reasons)), (Decision::Deny, vec![expected]), "{data}");
        assert!(details(&verdict, expected)[0].starts_with(name), "{verdict:?}");
    }
    let both = reasons(r#"{"chains":{},"assets":{}}"#, &action);
    assert_eq!(both, "chain_not_permitted action_not_permitted");
}

#[test]
fn key_operations_are_listed_by_name() {
    let data = r#"{"key_operations":{"refresh":{},"rotate":{"approvals":3}}}"#;
    for permitted in ["refresh", "rotate"] {
        assert_eq!(reasons(data, &key_change(permitted)), "custody_intent_permitted");
    }
    for refused in ["key_create", "reshare", "recover"] {
        let verdict = judge(data, &key_change(refused));
        assert_eq!(codes(&verdict.reasons), ["key_operation_not_permitted"]);
        assert_eq!(
            details(&verdict, "key_operation_not_permitted")[0],
            format!(
                "key operation `{refused}` is not listed; add data/custody.json /key_operations/{refused}"
            )
        );
    }
    assert_eq!(reasons(r#"{"chains":{},"assets":{}}"#, &key_change("recover")), "custody_intent_permitted");
}

#[test]
fn an_action_and_a_key_operation_have_quorums_of_their_own() {
    let data = r#"{"assets":{"asset-1":{"transfer":{"approvals":3,"roles":{"approver":2}}}},
        "key_operations":{"recover":{"approvals":4},"refresh":{"approvals":1}}}"#;
    let required = |request: Request| judge(data, &request).quorum.required;
    assert_eq!(required(asset_action()), 3);
    assert_eq!((required(key_change("recover")), required(key_change("refresh"))), (4, 2));
    let by = |people: &[&str]| judge(data, &approved(asset_action(), Moment::Admission, people)).decision;
    assert_eq!(by(&["a", "b"]), Decision::Deny);
    assert_eq!(by(&["a", "b", "c"]), Decision::Allow);
}

#[test]
fn a_mistake_in_the_file_permits_nothing() {
    let action = asset_action();
    for (data, place) in [
        ("5", ""),
        (r#"{"chain":{}}"#, " /chain"),
        (r#"{"chains":["eip155:1"]}"#, " /chains"),
        (r#"{"assets":{"asset-1":["transfer"]}}"#, " /assets/asset-1"),
        (r#"{"assets":{"asset-1":{"transfer":{"approval":1}}}}"#, " /assets/asset-1/transfer/approval"),
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
