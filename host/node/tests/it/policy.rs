//! Everything but the nodes is the attacker's: the gateway, the relay, the authority's key. The approvals are genuine. Each node
//! runs the policy itself, and refuses what the policy denies and facts that it knows to be false.

use crate::support::{Group, NOW, code};
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::approval::{Approval, Approvers, PinnedRegistry, SigningRule};
use gateway_domain::intent::{Intent, Payment, Taproot};
use gateway_domain::operation::EffectStep;
use gateway_domain::policy::spending::{HOUR_MS, KEPT_MS, MINUTE_MS};
use gateway_domain::policy::{Decision, FactRead, Recorded};
use gateway_domain::testing::approvers::{key, key_entry, registry};
use gateway_domain::time::{DAY_MS, EpochMs};
use gateway_node::testing::{
    Case, SUITES, allow, asset_action, bundle, bundle_key, named_bundle, offer, paying, refresh, registered,
    reshare, signed_bundle, submitter, trusted_bundle,
};
use gateway_node::{AdmitRequest, CeremonyStart, Code, NodeError};
use gateway_policy::BundleFiles;
use gateway_policy::bundle::{COMPONENT_FILE, Expectation, MANIFEST_FILE, Manifest, Vector, VectorInput};
use gateway_policy::testing::declare_obligations;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Nodes that permit payments to `acct-2` only, and require signed approvals of Alice, Bob or Carol.
pub(crate) async fn group() -> Group {
    let mut group = Group::with_key(3, 2, SUITES[1]).await;
    group.rules.permitted_recipients = "acct-2".into();
    let approvers = registered(key_entry(&key(1)));
    group
        .set_signed_approvals(SigningRule::Required(PinnedRegistry::new(Arc::new(approvers), DAY_MS * 30)))
        .await;
    group
}

/// An operation that Alice and Bob signed for, with the facts that the nodes' own configuration gives.
pub(crate) fn approved(group: &Group, id: u8, intent: Intent) -> Case {
    let mut case = group.case(id, intent);
    case.submitter = submitter("dave");
    case.facts.insert("deployment.permitted_recipients".into(), "acct-2".into());
    sign_approvals(&mut case, &["alice", "bob"]);
    case
}

/// A genuine approval of the case as it is now, by one of the registered approvers.
fn approval_by(case: &Case, name: &str, roles: &[&str]) -> Approval {
    case.approval_by(name, roles, EpochMs(NOW))
}

fn set_approvals(case: &mut Case, approvals: Vec<Approval>) {
    *case = case.clone().with_approvals(approvals);
}

fn sign_approvals(case: &mut Case, names: &[&str]) {
    let approvals = names.iter().map(|name| approval_by(case, name, &["approver"])).collect();
    set_approvals(case, approvals);
}

/// Checks that no node admits the request or makes a later step of it. Returns the refusals' code and the last detail.
async fn refused_everywhere(group: &Group, case: &Case, request: &AdmitRequest) -> (Code, String) {
    let mut refusal = None;
    for (node, participant) in group.nodes.iter().zip(0..) {
        let rejection = match node.admit(request).await {
            Err(NodeError::Rejected(rejection)) => rejection,
            other => panic!("{other:?}"),
        };
        let receipt = node.policy_receipt(&case.call(participant, EffectStep::PolicyReceipt, 1, 1)).await;
        assert_eq!(code(receipt), Code::StepOutOfOrder);
        assert_eq!(code(group.round_one(case, participant, 1).await), Code::StepOutOfOrder);
        refusal = Some((rejection.code, rejection.detail));
    }
    refusal.unwrap()
}

/// Checks that every node refuses the case because of its policy, and that `part` is in the detail.
#[track_caller]
fn assert_policy_refused((code, detail): (Code, String), part: &str) {
    assert_eq!(code, Code::PolicyRefused, "{detail}");
    assert!(detail.contains(part), "{part}: {detail}");
}

pub(crate) async fn assert_refused(group: &Group, case: &Case, part: &str) {
    assert_policy_refused(refused_everywhere(group, case, &case.request()).await, part);
}

