//! Settings of a process that runs policies itself and trusts no caller: a runtime node, the policy authority.

use super::Reader;
use crate::{StartError, settings};
use std::path::{Path, PathBuf};

settings! {
    /// The bundles that the process trusts, given for `serve`, and its own rules.
    #[derive(Clone, Debug)]
    pub struct OwnPolicy("policy", "Policy, which this process runs itself") {
        /// Keys whose signatures make a bundle trusted, read again when it changes
        policy_trust_roots = "", "FILE" => trust_roots: Option<PathBuf> = Reader::path;
        /// Bundles that are trusted; empty for every bundle that the trust roots accept
        policy_pins = "", "HASH,..." => pins: String = Reader::any_text;
        /// Whether bundles of the public development key are trusted
        development_bundles = "false", "true|false" => development_bundles: bool = Reader::flag;
        /// Accounts that payments may go to, or * for any; the gateway may state fewer
        permitted_recipients = "", "ACCOUNT,..." => permitted_recipients: String = Reader::any_text;
        /// Whether the submitter's own approval does not count
        separation_of_duties = "true", "true|false" => separation_of_duties: bool = Reader::flag;
    }
}

impl OwnPolicy {
    /// The trust roots. A process without them would refuse every operation.
    ///
    /// # Errors
    /// They are not given.
    pub fn roots(&self) -> Result<&Path, StartError> {
        let why = "must be given: this process runs the policy itself";
        self.trust_roots.as_deref().ok_or_else(|| StartError::new("setting `policy_trust_roots`", why))
    }
}
