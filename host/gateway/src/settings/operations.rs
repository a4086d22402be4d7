//! Settings of operations, and rate limits of clients.

use super::limits;
use gateway_api::state::ProfileAliases;
use gateway_domain::ids::OperationId;
use gateway_service::settings;
use gateway_service::settings::{Reader, days, number};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

settings! {
    /// Operations and rate limits.
    #[derive(Clone, Debug)]
    pub struct Operations("operations", "Operations and rate limits") {
        /// Accounts that may be paid; * permits every account
        permitted_recipients = "*", "ACCOUNT,..." => permitted_recipients: String = Reader::any_text;
        /// Whether a payment without a key, or with one whose creation awaits approvals, has its key created on first use; not with
        /// signed_approvals=required
        auto_provision_keys = "true", "true|false" => auto_provision_keys: bool = Reader::flag;
        /// Aliases of signature profiles; * matches every other name
        signature_profile_aliases = "*=frost-ed25519-sha512", "NAME=PROFILE,..."
            => signature_profile_aliases: ProfileAliases = profile_aliases;
        /// How long an admission decision is valid
        admission_ttl_ms = "86400000", "MILLISECONDS" => admission_ttl_ms: u64 = Reader::milliseconds;
        /// Submissions of each client, as a long-term average; 0 disables the limit
        admission_rate = "50", "PER SECOND" => admission_rate: u32 = number(0..=limits::RATE_MAX);
        /// Submissions of each client in a burst
        admission_burst = "100", "SUBMISSIONS" => admission_burst: u32 = number(0..=limits::BURST_MAX);
        /// Previews of each client, as a long-term average; 0 disables the limit
        preview_rate = "0", "PER SECOND" => preview_rate: u32 = number(0..=limits::RATE_MAX);
        /// Previews of each client in a burst
        preview_burst = "1000", "PREVIEWS" => preview_burst: u32 = number(0..=limits::BURST_MAX);
        /// How many of the latest previews stay recorded; each is on disk before its response. 0 records none
        preview_records_max = "100000", "PREVIEWS" => preview_records_max: u32 = number(0..=limits::PREVIEW_RECORDS_MAX);
        /// How long payments are kept for limits over time, whose longest window is 30 days
        spending_kept_days = "32", "DAYS" => spending_kept: Duration = days(limits::SPENDING_KEPT_DAYS);
        /// How long recorded refusals and faults of the policy are kept; 0 keeps them forever
        refusals_kept_days = "0", "DAYS" => refusals_kept: Option<Duration> = refusals_kept;
        /// Operations that nodes have admitted and that the restored database lacks. Without it the gateway writes nothing then
        lost_operations = "", "OPERATION ID,..." => lost_operations: BTreeSet<OperationId> = lost_operations;
        /// JSON file of the webhooks to which events of operations are sent; read again on SIGHUP
        webhooks_file = "", "FILE" => webhooks_file: Option<PathBuf> = Reader::path;
        /// How long a request waits for its operation; the operation continues after that
        answer_within_ms = "30000", "MILLISECONDS" => answer_within: Duration = Reader::duration;
    }
}

/// `None`: forever.
fn refusals_kept(reader: &mut Reader<'_>, name: &str) -> Option<Duration> {
    Some(days(0..=limits::KEPT_DAYS_MAX)(reader, name)).filter(|kept| !kept.is_zero())
}

fn lost_operations(reader: &mut Reader<'_>, name: &str) -> BTreeSet<OperationId> {
    let ids: Option<_> = reader.list(name).map(|id| id.parse().ok().map(OperationId)).collect();
    ids.unwrap_or_else(|| {
        reader.fault(name, "must be operation ids, each of 64 lowercase hexadecimal characters");
        BTreeSet::new()
    })
}

fn profile_aliases(reader: &mut Reader<'_>, name: &str) -> ProfileAliases {
    ProfileAliases::parse(reader.resolved.text(name)).unwrap_or_else(|why| {
        reader.fault(name, &format!("must be `name=profile,...`: {why}"));
        ProfileAliases::default()
    })
}
