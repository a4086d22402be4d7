//! What a verifier, a node or the authority, requires of an evaluation that it repeats: that the facts which the policy read agree
//! with what the verifier knows, and that the outcome allows the operation and counts enough people. Pure.
//!
//! | fact | must be |
//! |---|---|
//! | `deployment.permitted_recipients` | accounts that the verifier's own list permits too |
//! | `deployment.required_approvals` | at least the verifier's own number |
//! | `deployment.separation_of_duties` | `true` if the verifier demands it |
//! | `time.now_ms` | within [`CLOCK_SKEW_MS`] of the verifier's clock, while the decision is being made |
//! | `time.date.ZONE`, `time.weekday.ZONE`, `time.hour.ZONE` | what follows from the `time.now_ms` that was read |
//! | `key.epoch`, `key.threshold`, `key.roster` | those of the key: see [`KnownKey`] |
//! | `key.profile`, `key.epoch_since_ms` | what the verifier's own share says: see [`Shares`] |
//! | `key.state` | a state in which a key signs |
//! | `signature.taproot_merkle_root` | that of the intent |
//! | `recipient.*` | what the proofs say that the verifier verified; absent without proofs |
//! | `document.*` | the hash of a document that came with the evaluation, and was valid at the `time.now_ms` that was read; or absent |
//! | `velocity.*` | numbers, and only for a payment; compared with what the verifier admitted: see `totals.rs` |
//! | `pending.*`, and any other | absent |
//!
//! A fact of the key or of a signature is absent exactly if the operation has no key or no such output yet.

use crate::calendar;
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::approval::{Approval, LapsedApproval};
use gateway_domain::binding::ClientBinding;
use gateway_domain::ids::EpochName;
use gateway_domain::intent::{Intent, SigningTerms, Taproot};
use gateway_domain::key::{CustodyKey, KeyState};
use gateway_domain::policy::facts::Rules;
use gateway_domain::policy::paid::PREFIX;
use gateway_domain::policy::{FactRead, Outcome, Paid, SignedDocument, TimeLimits, document, join, spending};
use gateway_domain::time::EpochMs;
use std::borrow::Cow;
use std::sync::Arc;

/// What a verifier knows about an operation.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    /// The verifier's own rules; `required_approvals` is the number for this operation.
    pub rules: Rules,
    /// `None` for a key that does not exist yet.
    pub key: Option<KnownKey<'a>>,
    /// The requested work.
    pub intent: &'a Intent,
    /// The client that submitted the operation.
    pub submitter: &'a ClientBinding,
    /// The approvals over which the policy was evaluated.
    pub approvals: &'a [Approval],
    /// What proofs of earlier payments, which the verifier verified, say of the recipient; `None` without proofs.
    pub paid: Option<Paid>,
    /// The documents that came with the evaluation. The verifier has verified their signatures: see
    /// [`TrustedBundles::documents`](crate::TrustedBundles::documents).
    pub documents: Vec<Arc<SignedDocument>>,
    /// The verifier's clock; `None` at the execution, which may be long after the evaluation.
    pub now: Option<EpochMs>,
}

/// The key of an operation: at a node, the one whose share it holds, or the decision's; at the authority, the one that the decision
/// is for, which each node compares with its own.
#[derive(Clone, Debug)]
pub struct KnownKey<'a> {
    epoch: &'a EpochName,
    threshold: u16,
    /// The holders' indices, ascending, separated by commas.
    roster: String,
    /// `None` for a node that holds no share of the generation: those that do compare it.
    shares: Option<Shares<'a>>,
}

/// A generation of shares, as one that it belongs to knows it.
#[derive(Clone, Copy, Debug)]
pub struct Shares<'a> {
    /// The signature profile.
    pub profile: &'a str,
    /// The times between which it was decided that the generation replaces the one before it: when this share was made, and when it was
    /// first used; `None` for a key without a generation. A fact may be [`CLOCK_SKEW_MS`] outside.
    pub decided: Option<(EpochMs, EpochMs)>,
}

