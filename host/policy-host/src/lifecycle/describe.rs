//! Describes the active bundle, the candidate and past activations.

use super::Lifecycle;
use async_trait::async_trait;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::FaultKind;
use gateway_engine::Unavailable;
use gateway_engine::ports::{
    ActivatedBundle, Activation, BundleDescription, BundleLimits, BundleValidity, CandidateBundle,
    DescribePolicies, PolicyHealth, PolicyStatus, ShadowDifferences,
};
use gateway_policy::bundle::{MANIFEST_FILE, Manifest};

#[async_trait]
impl DescribePolicies for Lifecycle {
    async fn status(&self, n_max: u32) -> Result<PolicyStatus, Unavailable> {
        let health = self.health();
        let mut history = Vec::new();
        for activation in self.store.activations(n_max.max(1)).await? {
            history.push(self.activated(activation).await?);
        }
        let is_active = |it: &&ActivatedBundle| Some(it.bundle_hash) == health.bundle_hash;
        let active = history.iter().find(is_active).cloned();
        history.truncate(usize::try_from(n_max).unwrap_or(usize::MAX));
        let candidate = self.host.shadow.candidate().map(|candidate| CandidateBundle {
            bundle: description(candidate.bundle.manifest(), candidate.hash()),
            signers: candidate.bundle.signers().to_vec(),
            since_ms: candidate.since_ms,
            counts: candidate.counts(),
        });
        Ok(PolicyStatus {
            active,
            fault: health.fault,
            candidate,
            refused: health.refused,
            last_refusal: self.refusals.last(),
            history,
        })
    }

    fn health(&self) -> PolicyHealth {
        PolicyHealth {
            bundle_hash: self.host.active().map(|evaluator| evaluator.bundle_hash()),
            fault: self.host.fault(self.clock.now()).map(FaultKind::as_str),
            refused: self.refusals.standing(),
        }
    }

    fn shadow_differences(&self) -> Option<ShadowDifferences> {
        let candidate = self.host.shadow.candidate()?;
        let (since_ms, differences) = (candidate.since_ms, candidate.differences());
        Some(ShadowDifferences { candidate: candidate.hash(), since_ms, differences })
    }
}

impl Lifecycle {
    async fn activated(&self, activation: Activation) -> Result<ActivatedBundle, Unavailable> {
        let hash = activation.bundle_hash;
        let manifest = self.store.bundle_file(hash, MANIFEST_FILE).await?;
        let manifest = manifest.and_then(|bytes| Manifest::parse(&bytes).ok());
        Ok(ActivatedBundle {
            bundle: manifest.map(|manifest| description(&manifest, hash)),
            bundle_hash: hash,
            kind: activation.kind,
            activation_sequence: activation.sequence,
            signers: activation.signers,
            reason: activation.reason,
            activated_at_ms: activation.at_ms,
        })
    }
}

fn description(manifest: &Manifest, bundle_hash: Hex32) -> BundleDescription {
    BundleDescription {
        bundle_id: manifest.bundle_id.clone(),
        version: manifest.version.clone(),
        sequence: manifest.sequence,
        bundle_hash,
        capabilities: manifest.capabilities.clone(),
        facts: manifest.facts.clone(),
        limits: BundleLimits { fuel: manifest.limits.fuel, memory_bytes: manifest.limits.memory_bytes },
        validity: BundleValidity {
            not_before_ms: manifest.not_before_ms,
            not_after_ms: manifest.not_after_ms,
        },
    }
}
