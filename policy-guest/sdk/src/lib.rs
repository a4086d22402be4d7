//! Everything a policy author needs.
//!
//! A policy answers one question: given this [`Request`] and the [`Facts`] it asks for, [`Verdict`] allow or deny,
//! with reasons, obligations, and who counts towards the quorum. It is a pure function: there is no clock, no
//! randomness, no file and no network, so every past decision can be run again and gives the same bytes.
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
//!             Ok(Some(now_ms)) if (now_ms / 86_400_000 + 3) % 7 < 5 => answer.because("weekday", ""),
//!             _ => answer.deny("weekend", "submit again on a weekday"),
//!         }
//!         answer.verdict(Quorum { subjects: Vec::new(), required: 0, satisfied: true })
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
//! Policies are tested natively, as here; the component is the same code behind [`export!`].

#[cfg(target_arch = "wasm32")]
mod allocator;
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
    Approval, AssetAction, Decision, Intent, KeyChange, Moment, Payment, Quorum, Request, Statement,
    Submitter, Verdict,
};
pub use data::{Data, UnreadableData, step};
pub use facts::{Facts, Unreadable};
pub use quorum::count;

/// One policy. The type itself carries no state: an instance lives for a single evaluation.
pub trait Policy {
    /// Name and version, for logs.
    const DESCRIPTION: &'static str;

    /// The verdict on `request`. Called with the same arguments it must always answer the same.
    fn evaluate(request: &Request, facts: &dyn Facts, data: &dyn Data) -> Verdict;
}

/// The facts of the gateway that runs this component. The gateway records each name asked for and what it answered.
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub struct HostFacts;

#[cfg(target_arch = "wasm32")]
impl Facts for HostFacts {
    fn get(&self, name: &str) -> Option<String> {
        bindings::svc::policy::facts::get(name)
    }
}

/// The data of the bundle that this component is in.
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub struct HostData;

#[cfg(target_arch = "wasm32")]
impl Data for HostData {
    fn get(&self, file: &str, pointer: &str) -> Option<String> {
        bindings::svc::policy::data::get(file, pointer)
    }
}

/// Exports a [`Policy`] as the component of this crate. To be used once, in a `cdylib`.
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
                    let verdict = <$policy as $crate::Policy>::evaluate(
                        &request,
                        &$crate::HostFacts,
                        &$crate::HostData,
                    );
                    // The instance ends with this call, and its memory with it.
                    ::core::mem::forget(request);
                    verdict
                }
            }

    $crate::bindings::export_world!(Component with_types_in $crate::bindings);
        };
    };
}
