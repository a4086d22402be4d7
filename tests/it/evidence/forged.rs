//! Forgeries by an attacker with the keys of the gateway, the log and the authority are found.
//! All hashes and proofs hold here, so each check is tested on its own.

mod admission;
mod key;
mod receipts;
mod shares;
mod signature;

use super::{assert_holds, verify};
use crate::harness::custody;
use crate::harness::forged::Forger;
use crate::harness::samples::{path, payment, published, with};
use crate::harness::world::World;
use gateway_evidence::roots::RootsFile;
use gateway_evidence::{Report, Roots};
use serde_json::{Value, json};

type Alter = fn(&mut Value);

/// An operation, and the forger that rewrites its evidence.
pub(super) struct Forgery {
    pub(super) forger: Forger,
    pub(super) evidence: Value,
    roots: RootsFile,
}

impl Forgery {
    async fn of(world: &World, path: &str) -> Self {
        let evidence = world.get(path).await.ok();
        Self { forger: Forger::of(world, &evidence).await, evidence, roots: world.roots().await }
    }

    /// A payment whose body has these members replaced.
    pub(super) async fn of_payment(pointer: &str, value: Value) -> Self {
        let world = World::start().await;
        let operation = published(&world, &with(payment("forged"), pointer, value)).await;
        Self::of(&world, &path(&operation, "/evidence")).await
    }

    async fn of_child_key() -> Self {
        Self::of_payment("/bip32", json!({ "network": "bitcoin", "path": "0/7" })).await
    }

    async fn of_creation() -> Self {
        let world = World::ticking().await;
        let operation = custody::published(&world, "/v1/custody/keys", &custody::key("cold")).await;
        Self::of(&world, &custody::path(&operation, "/evidence")).await
    }

    /// A change of a key.
    async fn of_change(action: &str, body: Value) -> Self {
        let world = World::ticking().await;
        custody::made(&world, "cold").await;
        let operation = custody::published(&world, &custody::on_key("cold", action), &body).await;
        Self::of(&world, &custody::path(&operation, "/evidence")).await
    }

    async fn of_creation_and_refresh() -> [Self; 2] {
        [Self::of_creation().await, Self::of_change("/refresh", custody::refresh("2")).await]
    }

    pub(super) fn verified(&self, document: &Value) -> Report {
        verify(document, &Roots::new(self.roots.clone()).unwrap())
    }

    /// Each finding with its place.
    fn found(&self, document: &Value) -> Vec<String> {
        self.verified(document).findings().map(ToString::to_string).collect()
    }

    /// Exactly this finding.
    #[track_caller]
    pub(super) fn assert_finds_only(&self, document: &Value, finding: &str) {
        let found = self.found(document);
        assert!(found.len() == 1 && found[0].starts_with(finding), "{finding}: {found:#?}");
    }

    /// This finding; other findings may follow from it.
    #[track_caller]
    pub(super) fn assert_finds(&self, document: &Value, finding: &str) {
        let found = self.found(document);
        assert!(found.iter().any(|found| found.starts_with(finding)), "{finding}: {found:#?}");
    }

    /// The first event of this kind.
    pub(super) fn at(&self, kind: &str, rest: &str) -> String {
        format!("/events/{}/event/change{rest}", self.forger.place(kind))
    }
}

/// Without this, the findings in altered evidence would show nothing.
#[tokio::test]
async fn unaltered_evidence_from_the_forger_holds() {
    for forgery in [Forgery::of_child_key().await, Forgery::of_creation().await] {
        let written = forgery.forger.events(|_| ()).await;
        assert_ne!(written["record_root"], forgery.evidence["record_root"], "the chain must differ");
        assert_holds(&forgery.verified(&written), &["chain", "admission", "receipts", "key", "log"]);
    }
}