#[tokio::test]
async fn gateway_and_authority_that_lie_together_get_no_signature() {
    let group = group().await;
    let honest = approved(&group, 1, paying("acct-2", 12_500));
    group.admit(&honest).await;
    group.sign(&honest, 1).await;

    // The policy denies the recipient, and the attacker's decision says that it allows it.
    let mut forged = approved(&group, 2, paying("acct-evil", 12_500));
    assert_eq!(forged.outcome().decision, Decision::Deny);
    forged.forge = allow;
    assert_refused(&group, &forged, "recipient_not_permitted").await;

    // The policy allows the recipient by the attacker's facts.
    let mut lying = approved(&group, 3, paying("acct-evil", 12_500));
    lying.facts.insert("deployment.permitted_recipients".into(), "acct-2,acct-evil".into());
    assert_eq!(lying.outcome().decision, Decision::Allow);
    assert_refused(&group, &lying, "`deployment.permitted_recipients=acct-2,acct-evil`").await;
}

#[tokio::test]
async fn amount_above_the_limit_of_the_bundle_is_refused() {
    let group = group().await;
    let strict = strict(&group).await;
    let mut case = with_bundle(approved(&group, 1, paying("acct-2", 5_000_001)), &strict);
    assert_eq!(case.outcome().decision, Decision::Deny);
    case.forge = allow;
    assert_refused(&group, &case, "amount_above_maximum").await;
}

#[tokio::test]
async fn custody_signature_or_key_change_that_the_bundle_does_not_list_is_refused() {
    let group = group().await;
    let strict = strict(&group).await;
    let mut change = group.key_change(reshare("2", &[0, 1], 2), "2", &[0, 1], 2);
    change.submitter = submitter("dave");
    sign_approvals(&mut change, &["alice", "bob"]);
    for case in [approved(&group, 1, asset_action(&[0, 1, 2], 7)), change] {
        let mut case = with_bundle(case, &strict);
        assert_eq!(case.outcome().decision, Decision::Deny);
        case.forge = allow;
        assert_refused(&group, &case, "_not_permitted").await;
    }
}

/// The decision says nothing about facts and fuel, so a gateway can state others to nodes.
#[tokio::test]
async fn record_that_differs_from_the_node_s_own_run_is_refused() {
    let group = group().await;
    let case = approved(&group, 1, paying("acct-2", 12_500));
    type Alter = fn(&mut Recorded);
    let cases: [(Alter, &str); 6] = [
        (|it| it.fuel_used += 1, "fuel"),
        (|it| it.facts.clear(), "other facts"),
        (|it| it.facts.swap(0, 1), "other facts"),
        (|it| it.facts.push(FactRead { name: "x".into(), value: None }), "other facts"),
        (|it| it.facts = vec![it.facts[0].clone(); 200], "more than a policy reads"),
        (|it| it.required_approvals += 1, "denies"),
    ];
    for (alter, part) in cases {
        let mut request = case.request();
        alter(&mut request.policy);
        assert_policy_refused(refused_everywhere(&group, &case, &request).await, part);
    }
    let mut other = case.clone();
    other.forge = |outcome| outcome.output_hash = outcome.input_hash;
    assert_refused(&group, &other, "not the one in the decision").await;
    let mut other = case.clone();
    other.forge = |outcome| outcome.input_hash = outcome.output_hash;
    assert_refused(&group, &other, "not the one in the decision").await;
    group.admit(&case).await;
}

#[tokio::test]
async fn rules_of_the_node_hold_whatever_the_gateway_states() {
    let mut group = group().await;
    let intent = || paying("acct-2", 12_500);
    let state = |case: &mut Case, name: &str, value: &str| {
        case.facts.insert(format!("deployment.{name}"), value.into());
        case.required_approvals = 1;
    };
    let mut fewer = approved(&group, 1, intent());
    state(&mut fewer, "required_approvals", "1");
    assert_refused(&group, &fewer, "`deployment.required_approvals=1`").await;
    let mut absent = approved(&group, 1, intent());
    absent.facts.remove("deployment.required_approvals");
    absent.required_approvals = 2;
    assert_refused(&group, &absent, "`deployment.required_approvals=(none)`").await;
    group.rules.separation_of_duties = true;
    group.restart_all().await;
    let shared = approved(&group, 1, intent());
    assert_refused(&group, &shared, "`deployment.separation_of_duties=false`").await;
    // A gateway may be stricter than a node.
    let mut stricter = approved(&group, 1, intent());
    state(&mut stricter, "required_approvals", "3");
    state(&mut stricter, "separation_of_duties", "true");
    sign_approvals(&mut stricter, &["alice", "bob", "carol"]);
    group.admit(&stricter).await;
}

