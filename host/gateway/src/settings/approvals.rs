//! Settings of approvals: the required number, and the verification of signatures.

use super::{Profile, Reader, Settings, limits};
use gateway_service::approvers::SignedApprovals;
use gateway_service::settings::{Section, setting};

pub(super) const APPROVALS: Section = Section {
    name: "approvals",
    heading: "Approvals",
    settings: &[
        setting(
            "required_approvals",
            "2",
            "APPROVALS",
            "Least number of approvals that an operation needs; a bundle may require more",
        ),
        setting(
            "signed_approvals",
            "off",
            "off|optional|required",
            "Whether approvers sign; the gateway and each node verify signatures with approvers_file",
        ),
        setting(
            "approvers_file",
            "",
            "FILE",
            "Registry of the approvers' public keys, read again when it changes; must be empty while signed_approvals is off",
        ),
        setting(
            "approval_ttl_ms",
            "86400000",
            "MILLISECONDS",
            "How long an operation waits for its approvals",
        ),
        setting(
            "separation_of_duties",
            "false",
            "true|false",
            "Whether an approval by the submitter is refused",
        ),
    ],
};

/// How operations are approved.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct Approvals {
    pub required: u32,
    pub signed: SignedApprovals,
    pub ttl_ms: u64,
    pub separation_of_duties: bool,
}

impl Reader<'_> {
    pub(super) fn approvals(&mut self) -> Approvals {
        Approvals {
            required: self.number("required_approvals", 0..=limits::REQUIRED_APPROVALS_MAX),
            signed: self.signed_approvals(),
            ttl_ms: self.milliseconds("approval_ttl_ms"),
            separation_of_duties: self.flag("separation_of_duties"),
        }
    }

    pub(super) fn check_approvals(&mut self, settings: &Settings) {
        let Approvals { required, signed, .. } = &settings.approvals;
        if *required == 0 && settings.profile == Profile::Production {
            self.fault("required_approvals", "must be at least 1 in production");
        }
        if *required == 0 && signed.are_required() {
            self.fault("required_approvals", "must be at least 1 while `signed_approvals` is `required`");
        }
    }
}
