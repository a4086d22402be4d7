//! Proofs of knowledge: valid in one ceremony, for one sender and one set of commitments, in one encoding.

use frost_core::{Ciphersuite, Field, Group};
use gateway_threshold::redistribute::{self, Params};
use gateway_threshold::repair::{self, Admitted, Case};
use gateway_threshold::{Message, SignatureProfile, ThresholdError};

use crate::harness::{
    BINDING, ED, Key, Network, PROOF, nonce_point_and_challenge, redistribute_params, repair_params, rng,
    set, with_suite,
};

const SEED: u64 = 1;

/// Participant 0 of a reshare from 0, 1 and 2 to 1, 2 and 3. Dealers are 0 and 1.
fn dealer(key: &Key) -> Params {
    redistribute_params(key, 0, &[0, 1], &[1, 2, 3], 3)
}

/// Participant 0 of a repair of 2 by 0 and 1.
fn helper(key: &Key) -> repair::Params {
    repair_params(key, 0, 2, &[0, 1])
}

/// The broadcast of participant 0 in the honest ceremonies, or in others. The generator has the same state whenever it starts.
fn dealt(key: &Key, params: Params) -> Message {
    let share = key.shares.get(&params.me);
    redistribute::start(params, share, &mut rng(SEED)).unwrap().1.remove(0)
}

fn helped(key: &Key, params: repair::Params) -> Message {
    let share = key.shares.get(&params.me);
    repair::start(params, share, &mut rng(SEED)).unwrap().1.remove(0)
}

/// The errors of participant 2 in a reshare and in a repair, when `tamper` changes the broadcast of participant 0.
fn failures(key: &Key, tamper: [&dyn Fn(&mut Message); 2]) -> [ThresholdError; 2] {
    let networks = [Network::redistribute(key, &dealer(key), SEED), Network::repair(key, 2, &[0, 1], SEED)];
    let mut failures = networks
        .into_iter()
        .zip(tamper)
        .map(|(network, tamper)| network.failure_of(2, 0, 1, |message| tamper(message)));
    [failures.next().unwrap(), failures.next().unwrap()]
}

fn proof_of(message: &Message) -> Vec<u8> {
    message.body[message.body.len() - PROOF..].to_vec()
}

fn commitments_of(message: &Message) -> &[u8] {
    &message.body[BINDING..message.body.len() - PROOF]
}

fn put_proof(message: &mut Message, proof: &[u8]) {
    let at = message.body.len() - PROOF;
    message.body[at..].copy_from_slice(proof);
}

const INVALID: ThresholdError = ThresholdError::InvalidProofOfKnowledge { from: 0 };

/// The same share and the same commitments: only what the ceremony is bound to differs.
#[test]
fn proof_of_another_ceremony_over_the_same_commitments_names_its_sender() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        let (ours, repair) = (dealer(&key), helper(&key));
        let mut other_chain_code = key.keys.to_bytes();
        *other_chain_code.last_mut().unwrap() ^= 1;
        let keys = gateway_threshold::PublicKeys::from_bytes(&other_chain_code).unwrap();
        let deals = [
            Params { ceremony_id: [8; 32], ..ours.clone() },
            Params { dealers: set(&[0, 1, 2]), ..ours.clone() },
            Params { roster: set(&[1, 2, 4]), ..ours.clone() },
            Params { keys, ..ours.clone() },
        ];
        let root = Admitted { root: Some([8; 32]), ..Admitted::default() };
        let helps = [
            repair::Params { ceremony_id: [8; 32], ..repair.clone() },
            repair::Params { admitted: root, ..repair.clone() },
        ];
        for (i, other) in deals.into_iter().enumerate() {
            let (deal, help) = (dealt(&key, other), helped(&key, helps[i % 2].clone()));
            assert_eq!(commitments_of(&deal), commitments_of(&dealt(&key, ours.clone())));
            assert_eq!(commitments_of(&help), commitments_of(&helped(&key, repair.clone())));
            let replays: [&dyn Fn(&mut Message); 2] =
                [&|message| put_proof(message, &proof_of(&deal)), &|message| {
                    put_proof(message, &proof_of(&help))
                }];
            assert_eq!(failures(&key, replays), [INVALID, INVALID]);
        }
        assert_eq!(INVALID.culprits(), [0]);
    }
}