#[tokio::test]
async fn submitter_does_not_count_as_an_approver() {
    let mut group = group().await;
    group.rules.separation_of_duties = true;
    group.restart_all().await;
    let separated = |name: &str, id| {
        let mut case = approved(&group, id, paying("acct-2", 12_500));
        case.facts.insert("deployment.separation_of_duties".into(), "true".into());
        case.submitter = submitter(name);
        sign_approvals(&mut case, &["alice", "bob"]);
        case
    };
    let mut own = separated("alice", 1);
    own.forge = allow;
    let (code, detail) = refused_everywhere(&group, &own, &own.request()).await;
    assert_eq!(code, Code::AdmissionRefused, "{detail}");
    assert!(detail.contains("1 of 2"), "{detail}");

    // The gateway states another submitter than the one that the approvers signed for.
    let mut lying = separated("alice", 2);
    lying.submitter = submitter("dave");
    assert_eq!(lying.outcome().decision, Decision::Allow);
    let (code, detail) = refused_everywhere(&group, &lying, &lying.request()).await;
    assert_eq!(code, Code::ApprovalRefused, "{detail}");

    // With a third approval there are enough, but the policy must not count the submitter's.
    let mut three = separated("alice", 3);
    sign_approvals(&mut three, &["alice", "bob", "carol"]);
    assert_eq!(three.outcome().quorum.subjects, ["bob", "carol"]);
    group.admit(&three).await;
    let counting = counting_bundle(&[]);
    offer_to_all(&group, &counting).await;
    let counted = with_bundle(separated_by(&group, "alice"), &counting);
    assert_eq!(counted.outcome().quorum.subjects, ["alice", "bob"]);
    assert_refused(&group, &counted, "the policy counts the approval of the submitter").await;
}

/// Submitted by this person, approved by Alice, Bob and Carol.
fn separated_by(group: &Group, name: &str) -> Case {
    let mut case = approved(group, 4, paying("acct-2", 12_500));
    case.submitter = submitter(name);
    sign_approvals(&mut case, &["alice", "bob", "carol"]);
    case
}

#[tokio::test]
async fn people_whom_the_policy_counts_are_as_many_as_the_node_requires() {
    let mut group = group().await;
    let counting = counting_bundle(&[]);
    offer_to_all(&group, &counting).await;
    let three = with_bundle(separated_by(&group, "dave"), &counting);
    group.rules.required_approvals = 3;
    group.restart_all().await;
    assert_refused(&group, &three, "the policy counts 2 of 3 required approvals").await;
    group.rules.required_approvals = 2;
    group.restart_all().await;
    group.admit(&three).await;
}

/// Where signatures are optional, roles without a signature are only what the gateway states.
#[tokio::test]
async fn role_in_an_unsigned_approval_does_not_count_where_signatures_are_verified() {
    let mut group = group().await;
    group.approver_roles.insert("treasurer".into(), 1);
    // The registry gives Alice the role.
    let alice = json!({ "subject_id": "alice", "tenants": ["default"], "roles": ["treasurer"], "keys": [key_entry(&key(1))] });
    let registry = Approvers::parse(registry(&[alice]).as_bytes()).unwrap();
    for (rule, expected) in [
        (
            SigningRule::Optional(PinnedRegistry::new(Arc::new(registry), DAY_MS)),
            Some(Code::AdmissionRefused),
        ),
        (SigningRule::Off, None),
    ] {
        group.set_signed_approvals(rule).await;
        let mut case = approved(&group, 1, paying("acct-2", 12_500));
        let unsigned = ["alice", "bob"]
            .map(|name| Approval { signature: None, ..approval_by(&case, name, &["treasurer"]) });
        set_approvals(&mut case, unsigned.into());
        let admitted = group.nodes[0].admit(&case.request()).await;
        match expected {
            Some(expected) => assert_eq!(code(admitted), expected),
            None => drop(admitted.unwrap()),
        }
    }
}

