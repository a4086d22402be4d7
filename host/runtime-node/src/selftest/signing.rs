//! Attacks on signatures, by the coordinator and by a signer.

use super::attacker;
use super::deployment::{ATTACKER, Deployment};
use super::operation::Operation;
use super::report::Report;
use gateway_domain::operation::EffectStep;
use gateway_node::{Code, NodeError, RoundOne, SignedShare};
use gateway_service::process::Fault;
use gateway_threshold::sign::{self, Nonces, SigningPackage};
use gateway_threshold::{SignatureProfile, Tweak};
use rand_core::OsRng;
use std::collections::BTreeMap;

const PROTOCOL: &str = "signing";

/// The honest signer.
const SIGNER: u16 = 0;

/// A signature between its rounds, by participant 0 and the attacker.
struct Rounds {
    operation: Operation,
    /// The attacker's nonces.
    nonces: Nonces,
    package: SigningPackage,
}

/// Changes a package.
type Alter = fn(SignatureProfile, &mut SigningPackage) -> Result<(), Fault>;

/// Packages that the honest signer must refuse, and with which code.
const PACKAGES: [(&str, Alter, Code); 9] = [
    (
        "a package over another message",
        |_, it| {
            it.message.iter_mut().for_each(|byte| *byte ^= 1);
            Ok(())
        },
        Code::PackageRefused,
    ),
    (
        "a package with a tweak",
        |_, it| {
            it.tweak = Some(Tweak::new([1; 32]));
            Ok(())
        },
        Code::PackageRefused,
    ),
    (
        "a package of one signer",
        |_, it| {
            it.commitments.remove(&ATTACKER);
            Ok(())
        },
        Code::PackageRefused,
    ),
    (
        "a package with a signer without a share",
        |_, it| {
            let own = it.commitments.get(&ATTACKER).cloned().unwrap_or_default();
            it.commitments.insert(7, own);
            Ok(())
        },
        Code::PackageRefused,
    ),
    (
        "the attacker's commitments in the name of the honest signer",
        |_, it| {
            let own = it.commitments.get(&ATTACKER).cloned().unwrap_or_default();
            it.commitments.insert(SIGNER, own);
            Ok(())
        },
        Code::PackageRefused,
    ),
    (
        "altered commitments of the honest signer",
        |_, it| {
            let honest = it.commitments.get_mut(&SIGNER);
            honest.into_iter().flatten().take(5).for_each(|byte| *byte ^= 1);
            Ok(())
        },
        Code::PackageRefused,
    ),
    ("the identity as a commitment", |profile, it| put(it, &identity(profile)), Code::CeremonyMisbehaviour),
    ("undecodable commitments", |_, it| put(it, &[0xff; 33]), Code::CeremonyMisbehaviour),
    (
        "commitments that are too short",
        |_, it| {
            it.commitments.entry(ATTACKER).and_modify(|bytes| bytes.truncate(40));
            Ok(())
        },
        Code::CeremonyMisbehaviour,
    ),
];

/// Writes these bytes over the first of the attacker's commitments.
fn put(package: &mut SigningPackage, point: &[u8]) -> Result<(), Fault> {
    let own = package.commitments.get_mut(&ATTACKER).ok_or("the attacker is no signer")?;
    own.iter_mut().zip(point).for_each(|(byte, new)| *byte = *new);
    Ok(())
}

/// The commitment to a nonce of 0. On secp256k1 it has no encoding of 33 bytes.
fn identity(profile: SignatureProfile) -> Vec<u8> {
    let (first, n_zeros) = match profile {
        SignatureProfile::FrostEd25519Sha512 => (1, 31),
        SignatureProfile::FrostSecp256k1Sha256Tr => (0, 32),
    };
    [vec![first], vec![0; n_zeros]].concat()
}

/// Plays all attacks on signatures.
pub(crate) async fn attack(deployment: &Deployment, report: &mut Report) -> Result<(), Fault> {
    for (attack, alter, code) in PACKAGES {
        let Rounds { operation, mut package, .. } = begin(deployment).await?;
        alter(deployment.profile, &mut package)?;
        let answer = share(deployment, &operation, 1, &package).await?;
        let (is_refused, honest) = refused(&answer, code);
        // An attacker that is to blame is named.
        let is_named = code != Code::CeremonyMisbehaviour || names_the_attacker(&answer);
        report.add(deployment.profile, PROTOCOL, attack, (is_refused && is_named, honest));
    }
    reuse_nonces(deployment, report).await?;
    replay_commitments(deployment, report).await?;
    send_wrong_shares(deployment, report).await
}

/// Round one of a signature by participant 0 and the attacker.
async fn begin(deployment: &Deployment) -> Result<Rounds, Fault> {
    let operation = deployment.signature().await?;
    let (nonces, own) = sign::commit(&deployment.key()?.share, &mut OsRng)?;
    let honest = commitments(deployment, &operation, 1).await?;
    let package = SigningPackage {
        message: operation.decision.request_digest.as_bytes().to_vec(),
        commitments: BTreeMap::from([(SIGNER, honest), (ATTACKER, own)]),
        tweak: None,
    };
    Ok(Rounds { operation, nonces, package })
}

async fn commitments(deployment: &Deployment, operation: &Operation, attempt: u32) -> Result<Vec<u8>, Fault> {
    let node = deployment.nodes.get(&SIGNER).ok_or("no honest signer")?;
    match node.signing_commit(&operation.call(SIGNER, EffectStep::Execute, attempt)?, &[]).await? {
        RoundOne::Committed(commitments) => Ok(commitments),
        RoundOne::Consumed { .. } => Err("the nonces of a fresh attempt were used".into()),
    }
}

