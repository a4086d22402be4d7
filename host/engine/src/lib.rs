//! Use cases, ports and the drive loop: the only place that sequences effects.
//!
//! Deliberately absent: rules about operations (they are in `gateway_domain`), and everything that knows HTTP, SQL,
//! WebAssembly or keys (those are adapters behind [`ports`]).
//!
//! Use cases: [`Engine::submit`], [`Engine::submit_on_key`], [`Engine::approve`], [`Engine::execute`],
//! [`Engine::publish`], [`Engine::recover`], [`Engine::export`], [`Engine::operation`], [`Engine::history`],
//! [`Engine::key`], [`Engine::key_operations`], [`Engine::preview`], [`Engine::policies`], [`Engine::checkpoint`],
//! [`Engine::inclusion_evidence`], [`Engine::readiness`], [`Engine::reconcile`],
//! [`Engine::check_nodes`]. Start reading at `drive`.

mod approve;
mod backoff;
mod draft;
mod drive;
mod engine;
mod error;
mod execute;
mod export;
pub mod failpoint;
mod fit;
mod holders;
mod judge;
mod key;
mod locks;
mod log;
mod perform;
pub mod ports;
mod provision;
mod query;
mod rate;
mod readiness;
mod reconcile;
mod recover;
pub mod secret;
mod spending;
mod submit;
mod target;

pub use approve::Vote;
pub use engine::{Engine, Ports, Rules, Visibility};
pub use error::{Dependency, EngineError, Unavailable};
pub use execute::{Execute, Publish};
pub use export::Export;
pub use key::{KeyOperations, KeyTarget};
pub use locks::{Locks, OperationLocks};
pub use log::InclusionEvidence;
pub use query::Preview;
pub use rate::{Quota, RateLimit, Token};
pub use readiness::Readiness;
pub use recover::Recover;
pub use submit::{Submit, Submitted};
pub use target::Target;
