//! Guests and bundles with the obligations that the host fulfils itself.

use super::{committed, guest, signed};
use crate::BundleFiles;
use crate::bundle::{COMPONENT_FILE, Declaration, Expectation, Manifest, Severity, Vector};
use ed25519_dalek::SigningKey;
use gateway_domain::canonical;
use gateway_domain::policy::{ADMIT_NOT_BEFORE, APPROVALS_EXPIRE_MS, Decision, REJECTIONS_REQUIRED};

/// Counts all who approved, `$h` of them, in a verdict at 0; their subjects are copied to 1,024. A request has its approvals at 240; an
/// approval of 40 bytes has the subject id at 8.
pub(super) const COUNT_ALL: &str = "(local.set $h (i32.load offset=244 (local.get 0)))
        (block $done (loop $next
            (br_if $done (i32.ge_u (local.get $i) (local.get $h)))
            (i64.store (i32.add (i32.const 1024) (i32.mul (local.get $i) (i32.const 8)))
                (i64.load offset=8 (i32.add (i32.load offset=240 (local.get 0))
                    (i32.mul (local.get $i) (i32.const 40)))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br $next)))
        (i32.store (i32.const 20) (i32.const 1024))
        (i32.store (i32.const 24) (local.get $h))";

/// Whether the request, whose intent is at 72, is a change of a key.
pub(super) const IS_KEY_CHANGE: &str = "(i32.eq (i32.load8_u offset=72 (local.get 0)) (i32.const 2))";

/// A guest that allows everything. For signatures it counts all who approved, requires two of them, and has this obligation with one operand;
/// a change of a key needs no approvals.
pub fn obliging_guest((code, operand, value): (&str, &str, &str)) -> Vec<u8> {
    // The verdict is at 0, its statement at 160, the operand at 176, and texts from 256 on.
    let (name_at, value_at) = (256 + code.len(), 256 + code.len() + operand.len());
    let words = [
        (12, 160),
        (16, 1),
        (28, 2),
        (160, 256),
        (164, code.len()),
        (168, 176),
        (172, 1),
        (176, name_at),
        (180, operand.len()),
        (184, value_at),
        (188, value.len()),
    ];
    let stored =
        words.map(|(at, word)| format!("(i32.store (i32.const {at}) (i32.const {word}))\n")).concat();
    let body = format!(
        "{stored}
        {COUNT_ALL}
        (i32.store8 (i32.const 32) (i32.ge_u (local.get $h) (i32.const 2)))
        (if {IS_KEY_CHANGE} (then
            (i32.store (i32.const 16) (i32.const 0))
            (i32.store (i32.const 28) (i32.const 0))
            (i32.store8 (i32.const 32) (i32.const 1))))
        i32.const 0"
    );
    guest(1, &format!(r#"(data (i32.const 256) "{code}{operand}{value}")"#), &body)
}

/// Makes the manifest that of a bundle of [`obliging_guest`]: it declares the host's obligations, and the time.
pub fn declare_obligations(manifest: &mut Manifest) {
    let declaration = |code: &str| Declaration {
        code: code.to_owned(),
        text: "an obligation of the host".to_owned(),
        severity: Severity::Info,
        remedy: String::new(),
    };
    manifest.obligations =
        [ADMIT_NOT_BEFORE, APPROVALS_EXPIRE_MS, REJECTIONS_REQUIRED].map(declaration).into();
    manifest.facts = vec!["time.now_ms".to_owned()];
    let imports = [
        "svc:bundle/data@1.0.0",
        "svc:bundle/log@1.0.0",
        "svc:policy/facts@2.0.0",
        "svc:policy/types@2.0.0",
        "svc:transaction/types@1.0.0",
    ];
    manifest.capabilities = imports.map(str::to_owned).into();
}

/// A bundle of [`obliging_guest`], signed by `signer`. The value is a time, or a duration.
pub fn obliging_bundle(
    (code, operand, value): (&str, &str, u64),
    sequence: u64,
    signer: &SigningKey,
) -> BundleFiles {
    let wasm = obliging_guest((code, operand, &value.to_string()));
    let facts = [("time.now_ms".to_owned(), value.to_string())];
    let finds = |vector: &mut Vector| vector.facts.extend(facts.clone());
    counting_bundle(wasm, &[code], (sequence, signer), finds, |_| ())
}

/// A bundle of a guest that [counts all](COUNT_ALL) and requires two approvals, with a vector that finds these facts and documents, and has these
/// obligations. Its manifest is that of [`declare_obligations`], changed.
pub(super) fn counting_bundle(
    wasm: Vec<u8>,
    obligations: &[&str],
    (sequence, signer): (u64, &SigningKey),
    finds: impl Fn(&mut Vector),
    change: impl FnOnce(&mut Manifest),
) -> BundleFiles {
    let expect = Expectation {
        decision: Decision::Allow,
        reasons: Vec::new(),
        obligations: obligations.iter().map(ToString::to_string).collect(),
        subjects: Vec::new(),
        required: 2,
        satisfied: false,
    };
    let hash = canonical::digest_bytes("", &wasm);
    let files = committed().with([(COMPONENT_FILE.to_owned(), wasm)]).unwrap();
    with_one_vector(&files, signer, finds, expect, |manifest| {
        (manifest.sequence, manifest.version) = (sequence, format!("test-{sequence}"));
        manifest.files.insert(COMPONENT_FILE.to_owned(), hash);
        declare_obligations(manifest);
        change(manifest);
    })
}

/// These files with a changed manifest, and with one vector, a payment without approvals that finds these facts and documents; signed by `signer` alone.
pub fn with_one_vector(
    files: &BundleFiles,
    signer: &SigningKey,
    finds: impl Fn(&mut Vector),
    expect: Expectation,
    change: impl FnOnce(&mut Manifest),
) -> BundleFiles {
    let (kept, is_vector) = ("tests/payments.json", |name: &str| name.starts_with("tests/"));
    let mut vectors: Vec<Vector> = serde_json::from_slice(files.get(kept).unwrap()).unwrap();
    vectors.truncate(1);
    for vector in &mut vectors {
        vector.input.approvals.clear();
        vector.facts.clear();
        finds(vector);
        vector.expect = expect.clone();
    }
    let vectors = serde_json::to_vec(&vectors).unwrap();
    let hash = canonical::digest_bytes("", &vectors);
    let files = files.only(|name| !is_vector(name)).with([(kept.to_owned(), vectors)]).unwrap();
    signed(&files, &[signer], |manifest| {
        manifest.files.retain(|name, _| !is_vector(name));
        manifest.files.insert(kept.to_owned(), hash);
        change(manifest);
    })
}

/// A bundle that counts all who approved a signature, requires two of them and the groups `treasurer` and `other_team`: everyone is in the
/// former, which needs two, and no one in the latter, which needs one. Signed by `signer`.
pub fn grouped_bundle(sequence: u64, signer: &SigningKey) -> BundleFiles {
    // Two groups of 20 bytes are at 160, and their names at 256.
    let body = format!(
        "{COUNT_ALL}
        (i32.store (i32.const 28) (i32.const 2))
        (i32.store (i32.const 36) (i32.const 160))
        (i32.store (i32.const 40) (i32.const 2))
        (i32.store (i32.const 160) (i32.const 256))
        (i32.store (i32.const 164) (i32.const 9))
        (i32.store (i32.const 168) (i32.const 2))
        (i32.store (i32.const 172) (i32.const 1024))
        (i32.store (i32.const 176) (local.get $h))
        (i32.store (i32.const 180) (i32.const 265))
        (i32.store (i32.const 184) (i32.const 10))
        (i32.store (i32.const 188) (i32.const 1))
        (if {IS_KEY_CHANGE} (then
            (i32.store (i32.const 28) (i32.const 0))
            (i32.store (i32.const 40) (i32.const 0))
            (i32.store8 (i32.const 32) (i32.const 1))))
        i32.const 0"
    );
    let wasm = guest(1, r#"(data (i32.const 256) "treasurerother_team")"#, &body);
    counting_bundle(wasm, &[], (sequence, signer), |_| (), |_| ())
}
