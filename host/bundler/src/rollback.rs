//! `bundle rollback`: the signed statement by which a gateway goes back to a bundle that was active before.

use crate::key::Key;
use crate::{Error, layout};
use gateway_domain::dsse::Envelope;
use gateway_domain::ids::Hex32;
use gateway_domain::time::EpochMs;
use gateway_policy::bundle::ActivationRecord;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// What is to be signed.
#[derive(Clone, Debug)]
pub struct Rollback {
    /// The bundle to go back to.
    pub to: Hex32,
    /// Above every sequence that was ever active.
    pub sequence: u64,
    /// Why, for people.
    pub reason: String,
    /// Last instant at which it may be carried out.
    pub not_after: Option<EpochMs>,
}

/// What was written.
#[derive(Clone, Debug, Serialize)]
pub struct Recorded {
    /// What was signed.
    pub record: ActivationRecord,
    /// Ids of all keys that signed, in this call and before.
    pub signers: Vec<String>,
    /// Where it is.
    pub file: PathBuf,
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ActivationRecord { sequence, bundle_hash, reason, .. } = &self.record;
        writeln!(f, "back to     {bundle_hash}")?;
        writeln!(f, "sequence    {sequence}")?;
        writeln!(f, "reason      {reason}")?;
        writeln!(f, "signed by   {}", self.signers.join(" "))?;
        writeln!(f, "wrote       {}", self.file.display())
    }
}

/// Signs a record with these keys and writes it to `out`.
///
/// # Errors
/// [`Error::Exists`], [`Error::Bundle`] for a reason that says nothing or too much, [`Error::Write`].
pub fn rollback(order: &Rollback, keys: &[Key], out: &Path) -> Result<Recorded, Error> {
    if out.exists() {
        return Err(Error::Exists(out.to_owned()));
    }
    let record = ActivationRecord {
        sequence: order.sequence,
        bundle_hash: order.to,
        reason: order.reason.clone(),
        not_after_ms: order.not_after,
    };
    let keys: Vec<_> = keys.iter().map(|key| &key.signing).collect();
    write(record.sign(&keys)?, record, out)
}

/// Adds the signature of `key` to the record in `file`: roles of a trust policy are seldom on one machine.
///
/// # Errors
/// [`Error::Bundle`] when it is no activation record, [`Error::Read`], [`Error::Write`].
pub fn countersign(file: &Path, key: &Key) -> Result<Recorded, Error> {
    let no_record =
        |fault: serde_json::Error| Error::Record { path: file.to_owned(), fault: fault.to_string() };
    let envelope: Envelope = serde_json::from_slice(&layout::read(file)?).map_err(no_record)?;
    let signed = ActivationRecord::countersign(&envelope, &key.signing)?;
    write(signed, ActivationRecord::read(&envelope)?, file)
}

fn write(envelope: Envelope, record: ActivationRecord, out: &Path) -> Result<Recorded, Error> {
    layout::write(out, &layout::pretty(&envelope, out)?)?;
    let signers = envelope.signatures.into_iter().map(|signature| signature.keyid).collect();
    Ok(Recorded { record, signers, file: out.to_owned() })
}
