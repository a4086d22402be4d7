//! Runs the contract on databases of a real server, and tests what is specific to PostgreSQL.

mod damage;
mod replicas;
mod server;

use crate::contract::Deployment;
pub(super) use crate::testing::Scratch;
use crate::{Decisions, Finding, Fsck, Store};
use std::sync::Arc;

/// What the check finds, without the claims: samples have invented ids.
pub(super) async fn findings(scratch: &Scratch) -> Vec<Finding> {
    let (mut fsck, mut findings) = (scratch.fsck().await, Vec::new());
    fsck.check(&mut |finding| findings.push(finding)).await.unwrap();
    fsck.close().await;
    findings.retain(|finding| finding.table != "idempotency_claims");
    findings
}

impl Deployment for Scratch {
    type Store = Store;

    async fn open(&self) -> Arc<Store> {
        Arc::new(Store::open(&self.url()).await.unwrap())
    }

    async fn decisions(&self) -> Decisions {
        Decisions::open(&self.url()).await.unwrap()
    }

    async fn fsck(&self) -> Fsck {
        Fsck::open(&self.url()).await.unwrap()
    }

    async fn return_work(&self) {
        self.tamper("UPDATE operations SET due_ms = 0 WHERE waited_ms = 0").await;
    }

    async fn tamper(&self, sql: &str) {
        Self::tamper(self, sql).await;
    }

    async fn close(&self, store: Arc<Store>) {
        store.close().await;
    }
}

crate::contract::contract_cases!(Scratch::new());
