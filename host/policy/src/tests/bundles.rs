//! The checks of a bundle before its policy runs.

use crate::bundle::{MANIFEST_FILE, Manifest};
use crate::limits::SEQUENCE_MAX;
use crate::testing::{
    NOW, author, committed, committed_trust, key, public, role, signed, trust, verify, with, without,
};
use crate::{Bundle, BundleError, BundleFiles, Pins, TrustPolicy};

#[track_caller]
fn refused(files: BundleFiles) -> BundleError {
    let refused = verify(files, &committed_trust()).unwrap_err();
    assert!(!refused.to_string().contains('\n'), "{refused}");
    refused
}

fn text(file: &str) -> String {
    String::from_utf8(committed().get(file).unwrap().to_vec()).unwrap()
}

#[test]
fn a_flipped_bit_in_any_file_is_refused_and_the_file_named() {
    let files = committed();
    for (name, bytes) in files.iter() {
        for at in [0, bytes.len() / 3, bytes.len() / 2, bytes.len() - 2] {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= 0x04;
            let refused = refused(with(&files, &[(name, &bytes)]).unwrap());
            assert!(format!("{refused:?} {refused}").contains(name), "{name} at {at}: {refused}");
        }
    }
}

#[test]
fn a_flipped_bit_of_the_component_says_both_hashes() {
    let mut bytes = committed().get("policy.wasm").unwrap().to_vec();
    bytes[100] ^= 1;
    let refused = refused(with(&committed(), &[("policy.wasm", &bytes)]).unwrap());
    assert!(matches!(&refused, BundleError::Tampered { file, .. } if file == "policy.wasm"), "{refused}");
}

#[test]
fn missing_and_unknown_files_are_named() {
    for name in ["manifest.json", "policy.wasm", "tests/quorum.json"] {
        let refused = refused(without(&committed(), name));
        assert!(matches!(&refused, BundleError::MissingFile(file) if file == name), "{refused}");
    }
    let refused = refused(with(&committed(), &[("data/limits.json", b"{}")]).unwrap());
    assert!(matches!(&refused, BundleError::UnknownFile(file) if file == "data/limits.json"), "{refused}");
}

#[test]
fn file_names_that_lead_out_of_the_bundle_are_refused() {
    for name in [
        "../policy.wasm",
        "/etc/passwd",
        "tests/../policy.wasm",
        "tests/a/b.json",
        "tests\\a.json",
        "data/.json",
        "data/.hidden.json",
        "data/x.wasm",
        "run.sh",
        "",
        "tests/",
        "TESTS/a.json",
        "data/a b.json",
        "./manifest.json",
        "policies.cedar",
        "tests/a.cedar",
        "signatures/a.cedar",
        "data/.cedar",
        "data/a.cedar.txt",
        "tests/a.cedarschema",
        "data/.cedarschema",
    ] {
        let refused = BundleFiles::new([(name.to_owned(), Vec::new())]).unwrap_err();
        assert!(matches!(&refused, BundleError::FileName(file) if file == name), "{refused}");
    }
    let listed = text(MANIFEST_FILE).replace("tests/quorum.json", "tests/../../x.json");
    let refused = Manifest::parse(listed.as_bytes()).unwrap_err();
    assert!(matches!(refused, BundleError::FileName(_)), "{refused}");
}

#[test]
fn folder_with_links_or_unknown_entries_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("manifest.json"), "{}").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("policy.wasm")).unwrap();
    let refused = BundleFiles::read(folder.path()).unwrap_err();
    assert!(matches!(&refused, BundleError::NotAFile(file) if file == "policy.wasm"), "{refused}");
    std::fs::remove_file(folder.path().join("policy.wasm")).unwrap();
    std::fs::create_dir(folder.path().join("secrets")).unwrap();
    assert!(matches!(BundleFiles::read(folder.path()), Err(BundleError::NotAFile(_))));
    std::fs::remove_dir(folder.path().join("secrets")).unwrap();
    std::os::unix::fs::symlink("/etc", folder.path().join("data")).unwrap();
    assert!(matches!(BundleFiles::read(folder.path()), Err(BundleError::NotAFile(_))));
}