/// Facts that only some bundles read: each is compared with what the node holds, or its clock.
#[tokio::test]
async fn facts_about_key_time_and_signature_must_be_true() {
    let group = group().await;
    let names = [
        "key.epoch",
        "key.epoch_since_ms",
        "key.profile",
        "key.roster",
        "key.state",
        "key.threshold",
        "signature.taproot_merkle_root",
        "time.now_ms",
        "time.unknown",
    ];
    let reading = counting_bundle(&names);
    offer_to_all(&group, &reading).await;
    let now = 10_000_000;
    group.set_time(now);
    let mut intent = paying("acct-2", 12_500);
    let Intent::Payment(paid) = &mut intent else { panic!() };
    paid.terms.taproot = Some(Taproot { merkle_root: None });
    let state = |facts: &[(&str, &str)]| {
        let mut case = group.case(1, intent.clone());
        case.decision.not_after_ms.0 = now + 1_000;
        case.submitter = submitter("dave");
        sign_approvals(&mut case, &["alice", "bob"]);
        let mut case = with_bundle(case, &reading);
        let honest = [
            ("key.epoch", "1"),
            ("key.epoch_since_ms", "1000"),
            ("key.profile", SUITES[1]),
            ("key.roster", "0,1,2"),
            ("key.state", "active"),
            ("key.threshold", "2"),
            ("signature.taproot_merkle_root", "none"),
            ("time.now_ms", "10000000"),
        ];
        for (name, value) in honest.iter().chain(facts) {
            if *value == "absent" {
                case.facts.remove(*name);
            } else {
                case.facts.insert((*name).into(), (*value).into());
            }
        }
        case
    };
    let newer = (NOW + CLOCK_SKEW_MS + 1).to_string();
    let (early, late) = ((now - CLOCK_SKEW_MS - 1).to_string(), (now + CLOCK_SKEW_MS + 1).to_string());
    for (name, value) in [
        ("key.epoch", "2"),
        ("key.epoch_since_ms", &newer),
        ("key.epoch_since_ms", "absent"),
        ("key.profile", SUITES[0]),
        ("key.profile", "absent"),
        ("key.roster", "0,1"),
        ("key.roster", "absent"),
        ("key.state", "rotated"),
        ("key.state", "absent"),
        ("key.threshold", "1"),
        ("signature.taproot_merkle_root", "absent"),
        ("time.now_ms", &early),
        ("time.now_ms", &late),
        ("time.now_ms", "absent"),
        ("time.unknown", "yes"),
    ] {
        let shown = if value == "absent" { "(none)" } else { value };
        assert_refused(&group, &state(&[(name, value)]), &format!("`{name}={shown}`")).await;
    }
    let honest = state(&[("key.state", "refreshing")]);
    group.admit(&honest).await;
    // The time of the evaluation is long ago when the operation is executed.
    group.set_time(now + 900);
    assert!(group.round_one(&honest, 0, 1).await.is_ok());
}

/// A generation is decided on after each share was made, and before any is used.
#[tokio::test]
async fn age_of_the_shares_must_be_what_the_node_knows() {
    let group = group().await;
    let reading = counting_bundle(&["key.epoch_since_ms"]);
    offer_to_all(&group, &reading).await;
    let (made, used) = (10 * CLOCK_SKEW_MS, 20 * CLOCK_SKEW_MS);
    let sql = format!("UPDATE share SET made_at_ms = {made}, used_since_ms = {used}, row_hash = NULL");
    for node in 0..3 {
        group.execute_sql(node, &sql).await;
    }
    let since = |operation: u8, at: u64| {
        let mut case = group.case(operation, paying("acct-2", 12_500));
        case.submitter = submitter("dave");
        sign_approvals(&mut case, &["alice", "bob"]);
        let mut case = with_bundle(case, &reading);
        case.facts.insert("key.epoch_since_ms".into(), at.to_string());
        case
    };
    let (oldest, newest) = (made - CLOCK_SKEW_MS, used + CLOCK_SKEW_MS);
    for lie in [0, oldest - 1, newest + 1] {
        assert_refused(&group, &since(1, lie), &format!("`key.epoch_since_ms={lie}`")).await;
    }
    for (operation, at) in [(2, oldest), (3, newest)] {
        group.admit(&since(operation, at)).await;
    }
}

