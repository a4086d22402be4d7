//! This node's part in a ceremony that makes shares: which protocol it runs, and whether that needs its present share.

use crate::admission::gate::{self, Admitted, is_same_key, target};
use crate::admission::verify::check_named_key;
use crate::call::CeremonyStart;
use crate::ceremony::contribution;
use crate::error::{
    NodeError, NodeRejection, Stop, epoch_conflict, out_of_order, package_refused as refused,
};
use crate::node::Node;
use crate::store::vault::{self, Generation};
use gateway_domain::admission::{AdmissionDecision, Target};
use gateway_domain::contribution::RecoveryCase;
use gateway_domain::intent::Intent;
use gateway_domain::roster::ParticipantIndex;
use gateway_sqlite::Connection;
use gateway_threshold::keygen;
use gateway_threshold::redistribute;
use gateway_threshold::repair;
use gateway_threshold::{KeyShare, Message, Protocol, PublicKeys, Session, ThresholdError};
use rand_core::OsRng;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A node's part in a ceremony.
pub(crate) enum Part {
    /// It runs the protocol and sends these messages first.
    Runs(Box<Session>, Box<Protocol>, Vec<Message>),
    /// It sends nothing and stages its present share under the new epoch's name.
    Keeps(KeyShare, Arc<PublicKeys>),
}

/// The key before the ceremony.
struct PresentKey {
    keys: Arc<PublicKeys>,
    /// This node's share; `None` if it holds none of the admitted generation, or the ceremony does not need it.
    share: Option<KeyShare>,
}

impl Node {
    /// Starts this node's part in the ceremony.
    pub(crate) async fn start_part(
        &self,
        conn: &mut Connection,
        ceremony_id: [u8; 32],
        admitted: &Admitted,
        start: &CeremonyStart,
    ) -> Result<Part, Stop> {
        let Admitted { statement, key, .. } = admitted;
        let decision = &statement.decision;
        let (intent, me) = (&statement.request.intent, self.participant());
        let protocol = |keys| protocol(intent, decision, start, keys, me, ceremony_id);
        if let Intent::KeyCreate(_) = intent {
            return run(protocol(None)?, None);
        }
        let active = key.active.as_ref().filter(|_| needs_share(intent, me, start));
        let PresentKey { keys, share } = self.load_present_key(conn, decision, start, active).await?;
        // The caller supplies these keys, and the authority's decision names their root: approvers signed which key it is.
        check_named_key(intent, &keys)?;
        let holds = key.active.as_ref().is_some_and(|held| gate::is_generation(decision, held));
        if !holds && is_same_key(decision) && intent.public_key_artifact_ref().is_none() {
            return Err(
                refused("the node has no share, and the intent does not name the key's public key").into()
            );
        }
        if let Intent::Rotate(_) = intent
            && vault::is_known(conn, target(decision)?.key_id).await?
        {
            return Err(epoch_conflict("the new key exists").into());
        }
        // The helpers and the recovering participant run the protocol. Every other holder keeps its share.
        if let Intent::Recover(recover) = intent
            && recover.recovering_participant != me
            && !recover.helper_participants.as_set().contains(&me)
        {
            return Ok(Part::Keeps(share.ok_or(NodeError::NO_SHARE)?, keys));
        }
        run(protocol(Some(&keys))?, share.as_ref())
    }

    /// Loads the key in the admitted generation. The caller supplies the public keys, which must match the decision's epoch
    /// root; `active` is this node's generation, if the ceremony needs its share.
    async fn load_present_key(
        &self,
        conn: &mut Connection,
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

/// The protocol of one attempt at a ceremony, as what was admitted determines it. `keys` are those of the admitted generation, `None`
/// for a key creation; `me` takes part.
///
/// # Errors
/// [`NodeError::Rejected`] when the operation makes no shares, or the dealers are not holders or too few.
pub fn protocol(
    intent: &Intent,
    decision: &AdmissionDecision,
    start: &CeremonyStart,
    keys: Option<&PublicKeys>,
    me: ParticipantIndex,
    ceremony_id: [u8; 32],
) -> Result<Protocol, NodeError> {
    let Target { participants, threshold, .. } = target(decision)?;
    let (me, roster, threshold) = (me.0, indices(participants.as_set()), threshold.0);
    let keygen = |profile| {
        Protocol::KeyGeneration(keygen::Params {
            profile,
            me,
            roster: roster.clone(),
            threshold,
            ceremony_id,
        })
    };
    if let Intent::KeyCreate(create) = intent {
        return Ok(keygen(create.signature_profile.parse().map_err(NodeError::damaged)?));
    }
    let keys = keys.ok_or_else(|| refused("the key has no public keys"))?;
    Ok(match intent {
        Intent::Rotate(_) => keygen(keys.profile()),
        Intent::Refresh(_) | Intent::Reshare(_) => {
            check_dealers(&start.dealers, keys)?;
            let (keys, dealers) = (keys.clone(), indices(&start.dealers));
            let params = redistribute::Params { keys, me, dealers, roster, threshold, ceremony_id };
            Protocol::Redistribution(params)
        }
        Intent::Recover(recover) => {
            let case = RecoveryCase::new(decision.key_id, decision.epoch_root, recover);
            let case = contribution::public_case(&case, keys.clone())?;
            let admitted = contribution::admitted_contributions(recover);
            Protocol::Repair(repair::Params { case, admitted, me, ceremony_id })
        }
        Intent::KeyCreate(_) | Intent::Payment(_) | Intent::AssetAction(_) => {
            return Err(out_of_order("the operation makes no shares").into());
        }
    })
}

/// Runs the protocol from its start; `share` is this node's present one.
fn run(protocol: Protocol, share: Option<&KeyShare>) -> Result<Part, Stop> {
    let started = match protocol.clone() {
        Protocol::KeyGeneration(params) => keygen::start(params, &mut OsRng),
        Protocol::Redistribution(params) => redistribute::start(params, share, &mut OsRng),
        Protocol::Repair(params) => repair::start(params, share, &mut OsRng),
    };
    match started {
        Ok((session, messages)) => Ok(Part::Runs(Box::new(session), Box::new(protocol), messages)),
        Err(ThresholdError::ShareMissing { .. }) => Err(NodeError::NO_SHARE.into()),
        Err(error) => Err(refused(error.to_string()).into()),
    }
}

/// Checks that the dealers are holders, and at least as many as the threshold.
fn check_dealers(dealers: &BTreeSet<ParticipantIndex>, keys: &PublicKeys) -> Result<(), NodeRejection> {
    let are_holders = dealers.iter().all(|dealer| keys.verifying_shares().contains_key(&dealer.0));
    if are_holders && dealers.len() >= usize::from(keys.threshold()) {
        return Ok(());
    }
    Err(refused("the dealers are not all holders, or are too few"))
}

fn indices(participants: &BTreeSet<ParticipantIndex>) -> BTreeSet<u16> {
    participants.iter().map(|participant| participant.0).collect()
}
