//! This node's part in a ceremony that makes shares: which protocol it runs, and whether that needs its present share.

use crate::call::CeremonyStart;
use crate::contribution;
use crate::error::{Code, NodeError, Rejection, Stop};
use crate::gate::{self, Admitted};
use crate::node::Node;
use crate::vault::{self, Generation};
use crate::verify::epoch_conflict;
use gateway_domain::admission::{AdmissionDecision, Target};
use gateway_domain::contribution::RecoveryCase;
use gateway_domain::intent::{Intent, Recover};
use gateway_domain::roster::{ParticipantIndex, Roster};
use gateway_threshold::keygen;
use gateway_threshold::redistribute;
use gateway_threshold::repair;
use gateway_threshold::{KeyShare, Message, PublicKeys, Session, ThresholdError};
use rand_core::OsRng;
use sqlx::SqliteConnection;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A node's part in a ceremony.
pub(crate) enum Part {
    /// It runs the protocol and sends these messages first.
    Runs(Box<Session>, Vec<Message>),
    /// It sends nothing and stages its present share under the new epoch's name.
    Keeps(KeyShare, Arc<PublicKeys>),
}

/// The key before the ceremony.
struct PresentKey {
    keys: Arc<PublicKeys>,
    /// This node's share; `None` if it holds none of the admitted generation, or the ceremony does not need it.
    share: Option<KeyShare>,
}

/// The generation that the operation makes.
pub(crate) fn target(decision: &AdmissionDecision) -> Result<&Target, Rejection> {
    decision.target.as_ref().ok_or_else(|| gate::out_of_order("the operation makes no shares"))
}

impl Node {
    /// Starts this node's part in the ceremony.
    pub(crate) async fn start_part(
        &self,
        conn: &mut SqliteConnection,
        ceremony_id: [u8; 32],
        admitted: &Admitted,
        start: &CeremonyStart,
    ) -> Result<Part, Stop> {
        let Admitted { statement, key, .. } = admitted;
        let decision = &statement.decision;
        let Target { participants, threshold, .. } = target(decision)?;
        let me = self.participant();
        if let Intent::KeyCreate(create) = &statement.request.intent {
            let profile = create.signature_profile.parse().map_err(NodeError::damaged)?;
            return run(start_keygen(profile, me, participants, threshold.0, ceremony_id));
        }
        let needs_share = needs_share(&statement.request.intent, me, start);
        let active = key.active.as_ref().filter(|_| needs_share);
        let present = self.load_present_key(conn, decision, start, active).await?;
        match &statement.request.intent {
            Intent::Rotate(_) => {
                if vault::is_known(conn, target(decision)?.key_id).await? {
                    return Err(epoch_conflict("the new key exists").into());
                }
                run(start_keygen(present.keys.profile(), me, participants, threshold.0, ceremony_id))
            }
            Intent::Refresh(_) | Intent::Reshare(_) => {
                check_dealers(&start.dealers, &present.keys)?;
                let params = redistribute::Params {
                    keys: (*present.keys).clone(),
                    me: me.0,
                    dealers: indices(&start.dealers),
                    roster: indices(participants.as_set()),
                    threshold: threshold.0,
                    ceremony_id,
                };
                run(redistribute::start(params, present.share.as_ref(), &mut OsRng))
            }
            Intent::Recover(recover) => repair_or_keep(decision, recover, me, present, ceremony_id),
            Intent::KeyCreate(_) | Intent::Payment(_) | Intent::AssetAction(_) => {
                Err(gate::out_of_order("the operation makes no shares").into())
            }
        }
    }

