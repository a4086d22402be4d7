//! The composition root: the only file that names concrete adapters.

use crate::approvers::{self, Verifiers};
use crate::authentication;
use crate::clock::SystemClock;
use crate::counting;
use crate::node_key;
use crate::settings::{Profile, Settings};
use gateway_api::state::{App, Options, UnknownFields};
use gateway_auth::Authenticator;
use gateway_authority::{EmbeddedAuthority, LogSigner};
use gateway_domain::chain;
use gateway_domain::dsse::KeySet;
use gateway_domain::intent::KeyUse;
use gateway_domain::policy::facts;
use gateway_domain::roster::ParticipantIndex;
use gateway_engine::ports::TellTime;
use gateway_engine::{Engine, Ports, RateLimit, Rules};
use gateway_policy::lifecycle::{self, Prepared, Sources};
use gateway_policy::{Lifecycle, Pins};
use gateway_runtime::{EmbeddedFleet, FleetConfig, NodeSettings, existing, identities};
use gateway_seal::at_rest::Kek;
use gateway_seal::key_file::{self, KeyFileError};
use gateway_store::Store;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Why the gateway does not start: one line for an operator.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {}", chain(.source.as_ref()))]
pub struct StartError {
    /// What could not be had.
    what: String,
    source: Box<dyn Error + Send + Sync>,
}

impl StartError {
    pub(crate) fn new(what: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { what: what.into(), source: source.into() }
    }
}

/// A gateway that is ready to serve.
pub struct Gateway {
    /// The application behind the router.
    pub app: App,
    /// The gateway's store, to be closed in the end.
    pub store: Arc<Store>,
    /// The nodes, to be closed in the end.
    pub fleet: Arc<EmbeddedFleet>,
    /// The policy bundles, to be looked after.
    pub policies: Arc<Lifecycle>,
    /// Who verifies approvers' signatures, to be told of another registry.
    pub verifiers: Option<Verifiers>,
}

/// The bundle on offer, verified, compiled and tested. Reads files and nothing else.
///
/// # Errors
/// [`StartError`] naming what is wrong with the trust roots, or with the bundle where there is no store that could have
/// a better one.
pub fn open_policy(settings: &Settings) -> Result<Prepared, StartError> {
    counting::start();
    let prepared = policy_sources(settings)?.prepare(SystemClock.now());
    let exists = store_exists(settings)?;
    let prepared = prepared.and_then(|prepared| if exists { Ok(prepared) } else { prepared.or_nothing() });
    prepared.map_err(|why| policy_error(settings, why))
}

fn store_exists(settings: &Settings) -> Result<bool, StartError> {
    Store::exists(&settings.database_url).map_err(|error| StartError::new("database", error))
}

fn policy_sources(settings: &Settings) -> Result<Sources, StartError> {
    let pins = Pins::parse(&settings.policy_pins);
    Ok(Sources {
        bundle: settings.policy_bundle.clone(),
        trust_roots: settings.policy_trust_roots.clone(),
        activation: settings.policy_activation.clone(),
        candidate: settings.policy_candidate.clone(),
        pins: pins.map_err(|error| StartError::new("policy pins", error))?,
        allows_development: settings.profile == Profile::Development,
    })
}

fn policy_error(settings: &Settings, why: lifecycle::StartError) -> StartError {
    use lifecycle::StartError as Why;
    let what = match &why {
        Why::TrustRoots(_) => shown("policy trust roots", &settings.policy_trust_roots),
        Why::Bundle(_) => shown("policy bundle", &settings.policy_bundle),
        Why::Engine(_) => "policy engine".to_owned(),
        Why::Store(_) => "policy store".to_owned(),
    };
    StartError::new(what, why)
}

/// The life of the deployment's bundles, from what was prepared and what the store has.
///
/// # Errors
/// [`StartError`] when there is no bundle to judge with and there never was.
pub async fn open_lifecycle(
    settings: &Settings,
    policy: Prepared,
    store: Arc<Store>,
    clock: Arc<dyn TellTime>,
) -> Result<Arc<Lifecycle>, StartError> {
    policy.open(store, clock).await.map_err(|why| policy_error(settings, why))
}

/// Every adapter, opened and put together.
///
/// # Errors
/// [`StartError`] naming what could not be had.
pub async fn open(settings: &Settings, policy: Prepared) -> Result<Gateway, StartError> {
    // Before anything is written: a first start without a registry leaves nothing behind. Later ones come up and tell.
    if !store_exists(settings)? {
        approvers::registry(settings)?;
    }
    let rules = rules(settings);
    let authenticator = open_authenticator(settings)?;
    let store =
        Store::open(&settings.database_url).await.map_err(|error| StartError::new("database", error))?;
    let store = Arc::new(store);
    let clock: Arc<dyn TellTime> = Arc::new(SystemClock);
    let policies = open_lifecycle(settings, policy, Arc::clone(&store), Arc::clone(&clock)).await?;
    let authority = open_authority(settings)?;
    let log_signer = open_log_signer(settings, &authority)?;
    let fleet = open_fleet(settings, authority.public_key()).await?;
    let ports = Ports {
        commits: store.clone(),
        reads: store.clone(),
        log: store.clone(),
        checkpoints: Arc::new(log_signer),
        policy: policies.host(),
        policies: policies.clone(),
        authority: Arc::new(authority),
        nodes: fleet.clone(),
        clock,
    };
    let verifiers =
        Verifiers::open(settings, vec![rules.signed_approvals.clone(), fleet.signed_approvals().clone()]);
    Ok(Gateway { app: app(settings, rules, authenticator, ports), store, fleet, policies, verifiers })
}

