//! Open nonces (rule 1 in `signing`): in memory only, one pair for each operation, limited in number and age.

use crate::error::{NodeError, attempt_superseded};
use crate::limits::{NONCES_TTL_MS, SIGNING_SESSIONS_MAX};
use gateway_domain::ids::{Hex32, KeyId, OperationId};
use gateway_domain::receipt::Chain;
use gateway_domain::roster::{Roster, Threshold};
use gateway_domain::time::EpochMs;
use gateway_threshold::sign::Nonces;
use gateway_threshold::{KeyShare, PublicKeys, Tweak};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the nonces may sign, and with which signers. Copied from the stored admission when the nonces are made (rule 2 in
/// `signing`).
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) chain: Chain,
    pub(crate) key_id: KeyId,
    pub(crate) epoch_root: Hex32,
    /// The last attempt that the node completed, or 0. Another participant has signed that it discarded that attempt.
    pub(crate) completed_attempt: u32,
    /// The message to sign.
    pub(crate) digest: Hex32,
    /// The tweak of the derived key, if the decision names one.
    pub(crate) tweak: Option<Tweak>,
    /// When the decision becomes valid.
    pub(crate) not_before_ms: EpochMs,
    /// When the decision expires.
    pub(crate) not_after_ms: EpochMs,
    pub(crate) participants: Roster,
    pub(crate) threshold: Threshold,
}

/// One attempt at one signature.
pub(crate) struct Session {
    pub(crate) attempt: u32,
    pub(crate) terms: Terms,
    /// The commitments to the nonces.
    pub(crate) commitments: Vec<u8>,
    opened_at: EpochMs,
    /// `None` after round two took it. Round two holds the lock until the share is durable, so that a repeated call waits.
    pub(crate) signer: tokio::sync::Mutex<Option<Signer>>,
}

/// What makes one signature share: the nonces, the key share, and its public keys.
pub(crate) struct Signer {
    pub(crate) nonces: Nonces,
    pub(crate) share: KeyShare,
    /// The public keys of the share's generation.
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

    /// Whether the nonces are older than [`NONCES_TTL_MS`].
    pub(crate) const fn is_stale(&self, now: EpochMs) -> bool {
        now.0.saturating_sub(self.opened_at.0) > NONCES_TTL_MS
    }
}

impl Sessions {
    /// The session of this attempt. `None` if there is no session, or only one of an earlier attempt.
    pub(crate) fn find(&self, id: OperationId, attempt: u32) -> Result<Option<Arc<Session>>, NodeError> {
        let open = self.0.lock().get(&id).cloned();
        match open {
            Some(session) if session.attempt > attempt => Err(attempt_superseded().into()),
            Some(session) if session.attempt == attempt => Ok(Some(session)),
            Some(_) | None => Ok(None),
        }
    }

    /// Adds a session, replacing one of an earlier attempt, whose nonces are dropped. If this attempt has a session already,
    /// returns that one instead.
    ///
    /// # Errors
    /// [`Code::AttemptSuperseded`](crate::Code::AttemptSuperseded) when a later attempt is open; [`NodeError::Unavailable`] when there are too many sessions.
    pub(crate) fn open(
        &self,
        id: OperationId,
        session: Session,
        now: EpochMs,
    ) -> Result<Arc<Session>, NodeError> {
        let mut sessions = self.0.lock();
        match sessions.get(&id) {
            Some(open) if open.attempt > session.attempt => return Err(attempt_superseded().into()),
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
        self.0.lock().remove(&id);
    }

    /// Drops the operation's nonces if they are for this attempt.
    pub(crate) fn close_attempt(&self, id: OperationId, attempt: u32) {
        self.0.lock().retain(|open, session| *open != id || session.attempt != attempt);
    }

    /// Drops the nonces of a key whose epoch changed (rule 5 in `signing`).
    pub(crate) fn close_key(&self, key_id: KeyId) {
        self.0.lock().retain(|_, session| session.terms.key_id != key_id);
    }

    /// Drops all nonces.
    pub(crate) fn close_all(&self) {
        self.0.lock().clear();
    }
}
