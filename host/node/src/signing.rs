//! Signing, by the nonce rule of threshold.md 7: for every pair of nonces at most one share ever leaves the node, over
//! all crashes and restarts. `// Rule 7.n` marks where each line of it is kept.
//!
//! A crash between the rounds loses nonces that signed nothing. A crash after the mark is on disk loses nothing: the
//! share is stored with it, and only for its own package.

use crate::call::Call;
use crate::error::{Code, NodeError, Rejection, Stop, answer};
use crate::gate;
use crate::judge::epoch_conflict;
use crate::node::Node;
use crate::package;
use crate::row::{Stage, Statement, View, parse};
use crate::row_hash;
use crate::sessions::{Session, Signer, Terms, superseded};
use crate::vault;
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::canonical::digest_bytes;
use gateway_domain::ids::{Hex32, KeyId, OperationId};
use gateway_domain::operation::{EffectStep, SignatureResult};
use gateway_domain::receipt::{Chain, NodeReceipt, ReceiptKind};
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_sqlite::Job;
use gateway_threshold::sign::{SigningPackage, commit, verify};
use gateway_threshold::{PublicKeys, ThresholdError, Tweak};
use rand_core::OsRng;
use sqlx::{Row as _, SqliteConnection};

/// A share with the word of its giver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedShare {
    /// The signature share.
    pub share: Vec<u8>,
    /// That it was released, and for which package.
    pub receipt: NodeReceipt,
}

/// A node's answer to round one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoundOne {
    /// Commitments to nonces that are open now.
    Committed(Vec<u8>),
    /// The attempt's nonces signed this package, and this is the share: whoever has all shares of the package has the
    /// signature.
    Consumed {
        /// What was signed.
        package: SigningPackage,
        /// This node's share.
        signed: SignedShare,
    },
}

impl Node {
    /// Round one (RFC 9591 section 5.1): fresh nonces for this attempt, or the same commitments again while they are
    /// open.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::StepOutOfOrder`], [`Code::AdmissionExpired`], [`Code::AdmissionConflict`],
    /// [`Code::EpochConflict`], [`Code::AttemptSuperseded`] or [`Code::OperationDiscarded`]; [`NodeError::Lost`] when
    /// the attempt's nonces were spent or are too old; [`NodeError::Unavailable`].
    pub async fn signing_commit(&self, call: &Call) -> Result<RoundOne, NodeError> {
        let (id, attempt) = (call.effect.operation, call.effect.attempt);
        let mut conn = self.database.reader().acquire().await?;
        let view = View::load(&mut conn, call.effect, None).await?;
        let standing = gate::known(view, call, EffectStep::Execute)?;
        let Spent { used, latest_attempt } = Spent::load(&mut conn, id, attempt).await?;
        let digest = standing.statement.decision.request_digest;
        if let Some(used) = used {
            return self.spent_before(call, digest, used);
        }
        let chain = self.chain(call);
        gate::in_order(call, &standing, chain.after_receipt()?, &[Stage::Receipted, Stage::Executed])?;
        // Rule 7.2: the decision is verified and everything is fixed before the nonces exist.
        let held = gate::in_force(&self.config, &standing)?;
        let held = held.ok_or_else(|| gate::out_of_order("the operation does not sign"))?;
        gate::check_fence(&standing.statement)?;
        if latest_attempt > attempt {
            return Err(superseded().into());
        }
        let now = self.now();
        let session = match self.sessions.find(id, attempt)? {
            Some(session) => session,
            None => {
                let key_id = standing.statement.decision.key_id;
                let keys = self.generations.keys(held.root, || held.decode(key_id))?;
                let share = vault::secret(&mut conn, &self.sealing, key_id, &held.epoch, &keys).await?;
                let (nonces, commitments) =
                    commit(&share, &mut OsRng).map_err(|error| NodeError::ceremony(&error))?;
                let terms = terms(&standing.statement, chain)?;
                let session = Session::new(attempt, terms, Signer { nonces, share, keys }, commitments, now);
                self.sessions.open(id, session, now)?
            }
        };
        // Waits for a round two at work, which needs a connection and may have signed in the meantime.
        drop(conn);
        let is_open = session.signer.lock().await.is_some();
        if is_open && !session.is_stale(now) {
            return Ok(RoundOne::Committed(session.commitments.clone()));
        }
        let mut conn = self.database.reader().acquire().await?;
        let used = Spent::load(&mut conn, id, attempt).await?.used.ok_or(GONE)?;
        self.spent_before(call, digest, used)
    }

