//! Settings of approvals: the required number, and the verification of signatures.

use gateway_service::approvers::{SignedApprovals, signed_approvals};
use gateway_service::settings;
use gateway_service::settings::rules::REQUIRED_APPROVALS_MAX;
use gateway_service::settings::{Reader, number};

settings! {
    /// How operations are approved.
    #[derive(Clone, Debug)]
    pub struct Approvals("approvals", "Approvals") {
        /// Least number of approvals that an operation needs; a bundle may require more
        required_approvals = "2", "APPROVALS" => required: u32 = number(0..=REQUIRED_APPROVALS_MAX);
        /// Whether approvers sign; the gateway and each node verify signatures with approvers_file
        signed_approvals = "off", "off|optional|required" => signed: SignedApprovals = signed_approvals;
        /// Registry of the approvers' public keys, read again when it changes; must be empty while signed_approvals is off
        approvers_file = "", "FILE";
        /// How long an operation waits for its approvals
        approval_ttl_ms = "86400000", "MILLISECONDS" => ttl_ms: u64 = Reader::milliseconds;
        /// Whether an approval by the submitter is refused
        separation_of_duties = "false", "true|false" => separation_of_duties: bool = Reader::flag;
    }
}
