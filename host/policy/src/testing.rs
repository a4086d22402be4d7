//! Sample bundles, requests and guests for tests.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::missing_errors_doc,
    reason = "tests fail by panicking"
)]

mod documents;
mod obliging;
mod paid;

pub use documents::{rates, rates_bundle, rates_guest, signed_document};
pub use obliging::{declare_obligations, grouped_bundle, obliging_bundle, obliging_guest, with_one_vector};
pub use paid::paid_bundle;

use crate::bundle::{COMPONENT_FILE, MANIFEST_FILE, Manifest, is_signature, pack};
use crate::{Bundle, BundleError, BundleFiles, Evaluator, Pins, PolicyEngine, TrustPolicy};
use ed25519_dalek::SigningKey;
use gateway_domain::approval::Approval;
use gateway_domain::binding::ClientBinding;
use gateway_domain::dsse::Role;
use gateway_domain::ids::{Hex32, KeyRef, Tenant};
use gateway_domain::intent::{Intent, Payment};
use gateway_domain::policy::{Facts, Moment, Request};
use gateway_domain::roster::Roster;
use gateway_domain::samples;
use gateway_domain::time::EpochMs;
use std::fs;
use std::path::Path;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

/// The time of samples.
pub const NOW: EpochMs = EpochMs(1_700_000_000_000);

/// An engine of its own.
pub fn engine() -> PolicyEngine {
    PolicyEngine::new().unwrap()
}

/// A signing key with a fixed seed.
pub fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

/// Its public key, as trust roots have it.
pub fn public(key: &SigningKey) -> Hex32 {
    Hex32::new(key.verifying_key().to_bytes())
}

/// A role of trust roots.
pub fn role(role: &str, threshold: usize, keys: &[&SigningKey]) -> Role {
    Role { role: role.into(), threshold, keys: keys.iter().map(|key| public(key)).collect() }
}

/// Trust roots with these roles, and these keys revoked.
pub fn trust(roles: Vec<Role>, revoked: &[&SigningKey]) -> TrustPolicy {
    TrustPolicy { roles, documents: Vec::new(), revoked: revoked.iter().map(|key| public(key)).collect() }
}

/// Trust roots that trust `key(1)` in the role `author`.
pub fn author() -> TrustPolicy {
    trust(vec![role("author", 1, &[&key(1)])], &[])
}

/// The bundle `payment-guard` of the repository.
pub fn committed() -> BundleFiles {
    committed_bundle("payment-guard")
}

/// A bundle of the repository.
pub fn committed_bundle(name: &str) -> BundleFiles {
    BundleFiles::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles").join(name)).unwrap()
}

/// The trust roots of the repository, which trust the development key.
pub fn committed_trust() -> TrustPolicy {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles/trust-development.json");
    TrustPolicy::parse(&fs::read(path).unwrap()).unwrap()
}

/// The files with some replaced or added.
pub fn with(files: &BundleFiles, changes: &[(&str, &[u8])]) -> Result<BundleFiles, BundleError> {
    files.with(changes.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())))
}

/// The files without this one.
pub fn without(files: &BundleFiles, name: &str) -> BundleFiles {
    files.only(|other| other != name)
}

/// Changes the manifest and signs it with these keys.
pub fn signed(files: &BundleFiles, keys: &[&SigningKey], change: impl FnOnce(&mut Manifest)) -> BundleFiles {
    let mut manifest = Manifest::parse(files.get(MANIFEST_FILE).unwrap()).unwrap();
    change(&mut manifest);
    let manifest = (MANIFEST_FILE.to_owned(), serde_json::to_vec(&manifest).unwrap());
    let unsigned = files.only(|name| !is_signature(name)).with([manifest]).unwrap();
    unsigned.with(keys.iter().map(|key| pack::sign(&unsigned, key).unwrap())).unwrap()
}

