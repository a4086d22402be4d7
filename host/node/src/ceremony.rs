//! Making shares: this node's side of the ceremony, from its first message to a staged share.
//!
//! One way for new keys, refreshed, redistributed and repaired shares; what differs is in `part`. A ceremony lives in
//! memory; that it was begun is on disk, so that no attempt is ever begun twice (a repeated attempt needs a new ceremony
//! id). After a restart an attempt either has its share staged or is lost.

use crate::call::{Call, CeremonyStart, ceremony_id};
use crate::error::{NodeError, Stop, answer};
use crate::gate;
use crate::limits::{CEREMONIES_MAX, CEREMONY_TTL_MS};
use crate::node::Node;
use crate::part::{Part, target};
use crate::row::{self, Stage, Statement, View};
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
use gateway_sqlite::Job;
use gateway_threshold::{KeyShare, Message, Output, Progress, PublicKeys, Session};
use sqlx::SqliteConnection;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a node is in a ceremony.
#[derive(Debug)]
pub enum CeremonyAnswer {
    /// These are for the other participants; none means that they must speak first.
    Send(Vec<Envelope>),
    /// The share, if the node is to have one, is staged, durably.
    Staged {
        /// The public keys of the generation that it is of.
        keys: Box<PublicKeys>,
        /// The node's word for that.
        receipt: NodeReceipt,
    },
}

/// One attempt at one key. The session is taken out while it computes.
pub(crate) struct Ceremony {
    attempt: u32,
    /// Names it in every message.
    id: [u8; 32],
    opened_at: EpochMs,
    session: tokio::sync::Mutex<Option<Box<Session>>>,
}

/// The ceremonies of a node, by operation.
#[derive(Default)]
pub(crate) struct Ceremonies(Mutex<BTreeMap<OperationId, Arc<Ceremony>>>);

impl Ceremonies {
    /// Asked before an attempt is recorded as begun: a node that is only busy must not use attempts up.
    fn has_room(&self, id: OperationId, now: EpochMs) -> Result<(), NodeError> {
        let mut open = self.lock();
        open.retain(|_, other| now.0.saturating_sub(other.opened_at.0) <= CEREMONY_TTL_MS);
        if open.len() >= CEREMONIES_MAX && !open.contains_key(&id) {
            return Err(NodeError::unavailable("the node has too many ceremonies at once"));
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
    /// Begins this attempt, or answers with what it staged.
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
        let previous = self.chain(call).after_receipt()?;
        gate::in_order(call, &standing, previous, &[Stage::Receipted, Stage::Executed])?;
        gate::in_force(&self.config, &standing)?;
        self.ceremonies.has_room(id, self.now())?;
        let ceremony_id = ceremony_id(call, start)?;
        let part = self.take_part(&mut conn, ceremony_id, &standing, start).await?;
        drop(conn);
        self.database.write(Begin { id, attempt }).await??;
        match part {
            Part::Speaks(session, messages) => {
                let session = tokio::sync::Mutex::new(Some(session));
                let mail = self.seal_mail(ceremony_id, messages)?;
                let ceremony = Ceremony { attempt, id: ceremony_id, opened_at: self.now(), session };
                self.ceremonies.open(id, ceremony);
                Ok(CeremonyAnswer::Send(mail))
            }
            Part::Carries(share, keys) => self.stage(call, made, Some(&share), (*keys).clone()).await,
        }
    }

    /// Takes messages of other participants, as the relay carries them.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with `CeremonyMisbehaviour` and the culprits, or with `RelayMisbehaviour`;
    /// [`NodeError::Lost`] when there is no such ceremony or it failed without anybody to blame;
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
        // The other participants are not to wait for one that can not go on.
        let opened = self.open_mail(&ceremony.id, mail);
        let messages = opened.inspect_err(|_| self.ceremonies.close(id))?;
        let session = slot.take().ok_or(GONE)?;
        // Points of 64 participants are seconds of work: not on a thread that serves others.
        let handled = tokio::task::spawn_blocking(move || handle(session, messages)).await;
        let handled = handled.unwrap_or(Err(GONE));
        // A ceremony that failed is over, and makes room.
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

    /// What this node will hold: what the protocol gave it, or what it had when it only helped another.
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

    /// Keeps the share, and that the operation is executed; one that leaves keeps only that.
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
        self.database.write(StageShare { effect: call.effect, chain, sealing, fresh }).await??;
        self.staged(call, keys, root)
    }

    /// The answer of an attempt that has ended.
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
        let deed = ReceiptKind::Staged { attempt: call.effect.attempt, epoch_root };
        let receipt = self.receipt(&self.chain(call), &deed)?;
        Ok(CeremonyAnswer::Staged { keys: Box::new(keys), receipt })
    }
}

/// What a batch of messages led to.
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
            // What others need goes out a turn before: a relay that mixes the turns up loses the attempt.
            Progress::Done { send: more, output } if send.is_empty() && more.is_empty() => {
                return Ok((session, Handled::Done(output)));
            }
            Progress::Done { .. } => return Err(GONE),
        }
    }
    Ok((session, Handled::Send(send)))
}

/// Records that an attempt begins, once.
struct Begin {
    id: OperationId,
    attempt: u32,
}

impl Begin {
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

impl Job for Begin {
    type State = ();
    type Output = Result<(), NodeError>;

    async fn apply(&self, conn: &mut SqliteConnection, (): &mut ()) -> Result<Self::Output, sqlx::Error> {
        answer(self.run(conn).await)
    }
}

/// Keeps a share that the ceremony gave, and that the operation is executed.
struct StageShare {
    effect: EffectId,
    chain: Chain,
    sealing: Sealing,
    /// None for one that leaves.
    fresh: Option<Fresh>,
}

impl StageShare {
    async fn run(&self, conn: &mut SqliteConnection) -> Result<(), Stop> {
        let stage = View::load(conn, self.effect, None).await?.row.map(|row| row.stage);
        if !matches!(stage, Some(Stage::Receipted | Stage::Executed)) {
            return Err(gate::out_of_order("the operation moved on during the ceremony").into());
        }
        if let Some(fresh) = &self.fresh {
            vault::stage(conn, &self.sealing, fresh).await?;
        }
        let head = self.chain.after_execute(self.effect.attempt)?;
        row::advance(conn, self.effect.operation, Stage::Executed, head).await
    }
}

impl Job for StageShare {
    type State = ();
    type Output = Result<(), NodeError>;

    async fn apply(&self, conn: &mut SqliteConnection, (): &mut ()) -> Result<Self::Output, sqlx::Error> {
        answer(self.run(conn).await)
    }
}
