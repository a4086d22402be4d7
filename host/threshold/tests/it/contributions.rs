//! The contributions to a repair: the same for the same case, and compared with those that were admitted.

use std::collections::BTreeSet;

use gateway_threshold::repair::{Admitted, Case, Params};
use gateway_threshold::{Message, SignatureProfile, ThresholdError, repair};

use crate::harness::{BINDING, ED, Key, Network, PROOF, rebind, repair_params, rng, secret, set};

const TARGET: u16 = 3;
const HELPERS: [u16; 3] = [0, 1, 2];

fn key(profile: SignatureProfile) -> Key {
    Key::generate(profile, &[0, 1, 2, 3], 2, 1)
}

/// The parameters, with the contributions of all helpers admitted.
fn admitted(key: &Key) -> Params {
    let mut params = repair_params(key, TARGET, TARGET, &HELPERS);
    let ids = HELPERS.map(|helper| params.case.contribution(&key.shares[&helper]).unwrap());
    params.admitted = Admitted { root: Some(params.case.root(&ids)), contributions: ids.to_vec() };
    params
}

fn sent(params: &Params, key: &Key, me: u16) -> Vec<Message> {
    repair::start(Params { me, ..params.clone() }, key.shares.get(&me), &mut rng(5)).unwrap().1
}

#[test]
fn admitted_contributions_restore_the_share() {
    for profile in SignatureProfile::ALL {
        let key = key(profile);
        for only_root in [false, true] {
            let mut params = admitted(&key);
            if only_root {
                params.admitted.contributions.clear();
            }
            let mut network = Network::repair_admitted(&key, &params, 1);
            network.run(|_| true);
            assert_eq!(secret(&network.key().shares[&TARGET]), secret(&key.shares[&TARGET]));
        }
    }
}

/// Two runs of one case are the same messages but for their binding, and the proof that is bound to it. Every other case has other
/// pieces.
#[test]
fn pieces_depend_on_every_member_of_the_case_and_on_nothing_else() {
    for profile in SignatureProfile::ALL {
        let (first, again) = (key(profile), key(profile));
        let bodies = |case: &Case, ceremony: u8, shares: &Key| {
            let ceremony_id = [ceremony; 32];
            let params = Params { case: case.clone(), admitted: Admitted::default(), me: 0, ceremony_id };
            let sent = sent(&params, shares, 0).into_iter();
            let without_proof = |it: &Message| it.body.len() - if it.to.is_none() { PROOF } else { 0 };
            sent.map(|it| it.body[BINDING..without_proof(&it)].to_vec()).collect::<Vec<_>>()
        };
        let case = repair_params(&first, 0, TARGET, &HELPERS).case;
        assert_eq!(bodies(&case, 1, &first), bodies(&case, 2, &again));
        // A refresh gives other shares of the same key.
        let refreshed = first.redistribute(&[0, 1], &[0, 1, 2, 3], 2, 2);
        let others = [
            (case.clone(), &first),
            (Case { reference: [6; 32], ..case.clone() }, &first),
            (Case { target: 2, helpers: set(&[0, 1, 3]), ..case.clone() }, &first),
            (Case { helpers: set(&[0, 1]), ..case.clone() }, &first),
            (Case { keys: refreshed.keys.clone(), ..case }, &refreshed),
        ];
        let mut seen = BTreeSet::new();
        for (case, key) in others {
            for private in bodies(&case, 1, key).into_iter().skip(1) {
                assert!(seen.insert(private), "a piece is used twice");
            }
        }
    }
}

/// The content id is that of the commitments which the helper sends, and another one in every other case.
#[test]
fn content_id_is_asked_for_before_the_repair_without_state() {
    let key = key(ED);
    let params = admitted(&key);
    let ids: BTreeSet<_> = params.admitted.contributions.iter().collect();
    assert_eq!(ids.len(), HELPERS.len());
    let other = Case { reference: [6; 32], ..params.case.clone() };
    assert_ne!(other.contribution(&key.shares[&0]).unwrap(), params.admitted.contributions[0]);
    assert_ne!(other.root(&params.admitted.contributions), params.admitted.root.unwrap());
    let not_a_helper = params.case.contribution(&key.shares[&TARGET]).unwrap_err();
    assert_eq!(not_a_helper, ThresholdError::NotInRoster { participant: TARGET });
}

/// Helper 0 splits its current share otherwise than it announced: all pieces and commitments fit.
#[test]
fn helper_that_changes_its_contribution_is_named_by_all() {
    for profile in SignatureProfile::ALL {
        let key = key(profile);
        let params = admitted(&key);
        let mut network = Network::repair_admitted(&key, &params, 1);
        let binding = network.in_flight[0].message.body[..BINDING].to_vec();
        network.in_flight.retain(|flight| flight.message.from != 0);
        let mut other = repair_params(&key, 0, TARGET, &HELPERS);
        other.case.reference = [9; 32];
        network.post(rebind(sent(&other, &key, 0), &binding, &key.shares[&0]));
        network.run(|_| true);
        for honest in 1..4 {
            let error = &network.failures[&honest];
            assert_eq!(*error, ThresholdError::ContributionMismatch { helpers: vec![0] });
            assert_eq!(error.culprits(), [0]);
        }
        assert!(network.outputs.is_empty());
    }
}

/// An honest helper whose contribution is not admitted sends nothing, so that it cannot be blamed. The root must be that of the
/// content ids, and there must be one for each helper.
#[test]
fn what_is_admitted_is_checked_before_any_message() {
    let key = key(ED);
    let valid = admitted(&key).admitted;
    let [first, second, third] = valid.contributions[..] else { panic!("{valid:?}") };
    let start = |me: u16, admitted: Admitted| {
        let params = Params { me, admitted, ..repair_params(&key, me, TARGET, &HELPERS) };
        repair::start(params, key.shares.get(&me), &mut rng(5)).map(drop)
    };
    let no_root = |contributions| Admitted { contributions, root: None };
    let refused = Err(ThresholdError::NotAdmitted);
    assert_eq!(start(0, valid.clone()), Ok(()));
    assert_eq!(start(0, no_root(vec![second, second, third])), refused, "of another helper");
    assert_eq!(start(1, no_root(vec![first, [1; 32], third])), refused, "made up");
    assert_eq!(start(2, no_root(vec![[1; 32], [1; 32], third])), Ok(()), "its own is admitted");
    for contributions in [vec![first, second], vec![first, second, third, third]] {
        assert_eq!(start(0, no_root(contributions.clone())), refused);
        assert_eq!(start(TARGET, no_root(contributions)), refused);
    }
    for me in [0, TARGET] {
        assert_eq!(start(me, Admitted { root: Some([1; 32]), ..valid.clone() }), refused);
    }
    assert!(ThresholdError::NotAdmitted.culprits().is_empty());
}

/// Only the root is admitted, and it is another one: no participant is to blame, and none gets a share.
#[test]
fn contributions_of_another_root_are_refused_and_no_helper_is_named() {
    for profile in SignatureProfile::ALL {
        let key = key(profile);
        let mut params = repair_params(&key, TARGET, TARGET, &HELPERS);
        params.admitted.root = Some([1; 32]);
        let mut network = Network::repair_admitted(&key, &params, 1);
        network.run(|_| true);
        for participant in 0..4 {
            assert_eq!(network.failures[&participant], ThresholdError::NotAdmitted);
        }
        assert!(network.outputs.is_empty());
    }
}
