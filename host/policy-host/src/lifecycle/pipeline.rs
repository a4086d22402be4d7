//! The steps of an activation: verify, compile, test, record, swap.

use super::refusals::{Offered, Refused};
use super::{ActiveBundle, Lifecycle, Memory};
use crate::counters;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_engine::failpoint::failpoint;
use gateway_engine::ports::{Activated, Activation, ActivationKind, StoredBundle};
use gateway_policy::bundle::{ActivationRecord, check_rises};
use gateway_policy::{Bundle, BundleError, BundleFiles, Evaluator};
use std::sync::Arc;
use tokio::task;

impl Lifecycle {
    pub(super) async fn try_activation(
        &self,
        memory: &mut Memory,
        bytes: &[u8],
        folder: Option<&BundleFiles>,
        now: EpochMs,
    ) -> Result<(), Refused> {
        let mark = self.mark().await?;
        // A record that took effect may have expired since.
        let record = ActivationRecord::parse(bytes)?;
        if mark
            .as_ref()
            .is_some_and(|it| (it.sequence, it.bundle_hash) == (record.sequence, record.bundle_hash))
        {
            self.keep_record(bytes);
            return Ok(());
        }
        let signed = ActivationRecord::verify(bytes, memory.trust()?, now)?;
        check_rises(record.sequence, mark.map(|mark| mark.sequence))?;
        let bundle = self.find_bundle(memory, record.bundle_hash, folder, now).await?;
        let activation = Activation {
            at_ms: now,
            sequence: record.sequence,
            bundle_hash: record.bundle_hash,
            kind: ActivationKind::Rollback,
            signers: signed.signers().to_vec(),
            reason: record.reason,
        };
        // Before the activation, because nodes may need it right after.
        self.keep_record(bytes);
        self.activate(memory, bundle, activation).await
    }

    /// Finds a bundle by its hash and verifies it with the current trust roots. Prefers the folder to the store, since the copy in
    /// the folder may have newer signatures.
    async fn find_bundle(
        &self,
        memory: &Memory,
        hash: Hex32,
        folder: Option<&BundleFiles>,
        now: EpochMs,
    ) -> Result<Arc<Bundle>, Refused> {
        let files = match folder.filter(|files| files.bundle_hash().ok() == Some(hash)) {
            Some(files) => files.clone(),
            None => match self.store.bundle_load(hash).await? {
                Some(kept) => BundleFiles::new(kept.files)?,
                None => return Err(BundleError::UnknownBundle(hash).into()),
            },
        };
        let bundle = self.verify(memory, files, now).await?;
        // A signed bundle, but another one: the store was tampered with.
        if bundle.hash() == hash { Ok(bundle) } else { Err(BundleError::UnknownBundle(hash).into()) }
    }

    pub(super) async fn try_bundle(
        &self,
        memory: &mut Memory,
        files: BundleFiles,
        now: EpochMs,
    ) -> Result<(), Refused> {
        let bundle = self.verify(memory, files, now).await?;
        // An early check, before compiling. The one in the store's transaction decides.
        bundle.check_follows(self.mark().await?.map(|mark| (mark.sequence, mark.bundle_hash)))?;
        let activation = Activation {
            at_ms: now,
            sequence: bundle.manifest().sequence,
            bundle_hash: bundle.hash(),
            kind: ActivationKind::Activate,
            signers: bundle.signers().to_vec(),
            reason: String::new(),
        };
        self.activate(memory, bundle, activation).await
    }

    pub(super) async fn try_mark(
        &self,
        memory: &mut Memory,
        mark: Activation,
        folder: Option<&BundleFiles>,
        now: EpochMs,
    ) -> Result<(), Refused> {
        if let Some(active) = &memory.active {
            // A lower mark than before means that activations were removed from the store.
            check_rises(mark.sequence, Some(active.activation.sequence))?;
        }
        let bundle = self.find_bundle(memory, mark.bundle_hash, folder, now).await?;
        let evaluator = self.load(memory, &bundle).await?;
        let active = ActiveBundle { bundle, activation: mark };
        self.check_trusted(memory, &active)?;
        self.swap(memory, active, evaluator);
        Ok(())
    }