/// Who tells who calls, beginning to get ready.
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
    App::new(Engine::new(ports, rules), authenticator, options(settings), counting::text)
}

fn open_authority(settings: &Settings) -> Result<EmbeddedAuthority, StartError> {
    let seed = seed(settings, &settings.authority_key);
    Ok(EmbeddedAuthority::new(&*seed.map_err(|error| StartError::new("authority", error))?))
}

/// Who reads a signature must never have to ask which of the two it could have been.
fn open_log_signer(settings: &Settings, authority: &EmbeddedAuthority) -> Result<LogSigner, StartError> {
    let seed = seed(settings, &settings.log_key).map_err(|error| StartError::new("log key", error))?;
    let signer = LogSigner::new(settings.log_origin.clone(), &seed);
    if signer.public_key() == authority.public_key() {
        return Err(StartError::new("log key", "must be another key than the authority's"));
    }
    Ok(signer)
}

fn seed(settings: &Settings, path: &Path) -> Result<Zeroizing<[u8; 32]>, KeyFileError> {
    match settings.profile {
        Profile::Development => key_file::load_or_create(path),
        Profile::Production => key_file::load(path),
    }
}

/// Each node pins the authority and the approvers, and holds operations to the deployment's approvals by itself.
///
/// # Errors
/// [`StartError`] when the authority's key is no key, or the nodes do not open under their own.
pub async fn open_fleet(settings: &Settings, authority: [u8; 32]) -> Result<Arc<EmbeddedFleet>, StartError> {
    let kek = Arc::new(node_key::open(settings).await?);
    let fleet = EmbeddedFleet::new(fleet_config(settings, authority, kek)?);
    fleet.open_existing().await.map_err(|error| StartError::new("nodes", error))?;
    Ok(Arc::new(fleet))
}

/// What the nodes are told. Decisions of earlier keys of the authority hold for as long as they would have.
///
/// # Errors
/// [`StartError`] when a key of the authority is no key.
pub(crate) fn fleet_config(
    settings: &Settings,
    authority: [u8; 32],
    kek: Arc<Kek>,
) -> Result<FleetConfig, StartError> {
    let previous = settings.authority_keys_previous.iter().map(|key| *key.as_bytes());
    let authorities = KeySet::new([authority].into_iter().chain(previous));
    let nodes = NodeSettings {
        kek,
        authorities: authorities.map_err(|error| StartError::new("authority", error))?,
        required_approvals: settings.required_approvals,
        decision_ttl_max_ms: settings.admission_ttl_ms,
        signed_approvals: approvers::at_nodes(settings),
        keys_without_approvals: settings.auto_provision_keys,
        clock: Arc::new(|| SystemClock.now()),
    };
    Ok(FleetConfig { folder: settings.node_directory.clone(), nodes })
}

/// The Ed25519 public keys that the nodes' receipts verify under, by participant: what an offline verifier pins. Read
/// from the nodes' databases beside a gateway that may be serving with them; nothing is opened to be written, and nothing
/// begun. A participant that never took part in anything has no database yet, and is not named.
///
/// # Errors
/// [`StartError`] when the key that the nodes are sealed under can not be had, or a database can not be read with it.
pub async fn node_identities(
    settings: &Settings,
) -> Result<BTreeMap<ParticipantIndex, [u8; 32]>, StartError> {
    let folder = &settings.node_directory;
    if existing(folder).is_empty() {
        return Ok(BTreeMap::new());
    }
    let kek = Arc::new(node_key::open(settings).await?);
    let nodes = identities(folder, &kek).await.map_err(|error| StartError::new("nodes", error))?;
    Ok(nodes.into_iter().map(|(participant, node)| (participant, node.signing_key())).collect())
}

/// What the deployment settled, for the engine.
#[must_use]
pub fn rules(settings: &Settings) -> Rules {
    Rules {
        policy: facts::Rules {
            permitted_recipients: settings.permitted_recipients.clone(),
            required_approvals: settings.required_approvals,
            separation_of_duties: settings.separation_of_duties,
        },
        signed_approvals: approvers::at_approval(settings),
        approval_ttl_ms: settings.approval_ttl_ms,
        admission_ttl_ms: settings.admission_ttl_ms,
        auto_provision_keys: settings.auto_provision_keys,
        n_nodes: settings.node_count,
        admission_rate: RateLimit { per_second: settings.admission_rate, burst: settings.admission_burst },
        preview_rate: RateLimit { per_second: settings.preview_rate, burst: settings.preview_burst },
        preview_records_max: settings.preview_records_max,
        answer_within: settings.answer_within,
    }
}

/// What the deployment settled, for the HTTP border.
#[must_use]
pub fn options(settings: &Settings) -> Options {
    Options {
        body_bytes_max: settings.body_bytes_max,
        recovery_body_bytes_max: settings.recovery_body_bytes_max,
        audit_bytes_max: settings.audit_bytes_max,
        body_within: settings.transport.body_within,
        request_within: settings.transport.request_within,
        probes_apart: settings.transport.admin_bind.is_some(),
        allowed_origins: settings.allowed_origins.clone(),
        unknown_fields: if settings.reject_unknown_fields {
            UnknownFields::Reject
        } else {
            UnknownFields::Warn
        },
        signature_profiles: settings.signature_profile_aliases.clone(),
        exceptions: settings.production_exceptions.iter().map(|exception| exception.as_str()).collect(),
        keys_serve: match settings.profile {
            Profile::Development => None,
            Profile::Production => Some(KeyUse::AssetActions),
        },
    }
}

fn shown(what: &str, path: &Path) -> String {
    format!("{what} `{}`", path.display())
}
