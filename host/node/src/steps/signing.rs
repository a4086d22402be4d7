//! Signing, by the nonce rule: a pair of nonces makes at most one signature share, over all crashes and restarts. Two shares
//! with the same nonces for different packages would reveal the key share.
//!
//! 1. Open nonces are in memory only: one pair for each operation, limited in number and age.
//! 2. They are made after the decision was verified, and what they may sign is fixed with them.
//! 3. Round two
//!    - a. takes them out of memory,
//!    - b. checks the package against what was fixed; any failure destroys the nonces,
//!    - c. signs,
//!    - d. writes the mark that they are used, with package, share and the entry of the node's log, in one durable transaction that
//!      fails if they were used before,
//!    - e. returns the share.
//! 4. The same package again gets the stored share; another package is refused.
//! 5. A change of the key's epoch drops the open nonces of the key.
//! 6. After a package, another one of the same operation is signed only with the receipt of one of its signers that it discarded that
//!    attempt, or signed another package in it: otherwise two signatures could be made ([`attempts`](crate::steps::attempts)).
//!
//! `// Rule n` marks the code that implements it. A crash before 3d loses nonces whose share never left the node. A crash after
//! 3d loses nothing: the share is on disk.

use crate::admission::gate;
use crate::call::Call;
use crate::error::{
    Code, NodeError, NodeRejection, attempt_superseded, expired, other_decision, other_transition,
    out_of_order, result_refused, session_consumed,
};
use crate::memory::sessions::{Session, Signer, Terms};
use crate::node::Node;
use crate::steps::attempts::Completed;
use crate::store::consumed::{Consume, Used, UsedNonces, decode_package, encode_package};
use crate::store::log;
use crate::store::operation::{AdmittedRequest, View};
use crate::store::vault;
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::canonical::digest_bytes;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::OperationType;
use gateway_domain::node_log::ReleasedShare;
use gateway_domain::operation::{EffectStep, SignatureResult};
use gateway_domain::receipt::{AttemptReceipt, Chain, NodeReceipt, ReceiptKind};
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_sqlite::Connection;
use gateway_threshold::sign::{SigningPackage, commit, verify};
use gateway_threshold::{PublicKeys, ThresholdError, Tweak};
use rand_core::OsRng;

/// A signature share and its receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedShare {
    /// The signature share.
    pub share: Vec<u8>,
    /// The signer's receipt for releasing it, over the package.
    pub receipt: NodeReceipt,
}

/// A node's answer to round one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoundOne {
    /// Commitments to nonces that are open now.
    Committed(Vec<u8>),
    /// The attempt's nonces have already signed this package.
    Consumed {
        /// The package.
        package: SigningPackage,
        /// This node's share.
        signed: SignedShare,
    },
}

impl Node {
    /// Round one (RFC 9591 section 5.1): makes nonces for this attempt and returns their commitments. A repeated call returns
    /// the same commitments, or what the nonces signed since. `discarded` has nodes' receipts for earlier attempts: after it signed
    /// a package, the node signs no other without the receipt of one of its signers that it will not sign it.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::StepOutOfOrder`], [`Code::AdmissionExpired`], [`Code::AdmissionConflict`],
    /// [`Code::EpochConflict`], [`Code::AttemptSuperseded`], [`Code::AttemptNotDiscarded`] or [`Code::OperationDiscarded`];
    /// [`NodeError::Lost`] when the attempt's nonces were destroyed or are too old; [`NodeError::Unavailable`].
    pub async fn signing_commit(
        &self,
        call: &Call,
        discarded: &[AttemptReceipt],
    ) -> Result<RoundOne, NodeError> {
        self.check_running()?;
        let (id, attempt) = (call.effect.operation, call.effect.attempt);
        let mut conn = self.database.readers().at_hand().await?;
        let view = View::load(&mut conn, call.effect, None).await?;
        let admitted = gate::find_admitted(view, call, EffectStep::Execute)?;
        if admitted.statement.decision.operation_type != OperationType::Sign {
            return Err(not_a_signature().into());
        }
        let UsedNonces { of_attempt, latest_attempt } = UsedNonces::load(&mut conn, id, attempt).await?;
        let digest = admitted.statement.decision.request_digest;
        if let Some(used) = of_attempt {
            return self.consumed_answer(&mut conn, call, digest, used).await;
        }
        let chain = self.chain(call);
        let steps = [EffectStep::PolicyReceipt, EffectStep::Execute];
        gate::check_order(call, &admitted, chain.after_receipt()?, &steps)?;
        // Rule 2
        let generation = self.verify_again(&mut conn, &admitted).await?;
        let generation = generation.ok_or_else(not_a_signature)?;
        self.check_decided_since(&admitted.statement.request, &admitted.statement.decision)?;
        gate::check_fence(&admitted.statement)?;
        if latest_attempt > attempt {
            return Err(attempt_superseded().into());
        }
        let now = self.now();
        let session = match self.sessions.find(id, attempt)? {
            Some(session) => session,
            None => {
                // Rule 6
                if latest_attempt > 0
                    && let Some(completed) =
                        Completed::load(&mut conn, id, &admitted.statement.decision).await?
                {
                    completed.check_discarded(&self.config, &chain, discarded)?;
                }
                let key_id = admitted.statement.decision.key_id;
                let keys = self.generations.keys(generation.root, || generation.decode(key_id))?;
                if keys.profile() != call.subject.profile {
                    return Err(
                        out_of_order("the call is for another signature profile than the key's").into()
                    );
                }
                let share =
                    vault::load_share(&mut conn, &self.sealing, key_id, &generation.epoch, &keys).await?;
                let (nonces, commitments) =
                    commit(&share, &mut OsRng).map_err(|error| NodeError::ceremony(&error, None))?;
                let terms = terms(&admitted.statement, chain, latest_attempt)?;
                let session = Session::new(attempt, terms, Signer { nonces, share, keys }, commitments, now);
                self.sessions.open(id, session, now)?
            }
        };
        // A concurrent round two holds the session's lock and may wait for a connection, so this one is returned first.
        drop(conn);
        let is_open = session.signer.lock().await.is_some();
        if is_open && !session.is_stale(now) {
            return Ok(RoundOne::Committed(session.commitments.clone()));
        }
        let mut conn = self.database.readers().at_hand().await?;
        let used = UsedNonces::load(&mut conn, id, attempt).await?.of_attempt.ok_or(NONCES_LOST)?;
        self.consumed_answer(&mut conn, call, digest, used).await
    }

