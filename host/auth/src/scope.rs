//! Scopes, and which of a caller's scopes permit an act.

/// What an endpoint needs. A caller has it by any of the names, or by the family's wildcard (decisions.md 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any `operations.` scope at all.
    OperationsAny,
    /// Submit; `operations.sign` also covers the rest of the flow.
    OperationsSign,
    /// Read an operation.
    OperationsRead,
    /// Approve.
    OperationsApprove,
    /// Execute.
    OperationsExecute,
    /// Publish.
    OperationsPublish,
    /// Recover a node's effect.
    OperationsRecover,
    /// Read the audit exports.
    AuditRead,
}

impl Scope {
    /// The scope's own name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OperationsAny => "operations.*",
            Self::OperationsSign => "operations.sign",
            Self::OperationsRead => "operations.read",
            Self::OperationsApprove => "operations.approve",
            Self::OperationsExecute => "operations.execute",
            Self::OperationsPublish => "operations.publish",
            Self::OperationsRecover => "operations.recover",
            Self::AuditRead => "audit.read",
        }
    }

    /// Whether one of these scopes permits it.
    #[must_use]
    pub fn is_held(self, scopes: &[String]) -> bool {
        let held = |name: &str| scopes.iter().any(|scope| scope == name);
        match self {
            Self::AuditRead => held("audit.read"),
            Self::OperationsAny => scopes.iter().any(|scope| scope.starts_with("operations.")),
            Self::OperationsSign
            | Self::OperationsRead
            | Self::OperationsApprove
            | Self::OperationsExecute
            | Self::OperationsPublish
            | Self::OperationsRecover => held(self.name()) || held("operations.sign") || held("operations.*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickstart_scope_covers_the_flow_and_nothing_else() {
        let scopes = ["operations.sign".to_owned()];
        assert!(Scope::OperationsPublish.is_held(&scopes) && Scope::OperationsAny.is_held(&scopes));
        assert!(!Scope::AuditRead.is_held(&scopes));
        assert!(!Scope::OperationsExecute.is_held(&["operations.read".to_owned()]));
        assert!(!Scope::OperationsAny.is_held(&["audit.read".to_owned(), "operationsX".to_owned()]));
    }
}
