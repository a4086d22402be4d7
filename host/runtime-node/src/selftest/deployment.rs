//! Two honest nodes with databases in a temporary folder, and what the attacker has: the third participant's identity, the
//! authority's key, and a share of the key.

use super::operation::{Authority, Change, NOT_AFTER, Operation};
use gateway_domain::admission::Authorities;
use gateway_domain::approval::SigningRule;
use gateway_domain::contribution::RecoveryCase;
use gateway_domain::ids::Hex32;
use gateway_domain::intent::FixedContributions;
use gateway_domain::key::{Epoch, epoch_root};
use gateway_domain::operation::EffectStep;
use gateway_domain::policy::facts::Rules;
use gateway_domain::receipt::{NodeReceipt, PAYLOAD_TYPE, ReceiptKind, Signature};
use gateway_domain::roster::ParticipantIndex;
use gateway_domain::time::EpochMs;
use gateway_node::{BundleOffer, CommitEpoch, Node, NodeConfig, NodeSettings, Peers, public_case};
use gateway_policy::{BundleFiles, CompiledBundles, Pins, Trust, TrustedBundle, TrustedBundles};
use gateway_seal::at_rest::Kek;
use gateway_seal::node_key::{Identities, NodeSecret};
use gateway_service::process::Fault;
use gateway_threshold::{KeyShare, PublicKeys, SignatureProfile};
use rand_core::{OsRng, RngCore};
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The index of the attacker.
pub(crate) const ATTACKER: u16 = 2;

/// The indices of the honest nodes.
pub(crate) const HONEST: [u16; 2] = [0, 1];

/// The name of the key.
pub(crate) const KEY: &str = "selftest";

/// The time of the nodes' clock.
const NOW: EpochMs = EpochMs(1_000);

/// The roots that trust the public development key, which signed the bundle.
const TRUST_ROOTS: &[u8] = include_bytes!("../../../../bundles/trust-development.json");

/// The bundle `payment-guard`: nodes admit nothing that they cannot evaluate.
const BUNDLE: [(&str, &[u8]); 7] = [
    ("manifest.json", include_bytes!("../../../../bundles/payment-guard/manifest.json")),
    ("policy.wasm", include_bytes!("../../../../bundles/payment-guard/policy.wasm")),
    ("data/custody.json", include_bytes!("../../../../bundles/payment-guard/data/custody.json")),
    (
        "signatures/e0c9c16e672fb1250e8c5e51d23f9951.json",
        include_bytes!("../../../../bundles/payment-guard/signatures/e0c9c16e672fb1250e8c5e51d23f9951.json"),
    ),
    ("tests/custody.json", include_bytes!("../../../../bundles/payment-guard/tests/custody.json")),
    ("tests/payments.json", include_bytes!("../../../../bundles/payment-guard/tests/payments.json")),
    ("tests/quorum.json", include_bytes!("../../../../bundles/payment-guard/tests/quorum.json")),
];

/// A folder that is removed with everything in it.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn create() -> Result<Self, Fault> {
        let path = std::env::temp_dir().join(format!("runtime-node-selftest-{}", random()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _left_for_the_operating_system = std::fs::remove_dir_all(&self.0);
    }
}

/// The attacker's share of the key, with the public keys.
pub(crate) struct Stolen {
    pub(crate) share: KeyShare,
    pub(crate) keys: PublicKeys,
    /// The generation in force.
    pub(crate) epoch: Epoch,
}

pub(crate) struct Deployment {
    pub(crate) profile: SignatureProfile,
    /// The honest nodes, by participant.
    pub(crate) nodes: BTreeMap<u16, Node>,
    /// The attacker's identity.
    pub(crate) secret: NodeSecret,
    /// The identities of all participants.
    pub(crate) identities: Identities,
    authority: NodeSecret,
    bundle: Arc<TrustedBundle>,
    key: Option<Stolen>,
    // Dropped last: the nodes have files in it.
    _folder: TemporaryFolder,
}

/// 32 random bytes.
fn random() -> Hex32 {
    let mut bytes = [0; 32];
    OsRng.fill_bytes(&mut bytes);
    Hex32::new(bytes)
}

fn random_secret(index: u16) -> NodeSecret {
    let mut seed = Zeroizing::new([0; 32]);
    OsRng.fill_bytes(seed.as_mut_slice());
    NodeSecret::from_seed(index, &seed)
}

fn trust() -> Result<Trust, Fault> {
    let trust = Trust::new(true);
    trust.replace(Ok(TRUST_ROOTS), Pins::default())?;
    Ok(trust)
}

