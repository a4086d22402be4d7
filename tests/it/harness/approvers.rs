//! Approvers with signing keys: their registry on disk, and the signed approvals that they send.

use gateway_domain::approval::{Approval, ApprovalSubject, Word};
use gateway_domain::ids::Tenant;
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::testing::approvers::{Authenticator, approval, key, key_entry, registry, signed};
use gateway_engine::ports::ReadClock;
use operation_gateway::SystemClock;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A registry of four approvers with a key each. Bob also has an authenticator, with which he signs; Tina is also a treasurer; Alice is also the
/// subject `phone`, and Carol has a team.
pub(crate) struct Signers {
    folder: TempDir,
    path: String,
    pub(crate) device: Authenticator,
}

impl Signers {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("approvers.json").display().to_string();
        let signers = Self { folder, path, device: Authenticator::new(20) };
        std::fs::write(&signers.path, registry(&signers.entries())).unwrap();
        signers
    }

    /// The registry's entries.
    pub(crate) fn entries(&self) -> Vec<Value> {
        let entry = |subject: &str, roles: &[&str], keys: &[Value]| json!({ "subject_id": subject, "tenants": ["default"], "roles": roles, "keys": keys });
        let with = |mut entry: Value, member: &str, value: Value| {
            entry[member] = value;
            entry
        };
        vec![
            entry("alice", &["approver"], &[key_entry(&key(1))]),
            entry("bob", &["approver"], &[key_entry(&key(2)), self.device.entry()]),
            entry("tina", &["approver", "treasurer"], &[key_entry(&key(3))]),
            with(
                entry("carol", &["approver"], &[key_entry(&key(4))]),
                "attributes",
                json!({ "team": "sales" }),
            ),
            with(entry("phone", &["approver"], &[key_entry(&key(5))]), "person", json!("alice")),
        ]
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// The path of the registry.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Settings with this registry; `rule` is the value of `signed_approvals`.
    pub(crate) fn settings<'a>(&'a self, rule: &'a str) -> [(&'a str, &'a str); 2] {
        [("signed_approvals", rule), ("approvers_file", &self.path)]
    }

    /// The body of an approval that `subject` signs in the role `approver`.
    pub(crate) fn body(&self, view: &Value, subject: &str) -> Value {
        self.body_as(view, subject, &["approver"])
    }

    /// As [`Self::body`], in these roles.
    pub(crate) fn body_as(&self, view: &Value, subject: &str, roles: &[&str]) -> Value {
        let approval = Approval {
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            ..approval_now(subject)
        };
        let signs = |seed: u8| sign_statement(view, |subject| signed(approval.clone(), subject, &key(seed)));
        body(&match subject {
            "bob" => sign_statement(view, |subject| self.device.signed(approval.clone(), subject)),
            "alice" => signs(1),
            "tina" => signs(3),
            "carol" => signs(4),
            "phone" => signs(5),
            other => panic!("{other} signs nothing"),
        })
    }

    /// Bob's abort of this change of a key, without these receivers, signed with his authenticator.
    pub(crate) fn abort(&self, view: &Value, lost: &[u16]) -> Value {
        let aborted_at_ms = approval_now("bob").claimed_at_ms;
        let roles = ["approver".to_owned()];
        let lost_participants = lost.iter().copied().map(ParticipantIndex).collect();
        let word =
            Word::Aborts { aborted_at_ms, lost_participants: &lost_participants, reason: "its disk is lost" };
        let signature = sign_statement(view, |subject| {
            self.device.assertion(subject.says("bob", &roles, word).digest().unwrap())
        });
        json!({
            "subject_id": "bob", "roles": roles, "reason": "its disk is lost", "lost_participants": lost, "aborted_at_ms": aborted_at_ms,
            "signature": signature,
        })
    }
}

/// An unsigned approval with the current time.
pub(crate) fn approval_now(subject: &str) -> Approval {
    approval(subject, i64::try_from(SystemClock.now().0).unwrap())
}

/// Calls `sign` on the approval statement in a view.
pub(crate) fn sign_statement<T>(view: &Value, sign: impl FnOnce(&ApprovalSubject<'_>) -> T) -> T {
    let stated = &view["approval_statement"];
    let text = |name: &str| stated[name].as_str().unwrap_or_else(|| panic!("no {name} in {view}")).to_owned();
    let tenant = Tenant(text("tenant"));
    sign(&ApprovalSubject {
        tenant: &tenant,
        operation_id: text("operation_id").parse().unwrap(),
        key_id: text("key_id").parse().unwrap(),
        intent_hash: text("intent_hash").parse().unwrap(),
        submitter: &text("submitter"),
    })
}

/// The request body of an approval.
pub(crate) fn body(approval: &Approval) -> Value {
    let mut body = json!({
        "subject_id": approval.subject_id, "roles": approval.roles, "approved_at_ms": approval.claimed_at_ms,
    });
    if let Some(signature) = &approval.signature {
        body["signature"] = json!(signature);
    }
    body
}