/// Writes the files of a bundle into `folder`, whose earlier contents it removes.
pub fn write_folder(folder: &Path, files: &BundleFiles) {
    if folder.exists() {
        fs::remove_dir_all(folder).unwrap();
    }
    for (name, bytes) in files.iter() {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Verifies a bundle without pins, at [`NOW`].
pub fn verify(files: BundleFiles, trust: &TrustPolicy) -> Result<Bundle, BundleError> {
    Bundle::verify(files, trust, &Pins::default(), NOW)
}

/// A guest of the pure world. `body` is its function `evaluate`; a body that returns 0 allows, without reasons.
pub fn guest(pages: u32, extra: &str, body: &str) -> Vec<u8> {
    let imports = r#"
        (import "svc:policy/facts@2.0.0" "get" (func $get (param i32 i32 i32)))
        (import "svc:bundle/data@1.0.0" "get" (func $look_up (param i32 i32 i32 i32 i32)))
        (import "svc:bundle/log@1.0.0" "write" (func $log (param i32 i32)))"#;
    component(module(imports, pages, extra, body), &[])
}

/// A core module with these imports; `body` is its function `evaluate`.
pub fn module(imports: &str, pages: u32, extra: &str, body: &str) -> Vec<u8> {
    let text = format!(
        r#"(module
            {imports}
            (memory (export "memory") {pages})
            (global $next (mut i32) (i32.const 32768))
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (local $at i32)
                (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
                (global.set $next (i32.add (local.get $at) (local.get 3)))
                (local.get $at))
            (func (export "describe") (result i32) (i32.const 0))
            {extra}
            (func (export "evaluate") (param i32) (result i32) (local $i i32) (local $h i32)
                {body}))"#
    );
    wat::parse_str(text).unwrap()
}

const CONTRACT: &str = include_str!("../../../wit/policy.wit");

/// Makes a component of the pure world from a core module, with these additional imports.
pub fn component(module: Vec<u8>, more_imports: &[&str]) -> Vec<u8> {
    let imports: String = more_imports.iter().map(|import| format!("import {import};\n")).collect();
    encode(module, &CONTRACT.replace("import facts;", &format!("import facts;\n{imports}")), "policy")
}

/// As [`component`], for the WASI world.
pub fn wasi_component(module: Vec<u8>, more_imports: &[&str]) -> Vec<u8> {
    let imports: String = more_imports.iter().map(|import| format!("import {import};\n")).collect();
    let world = CONTRACT.replace("include policy;", &format!("include policy;\n{imports}"));
    encode(module, &(world + include_str!("testing.wit")), "policy-wasi")
}

fn encode(mut module: Vec<u8>, contract: &str, world: &str) -> Vec<u8> {
    let mut resolve = wit_parser::Resolve::default();
    let package = resolve.push_str("policy.wit", contract).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap()
}

/// A signed bundle of a component, without data or vectors. It declares the codes of payment-guard and the facts `velocity.*`.
pub fn bundle_of(engine: &PolicyEngine, wasm: &[u8], change: impl FnOnce(&mut Manifest)) -> Bundle {
    bundle_with(engine, wasm, &[], change)
}

/// As [`bundle_of`], with data files, named with their folder.
pub fn bundle_with(
    engine: &PolicyEngine,
    wasm: &[u8],
    data: &[(&str, &[u8])],
    change: impl FnOnce(&mut Manifest),
) -> Bundle {
    let bare = committed().only(|name| [MANIFEST_FILE, COMPONENT_FILE].contains(&name));
    let files = with(&with(&bare, data).unwrap(), &[(COMPONENT_FILE, wasm)]).unwrap();
    let files = pack::complete(engine, &files).unwrap();
    let change = |manifest: &mut Manifest| {
        manifest.facts = vec!["velocity.*".into()];
        change(manifest);
    };
    verify(signed(&files, &[&key(1)], change), &author()).unwrap()
}

/// The files of a valid bundle, whose component can be replaced.
pub struct Signed(BundleFiles);

impl Signed {
    /// Signs a bundle of this component, with these declared facts.
    pub fn of(engine: &PolicyEngine, wasm: &[u8], facts: &[&str]) -> Self {
        let declare =
            |manifest: &mut Manifest| manifest.facts = facts.iter().map(ToString::to_string).collect();
        Self(bundle_of(engine, wasm, declare).files().clone())
    }

    /// A bundle that is valid except, perhaps, for this component.
    pub fn with_component(&self, wasm: &[u8]) -> Bundle {
        let files = with(&self.0, &[(COMPONENT_FILE, wasm)]).unwrap();
        let hash = gateway_domain::canonical::digest_bytes("", wasm);
        let files = signed(&files, &[&key(1)], |manifest| {
            manifest.files.insert(COMPONENT_FILE.to_owned(), hash);
        });
        verify(files, &author()).unwrap()
    }
}

/// Compiles a component as a bundle without vectors.
pub fn load(engine: &PolicyEngine, wasm: &[u8]) -> Result<Evaluator, BundleError> {
    Evaluator::link(engine, &bundle_of(engine, wasm, |_| ()))
}

/// The names, the pages of memory and the bodies of `evaluate` of guests that do not answer, for [`load_hostile`].
pub const HOSTILE: [(&str, u32, &str); 5] = [
    ("endless loop", 1, "(loop $l (br $l)) unreachable"),
    ("memory bomb", 1, "(loop $l (drop (memory.grow (i32.const 1))) (br $l)) unreachable"),
    (
        "touches 15 MiB endlessly",
        240,
        "(loop $l
        (i32.store (local.get $i) (local.get $i))
        (local.set $i (i32.rem_u (i32.add (local.get $i) (i32.const 4096)) (i32.const 15728640)))
        (br $l)) unreachable",
    ),
    ("deep recursion", 1, "(call $deep (i32.const 1))"),
    ("trap", 1, "unreachable"),
];

