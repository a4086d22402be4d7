//! Values for the tests of this crate and others: sample operations with their keys, bodies of requests, and approvers that sign.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "tests fail by panicking")]

pub mod approvers;
pub mod paid;
pub mod requests;
pub mod samples;
