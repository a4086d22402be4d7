//! The work that clients request, and their requests.

use crate::chance::Chance;
use crate::parts::{APPROVERS, N_NODES};
use gateway_domain::approval::{Approval, Word};
use gateway_domain::binding::ClientBinding;
use gateway_domain::canonical::digest_bytes;
use gateway_domain::ids::{Hex32, KeyId, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{
    Bip32, Family, Intent, Lifecycle, Payment, PublicationMode, Refresh, SIGNATURE_PROFILES, SigningTerms,
    operation_id,
};
use gateway_domain::key::{CustodyKey, KeyState};
use gateway_domain::operation::Operation;
use gateway_domain::roster::{ParticipantIndex, Roster};
use gateway_domain::samples;
use gateway_domain::testing::approvers::{key, signature, signed};
use gateway_domain::time::EpochMs;
use gateway_engine::{Approve, Reject, Submit, Target, Visibility};
use std::collections::{BTreeMap, BTreeSet};

/// An operation that clients want.
pub(crate) struct Order {
    pub(crate) number: u32,
    pub(crate) submit: Submit,
    /// The key of a custody operation.
    pub(crate) key_ref: Option<KeyRef>,
    /// Whether the policy allows it, by the test's own knowledge of the rules.
    pub(crate) is_allowed: bool,
    /// Whether it is left alone before its quorum or its execution, so that it expires.
    pub(crate) is_abandoned: bool,
    /// The people whose approval was sent.
    pub(crate) approved: BTreeSet<&'static str>,
}

impl Order {
    pub(crate) fn target(&self, id: OperationId) -> Target {
        Target { family: self.submit.intent.family(), visibility: Visibility::Everything, id }
    }

    pub(crate) fn id(&self) -> OperationId {
        let Submit { tenant, intent, idempotency_key, .. } = &self.submit;
        let claim = idempotency_key.as_deref().unwrap();
        match intent.family() {
            Family::Product => operation_id(tenant, Family::Product, None, claim).unwrap(),
            Family::Custody => operation_id(tenant, Family::Custody, self.key_ref.as_ref(), claim).unwrap(),
        }
    }
}

/// The approval of one person, who signs it if the deployment requires that.
pub(crate) fn approve(operation: &Operation, who: &'static str, at: EpochMs, is_signed: bool) -> Approve {
    let claimed_at_ms = i64::try_from(at.0).unwrap();
    let roles = vec!["approver".to_owned()];
    let approval = Approval { approved_at_ms: at, ..samples::approval(who, claimed_at_ms) };
    let byte = (1..).zip(APPROVERS).find(|(_, name)| *name == who).unwrap().0;
    let signature =
        is_signed.then(|| signed(approval, &operation.approval_subject(), &key(byte)).signature).flatten();
    Approve { subject_id: who.to_owned(), roles, claimed_at_ms, signature, requester: None, request_id: None }
}

/// The abort of a change of a key, or that it does without these receivers, by one person, as [`approve`].
pub(crate) fn abort(
    operation: &Operation,
    who: &'static str,
    at: EpochMs,
    is_signed: bool,
    lost: BTreeSet<ParticipantIndex>,
) -> Reject {
    let (claimed_at_ms, roles) = (i64::try_from(at.0).unwrap(), vec!["approver".to_owned()]);
    let reason = "simulation".to_owned();
    let signature = is_signed.then(|| {
        let word = Word::Aborts { aborted_at_ms: claimed_at_ms, lost_participants: &lost, reason: &reason };
        let message = operation.approval_subject().says(who, &roles, word).message().unwrap();
        let byte = (1..).zip(APPROVERS).find(|(_, name)| *name == who).unwrap().0;
        Box::new(signature(&key(byte), &message))
    });
    let subject_id = who.to_owned();
    Reject {
        subject_id,
        roles,
        reason,
        lost: Some(lost),
        claimed_at_ms,
        signature,
        requester: None,
        request_id: None,
    }
}

/// A request body's stand-in: another `variant` is another body.
pub(crate) fn body(number: u32, variant: u8) -> Hex32 {
    digest_bytes("simulation/body", format!("{number}/{variant}").as_bytes())
}

fn roster(of: &[ParticipantIndex]) -> Roster {
    Roster::parse(&of.iter().map(|index| index.0).collect::<Vec<_>>()).unwrap()
}

fn recover(change: Lifecycle, recovering: ParticipantIndex, helpers: &[ParticipantIndex]) -> Intent {
    Intent::Recover(samples::recover(change, recovering.0, roster(helpers)))
}

fn all_nodes() -> Vec<ParticipantIndex> {
    (0..N_NODES).map(ParticipantIndex).collect()
}

/// Makes orders. Most are signatures by two of three holders, the cheapest.
pub(crate) struct Desk {
    n_orders: u32,
    n_keys: u32,
}

impl Desk {
    pub(crate) const fn new() -> Self {
        Self { n_orders: 0, n_keys: 0 }
    }

    /// The next order, on the keys that exist now.
    pub(crate) fn order(&mut self, chance: &mut Chance, keys: &BTreeMap<KeyId, CustodyKey>) -> Order {
        let usable: Vec<&CustodyKey> = keys.values().filter(|key| key.state.can_sign()).collect();
        let active: Vec<&CustodyKey> = keys.values().filter(|key| key.state == KeyState::Active).collect();
        self.n_orders += 1;
        let is_abandoned = chance.one_in(40);
        if usable.is_empty() || chance.one_in(100) {
            return self.creation(chance);
        }
        if !active.is_empty() && chance.one_in(30) {
            let key = *chance.pick(&active);
            let change = self.change(chance, key);
            return self.on_key(change, key.key_ref.clone(), is_abandoned);
        }
        let key = *chance.pick(&usable);
        self.signature(chance, key, is_abandoned)
    }

    /// A signature that the policy allows, on this key.
    pub(crate) fn signature(&mut self, chance: &mut Chance, key: &CustodyKey, is_abandoned: bool) -> Order {
        let terms = Self::terms(chance, key);
        let is_payment = chance.one_in(2);
        let is_allowed = !is_payment || !chance.one_in(20);
        let amount = if is_allowed { 1 + i64::try_from(chance.below(10_000)).unwrap() } else { 0 };
        Order { is_abandoned, is_allowed, ..self.signature_with(key, terms, is_payment, amount) }
    }

    fn signature_with(
        &self,
        key: &CustodyKey,
        terms: SigningTerms,
        is_payment: bool,
        amount_minor: i64,
    ) -> Order {
        if !is_payment {
            let digest = digest_bytes("simulation/digest", &self.n_orders.to_be_bytes());
            let action = Intent::AssetAction(samples::asset_action(digest, terms));
            return self.on_key(action, key.key_ref.clone(), false);
        }
        let payment = Intent::Payment(Payment {
            key_ref: Some(key.key_ref.clone()),
            from_account: format!("acct-{}", amount_minor % 3),
            to_account: "acct-7".to_owned(),
            amount_minor,
            ..samples::payment(terms)
        });
        Order { key_ref: None, ..self.on_key(payment, key.key_ref.clone(), false) }
    }

    /// A signature that the policy allows, for which any of the key's holders may sign.
    pub(crate) fn last_signature(&mut self, key: &CustodyKey) -> Order {
        self.n_orders += 1;
        let publication_mode = PublicationMode::Automatic;
        let terms = SigningTerms { publication_mode, ..samples::terms(key.participants.clone()) };
        self.signature_with(key, terms, false, 1)
    }

    /// A recovery of the share of a lost node, with the holders that have theirs.
    pub(crate) fn recovery(
        &mut self,
        key: &CustodyKey,
        lost: ParticipantIndex,
        all_lost: &BTreeSet<ParticipantIndex>,
    ) -> Order {
        self.n_orders += 1;
        let helpers: Vec<_> = key.participants.iter().filter(|index| !all_lost.contains(index)).collect();
        let recover = recover(Self::lifecycle(key, PublicationMode::Automatic), lost, &helpers);
        self.on_key(recover, key.key_ref.clone(), false)
    }

    fn lifecycle(key: &CustodyKey, publication_mode: PublicationMode) -> Lifecycle {
        let epoch = key.epoch.name.0.parse::<u64>().map_or(1_000, |epoch| epoch + 1);
        samples::change(&epoch.to_string(), publication_mode)
    }

    fn terms(chance: &mut Chance, key: &CustodyKey) -> SigningTerms {
        let holders: Vec<_> = key.participants.iter().collect();
        let n_signers = if chance.one_in(4) { holders.len() } else { key.threshold.count() };
        let path = || Bip32 { network: "bitcoin".to_owned(), path: "0/7".to_owned() };
        let derives = key.signature_profile == SIGNATURE_PROFILES[1] && chance.one_in(3);
        let signers = roster(&chance.some(&holders, n_signers));
        SigningTerms {
            bip32: derives.then(path),
            epoch_fence_token_hex: chance.one_in(8).then(|| key.epoch.root.to_string()),
            publication_mode: Self::mode(chance),
            ..samples::terms(signers)
        }
    }

    fn mode(chance: &mut Chance) -> PublicationMode {
        if chance.one_in(4) { PublicationMode::Manual } else { PublicationMode::Automatic }
    }

    fn creation(&mut self, chance: &mut Chance) -> Order {
        let n_random = chance.below(5);
        // Mostly three; with four, two packages of one attempt can have no signer in common.
        let participants = roster(&chance.some(&all_nodes(), if n_random == 0 { 4 } else { 3 }));
        let create = samples::key_create(participants, 2, chance.pick::<&str>(&SIGNATURE_PROFILES));
        let create = Intent::KeyCreate(create);
        let key_ref = self.new_key_ref();
        self.on_key(create, key_ref, false)
    }

    fn new_key_ref(&mut self) -> KeyRef {
        self.n_keys += 1;
        KeyRef(format!("key-{}", self.n_keys))
    }

    fn change(&mut self, chance: &mut Chance, key: &CustodyKey) -> Intent {
        let change = Self::lifecycle(key, Self::mode(chance));
        let holders: Vec<_> = key.participants.iter().collect();
        match chance.below(8) {
            0..=2 => Intent::Refresh(Refresh { change }),
            // Between two of three and three of five.
            3..=5 => {
                let is_small = holders.len() < 5;
                let n_holders = if is_small { 5 } else { 3 };
                let receivers = roster(&chance.some(&all_nodes(), n_holders));
                Intent::Reshare(samples::reshare(change, receivers, if is_small { 3 } else { 2 }))
            }
            6 => {
                let recovering = *chance.pick(&holders);
                let others: Vec<_> = holders.into_iter().filter(|index| *index != recovering).collect();
                recover(change, recovering, &others)
            }
            _ => {
                let KeyRef(new_key_ref) = self.new_key_ref();
                let holders = roster(&chance.some(&all_nodes(), 3));
                Intent::Rotate(samples::rotate(change, &new_key_ref, holders, 2))
            }
        }
    }

    fn on_key(&self, intent: Intent, key_ref: KeyRef, is_abandoned: bool) -> Order {
        let tenant = Tenant("default".to_owned());
        let submitter = ClientBinding { client_id: "desk".to_owned(), ..samples::submitter("dora") };
        let submit = Submit {
            tenant,
            submitter,
            claims: BTreeMap::new(),
            idempotency_key: Some(format!("order-{}", self.n_orders)),
            intent,
            body_digest: body(self.n_orders, 0),
            unknown_fields: vec![],
            request_id: None,
        };
        Order {
            number: self.n_orders,
            submit,
            key_ref: Some(key_ref),
            is_allowed: true,
            is_abandoned,
            approved: BTreeSet::new(),
        }
    }
}
