//! The tools of a policy's author and of its reviewer: `operation-gateway bundle …`.
//!
//! Each command is one module with one function that returns what it found, as a value that displays as text and
//! serialises as JSON. Nothing here prints, reads a clock, or knows the command line.
//!
//! Deliberately absent: any way of its own to load a bundle. A draft is judged by the very code that judges in
//! production; see [`trial`].
//!
//! Start at [`source`] (where bundles are read from), then [`build`].

pub mod activate;
pub mod bench;
pub mod build;
mod cargo;
mod component;
pub mod contract;
pub mod create;
pub mod diff;
mod error;
pub mod inspect;
pub mod key;
mod layout;
pub mod lint;
pub mod rollback;
pub mod sign;
pub mod source;
pub mod tarball;
pub mod template;
pub mod test;
pub mod trial;
pub mod verify;

pub use error::Error;
