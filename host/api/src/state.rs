//! What every handler has at hand.

use gateway_engine::Engine;
use std::sync::Arc;

/// What to do with members of a body that the contract does not have (decisions.md 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFields {
    /// Ignore them; name them in a `Warning` header and in evidence.
    Warn,
    /// Answer 400.
    Reject,
}

/// Limits and modes of the HTTP border.
#[derive(Clone, Debug)]
pub struct Options {
    /// Largest request body, bytes.
    pub body_bytes_max: usize,
    /// Largest node-recovery body, bytes.
    pub recovery_body_bytes_max: usize,
    /// Largest audit export, bytes.
    pub audit_bytes_max: usize,
    /// Unknown members of bodies.
    pub unknown_fields: UnknownFields,
}

/// The application.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    engine: Engine,
    options: Options,
}

impl App {
    /// The application on an engine.
    #[must_use]
    pub fn new(engine: Engine, options: Options) -> Self {
        Self(Arc::new(Inner { engine, options }))
    }

    /// The use cases.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Limits and modes.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.0.options
    }
}
