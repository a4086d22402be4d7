//! Exceptions from the safeguards of production, which the operator must name.

use super::{Profile, Reader, Settings};
use std::collections::BTreeSet;

/// An exception from the safeguards of production.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exception {
    /// The policy authority's key is in the gateway's process.
    EmbeddedAuthority,
    /// The runtime nodes, and with them whole keys, are in the gateway's process.
    EmbeddedNodes,
    /// Approvals need not be signed by their approvers: the nodes rely on the gateway.
    UnsignedApprovals,
}

impl Exception {
    const ALL: [Self; 3] = [Self::EmbeddedAuthority, Self::EmbeddedNodes, Self::UnsignedApprovals];

    /// The name in the setting, in readiness and in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EmbeddedAuthority => "embedded_authority",
            Self::EmbeddedNodes => "embedded_nodes",
            Self::UnsignedApprovals => "unsigned_approvals",
        }
    }

    /// Logs the exception.
    pub fn warn(&self) {
        tracing::warn!(exception = self.as_str(), "a production safeguard is disabled");
    }

    /// What a deployment needs to do without the exception.
    const fn alternative(self) -> &'static str {
        match self {
            Self::EmbeddedAuthority => "`authority_url`, a policy authority in a process of its own",
            Self::EmbeddedNodes => "`runtime_nodes`, each in a process of its own",
            Self::UnsignedApprovals => "`signed_approvals=required`",
        }
    }

    /// Whether these settings need the exception.
    fn applies(self, settings: &Settings) -> bool {
        match self {
            Self::EmbeddedAuthority => settings.authority.remote.is_empty(),
            Self::EmbeddedNodes => settings.nodes.remote.is_none(),
            Self::UnsignedApprovals => !settings.approvals.signed.are_required(),
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

    /// Production must name every exception that applies, and no other.
    pub(super) fn check_exceptions(&mut self, settings: &Settings) {
        let is_named = |exception| settings.production_exceptions.contains(&exception);
        if settings.profile == Profile::Development {
            if !settings.production_exceptions.is_empty() {
                self.fault("production_exceptions", "must be empty in development");
            }
            return;
        }
        for exception in Exception::ALL {
            let (name, applies) = (exception.as_str(), exception.applies(settings));
            if applies && !is_named(exception) {
                let message = format!("must name `{name}`: production requires {}", exception.alternative());
                self.fault("production_exceptions", &message);
            }
            if !applies && is_named(exception) {
                self.fault(
                    "production_exceptions",
                    &format!("must not name `{name}`: these settings do not need it"),
                );
            }
        }
    }
}