    /// Loads the key in the admitted generation. The caller supplies the public keys, which must match the decision's epoch
    /// root; `active` is this node's generation, if the ceremony needs its share.
    async fn load_present_key(
        &self,
        conn: &mut SqliteConnection,
        decision: &AdmissionDecision,
        start: &CeremonyStart,
        active: Option<&Generation>,
    ) -> Result<PresentKey, Stop> {
        let supplied = Generation::new(decision.epoch.clone(), decision.epoch_root, start.package.clone());
        let keys = self.generations.keys(decision.epoch_root, || supplied.decode(decision.key_id));
        let keys = keys.map_err(|_| refused("the public keys are not of the admitted generation"))?;
        // The cache may have had the right ones.
        if keys.to_bytes() != start.package {
            return Err(refused("the public keys are not of the admitted generation").into());
        }
        let holders: BTreeSet<_> = keys.verifying_shares().keys().copied().map(ParticipantIndex).collect();
        let matches_decision = decision.holders.as_ref().is_some_and(|named| *named.as_set() == holders)
            && decision.threshold.0 == keys.threshold();
        if !matches_decision {
            return Err(refused("holders or threshold of the decision are not those of the key").into());
        }
        let share = match active {
            Some(active) if active.root == decision.epoch_root => {
                Some(vault::load_share(conn, &self.sealing, decision.key_id, &active.epoch, &keys).await?)
            }
            Some(_) | None => None,
        };
        Ok(PresentKey { keys, share })
    }
}

/// Whether the ceremony needs this node's present share. Otherwise the share is not read, so that an unreadable one does not
/// prevent its replacement.
fn needs_share(intent: &Intent, me: ParticipantIndex, start: &CeremonyStart) -> bool {
    match intent {
        Intent::Refresh(_) | Intent::Reshare(_) => start.dealers.contains(&me),
        Intent::Recover(recover) => recover.recovering_participant != me,
        Intent::Rotate(_) | Intent::KeyCreate(_) | Intent::Payment(_) | Intent::AssetAction(_) => false,
    }
}

/// The helpers and the recovering participant run the protocol. Every other holder keeps its share.
fn repair_or_keep(
    decision: &AdmissionDecision,
    recover: &Recover,
    me: ParticipantIndex,
    present: PresentKey,
    ceremony_id: [u8; 32],
) -> Result<Part, Stop> {
    let helpers = recover.helper_participants.as_set();
    if recover.recovering_participant != me && !helpers.contains(&me) {
        let share = present.share.ok_or(vault::NO_SHARE)?;
        return Ok(Part::Keeps(share, present.keys));
    }
    let case = RecoveryCase::new(decision.key_id, decision.epoch_root, recover);
    let case = contribution::public_case(&case, (*present.keys).clone())?;
    let params = repair::Params {
        case,
        admitted: contribution::admitted_contributions(recover),
        me: me.0,
        ceremony_id,
    };
    run(repair::start(params, present.share.as_ref()))
}

fn start_keygen(
    profile: gateway_threshold::SignatureProfile,
    me: ParticipantIndex,
    participants: &Roster,
    threshold: u16,
    ceremony_id: [u8; 32],
) -> Result<(Session, Vec<Message>), ThresholdError> {
    let roster = indices(participants.as_set());
    keygen::start(keygen::Params { profile, me: me.0, roster, threshold, ceremony_id }, &mut OsRng)
}

fn run(started: Result<(Session, Vec<Message>), ThresholdError>) -> Result<Part, Stop> {
    match started {
        Ok((session, messages)) => Ok(Part::Runs(Box::new(session), messages)),
        Err(ThresholdError::ShareMissing { .. }) => Err(vault::NO_SHARE.into()),
        Err(error) => Err(refused(error.to_string()).into()),
    }
}

/// Checks that the dealers are holders, and at least as many as the threshold.
fn check_dealers(dealers: &BTreeSet<ParticipantIndex>, keys: &PublicKeys) -> Result<(), Rejection> {
    let are_holders = dealers.iter().all(|dealer| keys.verifying_shares().contains_key(&dealer.0));
    if are_holders && dealers.len() >= usize::from(keys.threshold()) {
        return Ok(());
    }
    Err(refused("the dealers are not all holders, or are too few"))
}

fn indices(participants: &BTreeSet<ParticipantIndex>) -> BTreeSet<u16> {
    participants.iter().map(|participant| participant.0).collect()
}

fn refused(detail: impl Into<String>) -> Rejection {
    Rejection::new(Code::PackageRefused, detail)
}
