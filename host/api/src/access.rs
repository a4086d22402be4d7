//! Who may call what: the one table of endpoints and scopes.
//!
//! A handler says the same in its signature, as `Caller<...>`, and the document as `security`. A test calls every route
//! in every mode with every scope, and fails when the three disagree.

use gateway_auth::Scope;

/// What it takes to call an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: probes, and the description of the interface.
    Open,
    /// To be authenticated, and to hold this scope.
    Scope(Scope),
}

/// Every route: method, path, access.
pub const ROUTES: &[(&str, &str, Access)] = &[
    ("POST", "/v1/operations/sign", Access::Scope(Scope::OperationsSign)),
    ("GET", "/v1/operations/{operationId}", Access::Scope(Scope::OperationsRead)),
    ("POST", "/v1/operations/{operationId}/approve", Access::Scope(Scope::OperationsApprove)),
    ("POST", "/v1/operations/{operationId}/execute", Access::Scope(Scope::OperationsExecute)),
    ("POST", "/v1/operations/{operationId}/publish", Access::Scope(Scope::OperationsPublish)),
    ("POST", "/v1/operations/{operationId}/node-recovery", Access::Scope(Scope::OperationsRecover)),
    ("GET", "/v1/operations/{operationId}/evidence", Access::Scope(Scope::OperationsRead)),
    ("GET", "/v1/operations/{operationId}/audit-replay", Access::Scope(Scope::AuditRead)),
    ("POST", "/v1/custody/keys", Access::Scope(Scope::CustodyManage)),
    ("GET", "/v1/custody/keys/{keyRef}", Access::Scope(Scope::CustodyRead)),
    ("GET", "/v1/custody/keys/{keyRef}/operations", Access::Scope(Scope::CustodyRead)),
    ("POST", "/v1/custody/keys/{keyRef}/sign", Access::Scope(Scope::CustodySign)),
    ("POST", "/v1/custody/keys/{keyRef}/refresh", Access::Scope(Scope::CustodyManage)),
    ("POST", "/v1/custody/keys/{keyRef}/reshare", Access::Scope(Scope::CustodyManage)),
    ("POST", "/v1/custody/keys/{keyRef}/rotate", Access::Scope(Scope::CustodyManage)),
    ("POST", "/v1/custody/keys/{keyRef}/recover", Access::Scope(Scope::CustodyManage)),
    ("GET", "/v1/custody/operations/{operationId}", Access::Scope(Scope::CustodyRead)),
    ("POST", "/v1/custody/operations/{operationId}/approve", Access::Scope(Scope::CustodyApprove)),
    ("POST", "/v1/custody/operations/{operationId}/execute", Access::Scope(Scope::CustodyExecute)),
    ("POST", "/v1/custody/operations/{operationId}/publish", Access::Scope(Scope::CustodyPublish)),
    ("POST", "/v1/custody/operations/{operationId}/node-recovery", Access::Scope(Scope::CustodyRecover)),
    ("POST", "/v1/custody/operations/{operationId}/external-export", Access::Scope(Scope::CustodyExport)),
    ("GET", "/v1/custody/operations/{operationId}/evidence", Access::Scope(Scope::CustodyRead)),
    ("GET", "/v1/custody/operations/{operationId}/audit-replay", Access::Scope(Scope::AuditRead)),
    ("GET", "/v1/log/checkpoint", Access::Scope(Scope::AuditRead)),
    ("GET", "/v1/log/key", Access::Scope(Scope::AuditRead)),
    ("GET", "/v1/log/consistency", Access::Scope(Scope::AuditRead)),
    ("GET", "/v1/log/inclusion", Access::Scope(Scope::AuditRead)),
    ("GET", "/v1/log/tlog-proof", Access::Scope(Scope::AuditRead)),
    ("POST", "/v1/policy/preview", Access::Scope(Scope::OperationsAny)),
    ("GET", "/v1/policy/bundles", Access::Scope(Scope::PolicyRead)),
    ("GET", "/healthz", Access::Open),
    ("GET", "/readyz", Access::Open),
    ("GET", "/metrics", Access::Open),
    ("GET", "/v1/openapi.json", Access::Open),
];
