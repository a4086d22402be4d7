//! Open nonces, in memory only (threshold.md 7.1): at most one pair an operation, bounded in number and age.

use crate::error::{Code, NodeError, Rejection};
use crate::limits::{NONCES_TTL_MS, SIGNING_SESSIONS_MAX};
use gateway_domain::ids::{Hex32, KeyId, OperationId};
use gateway_domain::receipt::Chain;
use gateway_domain::roster::{Roster, Threshold};
use gateway_domain::time::EpochMs;
use gateway_threshold::sign::Nonces;
use gateway_threshold::{KeyShare, PublicKeys, Tweak};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is signed and by whom, as the node's own admission says. Fixed when the nonces are made (threshold.md 7.2).
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) chain: Chain,
    pub(crate) key_id: KeyId,
    pub(crate) epoch_root: Hex32,
    pub(crate) digest: Hex32,
    pub(crate) tweak: Option<Tweak>,
    /// Until when the decision is in force.
    pub(crate) not_after_ms: EpochMs,
    pub(crate) participants: Roster,
    pub(crate) threshold: Threshold,
}

/// One attempt at one signature.
pub(crate) struct Session {
    pub(crate) attempt: u32,
    pub(crate) terms: Terms,
    /// What was given out for the nonces.
    pub(crate) commitments: Vec<u8>,
    opened_at: EpochMs,
    /// None once taken. The lock is held until the share is durable, so that a repeat waits for it.
    pub(crate) signer: tokio::sync::Mutex<Option<Signer>>,
}

/// What one signature is made with.
pub(crate) struct Signer {
    pub(crate) nonces: Nonces,
    pub(crate) share: KeyShare,
    /// The generation that `share` is of.
    pub(crate) keys: Arc<PublicKeys>,
}

/// The sessions of a node, by operation.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<BTreeMap<OperationId, Arc<Session>>>);

impl Session {
    pub(crate) fn new(
        attempt: u32,
        terms: Terms,
        signer: Signer,
        commitments: Vec<u8>,
        opened_at: EpochMs,
    ) -> Self {
        Self { attempt, terms, commitments, opened_at, signer: tokio::sync::Mutex::new(Some(signer)) }
    }

    /// Whether the nonces have waited too long.
    pub(crate) const fn is_stale(&self, now: EpochMs) -> bool {
        now.0.saturating_sub(self.opened_at.0) > NONCES_TTL_MS
    }
}

impl Sessions {
    /// The session of this attempt; none when there is no session at all or only an earlier one.
    ///
    /// # Errors
    /// [`Code::AttemptSuperseded`] when a later attempt is open.
    pub(crate) fn find(&self, id: OperationId, attempt: u32) -> Result<Option<Arc<Session>>, NodeError> {
        let open = self.lock().get(&id).cloned();
        match open {
            Some(session) if session.attempt > attempt => Err(superseded().into()),
            Some(session) if session.attempt == attempt => Ok(Some(session)),
            Some(_) | None => Ok(None),
        }
    }

    /// Adds a session in place of an earlier attempt's, whose nonces are dropped with it. When this attempt has one
    /// already, that one stays and is the answer.
    ///
    /// # Errors
    /// [`Code::AttemptSuperseded`], or [`NodeError::Unavailable`] when there are too many sessions.
    pub(crate) fn open(
        &self,
        id: OperationId,
        session: Session,
        now: EpochMs,
    ) -> Result<Arc<Session>, NodeError> {
        let mut sessions = self.lock();
        match sessions.get(&id) {
            Some(open) if open.attempt > session.attempt => return Err(superseded().into()),
            Some(open) if open.attempt == session.attempt => return Ok(Arc::clone(open)),
            Some(_) => {}
            None if sessions.len() < SIGNING_SESSIONS_MAX => {}
            None => {
                sessions.retain(|_, open| !open.is_stale(now));
                if sessions.len() >= SIGNING_SESSIONS_MAX {
                    return Err(NodeError::unavailable("the node has too many open signing sessions"));
                }
            }
        }
        let session = Arc::new(session);
        sessions.insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// Drops the operation's nonces, if it has any.
    pub(crate) fn close(&self, id: OperationId) {
        self.lock().remove(&id);
    }

    /// Drops the nonces of a key whose epoch changed (threshold.md 7.6).
    pub(crate) fn close_key(&self, key_id: KeyId) {
        self.lock().retain(|_, session| session.terms.key_id != key_id);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<OperationId, Arc<Session>>> {
        // Nothing that holds the lock can leave the map half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn superseded() -> Rejection {
    Rejection::new(Code::AttemptSuperseded, "a later attempt was seen")
}
