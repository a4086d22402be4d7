//! This node's contribution to the recovery of another participant's share: its content id, which a client asks for before it
//! submits the recovery.

use crate::error::{Code, NodeError, NodeRejection, Stop, package_refused};
use crate::node::Node;
use crate::store::vault;
use gateway_domain::canonical::CanonicalError;
use gateway_domain::contribution::{self, HelperAdmission, PAYLOAD_TYPE, RecoveryCase};
use gateway_domain::ids::Hex32;
use gateway_domain::intent::{FixedContributions, Recover};
use gateway_domain::receipt::Signature;
use gateway_threshold::{KeyShare, PublicKeys, repair};

impl Node {
    /// What this node would contribute to a recovery: the content id, and the node's signature. The contribution reveals nothing, so
    /// it needs no admission; the values are made again when the recovery is executed.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::EpochConflict`] when the node's share is of another epoch, and with
    /// [`Code::PackageRefused`] when it is no helper of the case; [`NodeError::Unavailable`] when the store failed.
    pub async fn contribution(&self, case: &RecoveryCase) -> Result<HelperAdmission, NodeError> {
        self.check_running()?;
        let (keys, share) = self.load_share_of(case).await?;
        let public = public_case(case, keys)?;
        // With 64 participants this computes for milliseconds, which must not block an async worker thread.
        let made = tokio::task::spawn_blocking(move || public.contribution(&share)).await;
        let made = made.map_err(|_| NodeError::unavailable("the node could not compute its contribution"))?;
        let cid = Hex32::new(made.map_err(|error| package_refused(error.to_string()))?);
        let participant = self.participant();
        let payload = contribution::statement(case, participant, cid)?;
        let signature = Signature::new(self.secret.sign_statement(PAYLOAD_TYPE, &payload));
        Ok(HelperAdmission { participant, cid, signature })
    }

    async fn load_share_of(&self, case: &RecoveryCase) -> Result<(PublicKeys, KeyShare), Stop> {
        let mut conn = self.database.readers().at_hand().await?;
        let active = vault::load_active(&mut conn, case.key_id).await?;
        let Some(active) = active.filter(|active| active.root == case.epoch_root) else {
            let detail = "the node holds no share of the key in this epoch";
            return Err(NodeRejection::new(Code::EpochConflict, detail).into());
        };
        let keys = self.generations.keys(active.root, || active.decode(case.key_id))?;
        let share = vault::load_share(&mut conn, &self.sealing, case.key_id, &active.epoch, &keys).await?;
        Ok(((*keys).clone(), share))
    }
}

/// The case as the protocol has it.
pub fn public_case(case: &RecoveryCase, keys: PublicKeys) -> Result<repair::Case, CanonicalError> {
    Ok(repair::Case {
        keys,
        target: case.recovering_participant.0,
        helpers: case.helper_participants.iter().map(|helper| helper.0).collect(),
        reference: *case.reference()?.as_bytes(),
    })
}

/// The contributions that an admitted intent fixes, as the protocol has them.
#[must_use]
pub fn admitted_contributions(recover: &Recover) -> repair::Admitted {
    let FixedContributions { cids, root } = recover.fixed_contributions();
    let contributions = cids.iter().map(|cid| *cid.as_bytes()).collect();
    repair::Admitted { contributions, root: root.map(|root| *root.as_bytes()) }
}
