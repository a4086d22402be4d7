//! The composition root: the only file that names concrete adapters.

use crate::clock::SystemClock;
use crate::node_key;
use crate::settings::{Profile, Settings};
use gateway_api::state::{App, Options, UnknownFields};
use gateway_authority::{EmbeddedAuthority, keys};
use gateway_domain::dsse::KeySet;
use gateway_domain::policy::facts;
use gateway_engine::ports::TellTime;
use gateway_engine::{Engine, Ports, Rate, Rules};
use gateway_policy::{Bundle, BundleFiles, Evaluator, Pins, PolicyEngine, PolicyHost, TrustPolicy};
use gateway_runtime::{EmbeddedFleet, FleetConfig};
use gateway_store::Store;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

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

/// An error and what is behind it, on one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let texts = std::iter::successors(Some(error), |error| (*error).source()).map(ToString::to_string);
    texts.collect::<Vec<_>>().join(": ").replace('\n', " ")
}

/// A gateway that is ready to serve.
pub struct Gateway {
    /// The application behind the router.
    pub app: App,
    /// The gateway's store, to be closed in the end.
    pub store: Arc<Store>,
    /// The nodes, to be closed in the end.
    pub fleet: Arc<EmbeddedFleet>,
}

/// The active policy, verified and compiled. Reads files and nothing else.
///
/// # Errors
/// [`StartError`] naming what is wrong with the bundle or its trust roots.
pub fn open_policy(settings: &Settings) -> Result<PolicyHost, StartError> {
    let roots = std::fs::read(&settings.policy_trust_roots)
        .map_err(|error| StartError::new(shown("policy trust roots", &settings.policy_trust_roots), error))?;
    let bundle = || -> Result<Evaluator, Box<dyn Error + Send + Sync>> {
        let trust = TrustPolicy::parse(&roots)?;
        if settings.profile == Profile::Production && trust.trusts_development() {
            return Err("the development signing key must not be trusted in production".into());
        }
        let files = BundleFiles::read(&settings.policy_bundle)?;
        let pins = Pins::parse(&settings.policy_pins)?;
        let bundle = Bundle::verify(files, &trust, &pins, SystemClock.now())?;
        Ok(Evaluator::load(&PolicyEngine::new()?, &bundle)?)
    };
    let evaluator =
        bundle().map_err(|error| StartError::new(shown("policy bundle", &settings.policy_bundle), error))?;
    let host = PolicyHost::new();
    host.activate(evaluator);
    Ok(host)
}

/// Every adapter, opened and put together.
///
/// # Errors
/// [`StartError`] naming what could not be had.
pub async fn open(settings: &Settings, policy: PolicyHost) -> Result<Gateway, StartError> {
    let store =
        Store::open(&settings.database_url).await.map_err(|error| StartError::new("database", error))?;
    let store = Arc::new(store);
    let authority = open_authority(settings)?;
    let fleet = open_fleet(settings, authority.public_key()).await?;
    let ports = Ports {
        commits: store.clone(),
        reads: store.clone(),
        policy: Arc::new(policy),
        authority: Arc::new(authority),
        nodes: fleet.clone(),
        clock: Arc::new(SystemClock),
    };
    let app = App::new(Engine::new(ports, rules(settings)), options(settings));
    Ok(Gateway { app, store, fleet })
}

fn open_authority(settings: &Settings) -> Result<EmbeddedAuthority, StartError> {
    let seed = match settings.profile {
        Profile::Development => keys::load_or_create(&settings.authority_key),
        Profile::Production => keys::load(&settings.authority_key),
    };
    let seed = seed.map_err(|error| StartError::new("authority", error))?;
    Ok(EmbeddedAuthority::new(&seed))
}

/// Each node pins the authority and holds operations to the deployment's approvals by itself.
///
/// # Errors
/// [`StartError`] when the authority's key is no key, or the nodes do not open under their own.
pub async fn open_fleet(settings: &Settings, authority: [u8; 32]) -> Result<Arc<EmbeddedFleet>, StartError> {
    let authorities = KeySet::new([authority]).map_err(|error| StartError::new("authority", error))?;
    let kek = node_key::open(settings).await?;
    let fleet = EmbeddedFleet::new(FleetConfig {
        folder: settings.node_directory.clone(),
        kek: Arc::new(kek),
        authorities,
        required_approvals: settings.required_approvals,
        keys_without_approvals: settings.auto_provision_keys,
        clock: Arc::new(|| SystemClock.now()),
    });
    fleet.open_existing().await.map_err(|error| StartError::new("nodes", error))?;
    Ok(Arc::new(fleet))
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
        approval_ttl_ms: settings.approval_ttl_ms,
        admission_ttl_ms: settings.admission_ttl_ms,
        auto_provision_keys: settings.auto_provision_keys,
        n_nodes: settings.node_count,
        admission_rate: Rate { per_second: settings.admission_rate, burst: settings.admission_burst },
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
        unknown_fields: if settings.reject_unknown_fields {
            UnknownFields::Reject
        } else {
            UnknownFields::Warn
        },
        signature_profiles: settings.signature_profile_aliases.clone(),
    }
}

fn shown(what: &str, path: &Path) -> String {
    format!("{what} `{}`", path.display())
}
