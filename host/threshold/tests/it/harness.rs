//! Runs the sessions of a ceremony in one process, and verifies signatures with libraries that share no code with FROST.

use std::collections::{BTreeMap, BTreeSet};

use frost_core::{Ciphersuite, Field, Group};
use gateway_threshold::keygen::{self, Params};
use gateway_threshold::sign::{self, Nonces, Signature, SigningPackage};
use gateway_threshold::{
    KeyShare, Message, Output, Progress, PublicKeys, Session, SignatureProfile, ThresholdError, Tweak,
    redistribute, repair,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

pub(crate) use SignatureProfile::{FrostEd25519Sha512 as ED, FrostSecp256k1Sha256Tr as TR};

pub(crate) const CEREMONY: [u8; 32] = [7; 32];

/// Bytes before the payload of every body.
pub(crate) const BINDING: usize = 32;

/// Bytes of a proof of knowledge, at the end of a broadcast.
pub(crate) const PROOF: usize = 64;

pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

pub(crate) fn params(profile: SignatureProfile, me: u16, roster: &[u16], threshold: u16) -> Params {
    Params { profile, me, roster: set(roster), threshold, ceremony_id: CEREMONY }
}

pub(crate) fn redistribute_params(
    key: &Key,
    me: u16,
    dealers: &[u16],
    roster: &[u16],
    threshold: u16,
) -> redistribute::Params {
    let (keys, dealers, roster) = (key.keys.clone(), set(dealers), set(roster));
    redistribute::Params { keys, me, dealers, roster, threshold, ceremony_id: CEREMONY }
}

pub(crate) fn repair_params(key: &Key, me: u16, target: u16, helpers: &[u16]) -> repair::Params {
    let case = repair::Case { keys: key.keys.clone(), target, helpers: set(helpers), reference: [5; 32] };
    repair::Params { case, admitted: repair::Admitted::default(), me, ceremony_id: CEREMONY }
}

pub(crate) fn set(participants: &[u16]) -> BTreeSet<u16> {
    participants.iter().copied().collect()
}

/// One ceremony of each protocol, with a participant in each role: in the reshare, 0 deals and leaves, and 3 joins.
pub(crate) fn every_protocol(profile: SignatureProfile) -> [Network; 3] {
    let key = Key::generate(profile, &[0, 1, 2], 2, 1);
    let reshare = redistribute_params(&key, 0, &[0, 1], &[1, 2, 3], 3);
    [
        Network::start(profile, &[0, 1, 2], 2, 1),
        Network::redistribute(&key, &reshare, 1),
        Network::repair(&key, 1, &[0, 2], 1),
    ]
}

pub(crate) fn copy(message: &Message) -> Message {
    let Message { from, to, round, ref body } = *message;
    Message { from, to, round, body: Zeroizing::new(body.to_vec()) }
}

/// Changes the scalar of a private message in its least significant byte, so that it stays below the order.
pub(crate) fn flip(profile: SignatureProfile, message: &mut Message) {
    message.body[if profile == ED { BINDING } else { BINDING + 31 }] ^= 1;
}

/// Replaces the messages' binding by that of another ceremony, as a dishonest participant could. It knows its share, and proves it
/// again in the broadcast.
pub(crate) fn rebind(mut messages: Vec<Message>, binding: &[u8], share: &KeyShare) -> Vec<Message> {
    for message in &mut messages {
        message.body[..BINDING].copy_from_slice(binding);
        if message.round == 1 {
            let at = message.body.len() - PROOF;
            let commitments = &message.body[BINDING..at];
            let proof = proof(share.profile(), binding, message.from, commitments, &secret(share));
            message.body[at..].copy_from_slice(&proof);
        }
    }
    messages
}

/// `H(tag, a, b, …)` of `protocols.md`.
pub(crate) fn h(tag: &str, fields: &[Vec<u8>]) -> [u8; 32] {
    let field = |bytes: &[u8]| [&(bytes.len() as u64).to_be_bytes(), bytes].concat();
    let fields = fields.iter().flat_map(|bytes| field(bytes));
    Sha256::digest(field(tag.as_bytes()).into_iter().chain(fields).collect::<Vec<u8>>()).into()
}

/// A number as a field of [`h`].
pub(crate) fn number(number: u64) -> Vec<u8> {
    number.to_be_bytes().into()
}

/// Evaluates `$body` with `$Suite` as the FROST suite of `$profile`.
macro_rules! with_suite {
    ($profile:expr, $Suite:ident => $body:expr) => {
        match $profile {
            $crate::harness::ED => {
                type $Suite = frost_ed25519::Ed25519Sha512;
                $body
            }
            $crate::harness::TR => {
                type $Suite = frost_secp256k1_tr::Secp256K1Sha256TR;
                $body
            }
        }
    };
}
pub(crate) use with_suite;

/// Steps 0.10 and 0.11 of `protocols.md`, with a fixed nonce: the proof that its maker knows the secret.
pub(crate) fn proof(
    profile: SignatureProfile,
    binding: &[u8],
    from: u16,
    commitments: &[u8],
    secret: &[u8],
) -> Vec<u8> {
    with_suite!(profile, C => {
        type F = <<C as Ciphersuite>::Group as Group>::Field;
        let nonce = F::one() + F::one();
        let nonce_point = <C as Ciphersuite>::Group::generator() * nonce;
        let nonce_point = <C as Ciphersuite>::Group::serialize(&nonce_point).unwrap();
        let fields = [binding.into(), number(from.into()), commitments.into(), nonce_point.to_vec()];
        let challenge = C::HID(&h("svc/proof/v1", &fields)).unwrap();
        let response = nonce + challenge * F::deserialize(secret.try_into().unwrap()).unwrap();
        [F::serialize(&challenge), F::serialize(&response)].concat()
    })
}

/// `μG − cY` of the proof at the end of a broadcast, which is the nonce times the generator, and the challenge `c`. `known` is `Y`.
pub(crate) fn nonce_point_and_challenge(
    profile: SignatureProfile,
    known: &[u8],
    message: &Message,
) -> (Vec<u8>, Vec<u8>) {
    let proof = &message.body[message.body.len() - PROOF..];
    with_suite!(profile, C => {
        type G = <C as Ciphersuite>::Group;
        let scalar = |bytes: &[u8]| <G as Group>::Field::deserialize(bytes.try_into().unwrap()).unwrap();
        let known = G::deserialize(known.try_into().unwrap()).unwrap();
        let nonce_point = G::generator() * scalar(&proof[32..]) - known * scalar(&proof[..32]);
        (G::serialize(&nonce_point).unwrap().to_vec(), proof[..32].to_vec())
    })
}

/// The 32 secret bytes of a share.
pub(crate) fn secret(share: &KeyShare) -> Vec<u8> {
    share.to_secret_bytes()[6..38].to_vec()
}

/// A message that was sent to a participant and not delivered yet.
pub(crate) struct InFlight {
    pub(crate) recipient: u16,
    pub(crate) message: Message,
}

/// The participants of a ceremony, and the messages between them that were not delivered yet.
pub(crate) struct Network {
    pub(crate) participants: BTreeSet<u16>,
    pub(crate) sessions: BTreeMap<u16, Session>,
    pub(crate) in_flight: Vec<InFlight>,
    pub(crate) outputs: BTreeMap<u16, Output>,
    pub(crate) failures: BTreeMap<u16, ThresholdError>,
    rng: ChaCha20Rng,
}

impl Network {
    pub(crate) fn start(profile: SignatureProfile, roster: &[u16], threshold: u16, seed: u64) -> Self {
        Self::open(set(roster), seed, |me, rng| keygen::start(params(profile, me, roster, threshold), rng))
    }

    /// Redistributes a key among the holders of `key.shares`.
    pub(crate) fn redistribute(key: &Key, params: &redistribute::Params, seed: u64) -> Self {
        let participants = params.dealers.union(&params.roster).copied().collect();
        Self::open(participants, seed, |me, rng| {
            redistribute::start(redistribute::Params { me, ..params.clone() }, key.shares.get(&me), rng)
        })
    }

    /// Repairs the target's share. The target starts without it.
    pub(crate) fn repair(key: &Key, target: u16, helpers: &[u16], seed: u64) -> Self {
        Self::repair_admitted(key, &repair_params(key, target, target, helpers), seed)
    }

    /// Repairs the share of the case with the contributions that were admitted.
    pub(crate) fn repair_admitted(key: &Key, params: &repair::Params, seed: u64) -> Self {
        let target = params.case.target;
        let participants = params.case.helpers.iter().copied().chain([target]).collect();
        Self::open(participants, seed, |me, rng| {
            let share = key.shares.get(&me).filter(|_| me != target);
            repair::start(repair::Params { me, ..params.clone() }, share, rng)
        })
    }

    fn open(
        participants: BTreeSet<u16>,
        seed: u64,
        mut start: impl FnMut(u16, &mut ChaCha20Rng) -> Result<(Session, Vec<Message>), ThresholdError>,
    ) -> Self {
        let mut network = Self {
            participants,
            sessions: BTreeMap::new(),
            in_flight: Vec::new(),
            outputs: BTreeMap::new(),
            failures: BTreeMap::new(),
            rng: rng(seed),
        };
        for me in network.participants.clone() {
            let (session, messages) = start(me, &mut network.rng).unwrap();
            network.sessions.insert(me, session);
            network.post(messages);
        }
        network
    }

    /// Queues messages for their recipients.
    pub(crate) fn post(&mut self, messages: Vec<Message>) {
        for message in messages {
            for &recipient in self.participants.iter().filter(|peer| **peer != message.from) {
                if message.to.is_none_or(|to| to == recipient) {
                    self.in_flight.push(InFlight { recipient, message: copy(&message) });
                }
            }
        }
    }

    /// Delivers one message and posts the messages sent in response.
    pub(crate) fn deliver(&mut self, InFlight { recipient, message }: InFlight) {
        match self.sessions.get_mut(&recipient).unwrap().handle(message) {
            Ok(Progress::Wait) => {}
            Ok(Progress::Send(messages)) => self.post(messages),
            Ok(Progress::Done { send, output }) => {
                self.post(send);
                assert!(self.outputs.insert(recipient, *output).is_none(), "{recipient} is done twice");
            }
            Err(error) => _ = self.failures.entry(recipient).or_insert(error),
        }
    }

    /// Delivers all messages in random order; `tap` may change a message, or drop it by returning false.
    pub(crate) fn run(&mut self, mut tap: impl FnMut(&mut InFlight) -> bool) {
        while !self.in_flight.is_empty() {
            let next = usize::try_from(self.rng.next_u64()).unwrap() % self.in_flight.len();
            let mut flight = self.in_flight.swap_remove(next);
            if tap(&mut flight) {
                self.deliver(flight);
            }
        }
    }

    /// Runs with `tamper` applied to the messages of this round from `liar` to `victim`. Returns the victim's error.
    pub(crate) fn failure_of(
        mut self,
        victim: u16,
        liar: u16,
        round: u8,
        tamper: impl Fn(&mut Message),
    ) -> ThresholdError {
        self.run(|InFlight { recipient, message }| {
            if (*recipient, message.from, message.round) == (victim, liar, round) {
                tamper(message);
            }
            true
        });
        assert!(!self.outputs.contains_key(&victim), "participant {victim} has a result");
        self.failures.remove(&victim).expect("the victim has an error")
    }

    /// Delivers the echoes after all were sent, since a participant whose session failed sends no echo.
    pub(crate) fn run_echoes_last(&mut self) {
        let mut echoes = Vec::new();
        self.run(|InFlight { recipient, message }| {
            let is_echo = message.round == 3;
            if is_echo {
                echoes.push(InFlight { recipient: *recipient, message: copy(message) });
            }
            !is_echo
        });
        echoes.into_iter().for_each(|echo| self.deliver(echo));
    }

    /// The key and its shares. Panics unless all participants finished with the same public keys and transcript.
    pub(crate) fn key(self) -> Key {
        assert_eq!(self.failures, BTreeMap::new());
        assert_eq!(self.outputs.keys().copied().collect::<BTreeSet<_>>(), self.participants);
        let first = self.outputs.values().next().unwrap();
        let keys = first.keys.clone();
        let transcript = first.transcript;
        let agree = |output: &Output| output.keys == keys && output.transcript == transcript;
        assert!(self.outputs.values().all(agree));
        let share = |(i, output): (u16, Output)| output.share.map(|share| (i, share));
        let shares: BTreeMap<_, _> = self.outputs.into_iter().filter_map(share).collect();
        shares.values().for_each(|share| share.check_belongs(&keys).unwrap());
        Key { keys, shares, transcript }
    }
}

/// A key with its shares, in one place.
pub(crate) struct Key {
    pub(crate) keys: PublicKeys,
    pub(crate) shares: BTreeMap<u16, KeyShare>,
    pub(crate) transcript: [u8; 32],
}

/// A signature between round one and round two.
pub(crate) struct Signing {
    pub(crate) nonces: BTreeMap<u16, Nonces>,
    pub(crate) package: SigningPackage,
}

impl Key {
    /// Redistributes the key. The result has the shares of the new roster.
    pub(crate) fn redistribute(&self, dealers: &[u16], roster: &[u16], threshold: u16, seed: u64) -> Self {
        let params = redistribute_params(self, 0, dealers, roster, threshold);
        let mut network = Network::redistribute(self, &params, seed);
        network.run(|_| true);
        let key = network.key();
        assert_eq!(key.shares.keys().copied().collect::<BTreeSet<_>>(), params.roster);
        key
    }

    pub(crate) fn generate(profile: SignatureProfile, roster: &[u16], threshold: u16, seed: u64) -> Self {
        let mut network = Network::start(profile, roster, threshold, seed);
        network.run(|_| true);
        network.key()
    }

    pub(crate) fn commit(&self, signers: &[u16], message: &[u8], tweak: Option<Tweak>, seed: u64) -> Signing {
        let mut rng = rng(seed);
        let mut commitments = BTreeMap::new();
        let mut nonces = BTreeMap::new();
        for signer in signers {
            let (secret, public) = sign::commit(&self.shares[signer], &mut rng).unwrap();
            nonces.insert(*signer, secret);
            commitments.insert(*signer, public);
        }
        Signing { nonces, package: SigningPackage { message: message.to_vec(), commitments, tweak } }
    }

    pub(crate) fn shares_for(&self, signing: Signing) -> BTreeMap<u16, Vec<u8>> {
        let Signing { nonces, package } = signing;
        let sign =
            |(i, nonces): (u16, Nonces)| (i, nonces.sign(&package, &self.shares[&i], &self.keys).unwrap());
        nonces.into_iter().map(sign).collect()
    }

    pub(crate) fn sign(&self, signers: &[u16], message: &[u8], tweak: Option<Tweak>, seed: u64) -> Signature {
        let signing = self.commit(signers, message, tweak, seed);
        let package = signing.package.clone();
        sign::aggregate(&package, &self.shares_for(signing), &self.keys).unwrap()
    }
}

/// Whether an independent library accepts the signature. Panics if `sign::verify` disagrees.
pub(crate) fn verifies(
    profile: SignatureProfile,
    public_key: &[u8],
    message: &[u8],
    signature: &[u8; 64],
) -> bool {
    let independent = match profile {
        ED => ed25519_dalek::VerifyingKey::from_bytes(public_key.try_into().unwrap())
            .unwrap()
            .verify_strict(message, &ed25519_dalek::Signature::from_bytes(signature))
            .is_ok(),
        TR => secp256k1::Secp256k1::verification_only()
            .verify_schnorr(
                &secp256k1::schnorr::Signature::from_byte_array(*signature),
                message,
                &secp256k1::XOnlyPublicKey::from_byte_array(public_key.try_into().unwrap()).unwrap(),
            )
            .is_ok(),
    };
    let ours = sign::verify(profile, public_key, message, signature).is_ok();
    assert_eq!(independent, ours, "verifiers disagree");
    independent
}

/// All subsets of `roster` of this size, ascending.
pub(crate) fn subsets(roster: &[u16], size: usize) -> Vec<Vec<u16>> {
    let all = (0_u32..1 << roster.len()).filter(|bits| bits.count_ones() as usize == size);
    all.map(|bits| roster.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, p)| *p).collect())
        .collect()
}

/// `size` different participants, with indexes up to 65534.
pub(crate) fn random_roster(size: usize, seed: u64) -> Vec<u16> {
    let mut rng = rng(seed);
    let mut roster = BTreeSet::new();
    while roster.len() < size {
        roster.insert(u16::try_from(rng.next_u32() % 65535).unwrap());
    }
    roster.into_iter().collect()
}
