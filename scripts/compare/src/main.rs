//! Policy engines in process, compared with the default policy as a native Rust function. `cargo bench -p gateway-policy --bench evaluation`
//! compares that function with its component, and `compare-cedar` the engine of Cedar's bundles.
//!
//! ```sh
//! cargo run --release --locked --manifest-path scripts/compare/Cargo.toml
//! ```
//!
//! Every engine starts from the gateway's own form of the request and ends with a decision, so building an engine's input
//! is in its time. Before the measurement each must allow the payment, and deny it to another recipient.

mod case;
mod measure;
mod native;
mod rego;
#[path = "../../../host/policy/benches/native/request.rs"]
mod request;

use case::Case;
use measure::{Column, in_turns};
use std::error::Error;
use std::hint::black_box;

/// Whether the policy allows the payment.
type Allowed = Result<bool, Box<dyn Error>>;

/// An engine: whether its policy allows the payment.
type Engine<'a> = &'a dyn Fn(&Case) -> Allowed;

fn main() -> Result<(), Box<dyn Error>> {
    let (interpreted, compiled) = (rego::Interpreted::new()?, rego::Compiled::new()?);
    let engines: [(&str, Engine<'_>); 3] = [
        ("payment-guard, native Rust", &native::allows),
        ("the same in Rego, regorus interpreter, cloned", &|case| interpreted.allows(case)),
        ("the same in Rego, regorus machine, fresh", &|case| compiled.allows(case)),
    ];
    let (case, forbidden) = (Case::to("acct-2")?, Case::to("acct-9")?);
    for (name, allows) in engines {
        if (allows(&case)?, allows(&forbidden)?) != (true, false) {
            return Err(format!("{name} must allow the first payment, and deny the second").into());
        }
    }
    let case = &case;
    in_turns(&mut engines.map(|(name, allows)| {
        Column::new(name, move || {
            black_box(allows(black_box(case))?);
            Ok(())
        })
    }))
}
