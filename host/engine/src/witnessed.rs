//! The newest checkpoint that witnesses cosigned. It is kept outside the store, so it shows that the store is an older copy, or that
//! its log was changed: [`LogStanding`] compares them.
//!
//! Only a checkpoint that the log's own key signed counts: no witness can stop the gateway.

use crate::engine::{Engine, Inner, KeptCheckpoint};
use crate::error::{Dependency, Unavailable};
use gateway_domain::log::{LogStanding, SignedCheckpoint};

impl Inner {
    /// Checks that the log is that of the kept checkpoint.
    ///
    /// # Errors
    /// [`Dependency::Store`] with the sizes.
    pub(crate) fn check_witnessed(&self) -> Result<(), Unavailable> {
        self.witnessed.lock().fault.clone().map_or(Ok(()), Err)
    }

    /// What is known of the witnesses, for readiness; `None` without witnesses.
    pub(crate) fn witnesses_report(&self) -> Option<String> {
        self.witnessed.lock().report.clone()
    }
}

impl Engine {
    /// Notes the checkpoint that was kept before the start. Until [`Self::compare_with_checkpoint`] has succeeded, nothing is written.
    pub fn expect_checkpoint(&self, kept: KeptCheckpoint) {
        let mut state = self.0.witnessed.lock();
        let why = "the log has not been compared with the witnessed checkpoint yet";
        state.fault = Some(Unavailable::new(Dependency::Store, why));
        state.kept = Some(kept);
    }

    /// Notes a checkpoint of the present log, which the caller has written to disk.
    pub fn keep_checkpoint(&self, kept: KeptCheckpoint) {
        self.0.witnessed.lock().kept = Some(kept);
    }

    /// Shows a line about the witnesses in readiness.
    pub fn report_witnesses(&self, report: String) {
        self.0.witnessed.lock().report = Some(report);
    }

    /// Compares the log with the kept checkpoint. Returns the reason if it is not consistent with it: until the next call, nothing is
    /// written then.
    ///
    /// # Errors
    /// [`Unavailable`] when the log cannot be read, which changes nothing.
    pub async fn compare_with_checkpoint(&self) -> Result<Option<Unavailable>, Unavailable> {
        let Some(kept) = self.0.witnessed.lock().kept.clone() else { return Ok(None) };
        let size = kept.checkpoint.unverified().size();
        let head = self.0.ports.log.log_head().await?;
        let proof = self.0.ports.log.log_consistency(size, head.size).await?;
        let root = proof.map(|proof| proof.first.root);
        let compared =
            match LogStanding::of(head.size, root, &kept.checkpoint, std::slice::from_ref(self.log_key())) {
                Ok(standing) => fault_of(standing, &kept.checkpoint),
                Err(error) => {
                    Some(Unavailable::new(Dependency::Store, format!("the witnessed checkpoint: {error}")))
                }
            };
        self.0.witnessed.lock().fault.clone_from(&compared);
        Ok(compared)
    }

    /// The newest checkpoint that a quorum of witnesses cosigned, while the log is consistent with it.
    #[must_use]
    pub fn witnessed_checkpoint(&self) -> Option<SignedCheckpoint> {
        let state = self.0.witnessed.lock();
        let kept = state.kept.as_ref().filter(|kept| kept.is_cosigned && state.fault.is_none());
        kept.map(|kept| kept.checkpoint.clone())
    }
}

fn fault_of(standing: LogStanding, kept: &SignedCheckpoint) -> Option<Unavailable> {
    let what = match standing {
        LogStanding::Consistent => return None,
        LogStanding::Behind { ours, signed } => format!(
            "the database is an older copy: its log has {ours} entries, and the witnessed checkpoint {signed}"
        ),
        LogStanding::Forked { size } => format!(
            "the log is another one than that of the witnessed checkpoint: its first {size} entries were changed, or an older copy \
             of the database was continued"
        ),
    };
    let (size, root) = (kept.unverified().size(), kept.unverified().root());
    let action = format!(
        "Restore the newest copy. If there is none, accept the loss with the setting `lost_checkpoint={size}:{root}`"
    );
    Some(Unavailable::new(Dependency::Store, format!("{what}. {action}")))
}
