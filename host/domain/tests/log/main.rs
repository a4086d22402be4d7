//! The log against everything that is not ours: published vectors, another implementation, the specifications' texts.

mod ed25519;
mod oracle;
mod texts;
mod vectors;
