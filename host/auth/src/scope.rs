//! Scopes, and which of a caller's scopes satisfy them.

use serde::Deserialize;
use std::fmt;

/// A scope that an endpoint requires. Several names can satisfy it: see [`Self::is_held`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Scope {
    /// Any `operations.` scope.
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
    /// Read keys, custody operations and their evidence; any `custody.` scope is enough.
    CustodyRead,
    /// Submit a custody signature.
    CustodySign,
    /// Submit a key's creation or a change of it.
    CustodyManage,
    /// Approve a custody operation.
    CustodyApprove,
    /// Execute a custody operation.
    CustodyExecute,
    /// Publish a custody operation.
    CustodyPublish,
    /// Recover a node's effect of a custody operation.
    CustodyRecover,
    /// Record a custody operation's external export.
    CustodyExport,
    /// Read the audit exports.
    AuditRead,
    /// List policy bundles: any `operations.` scope or `audit.read` is enough.
    PolicyRead,
}

impl Scope {
    /// The scope's name, for callers.
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
            Self::CustodyRead => "custody.read",
            Self::CustodySign => "custody.sign",
            Self::CustodyManage => "custody.manage",
            Self::CustodyApprove => "custody.approve",
            Self::CustodyExecute => "custody.execute",
            Self::CustodyPublish => "custody.publish",
            Self::CustodyRecover => "custody.recover",
            Self::CustodyExport => "custody.export",
            Self::AuditRead => "audit.read",
            Self::PolicyRead => "operations.read",
        }
    }

    /// Whether one of these scopes satisfies it.
    #[must_use]
    pub fn is_held(self, scopes: &[String]) -> bool {
        let held = |name: &str| scopes.iter().any(|scope| scope == name);
        match self {
            Self::AuditRead => held("audit.read"),
            Self::PolicyRead => held("audit.read") || Self::OperationsAny.is_held(scopes),
            Self::OperationsAny => scopes.iter().any(|scope| scope.starts_with("operations.")),
            Self::CustodyRead => scopes.iter().any(|scope| scope.starts_with("custody.")),
            Self::CustodySign
            | Self::CustodyManage
            | Self::CustodyApprove
            | Self::CustodyExecute
            | Self::CustodyPublish
            | Self::CustodyRecover
            | Self::CustodyExport => held(self.name()) || held("custody.*"),
            Self::OperationsSign
            | Self::OperationsRead
            | Self::OperationsApprove
            | Self::OperationsExecute
            | Self::OperationsPublish
            | Self::OperationsRecover => held(self.name()) || held("operations.sign") || held("operations.*"),
        }
    }
}

/// The variant's name, which [`Deserialize`] reads: it is unique, and [`Scope::name`] is not.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_custody_scope_permits_its_action_and_reading() {
        let sign = ["custody.sign".to_owned()];
        assert!(Scope::CustodySign.is_held(&sign) && Scope::CustodyRead.is_held(&sign));
        for other in
            [Scope::CustodyManage, Scope::CustodyApprove, Scope::CustodyExecute, Scope::OperationsRead]
        {
            assert!(!other.is_held(&sign), "{other:?}");
        }
        let all = ["custody.*".to_owned()];
        assert!(Scope::CustodyManage.is_held(&all) && Scope::CustodyExport.is_held(&all));
        assert!(!Scope::AuditRead.is_held(&all) && !Scope::OperationsSign.is_held(&all));
    }

    #[test]
    fn operations_sign_covers_the_signing_flow_and_nothing_else() {
        let scopes = ["operations.sign".to_owned()];
        assert!(Scope::OperationsPublish.is_held(&scopes) && Scope::OperationsAny.is_held(&scopes));
        assert!(!Scope::AuditRead.is_held(&scopes));
        assert!(!Scope::OperationsExecute.is_held(&["operations.read".to_owned()]));
        assert!(!Scope::CustodyRead.is_held(&scopes) && !Scope::CustodySign.is_held(&scopes));
        assert!(!Scope::OperationsAny.is_held(&["audit.read".to_owned(), "operationsX".to_owned()]));
    }
}
