//! Settings of operations, and rate limits of clients.

use super::{Profile, Reader, Settings, limits};
use gateway_api::state::ProfileAliases;
use gateway_domain::ids::OperationId;
use gateway_service::settings::{Section, setting};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const OPERATIONS: Section = Section {
    name: "operations",
    heading: "Operations and rate limits",
    settings: &[
        setting(
            "permitted_recipients",
            "*",
            "ACCOUNT,...",
            "Accounts that may be paid; * permits every account",
        ),
        setting(
            "auto_provision_keys",
            "true",
            "true|false",
            "Whether a payment without a key, or with one whose creation awaits approvals, has its key created on first use; not \
             with signed_approvals=required",
        ),
        setting(
            "signature_profile_aliases",
            "*=frost-ed25519-sha512",
            "NAME=PROFILE,...",
            "Aliases of signature profiles; * matches every other name",
        ),
        setting("admission_ttl_ms", "86400000", "MILLISECONDS", "How long an admission decision is valid"),
        setting(
            "admission_rate",
            "50",
            "PER SECOND",
            "Submissions of each client, as a long-term average; 0 disables the limit",
        ),
        setting("admission_burst", "100", "SUBMISSIONS", "Submissions of each client in a burst"),
        setting(
            "preview_rate",
            "0",
            "PER SECOND",
            "Previews of each client, as a long-term average; 0 disables the limit",
        ),
        setting("preview_burst", "1000", "PREVIEWS", "Previews of each client in a burst"),
        setting(
            "preview_records_max",
            "100000",
            "PREVIEWS",
            "How many of the latest previews stay recorded; each is on disk before its response. 0 records none",
        ),
        setting(
            "spending_kept_days",
            "7",
            "DAYS",
            "How long payments are kept for limits over time, whose longest window is a day",
        ),
        setting(
            "refusals_kept_days",
            "0",
            "DAYS",
            "How long recorded refusals and faults of the policy are kept; 0 keeps them forever",
        ),
        setting(
            "lost_operations",
            "",
            "OPERATION ID,...",
            "Operations that nodes have admitted and that the restored database lacks. Without it the gateway writes nothing then",
        ),
        setting(
            "webhooks_file",
            "",
            "FILE",
            "JSON file of the webhooks to which events of operations are sent; read again on SIGHUP",
        ),
        setting(
            "answer_within_ms",
            "30000",
            "MILLISECONDS",
            "How long a request waits for its operation; the operation continues after that",
        ),
    ],
};

/// Operations and rate limits.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the help text of each setting describes it")]
pub struct Operations {
    pub permitted_recipients: String,
    pub auto_provision_keys: bool,
    pub signature_profile_aliases: ProfileAliases,
    pub admission_ttl_ms: u64,
    pub admission_rate: u32,
    pub admission_burst: u32,
    pub preview_rate: u32,
    pub preview_burst: u32,
    pub preview_records_max: u32,
    pub spending_kept: Duration,
    /// `None`: forever.
    pub refusals_kept: Option<Duration>,
    pub lost_operations: BTreeSet<OperationId>,
    pub webhooks_file: Option<PathBuf>,
    pub answer_within: Duration,
}

const fn days(n_days: u32) -> Duration {
    Duration::from_secs(n_days as u64 * 86_400)
}

impl Reader<'_> {
    pub(super) fn operations(&mut self) -> Operations {
        Operations {
            permitted_recipients: self.resolved.text("permitted_recipients").to_owned(),
            auto_provision_keys: self.flag("auto_provision_keys"),
            signature_profile_aliases: self.profile_aliases(),
            admission_ttl_ms: self.milliseconds("admission_ttl_ms"),
            admission_rate: self.number("admission_rate", 0..=limits::RATE_MAX),
            admission_burst: self.number("admission_burst", 0..=limits::BURST_MAX),
            preview_rate: self.number("preview_rate", 0..=limits::RATE_MAX),
            preview_burst: self.number("preview_burst", 0..=limits::BURST_MAX),
            preview_records_max: self.number("preview_records_max", 0..=limits::PREVIEW_RECORDS_MAX),
            spending_kept: days(self.number("spending_kept_days", limits::SPENDING_KEPT_DAYS)),
            refusals_kept: match self.number("refusals_kept_days", 0..=limits::KEPT_DAYS_MAX) {
                0 => None,
                n_days => Some(days(n_days)),
            },
            lost_operations: self.lost_operations(),
            webhooks_file: self.path("webhooks_file"),
            answer_within: self.duration("answer_within_ms"),
        }
    }

    fn lost_operations(&mut self) -> BTreeSet<OperationId> {
        let ids: Option<_> =
            self.list("lost_operations").map(|id| id.parse().ok().map(OperationId)).collect();
        ids.unwrap_or_else(|| {
            self.fault(
                "lost_operations",
                "must be operation ids, each of 64 lowercase hexadecimal characters",
            );
            BTreeSet::new()
        })
    }

    fn profile_aliases(&mut self) -> ProfileAliases {
        ProfileAliases::parse(self.resolved.text("signature_profile_aliases")).unwrap_or_else(|why| {
            self.fault("signature_profile_aliases", &format!("must be `name=profile,...`: {why}"));
            ProfileAliases::default()
        })
    }

    pub(super) fn check_operations(&mut self, settings: &Settings) {
        let operations = &settings.operations;
        if settings.approvals.signed.are_required()
            && operations.auto_provision_keys
            && self.resolved.is_given("auto_provision_keys")
        {
            self.fault("auto_provision_keys", "must not be `true` while `signed_approvals` is `required`");
        }
        if settings.profile == Profile::Production {
            if operations.auto_provision_keys {
                self.fault("auto_provision_keys", "must not be `true` in production");
            }
            if operations.signature_profile_aliases.resolve("*").is_some() {
                self.fault("signature_profile_aliases", "must not have the name `*` in production");
            }
        }
        for (burst_name, rate, burst) in [
            ("admission_burst", operations.admission_rate, operations.admission_burst),
            ("preview_burst", operations.preview_rate, operations.preview_burst),
        ] {
            if rate > 0 && burst == 0 && !self.has_fault(burst_name) {
                let rate_name = burst_name.replace("burst", "rate");
                self.fault(burst_name, &format!("must be at least 1 while `{rate_name}` is not 0"));
            }
        }
    }
}
