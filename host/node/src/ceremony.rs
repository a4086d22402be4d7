//! Making shares: this node's side of the ceremony, from its first message to a staged share.
//!
//! New, refreshed, redistributed and repaired shares take the same path; `part` has the differences. A ceremony is in memory.
//! Its start is on disk, so that no attempt begins twice: a ceremony id must never be used again. After a restart an attempt
//! has either staged its share or is lost.

use crate::call::{Call, CeremonyStart, ceremony_id};
use crate::error::{NodeError, Stop};
use crate::gate;
use crate::limits::{CEREMONIES_MAX, CEREMONY_TTL_MS};
use crate::node::{Node, Transact};
use crate::part::{Part, target};
use crate::row::{self, Statement, View};
use crate::row_hash;
use crate::sealing::Sealing;
use crate::sessions::superseded;
use crate::vault::{self, Fresh};
use gateway_domain::admission::Target;
use gateway_domain::ids::{Hex32, OperationId};
use gateway_domain::intent::OperationType;
use gateway_domain::key::epoch_root;
use gateway_domain::operation::{EffectId, EffectStep};
use gateway_domain::receipt::{Chain, NodeReceipt, ReceiptKind};
use gateway_domain::time::EpochMs;
use gateway_seal::relay::Envelope;
use gateway_threshold::{KeyShare, Message, Output, Progress, PublicKeys, Session};
use sqlx::SqliteConnection;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A node's answer in a ceremony.
#[derive(Debug)]
pub enum CeremonyAnswer {
    /// Messages for the other participants; empty while this node waits for theirs.
    Send(Vec<Envelope>),
    /// The share, if the node gets one, is staged durably.
    Staged {
        /// The public keys of the new generation.
        keys: Box<PublicKeys>,
        /// The node's receipt for the staged share.
        receipt: NodeReceipt,
    },
}

/// One attempt at a ceremony. The session is taken out while it computes.
pub(crate) struct Ceremony {
    attempt: u32,
    /// The ceremony id in every message.
    id: [u8; 32],
    opened_at: EpochMs,
    session: tokio::sync::Mutex<Option<Box<Session>>>,
}

/// The ceremonies of a node, by operation.
#[derive(Default)]
pub(crate) struct Ceremonies(Mutex<BTreeMap<OperationId, Arc<Ceremony>>>);

impl Ceremonies {
    /// Checked before an attempt is recorded as begun, so that a busy node uses up no attempts.
    fn has_room(&self, id: OperationId, now: EpochMs) -> Result<(), NodeError> {
        let mut open = self.lock();
        open.retain(|_, other| now.0.saturating_sub(other.opened_at.0) <= CEREMONY_TTL_MS);
        if open.len() >= CEREMONIES_MAX && !open.contains_key(&id) {
            return Err(NodeError::unavailable("the node has too many ceremonies in progress"));
        }
        Ok(())
    }

    fn open(&self, id: OperationId, ceremony: Ceremony) {
        self.lock().insert(id, Arc::new(ceremony));
    }

    fn find(&self, id: OperationId, attempt: u32) -> Option<Arc<Ceremony>> {
        self.lock().get(&id).filter(|ceremony| ceremony.attempt == attempt).cloned()
    }

