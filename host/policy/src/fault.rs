//! Why an evaluation gave no verdict. Each is a DENY, and never a verdict of the policy.

use wasmtime::{PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::I32Exit;

/// The kind of failure of one evaluation, told apart by type and never by a message's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvaluationFault {
    /// The guest trapped: a panic, an access out of bounds, a division by zero.
    Trap,
    /// The fuel ran out.
    OutOfFuel,
    /// The backstop clock stopped it.
    Deadline,
    /// It asked for more memory, a larger table, or more random bytes, than it may have.
    Memory,
    /// It recursed too deeply.
    Stack,
    /// What it handed over could not be read, exceeded [`crate::limits::HOSTCALL_BYTES_MAX`], or contradicts the
    /// request: a quorum of people who did not approve.
    BadOutput,
    /// A reason or an obligation that the manifest does not declare.
    UndeclaredCode,
    /// More text or more items than a verdict may have.
    OutputTooLarge,
    /// It asked for too many facts, or for one with an overlong name.
    TooManyFacts,
    /// It asked for a fact that the manifest does not declare: the last of those recorded.
    UndeclaredFact,
    /// It looked up more of its data than [`crate::limits::DATA_BYTES_READ_MAX`].
    TooMuchData,
    /// It called a WASI function that has no implementation here.
    NotGiven,
    /// All instances are in use.
    PoolExhausted,
    /// The host panicked.
    Panicked,
    /// No bundle is active.
    NoActiveBundle,
    /// The active bundle's last instant of validity has passed, or the clock went back to before its first.
    ExpiredBundle,
    /// The signatures that the active bundle is in force by do not count any more: a key was revoked.
    UntrustedBundle,
    /// The trust roots cannot be read, or the file has none: no signature counts until that is repaired.
    NoTrustRoots,
}

impl EvaluationFault {
    const ALL: [Self; 18] = [
        Self::Trap,
        Self::OutOfFuel,
        Self::Deadline,
        Self::Memory,
        Self::Stack,
        Self::BadOutput,
        Self::UndeclaredCode,
        Self::OutputTooLarge,
        Self::TooManyFacts,
        Self::UndeclaredFact,
        Self::TooMuchData,
        Self::NotGiven,
        Self::PoolExhausted,
        Self::Panicked,
        Self::NoActiveBundle,
        Self::ExpiredBundle,
        Self::UntrustedBundle,
        Self::NoTrustRoots,
    ];

    /// The word in `policy_fault:<kind>`, in metrics and in the decision record.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::OutOfFuel => "out_of_fuel",
            Self::Deadline => "deadline",
            Self::Memory => "memory",
            Self::Stack => "stack",
            Self::BadOutput => "bad_output",
            Self::UndeclaredCode => "undeclared_code",
            Self::OutputTooLarge => "output_too_large",
            Self::TooManyFacts => "too_many_facts",
            Self::UndeclaredFact => "undeclared_fact",
            Self::TooMuchData => "too_much_data",
            Self::NotGiven => "not_given",
            Self::PoolExhausted => "pool_exhausted",
            Self::Panicked => "panicked",
            Self::NoActiveBundle => "no_active_bundle",
            Self::ExpiredBundle => "expired_bundle",
            Self::UntrustedBundle => "untrusted_bundle",
            Self::NoTrustRoots => "no_trust_roots",
        }
    }

    /// The fault of this kind.
    #[must_use]
    pub fn from_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.kind() == kind)
    }

    /// Whether the same request would fault again. The other faults are the host's.
    #[must_use]
    pub const fn is_repeatable(self) -> bool {
        match self {
            Self::Trap
            | Self::OutOfFuel
            | Self::Memory
            | Self::Stack
            | Self::BadOutput
            | Self::UndeclaredCode
            | Self::OutputTooLarge
            | Self::TooManyFacts
            | Self::UndeclaredFact
            | Self::TooMuchData
            | Self::NotGiven => true,
            Self::Deadline
            | Self::PoolExhausted
            | Self::Panicked
            | Self::NoActiveBundle
            | Self::ExpiredBundle
            | Self::UntrustedBundle
            | Self::NoTrustRoots => false,
        }
    }

    /// The kind of an error that wasmtime returned from instantiation or from the call.
    pub(crate) fn of(error: &wasmtime::Error) -> Self {
        if let Some(stopped) = error.downcast_ref::<Stopped>() {
            return stopped.0;
        }
        if error.is::<PoolConcurrencyLimitError>() {
            return Self::PoolExhausted;
        }
        // A policy that exits has given no verdict, whatever its exit status.
        if error.is::<I32Exit>() {
            return Self::Trap;
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => Self::OutOfFuel,
            Some(Trap::Interrupt) => Self::Deadline,
            Some(Trap::StackOverflow) => Self::Stack,
            Some(_) => Self::Trap,
            // Not a trap and not a limit: the host could not lift the values that the guest passed.
            None => Self::BadOutput,
        }
    }
}

/// Raised by the host's own functions to end a guest for a reason that [`EvaluationFault::of`] finds again.
#[derive(Debug, thiserror::Error)]
#[error("stopped by the host: {}", .0.kind())]
pub(crate) struct Stopped(pub(crate) EvaluationFault);
