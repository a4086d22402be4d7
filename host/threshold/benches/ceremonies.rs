//! Measures the time of each protocol, for all participants together in one thread, and compares it with the frost crates alone.
//!
//! `cargo bench -p gateway-threshold --bench ceremonies`. The two sides of a line run alternately, so that a
//! busy machine slows both: ratios are more reliable than milliseconds. `ours` includes all work of a session:
//! encoding, checking that encodings are canonical, hashing, the echo.

#![expect(clippy::print_stdout, reason = "it prints a table")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gateway_threshold::sign::{self, SigningPackage};
use gateway_threshold::{KeyShare, Message, Progress, PublicKeys, Session, SignatureProfile};
use gateway_threshold::{keygen, redistribute, repair};
use rand_core::OsRng;

/// Runs of each side; the median is printed.
const RUNS: usize = 15;
const MESSAGE: &[u8] = &[7; 32];
const CEREMONY: [u8; 32] = [7; 32];

fn main() {
    println!(
        "{:<26}{:<9}{:<26}{:>9}{:>9}{:>7}",
        "profile", "size", "protocol", "ours ms", "frost ms", "ratio"
    );
    for (threshold, n) in [(2, 3), (3, 5), (7, 10)] {
        measure::<frost_ed25519::Ed25519Sha512>(SignatureProfile::FrostEd25519Sha512, threshold, n);
        measure::<frost_secp256k1_tr::Secp256K1Sha256TR>(
            SignatureProfile::FrostSecp256k1Sha256Tr,
            threshold,
            n,
        );
    }
}

fn measure<C: frost_core::Ciphersuite>(profile: SignatureProfile, threshold: u16, n: u16) {
    let roster: BTreeSet<u16> = (0..n).collect();
    let quorum: BTreeSet<u16> = (0..threshold).collect();
    let key = Key::generate(profile, &roster, threshold);
    let bare = frost::Key::<C>::generate(threshold, n);
    let line = |protocol: &str, ours: &mut dyn FnMut(), frost: Option<&mut dyn FnMut()>| {
        let (ours, frost) = medians(ours, frost);
        let frost_ms = frost.map_or("-".to_owned(), |frost| format!("{:.2}", frost * 1e3));
        let ratio = frost.map_or("-".to_owned(), |frost| format!("{:.2}", ours / frost));
        let size = format!("{threshold}-of-{n}");
        println!("{:<26}{size:<9}{protocol:<26}{:>9.2}{frost_ms:>9}{ratio:>7}", profile.name(), ours * 1e3);
    };
    line(
        "key generation",
        &mut || drop(Key::generate(profile, &roster, threshold)),
        Some(&mut || drop(frost::Key::<C>::generate(threshold, n))),
    );
    line("sign", &mut || key.sign(&quorum), Some(&mut || bare.sign()));
    let redistribute = |dealers: &BTreeSet<u16>, roster: &BTreeSet<u16>, threshold| {
        _ = key.redistribute(dealers, roster, threshold);
    };
    line(
        "refresh, t dealers",
        &mut || redistribute(&quorum, &roster, threshold),
        Some(&mut || bare.refresh()),
    );
    line(
        "refresh, all deal",
        &mut || redistribute(&roster, &roster, threshold),
        Some(&mut || bare.refresh()),
    );
    // To a larger roster that overlaps the old one.
    let (next, next_threshold) = ((1..n + 3).collect(), threshold + 1);
    let name = format!("reshare to {next_threshold}-of-{}", n + 2);
    line(&name, &mut || redistribute(&quorum, &next, next_threshold), None);
    line("repair", &mut || key.repair(n - 1, &quorum), Some(&mut || bare.repair()));
}

/// Medians in seconds, of alternating runs.
fn medians(ours: &mut dyn FnMut(), mut frost: Option<&mut dyn FnMut()>) -> (f64, Option<f64>) {
    let (mut our_times, mut frost_times) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        our_times.push(time(ours));
        if let Some(frost) = &mut frost {
            frost_times.push(time(frost));
        }
    }
    (median(our_times).unwrap(), median(frost_times))
}