/// Why an evaluation does not count for a verifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    /// A fact does not agree with what the verifier knows.
    #[error("the policy read `{0}`, which does not agree with this process")]
    Fact(String),
    /// The policy denies the operation.
    #[error("the policy denies the operation here: {0}")]
    Denied(String),
    /// The policy counts fewer people than the verifier requires.
    #[error("the policy counts {n_counted} of {required} required approvals")]
    TooFew {
        /// The people whom the policy counts.
        n_counted: u32,
        /// The number that the verifier requires.
        required: u32,
    },
    /// The policy allows the admission at a later time only, by its obligation `admit_not_before`.
    #[error(
        "the policy does not admit the operation before `{until_ms}`, and the clock here says `{now_ms}`"
    )]
    TooEarly {
        /// That time.
        until_ms: u64,
        /// The verifier's time.
        now_ms: u64,
    },
    /// An approval is older than the policy's obligation `approvals_expire_ms` lets it count.
    #[error("the approval of `{subject_id}` is older than the policy lets it count")]
    Outlived {
        /// The approver.
        subject_id: String,
    },
    /// The duties are separated, and the policy counts the submitter.
    #[error("the policy counts the approval of the submitter")]
    CountsSubmitter,
}

impl<'a> KnownKey<'a> {
    /// A key with these holders, ascending.
    #[must_use]
    pub fn new(
        epoch: &'a EpochName,
        threshold: u16,
        holders: impl IntoIterator<Item = u16>,
        shares: Option<Shares<'a>>,
    ) -> Self {
        let roster = holders.into_iter().map(|holder| holder.to_string()).collect::<Vec<_>>().join(",");
        Self { epoch, threshold, roster, shares }
    }

    /// This key.
    #[must_use]
    pub fn of(key: &'a CustodyKey) -> Self {
        let shares = Shares {
            profile: &key.signature_profile,
            decided: key.epoch_since_ms.map(|since| (since, since)),
        };
        let holders = key.participants.iter().map(|holder| holder.0);
        Self::new(&key.epoch.name, key.threshold.0, holders, Some(shares))
    }
}

