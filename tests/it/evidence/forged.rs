//! Evidence forged by an attacker who has the keys of the log and the authority. Its hashes and proofs verify, so each test
//! reaches the check that must find the forgery.

mod admission;
mod ends;
mod key;
mod receipts;
mod shares;
mod signature;

use super::{assert_holds, verify};
use crate::harness::custody;
use crate::harness::forged::Forger;
use crate::harness::samples::{path, payment, publish, with};
use crate::harness::world::World;
use gateway_evidence::roots::RootsFile;
use gateway_evidence::{Report, Roots};
use serde_json::{Value, json};

type Alter = fn(&mut Value);

/// The real evidence of an operation, the forger that rewrites it, and the reader's trust roots.
pub(super) struct Forgery {
    pub(super) forger: Forger,
    pub(super) evidence: Value,
    roots: RootsFile,
}

impl Forgery {
    /// Of the operation whose evidence is at this path.
    pub(super) async fn of(world: &World, path: &str) -> Self {
        let evidence = world.get(path).await.ok();
        Self { forger: Forger::new(world, &evidence).await, evidence, roots: world.roots().await }
    }

    pub(super) async fn of_payment() -> Self {
        Self::of_payment_with("/threshold", json!(2)).await
    }

    /// Of a payment whose body has this member replaced.
    async fn of_payment_with(pointer: &str, value: Value) -> Self {
        let world = World::start().await;
        let create =
            with(custody::key("treasury-1"), "/signature_profile", json!("frost-secp256k1-sha256-tr"));
        custody::execute(&world, custody::KEYS, &create).await;
        let operation = publish(&world, &with(payment("forged"), pointer, value)).await;
        Self::of(&world, &path(&operation, "/evidence")).await
    }

    async fn of_child_key() -> Self {
        Self::of_payment_with("/bip32", json!({ "network": "bitcoin", "path": "0/7" })).await
    }

    async fn of_creation() -> Self {
        let world = World::ticking().await;
        let operation = custody::publish(&world, "/v1/custody/keys", &custody::key("cold")).await;
        Self::of(&world, &custody::path(&operation, "/evidence")).await
    }

    /// Of a change of a key, such as `/refresh`.
    async fn of_change(action: &str, body: Value) -> Self {
        let world = World::ticking().await;
        custody::create_key(&world, "cold").await;
        let operation = custody::publish(&world, &custody::key_path("cold", action), &body).await;
        Self::of(&world, &custody::path(&operation, "/evidence")).await
    }

    async fn of_creation_and_refresh() -> [Self; 2] {
        [Self::of_creation().await, Self::of_change("/refresh", custody::refresh("2")).await]
    }

    pub(super) fn verify(&self, document: &Value) -> Report {
        verify(document, &Roots::new(self.roots.clone()).unwrap())
    }

    /// The findings in a document, as text that begins with their place.
    fn findings(&self, document: &Value) -> Vec<String> {
        self.verify(document).findings().map(ToString::to_string).collect()
    }

    /// The document must have exactly one finding, whose text begins with `finding`.
    #[track_caller]
    pub(super) fn assert_finds_only(&self, document: &Value, finding: &str) {
        let found = self.findings(document);
        assert!(found.len() == 1 && found[0].starts_with(finding), "{finding}: {found:#?}");
    }

    /// The document must have a finding whose text begins with `finding`; other findings may follow from it.
    #[track_caller]
    pub(super) fn assert_finds(&self, document: &Value, finding: &str) {
        let found = self.findings(document);
        assert!(found.iter().any(|found| found.starts_with(finding)), "{finding}: {found:#?}");
    }

    /// Alters the first event of this kind; a finding must begin with `rest` in that event's change.
    pub(super) async fn assert_alteration_found(
        &self,
        kind: &str,
        alter: impl FnOnce(&mut Value),
        rest: &str,
    ) {
        let forged = self.forger.with_event(kind, alter).await;
        self.assert_finds(&forged, &self.at(kind, rest));
    }

    /// As [`Self::assert_alteration_found`]; there must be no other finding.
    async fn assert_only_alteration_found(&self, kind: &str, alter: impl FnOnce(&mut Value), rest: &str) {
        let forged = self.forger.with_event(kind, alter).await;
        self.assert_finds_only(&forged, &self.at(kind, rest));
    }

    /// The place `rest` in the change of the first event of this kind, as findings name it.
    pub(super) fn at(&self, kind: &str, rest: &str) -> String {
        format!("/events/{}/event/change{rest}", self.forger.index_of(kind))
    }
}

/// Otherwise the findings in the other tests could come from the forger and not from the alteration.
#[tokio::test]
async fn unaltered_evidence_from_the_forger_holds() {
    for forgery in [Forgery::of_child_key().await, Forgery::of_creation().await] {
        let forged = forgery.forger.with_events(|_| ()).await;
        assert_ne!(
            forged["record_root"], forgery.evidence["record_root"],
            "the forger must have hashed the events anew"
        );
        assert_holds(
            &forgery.verify(&forged),
            &["chain", "admission", "receipts", "ending", "log", "statement"],
        );
    }
}
