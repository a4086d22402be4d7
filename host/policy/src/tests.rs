//! Signed bundles of real and of hostile guests.

mod bundles;
mod cedar;
mod data;
mod default_policy;
mod host;
mod hostile;
mod support;
mod wasi;
