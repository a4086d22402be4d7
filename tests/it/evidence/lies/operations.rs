//! Operations of every kind with every ending, with signed approvals: what a lie is told about.

use crate::evidence::aborted::{BEGIN_CEREMONIES, LOG_STEPS, PROMOTE, prevent, repair};
use crate::evidence::nodes::Logs;
use crate::harness::approvers::Signers;
use crate::harness::custody::{self, KEYS, key_path};
use crate::harness::forged::Forger;
use crate::harness::process::SIGN;
use crate::harness::samples::{self, with};
use crate::harness::world::World;
use gateway_domain::approval::Approvers;
use gateway_domain::operation::evaluations;
use gateway_domain::testing::approvers::registry;
use gateway_evidence::Verdict;
use gateway_evidence::roots::RootsFile;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An operation about which lies are told, as its real evidence shows it.
pub(super) struct Told {
    pub(super) name: &'static str,
    pub(super) forger: Forger,
    /// With the facts that the policy read.
    pub(super) roots: RootsFile,
    /// The logs of all nodes, if the reader has them.
    pub(super) logs: Option<Logs>,
    /// What the verifier says to the truth.
    pub(super) expected: Verdict,
}

/// A gateway that requires signed approvals.
struct Gateway {
    world: World,
    signers: Signers,
}

impl Gateway {
    async fn start() -> Self {
        let signers = Signers::new();
        let world = World::ticking_with(&signers.settings("required")).await;
        let gateway = Self { world, signers };
        for (key_ref, profile) in [("cold", "frost-ed25519-sha512"), ("btc", "frost-secp256k1-sha256-tr")] {
            let body = with(custody::key(key_ref), "/signature_profile", json!(profile));
            gateway.advance(KEYS, &body, Until::Executed).await;
        }
        gateway
    }

    /// Takes an operation to a state; returns its path.
    async fn advance(&self, path: &str, body: &Value, until: Until) -> String {
        let view = self.world.post(path, body).await.ok()["operation"].clone();
        let family = if path == SIGN { samples::path } else { custody::path };
        if until >= Until::Admitted {
            for subject in ["alice", "bob"] {
                let approve = family(&view, "/approve");
                self.world.post(&approve, &self.signers.body(&view, subject)).await.ok();
            }
        }
        if until >= Until::Executed {
            self.world.post_nothing(&family(&view, "/execute")).await.ok();
        }
        if until >= Until::Published {
            self.world.post(&family(&view, "/publish"), &custody::publication()).await.ok();
        }
        family(&view, "")
    }

    async fn told(&self, name: &'static str, path: &str, expected: Verdict) -> Told {
        let evidence = self.world.get(&format!("{path}/evidence")).await.ok();
        let forger = Forger::new(&self.world, &evidence).await;
        let mut facts = BTreeMap::<String, Vec<String>>::new();
        for evaluation in evaluations(forger.events()) {
            for fact in evaluation.outcome.facts {
                let values = facts.entry(fact.name).or_default();
                values.extend(fact.value.filter(|value| !values.contains(value)));
            }
        }
        let roots = RootsFile { facts, ..self.world.roots().await };
        Told { name, forger, roots, logs: None, expected }
    }

    /// An operation whose end no receipt shows.
    async fn told_with_and_without_logs(&self, name: &'static str, path: &str, all: &mut Vec<Told>) {
        all.push(self.told(name, path, Verdict::NotChecked).await);
        let logs = Logs::of(&self.world, &[0, 1, 2, 3, 4]).await;
        all.push(Told { logs: Some(logs), ..self.told(name, path, Verdict::NotChecked).await });
    }

    /// A payment whose first approval lapses: the gateway's registry, and no other party's, revokes its key.
    async fn told_of_a_lapse(&self, payment: &Value) -> Told {
        let set_registry = |entries: &[Value]| {
            let approvers = Approvers::parse(registry(entries).as_bytes()).unwrap();
            self.world.engine.signing_rule().replace_registry(Some(Arc::new(approvers)));
        };
        let view = self.world.post(SIGN, payment).await.ok()["operation"].clone();
        let approve = samples::path(&view, "/approve");
        let approve_as =
            async |subject| self.world.post(&approve, &self.signers.body(&view, subject)).await.ok();
        approve_as("alice").await;
        let mut entries = self.signers.entries();
        entries[0]["keys"][0]["revoked_at_ms"] = json!(1);
        set_registry(&entries);
        assert_eq!(approve_as("bob").await["state"], "pending_approval");
        assert_eq!(approve_as("tina").await["state"], "admitted");
        set_registry(&self.signers.entries());
        let path = samples::path(&view, "");
        self.world.post_nothing(&format!("{path}/execute")).await.ok();
        self.world.post(&format!("{path}/publish"), &custody::publication()).await.ok();
        self.told("payment with a lapsed approval", &path, Verdict::Holds).await
    }

