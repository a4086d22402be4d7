//! Request and response shapes of the contract, and how requests become domain values.

pub mod approvals;
pub mod bundles;
pub mod common;
pub mod custody;
pub mod custody_view;
pub mod evidence;
pub mod log;
pub mod names;
pub mod operations;
pub mod policy;
pub mod readiness;
pub mod view;