    pub(super) async fn try_candidate(
        &self,
        memory: &Memory,
        files: BundleFiles,
        now: EpochMs,
    ) -> Result<(), Refused> {
        let bundle = self.verify(memory, files, now).await?;
        if self.host.shadow.candidate().is_some_and(|candidate| candidate.hash() == bundle.hash()) {
            return Ok(());
        }
        let evaluator = self.load(memory, &bundle).await?;
        let put = self.host.shadow.put(bundle, evaluator, now);
        put.map_err(|source| BundleError::Read { path: "candidate".to_owned(), source }.into())
    }

    /// Records the activation, then swaps. After a crash in between, [`Self::follow_mark`] swaps at the next start.
    async fn activate(
        &self,
        memory: &mut Memory,
        bundle: Arc<Bundle>,
        activation: Activation,
    ) -> Result<(), Refused> {
        let evaluator = self.load(memory, &bundle).await?;
        let (sequence, kind) = (activation.sequence, activation.kind);
        match self.store.activation_append(activation.clone(), to_stored(&bundle)).await? {
            Activated::Recorded => counters::count_activation(kind),
            Activated::AlreadyActive => return self.reactivate(memory, bundle, evaluator).await,
            Activated::Superseded { reached } => {
                return Err(BundleError::Rollback { offered: sequence, reached }.into());
            }
        }
        failpoint("policy-activation-recorded");
        self.swap(memory, ActiveBundle { bundle, activation }, evaluator);
        Ok(())
    }

    /// Handles an offer of the bundle that the high-water mark names. It may have new signatures, so it is swapped in if it is
    /// trusted now. If an activation record activated it, the signers of the record must be trusted too.
    async fn reactivate(
        &self,
        memory: &mut Memory,
        bundle: Arc<Bundle>,
        evaluator: Arc<Evaluator>,
    ) -> Result<(), Refused> {
        let mark = self.mark().await?.filter(|mark| mark.bundle_hash == bundle.hash());
        let Some(activation) = mark else { return Ok(()) };
        let active = ActiveBundle { bundle, activation };
        if self.check_trusted(memory, &active).is_ok() {
            self.swap(memory, active, evaluator);
        }
        Ok(())
    }

    fn swap(&self, memory: &mut Memory, active: ActiveBundle, evaluator: Arc<Evaluator>) {
        self.host.activate(evaluator);
        memory.active = Some(active);
        self.refusals.settle(Offered::Active);
    }

    /// The high-water mark: the last activation in the store.
    pub(super) async fn mark(&self) -> Result<Option<Activation>, Refused> {
        Ok(self.store.activations(1).await?.into_iter().next())
    }

    async fn verify(
        &self,
        memory: &Memory,
        files: BundleFiles,
        now: EpochMs,
    ) -> Result<Arc<Bundle>, BundleError> {
        let (trust, pins) = (Arc::clone(memory.trust()?), self.sources.pins.clone());
        blocking(move || Bundle::verify(files, &trust, &pins, now)).await.map(Arc::new)
    }

    /// Compiles the bundle and runs its test vectors, unless a loaded bundle has the same hash.
    async fn load(&self, memory: &Memory, bundle: &Arc<Bundle>) -> Result<Arc<Evaluator>, BundleError> {
        let candidate = self.host.shadow.candidate().map(|candidate| candidate.evaluator());
        let mut loaded = [memory.prepared.clone(), self.host.active(), candidate].into_iter().flatten();
        if let Some(evaluator) = loaded.find(|evaluator| evaluator.bundle_hash() == bundle.hash()) {
            return Ok(evaluator);
        }
        let (engine, bundle) = (self.engine.clone(), Arc::clone(bundle));
        blocking(move || Evaluator::load(&engine, &bundle)).await.map(Arc::new)
    }
}

/// Runs `work` on a blocking thread: verifying hashes megabytes, and compiling takes tens of milliseconds.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BundleError> + Send + 'static,
) -> Result<T, BundleError> {
    task::spawn_blocking(work).await.unwrap_or(Err(BundleError::Panicked))
}

fn to_stored(bundle: &Bundle) -> StoredBundle {
    StoredBundle {
        bundle_hash: bundle.hash(),
        bundle_id: bundle.manifest().bundle_id.clone(),
        files: bundle.files().iter().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect(),
    }
}
