//! Runs the contract on databases of a real server, and tests what is specific to PostgreSQL.

mod commits;
mod damage;
mod replicas;
mod server;

use crate::Finding;
use crate::contract::Deployment;
pub(super) use crate::testing::Scratch;

/// What the check finds, without the claims: samples have invented ids.
pub(super) async fn findings(scratch: &Scratch) -> Vec<Finding> {
    let (mut fsck, mut findings) = (scratch.fsck().await, Vec::new());
    fsck.check(&mut |finding| findings.push(finding)).await.unwrap();
    fsck.close().await;
    findings.retain(|finding| finding.table != "idempotency_claims");
    findings
}

impl Deployment for Scratch {
    fn location(&self) -> String {
        self.url()
    }

    async fn return_work(&self) {
        self.tamper("UPDATE operations SET due_ms = 0 WHERE waited_ms = 0").await;
    }

    async fn tamper(&self, sql: &str) {
        Self::tamper(self, sql).await;
    }
}

crate::contract::contract_cases!(Scratch::new());
