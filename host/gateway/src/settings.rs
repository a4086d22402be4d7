//! Settings: one table, four sources (flag over environment over file over default), every fault one line.

mod approvals;
mod auth;
mod exceptions;
mod limits;
mod parse;
mod sources;
mod table;
mod transport;

pub use approvals::SignedApprovals;
pub use auth::{Auth, ClientSecretSource, IssuerKeys};
pub use exceptions::Exception;
pub use parse::{LogFormat, NodeKey, Profile, Settings};
pub use sources::{Resolved, Secret, Source, resolve};
pub use table::{SETTINGS, Setting};
pub use transport::Transport;
