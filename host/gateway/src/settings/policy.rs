//! Settings of the policy bundles.

use gateway_domain::error_chain;
use gateway_policy::Pins;
use gateway_service::settings;
use gateway_service::settings::{MILLISECONDS_MAX, Reader};
use std::path::PathBuf;
use std::time::Duration;

settings! {
    /// The policy bundles.
    #[derive(Clone, Debug)]
    pub struct Policy("policy", "Policy bundles") {
        /// The signed policy bundle: its folder, or the file that `bundle pack` wrote
        policy_bundle = "bundles/payment-guard", "PATH" => bundle: PathBuf = Reader::file;
        /// Keys whose signatures on a bundle are trusted
        policy_trust_roots = "bundles/trust-development.json", "FILE" => trust_roots: PathBuf = Reader::file;
        /// Bundle hashes that are allowed, in addition to the signatures; empty allows every signed bundle
        policy_pins = "", "HASH,..." => pins: Pins = pins;
        /// A signed activation record, which returns to an earlier bundle regardless of its sequence; empty for none
        policy_activation = "", "FILE" => activation: Option<PathBuf> = Reader::path;
        /// A signed bundle that evaluates the same requests as the active one and decides nothing; empty for none
        policy_candidate = "", "PATH" => candidate: Option<PathBuf> = Reader::path;
        /// The folder of signed documents that policies read, each in a file NAME.json; empty for none
        policy_documents = "", "PATH" => documents: Option<PathBuf> = Reader::path;
        /// Interval between readings of bundle, trust roots, activation record, candidate, documents and approvers_file; 0 reads them on SIGHUP only
        policy_watch_ms = "2000", "MILLISECONDS" => watch: Option<Duration> = watch;
    }
}

fn pins(reader: &mut Reader<'_>, name: &str) -> Pins {
    let pins = Pins::parse(reader.resolved.text(name));
    pins.unwrap_or_else(|error| {
        reader.fault(name, &error_chain(&error));
        Pins::default()
    })
}

/// `None`: on SIGHUP only.
fn watch(reader: &mut Reader<'_>, name: &str) -> Option<Duration> {
    let watch_ms = reader.number(name, 0..=MILLISECONDS_MAX);
    (watch_ms > 0).then(|| Duration::from_millis(watch_ms))
}