    /// Changes of keys that ended because of a lost node.
    async fn told_of_aborts(&self, all: &mut Vec<Told>) {
        let path = self.interrupted("left", BEGIN_CEREMONIES).await;
        repair(&self.world).await;
        prevent(&self.world, LOG_STEPS).await;
        self.abort(&path, &[]).await;
        repair(&self.world).await;
        let name = "refresh aborted while a node cannot sign that it discards";
        all.push(self.told(name, &path, Verdict::Holds).await);

        let path = self.interrupted("lost", PROMOTE).await;
        self.abort(&path, &[2]).await;
        self.world.post(&format!("{path}/publish"), &custody::publication()).await.ok();
        repair(&self.world).await;
        all.push(self.told("refresh without a lost node", &path, Verdict::Holds).await);
    }

    /// A refresh of a new key in whose execution the nodes fail at this step.
    async fn interrupted(&self, key_ref: &str, step: &str) -> String {
        self.advance(KEYS, &custody::key(key_ref), Until::Executed).await;
        let path =
            self.advance(&key_path(key_ref, "/refresh"), &custody::refresh("2"), Until::Admitted).await;
        prevent(&self.world, step).await;
        self.world.post_nothing(&format!("{path}/execute")).await.fails(503, "runtime_unavailable");
        path
    }

    async fn abort(&self, path: &str, lost: &[u16]) {
        let view = self.world.get(path).await.ok();
        self.world.post(&format!("{path}/abort"), &self.signers.abort(&view, lost)).await.ok();
    }
}

#[derive(PartialEq, PartialOrd)]
enum Until {
    Submitted,
    Admitted,
    Executed,
    Published,
}

/// All of them.
pub(super) async fn all() -> Vec<Told> {
    let gateway = Gateway::start().await;
    let child = with(samples::payment("child"), "/bip32", json!({ "network": "bitcoin", "path": "0/7" }));
    let child = with(child, "/key_ref", json!("btc"));
    let payment = |name: &str| with(samples::payment(name), "/key_ref", json!("cold"));
    let mut told = Vec::new();
    for (name, path, body) in [
        ("payment", SIGN.to_owned(), payment("payment")),
        ("payment by a secp256k1 key", SIGN.to_owned(), with(payment("btc"), "/key_ref", json!("btc"))),
        ("payment by a child key", SIGN.to_owned(), child),
        ("signature", key_path("cold", "/sign"), custody::sign("signature")),
        ("creation", KEYS.to_owned(), custody::key("another")),
        ("refresh", key_path("cold", "/refresh"), custody::refresh("2")),
        ("reshare", key_path("another", "/reshare"), custody::reshare("2")),
        ("recovery", key_path("btc", "/recover"), custody::recover("2")),
        ("rotation", key_path("btc", "/rotate"), custody::rotate("btc-2")),
    ] {
        let path = gateway.advance(&path, &body, Until::Published).await;
        told.push(gateway.told(name, &path, Verdict::Holds).await);
    }
    // An end that no receipt shows is the gateway's word, whatever the nodes' logs say.
    for (name, until) in [
        ("pending payment", Until::Submitted),
        ("admitted payment", Until::Admitted),
        ("executed payment", Until::Executed),
    ] {
        let path = gateway.advance(SIGN, &payment(name), until).await;
        gateway.told_with_and_without_logs(name, &path, &mut told).await;
    }
    let cancelled = gateway.advance(SIGN, &payment("cancelled"), Until::Submitted).await;
    gateway.world.post(&format!("{cancelled}/cancel"), &json!({ "reason": "twice" })).await.ok();
    gateway.told_with_and_without_logs("cancelled payment", &cancelled, &mut told).await;
    let fenced = with(custody::sign("fenced"), "/epoch_fence_token_hex", json!("11".repeat(32)));
    let fenced = gateway.advance(&key_path("cold", "/sign"), &fenced, Until::Admitted).await;
    gateway.world.post_nothing(&format!("{fenced}/execute")).await;
    told.push(gateway.told("fenced signature", &fenced, Verdict::Holds).await);

    for (name, path, body) in [
        ("refused payment", SIGN.to_owned(), payment("refused")),
        ("refused refresh", key_path("cold", "/refresh"), custody::refresh("3")),
    ] {
        let path = gateway.advance(&path, &body, Until::Admitted).await;
        gateway.world.faults.set_rejecting(true);
        gateway.world.post_nothing(&format!("{path}/execute")).await;
        gateway.world.faults.set_rejecting(false);
        told.push(gateway.told(name, &path, Verdict::Holds).await);
    }
    told.push(gateway.told_of_a_lapse(&payment("lapsed")).await);
    gateway.told_of_aborts(&mut told).await;
    let aborted =
        gateway.advance(&key_path("cold", "/refresh"), &custody::refresh("4"), Until::Admitted).await;
    let view = gateway.world.get(&aborted).await.ok();
    gateway.world.post(&format!("{aborted}/abort"), &gateway.signers.abort(&view, &[])).await.ok();
    gateway.told_with_and_without_logs("aborted refresh", &aborted, &mut told).await;
    told
}
