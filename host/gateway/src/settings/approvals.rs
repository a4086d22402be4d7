//! Whether approvals are signed, and whose signatures are believed.

use super::parse::Reader;
use std::path::{Path, PathBuf};

/// Whether approvals are signed by their approvers; where they are verified, the registry they are verified against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignedApprovals {
    /// Nobody verifies any.
    Off,
    /// Those that are signed are verified.
    Optional(PathBuf),
    /// An approval without a signature is none.
    Required(PathBuf),
}

impl SignedApprovals {
    /// The registry; none where nobody verifies.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Off => None,
            Self::Optional(file) | Self::Required(file) => Some(file),
        }
    }
}

impl Reader<'_> {
    pub(super) fn signed_approvals(&mut self) -> SignedApprovals {
        let file = self.resolved.text("approvers_file");
        match (self.resolved.text("signed_approvals"), file) {
            ("off", "") => SignedApprovals::Off,
            ("off", _) => {
                self.fault(
                    "approvers_file",
                    "must be empty while `signed_approvals` is `off`: nobody reads it",
                );
                SignedApprovals::Off
            }
            (word @ ("optional" | "required"), "") => {
                let why = format!("must be given while `signed_approvals` is `{word}`");
                self.fault("approvers_file", &why);
                SignedApprovals::Off
            }
            ("optional", file) => SignedApprovals::Optional(file.into()),
            ("required", file) => SignedApprovals::Required(file.into()),
            (other, _) => {
                let why = format!("must be one of off, optional, required, not `{other}`");
                self.fault("signed_approvals", &why);
                SignedApprovals::Off
            }
        }
    }
}
