//! Settings of a process that checks operations itself and trusts no caller: a runtime node, the policy authority.

use super::{Reader, number};
use crate::approvers::{SignedApprovals, signed_approvals};
use crate::{StartError, settings};
use gateway_domain::policy::facts::Rules;
use std::path::{Path, PathBuf};

/// Most approvals that may be required: a policy's verdict cannot name more subjects.
pub const REQUIRED_APPROVALS_MAX: u32 = 128;

settings! {
    /// The process's own rules, and the bundles that it trusts, given for `serve`.
    #[derive(Clone, Debug)]
    pub struct OwnRules("policy", "Rules and policy, which this process checks itself") {
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
        /// Least number of different approvers, even if the policy requires fewer
        required_approvals = "2", "APPROVALS" => required_approvals: u32 = number(0..=REQUIRED_APPROVALS_MAX);
        /// Whether approvers sign; verified with approvers_file
        signed_approvals = "required", "off|optional|required" => signed_approvals: SignedApprovals = signed_approvals;
        /// The process's own registry of the approvers' public keys, read again when it changes; must be empty while signed_approvals is
        /// off
        approvers_file = "", "FILE";
        /// How far in the future a decision may expire
        decision_ttl_max_ms = "86400000", "MILLISECONDS" => decision_ttl_max_ms: u64 = Reader::milliseconds;
        /// Whether keys may be created without approvals; only for development
        keys_without_approvals = "false", "true|false" => keys_without_approvals: bool = Reader::flag;
    }
}

impl OwnRules {
    /// Checks settings against each other.
    pub fn check(&self, reader: &mut Reader<'_>) {
        if self.required_approvals == 0 && self.signed_approvals.are_required() {
            reader.fault("required_approvals", "must be at least 1 while `signed_approvals` is `required`");
        }
    }

    /// What policies read of them.
    #[must_use]
    pub fn facts(&self) -> Rules {
        Rules {
            permitted_recipients: self.permitted_recipients.clone(),
            required_approvals: self.required_approvals,
            separation_of_duties: self.separation_of_duties,
        }
    }

    /// The trust roots. A process without them would refuse every operation.
    ///
    /// # Errors
    /// They are not given.
    pub fn roots(&self) -> Result<&Path, StartError> {
        let why = "must be given: this process runs the policy itself";
        self.trust_roots.as_deref().ok_or_else(|| StartError::new("setting `policy_trust_roots`", why))
    }
}
