//! The policy evaluates every kind of operation at submission, approval and admission.

use crate::harness::custody;
use crate::harness::recording::Evaluation;
use crate::harness::samples::{admit, approval, path, payment, submit, with};
use crate::harness::world::World;
use gateway_domain::intent::Intent;
use gateway_domain::policy::Moment;
use serde_json::json;

const fn kind_name(intent: &Intent) -> &'static str {
    match intent {
        Intent::Payment(_) => "payment",
        Intent::AssetAction(_) => "asset_action",
        Intent::KeyCreate(_) => "key_create",
        Intent::Refresh(_) => "refresh",
        Intent::Reshare(_) => "reshare",
        Intent::Rotate(_) => "rotate",
        Intent::Recover(_) => "recover",
    }
}

/// Takes all recorded evaluations; returns those of this kind of intent and this client.
fn take_evaluations(world: &World, of_kind: &str, client_id: &str) -> Vec<Evaluation> {
    let all = std::mem::take(&mut *world.evaluations.lock().unwrap());
    all.into_iter().filter(|one| kind_name(&one.intent) == of_kind && one.client_id == client_id).collect()
}

/// Exactly these evaluations: a submission, two approvals, and the admission with both.
#[track_caller]
fn assert_every_moment(evaluations: &[Evaluation], key_ref: &str) {
    let moments: Vec<_> = evaluations.iter().map(|one| (one.moment, one.approvers.join(" "))).collect();
    let expected = [
        (Moment::Submit, ""),
        (Moment::Approval, "alice"),
        (Moment::Approval, "alice bob"),
        (Moment::Admission, "alice bob"),
    ];
    assert_eq!(moments, expected.map(|(moment, approvers)| (moment, approvers.to_owned())));
    assert!(
        evaluations.iter().all(|one| one.intent == evaluations[0].intent),
        "the same intent at every moment"
    );
    for one in evaluations {
        assert_eq!((one.tenant.as_str(), one.key_ref.as_str()), ("default", key_ref));
        assert!(one.is_intent_hash_right && !one.has_velocity, "{one:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_is_evaluated_at_submission_approval_and_admission() {
    let world = World::ticking().await;
    for name in ["signs", "refreshes", "reshares", "rotates", "recovers"] {
        custody::execute(&world, "/v1/custody/keys", &custody::key(name)).await;
        assert_every_moment(&take_evaluations(&world, "key_create", "custody"), name);
    }
    admit(&world, &payment("one")).await;
    assert_every_moment(&take_evaluations(&world, "payment", "treasury-desk"), "treasury-1");
    for (of_kind, name, action, body) in [
        ("asset_action", "signs", "/sign", custody::sign("one")),
        ("refresh", "refreshes", "/refresh", custody::refresh("2")),
        ("reshare", "reshares", "/reshare", custody::reshare("2")),
        ("rotate", "rotates", "/rotate", custody::rotate("rotated")),
        ("recover", "recovers", "/recover", custody::recover("2")),
    ] {
        custody::admit(&world, &custody::key_path(name, action), &body).await;
        assert_every_moment(&take_evaluations(&world, of_kind, "custody"), name);
    }
}

#[tokio::test]
async fn preview_is_evaluated_with_the_approvals_in_its_body() {
    let world = World::ticking().await;
    let body = json!({ "intent": payment("p"), "approvals": [approval("alice"), approval("bob")] });
    world.post("/v1/policy/preview", &body).await.ok();
    let evaluations = take_evaluations(&world, "payment", "treasury-desk");
    assert_eq!(evaluations.len(), 1);
    assert_eq!(
        (evaluations[0].moment, evaluations[0].approvers.join(" ")),
        (Moment::Preview, "alice bob".to_owned())
    );
    assert!(evaluations[0].is_intent_hash_right && evaluations[0].key_ref == "treasury-1");
}

/// The number is the gateway's word, so that it is stated only while nothing follows from it but a refusal.
#[tokio::test]
async fn operations_of_the_submitter_that_wait_are_counted_at_submissions_only() {
    let world = World::ticking().await;
    let by = |reference: &str, subject: &str| with(payment(reference), "/client/subject_id", json!(subject));
    let counts = |client: &str| -> Vec<_> {
        take_evaluations(&world, "payment", client).into_iter().map(|one| (one.moment, one.pending)).collect()
    };
    let stated = |count: &str| (Moment::Submit, Some(count.to_owned()));
    let first = submit(&world, &by("first", "carol")).await;
    for (reference, subject) in [("second", "Carol"), ("third", "dave"), ("fourth", "carol")] {
        submit(&world, &by(reference, subject)).await;
    }
    assert_eq!(counts("treasury-desk"), [stated("0"), stated("1"), stated("0"), stated("2")]);
    for subject in ["alice", "bob"] {
        world.post(&path(&first, "/approve"), &approval(subject)).await.ok();
    }
    let moments = [Moment::Approval, Moment::Approval, Moment::Admission].map(|moment| (moment, None));
    assert_eq!(counts("treasury-desk"), moments, "no verifier would have to believe it");
    let preview = json!({ "intent": by("fifth", "carol"), "approvals": [] });
    world.post("/v1/policy/preview", &preview).await.ok();
    assert_eq!(counts("treasury-desk"), [(Moment::Preview, Some("2".to_owned()))]);
}