impl Deployment {
    /// Opens the honest nodes. They have no key yet.
    pub(crate) async fn open(profile: SignatureProfile) -> Result<Self, Fault> {
        let folder = TemporaryFolder::create()?;
        let (secret, authority) = (random_secret(ATTACKER), random_secret(0));
        let peers = Arc::new(Peers::default());
        peers.pin(secret.identity())?;
        let files = BundleFiles::new(BUNDLE.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())))?;
        let compiled: Arc<CompiledBundles> = Arc::default();
        let mut nodes = BTreeMap::new();
        let mut all = vec![secret.identity().clone()];
        for participant in HONEST {
            let config = NodeConfig {
                participant: ParticipantIndex(participant),
                database: folder.path().join(format!("node-{participant}.db")),
                log_size_file: None,
                peers: Arc::clone(&peers),
                settings: settings(&authority, Arc::clone(&compiled))?,
            };
            let node = Node::open(config).await?;
            peers.pin(node.identity())?;
            all.push(node.identity().clone());
            node.offer_bundle(BundleOffer { files: files.clone(), activation: None }).await?;
            nodes.insert(participant, node);
        }
        let bundle = TrustedBundles::new(trust()?, compiled).add(files, None, NOW)?;
        let identities = Identities::new(all)?;
        Ok(Self { profile, nodes, secret, identities, authority, bundle, key: None, _folder: folder })
    }

    pub(crate) async fn close(&self) {
        for node in self.nodes.values() {
            node.close().await;
        }
    }

    fn authority(&self) -> Authority<'_> {
        Authority { secret: &self.authority, bundle: &self.bundle }
    }

    /// The key that [`Self::take_key`] noted.
    pub(crate) fn key(&self) -> Result<&Stolen, Fault> {
        self.key.as_ref().ok_or_else(|| "the key was not generated".into())
    }

    /// The creation of a key of this name, admitted by the honest nodes.
    pub(crate) async fn creation(&self, key_ref: &str) -> Result<Operation, Fault> {
        self.admitted(Operation::creation(&self.authority(), random(), key_ref, self.profile)?).await
    }

    /// A signature, admitted by the honest nodes.
    pub(crate) async fn signature(&self) -> Result<Operation, Fault> {
        let key = (KEY, &self.key()?.epoch);
        self.admitted(Operation::signature(&self.authority(), random(), key, self.profile)?).await
    }

    /// A change of the key, admitted by the honest nodes. A recovery fixes the helpers' contributions.
    pub(crate) async fn change(&self, change: Change) -> Result<Operation, Fault> {
        let key = (KEY, &self.key()?.epoch);
        let make = |contributions: &FixedContributions| {
            Operation::change(&self.authority(), random(), key, self.profile, (change, contributions))
        };
        let operation = make(&FixedContributions::default())?;
        let contributions = match operation.recovery_case() {
            Some(case) => self.contributions(&case).await?,
            None => FixedContributions::default(),
        };
        self.admitted(make(&contributions)?).await
    }

    /// What the helpers state before the recovery: participant 0 when it is asked, and the attacker truthfully.
    async fn contributions(&self, case: &RecoveryCase) -> Result<FixedContributions, Fault> {
        let Stolen { share, keys, .. } = self.key()?;
        let public = public_case(case, keys.clone())?;
        let node = self.nodes.get(&0).ok_or("no honest helper")?;
        let cids = vec![node.contribution(case).await?.cid, Hex32::new(public.contribution(share)?)];
        let by_helper: Vec<_> = cids.iter().map(|cid| *cid.as_bytes()).collect();
        Ok(FixedContributions { cids, root: Some(Hex32::new(public.root(&by_helper))) })
    }

    async fn admitted(&self, operation: Operation) -> Result<Operation, Fault> {
        for (participant, node) in &self.nodes {
            node.admit(&operation.request).await?;
            let call = operation.call(*participant, EffectStep::PolicyReceipt, 1)?;
            node.policy_receipt(&call).await?;
        }
        Ok(operation)
    }

    /// The attacker's receipt for a step, true or not.
    pub(crate) fn receipt(&self, operation: &Operation, kind: &ReceiptKind) -> Result<NodeReceipt, Fault> {
        let statement = operation.chain(ATTACKER).statement(kind)?;
        Ok(NodeReceipt {
            participant: ParticipantIndex(ATTACKER),
            transition_hash: statement.transition_hash,
            log_index: 0,
            signature: Signature::new(self.secret.sign_statement(PAYLOAD_TYPE, &statement.payload(0)?)),
        })
    }

    /// Puts the staged key in force at the honest nodes, and notes the attacker's share of it.
    pub(crate) async fn take_key(
        &mut self,
        operation: &Operation,
        attempt: u32,
        (share, keys): (KeyShare, PublicKeys),
        mut staged: Vec<NodeReceipt>,
    ) -> Result<(), Fault> {
        let Some(target) = &operation.decision.target else {
            return Err("the operation makes no key".into());
        };
        let root = epoch_root(operation.key_id(), &target.epoch, &hex::encode(keys.to_bytes()))?;
        staged.push(self.receipt(operation, &ReceiptKind::Staged { attempt, epoch_root: root })?);
        let commit = CommitEpoch { attempt, epoch_root: root, staged };
        for (participant, node) in &self.nodes {
            node.commit_epoch(&operation.call(*participant, EffectStep::CommitEpoch, attempt)?, &commit)
                .await?;
        }
        self.key = Some(Stolen { share, keys, epoch: Epoch { name: target.epoch.clone(), root } });
        Ok(())
    }
}

fn settings(authority: &NodeSecret, compiled_bundles: Arc<CompiledBundles>) -> Result<NodeSettings, Fault> {
    Ok(NodeSettings {
        kek: Arc::new(Kek::new(Zeroizing::new(*random().as_bytes()))),
        authorities: Authorities::new([authority.identity().signing_key()], 1)?,
        rules: Rules {
            permitted_recipients: "*".to_owned(),
            required_approvals: 2,
            separation_of_duties: false,
        },
        approver_roles: BTreeMap::new(),
        policy_trust: trust()?,
        compiled_bundles,
        decision_ttl_max_ms: NOT_AFTER.0,
        signed_approvals: SigningRule::Off,
        keys_without_approvals: false,
        clock: Arc::new(|| NOW),
    })
}
