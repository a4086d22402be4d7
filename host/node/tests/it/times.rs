//! A gateway asks for an operation before the time that the policy requires, or over approvals that are too old, or dates approvals
//! back. The decision and the approvals are genuine. Each node compares the times with its own clock.

use crate::policy::{approved, assert_refused, bundle_of_guest, group, offer_to_all, with_bundle};
use crate::support::{Group, NOW, code};
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::approval::{PinnedRegistry, SigningRule};
use gateway_domain::operation::EffectStep;
use gateway_domain::testing::approvers::{key, key_entry};
use gateway_domain::time::EpochMs;
use gateway_node::Code;
use gateway_node::testing::{Case, paying, registered};
use gateway_policy::testing::obliging_guest;
use std::sync::Arc;

/// A payment that Alice and Bob approved at [`NOW`], which the policy allows with this obligation at the time `now`.
async fn obliged(group: &Group, id: u8, (code, operand): (&str, &str), value: u64, now: u64) -> Case {
    let wasm = obliging_guest((code, operand, &value.to_string()));
    let sequence = 7 + u64::from(id);
    let files = bundle_of_guest(wasm, &[code], |manifest| manifest.sequence = sequence);
    offer_to_all(group, &files).await;
    let mut case = with_bundle(approved(group, id, paying("acct-2", 12_500)), &files);
    case.decision.not_before_ms.0 = now.saturating_sub(1);
    case.decision.not_after_ms.0 = now + 2_000;
    case.facts.insert("time.now_ms".into(), now.to_string());
    case
}

#[tokio::test]
async fn decision_before_the_time_that_the_policy_requires_is_refused() {
    let group = group().await;
    let obligation = ("admit_not_before", "at_ms");
    // The gateway's clock may be ahead.
    let last = NOW + CLOCK_SKEW_MS;
    group.admit(&obliged(&group, 1, obligation, last, NOW).await).await;
    let early = obliged(&group, 2, obligation, last + 1, NOW).await;
    assert_eq!(early.outcome().fault, None);
    assert_refused(&group, &early, "does not admit the operation before `301001`").await;
    // The same evaluation, once its time is reached.
    group.set_time(NOW + 1);
    group.admit(&early).await;
}

#[tokio::test]
async fn approval_older_than_the_policy_lets_it_count_is_refused() {
    let group = group().await;
    let obligation = ("approvals_expire_ms", "ms");
    let now = NOW + 60_000 + CLOCK_SKEW_MS;
    group.set_time(now);
    let old = obliged(&group, 1, obligation, 59_999, now).await;
    assert_refused(&group, &old, "the approval of `alice` is older").await;
    // A gateway that received it later does not make it younger: its approver signed the time.
    let mut redated = old.approvals.clone();
    redated.iter_mut().for_each(|approval| approval.approved_at_ms = EpochMs(now));
    assert_refused(&group, &old.with_approvals(redated), "the approval of `alice` is older").await;
    let case = obliged(&group, 2, obligation, 60_000, now).await;
    group.admit(&case).await;
    group.set_time(now + 1_000);
    group.sign(&case, 1).await;
}

/// Approvals that may be a minute old wait for as long as the policy says, and then for a minute.
#[tokio::test]
async fn wait_that_the_policy_requires_does_not_make_approvals_too_old() {
    let mut group = group().await;
    let approvers = registered(key_entry(&key(1)));
    let rule = SigningRule::Required(PinnedRegistry::new(Arc::new(approvers), 60_000));
    group.set_signed_approvals(rule).await;
    let until = NOW + 100_000;
    for (id, age, is_admitted) in [(1, 160_001, false), (2, 160_000, true)] {
        let now = NOW + age;
        group.set_time(now);
        let case = obliged(&group, id, ("admit_not_before", "at_ms"), until, now).await;
        let admitted = group.nodes[0].admit(&case.request()).await;
        if is_admitted {
            admitted.unwrap();
        } else {
            let detail = admitted.as_ref().unwrap_err().to_string();
            assert!(detail.contains("`too_old`"), "{detail}");
            assert_eq!(code(admitted), Code::ApprovalRefused);
        }
    }
}

#[tokio::test]
async fn approval_dated_before_its_approver_signed_it_is_refused() {
    let group = group().await;
    let now = NOW + 2 * CLOCK_SKEW_MS;
    group.set_time(now);
    for (id, before, is_admitted) in [(1, CLOCK_SKEW_MS + 1, false), (2, CLOCK_SKEW_MS, true)] {
        let mut case = approved(&group, id, paying("acct-2", 12_500));
        case.decision.not_after_ms.0 = now + 2_000;
        let at = EpochMs(now);
        let mut approvals: Vec<_> =
            ["alice", "bob"].iter().map(|name| case.approval_by(name, &["approver"], at)).collect();
        approvals[1].approved_at_ms = EpochMs(now - before);
        let case = case.with_approvals(approvals);
        let admitted = group.nodes[0].admit(&case.request()).await;
        if is_admitted {
            admitted.unwrap();
            continue;
        }
        let detail = admitted.as_ref().unwrap_err().to_string();
        assert!(detail.contains("before its approver signed it"), "{detail}");
        assert_eq!(code(admitted), Code::ApprovalRefused);
        let receipt = group.nodes[0].policy_receipt(&case.call(0, EffectStep::PolicyReceipt, 1, 1)).await;
        assert_eq!(code(receipt), Code::StepOutOfOrder);
    }
}
