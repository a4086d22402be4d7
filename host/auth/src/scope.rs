//! The scopes that endpoints require, and the scopes of callers that satisfy them.

use serde::Deserialize;
use std::fmt;

/// The scopes of payments, each of which [`Scope::OperationsAny`] accepts; no other text that begins alike.
const OF_OPERATIONS: [Scope; 7] = [
    Scope::OperationsAny,
    Scope::OperationsSign,
    Scope::OperationsRead,
    Scope::OperationsApprove,
    Scope::OperationsExecute,
    Scope::OperationsPublish,
    Scope::OperationsRecover,
];

/// The scopes of custody, each of which [`Scope::CustodyRead`] accepts, and `custody.*`.
const OF_CUSTODY: [Scope; 8] = [
    Scope::CustodyRead,
    Scope::CustodySign,
    Scope::CustodyManage,
    Scope::CustodyApprove,
    Scope::CustodyExecute,
    Scope::CustodyPublish,
    Scope::CustodyRecover,
    Scope::CustodyExport,
];

/// A scope that an endpoint requires. Several scopes of a caller can satisfy it: see [`Self::is_satisfied_by`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Scope {
    /// Preview policy: any scope of payments is enough.
    OperationsAny,
    /// Submit a payment. `operations.sign` also satisfies the other scopes of payments.
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
    /// Read keys, custody operations and their evidence; any scope of custody is enough.
    CustodyRead,
    /// Submit a custody signature.
    CustodySign,
    /// Submit a key's creation or a change of it.
    CustodyManage,
    /// Cancel what one has submitted: what satisfies [`Self::CustodySign`] or [`Self::CustodyManage`] is enough.
    CustodySubmit,
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
    /// Receive events of operations: what satisfies [`Self::OperationsRead`] or [`Self::CustodyRead`] is enough for those of its family.
    EventsRead,
    /// See how far events were sent to webhooks, and have them sent again. `webhooks.*` also satisfies it.
    WebhooksManage,
    /// The same for webhooks that get the events of all tenants.
    WebhooksOfAll,
    /// Learn who one is taken for: no scope is needed, only credentials.
    Authenticated,
    /// List policy bundles: any scope of payments or `audit.read` is enough.
    PolicyRead,
}

impl Scope {
    /// The scope's name, as challenges and the OpenAPI document show it.
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
            Self::CustodyManage | Self::CustodySubmit => "custody.manage",
            Self::CustodyApprove => "custody.approve",
            Self::CustodyExecute => "custody.execute",
            Self::CustodyPublish => "custody.publish",
            Self::CustodyRecover => "custody.recover",
            Self::CustodyExport => "custody.export",
            Self::AuditRead => "audit.read",
            Self::Authenticated => "",
            Self::WebhooksManage => "webhooks.manage",
            Self::WebhooksOfAll => "webhooks.*",
            Self::EventsRead | Self::PolicyRead => "operations.read",
        }
    }

    /// Whether one of these scopes of a caller satisfies it.
    #[must_use]
    pub fn is_satisfied_by(self, scopes: &[String]) -> bool {
        let has = |name: &str| scopes.iter().any(|scope| scope == name);
        match self {
            Self::AuditRead | Self::WebhooksOfAll => has(self.name()),
            Self::Authenticated => true,
            Self::WebhooksManage => has(self.name()) || has("webhooks.*"),
            Self::PolicyRead => has("audit.read") || Self::OperationsAny.is_satisfied_by(scopes),
            Self::EventsRead => {
                Self::OperationsRead.is_satisfied_by(scopes) || Self::CustodyRead.is_satisfied_by(scopes)
            }
            Self::OperationsAny => OF_OPERATIONS.iter().any(|scope| has(scope.name())),
            Self::CustodyRead => has("custody.*") || OF_CUSTODY.iter().any(|scope| has(scope.name())),
            Self::CustodySubmit => {
                Self::CustodySign.is_satisfied_by(scopes) || Self::CustodyManage.is_satisfied_by(scopes)
            }
            Self::CustodySign
            | Self::CustodyManage
            | Self::CustodyApprove
            | Self::CustodyExecute
            | Self::CustodyPublish
            | Self::CustodyRecover
            | Self::CustodyExport => has(self.name()) || has("custody.*"),
            Self::OperationsSign
            | Self::OperationsRead
            | Self::OperationsApprove
            | Self::OperationsExecute
            | Self::OperationsPublish
            | Self::OperationsRecover => has(self.name()) || has("operations.sign") || has("operations.*"),
        }
    }
}

/// Displays the variant's name, which [`Deserialize`] reads. Unlike [`Scope::name`] it is unique.
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
        assert!(Scope::CustodySign.is_satisfied_by(&sign) && Scope::CustodyRead.is_satisfied_by(&sign));
        for other in
            [Scope::CustodyManage, Scope::CustodyApprove, Scope::CustodyExecute, Scope::OperationsRead]
        {
            assert!(!other.is_satisfied_by(&sign), "{other:?}");
        }
        let all = ["custody.*".to_owned()];
        assert!(Scope::CustodyManage.is_satisfied_by(&all) && Scope::CustodyExport.is_satisfied_by(&all));
        assert!(!Scope::AuditRead.is_satisfied_by(&all) && !Scope::OperationsSign.is_satisfied_by(&all));
    }

    #[test]
    fn operations_sign_covers_the_signing_flow_and_nothing_else() {
        let scopes = ["operations.sign".to_owned()];
        assert!(
            Scope::OperationsPublish.is_satisfied_by(&scopes)
                && Scope::OperationsAny.is_satisfied_by(&scopes)
        );
        assert!(!Scope::AuditRead.is_satisfied_by(&scopes));
        assert!(!Scope::OperationsExecute.is_satisfied_by(&["operations.read".to_owned()]));
        assert!(!Scope::CustodyRead.is_satisfied_by(&scopes) && !Scope::CustodySign.is_satisfied_by(&scopes));
        assert!(!Scope::OperationsAny.is_satisfied_by(&["audit.read".to_owned(), "operationsX".to_owned()]));
    }

    #[test]
    fn scope_that_no_endpoint_names_permits_nothing() {
        for unknown in [
            "operations.",
            "operations.none",
            "operations.read-nothing",
            "operations.signx",
            "operations.**",
            "OPERATIONS.READ",
            "custody.",
            "custody.none",
            "custody.readonly",
            "custody.sign ",
        ] {
            let scopes = [unknown.to_owned()];
            for needed in [Scope::OperationsAny, Scope::PolicyRead, Scope::CustodyRead, Scope::EventsRead] {
                assert!(!needed.is_satisfied_by(&scopes), "`{unknown}` is taken for {needed:?}");
            }
        }
    }

    #[test]
    fn each_scope_of_a_family_permits_its_common_requests() {
        for (family, common) in [(&OF_OPERATIONS[..], Scope::PolicyRead), (&OF_CUSTODY, Scope::CustodyRead)] {
            for scope in family {
                assert!(common.is_satisfied_by(&[scope.name().to_owned()]), "{scope:?}");
            }
        }
    }
}
