//! Settings of a process that runs policies itself and trusts no caller: a runtime node, the policy authority.

use super::{Reader, Section, setting};
use std::path::PathBuf;

/// The bundles that the process trusts, and its own rules.
pub const POLICY: Section = Section {
    name: "policy",
    heading: "Policy, which this process runs itself",
    settings: &[
        setting(
            "policy_trust_roots",
            "",
            "FILE",
            "Keys whose signatures make a bundle trusted, read again when it changes",
        ),
        setting(
            "policy_pins",
            "",
            "HASH,...",
            "Bundles that are trusted; empty for every bundle that the trust roots accept",
        ),
        setting(
            "development_bundles",
            "false",
            "true|false",
            "Whether bundles of the public development key are trusted",
        ),
        setting(
            "permitted_recipients",
            "",
            "ACCOUNT,...",
            "Accounts that payments may go to, or * for any; the gateway may state fewer",
        ),
        setting(
            "separation_of_duties",
            "true",
            "true|false",
            "Whether the submitter's own approval does not count",
        ),
    ],
};

/// The settings of [`POLICY`].
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct OwnPolicy {
    /// Given for `serve`.
    pub trust_roots: Option<PathBuf>,
    pub pins: String,
    pub development_bundles: bool,
    pub permitted_recipients: String,
    pub separation_of_duties: bool,
}

impl Reader<'_> {
    /// The settings of [`POLICY`].
    pub fn own_policy(&mut self) -> OwnPolicy {
        OwnPolicy {
            trust_roots: self.path("policy_trust_roots"),
            pins: self.resolved.text("policy_pins").to_owned(),
            development_bundles: self.flag("development_bundles"),
            permitted_recipients: self.resolved.text("permitted_recipients").to_owned(),
            separation_of_duties: self.flag("separation_of_duties"),
        }
    }
}
