//! Rosters of participants, and thresholds over them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// The most participants in one roster.
pub const PARTICIPANTS_MAX: usize = 64;

/// The highest participant index.
pub const PARTICIPANT_INDEX_MAX: u16 = 1023;

/// The lowest threshold: FROST needs two signers (RFC 9591; the frost crates reject 1 as well).
pub const THRESHOLD_MIN: u16 = 2;

/// A participant's 0-based index. Its FROST identifier is the index plus one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct ParticipantIndex(#[serde(deserialize_with = "crate::canonical::integer")] pub u16);

impl fmt::Display for ParticipantIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Participants, each once, ascending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Roster(BTreeSet<ParticipantIndex>);

/// The reason why a list of participants, or a threshold over it, is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRoster {
    /// Fewer than two or more than [`PARTICIPANTS_MAX`].
    #[error("must name {THRESHOLD_MIN} to {PARTICIPANTS_MAX} participants, not {0}")]
    Count(usize),
    /// One participant is named twice.
    #[error("names participant `{0}` twice")]
    Duplicate(u16),
    /// An index above [`PARTICIPANT_INDEX_MAX`].
    #[error("participant `{0}` is above {PARTICIPANT_INDEX_MAX}")]
    Index(u16),
    /// The threshold is below two or above the number of participants.
    #[error("must be {THRESHOLD_MIN} to {participants}, the number of participants, not `{threshold}`")]
    Threshold {
        /// The requested threshold.
        threshold: u16,
        /// The number of participants.
        participants: usize,
    },
}

impl Roster {
    /// Parses a list of indices in any order.
    ///
    /// # Errors
    /// [`InvalidRoster`] for a duplicate, an index or a count out of range.
    pub fn parse(indices: &[u16]) -> Result<Self, InvalidRoster> {
        if !(usize::from(THRESHOLD_MIN)..=PARTICIPANTS_MAX).contains(&indices.len()) {
            return Err(InvalidRoster::Count(indices.len()));
        }
        let mut roster = BTreeSet::new();
        for index in indices {
            if *index > PARTICIPANT_INDEX_MAX {
                return Err(InvalidRoster::Index(*index));
            }
            if !roster.insert(ParticipantIndex(*index)) {
                return Err(InvalidRoster::Duplicate(*index));
            }
        }
        Ok(Self(roster))
    }

    /// The participants, ascending.
    pub fn iter(&self) -> impl Iterator<Item = ParticipantIndex> + '_ {
        self.0.iter().copied()
    }

    /// The number of participants, at least two.
    #[must_use]
    pub fn n_participants(&self) -> usize {
        self.0.len()
    }

    /// Whether every participant of `other` is here too.
    #[must_use]
    pub fn contains_all(&self, other: &Self) -> bool {
        other.0.is_subset(&self.0)
    }

    /// The participants of both rosters.
    ///
    /// # Errors
    /// [`InvalidRoster::Count`] when that is more than one roster may have.
    pub fn union(&self, other: &Self) -> Result<Self, InvalidRoster> {
        let both: BTreeSet<_> = self.0.union(&other.0).copied().collect();
        if both.len() > PARTICIPANTS_MAX {
            return Err(InvalidRoster::Count(both.len()));
        }
        Ok(Self(both))
    }

    /// The participants as a set.
    #[must_use]
    pub const fn as_set(&self) -> &BTreeSet<ParticipantIndex> {
        &self.0
    }

    /// Checks a threshold over these participants.
    ///
    /// # Errors
    /// [`InvalidRoster::Threshold`] when it is below two or above their number.
    pub fn threshold(&self, threshold: u16) -> Result<Threshold, InvalidRoster> {
        if threshold < THRESHOLD_MIN || usize::from(threshold) > self.n_participants() {
            return Err(InvalidRoster::Threshold { threshold, participants: self.n_participants() });
        }
        Ok(Threshold(threshold))
    }

    /// The smallest majority, and at least two.
    #[must_use]
    pub fn majority(&self) -> Threshold {
        let half = u16::try_from(self.n_participants() / 2).unwrap_or(u16::MAX);
        Threshold(half.saturating_add(1).max(THRESHOLD_MIN))
    }
}

/// The number of participants that must act together; two or more, checked against a roster by [`Roster::threshold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Threshold(#[serde(deserialize_with = "crate::canonical::integer")] pub u16);

impl Threshold {
    /// The threshold as a count.
    #[must_use]
    pub fn count(self) -> usize {
        usize::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_rosters_are_rejected() {
        assert_eq!(Roster::parse(&[0]), Err(InvalidRoster::Count(1)));
        assert_eq!(Roster::parse(&[0, 1, 0]), Err(InvalidRoster::Duplicate(0)));
        assert_eq!(Roster::parse(&[0, 1024]), Err(InvalidRoster::Index(1024)));
        assert!(Roster::parse(&[0, 1023]).is_ok());
        let (low, high) =
            (Roster::parse(&[0, 1]).unwrap(), Roster::parse(&(1..65).collect::<Vec<_>>()).unwrap());
        assert_eq!(low.union(&high), Err(InvalidRoster::Count(65)));
        assert_eq!(low.union(&low), Ok(low.clone()));
        let many: Vec<u16> = (0..65).collect();
        assert_eq!(Roster::parse(&many), Err(InvalidRoster::Count(65)));
    }

    #[test]
    fn thresholds_fit_the_roster() {
        let roster = Roster::parse(&[4, 2, 0]).unwrap();
        assert!(roster.threshold(1).is_err() && roster.threshold(4).is_err());
        assert_eq!(roster.threshold(3), Ok(Threshold(3)));
        assert_eq!(roster.majority(), Threshold(2));
        assert_eq!(Roster::parse(&[0, 1]).unwrap().majority(), Threshold(2));
        assert_eq!(Roster::parse(&[0, 1, 2, 3]).unwrap().majority(), Threshold(3));
    }
}