/// The honest signer's answer to a package.
async fn share(
    deployment: &Deployment,
    operation: &Operation,
    attempt: u32,
    package: &SigningPackage,
) -> Result<Result<SignedShare, NodeError>, Fault> {
    let node = deployment.nodes.get(&SIGNER).ok_or("no honest signer")?;
    Ok(node.signing_share(&operation.call(SIGNER, EffectStep::Execute, attempt)?, package).await)
}

/// What the signer does with a package, which it must refuse with this code.
fn refused(answer: &Result<SignedShare, NodeError>, code: Code) -> (bool, String) {
    signer(attacker::refused(answer, code, "releases a share"))
}

fn signer((is_ok, does): (bool, String)) -> (bool, String) {
    (is_ok, format!("the signer {does}"))
}

fn names_the_attacker(answer: &Result<SignedShare, NodeError>) -> bool {
    matches!(answer, Err(NodeError::Rejected(rejection))
        if rejection.culprits.iter().map(|culprit| culprit.0).eq([ATTACKER]))
}

/// The same nonces for a second package would reveal the share: with other commitments of the attacker, and for another operation.
async fn reuse_nonces(deployment: &Deployment, report: &mut Report) -> Result<(), Fault> {
    let Rounds { operation, package, .. } = begin(deployment).await?;
    share(deployment, &operation, 1, &package).await??;
    let mut second = package.clone();
    let (_nonces, own) = sign::commit(&deployment.key()?.share, &mut OsRng)?;
    second.commitments.insert(ATTACKER, own);
    let answer = share(deployment, &operation, 1, &second).await?;
    let outcome = refused(&answer, Code::SessionConsumed);
    report.add(deployment.profile, PROTOCOL, "a second package for the same nonces", outcome);
    let node = deployment.nodes.get(&SIGNER).ok_or("no honest signer")?;
    let answer = node.signing_commit(&operation.call(SIGNER, EffectStep::Execute, 2)?, &[]).await;
    let outcome = signer(attacker::refused(&answer, Code::AttemptNotDiscarded, "makes fresh nonces"));
    report.add(deployment.profile, PROTOCOL, "another attempt after a completed one", outcome);
    let mut other = begin(deployment).await?;
    if let Some(used) = package.commitments.get(&SIGNER) {
        other.package.commitments.insert(SIGNER, used.clone());
    }
    let answer = share(deployment, &other.operation, 1, &other.package).await?;
    let outcome = refused(&answer, Code::PackageRefused);
    report.add(deployment.profile, PROTOCOL, "the nonces of another operation", outcome);
    Ok(())
}

/// Commitments of an attempt that was given up, in the next one.
async fn replay_commitments(deployment: &Deployment, report: &mut Report) -> Result<(), Fault> {
    let Rounds { operation, mut package, .. } = begin(deployment).await?;
    commitments(deployment, &operation, 2).await?;
    let answer = share(deployment, &operation, 2, &package).await?;
    let outcome = refused(&answer, Code::PackageRefused);
    report.add(deployment.profile, PROTOCOL, "the commitments of an earlier attempt", outcome);
    package.commitments.insert(SIGNER, commitments(deployment, &operation, 3).await?);
    let answer = share(deployment, &operation, 1, &package).await?;
    let outcome = refused(&answer, Code::AttemptSuperseded);
    report.add(deployment.profile, PROTOCOL, "an attempt after a later one began", outcome);
    Ok(())
}

/// Shares of the attacker that do not belong to the package: the coordinator names the signer instead of failing without a reason.
async fn send_wrong_shares(deployment: &Deployment, report: &mut Report) -> Result<(), Fault> {
    let key = deployment.key()?;
    let other = begin(deployment).await?;
    let of_other = other.nonces.sign(&other.package, &key.share, &key.keys)?;
    let Rounds { operation, nonces, package } = begin(deployment).await?;
    let honest = share(deployment, &operation, 1, &package).await??.share;
    let own = nonces.sign(&package, &key.share, &key.keys)?;
    let low = match deployment.profile {
        SignatureProfile::FrostEd25519Sha512 => 0,
        SignatureProfile::FrostSecp256k1Sha256Tr => 31,
    };
    let mut wrong = own.clone();
    wrong.iter_mut().skip(low).take(1).for_each(|byte| *byte ^= 1);
    for (attack, sent) in [
        ("a wrong signature share", wrong),
        ("a signature share for another package", of_other),
        ("the signature share of another signer", honest.clone()),
        ("an undecodable signature share", vec![0xff; 32]),
    ] {
        let shares = BTreeMap::from([(SIGNER, honest.clone()), (ATTACKER, sent)]);
        let outcome = match sign::aggregate(&package, &shares, &key.keys) {
            Ok(_) => (false, "the signature verifies".to_owned()),
            Err(error) => (error.culprits() == [ATTACKER], format!("the coordinator refuses: {error}")),
        };
        report.add(deployment.profile, PROTOCOL, attack, outcome);
    }
    let shares = BTreeMap::from([(SIGNER, honest), (ATTACKER, own)]);
    let outcome = match sign::aggregate(&package, &shares, &key.keys) {
        Ok(_) => (true, "the signature verifies".to_owned()),
        Err(error) => (false, format!("the coordinator refuses: {error}")),
    };
    report.add(deployment.profile, PROTOCOL, "an honest run after the attacks", outcome);
    Ok(())
}
