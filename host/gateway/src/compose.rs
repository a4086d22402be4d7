//! The composition root: with `services`, which opens nodes and authorities, the only file that names concrete adapters.

use crate::approvers;
use crate::authentication;
use crate::log_signer::LogSigner;
use crate::services::{OpenFleet, deployment_rules, load_seed, open_authority, open_nodes, open_services};
use crate::settings::{Profile, Settings};
use gateway_api::state::{App, Options, UnknownFields};
use gateway_auth::Authenticator;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{ReadClock, ReadOperations as _};
use gateway_engine::{Engine, Ports, RateLimit, Rules};
use gateway_policy::CompiledBundles;
use gateway_policy_host::Lifecycle;
use gateway_policy_host::lifecycle::{self, Prepared, Sources};
use gateway_service::approvers::Verifiers;
use gateway_service::telemetry::{self, MICROSECONDS, MILLISECONDS, Metrics};

pub use crate::services::{fleet_config, node_identities, open_embedded_authority, open_fleet};
pub use gateway_service::StartError;
use gateway_store::Store;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The machine's clock.
pub struct SystemClock;

impl ReadClock for SystemClock {
    fn now(&self) -> EpochMs {
        gateway_service::now()
    }
}

/// A gateway that is ready to serve.
pub struct Gateway {
    /// The application behind the router.
    pub app: App,
    /// The gateway's store, which [`Gateway::close`] closes.
    pub store: Arc<Store>,
    /// The nodes.
    pub fleet: OpenFleet,
    /// The policy bundles, which are read again while the gateway serves.
    pub policies: Arc<Lifecycle>,
    /// The rules that verify approvers' signatures, whose registry is read again when it changes.
    pub verifiers: Option<Verifiers>,
}

/// Verifies, compiles and tests the configured bundle. Only reads files.
///
/// # Errors
/// [`StartError`] for unusable trust roots, or for an unusable bundle if there is no store, which could have an earlier one.
pub fn open_policy(settings: &Settings) -> Result<Prepared, StartError> {
    let counters = [
        gateway_api::counters::DESCRIPTIONS,
        gateway_policy_host::counters::DESCRIPTIONS,
        crate::gauges::COUNTERS,
        crate::retention::COUNTERS,
        crate::witnesses::COUNTERS,
        crate::webhooks::COUNTERS,
    ];
    telemetry::start_metrics(Metrics {
        counters: &counters,
        gauges: &[
            crate::nodes::DESCRIPTIONS,
            crate::gauges::GAUGES,
            crate::retention::GAUGES,
            crate::witnesses::GAUGES,
            crate::webhooks::GAUGES,
        ],
        histograms: &[
            (crate::authority::HISTOGRAMS, MILLISECONDS),
            (gateway_policy_host::counters::HISTOGRAMS, MICROSECONDS),
            (gateway_fleet::HISTOGRAMS, MILLISECONDS),
            (gateway_store::HISTOGRAMS, MILLISECONDS),
        ],
    });
    let prepared = policy_sources(settings).prepare(SystemClock.now());
    let exists = store_exists(settings)?;
    let prepared =
        prepared.and_then(|prepared| if exists { Ok(prepared) } else { prepared.require_bundle() });
    prepared.map_err(|why| policy_error(settings, why))
}

/// As [`open_policy`], but always needs a valid bundle.
pub(crate) fn check_policy(settings: &Settings) -> Result<Prepared, StartError> {
    let prepared = policy_sources(settings).prepare(SystemClock.now());
    prepared.and_then(Prepared::require_bundle).map_err(|why| policy_error(settings, why))
}

fn store_exists(settings: &Settings) -> Result<bool, StartError> {
    Store::exists(&settings.general.database_url).map_err(|error| StartError::new("database", error))
}

fn policy_sources(settings: &Settings) -> Sources {
    Sources {
        bundle: settings.policy.bundle.clone(),
        trust_roots: settings.policy.trust_roots.clone(),
        activation: settings.policy.activation.clone(),
        candidate: settings.policy.candidate.clone(),
        documents: settings.policy.documents.clone(),
        pins: settings.policy.pins.clone(),
        allows_development: settings.general.profile == Profile::Development,
    }
}

