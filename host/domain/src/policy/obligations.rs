//! The obligations that the host fulfils itself: their codes, operands and limits. A bundle declares them as any other code.
//!
//! | code | operand | effect |
//! |---|---|---|
//! | [`REJECTIONS_REQUIRED`] | `rejections`: a number | so many rejections end the operation |
//! | [`ADMIT_NOT_BEFORE`] | `at_ms`: epoch milliseconds | the admission is decided then, and not before |
//! | [`APPROVALS_EXPIRE_MS`] | `ms`: milliseconds, 1 or more | approvals older than this no longer count |
//!
//! Of several with one code, the strictest counts.

use super::{Outcome, Statement};
use crate::approval::{Approval, ApprovalError, LapsedApproval};
use crate::time::{DAY_MS, EpochMs};

/// The code with which a policy says how many rejections end an operation.
pub const REJECTIONS_REQUIRED: &str = "rejections_required";

/// The code with which a policy says when an operation may be admitted at the earliest.
pub const ADMIT_NOT_BEFORE: &str = "admit_not_before";

/// The code with which a policy says for how long an approval counts.
pub const APPROVALS_EXPIRE_MS: &str = "approvals_expire_ms";

/// The longest wait for an admission, and the longest time for which an approval may count, milliseconds: 366 days. More is a mistake,
/// such as seconds for milliseconds.
pub const WAIT_MAX_MS: u64 = 366 * DAY_MS;

/// What is wrong with an operand, for the author of the policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidObligation {
    /// The operand is missing.
    #[error("the obligation `{code}` has no operand `{operand}`")]
    Missing {
        /// The obligation's code.
        code: &'static str,
        /// The operand's name.
        operand: &'static str,
    },
    /// The operand is not a decimal number.
    #[error("the operand `{operand}` of the obligation `{code}` is not a decimal number of milliseconds")]
    NotDecimal {
        /// The obligation's code.
        code: &'static str,
        /// The operand's name.
        operand: &'static str,
    },
    /// The operand is outside its limits.
    #[error("the operand `{operand}` of the obligation `{code}` is {value}, and must be {limit}")]
    OutOfRange {
        /// The obligation's code.
        code: &'static str,
        /// The operand's name.
        operand: &'static str,
        /// The value.
        value: u64,
        /// The values that are allowed.
        limit: &'static str,
    },
}

/// The times in an outcome's obligations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeLimits {
    /// When the operation may be admitted at the earliest.
    pub admit_not_before: Option<EpochMs>,
    /// For how long an approval counts, milliseconds; from 1 to [`WAIT_MAX_MS`].
    pub approvals_expire_ms: Option<u64>,
}

impl TimeLimits {
    /// The times in these obligations.
    ///
    /// # Errors
    /// [`InvalidObligation`], the first. How far a time is away is checked by [`Self::check_wait`].
    pub fn parse(obligations: &[Statement]) -> Result<Self, InvalidObligation> {
        let mut limits = Self::default();
        for obligation in obligations {
            match obligation.code.as_str() {
                ADMIT_NOT_BEFORE => {
                    let at = EpochMs(decimal(obligation, ADMIT_NOT_BEFORE, AT_MS)?);
                    limits.admit_not_before = limits.admit_not_before.max(Some(at));
                }
                APPROVALS_EXPIRE_MS => {
                    let value = decimal(obligation, APPROVALS_EXPIRE_MS, MS)?;
                    if value == 0 || value > WAIT_MAX_MS {
                        let limit = "from 1 to 31622400000 (366 days)";
                        let (code, operand) = (APPROVALS_EXPIRE_MS, MS);
                        return Err(InvalidObligation::OutOfRange { code, operand, value, limit });
                    }
                    limits.approvals_expire_ms =
                        Some(limits.approvals_expire_ms.map_or(value, |ms| ms.min(value)));
                }
                _ => {}
            }
        }
        Ok(limits)
    }

