//! Signing with invalid shares, invalid packages and mismatched keys.

use std::collections::BTreeMap;

use gateway_threshold::sign::{self, SigningPackage};
use gateway_threshold::{SignatureProfile, ThresholdError, Tweak, derive};

use crate::harness::{ED, Key, TR, verifies};

/// Changes a signature share, by a different amount for each signer: equal changes could cancel out in the sum.
fn tamper_share(profile: SignatureProfile, signer: u16, scalar: &mut [u8]) {
    let low = if profile == ED { 0 } else { 31 };
    scalar[low] ^= 1 << signer;
}

#[test]
fn bad_signature_shares_name_all_their_signers() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2, 3, 4], 3, 1);
        let signing = key.commit(&[0, 1, 3, 4], b"m", None, 2);
        let package = signing.package.clone();
        let good = key.shares_for(signing);
        let check_named = |signers: &[u16], how: &dyn Fn(u16, &mut Vec<u8>)| {
            let mut shares = good.clone();
            signers.iter().for_each(|signer| how(*signer, shares.get_mut(signer).unwrap()));
            let error = sign::aggregate(&package, &shares, &key.keys).unwrap_err();
            assert_eq!(error, ThresholdError::InvalidSignatureShares { signers: signers.to_vec() });
            assert_eq!(error.culprits(), signers);
        };
        check_named(&[1], &|signer, share| tamper_share(profile, signer, share));
        check_named(&[0, 4], &|signer, share| tamper_share(profile, signer, share));
        check_named(&[0, 1, 3, 4], &|signer, share| tamper_share(profile, signer, share));
        check_named(&[3], &|_, share| share.truncate(31));
        check_named(&[0, 3], &|_, share| share.fill(0xff));
        let mut mixed = good.clone();
        tamper_share(profile, 0, mixed.get_mut(&0).unwrap());
        mixed.get_mut(&4).unwrap().clear();
        let error = sign::aggregate(&package, &mixed, &key.keys).unwrap_err();
        assert_eq!(error.culprits(), [0, 4]);
    }
}

#[test]
fn bad_shares_under_a_child_key_name_their_signers() {
    // Both parities of the child key and of the nonce commitment occur among these.
    for seed in 0..8 {
        let key = Key::generate(TR, &[0, 1, 2], 2, seed);
        let child = derive::derive(&key.keys, &[u32::try_from(seed).unwrap()]).unwrap();
        let signing = key.commit(&[0, 1], b"m", Some(child.tweak), seed);
        let package = signing.package.clone();
        let mut shares = key.shares_for(signing);
        tamper_share(TR, 1, shares.get_mut(&1).unwrap());
        let error = sign::aggregate(&package, &shares, &key.keys).unwrap_err();
        assert_eq!(error, ThresholdError::InvalidSignatureShares { signers: vec![1] });
    }
}

