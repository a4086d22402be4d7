//! Use cases, ports and the drive loop: the only place that sequences effects.
//!
//! Deliberately absent: rules about operations and keys (they are in `gateway_domain`), and everything that knows
//! HTTP, SQL, WebAssembly or key shares (those are adapters behind [`ports`]).
//!
//! Start reading at `submit` (a payment's begins in `development`, which may make its key first), then `session` (the unit of work) and
//! `drive` (the loop). The use cases are methods of [`Engine`]: `submit`, `submit_on_key`, `approve`, `reject`, `cancel`, `execute`, `publish`, `recover` and `export` move operations,
//! `reads`, `lists` and `decisions` answer questions, `feed` tells what happens, `webhooks` how far it was sent, `reconcile` drives what a crash left behind.
//!
//! Files depend on each other in one direction: `error`, `rate_limit`, `locks` → [`ports`] → `holders`, `feed/recent` → `engine` →
//! `restored`, `replica`, `witnessed`, `session` → `policy`, `drive` → the use cases → `development`, which creates keys on first use.

mod approve;
mod decisions;
mod development;
mod drive;
mod engine;
mod error;
mod execute;
pub mod failpoint;
mod feed;
mod holders;
mod lists;
mod locks;
mod policy;
pub mod ports;
mod rate_limit;
mod readiness;
mod reads;
mod reconcile;
mod reject;
mod replica;
mod reserved;
mod restored;
mod session;
mod submit;
mod webhooks;
mod witnessed;

pub use approve::Approve;
pub use engine::{Engine, KeptCheckpoint, ReplicaFault, Rules};
pub use error::{Denial, Denied, Dependency, EngineError, Unavailable};
pub use execute::{Execute, Export, Publish, Recover};
pub use feed::{Notice, NoticeFilter, Reading, Start};
pub use lists::{ListOperations, Page};
pub use ports::{Ports, Visibility};
pub use rate_limit::{Quota, RateLimit, Token};
pub use readiness::Readiness;
pub use reads::{InclusionEvidence, KeyOperations, KeyTarget, Preview, RequestedRecovery};
pub use reject::{Cancel, Reject};
pub use session::Target;
pub use submit::{Submit, Submitted};
pub use webhooks::{WebhookChanged, WebhookStatus};