/// Compiles a guest as a bundle with the most fuel and 16 MiB of memory.
pub fn load_hostile(engine: &PolicyEngine, pages: u32, body: &str) -> Evaluator {
    let deep = "(func $deep (param i32) (result i32) (i32.add (call $deep (local.get 0)) (i32.const 1)))";
    let bundle = bundle_of(engine, &guest(pages, deep, body), |manifest| {
        (manifest.limits.fuel, manifest.limits.memory_bytes) = (50_000_000, 16 << 20);
    });
    Evaluator::link(engine, &bundle).unwrap()
}

/// The values of a request, which borrows from them.
pub struct TestRequest {
    tenant: Tenant,
    key_ref: KeyRef,
    submitter: ClientBinding,
    intent: Intent,
    approvals: Vec<Approval>,
}

impl TestRequest {
    /// The request at this moment.
    pub fn request(&self, moment: Moment) -> Request<'_> {
        Request {
            moment,
            intent_hash: self.intent.hash().unwrap(),
            tenant: &self.tenant,
            key_ref: &self.key_ref,
            submitter: &self.submitter,
            intent: &self.intent,
            approvals: &self.approvals,
        }
    }
}

/// A payment to `to`, submitted by alice.
pub fn payment(to: &str, approvers: &[&str]) -> TestRequest {
    let approval = |subject: &&str| Approval { approved_at_ms: NOW, ..samples::approval(subject, 1) };
    let terms = samples::terms(Roster::parse(&[0, 1, 2]).unwrap());
    TestRequest {
        tenant: Tenant("default".into()),
        key_ref: KeyRef("treasury".into()),
        submitter: ClientBinding { scopes: vec!["operations.sign".into()], ..samples::submitter("alice") },
        intent: Intent::Payment(Payment {
            to_account: to.into(),
            reference: Some("invoice 17".into()),
            ..samples::payment(terms)
        }),
        approvals: approvers.iter().map(approval).collect(),
    }
}

/// The facts of a deployment that requires this number of approvals.
pub fn facts(required: &str) -> Facts {
    Facts::from_pairs(fact_values(required))
}

/// As [`facts`], with spending totals below every limit.
pub fn facts_with_spending(required: &str) -> Facts {
    let spent = [
        "account.24h.count",
        "account.24h.units",
        "account.1h.units",
        "recipient.24h.units",
        "recipient.1h.units",
    ];
    let spent = spent.map(|name| (format!("velocity.{name}"), "10".to_owned()));
    let known = fact_values(required).map(|(name, value)| (name.to_owned(), value));
    Facts::from_pairs(known.into_iter().chain(spent))
}

/// The names and values of [`facts`].
pub fn fact_values(required: &str) -> [(&'static str, String); 4] {
    [
        ("deployment.permitted_recipients", "acct-2,acct-3".to_owned()),
        ("deployment.required_approvals", required.to_owned()),
        ("deployment.separation_of_duties", "true".to_owned()),
        ("time.now_ms", NOW.0.to_string()),
    ]
}
