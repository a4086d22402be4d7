//! What production does without, because its operator asked for that by name.

use super::approvals::SignedApprovals;
use super::parse::{Profile, Reader, Settings};
use std::collections::BTreeSet;

/// A defence that production has unless it is named here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exception {
    /// The policy authority's key is in the gateway's process.
    EmbeddedAuthority,
    /// The runtime nodes, and with them whole keys, are in the gateway's process.
    EmbeddedNodes,
    /// Approvals are the gateway's word: approvers do not sign them.
    UnsignedApprovals,
}

impl Exception {
    const ALL: [Self; 3] = [Self::EmbeddedAuthority, Self::EmbeddedNodes, Self::UnsignedApprovals];

    /// Its name in the setting, in readiness and in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EmbeddedAuthority => "embedded_authority",
            Self::EmbeddedNodes => "embedded_nodes",
            Self::UnsignedApprovals => "unsigned_approvals",
        }
    }

    /// Says in the log that it was asked for.
    pub fn warn(&self) {
        tracing::warn!(exception = self.as_str(), "production does without a defence");
    }

    /// What the deployment is to have instead.
    const fn instead(self) -> &'static str {
        match self {
            Self::EmbeddedAuthority => {
                "a policy authority in a process of its own, which this release does not have"
            }
            Self::EmbeddedNodes => {
                "runtime nodes in processes of their own, which this release does not have"
            }
            Self::UnsignedApprovals => "`signed_approvals=required`",
        }
    }

    fn is_made(self, settings: &Settings) -> bool {
        match self {
            // There are no others.
            Self::EmbeddedAuthority | Self::EmbeddedNodes => true,
            Self::UnsignedApprovals => !matches!(settings.signed_approvals, SignedApprovals::Required(_)),
        }
    }
}

impl Reader<'_> {
    pub(super) fn exceptions(&mut self) -> BTreeSet<Exception> {
        let text = self.resolved.text("production_exceptions");
        let mut exceptions = BTreeSet::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match Exception::ALL.into_iter().find(|known| known.as_str() == name) {
                Some(exception) => {
                    exceptions.insert(exception);
                }
                None => {
                    let known = Exception::ALL.map(Exception::as_str).join(", ");
                    self.fault(
                        "production_exceptions",
                        &format!("must be names among {known}, not `{name}`"),
                    );
                }
            }
        }
        exceptions
    }

    /// Each exception that production makes is asked for, and no other.
    pub(super) fn check_exceptions(&mut self, settings: &Settings) {
        let asked = |exception| settings.production_exceptions.contains(&exception);
        if settings.profile == Profile::Development {
            if !settings.production_exceptions.is_empty() {
                self.fault("production_exceptions", "must be empty in development");
            }
            return;
        }
        for exception in Exception::ALL {
            let (name, is_made) = (exception.as_str(), exception.is_made(settings));
            if is_made && !asked(exception) {
                let message = format!("must name `{name}`: production wants {}", exception.instead());
                self.fault("production_exceptions", &message);
            }
            if !is_made && asked(exception) {
                self.fault("production_exceptions", &format!("must not name `{name}`: nothing needs it"));
            }
        }
    }
}
