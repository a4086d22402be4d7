//! Redistribution among honest participants: refresh, reshare, and the use of old shares afterwards.

use std::collections::{BTreeMap, BTreeSet};

use gateway_threshold::sign;
use gateway_threshold::{SignatureProfile, ThresholdError, derive, redistribute};
use proptest::prelude::*;

use crate::harness::{ED, Key, Network, TR, random_roster, redistribute_params, rng, subsets, verifies};

/// Checks that group key, chain code and profile are unchanged, and that every new quorum signs.
fn check_same_key(old: &Key, new: &Key) {
    let profile = old.keys.profile();
    assert_eq!(new.keys.public_key(), old.keys.public_key());
    assert_eq!(new.keys.verifying_key(), old.keys.verifying_key());
    assert_eq!(new.keys.chain_code(), old.keys.chain_code());
    assert_eq!(new.keys.profile(), profile);
    let roster: Vec<u16> = new.shares.keys().copied().collect();
    assert!(new.keys.verifying_shares().keys().eq(&roster));
    for signers in subsets(&roster, new.keys.threshold().into()) {
        let signature = new.sign(&signers, b"after", None, 2);
        assert!(verifies(profile, &old.keys.public_key(), b"after", &signature), "{signers:?}");
    }
}

/// Checks that every old share is rejected in the new epoch.
fn check_old_shares_are_rejected(old: &Key, new: &Key) {
    for (&participant, share) in &old.shares {
        let refused = ThresholdError::ShareMismatch { participant };
        assert_eq!(share.check_belongs(&new.keys).unwrap_err(), refused);
        let (nonces, commitments) = sign::commit(share, &mut rng(1)).unwrap();
        let commitments = BTreeMap::from([(participant, commitments)]);
        let package = sign::SigningPackage { message: b"m".into(), commitments, tweak: None };
        assert_eq!(nonces.sign(&package, share, &new.keys).unwrap_err(), refused);
    }
}

#[test]
fn refresh_changes_every_share_and_keeps_the_key() {
    for profile in SignatureProfile::ALL {
        for (roster, threshold) in [(&[0, 1, 2][..], 2), (&[0, 3, 4, 9, 65534][..], 3)] {
            let old = Key::generate(profile, roster, threshold, 1);
            for dealers in [roster, &roster[1..]] {
                let new = old.redistribute(dealers, roster, threshold, 2);
                check_same_key(&old, &new);
                check_old_shares_are_rejected(&old, &new);
                for (i, share) in new.keys.verifying_shares() {
                    assert_ne!(share, &old.keys.verifying_shares()[i]);
                }
                assert_ne!(new.transcript, old.transcript);
                // A second refresh, from there.
                check_same_key(&old, &new.redistribute(roster, roster, threshold, 3));
            }
        }
    }
}

/// BIP-340 public keys have no parity, but shares are of the point with its parity.
#[test]
fn keys_of_either_parity_are_refreshed() {
    let mut parities = BTreeSet::new();
    for seed in 0..6 {
        let old = Key::generate(TR, &[0, 1, 2], 2, seed);
        parities.insert(old.keys.verifying_key()[0]);
        check_same_key(&old, &old.redistribute(&[0, 2], &[0, 1, 2], 2, seed));
    }
    assert_eq!(parities.len(), 2);
}

/// The signer with a share of the other epoch is named, with the public keys of either epoch.
#[test]
fn old_and_new_shares_do_not_combine() {
    for profile in SignatureProfile::ALL {
        let old = Key::generate(profile, &[0, 1, 2], 2, 1);
        let new = old.redistribute(&[0, 1, 2], &[0, 1, 2], 2, 2);
        let mut signing = old.commit(&[0], b"m", None, 3);
        let with_new = new.commit(&[1], b"m", None, 4);
        signing.package.commitments.extend(with_new.package.commitments);
        signing.nonces.extend(with_new.nonces);
        let mut share = |signer: u16, key: &Key| {
            let nonces = signing.nonces.remove(&signer).unwrap();
            (signer, nonces.sign(&signing.package, &key.shares[&signer], &key.keys).unwrap())
        };
        let shares = BTreeMap::from([share(0, &old), share(1, &new)]);
        for (keys, culprit) in [(&new.keys, 0), (&old.keys, 1)] {
            let error = sign::aggregate(&signing.package, &shares, keys).unwrap_err();
            assert_eq!(error, ThresholdError::InvalidSignatureShares { signers: vec![culprit] });
        }
    }
}

#[test]
fn reshare_changes_roster_and_threshold() {
    for profile in SignatureProfile::ALL {
        let old = Key::generate(profile, &[0, 1, 2], 2, 1);
        // One stays, four join; all stay, two join; none stays.
        for (dealers, roster) in [
            (&[0, 1][..], &[1, 3, 4, 5, 6][..]),
            (&[0, 1, 2][..], &[0, 1, 2, 3, 4][..]),
            (&[1, 2][..], &[10, 11, 12, 13, 65534][..]),
        ] {
            let new = old.redistribute(dealers, roster, 3, 2);
            check_same_key(&old, &new);
            check_old_shares_are_rejected(&old, &new);
            // And down again: to all but two of them, and to two new participants.
            check_same_key(&old, &new.redistribute(&roster[..3], &roster[2..], 2, 3));
            check_same_key(&old, &new.redistribute(roster, &[20, 21], 2, 4));
        }
    }
}