fn time(work: &mut dyn FnMut()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Option<f64> {
    times.sort_unstable();
    times.get(times.len() / 2).map(Duration::as_secs_f64)
}

/// A key of this crate, with all shares in one place.
struct Key {
    keys: PublicKeys,
    shares: BTreeMap<u16, KeyShare>,
}

impl Key {
    fn generate(profile: SignatureProfile, roster: &BTreeSet<u16>, threshold: u16) -> Self {
        run(roster, |me| {
            let roster = roster.clone();
            let params = keygen::Params { profile, me, roster, threshold, ceremony_id: CEREMONY };
            keygen::start(params, &mut OsRng).unwrap()
        })
    }

    fn redistribute(&self, dealers: &BTreeSet<u16>, roster: &BTreeSet<u16>, threshold: u16) -> Self {
        run(&(dealers | roster), |me| {
            let (keys, dealers, roster) = (self.keys.clone(), dealers.clone(), roster.clone());
            let params = redistribute::Params { keys, me, dealers, roster, threshold, ceremony_id: CEREMONY };
            redistribute::start(params, self.shares.get(&me), &mut OsRng).unwrap()
        })
    }

    fn repair(&self, target: u16, helpers: &BTreeSet<u16>) {
        let mut everyone = helpers.clone();
        everyone.insert(target);
        run(&everyone, |me| {
            let (keys, helpers) = (self.keys.clone(), helpers.clone());
            let case = repair::Case { keys, target, helpers, reference: CEREMONY };
            let admitted = repair::Admitted::default();
            let params = repair::Params { case, admitted, me, ceremony_id: CEREMONY };
            repair::start(params, self.shares.get(&me), &mut OsRng).unwrap()
        });
    }

    fn sign(&self, signers: &BTreeSet<u16>) {
        let signers = signers.iter().map(|signer| (*signer, self.shares.get(signer).unwrap()));
        let (mut commitments, mut nonces) = (BTreeMap::new(), Vec::new());
        for (signer, share) in signers {
            let (secret, public) = sign::commit(share, &mut OsRng).unwrap();
            commitments.insert(signer, public);
            nonces.push((signer, share, secret));
        }
        let package = SigningPackage { message: MESSAGE.to_vec(), commitments, tweak: None };
        let sign = |(signer, share, secret): (u16, &KeyShare, sign::Nonces)| {
            (signer, secret.sign(&package, share, &self.keys).unwrap())
        };
        let shares = nonces.into_iter().map(sign).collect();
        sign::aggregate(&package, &shares, &self.keys).unwrap();
    }
}

/// Runs all sessions of a ceremony to their end.
fn run(participants: &BTreeSet<u16>, start: impl Fn(u16) -> (Session, Vec<Message>)) -> Key {
    let mut sessions = BTreeMap::new();
    let mut waiting = Vec::new();
    for &participant in participants {
        let (session, messages) = start(participant);
        sessions.insert(participant, session);
        waiting.extend(messages);
    }
    let (mut keys, mut shares) = (None, BTreeMap::new());
    while let Some(message) = waiting.pop() {
        for (&participant, session) in &mut sessions {
            let for_it = message.to.map_or(message.from != participant, |to| to == participant);
            if !for_it {
                continue;
            }
            let Message { from, to, round, ref body } = message;
            match session.handle(Message { from, to, round, body: body.clone() }).unwrap() {
                Progress::Wait => {}
                Progress::Send(messages) => waiting.extend(messages),
                Progress::Done { send, output } => {
                    waiting.extend(send);
                    keys = Some(output.keys);
                    shares.extend(output.share.map(|share| (participant, share)));
                }
            }
        }
    }
    Key { keys: keys.unwrap(), shares }
}

/// The same rounds with frost-core only, without encoding and with only its own checks.
mod frost {
    use std::collections::BTreeMap;

    use frost_core::keys::{KeyPackage, PublicKeyPackage, dkg, refresh, repairable};
    use frost_core::{Ciphersuite, Identifier, SigningPackage, aggregate, round1, round2};
    use rand_core::OsRng;

    type Packages<C> = BTreeMap<Identifier<C>, dkg::round1::Package<C>>;

    pub(super) struct Key<C: Ciphersuite> {
        keys: PublicKeyPackage<C>,
        shares: BTreeMap<Identifier<C>, KeyPackage<C>>,
        threshold: u16,
    }

    /// The messages that one participant received.
    fn others<C: Ciphersuite, T: Clone>(
        all: &BTreeMap<Identifier<C>, T>,
        me: &Identifier<C>,
    ) -> BTreeMap<Identifier<C>, T> {
        all.iter().filter(|(id, _)| *id != me).map(|(id, value)| (*id, value.clone())).collect()
    }

    /// The packages of round 2 that are for one participant.
    fn addressed<C: Ciphersuite>(
        round_2: &BTreeMap<Identifier<C>, BTreeMap<Identifier<C>, dkg::round2::Package<C>>>,
        me: &Identifier<C>,
    ) -> BTreeMap<Identifier<C>, dkg::round2::Package<C>> {
        let to_me = round_2.iter().filter(|(from, _)| *from != me);
        to_me.map(|(from, packages)| (*from, packages.get(me).unwrap().clone())).collect()
    }

    impl<C: Ciphersuite> Key<C> {
        pub(super) fn generate(threshold: u16, n: u16) -> Self {
            let (mut secrets, mut packages, mut round_2) =
                (BTreeMap::new(), Packages::new(), BTreeMap::new());
            for i in 1..=n {
                let id = Identifier::try_from(i).unwrap();
                let (secret, package) = dkg::part1(id, n, threshold, OsRng).unwrap();
                secrets.insert(id, secret);
                packages.insert(id, package);
            }
            let mut points = BTreeMap::new();
            for (id, secret) in secrets {
                let (secret, sent) = dkg::part2(secret, &others(&packages, &id)).unwrap();
                round_2.insert(id, sent);
                points.insert(id, secret);
            }
            let (mut shares, mut keys) = (BTreeMap::new(), None);
            for (id, secret) in points {
                let (share, public) =
                    dkg::part3(&secret, &others(&packages, &id), &addressed(&round_2, &id)).unwrap();
                shares.insert(id, share);
                keys = Some(public);
            }
            Self { keys: keys.unwrap(), shares, threshold }
        }

        pub(super) fn sign(&self) {
            let signers = self.shares.iter().take(self.threshold.into());
            let (mut nonces, mut commitments) = (BTreeMap::new(), BTreeMap::new());
            for (id, share) in signers.clone() {
                let (secret, public) = round1::commit(share.signing_share(), &mut OsRng);
                nonces.insert(*id, secret);
                commitments.insert(*id, public);
            }
            let package = SigningPackage::new(commitments, super::MESSAGE);
            let mut signed = BTreeMap::new();
            for (id, share) in signers {
                signed.insert(*id, round2::sign(&package, nonces.get(id).unwrap(), share).unwrap());
            }
            aggregate(&package, &signed, &self.keys).unwrap();
        }

        pub(super) fn refresh(&self) {
            let n = u16::try_from(self.shares.len()).unwrap();
            let (mut secrets, mut packages, mut round_2) =
                (BTreeMap::new(), Packages::new(), BTreeMap::new());
            for id in self.shares.keys() {
                let (secret, package) = refresh::refresh_dkg_part1(*id, n, self.threshold, OsRng).unwrap();
                secrets.insert(*id, secret);
                packages.insert(*id, package);
            }
            let mut points = BTreeMap::new();
            for (id, secret) in secrets {
                let (secret, sent) = refresh::refresh_dkg_part2(secret, &others(&packages, &id)).unwrap();
                round_2.insert(id, sent);
                points.insert(id, secret);
            }
            for (id, secret) in points {
                refresh::refresh_dkg_shares(
                    &secret,
                    &others(&packages, &id),
                    &addressed(&round_2, &id),
                    self.keys.clone(),
                    self.shares.get(&id).unwrap().clone(),
                )
                .unwrap();
            }
        }

        pub(super) fn repair(&self) {
            let helpers: Vec<_> = self.shares.keys().copied().take(self.threshold.into()).collect();
            let target = *self.shares.keys().last().unwrap();
            let mut deltas: BTreeMap<Identifier<C>, Vec<_>> = BTreeMap::new();
            for share in self.shares.values().take(self.threshold.into()) {
                let sent = repairable::repair_share_part1(&helpers, share, &mut OsRng, target).unwrap();
                sent.into_iter().for_each(|(helper, delta)| deltas.entry(helper).or_default().push(delta));
            }
            let sigmas: Vec<_> =
                deltas.values().map(|deltas| repairable::repair_share_part2(deltas)).collect();
            repairable::repair_share_part3(&sigmas, target, &self.keys).unwrap();
        }
    }
}
