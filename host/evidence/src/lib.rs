//! An operation's evidence as a file.
//!
//! The gateway writes it with [`write()`]; anyone reads it with [`verify()`], on a machine that has never seen the gateway,
//! against [`Roots`] that came another way. Both derive what a file says of an operation from its events with
//! [`summary()`](summary::summary), so nothing that is written goes unchecked.
//!
//! Two documents have one form: the evidence of the operation's parties, and the audit log, which opens less. What is not
//! opened stands in the file as a commitment, and the chain of hashes is over that (see
//! [`gateway_domain::redaction`]).

mod course;
pub mod document;
pub mod roots;
pub mod signature;
pub mod summary;
pub mod verify;

pub use document::{KEY_STATE, KeyStatement, Kind, Page, Source, StatedKey, parse, write};
pub use roots::{Roots, RootsError};
pub use verify::{Finding, Reader, Report, Rerun, Verdict, verify};