fn policy_error(settings: &Settings, why: lifecycle::StartError) -> StartError {
    use lifecycle::StartError as Why;
    let what = match &why {
        Why::TrustRoots(_) => with_path("policy trust roots", &settings.policy.trust_roots),
        Why::Bundle(_) => with_path("policy bundle", &settings.policy.bundle),
        Why::Engine(_) => "policy engine".to_owned(),
        Why::Store(_) => "policy store".to_owned(),
    };
    StartError::new(what, why)
}

/// Opens the deployment's bundles: the prepared one, and those in the store. `activates` as in [`Prepared::open`].
///
/// # Errors
/// [`StartError`] when no bundle can be activated and none was before.
pub async fn open_lifecycle(
    settings: &Settings,
    policy: Prepared,
    store: Arc<Store>,
    clock: Arc<dyn ReadClock>,
    activates: bool,
) -> Result<Arc<Lifecycle>, StartError> {
    policy.open(store, clock, activates).await.map_err(|why| policy_error(settings, why))
}

/// Opens the adapters and composes the gateway. No new bundle is activated before the caller permits it, since the store may be an
/// older copy.
pub async fn open(settings: &Settings, policy: Prepared) -> Result<Gateway, StartError> {
    // Checked before anything is written, so that a first start without a registry leaves nothing behind. A later start serves
    // without it and reports that.
    if !store_exists(settings)? {
        approvers::load_registry(settings)?;
    }
    let services = open_services(settings)?;
    let rules = rules(settings);
    let authenticator = open_authenticator(settings)?;
    let store = Store::open_with(&settings.general.database_url, settings.general.database_connections)
        .await
        .map_err(|error| StartError::new("database", error))?;
    let store = Arc::new(store);
    let clock: Arc<dyn ReadClock> = Arc::new(SystemClock);
    let policies = open_lifecycle(settings, policy, Arc::clone(&store), Arc::clone(&clock), false).await?;
    let compiled = compiled_bundles(&policies);
    let authority = open_authority(settings, services.as_ref(), &store, &policies, Arc::clone(&compiled))?;
    let log_signer = open_log_signer(settings, &authority.public_keys)?;
    let fleet = open_nodes(settings, services.as_ref(), &authority.public_keys, &policies, compiled).await?;
    note_newest_receipts(&store, &fleet).await;
    let ports = Ports {
        commits: store.clone(),
        reads: store.clone(),
        lists: store.clone(),
        decisions: store.clone(),
        log: store.clone(),
        webhooks: store.clone(),
        checkpoints: Arc::new(log_signer),
        policy: policies.host(),
        policies: policies.clone(),
        authority: authority.port,
        nodes: fleet.port(),
        clock,
    };
    let mut verifying = vec![rules.signed_approvals.clone()];
    verifying.extend(authority.signed_approvals);
    if let OpenFleet::Embedded(fleet) = &fleet {
        verifying.push(fleet.signed_approvals().clone());
    }
    let verifiers = Verifiers::open(&settings.approvals.signed, verifying);
    Ok(Gateway { app: app(settings, rules, authenticator, ports), store, fleet, policies, verifiers })
}

/// How long events of a signature wait to share a commit. An operation whose nodes take longer shows what it waits for.
const RECORDED_WITHIN: Duration = Duration::from_millis(100);

/// The newest events whose receipts are shown to the nodes after a start: of some twenty operations.
const NEWEST_EVENTS: u32 = 256;

/// Notes the nodes' newest receipts, so that a node that was restored while the gateway was stopped notices at its first call. An
/// operation that cannot be read is left out; requests and readiness report it.
async fn note_newest_receipts(store: &Store, fleet: &OpenFleet) {
    for id in store.operations_of_newest_events(NEWEST_EVENTS).await.unwrap_or_default() {
        let events = store.operation_events(id).await.unwrap_or_default();
        fleet.note_receipts(&events.into_iter().map(|chained| chained.event).collect::<Vec<_>>());
    }
}