#[tokio::test]
async fn payments_that_the_node_admitted_count_even_if_the_gateway_hides_them() {
    let group = group().await;
    let strict = strict(&group).await;
    let start = DAY_MS * 10;
    group.set_time(start);
    let paid = |id: u8, amount: i64, spent: u64, now: u64| {
        let mut case = with_bundle(approved(&group, id, paying("acct-2", amount)), &strict);
        case.decision.not_after_ms.0 = now + 1_000;
        spend(&mut case, spent);
        let approval = |name| case.approval_by(name, &["approver"], EpochMs(now));
        let approvals = vec![approval("alice"), approval("bob")];
        case.with_approvals(approvals)
    };
    // The bundle permits 60,000.00 EUR to a recipient in an hour.
    let first: Vec<_> =
        (0..6).map(|index| paid(10 + index, 999_900, u64::from(index) * 999_999, start)).collect();
    for case in &first {
        group.admit_only(case).await;
    }
    let hidden = paid(2, 999_999, 0, start);
    assert_eq!(hidden.outcome().decision, Decision::Allow, "by the attacker's facts");
    assert_refused(&group, &hidden, "velocity_exceeded").await;
    assert_refused(&group, &paid(3, 999_999, 999_999, start), "velocity_exceeded").await;
    // A smaller payment fits, although the facts are lower: the gateway may have decided it before the others.
    group.admit_only(&paid(4, 300, 0, start)).await;
    // A discarded payment leaves room.
    for (node, participant) in group.nodes.iter().zip(0..) {
        node.discard(&first[0].call(participant, EffectStep::Discard, 1, 1), &first[0].discarding())
            .await
            .unwrap();
    }
    group.admit_only(&paid(5, 999_999, 0, start)).await;
    assert_refused(&group, &hidden, "velocity_exceeded").await;
    let later = start + HOUR_MS + MINUTE_MS;
    group.set_time(later);
    group.admit_only(&paid(6, 999_999, 0, later)).await;
    let next_month = later + KEPT_MS + MINUTE_MS;
    group.set_time(next_month);
    group.admit_only(&paid(7, 999_999, 0, next_month)).await;
    for participant in 0..3 {
        let sql = "UPDATE spending SET at_ms = at_ms";
        assert_eq!(group.execute_sql(participant, sql).await, 1, "older rows are removed");
    }
}

/// The policy denies every payment from an account that paid in USD within a day.
#[tokio::test]
async fn payments_in_other_currencies_that_the_node_admitted_count() {
    const FACT: &str = "velocity.account.24h.units.of.USD";
    let group = group().await;
    let text = format!("{COUNTS_TWO}\n(data (i32.const 1024) \"{FACT}\")");
    // The value is at 512: whether there is one, then its place. The first byte of the verdict is the decision.
    let denies = format!(
        "(call $get (i32.const 1024) (i32.const {}) (i32.const 512))
        (if (i32.load8_u (i32.const 512)) (then
            (i32.store8 (i32.const 0) (i32.ne (i32.load8_u (i32.load (i32.const 516))) (i32.const 48)))))
        i32.const 0",
        FACT.len()
    );
    let wasm = gateway_policy::testing::guest(1, &text, &denies);
    let bundle = bundle_of_guest(wasm, &[], |manifest| manifest.facts = vec![FACT.into()]);
    offer_to_all(&group, &bundle).await;
    let paid = |operation: u8, currency: &str| {
        let mut intent = paying("acct-2", 12_500);
        let Intent::Payment(payment) = &mut intent else { panic!() };
        payment.currency = currency.into();
        let mut case = group.case(operation, intent);
        case.submitter = submitter("dave");
        sign_approvals(&mut case, &["alice", "bob"]);
        let mut case = with_bundle(case, &bundle);
        case.facts.insert(FACT.into(), "0".into());
        case
    };
    for (operation, currency) in [(1, "CHF"), (2, "EUR"), (3, "USD")] {
        group.admit_only(&paid(operation, currency)).await;
    }
    for currency in ["CHF", "EUR", "USD"] {
        assert_refused(&group, &paid(4, currency), "the policy denies the operation here").await;
    }
}

