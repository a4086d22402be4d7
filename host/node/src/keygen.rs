//! Key generation: this node's side of the ceremony, from its first message to a staged share.
//!
//! A ceremony lives in memory; that it was begun is on disk, so that no attempt is ever begun twice (a repeated attempt
//! needs a new ceremony id). After a restart an attempt either has its share staged or is lost.

use crate::call::{Call, ExecuteSecrets};
use crate::chain::Chain;
use crate::error::{NodeError, Stop, answer};
use crate::gate;
use crate::judge::FIRST_EPOCH;
use crate::limits::{KEYGEN_SESSIONS_MAX, KEYGEN_TTL_MS};
use crate::node::Node;
use crate::row::{self, Stage, Statement, View};
use crate::sealing::Sealing;
use crate::sessions::superseded;
use crate::vault::{self, Fresh};
use gateway_domain::canonical;
use gateway_domain::ids::{EpochName, Hex32, OperationId};
use gateway_domain::intent::Intent;
use gateway_domain::key::epoch_root;
use gateway_domain::operation::{EffectId, EffectStep};
use gateway_domain::time::EpochMs;
use gateway_sqlite::Job;
use gateway_threshold::keygen::{self, Params};
use gateway_threshold::{Message, Output, Progress, PublicKeys, Session};
use rand_core::OsRng;
use serde::Serialize;
use sqlx::SqliteConnection;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a node is in a key generation.
#[derive(Debug)]
pub enum KeygenAnswer {
    /// These are for the other participants; none means that they must speak first.
    Send(Vec<Message>),
    /// The share is staged, durably.
    Staged(Box<PublicKeys>),
}

/// One attempt at one key. The session is taken out while it computes.
pub(crate) struct Ceremony {
    attempt: u32,
    opened_at: EpochMs,
    session: tokio::sync::Mutex<Option<Session>>,
}

/// The ceremonies of a node, by operation.
#[derive(Default)]
pub(crate) struct Ceremonies(Mutex<BTreeMap<OperationId, Arc<Ceremony>>>);

