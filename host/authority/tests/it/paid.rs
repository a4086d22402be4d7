//! Earlier payments, of which the facts of a gateway's policy speak.

use crate::asked::{NOW, approved, decide, offer, request_with, rules, submission, verifier};
use crate::support::{authority, hex32, key, key_id};
use gateway_domain::admission::Authorities;
use gateway_domain::approval::SigningRule;
use gateway_domain::ids::OperationId;
use gateway_domain::intent::Intent;
use gateway_domain::key::{CustodyKey, PublicKey};
use gateway_domain::operation::replay;
use gateway_domain::policy::facts::facts_for;
use gateway_domain::policy::paid::PaidError;
use gateway_domain::policy::{Moment, Paid, PaidProof};
use gateway_domain::testing::approvers;
use gateway_domain::testing::paid::{Payer, payment_to};
use gateway_domain::time::EpochMs;
use gateway_policy::testing::{author, engine, key as bundle_key, paid_bundle, verify};
use gateway_policy::{Disagreement, Evaluator, Pins, Trust};
use policy_authority::{DecisionRequest, Policies, Unverified, Verifier};
use std::slice;
use std::sync::{Arc, LazyLock};

/// The key `treasury`, whose secret a test knows.
fn payer() -> Payer {
    Payer { key_id: key_id(), ..Payer::new(7) }
}

fn payments_key(payer: &Payer) -> CustodyKey {
    let public = PublicKey { public_key_hex: payer.public_key_hex(), package_hex: "00".into() };
    CustodyKey { public: Some(public), signature_profile: "frost-secp256k1-sha256-tr".into(), ..key() }
}

fn proof(payer: &Payer, byte: u8, to: &str) -> PaidProof {
    payer.proof(OperationId(hex32(byte)), payment_to(to), EpochMs(500))
}

/// The request of a gateway that states this, with these proofs, for a payment to `acct-2` that Alice and Bob approved.
fn stating(paid: Option<Paid>, proofs: &[PaidProof]) -> DecisionRequest {
    static EVALUATOR: LazyLock<Evaluator> = LazyLock::new(|| {
        Evaluator::load(&engine(), &verify(paid_bundle(1, &bundle_key(1)), &author()).unwrap()).unwrap()
    });
    let events = approved(submission("acct-2"), &["alice", "bob"]);
    let (operation, key) = (replay(&events).unwrap(), payments_key(&payer()));
    let Intent::Payment(payment) = &operation.intent else { panic!("not a payment") };
    let mut facts = facts_for(&rules(), Some(&key), Some(&payment.terms), None, NOW);
    if let Some(paid) = paid {
        facts = facts.with_paid(paid);
    }
    let asked = operation.request(Moment::Admission, &operation.approvals);
    let outcome = EVALUATOR.evaluate(&asked, &facts, EVALUATOR.fuel_max()).raise_quorum_to(2);
    request_with(&outcome.proven_by(proofs.to_vec()), events, Some(&key), NOW)
}

/// An authority that trusts the policy, and pins these authorities.
fn pinning(authorities: Authorities) -> Verifier {
    let trust = Trust::new(true);
    trust.replace(Ok(&serde_json::to_vec(&author()).unwrap()), Pins::default()).unwrap();
    let policies = Policies::new(trust, Arc::default());
    policies.offer(offer(paid_bundle(1, &bundle_key(1))), NOW).unwrap();
    Verifier { policies, authorities, ..verifier(SigningRule::Off) }
}

fn decided(request: &DecisionRequest) -> Result<(), Unverified> {
    let own = Authorities::new([authority(1).public_key()], 1).unwrap();
    decide(&pinning(own), request, NOW).map(drop)
}

const ONCE: Option<Paid> = Some(Paid { first_ms: EpochMs(500), count: 1 });

#[test]
fn proved_payment_lets_the_policy_be_satisfied_with_two_approvals() {
    decided(&stating(ONCE, &[proof(&payer(), 4, "acct-2")])).unwrap();
    // The policy requires a third approval for a recipient without a history.
    let refused = decided(&stating(None, &[])).unwrap_err();
    assert!(matches!(refused, Unverified::Policy(Disagreement::Denied(_))), "{refused}");
}

#[test]
fn fact_that_no_proof_supports_is_refused() {
    let one = proof(&payer(), 4, "acct-2");
    let earlier = Some(Paid { first_ms: EpochMs(499), count: 1 });
    let twice = Some(Paid { first_ms: EpochMs(500), count: 2 });
    for (paid, proofs) in [(ONCE, &[][..]), (earlier, slice::from_ref(&one)), (twice, slice::from_ref(&one))]
    {
        let refused = decided(&stating(paid, proofs)).unwrap_err();
        assert!(matches!(refused, Unverified::Policy(Disagreement::Fact(_))), "{refused}");
        assert!(!refused.is_final());
    }
}

#[test]
fn proof_that_proves_nothing_is_refused() {
    let genuine = payer();
    let other_key = Payer { key_id: key_id(), ..Payer::new(8) };
    for (proof, part) in [
        (proof(&genuine, 4, "acct-3"), "is no payment to this recipient"),
        (
            proof(&Payer { key_id: gateway_domain::ids::KeyId(hex32(9)), ..payer() }, 4, "acct-2"),
            "of another key",
        ),
        (proof(&other_key, 4, "acct-2"), "is not signed by the key"),
        (proof(&Payer { authority: approvers::key(2), ..payer() }, 4, "acct-2"), "by the authority"),
    ] {
        let refused = decided(&stating(ONCE, &[proof])).unwrap_err();
        assert!(matches!(&refused, Unverified::Paid(_)) && refused.to_string().contains(part), "{refused}");
        assert!(!refused.is_final());
    }
    let one = proof(&genuine, 4, "acct-2");
    let twice = Some(Paid { first_ms: EpochMs(500), count: 2 });
    let refused = decided(&stating(twice, &[one.clone(), one])).unwrap_err();
    assert!(matches!(refused, Unverified::Paid(PaidError::Twice(_))), "{refused}");
}

/// Where several authorities decide, one believes the others that it pins.
#[test]
fn decisions_of_other_authorities_prove_payments_where_they_are_pinned() {
    let by_other = Payer { authority: approvers::key(2), ..payer() };
    let request = stating(ONCE, &[proof(&by_other, 4, "acct-2")]);
    let both = [1, 2].map(|byte| authority(byte).public_key());
    decide(&pinning(Authorities::new(both, 1).unwrap()), &request, NOW).map(drop).unwrap();
    let refused = decide(&pinning(Authorities::new(both, 2).unwrap()), &request, NOW).unwrap_err();
    assert!(matches!(refused, Unverified::Paid(PaidError::Decision(_))), "{refused}");
}