impl Known<'_> {
    /// Checks the facts that a policy read.
    ///
    /// # Errors
    /// [`Disagreement::Fact`], the first that does not agree.
    pub fn check_facts(&self, facts: &[FactRead]) -> Result<(), Disagreement> {
        let now_ms = facts.iter().find(|fact| fact.name == calendar::NOW);
        let now_ms = now_ms.and_then(|fact| fact.value.as_deref());
        let agrees = |name: &str, value: Option<&str>| {
            if calendar::is_offered(name) {
                value == calendar::value(name, now_ms).as_deref()
            } else if name.starts_with(document::PREFIX) {
                value.is_none_or(|hash| document::is_proven(&self.documents, name, hash, now_ms))
            } else {
                self.agrees(name, value)
            }
        };
        match facts.iter().find(|fact| !agrees(&fact.name, fact.value.as_deref())) {
            None => Ok(()),
            Some(fact) => {
                let text = fact.to_string();
                Err(Disagreement::Fact(text.escape_debug().take(SHOWN_CHARACTERS_MAX).collect()))
            }
        }
    }

    /// Checks that the outcome of the verifier's own run allows the operation, now and with these approvals. The people whom the policy counts must be as many as
    /// the verifier requires, and not include the submitter if the duties are separated.
    pub fn check_outcome(&self, outcome: &Outcome) -> Result<(), Disagreement> {
        if !outcome.is_allowed() || !outcome.quorum.satisfied {
            return Err(Disagreement::Denied(join(&outcome.reasons)));
        }
        let n_counted = outcome.quorum.n_people();
        let required = self.rules.required_approvals;
        if n_counted < required {
            return Err(Disagreement::TooFew { n_counted, required });
        }
        let mut own = self.approvals.iter().filter(|approval| approval.is_by(self.submitter));
        if self.rules.separation_of_duties && own.any(|one| outcome.quorum.counts(&one.subject_id)) {
            return Err(Disagreement::CountsSubmitter);
        }
        self.check_times(outcome)
    }

    /// Checks the times in the policy's obligations against the verifier's clock, with a tolerance of [`CLOCK_SKEW_MS`]. At the
    /// execution they have been checked.
    fn check_times(&self, outcome: &Outcome) -> Result<(), Disagreement> {
        let limits = TimeLimits::parse(&outcome.obligations)
            .map_err(|invalid| Disagreement::Denied(invalid.to_string()))?;
        let Some(now) = self.now else { return Ok(()) };
        if let Some(until) = limits.admit_not_before.filter(|until| *until > now.plus_ms(CLOCK_SKEW_MS)) {
            return Err(Disagreement::TooEarly { until_ms: until.0, now_ms: now.0 });
        }
        let earliest = EpochMs(now.0.saturating_sub(CLOCK_SKEW_MS));
        match limits.outlived(self.approvals, earliest).into_iter().next() {
            Some(LapsedApproval { subject_id, .. }) => Err(Disagreement::Outlived { subject_id }),
            None => Ok(()),
        }
    }

    /// The facts that the verifier itself can state.
    #[must_use]
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let mut facts = Vec::from(self.rules.facts());
        if let Some(KnownKey { epoch, threshold, roster, shares }) = &self.key {
            facts.push(("key.epoch", epoch.0.clone()));
            facts.push(("key.threshold", threshold.to_string()));
            facts.push(("key.roster", roster.clone()));
            facts.extend(shares.map(|shares| ("key.profile", shares.profile.to_owned())));
            let decided = shares.and_then(|shares| shares.decided);
            facts.extend(decided.map(|(_, latest)| ("key.epoch_since_ms", latest.0.to_string())));
        }
        let root = merkle_root(self.intent.signing_terms());
        facts.extend(root.map(|root| ("signature.taproot_merkle_root", root.into_owned())));
        facts.extend(self.paid.map(Paid::facts).into_iter().flatten());
        facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn agrees(&self, name: &str, value: Option<&str>) -> bool {
        let number = |value: Option<&str>| value.and_then(|value| value.parse::<u64>().ok());
        let key = self.key.as_ref();
        match name {
            "deployment.permitted_recipients" => {
                value.is_some_and(|list| permits_no_more(list, &self.rules.permitted_recipients))
            }
            "deployment.required_approvals" => {
                number(value).is_some_and(|required| required >= u64::from(self.rules.required_approvals))
            }
            "deployment.separation_of_duties" => {
                value == Some("true") || (value == Some("false") && !self.rules.separation_of_duties)
            }
            calendar::NOW => number(value).is_some_and(|at| self.is_now(EpochMs(at))),
            "key.epoch" => value == key.map(|key| key.epoch.0.as_str()),
            "key.threshold" => value == key.map(|key| key.threshold.to_string()).as_deref(),
            "key.roster" => value == key.map(|key| key.roster.as_str()),
            "key.profile" => match key.map(|key| key.shares) {
                None => value.is_none(),
                Some(None) => value.is_some(),
                Some(Some(shares)) => value == Some(shares.profile),
            },
            "key.epoch_since_ms" => match key.map(|key| key.shares) {
                Some(None) => number(value).is_some(),
                Some(Some(Shares { decided: Some((made, used)), .. })) => {
                    number(value).is_some_and(|since| {
                        made <= EpochMs(since).plus_ms(CLOCK_SKEW_MS)
                            && since <= used.plus_ms(CLOCK_SKEW_MS).0
                    })
                }
                None | Some(Some(_)) => value.is_none(),
            },
            "key.state" => match (key, value) {
                (Some(_), Some(state)) => signs(state),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            },
            "signature.taproot_merkle_root" => value == merkle_root(self.intent.signing_terms()).as_deref(),
            name if name.starts_with(PREFIX) => {
                let proven = self.paid.map(Paid::facts).into_iter().flatten();
                value
                    == proven.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value).as_deref()
            }
            name if spending::is_fact(name) => match self.intent {
                Intent::Payment(_) => number(value).is_some(),
                Intent::AssetAction(_)
                | Intent::KeyCreate(_)
                | Intent::Refresh(_)
                | Intent::Reshare(_)
                | Intent::Rotate(_)
                | Intent::Recover(_) => value.is_none(),
            },
            _ => value.is_none(),
        }
    }

    fn is_now(&self, at: EpochMs) -> bool {
        self.now.is_none_or(|now| now <= at.plus_ms(CLOCK_SKEW_MS) && at <= now.plus_ms(CLOCK_SKEW_MS))
    }
}