/// The authenticator, which starts to fetch keys in the background.
///
/// # Errors
/// [`StartError`] naming the file that is wrong.
pub fn open_authenticator(settings: &Settings) -> Result<Authenticator, StartError> {
    let authenticator = authentication::open(settings)?;
    authenticator.warm_up();
    Ok(authenticator)
}

/// The application on these adapters.
#[must_use]
pub fn app(settings: &Settings, rules: Rules, authenticator: Authenticator, ports: Ports) -> App {
    App::new(Engine::new(ports, rules), authenticator, options(settings), telemetry::metrics)
}

/// Opens the signer of the log. Its key must not be the authority's, so that a signature has one meaning.
fn open_log_signer(settings: &Settings, authorities: &[[u8; 32]]) -> Result<LogSigner, StartError> {
    let seed = load_seed(settings, &settings.log.key).map_err(|error| StartError::new("log key", error))?;
    log_signer(settings, &seed, authorities)
}

pub(crate) fn log_signer(
    settings: &Settings,
    seed: &[u8; 32],
    authorities: &[[u8; 32]],
) -> Result<LogSigner, StartError> {
    let signer = LogSigner::new(settings.log_origin.clone(), seed);
    if authorities.contains(&signer.public_key()) {
        return Err(StartError::new("log key", "must be another key than the authority's"));
    }
    Ok(signer)
}

/// The bundles that this process has compiled, which the embedded nodes and the embedded authority use once they have verified them.
#[must_use]
pub fn compiled_bundles(policies: &Lifecycle) -> Arc<CompiledBundles> {
    let compiled = CompiledBundles::with_engine(policies.engine().clone());
    if let Some(active) = policies.host().active() {
        compiled.share(active);
    }
    Arc::new(compiled)
}

/// The engine's part of the settings.
#[must_use]
pub fn rules(settings: &Settings) -> Rules {
    Rules {
        policy: deployment_rules(settings),
        signed_approvals: approvers::gateway_rule(settings),
        approval_ttl_ms: settings.approvals.ttl_ms,
        admission_ttl_ms: settings.operations.admission_ttl_ms,
        auto_provision_keys: settings.operations.auto_provision_keys,
        lost_operations: settings.operations.lost_operations.clone(),
        refuses_stale_fences: settings.general.profile == Profile::Production,
        n_nodes: settings.nodes.count(),
        admission_rate: RateLimit {
            per_second: settings.operations.admission_rate,
            burst: settings.operations.admission_burst,
        },
        preview_rate: RateLimit {
            per_second: settings.operations.preview_rate,
            burst: settings.operations.preview_burst,
        },
        preview_records_max: settings.operations.preview_records_max,
        answer_within: settings.operations.answer_within,
        recorded_within: RECORDED_WITHIN,
    }
}

/// The HTTP API's part of the settings.
#[must_use]
pub fn options(settings: &Settings) -> Options {
    Options {
        body_bytes_max: settings.server.body_bytes_max,
        recovery_body_bytes_max: settings.server.recovery_body_bytes_max,
        audit_bytes_max: settings.server.audit_bytes_max,
        body_within: settings.server.body_within,
        request_within: settings.server.request_within,
        separate_probes: settings.server.admin_bind.is_some(),
        console: settings.server.console,
        api_docs: settings.server.api_docs,
        allowed_origins: settings.server.allowed_origins.clone(),
        unknown_fields: if settings.server.reject_unknown_fields {
            UnknownFields::Reject
        } else {
            UnknownFields::Warn
        },
        signature_profiles: settings.operations.signature_profile_aliases.clone(),
        exceptions: settings
            .general
            .production_exceptions
            .iter()
            .map(|exception| exception.as_str())
            .collect(),
        content_ids_only: settings.general.profile == Profile::Production,
    }
}

fn with_path(what: &str, path: &Path) -> String {
    format!("{what} `{}`", path.display())
}