/// Kubernetes mounts a ConfigMap as links through `..data`, which it moves to the next version in one step.
#[test]
fn volume_of_kubernetes_is_read_in_one_version() {
    use std::os::unix::fs::symlink;
    let volume = tempfile::tempdir().unwrap();
    let versions = [committed(), committed().with([("data/more.json".to_owned(), b"{}".to_vec())]).unwrap()];
    for (version, files) in ["..2026_11_26", "..2026_11_27"].into_iter().zip(&versions) {
        for (name, bytes) in files.iter() {
            let path = volume.path().join(version).join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }
    for name in ["manifest.json", "policy.wasm", "data", "tests", "signatures"] {
        symlink(format!("..data/{name}"), volume.path().join(name)).unwrap();
    }
    for (version, files) in ["..2026_11_26", "..2026_11_27"].into_iter().zip(&versions) {
        let next = volume.path().join("..data_tmp");
        symlink(version, &next).unwrap();
        std::fs::rename(next, volume.path().join("..data")).unwrap();
        assert_eq!(BundleFiles::read(volume.path()).unwrap(), *files);
    }
}

#[test]
fn ambiguous_manifest_is_refused() {
    let parse = |text: &str| Manifest::parse(text.as_bytes());
    let manifest = text(MANIFEST_FILE);
    let with = |from: &str, to: &str| manifest.replacen(from, to, 1);
    let sequence = format!("\"sequence\": {}", parse(&manifest).unwrap().sequence);
    let beside_sequence = |member: &str| with(&sequence, &format!("{sequence}, {member}"));
    let unknown = parse(&beside_sequence("\"debug\": true")).unwrap_err();
    assert!(matches!(&unknown, BundleError::Json { fault, .. } if fault.contains("debug")), "{unknown}");
    let missing = parse(&with("\"facts\"", "\"fact_names\"")).unwrap_err();
    assert!(matches!(&missing, BundleError::Json { .. }), "{missing}");
    let twice = parse(&beside_sequence("\"sequence\": 9")).unwrap_err();
    assert!(matches!(&twice, BundleError::DuplicateKey { key, .. } if key == "sequence"), "{twice}");
    let hidden = parse(&with("\"files\": {", "\"files\": {\"policy.wasm\": \"00\",")).unwrap_err();
    assert!(matches!(&hidden, BundleError::DuplicateKey { key, .. } if key == "policy.wasm"), "{hidden}");
    let null = parse(&beside_sequence("\"not_after_ms\": null")).unwrap_err();
    assert!(matches!(&null, BundleError::NotStrict { pointer, .. } if pointer == "/not_after_ms"), "{null}");
    let list = parse(
        &with("\"fuel\": 2000000,", "").replacen("\"limits\": {", "\"limits\": [2000000,", 1).replacen(
            "\"memory_bytes\": 1048576\n  }",
            "1048576]",
            1,
        ),
    )
    .unwrap_err();
    assert!(matches!(&list, BundleError::NotStrict { pointer, .. } if pointer == "/limits"), "{list}");
    assert!(parse(&(manifest.clone() + "{}")).is_err());
}

#[test]
fn manifest_beyond_the_hosts_limits_or_names_is_refused() {
    let fault = |from: &str, to: &str| {
        Manifest::parse(text(MANIFEST_FILE).replacen(from, to, 1).as_bytes()).unwrap_err()
    };
    assert!(matches!(fault("2000000", "50000001"), BundleError::Limit { requested: 50_000_001, .. }));
    assert!(matches!(fault("2000000", "0"), BundleError::Limit { requested: 0, .. }));
    assert!(matches!(fault("1048576", "999999999"), BundleError::Limit { .. }));
    assert!(matches!(fault("svc:policy@2.x", "svc:policy@3.x"), BundleError::World { .. }));
    assert!(matches!(fault("\"payment-guard\"", "\"../guard\""), BundleError::Name(_)));
    assert!(matches!(fault("\"amount_positive\"", "\"quorum_reached\""), BundleError::DuplicateCode(_)));
    assert!(matches!(fault("\"amount_positive\"", "\"policy_fault:trap\""), BundleError::Code(_)));
}

#[test]
fn every_role_must_reach_its_threshold() {
    let (first, second, security) = (key(1), key(2), key(3));
    let policy = trust(vec![role("author", 1, &[&first, &second]), role("security", 1, &[&security])], &[]);
    let by = |keys: &[&ed25519_dalek::SigningKey]| verify(signed(&committed(), keys, |_| ()), &policy);
    assert_eq!(by(&[&second, &security]).unwrap().signers().len(), 2);
    let unmet = by(&[&first, &second]).unwrap_err();
    assert!(matches!(&unmet, BundleError::RoleUnmet { role, have: 0, .. } if role == "security"), "{unmet}");
    let unsigned = by(&[]).unwrap_err();
    assert!(matches!(&unsigned, BundleError::RoleUnmet { role, .. } if role == "author"), "{unsigned}");
    let two = trust(vec![role("author", 2, &[&first, &second])], &[]);
    let once = verify(signed(&committed(), &[&first], |_| ()), &two).unwrap_err();
    assert!(matches!(once, BundleError::RoleUnmet { have: 1, need: 2, .. }), "{once}");
}

#[test]
fn unknown_and_revoked_keys_do_not_count_and_are_named() {
    let unknown_signer = verify(signed(&committed(), &[&key(9)], |_| ()), &author()).unwrap_err();
    assert!(
        matches!(&unknown_signer, BundleError::RoleUnmet { have: 0, ignored, .. } if ignored.len() == 1),
        "{unknown_signer}"
    );
    let policy = trust(vec![role("author", 1, &[&key(1), &key(2)])], &[&key(1)]);
    assert!(verify(signed(&committed(), &[&key(1)], |_| ()), &policy).is_err());
    assert!(verify(signed(&committed(), &[&key(1), &key(2)], |_| ()), &policy).is_ok());
}

#[test]
fn signature_of_another_manifest_is_refused() {
    let theirs = signed(&committed(), &[&key(1)], |manifest| manifest.sequence += 1);
    let (name, bytes) = theirs.iter().find(|(name, _)| name.starts_with("signatures/")).unwrap();
    let ours = signed(&committed(), &[], |_| ());
    let refused = verify(with(&ours, &[(name, bytes)]).unwrap(), &author()).unwrap_err();
    assert!(matches!(&refused, BundleError::ManifestChanged { file } if file == name), "{refused}");
}

#[test]
fn trust_roots_that_would_accept_unsigned_bundles_are_refused() {
    let parse = |policy: &TrustPolicy| TrustPolicy::parse(&serde_json::to_vec(policy).unwrap());
    for policy in [
        trust(vec![], &[]),
        trust(vec![role("author", 0, &[&key(1)])], &[]),
        trust(vec![role("author", 1, &[&key(1)]), role("security", 1, &[&key(1)])], &[]),
    ] {
        assert!(matches!(parse(&policy), Err(BundleError::TrustRoots(_))), "{policy:?}");
        let by_hand = verify(signed(&committed(), &[&key(1)], |_| ()), &policy);
        assert!(matches!(by_hand, Err(BundleError::TrustRoots(_))), "{policy:?}");
    }
    assert!(parse(&author()).is_ok() && !author().trusts_development());
    // No point of the curve has y = 2.
    let no_point = format!("02{}", "0".repeat(62)).parse().unwrap();
    let mut no_key = author();
    no_key.roles[0].keys.insert(no_point);
    assert!(matches!(parse(&no_key), Err(BundleError::TrustRoots(_))));
}

#[test]
fn trust_roots_with_an_unsatisfiable_role_are_accepted_and_refuse_every_bundle() {
    for (policy, n_left) in [
        (trust(vec![role("author", 1, &[&key(1)])], &[&key(1)]), 0),
        (trust(vec![role("author", 2, &[&key(1)])], &[]), 1),
        (trust(vec![role("author", 2, &[&key(1), &key(2)])], &[&key(2)]), 1),
        (trust(vec![role("author", 1, &[&key(1)]), role("security", 1, &[&key(2)])], &[&key(2)]), 0),
        (trust(vec![role("author", 1, &[])], &[]), 0),
    ] {
        let parsed = TrustPolicy::parse(&serde_json::to_vec(&policy).unwrap()).unwrap();
        let refused = verify(signed(&committed(), &[&key(1), &key(2)], |_| ()), &parsed).unwrap_err();
        let BundleError::RoleUnmet { have, need, n_unrevoked, .. } = &refused else { panic!("{refused}") };
        assert!(*n_unrevoked == n_left && have < need, "{refused}");
        assert!(refused.to_string().contains("no bundle can satisfy it"), "{refused}");
    }
}

#[test]
fn pins_are_needed_besides_the_signatures() {
    let hash = verify(committed(), &committed_trust()).unwrap().hash();
    let pinned =
        |pins: &str| Bundle::verify(committed(), &committed_trust(), &Pins::parse(pins).unwrap(), NOW);
    assert!(pinned(&hash.to_string()).is_ok() && pinned("").is_ok());
    let other = public(&key(5));
    assert!(pinned(&format!("{other}, {hash}")).is_ok());
    assert!(matches!(pinned(&other.to_string()), Err(BundleError::NotPinned(_))));
    let pin_alone = Bundle::verify(committed(), &author(), &Pins::parse(&hash.to_string()).unwrap(), NOW);
    assert!(matches!(pin_alone, Err(BundleError::RoleUnmet { .. })));
    assert!(Pins::parse("abc").is_err());
}

#[test]
fn a_bundle_is_valid_from_its_first_to_its_last_instant() {
    let at = |not_before_ms, not_after_ms| {
        let files = signed(&committed(), &[&key(1)], |manifest| {
            (manifest.not_before_ms, manifest.not_after_ms) = (not_before_ms, not_after_ms);
        });
        verify(files, &author()).map(|_| ())
    };
    assert!(at(Some(NOW.0), Some(NOW.0)).is_ok());
    assert!(matches!(at(Some(NOW.0 + 1), None), Err(BundleError::NotYetValid { .. })));
    assert!(matches!(at(None, Some(NOW.0 - 1)), Err(BundleError::Expired { .. })));
}

#[test]
fn bundle_follows_only_lower_sequences_and_itself() {
    let bundle = verify(committed(), &committed_trust()).unwrap();
    let (ours, other) = (bundle.manifest().sequence, public(&key(1)));
    // A rollback record with a higher sequence may have activated the same bundle.
    for last in [None, Some((ours - 1, other)), Some((ours, bundle.hash())), Some((ours + 1, bundle.hash()))]
    {
        assert!(bundle.check_follows(last).is_ok(), "{last:?}");
    }
    for sequence in [ours, ours + 1] {
        let refused = bundle.check_follows(Some((sequence, other)));
        assert!(matches!(refused, Err(BundleError::Rollback { .. })), "{refused:?}");
    }
    let endless = signed(&committed(), &[&key(1)], |manifest| manifest.sequence = SEQUENCE_MAX + 1);
    let refused = verify(endless, &author()).unwrap().check_follows(None);
    assert!(matches!(refused, Err(BundleError::Sequence { .. })), "{refused:?}");
}

#[test]
fn bundle_hash_is_the_sha256_of_the_signed_payload() {
    let files = committed();
    let (_, envelope) = files.iter().find(|(name, _)| name.starts_with("signatures/")).unwrap();
    let envelope: gateway_domain::dsse::Envelope = serde_json::from_slice(envelope).unwrap();
    let manifest = Manifest::parse(files.get(MANIFEST_FILE).unwrap()).unwrap();
    let keys = gateway_domain::dsse::KeySet::new(
        committed_trust().roles.iter().flat_map(|role| &role.keys).map(|key| *key.as_bytes()),
    );
    let (payload, _) = envelope.verify(crate::bundle::PAYLOAD_TYPE, &keys.unwrap()).unwrap();
    assert_eq!(payload, manifest.canonical_bytes().unwrap());
    let hash = verify(files, &committed_trust()).unwrap().hash();
    assert_eq!(hash, gateway_domain::canonical::digest_bytes("", &payload));
}
