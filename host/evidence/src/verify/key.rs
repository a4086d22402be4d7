//! Checks the public keys: those of new shares are read from the bytes that the nodes signed for, and compared with the admission, the intent and
//! the reader's roots.

use super::operation::Replayed;
use crate::package::Package;
use crate::report::{Findings, Report};
use crate::roots::Roots;
use crate::summary::public_key;
use gateway_domain::admission::Target;
use gateway_domain::ids::KeyId;
use gateway_domain::intent::Intent;
use gateway_domain::key::epoch_root;
use gateway_domain::operation::{Change, Operation, Staged};

const NAME: &str = "key";

pub(crate) fn check(replayed: &Replayed, roots: &Roots, report: &mut Report) {
    let (operation, mut findings) = (&replayed.operation, Findings::default());
    for (index, event) in replayed.events.iter().enumerate() {
        let at = format!("/events/{index}/event/change");
        match (&event.change, &operation.staged) {
            (Change::EpochDecided { staged, .. }, _) => {
                check_made(staged, operation, roots, &at, &mut findings)
            }
            (Change::Executed { result_ref, signature: None, .. }, Some(staged)) => {
                match staged.result_ref() {
                    Ok(digest) => {
                        findings.same(
                            &format!("{at}/result_ref"),
                            "the digest of the new shares",
                            result_ref,
                            &digest,
                        );
                    }
                    Err(error) => findings.add(&at, error.to_string()),
                }
            }
            _ => {}
        }
    }
    let named = operation.intent.public_key_artifact_ref();
    if let Some(named) = named {
        check_pin(operation.key.key_id, named, roots, "/intent/public_key_artifact_ref", &mut findings);
    }
    match public_key(operation) {
        _ if !findings.is_empty() => report.add(NAME, findings, ""),
        Some(key) if operation.staged.is_some() => {
            report.add(NAME, findings, format!("`{key}`, in the shares that the nodes signed for"));
        }
        Some(key) => report.add(NAME, findings, format!("`{key}`, named by the intent")),
        None if operation.staged.is_some() => report.add(NAME, findings, "that of the new shares"),
        None if roots.keys.contains_key(&operation.key.key_id) => {
            report.add(NAME, findings, "named by the roots");
        }
        // Nothing was made of it yet.
        None if matches!(operation.intent, Intent::KeyCreate(_)) => {}
        None => report.not_checked(
            NAME,
            "the intent names no public key, since the key was not generated when it was submitted",
        ),
    }
}

/// Checks that the new shares are those that were admitted, and that their public key is the one in the bytes that the nodes signed for.
fn check_made(staged: &Staged, operation: &Operation, roots: &Roots, at: &str, findings: &mut Findings) {
    let Staged { epoch, public, participants, threshold } = staged;
    let target = operation.admission.as_ref().and_then(|admission| admission.decision.target.as_ref());
    let Some(target) = target else {
        findings.add(format!("{at}/staged"), "no new shares were admitted");
        return;
    };
    let Target { key_id, .. } = target;
    let root = epoch_root(*key_id, &target.epoch, &public.package_hex);
    let is_admitted = (&epoch.name, participants, threshold)
        == (&target.epoch, &target.participants, &target.threshold)
        && root.is_ok_and(|root| root == epoch.root);
    let package = Package::read(&public.package_hex).filter(|package| {
        is_admitted
            && package.participants == *participants.as_set()
            && usize::from(package.threshold) == threshold.count()
    });
    let Some(package) = package else {
        findings.add(format!("{at}/staged"), "are not the shares that were admitted");
        return;
    };
    let at = format!("{at}/staged/public/public_key_hex");
    findings.same(&at, "the key of the shares", &public.public_key_hex, &package.public_key_hex);
    let made = package.artifact_ref();
    check_pin(*key_id, &made, roots, &at, findings);
    let is_of_profile = |profile: &str| made.starts_with(&format!("{profile}:"));
    match (&operation.intent, operation.intent.public_key_artifact_ref()) {
        (Intent::KeyCreate(create), _) if !is_of_profile(&create.signature_profile) => {
            findings.add(at, "is not of the signature profile that was requested");
        }
        (Intent::Rotate(_), Some(replaced)) => {
            let (profile, _) = replaced.split_once(':').unwrap_or_default();
            if !is_of_profile(profile) {
                findings.add(at, "is not of the signature profile of the key that it replaces");
            } else if made == *replaced {
                findings.add(at, "is the key that it replaces");
            }
        }
        (Intent::Refresh(_) | Intent::Reshare(_) | Intent::Recover(_), Some(kept)) if made != *kept => {
            findings.add(at, format!("is `{made}`, and the intent keeps `{kept}`"));
        }
        _ => {}
    }
}

fn check_pin(key_id: KeyId, key: &str, roots: &Roots, at: &str, findings: &mut Findings) {
    if let Some(pinned) = roots.keys.get(&key_id) {
        findings.same(at, "the key in the roots", &key.to_owned(), pinned);
    }
}
