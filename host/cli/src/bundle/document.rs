//! `bundle document`: signs a document that policies read, such as exchange rates.

use crate::bundle::key::Key;
use crate::bundle::{Error, layout};
use gateway_domain::dsse::{Envelope, Signature};
use gateway_domain::ids::Hex32;
use gateway_domain::json::{self, Floats};
use gateway_domain::policy::SignedDocument;
use gateway_domain::policy::document::{Document, PAYLOAD_TYPE};
use gateway_domain::time::EpochMs;
use gateway_policy::bundle::signature;
use gateway_service::output::{Lines, ToLines};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The arguments of `bundle document`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Unsigned {
    /// The content, JSON without fractions
    #[arg(value_name = "CONTENT")]
    content: PathBuf,
    /// The name by which policies read it: lower case letters, digits and `_`
    #[arg(long, value_name = "NAME")]
    name: String,
    /// A number above that of every earlier document of this name
    #[arg(long, value_name = "N")]
    sequence: u64,
    /// Last millisecond at which policies find it, since 1970
    #[arg(long = "not-after", value_name = "MILLISECONDS")]
    not_after_ms: u64,
}

/// The report of `bundle document`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Signed {
    pub(crate) name: String,
    pub(crate) sequence: u64,
    pub(crate) not_after_ms: EpochMs,
    /// SHA-256 of the payload: the value of the fact `document.NAME`.
    pub(crate) document_hash: Hex32,
    /// Ids of all keys that signed, now and before.
    pub(crate) signers: Vec<String>,
    pub(crate) file: PathBuf,
}

impl ToLines for Signed {
    fn add_to(&self, lines: &mut Lines) {
        let Self { name, sequence, not_after_ms, document_hash, signers, file } = self;
        lines.add(format_args!("document    {name}"));
        lines.add(format_args!("sequence    {sequence}"));
        lines.add(format_args!("not after   {}", not_after_ms.0));
        lines.add(format_args!("hash        {document_hash}"));
        lines.add(format_args!("signed by   {}", signers.join(" ")));
        lines.add(format_args!("wrote       {}", file.display()));
    }
}

/// Signs a document with these keys and writes it to `out`. If that has the same document, its signatures stay; an earlier one of this name
/// is replaced.
pub(crate) fn sign(unsigned: &Unsigned, keys: &[Key], out: &Path) -> Result<Signed, Error> {
    let fault = |why: String| Error::Document { path: unsigned.content.clone(), why };
    let content = json::parse(&layout::read(&unsigned.content)?, Floats::Rejected);
    let document = Document {
        name: unsigned.name.clone(),
        sequence: unsigned.sequence,
        not_after_ms: EpochMs(unsigned.not_after_ms),
        content: content.map_err(|error| fault(error.to_string()))?,
    };
    let payload = document.to_payload().map_err(|error| fault(error.to_string()))?;
    let kept = if out.exists() { kept(out, &document)? } else { Vec::new() };
    let signatures: Vec<_> = keys.iter().map(|key| signature(PAYLOAD_TYPE, &payload, &key.signing)).collect();
    let mut envelope = Envelope::seal(PAYLOAD_TYPE, &payload, &signatures);
    let is_other = |one: &Signature| envelope.signatures.iter().all(|new| new.keyid != one.keyid);
    let kept: Vec<_> = kept.into_iter().filter(is_other).collect();
    envelope.signatures.splice(0..0, kept);
    layout::write(out, &layout::pretty_json(&envelope, out)?)?;
    let signed = SignedDocument::parse(envelope).map_err(|error| fault(error.to_string()))?;
    let Document { name, sequence, not_after_ms, .. } = signed.document;
    let signers = signed.envelope.signatures.into_iter().map(|signature| signature.keyid).collect();
    Ok(Signed { name, sequence, not_after_ms, document_hash: signed.hash, signers, file: out.to_owned() })
}

/// The signatures in the file, if it has the same document; none if it has an earlier one.
fn kept(file: &Path, document: &Document) -> Result<Vec<Signature>, Error> {
    match SignedDocument::read(&layout::read(file)?) {
        Ok(found) if found.document == *document => Ok(found.envelope.signatures),
        Ok(SignedDocument { document: Document { name, sequence, .. }, .. })
            if name == document.name && sequence < document.sequence =>
        {
            Ok(Vec::new())
        }
        Ok(_) | Err(_) => Err(Error::Exists(file.to_owned())),
    }
}
