//! Two honest nodes with databases in a temporary folder, and what the attacker has: the third participant's identity, the
//! authority's key, and a share of the key.

use super::operation::{Change, NEXT_EPOCH, Operation, THRESHOLD, everyone};
use gateway_domain::admission::{Authorities, Target};
use gateway_domain::contribution::RecoveryCase;
use gateway_domain::ids::{EpochName, Hex32, OperationId};
use gateway_domain::intent::{FixedContributions, Intent, key_id};
use gateway_domain::key::{Epoch, epoch_root};
use gateway_domain::operation::EffectStep;
use gateway_domain::receipt::{NodeReceipt, PAYLOAD_TYPE, ReceiptKind, Signature};
use gateway_domain::roster::{ParticipantIndex, Threshold};
use gateway_domain::time::EpochMs;
use gateway_node::samples::{self, AuthorityKey, Case};
use gateway_node::{BundleOffer, CommitEpoch, Node, NodeConfig, Peers, public_case};
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
    authority: AuthorityKey,
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

fn attacker() -> NodeSecret {
    let mut seed = Zeroizing::new([0; 32]);
    OsRng.fill_bytes(seed.as_mut_slice());
    NodeSecret::from_seed(ATTACKER, &seed)
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
        let secret = attacker();
        let authority = AuthorityKey::from_bytes(random().as_bytes());
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
                settings: samples::settings(
                    Arc::new(Kek::new(Zeroizing::new(*random().as_bytes()))),
                    Authorities::new([authority.verifying_key().to_bytes()], 1)?,
                    trust()?,
                    Arc::clone(&compiled),
                    Arc::new(|| NOW),
                ),
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

    /// The key that [`Self::take_key`] noted.
    pub(crate) fn key(&self) -> Result<&Stolen, Fault> {
        self.key.as_ref().ok_or_else(|| "the key was not generated".into())
    }

    /// An operation of all participants on the key of this name.
    fn case(&self, key_ref: &str, epoch: Epoch, intent: Intent) -> Result<Case, Fault> {
        let owner = samples::owner(key_ref);
        let key = (key_id(&owner.tenant, &owner.key_ref)?, owner);
        let decided_by = (self.authority.clone(), Arc::clone(&self.bundle));
        let id = OperationId(random());
        let case = Case::build(decided_by, id, key, (epoch, THRESHOLD), intent, everyone()?)?;
        Ok(case.on_profile(self.profile))
    }

    /// The creation of a key of this name, admitted by the honest nodes.
    pub(crate) async fn creation(&self, key_ref: &str) -> Result<Operation, Fault> {
        let intent = samples::key_create(everyone()?, THRESHOLD, self.profile.name());
        self.admitted(self.case(key_ref, samples::before_creation(), intent)?).await
    }

    /// A signature over a digest of its own, admitted by the honest nodes.
    pub(crate) async fn signature(&self) -> Result<Operation, Fault> {
        let intent = samples::asset_action(everyone()?, random());
        self.admitted(self.case(KEY, self.key()?.epoch.clone(), intent)?).await
    }

    /// A change of the key, admitted by the honest nodes. A recovery fixes the helpers' contributions.
    pub(crate) async fn change(&self, change: Change) -> Result<Operation, Fault> {
        let make = |contributions: &FixedContributions| {
            let case = self.case(KEY, self.key()?.epoch.clone(), change.intent(contributions)?)?;
            let target = Target {
                key_id: case.decision.key_id,
                epoch: EpochName(NEXT_EPOCH.to_owned()),
                participants: everyone()?,
                threshold: Threshold(change.threshold()),
            };
            Ok::<_, Fault>(case.between(everyone()?, target, everyone()?))
        };
        let case = make(&FixedContributions::default())?;
        let contributions = match Operation(case.admitted()?).recovery_case() {
            Some(case) => self.contributions(&case).await?,
            None => return self.admitted(case).await,
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

    async fn admitted(&self, case: Case) -> Result<Operation, Fault> {
        let operation = Operation(case.admitted()?);
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
        let root = epoch_root(operation.decision.key_id, &target.epoch, &hex::encode(keys.to_bytes()))?;
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
