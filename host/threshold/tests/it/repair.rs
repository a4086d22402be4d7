//! Repair among honest participants.

use gateway_threshold::repair;
use gateway_threshold::{SignatureProfile, ThresholdError};
use proptest::prelude::*;

use crate::harness::{ED, Key, Network, TR, random_roster, repair_params, rng, secret, subsets, verifies};

/// Repairs and checks the share of `target`. Returns its secret, and all messages with their recipients.
fn check_repair(key: &Key, target: u16, helpers: &[u16], seed: u64) -> (Vec<u8>, Vec<(u16, Vec<u8>)>) {
    let mut network = Network::repair(key, target, helpers, seed);
    let mut sent = Vec::new();
    network.run(|flight| {
        sent.push((flight.recipient, flight.message.body.to_vec()));
        true
    });
    let outputs = network.key();
    assert_eq!(outputs.keys, key.keys);
    assert!(outputs.shares.keys().eq([&target]), "a helper has a share from the ceremony");
    let share = &outputs.shares[&target];
    assert_eq!(share.to_secret_bytes(), key.shares[&target].to_secret_bytes());
    (secret(share), sent)
}

#[test]
fn repaired_share_equals_the_lost_one() {
    for profile in SignatureProfile::ALL {
        for (roster, threshold) in [(&[0, 1, 2][..], 2), (&[0, 3, 4, 9, 65534][..], 3)] {
            let key = Key::generate(profile, roster, threshold, 1);
            for &target in roster {
                let others: Vec<u16> = roster.iter().copied().filter(|other| *other != target).collect();
                for size in usize::from(threshold)..=others.len() {
                    for helpers in subsets(&others, size) {
                        check_repair(&key, target, &helpers, 2);
                    }
                }
            }
        }
    }
}

#[test]
fn repaired_share_signs() {
    for profile in SignatureProfile::ALL {
        let mut key = Key::generate(profile, &[0, 1, 2], 2, 1);
        let mut network = Network::repair(&key, 1, &[0, 2], 2);
        network.run(|_| true);
        key.shares.extend(network.key().shares);
        let signature = key.sign(&[0, 1], b"m", None, 3);
        assert!(verifies(profile, &key.keys.public_key(), b"m", &signature));
    }
}

/// No message and no other participant's share equals the restored share; no message contains a helper's share.
#[test]
fn no_message_reveals_a_share() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2, 3, 4], 3, 1);
        let (restored, sent) = check_repair(&key, 2, &[0, 1, 4], 2);
        for (owner, share) in &key.shares {
            let held = secret(share);
            assert_eq!(held == restored, *owner == 2);
            for (_, body) in &sent {
                assert!(!body.windows(32).any(|window| window == held));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Delivery order is random and follows the seed.
    #[test]
    fn any_share_is_repaired(
        size in 3_usize..=16,
        t in 0_usize..16,
        target in 0_usize..16,
        more_helpers in 0_usize..16,
        tr: bool,
        seed: u64,
    ) {
        let profile = if tr { TR } else { ED };
        let threshold = 2 + t % (size - 2);
        let roster = random_roster(size, seed);
        let key = Key::generate(profile, &roster, u16::try_from(threshold).unwrap(), seed);
        let target = roster[target % size];
        let others: Vec<u16> = roster.into_iter().filter(|other| *other != target).collect();
        let n_helpers = threshold + more_helpers % (others.len() - threshold + 1);
        check_repair(&key, target, &others[others.len() - n_helpers..], seed);
    }
}

#[test]
fn invalid_parameters_are_rejected() {
    let key = Key::generate(ED, &[0, 1, 2, 3], 2, 1);
    let start = |me, target, helpers: &[u16], share| {
        repair::start(repair_params(&key, me, target, helpers), share, &mut rng(5)).map(drop)
    };
    let own = key.shares.get(&0);
    assert_eq!(start(0, 3, &[0, 1], own), Ok(()));
    assert_eq!(start(3, 3, &[0, 1], None), Ok(()));
    let too_few = ThresholdError::Threshold { threshold: 2, participants: 1 };
    assert_eq!(start(0, 3, &[0], own), Err(too_few));
    assert_eq!(start(0, 1, &[0, 1], own), Err(ThresholdError::TargetIsHelper { participant: 1 }));
    for (me, target, helpers, participant) in [(0, 9, &[0, 1], 9), (0, 3, &[0, 9], 9), (2, 3, &[0, 1], 2)] {
        assert_eq!(start(me, target, helpers, own), Err(ThresholdError::NotInRoster { participant }));
    }
    assert_eq!(start(0, 3, &[0, 1], None), Err(ThresholdError::ShareMissing { participant: 0 }));
    let of_another = ThresholdError::ShareMismatch { participant: 1 };
    assert_eq!(start(0, 3, &[0, 1], key.shares.get(&1)), Err(of_another));
    let next = key.redistribute(&[0, 1], &[0, 1, 2, 3], 2, 2);
    let stale = ThresholdError::ShareMismatch { participant: 0 };
    assert_eq!(start(0, 3, &[0, 1], next.shares.get(&0)), Err(stale));
}
