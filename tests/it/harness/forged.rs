//! Evidence forged by an attacker who has the keys of the log and the authority, and none of the nodes' or approvers' keys.
//!
//! Its hashes, log proofs and signed decision verify.

use super::world::World;
use ed25519_dalek::{Signer, SigningKey};
use gateway_domain::admission::{Admission, AdmissionDecision, PAYLOAD_TYPE, admission_hash};
use gateway_domain::dsse::{self, Envelope};
use gateway_domain::ids::Hex32;
use gateway_domain::log::{TlogProof, leaf_hash};
use gateway_domain::operation::{Change, Event, Outcome, replay};
use gateway_domain::testing::samples::chained;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{LogHead, SignCheckpoint};
use gateway_engine::{Target, Visibility};
use gateway_evidence::{Kind, LAST_EVENT, LastEventStatement, LogProof, Page, Source};
use gateway_seal::key_file;
use operation_gateway::log_signer::LogSigner;
use serde_json::{Value, json};

pub(crate) struct Forger {
    /// The real events, which the attacker alters.
    events: Vec<Event>,
    authority: SigningKey,
    log: LogSigner,
}

impl Forger {
    /// A forger of the evidence of the same operation.
    pub(crate) async fn new(world: &World, evidence: &Value) -> Self {
        let seed = |path| key_file::load(path).unwrap();
        let read = |name: &str| evidence[name].clone();
        let target = Target {
            family: serde_json::from_value(read("family")).unwrap(),
            visibility: Visibility::Everything,
            id: serde_json::from_value(read("operation_id")).unwrap(),
        };
        let (_, events) = world.engine.history(&target).await.unwrap();
        Self {
            events: events.into_iter().map(|chained| chained.event).collect(),
            authority: SigningKey::from_bytes(&seed(&world.settings.authority.key)),
            log: LogSigner::new(world.settings.log_origin.clone(), &seed(&world.settings.log.key)),
        }
    }

    /// The real events.
    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Evidence with altered events, and the outcomes of effects that follow from them.
    pub(crate) async fn with_events(&self, alter: impl FnOnce(&mut Vec<Value>)) -> Value {
        let mut events = self.events.iter().map(|event| json!(event)).collect();
        alter(&mut events);
        self.document(&settled_again(serde_json::from_value(json!(events)).unwrap())).await
    }

    /// Evidence in which the first event of this kind is altered.
    pub(crate) async fn with_event(&self, kind: &str, alter: impl FnOnce(&mut Value)) -> Value {
        let index = self.index_of(kind);
        self.with_events(|events| alter(&mut events[index])).await
    }

    /// Evidence with an altered decision, signed anew.
    pub(crate) async fn with_decision(&self, alter: impl FnOnce(&mut Value)) -> Value {
        self.with_event("decision_signed", |event| {
            let admission = &mut event["change"]["admission"];
            alter(&mut admission["decision"]);
            *admission = json!(self.sign_decision(&admission["decision"]));
        })
        .await
    }

    /// The first event of this kind.
    pub(crate) fn first(&self, kind: &str) -> Value {
        json!(self.events[self.index_of(kind)])
    }

    /// The index of the first event of this kind.
    pub(crate) fn index_of(&self, kind: &str) -> usize {
        let found = self.events.iter().position(|event| event.change.name() == kind);
        found.unwrap_or_else(|| panic!("no event is `{kind}`"))
    }

    fn sign_decision(&self, decision: &Value) -> Admission {
        let decision: AdmissionDecision = serde_json::from_value(decision.clone()).unwrap();
        let payload = decision.payload().unwrap();
        let signed = dsse::pre_authentication_encoding(PAYLOAD_TYPE, &payload);
        let id = dsse::key_id(self.authority.verifying_key().as_bytes());
        let signature = (id, self.authority.sign(&signed).to_bytes());
        let envelope = Envelope::seal(PAYLOAD_TYPE, &payload, &[signature]);
        Admission { decision, envelope, admission_hash: admission_hash(&payload) }
    }

    /// The evidence document of these events, in a log that has only the last event.
    pub(crate) async fn document(&self, events: &[Event]) -> Value {
        self.stated_at(events, events.last().unwrap().at_ms).await
    }

    /// As [`Self::document`], with a statement of this time.
    pub(crate) async fn stated_at(&self, events: &[Event], stated_at_ms: EpochMs) -> Value {
        let chained = chained(Hex32::ZERO, events.iter().cloned());
        let record_root = chained.last().unwrap().hash;
        let root = leaf_hash(record_root);
        let operation = replay(events).unwrap();
        let statement =
            LastEventStatement { operation_id: operation.id, record_root, log_size: 1, stated_at_ms };
        let signed = self.log.sign_statement(LAST_EVENT, &json!(statement)).await.unwrap().to_string();
        let source = Source {
            operation: &operation,
            events: &chained,
            ledger_root: root,
            log: Some(LogProof { tlog: &self.log_proof(root).await, consistency: &[] }),
        };
        let page = Page { after_seq: None, bytes_max: usize::MAX };
        gateway_evidence::write(Kind::Evidence, &source, Some((&signed, stated_at_ms)), page).unwrap()
    }

    /// The proof of a log whose only entry is `root`.
    async fn log_proof(&self, root: Hex32) -> TlogProof {
        let checkpoint = self.log.sign_checkpoint(LogHead { size: 1, root }).await.unwrap();
        TlogProof { extra: Vec::new(), index: 0, hashes: Vec::new(), checkpoint }
    }
}

/// The events with the outcomes of their effects, which follow from the other members, computed again.
pub(crate) fn settled_again(mut events: Vec<Event>) -> Vec<Event> {
    for event in &mut events {
        let root = match &mut event.change {
            Change::DecisionSigned { admission, .. } => Some(admission.admission_hash),
            Change::AdmissionApplied { receipts }
            | Change::EpochAcked { receipts }
            | Change::DiscardAcked { receipts } => Outcome::Acked(receipts.clone()).result_root().ok(),
            Change::ReceiptMaterialized { receipts, policy_receipt_id: id }
            | Change::Published { receipts, publication_receipt: id } => {
                let root = Outcome::Acked(receipts.clone()).result_root().unwrap();
                *id = root.to_string();
                Some(root)
            }
            Change::AttemptLost { reason, receipts, .. } => {
                Outcome::AttemptLost { reason: reason.clone(), receipts: receipts.clone() }.result_root().ok()
            }
            Change::EpochDecided { staged, .. } => staged.result_ref().ok(),
            Change::Executed { result_ref, signature: Some(_), .. } => Some(*result_ref),
            Change::Failed { receipts, .. } if !receipts.is_empty() => {
                Outcome::Acked(receipts.clone()).result_root().ok()
            }
            Change::Aborted { failure } | Change::Failed { failure, .. } => {
                Outcome::Rejected { failure: failure.clone(), policy: None }.result_root().ok()
            }
            _ => None,
        };
        if let (Some(root), Some(settles)) = (root, &mut event.settles) {
            settles.result_root = root;
        }
    }
    events
}
