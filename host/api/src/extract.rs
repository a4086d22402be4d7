//! From a request to values that need no further checking. A handler's signature shows what it takes and who may call.

mod body;
mod caller;
mod path;
pub mod query;

pub use body::{Body, OptionalBody, SecretBody};
pub use caller::{
    AuditRead, Caller, CustodyApprove, CustodyExecute, CustodyExport, CustodyManage, CustodyPublish,
    CustodyRead, CustodyRecover, CustodySign, Needs, OperationsAny, OperationsApprove, OperationsExecute,
    OperationsPublish, OperationsRead, OperationsRecover, OperationsSign, PolicyRead,
};
pub use path::{PathKeyRef, PathOperationId};
