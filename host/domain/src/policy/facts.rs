//! The facts that a deployment offers to policies, each defined in one place.

use super::{Approval, FactRead, Outcome, SignedDocument, document};
use crate::binding::ClientBinding;
use crate::intent::{SigningTerms, Taproot};
use crate::key::CustodyKey;
use crate::policy::paid::{FIRST_PAID_MS, PAID_COUNT, Paid};
use crate::policy::{SpendingTotals, spending};
use crate::time::EpochMs;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Deployment settings that a policy may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Comma-separated accounts, or `*` for any; empty permits none.
    pub permitted_recipients: String,
    /// The lowest number of approvals; a bundle may require more.
    pub required_approvals: u32,
    /// Whether a submitter's own approval does not count.
    pub separation_of_duties: bool,
}

impl Rules {
    /// The facts that state these rules, by name.
    #[must_use]
    pub fn facts(&self) -> [(&'static str, String); 3] {
        let Self { permitted_recipients, required_approvals, separation_of_duties } = self;
        [
            ("deployment.permitted_recipients", permitted_recipients.clone()),
            ("deployment.required_approvals", required_approvals.to_string()),
            ("deployment.separation_of_duties", separation_of_duties.to_string()),
        ]
    }

    /// The approvals that count by these rules: without the submitter's own if the duties are separated.
    pub fn counted<'a>(
        &self,
        approvals: &'a [Approval],
        submitter: &'a ClientBinding,
    ) -> impl Iterator<Item = &'a Approval> {
        let is_separated = self.separation_of_duties;
        approvals.iter().filter(move |approval| !is_separated || !approval.is_by(submitter))
    }
}

crate::words! {
    /// How much of a fact the verifiers of an admission know for themselves.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum FactClass {
        /// Each verifier computes it from its own rows, settings or clock, and refuses another value.
        Own = "own",
        /// Each verifier knows a bound on the dangerous side, and refuses a value beyond it.
        Bounded = "bounded",
        /// It comes with signed statements, which each verifier verifies.
        Proven = "proven",
        /// The gateway's word. Not stated at an admission, so no verifier has to believe it.
        Claimed = "claimed",
    }
}

/// The facts that each verifier knows for itself.
const OWN: [&str; 11] = [
    "deployment.permitted_recipients",
    "deployment.required_approvals",
    "deployment.separation_of_duties",
    "key.epoch",
    "key.epoch_since_ms",
    "key.profile",
    "key.roster",
    "key.state",
    "key.threshold",
    "signature.taproot_merkle_root",
    "time.now_ms",
];

/// The number of operations of the submitter, as a person, that wait for approvals, when another one is submitted. Claimed.
pub const PENDING_COUNT: &str = "pending.submitter.count";

/// The beginning of the facts that are claims of the submitter's token, when an operation is submitted. Claimed.
pub const CLAIM: &str = "claim.";

/// Whether this is the name of a fact after [`CLAIM`]: lower case letters, digits and `_`.
#[must_use]
pub fn is_claim_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_allowed)
}

/// Every fact that a deployment offers under a name of its own.
fn offered() -> impl Iterator<Item = (&'static str, FactClass)> {
    let own = OWN.into_iter().map(|name| (name, FactClass::Own));
    let proven = [FIRST_PAID_MS, PAID_COUNT].map(|name| (name, FactClass::Proven));
    own.chain(proven)
        .chain([(PENDING_COUNT, FactClass::Claimed)])
        .chain(spending::names().map(|name| (name, FactClass::Bounded)))
}

/// The beginnings of the facts of a calendar, which the name of a time zone completes. They follow from `time.now_ms`, so each verifier
/// computes them.
pub const CALENDAR: [&str; 3] = ["time.date.", "time.weekday.", "time.hour."];

/// The classes of the facts that an entry of a manifest stands for: a name, or `prefix.*`. Empty if there is no such fact. Documents and
/// claims are named by the deployment.
#[must_use]
pub fn classes(declared: &str) -> BTreeSet<FactClass> {
    let is_meant = |name: &str| match declared.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == declared,
    };
    let offered = offered().filter(|(name, _)| is_meant(name)).map(|(_, class)| class);
    let is_calendar = CALENDAR.iter().any(|beginning| declared.starts_with(beginning));
    let document = declared.strip_prefix(document::PREFIX);
    let is_document = document.is_some_and(|name| name == "*" || document::is_name(name));
    let is_claim = declared.strip_prefix(CLAIM).is_some_and(|name| name == "*" || is_claim_name(name));
    let others = [
        (is_calendar, FactClass::Own),
        (is_document, FactClass::Proven),
        (spending::currency(declared).is_some(), FactClass::Bounded),
        (is_claim, FactClass::Claimed),
    ];
    offered.chain(others.into_iter().filter_map(|(is_meant, class)| is_meant.then_some(class))).collect()
}

