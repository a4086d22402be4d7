//! The SDK for policy authors.
//!
//! A policy takes a [`Request`] and the [`Facts`] that it reads, and returns a [`Verdict`]: allow or deny, with reasons,
//! obligations, and the people who count towards the quorum. It is a pure function without clock, randomness, files or
//! network, so every past decision can be replayed and gives the same bytes.
//!
//! ```
//! use gateway_policy_sdk::{Answer, Data, Facts, Policy, Quorum, Request, Verdict};
//!
//! pub struct DenyWeekends;
//!
//! impl Policy for DenyWeekends {
//!     const DESCRIPTION: &'static str = "deny-weekends 1.0.0";
//!
//!     fn evaluate(_request: &Request, facts: &dyn Facts, _data: &dyn Data) -> Verdict {
//!         let mut answer = Answer::new();
//!         match facts.integer("time.now_ms") {
//!             // 1970-01-01 was a Thursday.
//!             Ok(Some(now_ms)) if (now_ms / 86_400_000 + 3) % 7 < 5 => answer.because("weekday", &[]),
//!             _ => answer.deny("weekend", &[]),
//!         }
//!         answer.verdict(Quorum { subjects: Vec::new(), required: 0, satisfied: true, groups: Vec::new() })
//!     }
//! }
//!
//! // In the component's own crate (`crate-type = ["cdylib"]`):
//! // gateway_policy_sdk::export!(DenyWeekends);
//!
//! let verdict = DenyWeekends::evaluate(
//!     &gateway_policy_sdk::testing::payment("acct-1", "acct-2", 100),
//!     &gateway_policy_sdk::testing::facts(&[("time.now_ms", "0")]),
//!     &gateway_policy_sdk::testing::data(&[]),
//! );
//! assert_eq!(verdict.reasons[0].code, "weekday");
//! ```
//!
//! Test policies natively, as here. [`export!`] makes the component from the same code.

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod allocator;
#[doc(hidden)]
#[rustfmt::skip]
#[allow(
    missing_docs,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "generated"
)]
pub mod bindings;
mod answer;
mod data;
mod facts;
pub mod json;
mod quorum;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use answer::Answer;
pub use bindings::svc::policy::types::{
    Approval, AssetAction, Decision, Group, Intent, KeyChange, Moment, Operand, Payment, Person, Quorum,
    Request, Statement, Verdict,
};
pub use bindings::svc::transaction::types as transaction;
pub use data::{Data, Documents, UnreadableData, step};
pub use facts::{Facts, Unreadable};
pub use quorum::{count, group};

/// A policy. The type has no state: every evaluation runs in an instance of its own.
pub trait Policy {
    /// Name and version, for logs.
    const DESCRIPTION: &'static str;

    /// Evaluates `request`. The same arguments must always give the same verdict.
    fn evaluate(request: &Request, facts: &dyn Facts, data: &dyn Data) -> Verdict;
}

/// The facts of the gateway that runs this component. The gateway records each name read, with its value.
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub struct HostFacts;

#[cfg(target_arch = "wasm32")]
impl Facts for HostFacts {
    fn get(&self, name: &str) -> Option<String> {
        bindings::svc::policy::facts::get(name)
    }
}

/// The data files of the bundle that contains this component.
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub struct HostData;

#[cfg(target_arch = "wasm32")]
impl Data for HostData {
    fn get(&self, file: &str, pointer: &str) -> Option<String> {
        bindings::svc::bundle::data::get(file, pointer)
    }
}

/// Sends the message of a panic to the host, which shows it with the fault.
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub fn report_panics() {
    std::panic::set_hook(Box::new(|panic| bindings::svc::bundle::log::write(&panic.to_string())));
}

/// Exports a [`Policy`] as the component of this crate. Use it once, in a `cdylib` crate.
#[macro_export]
macro_rules! export {
    ($policy:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            struct Component;

            impl $crate::bindings::Guest for Component {
                fn describe() -> String {
                    String::from(<$policy as $crate::Policy>::DESCRIPTION)
                }

                fn evaluate(request: $crate::Request) -> $crate::Verdict {
                    $crate::report_panics();
                    let verdict = <$policy as $crate::Policy>::evaluate(
                        &request,
                        &$crate::HostFacts,
                        &$crate::HostData,
                    );
                    // The gateway discards the instance, with its memory, after this call.
                    ::core::mem::forget(request);
                    verdict
                }
            }

    $crate::bindings::export_world!(Component with_types_in $crate::bindings);
        };
    };
}
