//! A client of the gateway's API.
//!
//! ```no_run
//! use gateway_client::{Client, Gateway, Payment};
//! use std::time::Duration;
//!
//! # async fn pay() -> Result<(), gateway_client::Error> {
//! let gateway = Gateway::builder("http://localhost:9200")?.build()?;
//! let caller = Client::new("treasury", "carol");
//! let payment = Payment::new("invoice-17", "acct-operating", "acct-supplier", 12_500, "EUR", &[0, 1, 2], caller);
//! let submitted = gateway.submit(&payment).await?;
//! let decided = gateway.wait_while(&submitted, "pending_approval", Duration::from_secs(3600)).await?;
//! println!("{}", decided.state);
//! # Ok(())
//! # }
//! ```
//!
//! **Every request may be repeated**: the gateway knows a repeat by the operation's idempotency key, its id, or the approver, and changes
//! nothing. So the client repeats requests that got no answer, 429 or 503, for a while ([`Retries`]); what it returns is the answer to the
//! last one.
//!
//! Start at [`Gateway`]. Views ([`Operation`], [`Key`]) have the members that programs decide on, and all of the answer in `rest`.

mod builder;
mod error;
mod events;
mod gateway;
mod requests;
mod views;

pub use builder::Builder;
pub use error::{Error, Refusal};
pub use events::{Events, Start};
pub use gateway::{Gateway, Retries};
pub use requests::{Abort, Approval, Client, Filter, Payment, Rejection};
pub use views::{Approvals, Event, Failure, Identity, Key, Link, MissingApprovals, Operation, Page, WhoAmI};
