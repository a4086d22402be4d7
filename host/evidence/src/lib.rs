//! An operation's evidence as a file.
//!
//! The gateway writes the file with [`write()`]. Anyone can check it offline with [`verify()`], against [`Roots`] from a
//! separate source. Both derive the members that describe the operation from its events, with
//! [`summary()`](summary::summary), and the verifier compares them.
//!
//! Two documents share one format: evidence, for the operation's parties, and the audit log, which discloses less. Fields
//! that are not disclosed are commitments in the file, and the hash chain covers the commitments (see
//! [`gateway_domain::redaction`]).

pub mod document;
pub mod node_logs;
mod package;
mod report;
pub mod roots;
pub mod summary;
pub mod verify;

pub use document::{Kind, LAST_EVENT, LastEventStatement, LogProof, Page, Source, parse, write};
pub use node_logs::{NodeLogError, NodeLogFile, NodeLogs};
pub use roots::{Roots, RootsError};
pub use verify::{EvidenceReader, Finding, Report, RerunPolicy, Verdict, audit, verify};
