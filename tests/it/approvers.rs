//! TestCaller may approve, in every mode and both families: only the caller itself, only in roles it has, and never its own submission.

use crate::harness::custody;
use crate::harness::modes::{Deployment, MODES, Mode, TestCaller, test_caller};
use crate::harness::samples::{approval, client, path, payment, with};
use serde_json::{Value, json};
use std::path::Path;

struct Case {
    submit: &'static str,
    body: Value,
    family: &'static str,
    scope: &'static str,
}

fn cases() -> [Case; 2] {
    let submitter = |body| {
        with(
            body,
            "/client",
            json!({
                "client_id": "desk", "subject_id": "carol", "roles": ["operator"], "scopes": []
            }),
        )
    };
    [
        Case {
            submit: "/v1/operations/sign",
            body: submitter(payment("approvers")),
            family: "operations",
            scope: "operations.*",
        },
        Case {
            submit: "/v1/custody/keys",
            body: submitter(custody::key("approvers")),
            family: "custody/operations",
            scope: "custody.*",
        },
    ]
}

#[tokio::test]
async fn caller_approves_only_as_itself_and_in_roles_it_has() {
    for mode in MODES {
        let deployment = Deployment::with(mode, &[("separation_of_duties", "true")]).await;
        for case in cases() {
            let caller = |subject| test_caller(subject, case.scope);
            let submitted = deployment.call_as(caller("carol"), "POST", case.submit, &case.body).await.ok();
            let id = submitted["operation"]["operation_id"].as_str().unwrap();
            let operation = format!("/v1/{}/{id}", case.family);
            let approve = format!("{operation}/approve");
            let vote = async |caller: TestCaller<'_>, body: Value| {
                deployment.call_as(caller, "POST", &approve, &body).await
            };
            // As another subject, in a role the caller lacks, as another client, and on its own submission.
            let other = vote(caller("alice"), approval("bob")).await;
            other.fails(403, "approver_not_permitted");
            let role = vote(caller("alice"), with(approval("alice"), "/roles", json!(["cfo"]))).await;
            role.fails(403, "approver_not_permitted");
            let posing = vote(caller("alice"), with(approval("alice"), "/client", client())).await;
            posing.fails(403, "client_binding_mismatch");
            let own = vote(caller("carol"), approval("carol")).await;
            own.fails(403, "approver_not_permitted");
            let view = |answer: Value| answer["approvals"]["approved"].clone();
            let now = deployment.call_as(caller("carol"), "GET", &operation, &Value::Null).await.ok();
            assert_eq!(view(now), json!(0), "{mode:?} {}", case.family);
            assert_eq!(view(vote(caller("alice"), approval("alice")).await.ok()), json!(1));
            // The same subject through another client counts as the same subject.
            let again = TestCaller { client: "phone", ..caller("alice") };
            assert_eq!(view(vote(again, approval("alice")).await.ok()), json!(1), "{mode:?} {}", case.family);
            let admitted = vote(caller("bob"), approval("bob")).await.ok();
            assert_eq!(admitted["state"], "admitted", "{mode:?} {}", case.family);
        }
    }
}

/// The roles that the policy requires are checked against the caller's authenticated roles.
#[tokio::test]
async fn policy_checks_the_callers_authenticated_roles() {
    let bundle = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("bundles/payment-guard-strict");
    let bundle = [("policy_bundle", bundle.to_str().unwrap())];
    for mode in [Mode::TrustedHeaders, Mode::Jwks, Mode::Introspection] {
        let deployment = Deployment::with(mode, &bundle).await;
        // This amount takes three approvals, one of them by a treasurer.
        let [Case { submit, body, scope, .. }, _] = cases();
        let body = with(body, "/payment/amount_minor", json!(1_000_000));
        let submitted = deployment.call_as(test_caller("carol", scope), "POST", submit, &body).await.ok();
        let approve = path(&submitted["operation"], "/approve");
        let vote = async |subject: &'static str, has: &'static str, says: &str| {
            let caller = TestCaller { roles: has, ..test_caller(subject, scope) };
            let body = with(approval(subject), "/roles", json!([says]));
            deployment.call_as(caller, "POST", &approve, &body).await
        };
        vote("erin", "clerk", "clerk").await.fails(403, "approver_not_permitted");
        vote("erin", "clerk", "treasurer").await.fails(403, "approver_not_permitted");
        for subject in ["alice", "bob", "dave"] {
            assert_eq!(
                vote(subject, "approver", "approver").await.ok()["state"],
                "pending_approval",
                "{mode:?}"
            );
        }
        vote("erin", "approver", "treasurer").await.fails(403, "approver_not_permitted");
        assert_eq!(
            vote("erin", "approver treasurer", "treasurer").await.ok()["state"],
            "admitted",
            "{mode:?}"
        );
    }
}
