//! Use cases, ports and the drive loop: the only place that sequences effects.
//!
//! Deliberately absent: rules about operations (they are in `gateway_domain`), and everything that knows HTTP, SQL,
//! WebAssembly or keys (those are adapters behind [`ports`]).
//!
//! Use cases: [`Engine::submit`], [`Engine::approve`], [`Engine::execute`], [`Engine::publish`], [`Engine::recover`],
//! [`Engine::operation`], [`Engine::history`], [`Engine::preview`], [`Engine::reconcile`]. Start reading at `drive`.

mod approve;
mod backoff;
mod draft;
mod drive;
mod engine;
mod error;
mod execute;
pub mod failpoint;
mod judge;
mod locks;
mod perform;
pub mod ports;
mod provision;
mod query;
mod rate;
mod reconcile;
mod recover;
pub mod secret;
mod submit;
mod target;

pub use approve::Vote;
pub use engine::{Engine, Ports, Rules, Visibility};
pub use error::{Dependency, EngineError, Unavailable};
pub use execute::{Execute, Publish};
pub use locks::OperationLocks;
pub use query::Preview;
pub use rate::Rate;
pub use recover::Recover;
pub use submit::{Submit, Submitted};
pub use target::Target;