/// Facts by name, and the documents that some of them name. A policy reads them one by one, and each read is recorded. Cloning shares the
/// values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    values: Arc<BTreeMap<Cow<'static, str>, String>>,
    documents: Vec<Arc<SignedDocument>>,
}

impl Facts {
    /// The value of a fact; `None` when the deployment has no such fact.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Facts from pairs of name and value, for tests and vectors.
    #[must_use]
    pub fn from_pairs<N: Into<Cow<'static, str>>>(pairs: impl IntoIterator<Item = (N, String)>) -> Self {
        let values = Arc::new(pairs.into_iter().map(|(name, value)| (name.into(), value)).collect());
        Self { values, documents: Vec::new() }
    }

    /// The document whose hash is the value of this fact, `document.NAME`.
    #[must_use]
    pub fn document(&self, fact: &str) -> Option<&Arc<SignedDocument>> {
        let (name, hash) = (fact.strip_prefix(document::PREFIX)?, self.get(fact)?);
        self.documents.iter().find(|one| one.document.name == name && one.hash.to_string() == hash)
    }

    /// These facts, with those of the documents that are valid at this time. The documents are trusted.
    #[must_use]
    pub fn with_documents(self, documents: &[Arc<SignedDocument>], now: EpochMs) -> Self {
        let valid: Vec<_> = documents.iter().filter(|one| one.is_valid_at(now)).cloned().collect();
        let facts = valid.iter().map(|one| (one.fact(), Some(one.hash.to_string()))).collect();
        Self { documents: valid, ..self.assuming(facts) }
    }

    /// These facts, with others in place of those of the same name; `None` for one that does not exist.
    #[must_use]
    pub fn assuming(self, others: BTreeMap<String, Option<String>>) -> Self {
        if others.is_empty() {
            return self;
        }
        let mut facts = Arc::unwrap_or_clone(self.values);
        for (name, value) in others {
            match value {
                Some(value) => drop(facts.insert(Cow::Owned(name), value)),
                None => drop(facts.remove(name.as_str())),
            }
        }
        Self { values: Arc::new(facts), ..self }
    }

    /// These facts, with those of earlier payments.
    #[must_use]
    pub fn with_paid(self, paid: Paid) -> Self {
        self.assuming(paid.facts().map(|(name, value)| (name.to_owned(), Some(value))).into())
    }

    /// These facts, with the number of operations of the submitter that wait for approvals.
    #[must_use]
    pub fn with_pending(self, count: u64) -> Self {
        self.assuming([(PENDING_COUNT.to_owned(), Some(count.to_string()))].into())
    }

    /// The facts and documents that an outcome is from, to evaluate again. A document that cannot be read is left out.
    #[must_use]
    pub fn of_outcome(outcome: &Outcome) -> Self {
        Self::recorded(&outcome.facts, &document::parse_all(&outcome.documents).unwrap_or_default())
    }

    /// The facts of a recorded evaluation, for a re-run, and those of the documents that it read. Leaves out facts that had no value.
    #[must_use]
    pub fn recorded(read: &[FactRead], documents: &[Arc<SignedDocument>]) -> Self {
        let read = read.iter().filter(|fact| !fact.name.starts_with(document::PREFIX));
        let with_value = |fact: &FactRead| Some((fact.name.clone(), fact.value.clone()?));
        // Whether they were valid then is checked by who repeats it.
        Self::from_pairs(read.filter_map(with_value)).with_documents(documents, EpochMs(0))
    }
}