/// In the same ceremony.
#[test]
fn proof_over_other_commitments_or_of_another_participant_or_epoch_names_its_sender() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        let next = key.redistribute(&[0, 1], &[0, 1, 2], 2, 2);
        let other_polynomial = redistribute::start(dealer(&key), key.shares.get(&0), &mut rng(9)).unwrap().1;
        let case = Case { reference: [6; 32], ..helper(&key).case };
        let other_split = helped(&key, repair::Params { case, ..helper(&key) });
        for (deal, help) in [
            (proof_of(&other_polynomial[0]), proof_of(&other_split)),
            (
                proof_of(&dealt(&key, Params { me: 1, ..dealer(&key) })),
                proof_of(&helped(&key, repair::Params { me: 1, ..helper(&key) })),
            ),
            (proof_of(&dealt(&next, dealer(&next))), proof_of(&helped(&next, helper(&next)))),
        ] {
            let replays: [&dyn Fn(&mut Message); 2] =
                [&|message| put_proof(message, &deal), &|message| put_proof(message, &help)];
            assert_eq!(failures(&key, replays), [INVALID, INVALID]);
        }
    }
}

#[test]
fn altering_any_byte_of_a_proof_names_its_sender() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        for from_end in 1..=PROOF {
            let alter = |message: &mut Message| {
                let at = message.body.len() - from_end;
                message.body[at] ^= 1;
            };
            for error in failures(&key, [&alter, &alter]) {
                let malformed = ThresholdError::MalformedMessage { from: 0, round: 1 };
                assert!(error == INVALID || error == malformed, "{error}");
                assert_eq!(error.culprits(), [0]);
            }
        }
    }
}

/// The order of the scalars, as the suite encodes them: the second encoding of 0 if decoders reduced it.
fn order(profile: SignatureProfile) -> [u8; 32] {
    with_suite!(profile, C => {
        type F = <<C as Ciphersuite>::Group as Group>::Field;
        let mut order = F::serialize(&(F::zero() - F::one()));
        let lowest = if profile == ED { 0 } else { 31 };
        order[lowest] += 1;
        order
    })
}

/// Each scalar at the order and above, and zeros in place of both.
#[test]
fn noncanonical_or_empty_proof_is_rejected() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        let malformed = ThresholdError::MalformedMessage { from: 0, round: 1 };
        for at in [PROOF, PROOF / 2] {
            for wrong in [order(profile), [0xff; 32]] {
                let put = |message: &mut Message| {
                    let at = message.body.len() - at;
                    message.body[at..at + 32].copy_from_slice(&wrong);
                };
                assert_eq!(failures(&key, [&put, &put]), [malformed.clone(), malformed.clone()]);
            }
        }
        // The nonce would be the identity, which has no encoding.
        let empty = |message: &mut Message| put_proof(message, &[0; PROOF]);
        assert_eq!(failures(&key, [&empty, &empty]), [INVALID, INVALID]);
    }
}

/// Two challenges with one nonce would reveal the share to all who read the broadcasts. A machine that was copied has the same
/// generator in both copies.
#[test]
fn repeated_randomness_repeats_no_nonce_in_another_statement() {
    for profile in SignatureProfile::ALL {
        let key = Key::generate(profile, &[0, 1, 2], 2, 1);
        let (ours, repair) = (dealer(&key), helper(&key));
        let case = Case { reference: [6; 32], ..repair.case.clone() };
        let nonces = [
            dealt(&key, ours.clone()),
            dealt(&key, Params { ceremony_id: [8; 32], ..ours.clone() }),
            dealt(&key, Params { roster: set(&[1, 2, 4]), ..ours }),
            helped(&key, repair.clone()),
            helped(&key, repair::Params { ceremony_id: [8; 32], ..repair.clone() }),
            helped(&key, repair::Params { case, ..repair }),
        ]
        .map(|message| nonce_point_and_challenge(profile, &key.keys.verifying_shares()[&0], &message).0);
        for (i, nonce) in nonces.iter().enumerate() {
            assert!(!nonces[..i].contains(nonce), "{i}");
        }
    }
}
