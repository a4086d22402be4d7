//! The check of the facts that a policy read: each fact that the node can know must agree with what the node knows. Pure.
//!
//! | fact | must be |
//! |---|---|
//! | `deployment.permitted_recipients` | accounts that the node's own list permits too |
//! | `deployment.required_approvals` | at least the node's own number |
//! | `deployment.separation_of_duties` | `true` if the node demands it |
//! | `time.now_ms` | within [`CLOCK_SKEW_MS`] of the node's clock; at the admission only |
//! | `key.epoch`, `key.threshold`, `key.roster` | those of the node's share, or of the decision if the node holds none |
//! | `key.state` | a state in which a key signs |
//! | `signature.taproot_merkle_root` | that of the intent |
//! | `velocity.*` | numbers, and only for a payment; `spending` compares them |
//! | any other | absent |
//!
//! A fact of the key or of a signature is absent exactly if the operation has no key or no such output yet.

use crate::error::Rejection;
use crate::verify::policy_refused;
use gateway_domain::admission::AdmissionDecision;
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::ids::EpochName;
use gateway_domain::intent::{Intent, SigningTerms, Taproot};
use gateway_domain::key::KeyState;
use gateway_domain::policy::facts::Rules;
use gateway_domain::policy::{FactRead, SpendingTotals};
use gateway_domain::time::EpochMs;
use gateway_threshold::PublicKeys;
use std::borrow::Cow;

/// The names of the velocity facts.
fn is_velocity(name: &str) -> bool {
    SpendingTotals::default().facts().iter().any(|(known, _)| *known == name)
}

/// What the node knows about an operation.
#[derive(Clone, Debug)]
pub(crate) struct Known<'a> {
    /// The node's own rules; `required_approvals` is the number for this operation.
    pub(crate) rules: Rules,
    /// `None` for a key that does not exist yet.
    pub(crate) key: Option<KnownKey<'a>>,
    pub(crate) intent: &'a Intent,
    /// The node's clock; `None` at the execution, which may be long after the evaluation.
    pub(crate) now: Option<EpochMs>,
}

/// The key of an operation, as the node holds it.
#[derive(Clone, Debug)]
pub(crate) struct KnownKey<'a> {
    pub(crate) epoch: &'a EpochName,
    pub(crate) threshold: u16,
    /// The holders' indices, ascending, separated by commas.
    pub(crate) roster: String,
}

impl<'a> KnownKey<'a> {
    /// The key of a decision whose generation was checked. `held` are the public keys of the node's share, if it holds one.
    pub(crate) fn of(decision: &'a AdmissionDecision, held: Option<&PublicKeys>) -> Option<Self> {
        let join = |indices: &mut dyn Iterator<Item = String>| indices.collect::<Vec<_>>().join(",");
        let (threshold, roster) = match (held, &decision.holders) {
            (Some(keys), _) => {
                (keys.threshold(), join(&mut keys.verifying_shares().keys().map(ToString::to_string)))
            }
            (None, Some(holders)) => {
                (decision.threshold.0, join(&mut holders.iter().map(|holder| holder.to_string())))
            }
            (None, None) => return None,
        };
        Some(Self { epoch: &decision.epoch, threshold, roster })
    }
}