    /// Round two (RFC 9591 section 5.2): this node's share of the package, durable before it is returned. The same
    /// package again gets the same share.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with [`Code::SessionConsumed`] when the attempt signed another package,
    /// [`Code::PackageRefused`] when this one is not what was admitted, or as in [`Self::signing_commit`];
    /// [`NodeError::Lost`] when the nonces are gone; [`NodeError::Unavailable`]. The nonces are gone in every case.
    pub async fn signing_share(
        &self,
        call: &Call,
        package: &SigningPackage,
    ) -> Result<SignedShare, NodeError> {
        let (id, attempt) = (call.effect.operation, call.effect.attempt);
        let Some(session) = self.sessions.find(id, attempt)? else {
            return self.share_of(call, package).await;
        };
        let mut slot = session.signer.lock().await;
        // Rule 7.3a: out of the map first, and never back.
        let Some(signer) = slot.take() else {
            drop(slot);
            return self.share_of(call, package).await;
        };
        if session.is_stale(self.now()) {
            return Err(GONE);
        }
        let share = self.sign_once(call, package, &session, signer).await?;
        drop(slot);
        self.sessions.close(id);
        let receipt = self.share_receipt(call, session.terms.digest, Hex32::new(package.hash()))?;
        Ok(SignedShare { share, receipt })
    }

    /// The share given for this package before.
    async fn share_of(&self, call: &Call, package: &SigningPackage) -> Result<SignedShare, NodeError> {
        let mut conn = self.database.reader().acquire().await?;
        let view = View::load(&mut conn, call.effect, None).await?;
        let standing = gate::known(view, call, EffectStep::Execute)?;
        match Spent::load(&mut conn, call.effect.operation, call.effect.attempt).await?.used {
            Some(Used { package_hash, share, .. }) if package_hash == Hex32::new(package.hash()) => {
                let digest = standing.statement.decision.request_digest;
                Ok(SignedShare { share, receipt: self.share_receipt(call, digest, package_hash)? })
            }
            Some(_) => Err(consumed().into()),
            None => Err(GONE),
        }
    }

    /// What the attempt's nonces were spent on.
    fn spent_before(&self, call: &Call, digest: Hex32, used: Used) -> Result<RoundOne, NodeError> {
        let receipt = self.share_receipt(call, digest, used.package_hash)?;
        let package = package::decode(&used.package)?;
        Ok(RoundOne::Consumed { package, signed: SignedShare { share: used.share, receipt } })
    }

    /// The word that the share of this package was released. It is on disk with the share, as all that it follows from.
    fn share_receipt(
        &self,
        call: &Call,
        signed_digest: Hex32,
        package_hash: Hex32,
    ) -> Result<NodeReceipt, NodeError> {
        let attempt = call.effect.attempt;
        self.receipt(&self.chain(call), &ReceiptKind::Signed { attempt, signed_digest, package_hash })
    }

    async fn sign_once(
        &self,
        call: &Call,
        package: &SigningPackage,
        session: &Session,
        signer: Signer,
    ) -> Result<Vec<u8>, NodeError> {
        // Rule 7.3b: whatever fails from here on has burnt the nonces.
        check_call(call, &session.terms, self.now())?;
        check_package(package, session, self.participant())?;
        let Signer { nonces, share, keys } = signer;
        let share = nonces.sign(package, &share, &keys).map_err(|error| refused_package(&error))?;
        // Rules 7.3c to 7.3e: mark, package and share are on disk before the share leaves.
        let mark = Consume {
            chain: session.terms.chain,
            key_id: session.terms.key_id,
            epoch_root: session.terms.epoch_root,
            attempt: session.attempt,
            commitment_hash: digest_bytes("svc/commitment/v1", &session.commitments),
            package_hash: Hex32::new(package.hash()),
            package: package::encode(package)?,
            share,
        };
        // Rule 7.3f
        self.database.write(mark).await?
    }

    pub(crate) fn chain(&self, call: &Call) -> Chain {
        self.chain_of(call.effect.operation, call.admission_hash)
    }

    pub(crate) fn chain_of(&self, operation_id: OperationId, admission_hash: Hex32) -> Chain {
        Chain { admission_hash, operation_id, participant: self.config.participant }
    }
}