/// An authority that lies too leaves what each node admitted. Each payment is in t of N records, and each record stays within the limit: t
/// times their sum is at most N times the limit.
#[tokio::test]
async fn gateway_and_authority_that_lie_together_spend_at_most_n_over_t_times_a_limit() {
    let group = group().await;
    let strict = strict(&group).await;
    // The bundle permits 100 `XTS` to leave an account in a day.
    let hidden = |id: u8, amount: i64| {
        let Intent::Payment(paid) = paying("acct-2", amount) else { panic!() };
        let paid = Intent::Payment(Payment { currency: "XTS".into(), ..paid });
        with_bundle(approved(&group, id, paid), &strict).request()
    };
    for (id, pair) in (10..).zip([[0, 1], [1, 2], [2, 0]]) {
        for node in pair {
            group.nodes[node].admit(&hidden(id, 50)).await.unwrap();
        }
    }
    for (id, node) in (20..).zip(&group.nodes) {
        let refused = node.admit(&hidden(id, 1)).await;
        let Err(NodeError::Rejected(rejection)) = refused else { panic!("{refused:?}") };
        assert_policy_refused((rejection.code, rejection.detail), "velocity_exceeded");
    }
}

#[tokio::test]
async fn policy_is_run_again_before_a_signature_and_before_a_change_of_the_key() {
    let mut group = group().await;
    let sign = approved(&group, 1, paying("acct-2", 12_500));
    let mut change = group
        .key_change(refresh("2"), "2", &[0, 1, 2], 2)
        .of(gateway_domain::ids::OperationId(gateway_node::testing::hex32(2)));
    change.submitter = submitter("dave");
    sign_approvals(&mut change, &["alice", "bob"]);
    group.admit(&sign).await;
    group.admit(&change).await;
    // Since then the operators of the nodes have withdrawn the recipient, and raised the number of approvals.
    group.rules.permitted_recipients = "acct-3".into();
    group.restart_all().await;
    assert_eq!(code(group.round_one(&sign, 0, 1).await), Code::PolicyRefused);
    group.rules.permitted_recipients = "acct-2".into();
    group.rules.separation_of_duties = true;
    group.restart_all().await;
    let start =
        CeremonyStart { dealers: Default::default(), package: group.keys().to_bytes(), discarded: vec![] };
    let call = change.call(0, EffectStep::Execute, 1, 1);
    assert_eq!(code(group.nodes[0].ceremony_start(&call, &start).await), Code::PolicyRefused);
    // An operation in the node's database that was admitted by other facts, as an attacker of the file writes it.
    group.rules.separation_of_duties = false;
    group.restart_all().await;
    let sql = r#"UPDATE statement SET body = replace(body, '"value":"acct-2"', '"value":"acct-2 "'), row_hash = NULL"#;
    assert!(group.execute_sql(0, sql).await > 1);
    let altered = group.round_one(&sign, 0, 1).await;
    assert_eq!(code(altered), Code::PolicyRefused, "the fuel is another");
    assert!(group.round_one(&sign, 1, 1).await.is_ok());
}

#[tokio::test]
async fn key_creation_without_approvals_still_needs_the_policy() {
    let mut group = Group::open(3).await;
    group.keys_without_approvals = true;
    group.restart_all().await;
    let denying = signed_bundle(
        &bundle()
            .with([(
                "data/custody.json".to_owned(),
                br#"{"chains": {"*": ""}, "assets": {"*": {"*": {}}}, "key_operations": {"refresh": {}}}"#
                    .to_vec(),
            )])
            .unwrap()
            .only(|name| !name.starts_with("tests/custody")),
        &bundle_key(),
        |manifest| manifest.sequence = 9,
    );
    offer_to_all(&group, &denying).await;
    let mut case = Case::key_create(1, crate::support::KEY, 3, 2, SUITES[0]).approved_by(&[]);
    case.facts.insert("deployment.required_approvals".into(), "0".into());
    case.required_approvals = 0;
    let mut denied = with_bundle(case.clone(), &denying);
    denied.forge = |outcome| {
        outcome.decision = Decision::Allow;
        outcome.quorum.satisfied = true;
        outcome.output_hash = outcome.output_digest();
    };
    let (code, detail) = refused_everywhere(&group, &denied, &denied.request()).await;
    assert_policy_refused((code, detail), "key_operation_not_permitted");
    group.admit(&case).await;
}