impl Known<'_> {
    /// Checks the facts that a policy read.
    ///
    /// # Errors
    /// [`Code::PolicyRefused`](crate::Code::PolicyRefused) for the first fact that does not agree.
    pub(crate) fn check(&self, facts: &[FactRead]) -> Result<(), Rejection> {
        match facts.iter().find(|fact| !self.agrees(&fact.name, fact.value.as_deref())) {
            None => Ok(()),
            Some(fact) => {
                let text = fact.to_string();
                let shown: String = text.escape_debug().take(SHOWN_CHARACTERS_MAX).collect();
                Err(policy_refused(format!("the policy read `{shown}`, which does not agree with this node")))
            }
        }
    }

    /// The facts that the node itself can state.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let Rules { permitted_recipients, required_approvals, separation_of_duties } = &self.rules;
        let mut facts = vec![
            ("deployment.permitted_recipients", permitted_recipients.clone()),
            ("deployment.required_approvals", required_approvals.to_string()),
            ("deployment.separation_of_duties", separation_of_duties.to_string()),
        ];
        if let Some(KnownKey { epoch, threshold, roster }) = &self.key {
            facts.push(("key.epoch", epoch.0.clone()));
            facts.push(("key.threshold", threshold.to_string()));
            facts.push(("key.roster", roster.clone()));
        }
        let root = merkle_root(self.intent.signing_terms());
        facts.extend(root.map(|root| ("signature.taproot_merkle_root", root.into_owned())));
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
            "time.now_ms" => number(value).is_some_and(|at| self.is_now(EpochMs(at))),
            "key.epoch" => value == key.map(|key| key.epoch.0.as_str()),
            "key.threshold" => value == key.map(|key| key.threshold.to_string()).as_deref(),
            "key.roster" => value == key.map(|key| key.roster.as_str()),
            "key.state" => match (key, value) {
                (Some(_), Some(state)) => signs(state),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            },
            "signature.taproot_merkle_root" => value == merkle_root(self.intent.signing_terms()).as_deref(),
            name if is_velocity(name) => match self.intent {
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
    use crate::error::Code;
    use crate::testing::{asset_action, hex32, key_create, payment};

    const NOW: EpochMs = EpochMs(1_000_000);

    /// Knows a key of three holders, two of whom sign; permits two recipients, requires two approvals, separates duties.
    fn known<'a>(intent: &'a Intent, epoch: &'a EpochName) -> Known<'a> {
        let permitted_recipients = "acct-2, acct-3".to_owned();
        Known {
            rules: Rules { permitted_recipients, required_approvals: 2, separation_of_duties: true },
            key: Some(KnownKey { epoch, threshold: 2, roster: "0,1,2".to_owned() }),
            intent,
            now: Some(NOW),
        }
    }

    type Case<'a> = (&'a str, &'a [Option<&'a str>], &'a [Option<&'a str>]);

    /// Each fact with the values that agree, and those that do not.
    #[track_caller]
    fn check(known: &Known<'_>, cases: &[Case<'_>]) {
        for (name, agreeing, others) in cases {
            for (values, expected) in [(agreeing, None), (others, Some(Code::PolicyRefused))] {
                for value in *values {
                    let fact = FactRead { name: (*name).to_owned(), value: value.map(str::to_owned) };
                    let checked = known.check(&[fact]).err().map(|rejection| rejection.code);
                    assert_eq!(checked, expected, "{name} = {value:?}");
                }
            }
        }
    }

    #[test]
    fn facts_that_disagree_with_the_node_are_refused() {
        let (intent, epoch) = (payment(&[0, 1, 2], None), EpochName("7".to_owned()));
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
                (
                    "key.state",
                    &[Some("active"), Some("refreshing"), Some("rotating")],
                    &[Some("creating"), Some("rotated"), Some("failed"), Some("?"), None],
                ),
                ("signature.taproot_merkle_root", &[None], &[Some("none")]),
                ("velocity.account.day_minor", &[Some("0"), Some("5")], &[Some("-1"), Some("x"), None]),
                ("velocity.recipient.hour_minor", &[Some("0")], &[None]),
                ("velocity.other", &[None], &[Some("0")]),
                ("x.unknown", &[None], &[Some("0")]),
                ("", &[None], &[Some("")]),
            ],
        );
    }

    #[test]
    fn laxer_rules_of_the_node_permit_stricter_facts() {
        let (intent, epoch) = (payment(&[0, 1, 2], None), EpochName("7".to_owned()));
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

    /// A key that does not exist has no facts, and only payments are counted.
    #[test]
    fn facts_that_an_operation_does_not_have_must_be_absent() {
        let (creation, epoch) =
            (key_create(&[0, 1, 2], 2, "frost-ed25519-sha512"), EpochName("1".to_owned()));
        let without = &[None];
        check(
            &Known { key: None, ..known(&creation, &epoch) },
            &[
                ("key.epoch", without, &[Some("1")]),
                ("key.threshold", without, &[Some("2")]),
                ("key.roster", without, &[Some("0,1,2")]),
                ("key.state", without, &[Some("active"), Some("creating")]),
                ("velocity.account.day_minor", without, &[Some("0")]),
            ],
        );
        let mut action = asset_action(&[0, 1, 2], 7);
        if let Intent::AssetAction(action) = &mut action {
            action.terms.taproot = Some(Taproot { merkle_root: Some(hex32(5)) });
        }
        let root = hex32(5).to_string();
        check(
            &known(&action, &epoch),
            &[
                ("signature.taproot_merkle_root", &[Some(&root)], &[Some("none"), None]),
                ("velocity.account.day_count", without, &[Some("0")]),
            ],
        );
    }

    #[test]
    fn refused_fact_is_named_without_control_characters_and_not_at_length() {
        let (intent, epoch) = (payment(&[0, 1, 2], None), EpochName("7".to_owned()));
        let fact = FactRead { name: "x.\u{1b}[2J".to_owned(), value: Some("a".repeat(10_000)) };
        let detail = known(&intent, &epoch).check(&[fact]).unwrap_err().detail;
        assert!(detail.contains(r"`x.\u{1b}[2J=aaa") && detail.len() < 400, "{detail}");
    }
}