/// A signer that received another package cannot know that its share will not verify. The hash of its package, which it signs,
/// differs.
#[test]
fn signer_of_another_package_is_named_alone() {
    let key = Key::generate(TR, &[0, 1, 2], 2, 1);
    let child = derive::derive(&key.keys, &[1]).unwrap();
    type Change<'a> = &'a dyn Fn(&mut SigningPackage);
    let changes: [Change<'_>; 2] = [&|p| p.message.push(0), &|p| p.tweak = Some(child.tweak)];
    for change in changes {
        let mut signing = key.commit(&[0, 1], b"m", None, 2);
        let package = signing.package.clone();
        let mut other = package.clone();
        change(&mut other);
        assert_ne!(other.hash(), package.hash());
        let nonces = signing.nonces.remove(&1).unwrap();
        let share = nonces.sign(&other, &key.shares[&1], &key.keys).unwrap();
        let mut shares = key.shares_for(signing);
        shares.insert(1, share);
        let error = sign::aggregate(&package, &shares, &key.keys).unwrap_err();
        assert_eq!(error.culprits(), [1]);
    }
}

/// The error of a signer of `key` for a package changed by `change`.
fn refused(key: &Key, change: impl Fn(&mut SigningPackage)) -> ThresholdError {
    let mut signing = key.commit(&[0, 1, 2], b"m", None, 2);
    change(&mut signing.package);
    let nonces = signing.nonces.remove(&0).unwrap();
    nonces.sign(&signing.package, &key.shares[&0], &key.keys).unwrap_err()
}

#[test]
fn signers_reject_bad_packages() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2, 3], 3, 1);
        let too_few = refused(&key, |p| _ = p.commitments.remove(&2));
        assert_eq!(too_few, ThresholdError::TooFewSigners { signers: 2, threshold: 3 });
        let unknown = refused(&key, |p| _ = p.commitments.insert(9, p.commitments[&1].clone()));
        assert_eq!(unknown, ThresholdError::UnknownSigners { signers: vec![9] });
        let without_us = refused(&key, |p| {
            let ours = p.commitments.remove(&0).unwrap();
            p.commitments.insert(3, ours);
        });
        assert_eq!(without_us, ThresholdError::OwnCommitmentsMissing);
        let swapped = refused(&key, |p| {
            let other = p.commitments[&1].clone();
            p.commitments.insert(0, other);
        });
        assert_eq!(swapped, ThresholdError::OwnCommitmentsMissing);
        let malformed = |p: &mut SigningPackage| {
            p.commitments.get_mut(&1).unwrap().fill(0xff);
            p.commitments.get_mut(&2).unwrap().push(0);
        };
        let error = refused(&key, malformed);
        assert_eq!(error, ThresholdError::MalformedCommitments { signers: vec![1, 2] });
        assert_eq!(error.culprits(), [1, 2]);
        let mut signing = key.commit(&[0, 1, 2], b"m", None, 2);
        let shares = signing.package.commitments.keys().map(|i| (*i, vec![0; 32])).collect();
        malformed(&mut signing.package);
        assert_eq!(sign::aggregate(&signing.package, &shares, &key.keys).unwrap_err(), error);
    }
}

/// The identity would be the commitment to a nonce of 0.
#[test]
fn identity_commitment_is_rejected() {
    let key = Key::generate(ED, &[0, 1, 2], 2, 1);
    let mut identity = [0; 32];
    identity[0] = 1;
    for half in [0..32, 32..64] {
        let error =
            refused(&key, |p| p.commitments.get_mut(&1).unwrap()[half.clone()].copy_from_slice(&identity));
        assert_eq!(error, ThresholdError::MalformedCommitments { signers: vec![1] });
    }
    let compact =
        refused(&Key::generate(TR, &[0, 1, 2], 2, 1), |p| p.commitments.get_mut(&1).unwrap()[0] = 0x05);
    assert_eq!(compact, ThresholdError::MalformedCommitments { signers: vec![1] });
}

#[test]
fn nonces_shares_and_keys_of_different_keys_do_not_mix() {
    let (one, two) = (Key::generate(ED, &[0, 1, 2], 2, 1), Key::generate(ED, &[0, 1, 2], 2, 2));
    let tr = Key::generate(TR, &[0, 1, 2], 2, 1);
    let attempt = |share, keys| {
        let mut signing = one.commit(&[0, 1], b"m", None, 3);
        signing.nonces.remove(&0).unwrap().sign(&signing.package, share, keys).unwrap_err()
    };
    assert_eq!(attempt(&two.shares[&0], &one.keys), ThresholdError::ShareMismatch { participant: 0 });
    assert_eq!(attempt(&one.shares[&0], &two.keys), ThresholdError::ShareMismatch { participant: 0 });
    // Another participant's share of the right key, with our nonces.
    assert_eq!(attempt(&one.shares[&1], &one.keys), ThresholdError::OwnCommitmentsMissing);
    let mismatch = ThresholdError::ProfileMismatch { expected: ED, actual: TR };
    assert_eq!(attempt(&tr.shares[&0], &one.keys), mismatch);
    assert_eq!(attempt(&tr.shares[&0], &tr.keys), mismatch);
    let mismatch = ThresholdError::ProfileMismatch { expected: TR, actual: ED };
    assert_eq!(attempt(&one.shares[&0], &tr.keys), mismatch);
}