/// The case, evaluated with another bundle that the gateway has.
pub(crate) fn with_bundle(mut case: Case, files: &BundleFiles) -> Case {
    case.bundle = trusted_bundle(files);
    spend(&mut case, 0);
    case
}

/// States that this much was spent in each window.
fn spend(case: &mut Case, minor: u64) {
    for name in ["account.24h.units", "account.1h.units", "recipient.24h.units", "recipient.1h.units"] {
        case.facts.insert(format!("velocity.{name}"), minor.to_string());
    }
    case.facts.insert("velocity.account.24h.count".into(), "0".into());
}

pub(crate) async fn offer_to_all(group: &Group, files: &BundleFiles) {
    for node in &group.nodes {
        node.offer_bundle(offer(files.clone())).await.unwrap();
    }
}

/// The bundle `payment-guard-strict`, as the successor of `payment-guard`, which every node has.
async fn strict(group: &Group) -> BundleFiles {
    let files = signed_bundle(&named_bundle("payment-guard-strict"), &bundle_key(), |manifest| {
        manifest.sequence = 9;
    });
    offer_to_all(group, &files).await;
    files
}

/// A verdict at 0: ALLOW, no reasons and obligations, two subjects at 64, both required, satisfied.
const COUNTS_TWO: &str = r#"
    (data (i32.const 20) "\40\00\00\00\02\00\00\00\02\00\00\00\01")
    (data (i32.const 64) "\50\00\00\00\05\00\00\00\55\00\00\00\03\00\00\00alicebob")"#;

/// A bundle that reads these facts, allows everything, and counts Alice and Bob.
pub(crate) fn counting_bundle(facts: &[&str]) -> BundleFiles {
    const NAMES_AT: usize = 1_024;
    let (mut text, mut reads) = (String::new(), String::new());
    for name in facts {
        let at = NAMES_AT + text.len();
        reads.push_str(&format!("(call $get (i32.const {at}) (i32.const {}) (i32.const 512))\n", name.len()));
        text.push_str(name);
    }
    let data = format!("{COUNTS_TWO}\n(data (i32.const {NAMES_AT}) \"{text}\")");
    let wasm = gateway_policy::testing::guest(1, &data, &format!("{reads} i32.const 0"));
    // A name that no deployment offers can only be read by an entry that stands for several.
    let declared = facts.iter().map(|name| if name.ends_with(".unknown") { "time.*" } else { name });
    let declared: BTreeSet<_> = declared.map(ToString::to_string).collect();
    bundle_of_guest(wasm, &[], |manifest| manifest.facts = declared.into_iter().collect())
}

/// A bundle of this guest, which counts Alice and Bob, with these obligations. It has the manifest of [`declare_obligations`].
pub(crate) fn bundle_of_guest(
    wasm: Vec<u8>,
    obligations: &[&str],
    change: impl FnOnce(&mut Manifest),
) -> BundleFiles {
    let case = Case::key_create(1, crate::support::KEY, 3, 2, SUITES[0]);
    let vector = Vector {
        name: "counts Alice and Bob".into(),
        input: VectorInput {
            moment: gateway_domain::policy::Moment::Admission,
            tenant: case.owner.tenant.clone(),
            key_ref: case.owner.key_ref.clone(),
            submitter: case.submitter.clone(),
            intent: paying("acct-2", 12_500),
            approvals: case.approvals.clone(),
        },
        documents: BTreeMap::new(),
        facts: obligations.iter().map(|_| ("time.now_ms".to_owned(), NOW.to_string())).collect(),
        expect: Expectation {
            decision: Decision::Allow,
            reasons: vec![],
            obligations: obligations.iter().map(ToString::to_string).collect(),
            subjects: vec!["alice".into(), "bob".into()],
            required: 2,
            satisfied: true,
        },
    };
    let bare = bundle().only(|name| name == MANIFEST_FILE);
    let vectors = serde_json::to_vec(&vec![vector]).unwrap();
    let files =
        bare.with([(COMPONENT_FILE.to_owned(), wasm), ("tests/counts.json".to_owned(), vectors)]).unwrap();
    signed_bundle(&files, &bundle_key(), |manifest| {
        manifest.sequence = 7;
        declare_obligations(manifest);
        change(manifest);
    })
}