impl Ceremonies {
    /// Asked before an attempt is recorded as begun: a node that is only busy must not use attempts up.
    fn has_room(&self, id: OperationId, now: EpochMs) -> Result<(), NodeError> {
        let mut open = self.lock();
        open.retain(|_, other| now.0.saturating_sub(other.opened_at.0) <= KEYGEN_TTL_MS);
        if open.len() >= KEYGEN_SESSIONS_MAX && !open.contains_key(&id) {
            return Err(NodeError::unavailable("the node has too many key generations at once"));
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
    /// Begins this attempt, or answers with what it staged. `secrets` are dropped unread.
    ///
    /// # Errors
    /// [`NodeError::Lost`] when the attempt was begun before; [`NodeError::Rejected`] and [`NodeError::Unavailable`]
    /// as in [`Self::signing_commit`].
    pub async fn keygen_start(
        &self,
        call: &Call,
        _secrets: &ExecuteSecrets<'_>,
    ) -> Result<KeygenAnswer, NodeError> {
        let (id, attempt) = (call.effect.operation, call.effect.attempt);
        let mut conn = self.database.reader().acquire().await?;
        let standing =
            gate::known(View::load(&mut conn, call.effect, None).await?, call, EffectStep::Execute)?;
        let key_id = standing.statement.decision.key_id;
        if let Some(staged) = vault::staged(&mut conn, id, attempt).await? {
            return Ok(KeygenAnswer::Staged(Box::new(staged.decode(key_id)?)));
        }
        let previous = self.chain(call).after_receipt()?;
        gate::in_order(call, &standing, previous, &[Stage::Receipted, Stage::Executed])?;
        gate::in_force(&self.config, &standing)?;
        drop(conn);
        let params = self.params(call, &standing.statement)?;
        self.ceremonies.has_room(id, self.now())?;
        self.database.write(Begin { id, attempt }).await??;
        let (session, messages) =
            keygen::start(params, &mut OsRng).map_err(|error| NodeError::ceremony(&error))?;
        let session = tokio::sync::Mutex::new(Some(session));
        self.ceremonies.open(id, Ceremony { attempt, opened_at: self.now(), session });
        Ok(KeygenAnswer::Send(messages))
    }

    /// Takes messages of other participants; `from` of each is who the channel says sent it.
    ///
    /// # Errors
    /// [`NodeError::Rejected`] with `CeremonyMisbehaviour` and the culprits; [`NodeError::Lost`] when there is no such
    /// ceremony or it failed without anybody to blame; [`NodeError::Unavailable`] when the share could not be staged.
    pub async fn keygen_deliver(
        &self,
        call: &Call,
        messages: Vec<Message>,
    ) -> Result<KeygenAnswer, NodeError> {
        let (id, attempt) = (call.effect.operation, call.effect.attempt);
        let mut conn = self.database.reader().acquire().await?;
        let view = View::load(&mut conn, call.effect, None).await?;
        let Statement { decision, .. } = gate::known(view, call, EffectStep::Execute)?.statement;
        if let Some(staged) = vault::staged(&mut conn, id, attempt).await? {
            return Ok(KeygenAnswer::Staged(Box::new(staged.decode(decision.key_id)?)));
        }
        drop(conn);
        let ceremony = self.ceremonies.find(id, attempt).ok_or(GONE)?;
        let mut slot = ceremony.session.lock().await;
        let session = slot.take().ok_or(GONE)?;
        // Points of 64 participants are seconds of work: not on a thread that serves others.
        let handled = tokio::task::spawn_blocking(move || handle(session, messages)).await;
        let handled = handled.unwrap_or(Err(GONE));
        // A ceremony that failed is over, and makes room.
        let (session, handled) = handled.inspect_err(|_| self.ceremonies.close(id))?;
        match handled {
            Handled::Send(messages) => {
                *slot = Some(session);
                Ok(KeygenAnswer::Send(messages))
            }
            Handled::Done(output) => {
                let root =
                    epoch_root(decision.key_id, &decision.epoch, &hex::encode(output.keys.to_bytes()))?;
                let fresh = Fresh {
                    key_id: decision.key_id,
                    epoch: EpochName(FIRST_EPOCH.to_owned()),
                    operation_id: id,
                    attempt,
                    root,
                    public_keys: output.keys.to_bytes(),
                    secret: output.share.ok_or(GONE)?.to_secret_bytes(),
                };
                let (chain, sealing) = (self.chain(call), self.sealing.clone());
                self.database.write(StageShare { effect: call.effect, chain, sealing, fresh }).await??;
                self.ceremonies.close(id);
                Ok(KeygenAnswer::Staged(Box::new(output.keys)))
            }
        }
    }

    fn params(&self, call: &Call, statement: &Statement) -> Result<Params, NodeError> {
        #[derive(Serialize)]
        struct Attempt {
            admission_hash: Hex32,
            operation_id: OperationId,
            attempt: u32,
        }
        let Intent::KeyCreate(create) = &statement.request.intent else {
            return Err(gate::out_of_order("the operation makes no key").into());
        };
        let Call { effect, admission_hash, .. } = *call;
        let attempt = Attempt { admission_hash, operation_id: effect.operation, attempt: effect.attempt };
        Ok(Params {
            profile: create.signature_profile.parse().map_err(NodeError::damaged)?,
            me: self.config.participant.0,
            roster: create.participants.iter().map(|participant| participant.0).collect(),
            threshold: create.threshold.0,
            ceremony_id: *canonical::digest("svc/ceremony/v1", &attempt)?.as_bytes(),
        })
    }
}

/// What a batch of messages led to.
enum Handled {
    Send(Vec<Message>),
    Done(Box<Output>),
}

/// An error drops the session and its secrets.
fn handle(mut session: Session, messages: Vec<Message>) -> Result<(Session, Handled), NodeError> {
    let mut send = Vec::new();
    for message in messages {
        match session.handle(message).map_err(|error| NodeError::ceremony(&error))? {
            Progress::Wait => {}
            Progress::Send(messages) => send.extend(messages),
            // The last round is an echo, sent before the output is due: `send` has nothing more.
            Progress::Done { output, .. } => return Ok((session, Handled::Done(output))),
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
        sqlx::query(
            "INSERT INTO ceremony (operation_id, attempt) VALUES (?1, ?2) \
             ON CONFLICT (operation_id) DO UPDATE SET attempt = excluded.attempt",
        )
        .bind(self.id.to_string())
        .bind(self.attempt)
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
    fresh: Fresh,
}

impl StageShare {
    async fn run(&self, conn: &mut SqliteConnection) -> Result<(), Stop> {
        let id = self.chain.operation_id;
        let stage = View::load(conn, self.effect, None).await?.row.map(|row| row.stage);
        if !matches!(stage, Some(Stage::Receipted | Stage::Executed)) {
            return Err(gate::out_of_order("the operation moved on during the ceremony").into());
        }
        vault::stage(conn, &self.sealing, &self.fresh).await?;
        row::advance(conn, id, Stage::Executed, self.chain.after_execute(self.fresh.attempt)?).await
    }
}

impl Job for StageShare {
    type State = ();
    type Output = Result<(), NodeError>;

    async fn apply(&self, conn: &mut SqliteConnection, (): &mut ()) -> Result<Self::Output, sqlx::Error> {
        answer(self.run(conn).await)
    }
}
