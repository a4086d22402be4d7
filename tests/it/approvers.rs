//! Callers approve only as themselves, only in roles that they have, and never their own submission.

use crate::harness::custody;
use crate::harness::modes::{Deployment, MODES, Mode, TestCaller, test_caller};
use crate::harness::samples::{approval, client, path, payment, with};
use serde_json::{Value, json};
use std::path::Path;

/// A submission by Carol, and the scope for its family.
struct Case {
    /// The path to submit to.
    submit: &'static str,
    body: Value,
    family: &'static str,
    scope: &'static str,
}

fn cases() -> [Case; 2] {
    let by_carol = |body| {
        let carol =
            json!({ "client_id": "desk", "subject_id": "carol", "roles": ["operator"], "scopes": [] });
        with(body, "/client", carol)
    };
    [
        Case {
            submit: "/v1/operations/sign",
            body: by_carol(payment("approvers")),
            family: "operations",
            scope: "operations.*",
        },
        Case {
            submit: "/v1/custody/keys",
            body: by_carol(custody::key("approvers")),
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
            let approve_as = async |caller: TestCaller<'_>, body: Value| {
                deployment.call_as(caller, "POST", &approve, &body).await
            };
            // As another subject, in a role the caller lacks, as another client, and on its own submission.
            let other = approve_as(caller("alice"), approval("bob")).await;
            other.fails(403, "approver_not_permitted");
            let role = approve_as(caller("alice"), with(approval("alice"), "/roles", json!(["cfo"]))).await;
            role.fails(403, "approver_not_permitted");
            let other_client =
                approve_as(caller("alice"), with(approval("alice"), "/client", client())).await;
            other_client.fails(403, "client_binding_mismatch");
            let own = approve_as(caller("carol"), approval("carol")).await;
            own.fails(403, "approver_not_permitted");
            let n_approved = |answer: Value| answer["approvals"]["approved"].clone();
            let now = deployment.call_as(caller("carol"), "GET", &operation, &Value::Null).await.ok();
            assert_eq!(n_approved(now), json!(0), "{mode:?} {}", case.family);
            assert_eq!(n_approved(approve_as(caller("alice"), approval("alice")).await.ok()), json!(1));
            // The same subject through another client counts as the same subject.
            let again = TestCaller { client: "phone", ..caller("alice") };
            assert_eq!(
                n_approved(approve_as(again, approval("alice")).await.ok()),
                json!(1),
                "{mode:?} {}",
                case.family
            );
            let admitted = approve_as(caller("bob"), approval("bob")).await.ok();
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
        // This amount requires three approvals, one of them in the role `treasurer`.
        let [Case { submit, body, scope, .. }, _] = cases();
        let body = with(body, "/payment/amount_minor", json!(1_000_000));
        let submitted = deployment.call_as(test_caller("carol", scope), "POST", submit, &body).await.ok();
        let treasurer = json!({ "group": "treasurer", "people": 1 });
        assert_eq!(
            submitted["operation"]["approvals"]["missing"],
            json!([{ "group": null, "people": 3 }, treasurer])
        );
        let approve = path(&submitted["operation"], "/approve");
        let approve_as = async |subject: &'static str, caller_roles: &'static str, role: &str| {
            let caller = TestCaller { roles: caller_roles, ..test_caller(subject, scope) };
            let body = with(approval(subject), "/roles", json!([role]));
            deployment.call_as(caller, "POST", &approve, &body).await
        };
        approve_as("erin", "clerk", "clerk").await.fails(403, "approver_not_permitted");
        approve_as("erin", "clerk", "treasurer").await.fails(403, "approver_not_permitted");
        for (subject, approved) in [("alice", 1), ("bob", 2), ("dave", 3)] {
            let view = approve_as(subject, "approver", "approver").await.ok();
            let shown = (&view["state"], &view["approvals"]["approved"]);
            assert_eq!(shown, (&json!("pending_approval"), &json!(approved)), "{mode:?}");
            let anybody = json!({ "group": null, "people": 3 - approved });
            let missing: Vec<_> =
                [anybody, treasurer.clone()].into_iter().filter(|it| it["people"] != 0).collect();
            assert_eq!(view["approvals"]["missing"], json!(missing), "{mode:?}");
        }
        approve_as("erin", "approver", "treasurer").await.fails(403, "approver_not_permitted");
        let admitted = approve_as("erin", "approver treasurer", "treasurer").await.ok();
        let shown = (&admitted["state"], &admitted["approvals"]["missing"]);
        assert_eq!(shown, (&json!("admitted"), &json!([])), "{mode:?}");
    }
}
