//! Requests, facts and data for tests of a policy.

use std::collections::BTreeMap;

use crate::{Approval, AssetAction, Data, Intent, KeyChange, Moment, Payment, Person, Request};
use serde_json::Value;

/// A payment just submitted by `alice`, without approvals.
#[must_use]
pub fn payment(from: &str, to: &str, amount_minor: i64) -> Request {
    request(Intent::Payment(Payment {
        from_account: from.into(),
        to_account: to.into(),
        amount_minor,
        currency: "EUR".into(),
        reference: Some("invoice 17".into()),
    }))
}

/// A custody signature just submitted by `alice`, without approvals.
#[must_use]
pub fn asset_action() -> Request {
    request(Intent::AssetAction(AssetAction {
        asset_id: "asset-1".into(),
        action: "transfer".into(),
        chain_id: "eip155:1".into(),
        request_digest: "aa".repeat(32),
        typed_data_root: "bb".repeat(32),
        public_fields: vec![("to".into(), "0x01".into())],
        transaction: None,
    }))
}

/// A key operation just submitted by `alice`, without approvals.
#[must_use]
pub fn key_change(operation: &str) -> Request {
    request(Intent::KeyChange(KeyChange {
        operation: operation.into(),
        reason: "scheduled".into(),
        purpose: String::new(),
        chains: Vec::new(),
        target_epoch: Some("2".into()),
        new_key_ref: None,
        signature_profile: None,
        asset_id: None,
        recovering_participant: None,
    }))
}

/// A subject of its own person in these roles, without attributes.
#[must_use]
pub fn person(subject: &str, roles: &[&str]) -> Person {
    Person {
        person: subject.into(),
        subject_id: subject.into(),
        roles: roles.iter().map(|role| (*role).into()).collect(),
        attributes: Vec::new(),
    }
}

/// `request` at `moment`, approved by `subjects` in this order.
#[must_use]
pub fn approved(mut request: Request, moment: Moment, subjects: &[&str]) -> Request {
    request.moment = moment;
    request.approvals = (1_u64..)
        .zip(subjects)
        .map(|(nth, subject)| Approval { by: person(subject, &["approver"]), at_ms: nth * 1_000 })
        .collect();
    request
}

/// Facts by name.
#[must_use]
pub fn facts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

/// The bundle's data, by file name and JSON text: `data(&[("limits.json", "{}")])`; or the deployment's documents, by name.
///
/// Lookups give what the gateway gives. The gateway also rejects a bundle whose files have duplicate members or
/// floating-point numbers.
///
/// # Panics
/// If a text is not JSON.
#[must_use]
#[expect(clippy::panic, reason = "a test's own mistake")]
pub fn data(files: &[(&str, &str)]) -> TestData {
    let parse = |text: &str| match serde_json::from_str(text) {
        Ok(value) => value,
        Err(fault) => panic!("`{text}` is not JSON: {fault}"),
    };
    TestData(files.iter().map(|(file, text)| ((*file).into(), parse(text))).collect())
}

/// See [`data`].
#[derive(Clone, Debug, PartialEq)]
pub struct TestData(BTreeMap<String, Value>);

impl Data for TestData {
    fn get(&self, file: &str, pointer: &str) -> Option<String> {
        // `serde_json` accepts a `~` that is not escaped; by RFC 6901 such a pointer is invalid.
        let is_escaped = |rest: &str| rest.starts_with(['0', '1']);
        if !pointer.split('~').skip(1).all(is_escaped) {
            return None;
        }
        match self.0.get(file)?.pointer(pointer)? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

fn request(intent: Intent) -> Request {
    Request {
        moment: Moment::Submit,
        intent_hash: "cc".repeat(32),
        tenant: "default".into(),
        key_ref: "treasury".into(),
        client_id: "client-1".into(),
        submitter: person("alice", &["submitter"]),
        intent,
        participants: vec![0, 1, 2],
        threshold: Some(2),
        bip32_path: None,
        approvals: Vec::new(),
    }
}
