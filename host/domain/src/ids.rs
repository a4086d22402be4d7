//! Identifiers, parsed and printed.

pub use crate::hex_bytes::{Hex32, HexBytes, InvalidHex};

use crate::canonical;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

macro_rules! hex32_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Hex32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidHex;

            fn from_str(text: &str) -> Result<Self, InvalidHex> {
                text.parse().map(Self)
            }
        }
    };
}

hex32_id! {
    /// The permanent id of an operation, derived from its idempotency key ([`crate::intent::operation_id`]).
    OperationId
}
hex32_id! {
    /// The permanent id of a key, derived from tenant and key reference ([`crate::intent::key_id`]).
    KeyId
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type! {
    /// A tenant. Its callers see only its own operations and keys.
    Tenant
}
name_type! {
    /// The caller's name for a key, unique within a tenant.
    KeyRef
}
name_type! {
    /// The name of an epoch. In an accepted operation it has 1 to 128 characters, and no earlier epoch of the key has it.
    EpochName
}

impl EpochName {
    /// `target_epoch_hex` in the API: the name itself when it is a Hex32, else `SHA-256("svc/epoch-name/v1" || name)`.
    #[must_use]
    pub fn hex32(&self) -> Hex32 {
        let tagged = |_| canonical::digest_bytes("svc/epoch-name/v1", self.0.as_bytes());
        self.0.parse().unwrap_or_else(tagged)
    }
}