/// Most characters of a fact in a message.
const SHOWN_CHARACTERS_MAX: usize = 200;

/// Whether the list permits only accounts that `own` permits.
fn permits_no_more(list: &str, own: &str) -> bool {
    let entries = |list| str::split(list, ',').map(str::trim).filter(|entry| !entry.is_empty());
    entries(own).any(|entry| entry == "*") || entries(list).all(|entry| entries(own).any(|it| it == entry))
}

fn signs(state: &str) -> bool {
    KeyState::ALL.into_iter().any(|known| known.as_str() == state && known.can_sign())
}

/// The value of `signature.taproot_merkle_root`, as [`facts_for`](gateway_domain::policy::facts::facts_for) gives it.
fn merkle_root(terms: Option<&SigningTerms>) -> Option<Cow<'static, str>> {
    let Taproot { merkle_root } = terms.and_then(|terms| terms.taproot)?;
    Some(merkle_root.map_or(Cow::Borrowed("none"), |root| Cow::Owned(root.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::intent::PublicationMode;
    use gateway_domain::people::Registered;
    use gateway_domain::policy::{Decision, Statement};
    use gateway_domain::samples::{approval, submitter};
    use gateway_domain::testing::samples::{Kind, hex32, intent, verdict};

    use std::sync::LazyLock;

    const NOW: EpochMs = EpochMs(1_000_000);
    const SHARES: Shares<'_> =
        Shares { profile: "frost-ed25519-sha512", decided: Some((EpochMs(500_000), EpochMs(600_000))) };

    fn sample(kind: Kind) -> Intent {
        intent(kind, PublicationMode::Manual)
    }

    /// Knows a key of three holders, two of whom sign; permits two recipients, requires two approvals, separates duties.
    fn known<'a>(intent: &'a Intent, epoch: &'a EpochName) -> Known<'a> {
        static SUBMITTER: LazyLock<ClientBinding> = LazyLock::new(|| submitter("carol"));
        let permitted_recipients = "acct-2, acct-3".to_owned();
        Known {
            rules: Rules { permitted_recipients, required_approvals: 2, separation_of_duties: true },
            key: Some(KnownKey::new(epoch, 2, [0, 1, 2], Some(SHARES))),
            intent,
            submitter: &SUBMITTER,
            approvals: &[],
            paid: None,
            documents: Vec::new(),
            now: Some(NOW),
        }
    }

    type Case<'a> = (&'a str, &'a [Option<&'a str>], &'a [Option<&'a str>]);

    /// Each fact with the values that agree, and those that do not.
    #[track_caller]
    fn check(known: &Known<'_>, cases: &[Case<'_>]) {
        for (name, agreeing, others) in cases {
            for (values, agrees) in [(agreeing, true), (others, false)] {
                for value in *values {
                    let fact = FactRead { name: (*name).to_owned(), value: value.map(str::to_owned) };
                    assert_eq!(known.check_facts(&[fact]).is_ok(), agrees, "{name} = {value:?}");
                }
            }
        }
    }

    #[test]
    fn facts_that_disagree_with_the_verifier_are_refused() {
        let (intent, epoch) = (sample(Kind::Payment), EpochName("7".to_owned()));
        let known = known(&intent, &epoch);
        let at = |offset: i64| NOW.0.checked_add_signed(offset).unwrap().to_string();
        let skew = i64::try_from(CLOCK_SKEW_MS).unwrap();
        let (first, last) = (at(-skew), at(skew));
        let (early, late) = (at(-skew - 1), at(skew + 1));
        check(
            &known,
            &[
                (
                    "deployment.permitted_recipients",
                    &[Some("acct-2,acct-3"), Some(" acct-3 "), Some("")],
                    &[Some("*"), Some("acct-2,acct-4"), Some("acct-"), None],
                ),
                (
                    "deployment.required_approvals",
                    &[Some("2"), Some("3")],
                    &[Some("1"), Some("-2"), Some("two"), Some(""), None],
                ),
                ("deployment.separation_of_duties", &[Some("true")], &[Some("false"), Some("TRUE"), None]),
                (
                    "time.now_ms",
                    &[Some(&first), Some(&last)],
                    &[Some(&early), Some(&late), Some("now"), None],
                ),
                ("key.epoch", &[Some("7")], &[Some("8"), Some(""), None]),
                ("key.threshold", &[Some("2")], &[Some("1"), Some("02"), None]),
                ("key.roster", &[Some("0,1,2")], &[Some("0,1"), Some("0,1,2,3"), None]),
                ("key.profile", &[Some(SHARES.profile)], &[Some("frost-secp256k1-sha256-tr"), None]),
                (
                    "key.epoch_since_ms",
                    &[Some("200000"), Some("550000"), Some("900000")],
                    &[Some("199999"), Some("900001"), Some("now"), None],
                ),
                (
                    "key.state",
                    &[Some("active"), Some("refreshing"), Some("rotating")],
                    &[Some("creating"), Some("rotated"), Some("failed"), Some("?"), None],
                ),
                ("signature.taproot_merkle_root", &[None], &[Some("none")]),
                ("velocity.account.24h.units", &[Some("0"), Some("5")], &[Some("-1"), Some("x"), None]),
                ("velocity.recipient.1h.units", &[Some("0")], &[None]),
                ("velocity.recipient.30d.count.of.USD", &[Some("0")], &[Some("-1"), None]),
                ("velocity.other", &[None], &[Some("0")]),
                ("claim.department", &[None], &[Some("treasury")]),
                ("x.unknown", &[None], &[Some("0")]),
                ("", &[None], &[Some("")]),
            ],
        );
    }

    #[test]
    fn laxer_rules_of_the_verifier_permit_stricter_facts() {
        let (intent, epoch) = (sample(Kind::Payment), EpochName("7".to_owned()));
        let rules = Rules {
            permitted_recipients: "*".to_owned(),
            required_approvals: 0,
            separation_of_duties: false,
        };
        check(
            &Known { rules, now: None, ..known(&intent, &epoch) },
            &[
                ("deployment.permitted_recipients", &[Some("*"), Some("acct-9")], &[None]),
                ("deployment.required_approvals", &[Some("0"), Some("2")], &[None]),
                ("deployment.separation_of_duties", &[Some("true"), Some("false")], &[None]),
                ("time.now_ms", &[Some("0"), Some("9999999999999")], &[None]),
            ],
        );
    }

    #[test]
    fn facts_of_earlier_payments_are_what_the_proofs_say() {
        let (intent, epoch) = (sample(Kind::Payment), EpochName("7".to_owned()));
        let known = known(&intent, &epoch);
        let (first, count, other) = ("recipient.first_paid_ms", "recipient.paid_count", "recipient.other");
        check(&known, &[(first, &[None], &[Some("5")]), (count, &[None], &[Some("1"), Some("0")])]);
        let paid = Some(Paid { first_ms: EpochMs(5), count: 2 });
        check(
            &Known { paid, ..known },
            &[
                (first, &[Some("5")], &[Some("4"), Some("6"), None]),
                (count, &[Some("2")], &[Some("1"), Some("3"), None]),
                (other, &[None], &[Some("5")]),
            ],
        );
    }

    /// A calendar is believed only as it follows from the time that was read.
    #[test]
    fn calendar_must_follow_from_the_time() {
        let (intent, epoch) = (sample(Kind::Payment), EpochName("7".to_owned()));
        let known = Known { now: Some(EpochMs(1_792_890_000_000)), ..known(&intent, &epoch) };
        let fact =
            |name: &str, value: &str| FactRead { name: name.to_owned(), value: Some(value.to_owned()) };
        let now = || fact("time.now_ms", "1792890000000");
        let weekday = |value| fact("time.weekday.Europe/Zurich", value);
        assert_eq!(known.check_facts(&[now(), weekday("sunday")]), Ok(()));
        for wrong in
            [&[now(), weekday("monday")][..], &[weekday("sunday")], &[now(), fact("time.date.UTC", "")]]
        {
            assert!(matches!(known.check_facts(wrong), Err(Disagreement::Fact(_))), "{wrong:?}");
        }
    }

    /// A key that does not exist has no facts, and only payments are counted.
    #[test]
    fn facts_that_an_operation_does_not_have_must_be_absent() {
        let (creation, epoch) = (sample(Kind::KeyCreate), EpochName("1".to_owned()));
        let without = &[None];
        check(
            &Known { key: None, ..known(&creation, &epoch) },
            &[
                ("key.epoch", without, &[Some("1")]),
                ("key.threshold", without, &[Some("2")]),
                ("key.roster", without, &[Some("0,1,2")]),
                ("key.state", without, &[Some("active"), Some("creating")]),
                ("velocity.account.24h.units", without, &[Some("0")]),
            ],
        );
        let (profile, since) = (&[Some(SHARES.profile)][..], &[Some("1")][..]);
        let of = |shares| Some(KnownKey::new(&epoch, 2, [0, 1, 2], shares));
        check(
            &Known { key: of(Some(Shares { decided: None, ..SHARES })), ..known(&creation, &epoch) },
            &[("key.profile", profile, without), ("key.epoch_since_ms", without, since)],
        );
        check(
            &Known { key: None, ..known(&creation, &epoch) },
            &[("key.profile", without, profile), ("key.epoch_since_ms", without, since)],
        );
        // A node without a share cannot compare them.
        check(
            &Known { key: of(None), ..known(&creation, &epoch) },
            &[("key.profile", profile, without), ("key.epoch_since_ms", since, &[Some("x"), None])],
        );
        let mut action = sample(Kind::AssetAction);
        if let Intent::AssetAction(action) = &mut action {
            action.terms.taproot = Some(Taproot { merkle_root: Some(hex32(5)) });
        }
        let root = hex32(5).to_string();
        check(
            &known(&action, &epoch),
            &[
                ("signature.taproot_merkle_root", &[Some(&root)], &[Some("none"), None]),
                ("velocity.account.24h.count", without, &[Some("0")]),
                ("velocity.account.24h.count.of.USD", without, &[Some("0")]),
            ],
        );
    }

    #[test]
    fn refused_fact_is_named_without_control_characters_and_not_at_length() {
        let (intent, epoch) = (sample(Kind::Payment), EpochName("7".to_owned()));
        let fact = FactRead { name: "x.\u{1b}[2J".to_owned(), value: Some("a".repeat(10_000)) };
        let detail = known(&intent, &epoch).check_facts(&[fact]).unwrap_err().to_string();
        assert!(detail.contains(r"`x.\u{1b}[2J=aaa") && detail.len() < 400, "{detail}");
    }

    /// A compromised gateway may ask for a decision before the time, or over approvals that are too old.
    #[test]
    fn times_in_obligations_are_those_of_the_verifier_s_clock() {
        let (intent, epoch) = (sample(Kind::Payment), EpochName("7".to_owned()));
        let approvals = [approval("alice", 400_000), approval("bob", 1_000_000)];
        let known = Known { approvals: &approvals, ..known(&intent, &epoch) };
        let checked = |known: &Known<'_>, code: &str, operand: &str, value: &str| {
            let mut outcome = verdict(&["alice".to_owned(), "bob".to_owned()], 2);
            outcome.obligations = vec![Statement::with_operand(code, operand, value)];
            known.check_outcome(&outcome)
        };
        let until = NOW.0 + CLOCK_SKEW_MS;
        let at = |until_ms: u64| checked(&known, "admit_not_before", "at_ms", &until_ms.to_string());
        assert_eq!(at(until), Ok(()), "another clock may be ahead");
        let early = Disagreement::TooEarly { until_ms: until + 1, now_ms: NOW.0 };
        assert_eq!(at(until + 1), Err(early));
        // Alice's is 600,000 old, and may seem older to another clock.
        let expiring = |ms: u64| checked(&known, "approvals_expire_ms", "ms", &ms.to_string());
        assert_eq!(expiring(600_000 - CLOCK_SKEW_MS), Ok(()));
        let outlived = Disagreement::Outlived { subject_id: "alice".to_owned() };
        assert_eq!(expiring(600_000 - CLOCK_SKEW_MS - 1), Err(outlived));
        let later = Known { now: None, ..known.clone() };
        assert_eq!(checked(&later, "approvals_expire_ms", "ms", "1"), Ok(()), "at the execution");
        for malformed in ["0", "soon"] {
            let denied = checked(&later, "approvals_expire_ms", "ms", malformed);
            assert!(matches!(denied, Err(Disagreement::Denied(_))), "{denied:?}");
        }
    }

    #[test]
    fn outcome_must_allow_and_count_enough_people_without_the_submitter() {
        let (intent, epoch) = (sample(Kind::Payment), EpochName("7".to_owned()));
        let approvals = ["alice", "bob", "carol", "Carol", "phone"].map(|subject| {
            let person = (subject == "phone").then(|| "CAROL".to_owned());
            let registered = Registered { person, ..Registered::default() }.checked().unwrap();
            Approval { registered, ..approval(subject, 1) }
        });
        let known = Known { approvals: &approvals, ..known(&intent, &epoch) };
        let checked = |subjects: &[&str], required: u32, decision| {
            let subjects: Vec<_> = subjects.iter().map(ToString::to_string).collect();
            known.check_outcome(&Outcome { decision, ..verdict(&subjects, required) })
        };
        let two = ["alice", "bob"];
        assert_eq!(checked(&two, 2, Decision::Allow), Ok(()));
        assert!(matches!(checked(&two, 2, Decision::Deny), Err(Disagreement::Denied(_))));
        assert!(matches!(checked(&two, 3, Decision::Allow), Err(Disagreement::Denied(_))), "no quorum");
        let one = checked(&["alice"], 1, Decision::Allow);
        assert_eq!(one, Err(Disagreement::TooFew { n_counted: 1, required: 2 }));
        let twice = checked(&["alice", "ALICE"], 2, Decision::Allow);
        assert_eq!(twice, Err(Disagreement::TooFew { n_counted: 1, required: 2 }), "one person");
        let twin = checked(&["alice", "Carol"], 2, Decision::Allow);
        assert_eq!(twin, Err(Disagreement::CountsSubmitter));
        let other_subject = checked(&["alice", "phone"], 2, Decision::Allow);
        assert_eq!(other_subject, Err(Disagreement::CountsSubmitter), "the submitter as another subject");
        let own = ["alice", "carol"];
        assert_eq!(checked(&own, 2, Decision::Allow), Err(Disagreement::CountsSubmitter));
        let joint =
            Known { rules: Rules { separation_of_duties: false, ..known.rules.clone() }, ..known.clone() };
        let counted = own.map(str::to_owned);
        assert_eq!(joint.check_outcome(&verdict(&counted, 2)), Ok(()));
    }
}