/// The facts for one evaluation. `terms` are those of a signature; `totals` is `None` when the policy may not read spending
/// totals.
#[must_use]
pub fn facts_for(
    rules: &Rules,
    key: Option<&CustodyKey>,
    terms: Option<&SigningTerms>,
    totals: Option<&SpendingTotals>,
    now: EpochMs,
) -> Facts {
    let deployment = rules.facts().into_iter().chain([("time.now_ms", now.0.to_string())]);
    let of_key = key.map(|key| {
        [
            ("key.state", key.state.as_str().to_owned()),
            ("key.profile", key.signature_profile.clone()),
            ("key.epoch", key.epoch.name.0.clone()),
            ("key.threshold", key.threshold.0.to_string()),
            ("key.roster", roster_text(key)),
        ]
    });
    let since =
        key.and_then(|key| key.epoch_since_ms).map(|since| ("key.epoch_since_ms", since.0.to_string()));
    let taproot = terms.and_then(|terms| terms.taproot).map(|Taproot { merkle_root }| {
        let root = merkle_root.map_or("none".to_owned(), |root| root.to_string());
        ("signature.taproot_merkle_root", root)
    });
    let totals = totals.into_iter().flat_map(SpendingTotals::facts);
    let of_request = of_key.into_iter().flatten().chain(since).chain(taproot);
    let named = |(name, value)| (Cow::Borrowed(name), value);
    Facts::from_pairs(deployment.chain(of_request).map(named).chain(totals))
}

/// The participants' indices, ascending, separated by commas.
fn roster_text(key: &CustodyKey) -> String {
    key.participants.iter().map(|index| index.to_string()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Hex32;
    use crate::intent::{Intent, PublicationMode};
    use crate::policy::spending::Party;
    use crate::testing::samples::{Kind, intent, key};

    #[test]
    fn every_fact_that_is_offered_has_a_class_and_no_other_has() {
        let rules =
            Rules { permitted_recipients: "*".into(), required_approvals: 2, separation_of_duties: false };
        let Intent::AssetAction(action) = intent(Kind::AssetAction, PublicationMode::Manual) else {
            panic!()
        };
        let terms = SigningTerms { taproot: Some(Taproot { merkle_root: None }), ..action.terms };
        let mut totals = SpendingTotals::default();
        Party::ALL.into_iter().for_each(|party| totals.insert(party, Default::default()));
        let facts = facts_for(&rules, Some(&key()), Some(&terms), Some(&totals), EpochMs(1));
        let facts = facts.with_paid(Paid { first_ms: EpochMs(1), count: 1 }).with_pending(0);
        let names: BTreeSet<_> = facts.values.keys().map(AsRef::as_ref).collect();
        assert_eq!(names, offered().map(|(name, _)| name).collect());
        for (declared, expected) in [
            ("time.now_ms", &[FactClass::Own][..]),
            ("velocity.recipient.*", &[FactClass::Bounded]),
            ("velocity.recipient.7d.count.of.USD", &[FactClass::Bounded]),
            ("velocity.recipient.7d.count.of.*", &[]),
            ("claim.department", &[FactClass::Claimed]),
            ("claim.*", &[FactClass::Claimed]),
            ("claim.Department", &[]),
            ("claim.a.b", &[]),
            ("claim.", &[]),
            ("time.hour.UTC", &[FactClass::Own]),
            ("recipient.*", &[FactClass::Proven]),
            ("document.rates", &[FactClass::Proven]),
            ("document.*", &[FactClass::Proven]),
            ("document.Rates", &[]),
            ("pending.*", &[FactClass::Claimed]),
            ("time.now", &[]),
            ("velocity", &[]),
            ("limits.*", &[]),
        ] {
            assert_eq!(classes(declared), expected.iter().copied().collect(), "{declared}");
        }
    }

    #[test]
    fn taproot_output_of_a_signature_is_a_fact() {
        let rules =
            Rules { permitted_recipients: "*".into(), required_approvals: 2, separation_of_duties: false };
        let Intent::AssetAction(action) = intent(Kind::AssetAction, PublicationMode::Manual) else {
            panic!()
        };
        let fact = |taproot| {
            let terms = SigningTerms { taproot, ..action.terms.clone() };
            let facts = facts_for(&rules, None, Some(&terms), None, EpochMs(1));
            facts.get("signature.taproot_merkle_root").map(str::to_owned)
        };
        assert_eq!(fact(None), None);
        assert_eq!(fact(Some(Taproot { merkle_root: None })), Some("none".to_owned()));
        let root = Hex32::new([7; 32]);
        assert_eq!(fact(Some(Taproot { merkle_root: Some(root) })), Some(root.to_string()));
    }
}
