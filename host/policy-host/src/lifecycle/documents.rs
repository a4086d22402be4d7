//! The signed documents in the operator's folder, each in a file `NAME.json`. A refused file leaves the document before it in place, as
//! long as that is trusted.

use super::offers::{Files, Seen};
use super::refusals::{Offered, Refusals};
use crate::PolicyHost;
use gateway_domain::ids::Hex32;
use gateway_domain::policy::SignedDocument;
use gateway_domain::policy::document::{DocumentError, DocumentRoles, Mark};
use gateway_domain::time::EpochMs;
use gateway_policy::BundleError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The documents between reloads.
#[derive(Default)]
pub(super) struct Documents {
    pub(super) seen: Seen,
    active: BTreeMap<String, Arc<SignedDocument>>,
    marks: BTreeMap<String, Mark>,
}

/// Why a document is not used.
#[derive(Debug, thiserror::Error)]
#[error("`{name}.json` is not used")]
struct Unused {
    name: String,
    source: DocumentError,
}

impl Documents {
    /// Takes the documents of the files, and gives them to the host.
    pub(super) fn take(
        &mut self,
        files: Result<Files, BundleError>,
        roles: &DocumentRoles,
        host: &PolicyHost,
        refusals: &Refusals,
        now: EpochMs,
    ) {
        let is_trusted = |document: &Arc<SignedDocument>| document.verify(roles).is_ok();
        self.active.retain(|_, document| is_trusted(document));
        let mut refused: Option<Box<dyn std::error::Error>> = None;
        match files {
            Err(why) => refused = Some(why.into()),
            Ok(files) => {
                self.active.retain(|name, _| files.contains_key(name));
                for (name, bytes) in files {
                    match self.accept(&name, &bytes, roles, now) {
                        Ok(document) => drop(self.active.insert(name, document)),
                        Err(source) => refused = refused.or(Some(Unused { name, source }.into())),
                    }
                }
            }
        }
        if let Some(expires) = self.active.values().map(|one| one.document.not_after_ms).min() {
            self.seen.retry_at(expires.plus_ms(1));
        }
        host.set_documents(self.active.values().cloned().collect());
        match refused {
            None => refusals.settle(Offered::Documents),
            Some(why) => refusals.refuse(Offered::Documents, None, &*why, now),
        }
    }

    /// The document in the file, if it is trusted, valid, and not older than one before.
    fn accept(
        &mut self,
        name: &str,
        bytes: &[u8],
        roles: &DocumentRoles,
        now: EpochMs,
    ) -> Result<Arc<SignedDocument>, DocumentError> {
        let document = SignedDocument::read(bytes)?;
        if document.document.name != name {
            let (name, found) = (name.to_owned(), document.document.name);
            return Err(DocumentError::OtherName { name, found });
        }
        document.verify(roles)?;
        document.check_valid_at(now)?;
        if let Some(mark) = Mark::raised(self.marks.get(name).copied(), &document, now)? {
            let (hash, sequence): (Hex32, _) = (document.hash, document.document.sequence);
            tracing::info!(document = name, sequence, %hash, "policy document active");
            self.marks.insert(name.to_owned(), mark);
        }
        Ok(Arc::new(document))
    }
}
