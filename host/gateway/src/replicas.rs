//! Compares this replica with the others of its database, and its clock with that of the database's server.

use crate::compose::Gateway;
use crate::services::{authority_keys, pinned_identities};
use crate::settings::Settings;
use gateway_domain::canonical;
use gateway_domain::ids::Hex32;
use gateway_domain::log::VerifierKey;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::DescribePolicies as _;
use gateway_engine::{Engine, ReplicaFault, Unavailable};
use gateway_policy_host::Lifecycle;
use gateway_seal::node_key::NodeIdentity;
use gateway_service::StartError;
use gateway_service::now;
use gateway_service::rounds::Rounds;
use gateway_store::{Peer, Peers, Presence, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Interval at which this replica says that it is here.
const MEET_EVERY: Duration = Duration::from_secs(5);

/// A new policy bundle may be active at one replica so much earlier than at another: a multiple of the default `policy_watch_ms`.
const POLICIES_DIFFER_FOR: Duration = Duration::from_secs(60);

/// Submission quotas, which replicas share, tolerate that clocks differ by this.
const CLOCKS_DIFFER_MS: u64 = 60_000;

/// Compares this replica with the others.
pub(crate) struct Replicas {
    store: Arc<Store>,
    identity: BTreeMap<String, String>,
    policies: Arc<Lifecycle>,
    engine: Engine,
}

impl Replicas {
    /// # Errors
    /// [`StartError`] when a file with keys cannot be read.
    pub(crate) fn new(gateway: &Gateway, settings: &Settings) -> Result<Self, StartError> {
        Ok(Self {
            store: Arc::clone(&gateway.store),
            identity: identity(gateway.app.engine().log_key(), settings)?,
            policies: Arc::clone(&gateway.policies),
            engine: gateway.app.engine().clone(),
        })
    }

    pub(crate) async fn watch(self, mut reported: Option<ReplicaFault>, stopping: watch::Receiver<bool>) {
        let mut rounds = Rounds::every(MEET_EVERY, stopping);
        while rounds.next().await.is_some() {
            // Without an answer the last result stays: readiness reports the store.
            if let Ok(found) = self.compare(reported.as_ref()).await {
                reported = found;
            }
        }
    }

    /// Tells the store and the engine what is wrong, and logs it if it is not what was `reported` before.
    ///
    /// # Errors
    /// [`Unavailable`] when the database does not answer.
    pub(crate) async fn compare(
        &self,
        reported: Option<&ReplicaFault>,
    ) -> Result<Option<ReplicaFault>, Unavailable> {
        let own = Presence { identity: self.identity.clone(), policy: self.policies.health().bundle_hash };
        let (before, mut found) = (now(), None);
        let judge = |peers: &Peers| {
            found = fault(&own, peers, before, now());
            !matches!(found, Some(ReplicaFault::MustNotWrite(_)))
        };
        self.store.meet(&own, judge).await?;
        match &found {
            Some(found) if reported != Some(found) => tracing::error!("{found}"),
            None if reported.is_some() => tracing::info!("this replica agrees with the others again"),
            Some(_) | None => {}
        }
        self.engine.set_replica_fault(found.clone());
        Ok(found)
    }
}

/// The public keys that all replicas of a store must have in common. Embedded nodes are each replica's own.
fn identity(log_key: &VerifierKey, settings: &Settings) -> Result<BTreeMap<String, String>, StartError> {
    let digest = |what, keys: &mut dyn Iterator<Item = [u8; 32]>| {
        let keys: BTreeSet<_> = keys.map(Hex32::new).collect();
        canonical::digest(what, &keys).map_err(|error| StartError::new(what, error))
    };
    let authorities = digest("authority keys", &mut authority_keys(settings)?.into_iter())?;
    let authorities = format!("{} of {authorities}", settings.authority.threshold);
    let mut identity = BTreeMap::from([
        ("log key".to_owned(), log_key.to_string()),
        ("authority keys".to_owned(), authorities),
    ]);
    if let Some(remote) = &settings.nodes.remote {
        let nodes = pinned_identities(remote)?;
        let nodes = digest("node keys", &mut nodes.iter().map(NodeIdentity::signing_key))?;
        identity.insert("node keys".to_owned(), nodes.to_string());
    }
    Ok(identity)
}

/// What is wrong with this replica. `before` and `after` are its own clock when it asked, and when it got the answer.
fn fault(own: &Presence, peers: &Peers, before: EpochMs, after: EpochMs) -> Option<ReplicaFault> {
    let earlier = || peers.others.iter().filter(|peer| peer.is_earlier);
    if let Some(found) = earlier().find_map(|peer| differing_identity(own, peer)) {
        return Some(found);
    }
    let differs = |peer: &&Peer| {
        peer.policies_for >= POLICIES_DIFFER_FOR
            && peer.presence.as_ref().is_some_and(|presence| presence.policy != own.policy)
    };
    if let Some(peer) = earlier().find(differs) {
        let policy = peer.presence.as_ref().and_then(|presence| presence.policy);
        return Some(ReplicaFault::Differs(format!(
            "replica `{}`, which was here first, has another active policy bundle: {}, and this one {}",
            peer.name,
            bundle(policy),
            bundle(own.policy),
        )));
    }
    let clock = |behind: bool, by_ms: u64| {
        let side = if behind { "behind" } else { "ahead of" };
        let seconds = by_ms / 1000;
        ReplicaFault::Differs(format!(
            "this machine's clock is {seconds} s {side} that of the database server"
        ))
    };
    match (peers.clock.0.saturating_sub(after.0), before.0.saturating_sub(peers.clock.0)) {
        (by_ms, _) if by_ms > CLOCKS_DIFFER_MS => Some(clock(true, by_ms)),
        (_, by_ms) if by_ms > CLOCKS_DIFFER_MS => Some(clock(false, by_ms)),
        _ => None,
    }
}

/// Names that only one of them has are of another release, and say nothing.
fn differing_identity(own: &Presence, peer: &Peer) -> Option<ReplicaFault> {
    let name = &peer.name;
    let Some(presence) = &peer.presence else {
        let why = format!("the row of replica `{name}` in the table `replicas` cannot be read");
        return Some(ReplicaFault::Differs(why));
    };
    let differs = |(what, value): &(&String, &String)| {
        presence.identity.get(*what).is_some_and(|other| other != *value)
    };
    let differing: Vec<_> = own.identity.iter().filter(differs).map(|(what, _)| what.as_str()).collect();
    if differing.is_empty() {
        return None;
    }
    let why = format!("replica `{name}`, which was here first, differs in: {}", differing.join(", "));
    Some(ReplicaFault::MustNotWrite(why))
}

fn bundle(hash: Option<Hex32>) -> String {
    hash.map_or_else(|| "none".to_owned(), |hash| format!("`{hash}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: EpochMs = EpochMs(10_000_000);

    fn presence(keys: &[(&str, &str)], policy: Option<u8>) -> Presence {
        let keys = keys.iter().map(|(what, value)| ((*what).to_owned(), (*value).to_owned()));
        Presence { identity: keys.collect(), policy: policy.map(|byte| Hex32::new([byte; 32])) }
    }

    fn peer(presence: Option<Presence>, is_earlier: bool, policies_for: u64) -> Peer {
        Peer {
            name: "a1b2c3d4".to_owned(),
            presence,
            is_earlier,
            policies_for: Duration::from_secs(policies_for),
        }
    }

    fn found(others: Vec<Peer>) -> Option<String> {
        let own = presence(&[("log key", "one"), ("node keys", "two")], Some(1));
        fault(&own, &Peers { others, clock: NOW }, NOW, NOW).map(|fault| fault.to_string())
    }

    #[test]
    fn replica_with_other_keys_than_an_earlier_one_writes_nothing() {
        let same = || Some(presence(&[("log key", "one"), ("node keys", "two")], Some(1)));
        let other = || Some(presence(&[("log key", "other"), ("node keys", "two")], Some(1)));
        let text =
            "replica `a1b2c3d4`, which was here first, differs in: log key; this replica writes nothing";
        for (others, expected) in [
            (vec![], None),
            (vec![peer(same(), true, 0), peer(same(), false, 0)], None),
            (vec![peer(other(), false, 0)], None),
            (vec![peer(same(), true, 0), peer(other(), true, 0)], Some(text)),
            // Of another release.
            (vec![peer(Some(presence(&[("log key", "one"), ("more", "three")], Some(1))), true, 0)], None),
            (
                vec![peer(None, true, 0)],
                Some("the row of replica `a1b2c3d4` in the table `replicas` cannot be read"),
            ),
            (vec![peer(None, false, 0)], None),
        ] {
            assert_eq!(found(others.clone()).as_deref(), expected, "{others:?}");
        }
    }

    #[test]
    fn policies_may_differ_for_a_minute() {
        let with = |policy, is_earlier, seconds| {
            let keys = [("log key", "one"), ("node keys", "two")];
            found(vec![peer(Some(presence(&keys, policy)), is_earlier, seconds)])
        };
        for (policy, is_earlier, seconds) in
            [(Some(2), true, 59), (None, true, 59), (Some(2), false, 60), (Some(1), true, 60)]
        {
            assert_eq!(with(policy, is_earlier, seconds), None, "{policy:?} {is_earlier} {seconds}");
        }
        let text = with(Some(2), true, 60).unwrap();
        assert!(
            text.contains("has another active policy bundle: `0202") && !text.contains("writes nothing"),
            "{text}"
        );
        assert!(
            with(None, true, 60)
                .unwrap()
                .contains("has another active policy bundle: none, and this one `0101")
        );
    }

    #[test]
    fn clock_may_differ_from_the_server_s_by_a_minute() {
        let own = presence(&[], None);
        let with = |clock: u64, before: u64, after: u64| {
            let peers = Peers { others: Vec::new(), clock: EpochMs(clock) };
            fault(&own, &peers, EpochMs(before), EpochMs(after)).map(|fault| fault.to_string())
        };
        let now = NOW.0;
        // An answer that took long says less.
        for (clock, before, after) in [
            (now + 60_000, now, now),
            (now - 60_000, now, now),
            (now + 100_000, now, now + 40_000),
            (now - 60_000, now - 50_000, now),
        ] {
            assert_eq!(with(clock, before, after), None, "{clock} {before} {after}");
        }
        let behind = "this machine's clock is 61 s behind that of the database server";
        assert_eq!(with(now + 61_000, now, now).as_deref(), Some(behind));
        let ahead = "this machine's clock is 120 s ahead of that of the database server";
        assert_eq!(with(now - 120_000, now, now + 5_000).as_deref(), Some(ahead));
    }
}
