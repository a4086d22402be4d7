//! Signed bundles of real and of hostile guests.

mod activation;
mod bundles;
mod cedar;
mod convert;
mod data;
mod default_policy;
mod fuzz;
mod host;
mod hostile;
mod lifecycle;
mod shadow;
mod support;
mod wasi;
