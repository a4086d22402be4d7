//! Limits per payment and over time.

use super::{ALONE, TWO, check_unreadable, codes, details, judge_with};
use gateway_policy_sdk::testing::{approved, payment};
use gateway_policy_sdk::{Decision, Moment, Request, Verdict};

const FILE: &str = "limits.json";

/// The verdict on a payment in EUR under these limits, with these sums already admitted.
fn judge(limits: &str, amount_minor: i64, moment: Moment, spent: &[(&str, &str)]) -> Verdict {
    let facts = [&[("deployment.permitted_recipients", "*"), TWO, ALONE], spent].concat();
    let request = match moment {
        Moment::Submit => payment("acct-1", "acct-2", amount_minor),
        _ => approved(payment("acct-1", "acct-2", amount_minor), moment, &["bob", "carol"]),
    };
    judge_with(&request, &facts, &[(FILE, limits)])
}

fn euro(limits: &str) -> String {
    [r#"{"currencies":{"EUR":"#, limits, "}}"].concat()
}

#[test]
fn amounts_outside_the_limits_per_payment_are_denied() {
    let limits = euro(r#"{"per_payment_min":10,"per_payment_max":100000}"#);
    let reasons = |amount| codes(&judge(&limits, amount, Moment::Submit, &[]).reasons).join(" ");
    for within in [10, 100_000] {
        assert_eq!(reasons(within), "recipient_permitted amount_positive within_limits");
    }
    assert_eq!(reasons(9), "recipient_permitted amount_positive amount_below_minimum");
    assert_eq!(reasons(100_001), "recipient_permitted amount_positive amount_above_maximum");
    assert_eq!(reasons(i64::MAX), "recipient_permitted amount_positive amount_above_maximum");
    assert_eq!(reasons(0), "recipient_permitted amount_not_positive");
    let verdict = judge(&limits, 150_000, Moment::Submit, &[]);
    assert_eq!(
        (verdict.decision, details(&verdict, "amount_above_maximum")),
        (
            Decision::Deny,
            vec![
                "amount_minor 150000, currency EUR, limit 100000, place data/limits.json /currencies/EUR/per_payment_max"
                    .to_owned()
            ]
        )
    );
    assert_eq!(
        details(&judge(&limits, 9, Moment::Submit, &[]), "amount_below_minimum"),
        ["amount_minor 9, currency EUR, limit 10, place data/limits.json /currencies/EUR/per_payment_min"]
    );
}

#[test]
fn an_unlisted_currency_passes_only_if_the_file_allows_it() {
    let decision = |limits: &str| judge(limits, 1, Moment::Submit, &[]).decision;
    let denied = judge(r#"{"currencies":{"USD":{}}}"#, 1, Moment::Submit, &[]);
    assert_eq!(codes(&denied.reasons), ["recipient_permitted", "amount_positive", "currency_not_permitted"]);
    assert_eq!(
        details(&denied, "currency_not_permitted"),
        ["currency EUR, place data/limits.json /currencies/EUR"]
    );
    assert_eq!(decision("{}"), Decision::Deny);
    assert_eq!(decision(r#"{"currencies":{},"other_currencies":"deny"}"#), Decision::Deny);
    assert_eq!(decision(r#"{"currencies":{},"other_currencies":"allow"}"#), Decision::Allow);
    assert_eq!(decision(r#"{"other_currencies":"allow"}"#), Decision::Allow);
    assert_eq!(decision(r#"{"currencies":{"EUR":{}}}"#), Decision::Allow);
}

/// Each limit with the fact it limits, and what a payment of 10 adds.
const LIMITS: [(&str, &str, u64); 8] = [
    ("account_hour_max", "velocity.account.1h.units", 10),
    ("account_day_max", "velocity.account.24h.units", 10),
    ("account_week_max", "velocity.account.7d.units", 10),
    ("account_month_max", "velocity.account.30d.units", 10),
    ("recipient_hour_max", "velocity.recipient.1h.units", 10),
    ("recipient_day_max", "velocity.recipient.24h.units", 10),
    ("submitter_day_max", "velocity.submitter.24h.units", 10),
    ("account_day_count_max", "velocity.account.24h.count", 1),
];

#[test]
fn a_payment_may_reach_a_limit_over_time_but_not_exceed_it() {
    for (member, fact, adds) in LIMITS {
        let limits = euro(&format!(r#"{{"{member}":100}}"#));
        let at_admission = |spent: u64| judge(&limits, 10, Moment::Admission, &[(fact, &spent.to_string())]);
        let reached = at_admission(100 - adds);
        assert_eq!(reached.decision, Decision::Allow, "{member}: {reached:?}");
        assert!(codes(&reached.reasons).contains(&"within_limits"));
        for spent in [101 - adds, 100, u64::MAX] {
            let passed = at_admission(spent);
            assert_eq!(
                (passed.decision, details(&passed, "velocity_exceeded").len()),
                (Decision::Deny, 1),
                "{member}"
            );
            assert!(!codes(&passed.reasons).contains(&"within_limits"));
        }
    }
    let limits = euro(r#"{"account_day_max":100}"#);
    let passed = judge(&limits, 10, Moment::Admission, &[("velocity.account.24h.units", "95")]);
    assert_eq!(
        details(&passed, "velocity_exceeded"),
        ["spent 95, adds 10, currency EUR, limit 100, room 5, \
             place data/limits.json /currencies/EUR/account_day_max"]
    );
    let counted = euro(r#"{"account_day_count_max":3}"#);
    let passed = judge(&counted, 10, Moment::Admission, &[("velocity.account.24h.count", "3")]);
    assert_eq!(
        details(&passed, "velocity_exceeded"),
        ["spent 3, adds 1, limit 3, room 0, place data/limits.json /currencies/EUR/account_day_count_max"]
    );
}

#[test]
fn before_admission_an_exhausted_limit_is_an_obligation() {
    let limits = euro(r#"{"account_hour_max":100}"#);
    let spent = &[("velocity.account.1h.units", "95")];
    for moment in [Moment::Submit, Moment::Approval] {
        let waits = judge(&limits, 10, moment, spent);
        assert_eq!(
            (waits.decision, details(&waits, "await_limit").len()),
            (Decision::Allow, 1),
            "{moment:?}"
        );
        // A payment that alone exceeds the limit can never be admitted.
        let never = judge(&limits, 101, moment, spent);
        assert_eq!((never.decision, details(&never, "velocity_exceeded").len()), (Decision::Deny, 1));
    }
    assert_eq!(judge(&limits, 10, Moment::Preview, spent).decision, Decision::Deny);
}

#[test]
fn a_limit_without_its_fact_denies() {
    for (member, fact, _) in LIMITS {
        let limits = euro(&format!(r#"{{"{member}":100}}"#));
        for (spent, fault) in [
            (&[][..], "needed_for data/limits.json"),
            (&[(fact, "-1")], "value -1"),
            (&[(fact, "x")], "value x"),
        ] {
            let verdict = judge(&limits, 10, Moment::Submit, spent);
            let details = details(&verdict, "fact_unreadable");
            assert_eq!((verdict.decision, details.len()), (Decision::Deny, 1));
            assert!(details[0].contains(fact) && details[0].contains(fault), "{details:?}");
        }
    }
}

#[test]
fn a_malformed_limits_file_denies() {
    let request: &Request = &payment("acct-1", "acct-2", 1);
    let of_euro = " /currencies/EUR";
    for (limits, place) in [
        (r#"{"per_payment_maxx":5}"#, "/per_payment_maxx"),
        (r#"{"per_payment_max":"5"}"#, "/per_payment_max"),
        (r#"{"per_payment_max":-5}"#, "/per_payment_max"),
        (r#"{"per_payment_max":null}"#, "/per_payment_max"),
        (r#"{"account_day_max":[5]}"#, "/account_day_max"),
        ("5", ""),
        ("[]", ""),
        ("null", ""),
    ] {
        check_unreadable(request, FILE, &euro(limits), &[of_euro, place].concat());
    }
    check_unreadable(request, FILE, r#"{"curencies":{"EUR":{}},"other_currencies":"allow"}"#, " /curencies");
    check_unreadable(request, FILE, r#"{"currencies":[],"other_currencies":"allow"}"#, " /currencies");
    check_unreadable(request, FILE, r#"{"other_currencies":true}"#, " /other_currencies");
    check_unreadable(request, FILE, "[]", "");
    let mut numbered = payment("acct-1", "acct-2", 1);
    let gateway_policy_sdk::Intent::Payment(inner) = &mut numbered.intent else { unreachable!() };
    inner.currency = "0".into();
    check_unreadable(&numbered, FILE, r#"{"currencies":[{}]}"#, " /currencies");
}