    /// Checks that the admission waits for at most [`WAIT_MAX_MS`] from `now`, the time that the policy was given.
    ///
    /// # Errors
    /// [`InvalidObligation::OutOfRange`].
    pub fn check_wait(&self, now: EpochMs) -> Result<(), InvalidObligation> {
        match self.admit_not_before {
            Some(EpochMs(value)) if value > now.plus_ms(WAIT_MAX_MS).0 => {
                Err(InvalidObligation::OutOfRange {
                    code: ADMIT_NOT_BEFORE,
                    operand: AT_MS,
                    value,
                    limit: "at most 31622400000 (366 days) after `time.now_ms`",
                })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// For how long the admission waits after the last of these approvals, milliseconds: so much older may they all become.
    #[must_use]
    pub fn wait_ms(&self, approvals: &[Approval]) -> u64 {
        let last = approvals.iter().map(|approval| approval.approved_at_ms).max();
        let (until, last) = (self.admit_not_before.unwrap_or(EpochMs(0)), last.unwrap_or(EpochMs(u64::MAX)));
        until.0.saturating_sub(last.0)
    }

    /// The approvals that are older than they may be at `now`.
    #[must_use]
    pub fn outlived(&self, approvals: &[Approval], now: EpochMs) -> Vec<LapsedApproval> {
        let Some(expire_ms) = self.approvals_expire_ms else { return Vec::new() };
        let is_outlived = |approval: &&Approval| now > approval.given_at().plus_ms(expire_ms);
        let lapsed = |approval: &Approval| LapsedApproval {
            subject_id: approval.subject_id.clone(),
            reason: ApprovalError::TooOld.as_str().to_owned(),
        };
        approvals.iter().filter(is_outlived).map(lapsed).collect()
    }
}

impl Outcome {
    /// The times in its obligations. None in an outcome that the host could not have accepted.
    #[must_use]
    pub fn time_limits(&self) -> TimeLimits {
        TimeLimits::parse(&self.obligations).unwrap_or_default()
    }

    /// The time until which it postpones an admission at `at`.
    #[must_use]
    pub fn postpones_until(&self, at: EpochMs) -> Option<EpochMs> {
        self.time_limits().admit_not_before.filter(|until| *until > at)
    }

    /// How many rejections end the operation. An obligation that is no positive number counts as 1, so that a rejection is never
    /// without effect by mistake.
    #[must_use]
    pub fn rejections_required(&self) -> usize {
        let obligations = self.obligations.iter().filter(|obligation| obligation.code == REJECTIONS_REQUIRED);
        let number = |obligation: &Statement| obligation.operand("rejections")?.parse().ok();
        obligations.map(|obligation| number(obligation).unwrap_or(1)).max().unwrap_or(1)
    }
}

const AT_MS: &str = "at_ms";
const MS: &str = "ms";

fn decimal(
    obligation: &Statement,
    code: &'static str,
    operand: &'static str,
) -> Result<u64, InvalidObligation> {
    let value = obligation.operand(operand).ok_or(InvalidObligation::Missing { code, operand })?;
    let is_decimal = value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| is_decimal).ok_or(InvalidObligation::NotDecimal { code, operand })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::samples::approval;

    fn parse(obligations: &[(&str, &str, &str)]) -> Result<TimeLimits, String> {
        let statement = |(code, operand, value): &(&str, &str, &str)| {
            Statement::with_operand(*code, operand, value.to_owned())
        };
        let statements: Vec<_> = obligations.iter().map(statement).collect();
        TimeLimits::parse(&statements).map_err(|error| error.to_string())
    }

    #[test]
    fn strictest_obligation_counts() {
        let limits = parse(&[
            ("admit_not_before", "at_ms", "5"),
            ("approvals_expire_ms", "ms", "1"),
            ("admit_not_before", "at_ms", "7"),
            ("approvals_expire_ms", "ms", "31622400000"),
            ("collect_approvals", "ms", "x"),
            ("admit_not_before", "at_ms", "6"),
        ]);
        let (admit_not_before, approvals_expire_ms) = (Some(EpochMs(7)), Some(1));
        assert_eq!(limits, Ok(TimeLimits { admit_not_before, approvals_expire_ms }));
        assert_eq!(parse(&[]), Ok(TimeLimits::default()));
    }

    #[test]
    fn operand_that_is_missing_or_no_number_is_named() {
        for (code, operand) in [("admit_not_before", "at_ms"), ("approvals_expire_ms", "ms")] {
            let missing = parse(&[(code, "at", "1")]).unwrap_err();
            assert_eq!(missing, format!("the obligation `{code}` has no operand `{operand}`"));
            for value in ["", "-1", "+1", "1.5", "1e3", " 1", "0x1", "tomorrow", "18446744073709551616"] {
                let error = parse(&[(code, operand, value)]).unwrap_err();
                assert!(
                    error.contains(&format!("`{operand}` of the obligation `{code}`")),
                    "{value}: {error}"
                );
            }
        }
    }

    #[test]
    fn approvals_count_for_at_least_a_millisecond_and_at_most_366_days() {
        for value in ["0", "00", "31622400001"] {
            let error = parse(&[("approvals_expire_ms", "ms", value)]).unwrap_err();
            assert!(error.contains("must be from 1 to 31622400000 (366 days)"), "{error}");
        }
        assert_eq!(WAIT_MAX_MS, 31_622_400_000, "as the messages say");
    }

    #[test]
    fn admission_waits_for_at_most_366_days() {
        let now = EpochMs(1_000);
        let wait = |at_ms: u64| TimeLimits { admit_not_before: Some(EpochMs(at_ms)), ..Default::default() };
        assert_eq!(wait(0).check_wait(now), Ok(()));
        assert_eq!(wait(1_000 + WAIT_MAX_MS).check_wait(now), Ok(()));
        // The year 9999.
        for at_ms in [1_001 + WAIT_MAX_MS, 253_402_300_799_999, u64::MAX] {
            let error = wait(at_ms).check_wait(now).unwrap_err().to_string();
            assert!(error.contains("`at_ms` of the obligation `admit_not_before`"), "{error}");
            assert!(error.contains("366 days"), "{error}");
        }
        assert_eq!(wait(u64::MAX).check_wait(EpochMs(u64::MAX)), Ok(()), "does not overflow");
    }

    #[test]
    fn approvals_may_become_older_by_the_wait_after_the_last_of_them() {
        let approvals = [approval("alice", EpochMs(100)), approval("bob", EpochMs(300))];
        let until = |at_ms| TimeLimits { admit_not_before: Some(EpochMs(at_ms)), ..Default::default() };
        assert_eq!((until(1_000).wait_ms(&approvals), until(300).wait_ms(&approvals)), (700, 0));
        assert_eq!((until(0).wait_ms(&approvals), until(1_000).wait_ms(&[])), (0, 0));
        assert_eq!(TimeLimits::default().wait_ms(&approvals), 0);
    }

    /// The age is that of the older time; without a signature, anyone may have written the approver's.
    #[test]
    fn age_is_measured_from_the_signed_time_if_that_is_older() {
        let limits = TimeLimits { approvals_expire_ms: Some(10), ..Default::default() };
        let mut approval = Approval { claimed_at_ms: 50, ..approval("alice", EpochMs(100)) };
        let n_outlived =
            |approval: &Approval, now| limits.outlived(std::slice::from_ref(approval), EpochMs(now)).len();
        assert_eq!((n_outlived(&approval, 110), n_outlived(&approval, 111)), (0, 1));
        let key = crate::testing::approvers::key(1);
        approval.signature = Some(Box::new(crate::testing::approvers::signature(&key, b"")));
        assert_eq!((n_outlived(&approval, 60), n_outlived(&approval, 61)), (0, 1));
        approval.claimed_at_ms = 150;
        assert_eq!((n_outlived(&approval, 110), n_outlived(&approval, 111)), (0, 1));
        approval.claimed_at_ms = -1;
        assert_eq!((n_outlived(&approval, 10), n_outlived(&approval, 11)), (0, 1));
        let lapsed = limits.outlived(std::slice::from_ref(&approval), EpochMs(11));
        assert_eq!((lapsed[0].subject_id.as_str(), lapsed[0].reason.as_str()), ("alice", "too_old"));
        assert_eq!(TimeLimits::default().outlived(&[approval], EpochMs(u64::MAX)), []);
    }
}