    pub(crate) fn close(&self, id: OperationId) {
        self.lock().remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<OperationId, Arc<Ceremony>>> {
        // Nothing that holds the lock can leave the map half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const GONE: NodeError = NodeError::Lost { reason: "the ceremony of this attempt is gone" };

impl Node {
    /// Begins this attempt, or returns the share that it staged before.
    ///
    /// # Errors
    /// [`NodeError::Lost`] when the attempt was begun before; [`NodeError::Rejected`] with
    /// [`Code::PackageRefused`](crate::Code::PackageRefused) when `start` does not fit what was admitted, otherwise, and
    /// [`NodeError::Unavailable`], as in [`Self::signing_commit`].
    pub async fn ceremony_start(
        &self,
        call: &Call,
        start: &CeremonyStart,
    ) -> Result<CeremonyAnswer, NodeError> {
        let (id, attempt) = (call.effect.operation, call.effect.attempt);
        let mut conn = self.database.reader().acquire().await?;
        let view = View::load(&mut conn, call.effect, None).await?;
        let standing = gate::known(view, call, EffectStep::Execute)?;
        let made = target(&standing.statement.decision)?;
        if let Some(answer) = self.staged_before(&mut conn, call, made).await? {
            return Ok(answer);
        }
        let (previous, steps) =
            (self.chain(call).after_receipt()?, [EffectStep::PolicyReceipt, EffectStep::Execute]);
        gate::in_order(call, &standing, previous, &steps)?;
        gate::in_force(&self.config, &standing)?;
        self.ceremonies.has_room(id, self.now())?;
        let ceremony_id = ceremony_id(call, start)?;
        let part = self.take_part(&mut conn, ceremony_id, &standing, start).await?;
        drop(conn);
        self.write(Begin { id, attempt }).await?;
        match part {
            Part::Sends(session, messages) => {
                let session = tokio::sync::Mutex::new(Some(session));
                let mail = self.seal_mail(ceremony_id, messages)?;
                let ceremony = Ceremony { attempt, id: ceremony_id, opened_at: self.now(), session };
                self.ceremonies.open(id, ceremony);
                Ok(CeremonyAnswer::Send(mail))
            }
            Part::Keeps(share, keys) => self.stage(call, made, Some(&share), (*keys).clone()).await,
        }
    }

    /// Takes messages of other participants from the relay.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with `CeremonyMisbehaviour` and the culprits, or with `RelayMisbehaviour`;
    /// [`NodeError::Lost`] when there is no such ceremony, or it failed and no participant is to blame;
    /// [`NodeError::Unavailable`] when the share could not be staged.
    pub async fn ceremony_deliver(
        &self,
        call: &Call,
        mail: &[Envelope],
    ) -> Result<CeremonyAnswer, NodeError> {
        let (id, attempt) = (call.effect.operation, call.effect.attempt);
        let mut conn = self.database.reader().acquire().await?;
        let view = View::load(&mut conn, call.effect, None).await?;
        let statement = gate::known(view, call, EffectStep::Execute)?.statement;
        let made = target(&statement.decision)?;
        if let Some(answer) = self.staged_before(&mut conn, call, made).await? {
            return Ok(answer);
        }
        drop(conn);
        let ceremony = self.ceremonies.find(id, attempt).ok_or(GONE)?;
        let mut slot = ceremony.session.lock().await;
        // A ceremony that cannot continue ends now, so that the other participants need not wait for its timeout.
        let opened = self.open_mail(&ceremony.id, mail);
        let messages = opened.inspect_err(|_| self.ceremonies.close(id))?;
        let session = slot.take().ok_or(GONE)?;
        // The points of 64 participants take seconds: they must not block an async worker thread.
        let handled = tokio::task::spawn_blocking(move || handle(session, messages)).await;
        let handled = handled.unwrap_or(Err(GONE));
        // A failed ceremony is removed, and makes room.
        let (session, handled) = handled.inspect_err(|_| self.ceremonies.close(id))?;
        match handled {
            Handled::Send(messages) => {
                let mail = self.seal_mail(ceremony.id, messages)?;
                *slot = Some(session);
                Ok(CeremonyAnswer::Send(mail))
            }
            Handled::Done(output) => {
                let Output { share, keys, .. } = *output;
                let kept = self.kept(&statement, share, &keys).await?;
                let staged = self.stage(call, made, kept.as_ref(), keys).await?;
                self.ceremonies.close(id);
                Ok(staged)
            }
        }
    }

    /// The share that this node will hold: the protocol's output, or its present share if it only helped another node.
    async fn kept(
        &self,
        statement: &Statement,
        given: Option<KeyShare>,
        keys: &PublicKeys,
    ) -> Result<Option<KeyShare>, NodeError> {
        let decision = &statement.decision;
        let helped = decision.operation_type == OperationType::Recover;
        if given.is_some() || !helped {
            return Ok(given);
        }
        let mut conn = self.database.reader().acquire().await?;
        Ok(Some(vault::secret(&mut conn, &self.sealing, decision.key_id, &decision.epoch, keys).await?))
    }

    /// Stages the share and records the step. A node that leaves the roster only records the step.
    async fn stage(
        &self,
        call: &Call,
        made: &Target,
        share: Option<&KeyShare>,
        keys: PublicKeys,
    ) -> Result<CeremonyAnswer, NodeError> {
        let public_keys = keys.to_bytes();
        let root = epoch_root(made.key_id, &made.epoch, &hex::encode(&public_keys))?;
        let fresh = share.map(|share| Fresh {
            key_id: made.key_id,
            epoch: made.epoch.clone(),
            operation_id: call.effect.operation,
            attempt: call.effect.attempt,
            root,
            public_keys,
            secret: share.to_secret_bytes(),
        });
        let (chain, sealing) = (self.chain(call), self.sealing.clone());
        self.write(StageShare { effect: call.effect, chain, sealing, fresh }).await?;
        self.staged(call, keys, root)
    }

    /// The answer of an attempt that has staged its share.
    async fn staged_before(
        &self,
        conn: &mut SqliteConnection,
        call: &Call,
        made: &Target,
    ) -> Result<Option<CeremonyAnswer>, NodeError> {
        let held = vault::staged(conn, call.effect.operation, call.effect.attempt).await?;
        held.map(|held| self.staged(call, held.decode(made.key_id)?, held.root)).transpose()
    }

    fn staged(&self, call: &Call, keys: PublicKeys, epoch_root: Hex32) -> Result<CeremonyAnswer, NodeError> {
        let kind = ReceiptKind::Staged { attempt: call.effect.attempt, epoch_root };
        let receipt = self.receipt(&self.chain(call), &kind)?;
        Ok(CeremonyAnswer::Staged { keys: Box::new(keys), receipt })
    }
}

/// The result of a batch of messages.
enum Handled {
    Send(Vec<Message>),
    Done(Box<Output>),
}

/// An error drops the session and its secrets.
fn handle(mut session: Box<Session>, messages: Vec<Message>) -> Result<(Box<Session>, Handled), NodeError> {
    let mut send = Vec::new();
    for message in messages {
        match session.handle(message).map_err(|error| NodeError::ceremony(&error))? {
            Progress::Wait => {}
            Progress::Send(messages) => send.extend(messages),
            // The last messages for others go out a turn before. A relay that mixes up the turns loses the attempt.
            Progress::Done { send: more, output } if send.is_empty() && more.is_empty() => {
                return Ok((session, Handled::Done(output)));
            }
            Progress::Done { .. } => return Err(GONE),
        }
    }
    Ok((session, Handled::Send(send)))
}

/// Records that an attempt has begun. Fails if it had begun before.
struct Begin {
    id: OperationId,
    attempt: u32,
}

impl Transact for Begin {
    type Output = ();

    async fn run(&self, conn: &mut SqliteConnection) -> Result<(), Stop> {
        let sql = "SELECT attempt FROM ceremony WHERE operation_id = ?1";
        let latest: Option<u32> =
            sqlx::query_scalar(sql).bind(self.id.to_string()).fetch_optional(&mut *conn).await?;
        match latest {
            Some(latest) if latest > self.attempt => return Err(superseded().into()),
            Some(latest) if latest == self.attempt => return Err(GONE.into()),
            Some(_) | None => {}
        }
        let id = self.id.to_string();
        sqlx::query(
            "INSERT INTO ceremony (operation_id, attempt, row_hash) VALUES (?1, ?2, ?3) \
             ON CONFLICT (operation_id) DO UPDATE SET attempt = excluded.attempt, row_hash = excluded.row_hash",
        )
        .bind(&id)
        .bind(self.attempt)
        .bind(row_hash::ceremony(&id, self.attempt)?.to_string())
        .execute(conn)
        .await?;
        Ok(())
    }
}

/// Stages the share that the ceremony produced, and records the step.
struct StageShare {
    effect: EffectId,
    chain: Chain,
    sealing: Sealing,
    /// None for a node that leaves the roster.
    fresh: Option<Fresh>,
}

impl Transact for StageShare {
    type Output = ();

    async fn run(&self, conn: &mut SqliteConnection) -> Result<(), Stop> {
        let last_step = View::load(conn, self.effect, None).await?.row.map(|row| row.last_step);
        if !matches!(last_step, Some(EffectStep::PolicyReceipt | EffectStep::Execute)) {
            return Err(gate::out_of_order("the operation made another step during the ceremony").into());
        }
        if let Some(fresh) = &self.fresh {
            vault::stage(conn, &self.sealing, fresh).await?;
        }
        let head = self.chain.after_execute(self.effect.attempt)?;
        row::advance(conn, self.effect.operation, EffectStep::Execute, head).await
    }
}
