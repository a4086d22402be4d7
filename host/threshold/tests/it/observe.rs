//! What an observer proves: it has the messages of a ceremony and no secret.

use std::collections::{BTreeMap, BTreeSet};

use gateway_threshold::{Message, Protocol, Route, SignatureProfile, ThresholdError, repair};

use crate::harness::{
    BINDING, Key, Network, copy, flip, params, rebind, redistribute_params, repair_params, rng, set,
};

/// An honest ceremony with all its messages.
struct Run {
    protocol: Protocol,
    /// The bodies of round 1.
    broadcasts: BTreeMap<u16, Vec<u8>>,
    messages: Vec<Message>,
}

fn route(message: &Message) -> Route {
    (message.from, message.to, message.round)
}

impl Run {
    fn record(protocol: Protocol, mut network: Network) -> Self {
        let mut messages: BTreeMap<Route, Message> = BTreeMap::new();
        network.run(|flight| {
            messages.insert(route(&flight.message), copy(&flight.message));
            true
        });
        network.key();
        let round_1 = messages.values().filter(|message| message.round == 1);
        let broadcasts = round_1.map(|message| (message.from, message.body.to_vec())).collect();
        Self { protocol, broadcasts, messages: messages.into_values().collect() }
    }

    fn deviation(&self, message: &Message) -> Option<ThresholdError> {
        self.protocol.deviation(message, &self.broadcasts)
    }
}

/// A run of each protocol, in the same order as [`every_protocol`], and a repair with admitted contributions.
fn runs(profile: SignatureProfile) -> [Run; 4] {
    let key = Key::generate(profile, &[0, 1, 2], 2, 1);
    let keygen = params(profile, 0, &[0, 1, 2], 2);
    // 0 deals and leaves, and 3 joins.
    let reshare = redistribute_params(&key, 0, &[0, 1], &[1, 2, 3], 3);
    let plain = repair_params(&key, 1, 1, &[0, 2]);
    let mut admitted = plain.clone();
    let ids = [0, 2].map(|helper| plain.case.contribution(&key.shares[&helper]).unwrap());
    admitted.admitted = repair::Admitted { root: Some(plain.case.root(&ids)), contributions: ids.to_vec() };
    [
        Run::record(Protocol::KeyGeneration(keygen), Network::start(profile, &[0, 1, 2], 2, 1)),
        Run::record(Protocol::Redistribution(reshare.clone()), Network::redistribute(&key, &reshare, 1)),
        Run::record(Protocol::Repair(plain), Network::repair(&key, 1, &[0, 2], 1)),
        Run::record(Protocol::Repair(admitted.clone()), Network::repair_admitted(&key, &admitted, 1)),
    ]
}

#[test]
fn no_message_of_an_honest_participant_is_a_deviation() {
    for profile in SignatureProfile::ALL {
        for run in runs(profile) {
            for message in &run.messages {
                assert_eq!(run.deviation(message), None, "{message:?}");
            }
        }
    }
}

#[test]
fn every_altered_message_proves_that_its_sender_deviated() {
    for profile in SignatureProfile::ALL {
        for run in runs(profile) {
            for message in &run.messages {
                let mut altered = copy(message);
                match message.to {
                    Some(_) => flip(profile, &mut altered),
                    None => *altered.body.last_mut().unwrap() ^= 1,
                }
                let mut undecodable = copy(message);
                undecodable.body[BINDING..].fill(0xff);
                let mut unbound = copy(message);
                unbound.body[0] ^= 1;
                let mut longer = copy(message);
                longer.body.push(0);
                for wrong in [altered, undecodable, unbound, longer] {
                    let found = run.deviation(&wrong).unwrap_or_else(|| panic!("{wrong:?}"));
                    assert_eq!(found.culprits(), [message.from], "{wrong:?}: {found}");
                }
            }
        }
    }
}

/// What the sender did wrong is in the error.
#[test]
fn deviation_says_what_is_wrong() {
    for profile in SignatureProfile::ALL {
        let [keygen, .., admitted] = runs(profile);
        let first = |run: &Run, round| copy(run.messages.iter().find(|it| it.round == round).unwrap());
        let mut proof = first(&keygen, 1);
        let last = proof.body.len() - if profile == crate::harness::ED { 32 } else { 1 };
        proof.body[last] ^= 1;
        let from = proof.from;
        assert_eq!(keygen.deviation(&proof), Some(ThresholdError::InvalidProofOfKnowledge { from }));
        let mut value = first(&keygen, 2);
        flip(profile, &mut value);
        let from = value.from;
        assert_eq!(keygen.deviation(&value), Some(ThresholdError::InvalidSecretShare { from }));
        let mut echo = first(&keygen, 3);
        echo.body[BINDING] ^= 1;
        let from = echo.from;
        assert_eq!(keygen.deviation(&echo), Some(ThresholdError::WrongEcho { from }));
        // A valid split of the current share that is not the admitted one.
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        let mut other = repair_params(&key, 0, 1, &[0, 2]);
        other.case.reference = [9; 32];
        let binding = first(&admitted, 1).body[..BINDING].to_vec();
        let (_, other) = repair::start(other, key.shares.get(&0), &mut rng(5)).unwrap();
        let other = rebind(other, &binding, &key.shares[&0]);
        let found = admitted.deviation(&other[0]);
        assert_eq!(found, Some(ThresholdError::ContributionMismatch { helpers: vec![0] }));
    }
}

/// A lying recipient cannot reveal a right value, another recipient's or another round's, and blame its sender.
#[test]
fn right_values_and_missing_broadcasts_prove_nothing() {
    for profile in SignatureProfile::ALL {
        for mut run in runs(profile) {
            let (from, body) = run.broadcasts.pop_first().unwrap();
            for message in run.messages.iter().filter(|message| message.round > 1) {
                assert_eq!(run.deviation(message), None);
                let mut altered = copy(message);
                *altered.body.last_mut().unwrap() ^= 1;
                assert_eq!(run.deviation(&altered), None, "not all broadcasts are there");
            }
            // A wrong broadcast names its own sender, whichever value is shown.
            let mut wrong = body;
            *wrong.last_mut().unwrap() ^= 1;
            run.broadcasts.insert(from, wrong);
            let shown = run.messages.iter().find(|message| message.round > 1 && message.from != from);
            assert_eq!(run.deviation(shown.unwrap()).unwrap().culprits(), [from]);
        }
    }
}

#[test]
fn participant_that_withholds_a_message_is_the_one_that_is_missing() {
    for profile in SignatureProfile::ALL {
        for run in runs(profile) {
            let all: BTreeSet<Route> = run.messages.iter().map(route).collect();
            assert_eq!(run.protocol.missing(&all), set(&[]));
            assert_eq!(run.protocol.missing(&BTreeSet::new()).len(), run.broadcasts.len());
            for withheld in &all {
                // The others wait for it, and send nothing of later rounds.
                let sent = all.iter().filter(|other| *other != withheld && other.2 <= withheld.2).copied();
                assert_eq!(run.protocol.missing(&sent.collect()), set(&[withheld.0]), "{withheld:?}");
            }
        }
    }
}
