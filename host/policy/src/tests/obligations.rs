//! The obligations that the host fulfils itself.

use crate::bundle::Manifest;
use crate::testing::{NOW, bundle_of, declare_obligations, engine, facts, obliging_guest, payment};
use crate::{Evaluator, PolicyEngine};
use gateway_domain::policy::{FactRead, FaultKind, Moment, Outcome, Recorded, WAIT_MAX_MS};
use gateway_domain::time::EpochMs;

fn load(
    engine: &PolicyEngine,
    obligation: (&str, &str, &str),
    change: impl FnOnce(&mut Manifest),
) -> Evaluator {
    let bundle = bundle_of(engine, &obliging_guest(obligation), |manifest| {
        declare_obligations(manifest);
        change(manifest);
    });
    Evaluator::link(engine, &bundle).unwrap()
}

/// The outcome at every moment, which is the same.
fn evaluated(evaluator: &Evaluator) -> Outcome {
    let sample = payment("acct-2", &["bob", "carol"]);
    let at = |moment| evaluator.evaluate(&sample.request(moment), &facts("2"), u64::MAX);
    let outcome = at(Moment::Admission);
    for moment in [Moment::Submit, Moment::Approval, Moment::Preview] {
        assert_eq!(at(moment).fault, outcome.fault, "{moment:?}");
    }
    let repeated = evaluator.repeat(&sample.request(Moment::Admission), &Recorded::from(&outcome));
    assert_eq!(repeated.as_ref(), Ok(&outcome), "a verifier finds the same, fault or not");
    outcome
}

#[test]
fn obligations_of_the_host_are_accepted_and_read() {
    let engine = engine();
    let last = (NOW.0 + WAIT_MAX_MS).to_string();
    for at_ms in ["0", "1", &last] {
        let outcome = evaluated(&load(&engine, ("admit_not_before", "at_ms", at_ms), |_| ()));
        assert_eq!((&outcome.fault, outcome.quorum.satisfied), (&None, true));
        let not_before = outcome.time_limits().admit_not_before;
        assert_eq!(not_before, Some(EpochMs(at_ms.parse().unwrap())));
        let now = FactRead { name: "time.now_ms".to_owned(), value: Some(NOW.0.to_string()) };
        assert_eq!(outcome.facts, [now], "the time is recorded, though the policy does not read it");
    }
    for ms in ["1", "31622400000"] {
        let outcome = evaluated(&load(&engine, ("approvals_expire_ms", "ms", ms), |_| ()));
        assert_eq!((&outcome.fault, outcome.facts.len()), (&None, 0));
        assert_eq!(outcome.time_limits().approvals_expire_ms, Some(ms.parse().unwrap()));
    }
    let outcome = evaluated(&load(&engine, ("rejections_required", "rejections", "2"), |_| ()));
    assert_eq!((&outcome.fault, outcome.rejections_required()), (&None, 2));
}

/// Its author reads the code, the operand and the limit.
#[test]
fn obligation_with_a_bad_operand_is_a_fault_of_the_policy() {
    let engine = engine();
    let too_far = (NOW.0 + WAIT_MAX_MS + 1).to_string();
    let year_9999 = "253402300799999";
    for (code, operand, value, parts) in [
        ("admit_not_before", "at", "1", ["`admit_not_before`", "no operand `at_ms`"]),
        (
            "admit_not_before",
            "at_ms",
            "tomorrow",
            ["`at_ms` of the obligation `admit_not_before`", "decimal"],
        ),
        ("admit_not_before", "at_ms", &too_far, ["`at_ms` of the obligation `admit_not_before`", "366 days"]),
        ("admit_not_before", "at_ms", year_9999, ["`at_ms` of the obligation `admit_not_before`", year_9999]),
        ("approvals_expire_ms", "at_ms", "1", ["`approvals_expire_ms`", "no operand `ms`"]),
        ("approvals_expire_ms", "ms", "-1", ["`ms` of the obligation `approvals_expire_ms`", "decimal"]),
        ("approvals_expire_ms", "ms", "0", ["`ms` of the obligation `approvals_expire_ms`", "from 1 to"]),
        ("approvals_expire_ms", "ms", "31622400001", ["`approvals_expire_ms`", "366 days"]),
    ] {
        let fault = evaluated(&load(&engine, (code, operand, value), |_| ())).fault.unwrap();
        assert_eq!(fault.kind, FaultKind::BadOutput);
        assert!(parts.iter().all(|part| fault.detail.contains(part)), "{value}: {}", fault.detail);
    }
}

#[test]
fn obligation_of_the_host_is_declared_as_any_other_code() {
    let engine = engine();
    for (code, operand) in
        [("admit_not_before", "at_ms"), ("approvals_expire_ms", "ms"), ("rejections_required", "rejections")]
    {
        let undeclared = load(&engine, (code, operand, "1"), |manifest| manifest.obligations.clear());
        let fault = evaluated(&undeclared).fault.unwrap();
        assert_eq!((fault.kind, fault.detail), (FaultKind::UndeclaredCode, format!("`{code}`")));
    }
    let other = evaluated(&load(&engine, ("notify", "who", "carol"), |_| ())).fault.unwrap();
    assert_eq!((other.kind, other.detail), (FaultKind::UndeclaredCode, "`notify`".to_owned()));
}

/// The host compares the time with the fact, so the manifest declares it.
#[test]
fn bundle_that_postpones_admissions_declares_the_time() {
    let engine = engine();
    let timeless = load(&engine, ("admit_not_before", "at_ms", "1"), |manifest| manifest.facts.clear());
    let fault = evaluated(&timeless).fault.unwrap();
    assert_eq!(fault.kind, FaultKind::UndeclaredFact);
    assert!(fault.detail.contains("`time.now_ms`"), "{}", fault.detail);
}