const GONE: NodeError = NodeError::Lost { reason: "the nonces of this attempt are gone" };

fn consumed() -> Rejection {
    Rejection::new(Code::SessionConsumed, "the nonces of this attempt signed another package")
}

fn terms(statement: &Statement, chain: Chain) -> Result<Terms, NodeError> {
    let decision = &statement.decision;
    let tweak = decision.derivation.as_ref().map(|child| Tweak::from_bytes(*child.tweak.as_bytes()));
    Ok(Terms {
        chain,
        key_id: decision.key_id,
        epoch_root: decision.epoch_root,
        digest: decision.request_digest,
        not_after_ms: decision.not_after_ms,
        tweak: tweak.transpose().map_err(NodeError::damaged)?,
        participants: decision.participants.clone(),
        threshold: decision.threshold,
    })
}

/// The call is still the one of round one, and in time. What the store has to say of it, [`Consume`] asks.
fn check_call(call: &Call, terms: &Terms, now: EpochMs) -> Result<(), NodeError> {
    if call.effect.step != EffectStep::Execute || call.previous != terms.chain.after_receipt()? {
        return Err(gate::out_of_order("the step follows another transition").into());
    }
    if call.admission_hash != terms.chain.admission_hash {
        return Err(gate::other_decision().into());
    }
    if now >= terms.not_after_ms {
        return Err(gate::expired().into());
    }
    Ok(())
}

/// The package asks for what was fixed in round one and nothing else.
fn check_package(package: &SigningPackage, session: &Session, me: ParticipantIndex) -> Result<(), Rejection> {
    let terms = &session.terms;
    let signers = &package.commitments;
    let refused = |detail: &str| Err(Rejection::new(Code::PackageRefused, detail));
    if package.message != terms.digest.as_bytes() {
        return refused("the package is over another message");
    }
    if package.tweak != terms.tweak {
        return refused("the package is for another child key");
    }
    if signers.len() < terms.threshold.count() {
        return refused("the package has fewer signers than the threshold");
    }
    if signers.keys().any(|signer| !terms.participants.as_set().contains(&ParticipantIndex(*signer))) {
        return refused("the package has signers that were not admitted");
    }
    if signers.get(&me.0) != Some(&session.commitments) {
        return refused("the package does not have this node's commitments");
    }
    Ok(())
}

fn refused_package(error: &ThresholdError) -> NodeError {
    match NodeError::ceremony(error) {
        NodeError::Lost { .. } => Rejection::new(Code::PackageRefused, error.to_string()).into(),
        named @ (NodeError::Rejected(_) | NodeError::Unavailable { .. }) => named,
    }
}

/// A signature is the operation's: over the admitted digest, under the admitted key or its admitted child.
pub(crate) fn check_result(
    decision: &AdmissionDecision,
    keys: &PublicKeys,
    signature: &SignatureResult,
) -> Result<(), Rejection> {
    let public_key_hex = match &decision.derivation {
        Some(child) => child.public_key_hex.clone(),
        None => hex::encode(keys.public_key()),
    };
    if signature.public_key_hex != public_key_hex || signature.signed_digest != decision.request_digest {
        return Err(result_refused("the signature is of another key or over another digest"));
    }
    let decode =
        |text: &str| hex::decode(text).map_err(|_| result_refused("the signature is not hexadecimal"));
    let (public_key, bytes) = (decode(&public_key_hex)?, decode(&signature.signature_hex)?);
    verify(keys.profile(), &public_key, signature.signed_digest.as_bytes(), &bytes)
        .map_err(|_| result_refused("the signature does not verify"))
}

pub(crate) fn result_refused(detail: &'static str) -> Rejection {
    Rejection::new(Code::ResultRefused, detail)
}

/// Nonces that signed.
struct Used {
    package_hash: Hex32,
    package: String,
    share: Vec<u8>,
}

/// What an operation's nonces were spent on.
struct Spent {
    /// Those of the attempt asked for.
    used: Option<Used>,
    /// The highest attempt that signed, or 0.
    latest_attempt: u32,
}

