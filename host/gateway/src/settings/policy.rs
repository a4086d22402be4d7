//! Settings of the policy bundles.

use super::Reader;
use gateway_service::settings::{MILLISECONDS_MAX, Section, setting};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const POLICY: Section = Section {
    name: "policy",
    heading: "Policy bundles",
    settings: &[
        setting(
            "policy_bundle",
            "bundles/payment-guard",
            "PATH",
            "The signed policy bundle: its folder, or the file that `bundle pack` wrote",
        ),
        setting(
            "policy_trust_roots",
            "bundles/trust-development.json",
            "FILE",
            "Keys whose signatures on a bundle are trusted",
        ),
        setting(
            "policy_pins",
            "",
            "HASH,...",
            "Bundle hashes that are allowed, in addition to the signatures; empty allows every signed bundle",
        ),
        setting(
            "policy_activation",
            "",
            "FILE",
            "A signed activation record, which returns to an earlier bundle regardless of its sequence; empty for none",
        ),
        setting(
            "policy_candidate",
            "",
            "PATH",
            "A signed bundle that evaluates the same requests as the active one and decides nothing; empty for none",
        ),
        setting(
            "policy_watch_ms",
            "2000",
            "MILLISECONDS",
            "Interval between readings of bundle, trust roots, activation record, candidate and approvers_file; 0 reads them \
             on SIGHUP only",
        ),
    ],
};

/// The policy bundles.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct Policy {
    pub bundle: PathBuf,
    pub trust_roots: PathBuf,
    pub pins: String,
    pub activation: Option<PathBuf>,
    pub candidate: Option<PathBuf>,
    /// `None`: on SIGHUP only.
    pub watch: Option<Duration>,
}

impl Reader<'_> {
    pub(super) fn policy(&mut self) -> Policy {
        let watch_ms = self.number("policy_watch_ms", 0..=MILLISECONDS_MAX);
        Policy {
            bundle: self.text("policy_bundle").into(),
            trust_roots: self.text("policy_trust_roots").into(),
            pins: self.resolved.text("policy_pins").to_owned(),
            activation: self.path("policy_activation"),
            candidate: self.path("policy_candidate"),
            watch: (watch_ms > 0).then(|| Duration::from_millis(watch_ms)),
        }
    }
}
