//! The engine's port for the policy authority: a key in this process, or a process of its own.

use async_trait::async_trait;
use gateway_authority::{Authority, DecisionAnswer, DecisionRequest};
use gateway_domain::admission::{self, Admission};
use gateway_domain::dsse::KeySet;
use gateway_domain::error_chain;
use gateway_engine::ports::{AdmissionRequest, ReadOperations, SignAdmission};
use gateway_engine::{Dependency, Unavailable};
use gateway_service::client::{CallError, ServiceClient, Url};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Time limit of a call to the authority: it verifies some signatures and writes nothing.
const DECISION_WITHIN: Duration = Duration::from_secs(10);

/// Time limit of its liveness check.
const CHECK_WITHIN: Duration = Duration::from_secs(2);

/// An authority whose key is in this process.
#[derive(Debug)]
pub struct EmbeddedAuthority(Authority);

impl EmbeddedAuthority {
    /// An authority with this Ed25519 seed: 32 random bytes (RFC 8032 section 5.1.5).
    #[must_use]
    pub fn new(seed: &[u8; 32]) -> Self {
        Self(Authority::new(seed))
    }

    /// The public key that nodes and auditors pin, 32 bytes.
    #[must_use]
    pub fn public_key(&self) -> [u8; 32] {
        self.0.public_key()
    }
}

#[async_trait]
impl SignAdmission for EmbeddedAuthority {
    /// # Errors
    /// [`Dependency::Authority`] when the request is inconsistent; the detail names the inconsistency.
    async fn sign(&self, request: AdmissionRequest<'_>) -> Result<Admission, Unavailable> {
        self.0.sign(&request).map_err(unavailable)
    }

    /// Always succeeds, since the key is in memory.
    async fn check(&self) -> Result<(), Unavailable> {
        Ok(())
    }
}

/// An authority in a process of its own. It gets the operation's events and decides for itself.
pub struct RemoteAuthority {
    client: ServiceClient,
    url: Url,
    /// The key that it must sign with.
    pinned: KeySet,
    reads: Arc<dyn ReadOperations>,
}

impl RemoteAuthority {
    /// The authority at this URL, which signs with one of the pinned keys.
    #[must_use]
    pub fn new(client: ServiceClient, url: Url, pinned: KeySet, reads: Arc<dyn ReadOperations>) -> Self {
        Self { client, url, pinned, reads }
    }

    fn join(&self, path: &str) -> Result<Url, Unavailable> {
        self.url.join(path).map_err(unavailable)
    }
}

#[async_trait]
impl SignAdmission for RemoteAuthority {
    /// # Errors
    /// [`Dependency::Authority`] when the authority does not answer, refuses, or signs something else than was asked for.
    async fn sign(&self, request: AdmissionRequest<'_>) -> Result<Admission, Unavailable> {
        let sent = DecisionRequest {
            events: self
                .reads
                .operation_events(request.operation.id)
                .await?
                .into_iter()
                .map(Into::into)
                .collect(),
            policy: request.policy.clone(),
            key: request.key.cloned(),
            derivation: request.derivation.cloned(),
            not_before_ms: request.not_before_ms,
            not_after_ms: request.not_after_ms,
        };
        let url = self.join("v1/authority/decisions")?;
        let answer: DecisionAnswer =
            self.client.post(url, &sent, DECISION_WITHIN).await.map_err(call_error)?;
        let admission = admission::verify(&answer.decision, &self.pinned, gateway_service::now());
        let admission = admission.map_err(|error| unavailable(error_chain(&error)))?;
        let decision = &admission.decision;
        // The nodes compare everything; here only what would be recorded as another operation's admission.
        if decision.operation_id != request.operation.id
            || decision.intent_hash != request.operation.intent_hash
        {
            return Err(unavailable("the decision is for another operation"));
        }
        Ok(admission)
    }

    async fn check(&self) -> Result<(), Unavailable> {
        let alive: Result<Value, CallError> = self.client.get(self.join("healthz")?, CHECK_WITHIN).await;
        alive.map(drop).map_err(call_error)
    }
}

fn call_error(error: CallError) -> Unavailable {
    unavailable(error_chain(&error))
}

fn unavailable(why: impl fmt::Display) -> Unavailable {
    Unavailable::new(Dependency::Authority, why.to_string())
}
