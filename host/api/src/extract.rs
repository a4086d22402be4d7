//! From a request to values that need no further checking. A handler's signature shows what it takes and who may call.

mod body;
mod caller;
mod path;
pub mod query;

pub use body::Body;
pub use caller::Caller;
pub use path::{PathKeyRef, PathOperationId};