impl Spent {
    async fn load(conn: &mut SqliteConnection, id: OperationId, attempt: u32) -> Result<Self, Stop> {
        let sql = "SELECT (SELECT coalesce(max(attempt), 0) FROM consumed WHERE operation_id = ?1) AS latest, \
                   c.package_hash, c.package, c.share \
                   FROM (SELECT 1) LEFT JOIN consumed c ON c.operation_id = ?1 AND c.attempt = ?2";
        let row = sqlx::query(sql).bind(id.to_string()).bind(attempt).fetch_one(conn).await?;
        let latest_attempt = row.try_get("latest")?;
        let Some(package_hash) = row.try_get::<Option<&str>, _>("package_hash")? else {
            return Ok(Self { used: None, latest_attempt });
        };
        let (package, share) = (row.try_get("package")?, row.try_get("share")?);
        Ok(Self { used: Some(Used { package_hash: parse(package_hash)?, package, share }), latest_attempt })
    }
}

/// Marks nonces as used and keeps what they signed. The only way to a share: it is the output of this job.
pub(crate) struct Consume {
    pub(crate) chain: Chain,
    pub(crate) key_id: KeyId,
    pub(crate) epoch_root: Hex32,
    pub(crate) attempt: u32,
    pub(crate) commitment_hash: Hex32,
    pub(crate) package_hash: Hex32,
    pub(crate) package: String,
    pub(crate) share: Vec<u8>,
}

impl Consume {
    pub(crate) async fn run(&self, conn: &mut SqliteConnection) -> Result<Vec<u8>, Stop> {
        self.check(conn).await?;
        let sql = "INSERT INTO consumed \
                   (operation_id, attempt, commitment_hash, package_hash, package, share, row_hash) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?9);\n\
                   UPDATE operation SET stage = ?7, head = ?8 WHERE operation_id = ?1";
        let operation_id = self.chain.operation_id.to_string();
        let (commitment_hash, package_hash) =
            (self.commitment_hash.to_string(), self.package_hash.to_string());
        let row = row_hash::Consumed {
            operation_id: &operation_id,
            attempt: self.attempt,
            commitment_hash: &commitment_hash,
            package_hash: &package_hash,
            package: &self.package,
            share: &hex::encode(&self.share),
        };
        let row_hash = row.hash()?.to_string();
        sqlx::query(sql)
            .bind(&operation_id)
            .bind(self.attempt)
            .bind(&commitment_hash)
            .bind(&package_hash)
            .bind(&self.package)
            .bind(self.share.as_slice())
            .bind(Stage::Executed.as_str())
            .bind(self.chain.after_execute(self.attempt)?.to_string())
            .bind(row_hash)
            .execute(conn)
            .await?;
        Ok(self.share.clone())
    }

    /// Nothing has changed since round one, and neither the nonces nor the attempt were ever used.
    async fn check(&self, conn: &mut SqliteConnection) -> Result<(), Stop> {
        let sql = "SELECT (SELECT stage FROM operation WHERE operation_id = ?1), \
                   (SELECT epoch_root FROM share WHERE key_id = ?2 AND state = 'active'), \
                   (SELECT coalesce(max(attempt), 0) FROM consumed WHERE operation_id = ?1), \
                   EXISTS (SELECT 1 FROM consumed \
                           WHERE commitment_hash = ?3 OR (operation_id = ?1 AND attempt = ?4))";
        let row = sqlx::query(sql)
            .bind(self.chain.operation_id.to_string())
            .bind(self.key_id.to_string())
            .bind(self.commitment_hash.to_string())
            .bind(self.attempt)
            .fetch_one(conn)
            .await?;
        let stage: Option<&str> = row.try_get(0)?;
        if ![Stage::Receipted, Stage::Executed].into_iter().any(|may| Some(may.as_str()) == stage) {
            return Err(gate::out_of_order("the operation moved on while it was signed").into());
        }
        let root: Option<&str> = row.try_get(1)?;
        if root.is_none_or(|root| root != self.epoch_root.to_string()) {
            return Err(epoch_conflict("the key changed its epoch between the rounds").into());
        }
        if row.try_get::<u32, _>(2)? > self.attempt {
            return Err(superseded().into());
        }
        if row.try_get(3)? { Err(consumed().into()) } else { Ok(()) }
    }
}

impl Job for Consume {
    type State = ();
    type Output = Result<Vec<u8>, NodeError>;

    async fn apply(&self, conn: &mut SqliteConnection, (): &mut ()) -> Result<Self::Output, sqlx::Error> {
        answer(self.run(conn).await)
    }
}
