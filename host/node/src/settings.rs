//! The configuration of a node.

use crate::peers::Peers;
use gateway_domain::admission::Authorities;
use gateway_domain::approval::SigningRule;
use gateway_domain::policy::facts::Rules;
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_policy::{CompiledBundles, Trust};
use gateway_seal::at_rest::Kek;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The node's clock.
pub type Clock = Arc<dyn Fn() -> EpochMs + Send + Sync>;

/// The configuration of one node, fixed for as long as it runs.
#[derive(Clone)]
pub struct NodeConfig {
    /// The participant that this node is.
    pub participant: ParticipantIndex,
    /// The path of its own database, which is created if missing.
    pub database: PathBuf,
    /// A file in another folder than the database, created if missing, that has the size of the node's log: it shows that the
    /// database was restored from an older copy. `None` in tests.
    pub log_size_file: Option<PathBuf>,
    /// The pinned identities of all nodes, its own included.
    pub peers: Arc<Peers>,
    /// The settings that do not depend on the participant.
    pub settings: NodeSettings,
}

/// The settings of a node that do not depend on its participant.
#[derive(Clone)]
pub struct NodeSettings {
    /// The key-encryption key that seals its secrets in its database.
    pub kek: Arc<Kek>,
    /// The authorities whose decisions it accepts, and how many of them must sign one.
    pub authorities: Authorities,
    /// The deployment's rules by this node's own configuration. The facts that a policy read must agree with them. They hold even
    /// if the policy requires less: `required_approvals` different people must have approved, and with
    /// `separation_of_duties` the submitter does not count.
    pub rules: Rules,
    /// How many different people must have approved in each of these roles.
    pub approver_roles: BTreeMap<String, u32>,
    /// The trust roots and pins by which it trusts policy bundles. It verifies bundles and evaluates policies itself.
    pub policy_trust: Trust,
    /// The bundles that the process has compiled, which its nodes share.
    pub compiled_bundles: Arc<CompiledBundles>,
    /// How far in the future a decision may expire when it is admitted, in milliseconds.
    pub decision_ttl_max_ms: u64,
    /// Whether approvers must sign their approvals and, unless signatures are off, the node's own registry of approvers.
    pub signed_approvals: SigningRule,
    /// Whether keys may be created without approvals, as development creates them on first use. Ignored if approvals must be
    /// signed. Every signature with such a key still needs its approvals.
    pub keys_without_approvals: bool,
    /// The clock for the validity of decisions and approvals, and for the age of nonces and ceremonies.
    pub clock: Clock,
}
