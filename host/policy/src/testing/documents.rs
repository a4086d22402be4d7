//! Signed documents, and a bundle whose rule depends on one.

use super::obliging::{COUNT_ALL, IS_KEY_CHANGE, counting_bundle};
use super::{component, module};
use crate::BundleFiles;
use crate::bundle::{Vector, signature};
use ed25519_dalek::SigningKey;
use gateway_domain::dsse::Envelope;
use gateway_domain::policy::SignedDocument;
use gateway_domain::policy::document::{Document, PAYLOAD_TYPE};
use gateway_domain::time::EpochMs;
use serde_json::json;

/// The document that [`rates_bundle`] needs.
pub fn rates(sequence: u64, not_after_ms: EpochMs) -> Document {
    Document { name: "rates".into(), sequence, not_after_ms, content: json!({ "EUR": "1.05" }) }
}

/// The document, signed by these keys.
pub fn signed_document(document: &Document, keys: &[&SigningKey]) -> SignedDocument {
    let payload = document.to_payload().unwrap();
    let signatures: Vec<_> = keys.iter().map(|key| signature(PAYLOAD_TYPE, &payload, key)).collect();
    SignedDocument::parse(Envelope::seal(PAYLOAD_TYPE, &payload, &signatures)).unwrap()
}

/// A guest that reads `/EUR` of the document `rates`, and denies a signature while it finds none; else it counts all who approved, and
/// requires two of them. A change of a key needs neither.
pub fn rates_guest() -> Vec<u8> {
    let imports =
        r#"(import "svc:bundle/documents@1.0.0" "get" (func $document (param i32 i32 i32 i32 i32)))"#;
    // The name is at 256, the pointer at 264, an answer at 240, and the verdict at 0.
    let body = format!(
        "(if (i32.eqz {IS_KEY_CHANGE}) (then
            (call $document (i32.const 256) (i32.const 5) (i32.const 264) (i32.const 4) (i32.const 240))
            (i32.store8 (i32.const 0) (i32.eqz (i32.load8_u (i32.const 240))))
            (i32.store (i32.const 28) (i32.const 2))))
        {COUNT_ALL}
        (i32.store8 (i32.const 32) (i32.ge_u (local.get $h) (i32.load (i32.const 28))))
        i32.const 0"
    );
    component(module(imports, 1, r#"(data (i32.const 256) "rates   /EUR")"#, &body), &[])
}

/// A bundle of [`rates_guest`], signed by `signer`.
pub fn rates_bundle(sequence: u64, signer: &SigningKey) -> BundleFiles {
    let finds = |vector: &mut Vector| {
        vector.documents.insert("rates".to_owned(), rates(1, EpochMs(0)).content);
        vector.facts.insert("time.now_ms".to_owned(), "1".to_owned());
    };
    counting_bundle(rates_guest(), &[], (sequence, signer), finds, |manifest| {
        manifest.facts = vec!["document.rates".to_owned()];
        let imports = ["svc:bundle/documents@1.0.0", "svc:policy/types@2.0.0", "svc:transaction/types@1.0.0"];
        manifest.capabilities = imports.map(str::to_owned).into();
    })
}
