//! Why an evaluation gave no verdict. The outcome of such an evaluation is a DENY.

use serde::{Deserialize, Serialize};
use std::fmt;

crate::wire_words! {
    /// The kind of a fault: in the reason `policy_fault:<kind>`, in metrics and in the decision record.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum FaultKind {
        /// The guest trapped, for example by a panic, an access out of bounds or a division by zero; or it exited.
        Trap = "trap",
        /// The guest used all its fuel.
        OutOfFuel = "out_of_fuel",
        /// The guest ran longer than its deadline.
        Deadline = "deadline",
        /// The guest requested more memory, a larger table, or more random bytes than it may have.
        Memory = "memory",
        /// The guest used all its stack.
        Stack = "stack",
        /// The host cannot read the guest's output, the output exceeds its limit, or its quorum is impossible, for example because it
        /// counts people who did not approve.
        BadOutput = "bad_output",
        /// The verdict has a reason or an obligation that the manifest does not declare.
        UndeclaredCode = "undeclared_code",
        /// The verdict has too much text or too many items.
        OutputTooLarge = "output_too_large",
        /// The guest read too many facts, or one with too long a name.
        TooManyFacts = "too_many_facts",
        /// The guest read a fact that the manifest does not declare: the last of the facts read.
        UndeclaredFact = "undeclared_fact",
        /// The guest read more of its data than it may.
        TooMuchData = "too_much_data",
        /// The guest called a WASI function that the host does not implement.
        NotGiven = "not_given",
        /// All instances are in use, or the queue of the worker pool is full.
        PoolExhausted = "pool_exhausted",
        /// The host panicked.
        Panicked = "panicked",
        /// No bundle is active.
        NoActiveBundle = "no_active_bundle",
        /// The active bundle is not valid now, or the request has no time to check that.
        ExpiredBundle = "expired_bundle",
        /// The current trust roots and pins no longer accept the active bundle, for example because a key was revoked.
        UntrustedBundle = "untrusted_bundle",
        /// The trust roots cannot be read, or there are none.
        NoTrustRoots = "no_trust_roots",
    }
}

impl FaultKind {
    /// Whether the fault is the policy's own: another evaluation of the same request has the same. The other faults are the host's, and
    /// say nothing about the request.
    #[must_use]
    pub const fn is_of_policy(self) -> bool {
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
}

/// Why there is no verdict.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PolicyFault))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The kind, as in the reason `policy_fault:KIND`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub kind: FaultKind,
    /// What its author needs to mend the policy; may be empty.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub detail: String,
}

impl From<FaultKind> for Fault {
    fn from(kind: FaultKind) -> Self {
        Self { kind, detail: String::new() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.as_str())?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}
