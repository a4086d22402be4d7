//! Evidence forged by an attacker who has the keys of the log and the authority, and none of the nodes' or approvers' keys.
//!
//! Its hashes, log proofs and signed decision verify.

use super::world::World;
use ed25519_dalek::{Signer, SigningKey};
use gateway_domain::admission::{Admission, AdmissionDecision, PAYLOAD_TYPE, admission_hash};
use gateway_domain::dsse::{self, Envelope};
use gateway_domain::evidence::{ChainedEvent, event_hash};
use gateway_domain::ids::Hex32;
use gateway_domain::log::{TlogProof, leaf_hash};
use gateway_domain::operation::{Event, replay};
use gateway_domain::redaction::{Salt, redact};
use gateway_engine::ports::{LogHead, SignCheckpoint};
use gateway_engine::{Target, Visibility};
use gateway_evidence::{KEY_STATE, KeyStatement, Kind, Page, Source, StatedKey};
use gateway_seal::key_file;
use operation_gateway::log_signer::LogSigner;
use serde_json::{Value, json};

const SALT: Salt = Salt::new([7; 32]);

pub(crate) struct Forger {
    /// The real events, which the attacker alters.
    events: Vec<Value>,
    key: Value,
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
            events: events.iter().map(|chained| json!(chained.event)).collect(),
            key: read("key"),
            authority: SigningKey::from_bytes(&seed(&world.settings.authority.key)),
            log: LogSigner::new(world.settings.log.origin.clone(), &seed(&world.settings.log.key)),
        }
    }

    /// Evidence with altered events.
    pub(crate) async fn with_events(&self, alter: impl FnOnce(&mut Vec<Value>)) -> Value {
        let mut events = self.events.clone();
        alter(&mut events);
        self.document(events, &self.key).await
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

    /// Evidence with an altered key, and a signed statement on it.
    pub(crate) async fn with_key(&self, alter: impl FnOnce(&mut Value)) -> Value {
        let mut key = self.key.clone();
        alter(&mut key);
        self.document(self.events.clone(), &key).await
    }

    /// The first event of this kind.
    pub(crate) fn first(&self, kind: &str) -> Value {
        self.events[self.index_of(kind)].clone()
    }

    /// The index of the first event of this kind.
    pub(crate) fn index_of(&self, kind: &str) -> usize {
        let found = self.events.iter().position(|event| event["change"]["type"] == kind);
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

    /// The evidence document of these events and this key, in a log that has only the last event.
    async fn document(&self, events: Vec<Value>, key: &Value) -> Value {
        let events: Vec<Event> = serde_json::from_value(json!(events)).unwrap();
        let chained = chain(&events);
        let root = leaf_hash(chained.last().unwrap().hash);
        let operation = replay(&events).unwrap();
        let statement = KeyStatement {
            operation_id: operation.id,
            record_root: chained.last().unwrap().hash,
            log_size: 1,
            stated_at_ms: operation.updated_at_ms,
            key,
        };
        let note = self.log.sign_statement(KEY_STATE, &json!(statement)).await.unwrap().to_string();
        let source = Source {
            operation: &operation,
            events: &chained,
            ledger_root: root,
            log: &self.log_proof(root).await,
            key: Some(StatedKey { key, note: &note, at_ms: operation.updated_at_ms }),
        };
        let page = Page { after_seq: None, bytes_max: usize::MAX };
        gateway_evidence::write(Kind::Evidence, &source, page).unwrap()
    }

    /// The proof of a log whose only entry is `root`.
    async fn log_proof(&self, root: Hex32) -> Value {
        let checkpoint = self.log.sign_checkpoint(LogHead { size: 1, root }).await.unwrap();
        let proof = TlogProof { extra: Vec::new(), index: 0, hashes: Vec::new(), checkpoint };
        json!({ "index": 0, "proof": proof.to_string(), "consistency": [] })
    }
}

/// The events with the hashes that chain them.
fn chain(events: &[Event]) -> Vec<ChainedEvent> {
    let mut previous = Hex32::ZERO;
    let next = |event: &Event| {
        previous = event_hash(previous, &redact(event, &SALT).unwrap().event).unwrap();
        ChainedEvent { event: event.clone(), salt: SALT, hash: previous }
    };
    events.iter().map(next).collect()
}