    /// Round two (RFC 9591 section 5.2): signs the package. The share is durable before it is returned; a repeated call with
    /// the same package returns the same share.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::SessionConsumed`] when the attempt signed another package,
    /// [`Code::PackageRefused`] when the package is not what was admitted, or as in [`Self::signing_commit`];
    /// [`NodeError::Lost`] when the nonces were destroyed or are too old; [`NodeError::Unavailable`]. Every error after the
    /// nonces were taken destroys them.
    pub async fn signing_share(
        &self,
        call: &Call,
        package: &SigningPackage,
    ) -> Result<SignedShare, NodeError> {
        self.check_running()?;
        let (id, attempt) = (call.effect.operation, call.effect.attempt);
        let Some(session) = self.sessions.find(id, attempt)? else {
            return self.stored_share(call, package).await;
        };
        let mut slot = session.signer.lock().await;
        // Rule 3a
        let Some(signer) = slot.take() else {
            drop(slot);
            return self.stored_share(call, package).await;
        };
        if session.is_stale(self.now()) {
            return Err(NONCES_LOST);
        }
        let signed = self.sign_once(call, package, &session, signer).await?;
        drop(slot);
        self.sessions.close(id);
        Ok(signed)
    }

    /// Rule 4: the share that was released for this package before.
    async fn stored_share(&self, call: &Call, package: &SigningPackage) -> Result<SignedShare, NodeError> {
        let mut conn = self.database.readers().at_hand().await?;
        let view = View::load(&mut conn, call.effect, None).await?;
        let admitted = gate::find_admitted(view, call, EffectStep::Execute)?;
        match UsedNonces::load(&mut conn, call.effect.operation, call.effect.attempt).await?.of_attempt {
            Some(Used { package_hash, share, .. }) if package_hash == Hex32::new(package.hash()) => {
                let digest = admitted.statement.decision.request_digest;
                let receipt = self.share_receipt(&mut conn, call, digest, package_hash).await?;
                Ok(SignedShare { share, receipt })
            }
            Some(_) => Err(session_consumed().into()),
            None => Err(NONCES_LOST),
        }
    }

    async fn consumed_answer(
        &self,
        conn: &mut Connection,
        call: &Call,
        digest: Hex32,
        used: Used,
    ) -> Result<RoundOne, NodeError> {
        let receipt = self.share_receipt(conn, call, digest, used.package_hash).await?;
        let package = decode_package(&used.package)?;
        Ok(RoundOne::Consumed { package, signed: SignedShare { share: used.share, receipt } })
    }

    /// The receipt for a share that was released before.
    async fn share_receipt(
        &self,
        conn: &mut Connection,
        call: &Call,
        signed_digest: Hex32,
        package_hash: Hex32,
    ) -> Result<NodeReceipt, NodeError> {
        let kind = ReceiptKind::Signed { attempt: call.effect.attempt, signed_digest, package_hash };
        let statement = self.chain(call).statement(&kind)?;
        self.issue_receipt(&statement, log::receipt_index(conn, &statement).await?)
    }

