//! Settings: one table, four sources (flag over environment over file over default), every fault one line.

mod approvals;
mod parse;
mod sources;
mod table;
mod transport;

pub use approvals::SignedApprovals;
pub use parse::{AuthMode, LogFormat, NodeKey, Profile, Settings};
pub use sources::{Resolved, Source, resolve};
pub use table::{SETTINGS, Setting};
pub use transport::Transport;