#[test]
fn leaving_dealer_gets_the_new_public_keys_and_no_share() {
    for profile in SignatureProfile::ALL {
        let old = Key::generate(profile, &[0, 1, 2], 2, 1);
        let mut network =
            Network::redistribute(&old, &redistribute_params(&old, 0, &[0, 1], &[1, 2, 3], 2), 2);
        network.run(|flight| {
            assert!(
                flight.message.round != 2 || flight.recipient != 0,
                "a sub-share for a dealer that leaves"
            );
            true
        });
        assert!(network.failures.is_empty());
        let shares: Vec<_> = network.outputs.iter().map(|(i, output)| (*i, output.share.is_some())).collect();
        assert_eq!(shares, [(0, false), (1, true), (2, true), (3, true)]);
        assert_eq!(network.outputs[&0].keys, network.outputs[&3].keys);
        assert_eq!(network.outputs[&0].keys.threshold(), 2);
    }
}

#[test]
fn reshare_keeps_child_keys() {
    let old = Key::generate(TR, &[0, 1, 2], 2, 1);
    let new = old.redistribute(&[0, 1], &[1, 2, 3], 3, 2);
    for path in [&[0][..], &[7, 1 << 20]] {
        let child = derive::derive(&new.keys, path).unwrap();
        assert_eq!(child, derive::derive(&old.keys, path).unwrap());
        let signature = new.sign(&[1, 2, 3], b"under the child", Some(child.tweak), 3);
        assert!(verifies(TR, &child.public_key, b"under the child", &signature));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Delivery order is random and follows the seed.
    #[test]
    fn any_roster_can_reshare_to_any_other(
        sizes in (2_usize..=16, 2_usize..=16),
        thresholds in (0_usize..16, 0_usize..16),
        more_dealers in 0_usize..16,
        tr: bool,
        seed: u64,
    ) {
        let profile = if tr { TR } else { ED };
        let threshold = |size: usize, t: usize| u16::try_from(2 + t % (size - 1)).unwrap();
        let (t, next_t) = (threshold(sizes.0, thresholds.0), threshold(sizes.1, thresholds.1));
        // The rosters overlap at random.
        let pool = random_roster(16.max(sizes.0).max(sizes.1), seed);
        let (roster, next_roster) = (&pool[..sizes.0], &pool[pool.len() - sizes.1..]);
        let old = Key::generate(profile, roster, t, seed);
        let n_dealers = usize::from(t) + more_dealers % (sizes.0 - usize::from(t) + 1);
        let new = old.redistribute(&roster[sizes.0 - n_dealers..], next_roster, next_t, seed);
        prop_assert_eq!(new.keys.verifying_key(), old.keys.verifying_key());
        let signers = &next_roster[..next_t.into()];
        let signature = new.sign(signers, &seed.to_be_bytes(), None, seed);
        prop_assert!(verifies(profile, &old.keys.public_key(), &seed.to_be_bytes(), &signature));
    }
}

#[test]
fn invalid_parameters_are_rejected() {
    let key = Key::generate(ED, &[0, 1, 2, 3], 3, 1);
    let start = |me, dealers: &[u16], roster: &[u16], threshold| {
        let params = redistribute_params(&key, me, dealers, roster, threshold);
        redistribute::start(params, key.shares.get(&me), &mut rng(0)).map(drop)
    };
    assert_eq!(start(0, &[0, 1, 2], &[0, 1, 2], 2), Ok(()));
    for threshold in [0, 1, 4, u16::MAX] {
        let refused = ThresholdError::Threshold { threshold, participants: 3 };
        assert_eq!(start(0, &[0, 1, 2], &[0, 1, 2], threshold), Err(refused));
    }
    let sixty_five: Vec<u16> = (0..65).collect();
    let too_many = ThresholdError::TooManyParticipants { participants: 65 };
    assert_eq!(start(0, &[0, 1, 2], &sixty_five, 2), Err(too_many));
    let too_few = ThresholdError::Threshold { threshold: 3, participants: 2 };
    assert_eq!(start(0, &[0, 1], &[0, 1, 2], 2), Err(too_few));
    for (me, dealers, roster, participant) in [
        (0, &[0, 1, 2, 7], &[0, 1, 2], 7),
        (8, &[0, 1, 2, 3], &[0, 1, 2], 8),
        (0, &[0, 1, 2, 3], &[0, 1, u16::MAX], u16::MAX),
    ] {
        assert_eq!(start(me, dealers, roster, 2), Err(ThresholdError::NotInRoster { participant }));
    }
    // Also for a participant that does not deal.
    let no_identifier = ThresholdError::NotInRoster { participant: u16::MAX };
    assert_eq!(start(3, &[0, 1, 2], &[3, u16::MAX], 2), Err(no_identifier));
}

#[test]
fn dealer_without_its_own_current_share_is_rejected() {
    for (profile, other) in [(ED, TR), (TR, ED)] {
        let old = Key::generate(profile, &[0, 1, 2], 2, 1);
        let new = old.redistribute(&[0, 1], &[0, 1, 2], 2, 2);
        let other_profile = Key::generate(other, &[0, 1, 2], 2, 1);
        let start = |key: &Key, share| {
            let params = redistribute_params(key, 0, &[0, 1], &[0, 1, 2], 2);
            redistribute::start(params, share, &mut rng(0)).map(drop)
        };
        assert_eq!(start(&old, old.shares.get(&0)), Ok(()));
        assert_eq!(start(&old, None), Err(ThresholdError::ShareMissing { participant: 0 }));
        for (share, participant) in [(&new.shares[&0], 0), (&old.shares[&1], 1)] {
            assert_eq!(start(&old, Some(share)), Err(ThresholdError::ShareMismatch { participant }));
        }
        let mismatch = ThresholdError::ProfileMismatch { expected: profile, actual: other };
        assert_eq!(start(&old, other_profile.shares.get(&0)), Err(mismatch));
        // A participant that only receives needs no share.
        let params = redistribute_params(&old, 2, &[0, 1], &[0, 1, 2], 2);
        assert!(redistribute::start(params, None, &mut rng(0)).unwrap().1.is_empty());
    }
}