    async fn sign_once(
        &self,
        call: &Call,
        package: &SigningPackage,
        session: &Session,
        signer: Signer,
    ) -> Result<SignedShare, NodeError> {
        // Rule 3b
        check_call(call, &session.terms, self.now())?;
        check_package(package, session, self.participant())?;
        let Signer { nonces, share, keys } = signer;
        // Rule 3c
        let share = nonces.sign(package, &share, &keys).map_err(|error| package_error(&error))?;
        let Terms {
            chain, key_id, epoch_root, completed_attempt, digest: signed_digest, not_before_ms, ..
        } = session.terms;
        let (attempt, package_hash) = (session.attempt, Hex32::new(package.hash()));
        let statement = chain.statement(&ReceiptKind::Signed { attempt, signed_digest, package_hash })?;
        let consume = Consume {
            chain,
            statement: statement.clone(),
            released: ReleasedShare { key_id, signed_digest, package_hash },
            not_before_ms,
            epoch_root,
            attempt,
            completed_attempt,
            commitment_hash: digest_bytes("svc/commitment/v1", &session.commitments),
            package: encode_package(package)?,
            share,
        };
        // Rule 3d
        let (share, log_index) = self.write(consume).await?;
        // Rule 3e
        Ok(SignedShare { share, receipt: self.issue_receipt(&statement, log_index)? })
    }
}

const NONCES_LOST: NodeError = NodeError::lost("the node has no nonces for this attempt");

fn not_a_signature() -> NodeRejection {
    out_of_order("the operation is not a signature")
}

fn terms(statement: &AdmittedRequest, chain: Chain, completed_attempt: u32) -> Result<Terms, NodeError> {
    let decision = &statement.decision;
    Ok(Terms {
        chain,
        key_id: decision.key_id,
        epoch_root: decision.epoch_root,
        completed_attempt,
        digest: decision.request_digest,
        not_before_ms: decision.not_before_ms,
        not_after_ms: decision.not_after_ms,
        tweak: decision.derivation.as_ref().map(|derived| Tweak::new(*derived.tweak.as_bytes())),
        participants: decision.participants.clone(),
        threshold: decision.threshold,
    })
}

/// Checks that the call matches the session and that the decision has not expired. [`Consume`] checks the stored state.
fn check_call(call: &Call, terms: &Terms, now: EpochMs) -> Result<(), NodeError> {
    if call.effect.step != EffectStep::Execute || call.previous != terms.chain.after_receipt()? {
        return Err(other_transition().into());
    }
    if call.admission_hash != terms.chain.admission_hash {
        return Err(other_decision().into());
    }
    if now >= terms.not_after_ms {
        return Err(expired().into());
    }
    Ok(())
}

/// Checks that the package is for the terms that were fixed in round one.
fn check_package(
    package: &SigningPackage,
    session: &Session,
    me: ParticipantIndex,
) -> Result<(), NodeRejection> {
    let terms = &session.terms;
    let signers = &package.commitments;
    let refused = |detail: &str| Err(NodeRejection::new(Code::PackageRefused, detail));
    if package.message != terms.digest.as_bytes() {
        return refused("the package is for another message");
    }
    if package.tweak != terms.tweak {
        return refused("the package is for another derived key");
    }
    if signers.len() < terms.threshold.count() {
        return refused("the package has fewer signers than the threshold");
    }
    if signers.keys().any(|signer| !terms.participants.as_set().contains(&ParticipantIndex(*signer))) {
        return refused("the package has signers that were not admitted");
    }
    if signers.get(&me.0) != Some(&session.commitments) {
        return refused("the package does not contain this node's commitments");
    }
    Ok(())
}

/// The error of a package that cannot be signed: a rejection, with the culprits if the error names any.
fn package_error(error: &ThresholdError) -> NodeError {
    match NodeError::ceremony(error, None) {
        NodeError::Lost { .. } => NodeRejection::new(Code::PackageRefused, error.to_string()).into(),
        named
        @ (NodeError::Rejected(_) | NodeError::Unavailable { .. } | NodeError::BundleUnknown { .. }) => named,
    }
}

/// Checks that the signature is over the admitted digest and verifies under the admitted key or child key.
pub(crate) fn check_result(
    decision: &AdmissionDecision,
    keys: &PublicKeys,
    signature: &SignatureResult,
) -> Result<(), NodeRejection> {
    let public_key_hex = match &decision.derivation {
        Some(child) => child.public_key_hex.clone(),
        None => hex::encode(keys.public_key()),
    };
    if signature.public_key_hex != public_key_hex || signature.signed_digest != decision.request_digest {
        return Err(result_refused("the signature is for another key or over another digest"));
    }
    let decode =
        |text: &str| hex::decode(text).map_err(|_| result_refused("the signature is not hexadecimal"));
    let (public_key, bytes) = (decode(&public_key_hex)?, decode(&signature.signature_hex)?);
    verify(keys.profile(), &public_key, signature.signed_digest.as_bytes(), &bytes)
        .map_err(|_| result_refused("the signature does not verify"))
}
