//! What stopped a guest, as the fault of its evaluation.

use gateway_domain::policy::{Fault, FaultKind};
use wasmtime::{PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::I32Exit;

/// Bytes of a text from the guest in a fault's detail.
const QUOTED_BYTES_MAX: usize = 256;

/// The error with which the host's functions stop a guest. [`of`] finds the fault in it.
#[derive(Debug, thiserror::Error)]
#[error("stopped by the host: {0}")]
pub(crate) struct Stopped(pub(crate) Fault);

impl Stopped {
    pub(crate) fn new(kind: FaultKind, detail: impl Into<String>) -> Self {
        Self(fault(kind, detail))
    }
}

pub(crate) fn fault(kind: FaultKind, detail: impl Into<String>) -> Fault {
    Fault { kind, detail: detail.into() }
}

/// A text that the guest chose, for a fault's detail: without control characters, and not too long.
pub(crate) fn quoted(text: &str) -> String {
    let end = text.floor_char_boundary(QUOTED_BYTES_MAX);
    let (kept, left) = text.split_at(end);
    format!("`{}{}`", kept.escape_debug(), if left.is_empty() { "" } else { "…" })
}

/// The fault for an error that wasmtime returned from instantiation or from a call.
pub(crate) fn of(error: &wasmtime::Error) -> Fault {
    if let Some(Stopped(fault)) = error.downcast_ref() {
        return fault.clone();
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return FaultKind::PoolExhausted.into();
    }
    // A policy that exits has given no verdict, whatever its exit status.
    if error.is::<I32Exit>() {
        return fault(FaultKind::Trap, "the policy exited");
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => FaultKind::OutOfFuel.into(),
        Some(Trap::Interrupt) => FaultKind::Deadline.into(),
        Some(Trap::StackOverflow) => FaultKind::Stack.into(),
        Some(trap) => fault(FaultKind::Trap, trap.to_string()),
        // Neither a trap nor a limit: the host could not read the values that the guest passed.
        None => fault(FaultKind::BadOutput, error.root_cause().to_string()),
    }
}