#[test]
fn aggregation_needs_shares_of_exactly_the_signers() {
    let key = Key::generate(TR, &[0, 1, 2, 3], 2, 1);
    let signing = key.commit(&[0, 1], b"m", None, 2);
    let package = signing.package.clone();
    let good = key.shares_for(signing);
    let moved: BTreeMap<_, _> = good.iter().map(|(i, share)| (i + 2, share.clone())).collect();
    let error = sign::aggregate(&package, &moved, &key.keys).unwrap_err();
    assert_eq!(error, ThresholdError::SignerSetMismatch { missing: vec![0, 1], unexpected: vec![2, 3] });
    assert_eq!(error.culprits(), Vec::<u16>::new());
    let signature = sign::aggregate(&package, &good, &key.keys).unwrap();
    assert!(verifies(TR, &key.keys.public_key(), b"m", &signature));
}

#[test]
fn aggregation_with_too_few_signers_is_rejected() {
    let key = Key::generate(ED, &[0, 1, 2], 2, 1);
    let package = key.commit(&[0], b"m", None, 2).package;
    let error = sign::aggregate(&package, &BTreeMap::from([(0, vec![0; 32])]), &key.keys).unwrap_err();
    assert_eq!(error, ThresholdError::TooFewSigners { signers: 1, threshold: 2 });
}

#[test]
fn tweak_that_is_no_scalar_of_the_curve_is_rejected() {
    let key = Key::generate(ED, &[0, 1, 2], 2, 1);
    let tweak = Tweak::new([0xff; 32]);
    let error = refused(&key, |p| p.tweak = Some(tweak));
    assert_eq!(error, ThresholdError::MalformedMaterial { what: "tweak" });
    let package = key.commit(&[0, 1], b"m", Some(tweak), 2).package;
    let shares = package.commitments.keys().map(|i| (*i, vec![0; 32])).collect();
    assert_eq!(sign::aggregate(&package, &shares, &key.keys).unwrap_err(), error);
}

/// The coordinator got all shares of a package before the key was reshared, and aggregates them afterwards.
#[test]
fn shares_of_a_former_epoch_sum_to_a_signature_under_the_key_of_a_later_one() {
    for (profile, is_child) in [(ED, false), (TR, false), (TR, true)] {
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        let child = is_child.then(|| derive::derive(&key.keys, &[1]).unwrap());
        let signing = key.commit(&[0, 1], b"m", child.as_ref().map(|child| child.tweak), 2);
        let package = signing.package.clone();
        let mut shares = key.shares_for(signing);
        let later = key.redistribute(&[1, 2], &[2, 3, 4], 3, 3);
        let too_few = ThresholdError::TooFewSigners { signers: 2, threshold: 3 };
        assert_eq!(sign::aggregate(&package, &shares, &later.keys).unwrap_err(), too_few);
        let signature = sign::aggregate_of_former_epoch(&package, &shares, &later.keys).unwrap();
        assert_eq!(signature, sign::aggregate(&package, &shares, &key.keys).unwrap());
        let public_key = child.map_or_else(|| later.keys.public_key(), |child| child.public_key.to_vec());
        assert!(verifies(profile, &public_key, b"m", &signature));

        let other = Key::generate(profile, &[0, 1, 2], 2, 4);
        let error = sign::aggregate_of_former_epoch(&package, &shares, &other.keys).unwrap_err();
        assert_eq!(error, ThresholdError::InvalidSignature);
        tamper_share(profile, 1, shares.get_mut(&1).unwrap());
        let error = sign::aggregate_of_former_epoch(&package, &shares, &later.keys).unwrap_err();
        assert_eq!((error.culprits(), error), (vec![], ThresholdError::InvalidSignature));
        shares.remove(&1);
        let error = sign::aggregate_of_former_epoch(&package, &shares, &later.keys).unwrap_err();
        assert!(matches!(error, ThresholdError::SignerSetMismatch { .. }), "{error:?}");
    }
}
