//! Why an evaluation gave no verdict. The outcome of such an evaluation is a DENY.

use gateway_domain::policy::UNDECLARED_FACT;
use wasmtime::{PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::I32Exit;

/// Why an evaluation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvaluationFault {
    /// The guest trapped, for example by a panic, an access out of bounds or a division by zero; or it exited.
    Trap,
    /// The guest used all its fuel.
    OutOfFuel,
    /// The guest ran longer than its deadline.
    Deadline,
    /// The guest requested more memory, a larger table, or more random bytes than it may have.
    Memory,
    /// The guest used all its stack.
    Stack,
    /// The host cannot read the guest's output, the output exceeds [`crate::limits::HOSTCALL_BYTES_MAX`], or its quorum is
    /// impossible, for example because it counts people who did not approve.
    BadOutput,
    /// The verdict has a reason or an obligation that the manifest does not declare.
    UndeclaredCode,
    /// The verdict has too much text or too many items.
    OutputTooLarge,
    /// The guest read too many facts, or one with too long a name.
    TooManyFacts,
    /// The guest read a fact that the manifest does not declare: the last one in the decision record.
    UndeclaredFact,
    /// The guest read more of its data than [`crate::limits::DATA_BYTES_READ_MAX`].
    TooMuchData,
    /// The guest called a WASI function that the host does not implement.
    NotGiven,
    /// All instances are in use, or the queue of the worker pool is full.
    PoolExhausted,
    /// The host panicked.
    Panicked,
    /// No bundle is active.
    NoActiveBundle,
    /// The active bundle is not valid now, or the request has no time to check that.
    ExpiredBundle,
    /// The current trust roots and pins no longer accept the active bundle, for example because a key was revoked.
    UntrustedBundle,
    /// The trust roots cannot be read, or there are none.
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

    /// The kind in the code `policy_fault:<kind>`, in metrics and in the decision record.
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
            Self::UndeclaredFact => UNDECLARED_FACT,
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

    /// The fault of this kind; `None` for an unknown text.
    #[must_use]
    pub fn from_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.kind() == kind)
    }

    /// Whether another evaluation of the same request has the same fault. The other faults are caused by the host.
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

    /// The fault for an error that wasmtime returned from instantiation or from a call.
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
            // Neither a trap nor a limit: the host could not read the values that the guest passed.
            None => Self::BadOutput,
        }
    }
}

/// The error with which the host's functions stop a guest. [`EvaluationFault::of`] finds the fault in it.
#[derive(Debug, thiserror::Error)]
#[error("stopped by the host: {}", .0.kind())]
pub(crate) struct Stopped(pub(crate) EvaluationFault);
