//! Secret objects of execute and recovery bodies: they go to the nodes and nowhere else.

use std::fmt;
use zeroize::Zeroizing;

/// One secret object as JSON text. Zeroised when dropped; never printed, stored or compared.
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the only copy.
    #[must_use]
    pub const fn new(json: Zeroizing<String>) -> Self {
        Self(json)
    }

    /// For a node, and nobody else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

/// The secret objects of one request.
#[derive(Debug, Default)]
pub struct Secrets {
    /// `signing_share_mul` of an execute body.
    pub signing_share_mul: Option<Secret>,
    /// `recovery_helper_shares` of an execute body.
    pub recovery_helper_shares: Option<Secret>,
    /// `secret_kernel_payload` of a node-recovery body.
    pub secret_kernel_payload: Option<Secret>,
}
