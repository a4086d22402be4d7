//! Tests of the decisions that the authority signs, and of the requests that it refuses, and of its endpoints.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod asked;
mod decision;
mod documents;
mod envelope;
mod paid;
mod record;
mod support;
mod surface;
mod times;
mod verify;
