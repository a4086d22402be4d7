//! A bundle whose rule depends on earlier payments.

use super::guest;
use super::obliging::{COUNT_ALL, IS_KEY_CHANGE, counting_bundle};
use crate::BundleFiles;
use crate::bundle::Vector;
use ed25519_dalek::SigningKey;
use gateway_domain::policy::paid::{FIRST_PAID_MS, PAID_COUNT};

/// A guest that allows everything. For signatures it counts all who approved, and requires three of them if the recipient was never paid,
/// else two; a change of a key needs no approvals.
fn paid_guest() -> Vec<u8> {
    // The names are at 256, an answer at 240.
    let (count_at, first, count) = (256 + FIRST_PAID_MS.len(), FIRST_PAID_MS.len(), PAID_COUNT.len());
    let body = format!(
        "(local $required i32)
        (call $get (i32.const {count_at}) (i32.const {count}) (i32.const 240))
        (call $get (i32.const 256) (i32.const {first}) (i32.const 240))
        (local.set $required (i32.sub (i32.const 3) (i32.load8_u (i32.const 240))))
        {COUNT_ALL}
        (if {IS_KEY_CHANGE} (then (local.set $required (i32.const 0))))
        (i32.store (i32.const 28) (local.get $required))
        (i32.store8 (i32.const 32) (i32.ge_u (local.get $h) (local.get $required)))
        i32.const 0"
    );
    guest(1, &format!(r#"(data (i32.const 256) "{FIRST_PAID_MS}{PAID_COUNT}")"#), &body)
}

/// A bundle that requires three approvals of a payment to a recipient that was never paid, and else two; signed by `signer`.
pub fn paid_bundle(sequence: u64, signer: &SigningKey) -> BundleFiles {
    let facts = [(FIRST_PAID_MS.to_owned(), "1".to_owned())];
    let finds = |vector: &mut Vector| vector.facts.extend(facts.clone());
    counting_bundle(paid_guest(), &[], (sequence, signer), finds, |manifest| {
        manifest.facts = [FIRST_PAID_MS, PAID_COUNT].map(str::to_owned).into();
    })
}
