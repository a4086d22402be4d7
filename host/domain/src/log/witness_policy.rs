//! Which witnesses are known, and which of them must have cosigned a checkpoint: a file in the format of C2SP `tlog-policy`.
//!
//! A part of that format is read, so that every file that is read here is valid there too:
//!
//! ```text
//! # Comments and empty lines are ignored.
//! witness NAME VKEY [URL]
//! group NAME all|any|K MEMBER...
//! quorum NAME|none
//! ```
//!
//! There is at most one `group`, whose members are witnesses, and exactly one `quorum`. Lines `log` are errors: the log's key is known
//! from elsewhere. Besides what the format requires, the file is UTF-8, and no two witnesses have the same key name.

use super::checkpoint::SignedCheckpoint;
use super::note::{NoteError, VerifierKeyError};
use super::witness::{Cosignature, WitnessKey};
use std::fmt;
use std::str::FromStr;

/// The most witnesses of a policy; a signed note has room for their lines.
pub const WITNESSES_MAX: usize = 32;

/// The largest policy, in bytes.
pub const POLICY_BYTES_MAX: usize = 64 * 1024;

/// The witnesses that a reader trusts, and how many of them must have cosigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessPolicy {
    // INVARIANT: names, key names and keys are unique, so that no witness counts twice; kept by `from_str`.
    witnesses: Vec<Witness>,
    // INVARIANT: at most the number of witnesses that count; kept by `from_str`.
    threshold: usize,
}

/// A witness of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Its name within the policy.
    pub name: String,
    /// Its public key.
    pub key: WitnessKey,
    /// The prefix of its URLs, as the file has it.
    pub url: Option<String>,
    /// Whether its cosignature counts for the quorum.
    pub counts: bool,
}

/// The reason why a text is not a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WitnessPolicyError {
    /// It is longer than [`POLICY_BYTES_MAX`].
    #[error("the policy is longer than {POLICY_BYTES_MAX} bytes")]
    TooLong,
    /// A line is wrong.
    #[error("line {line}: {fault}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        fault: LineFault,
    },
    /// No line says which witnesses must have cosigned.
    #[error("there is no line `quorum`")]
    NoQuorum,
}

/// What is wrong with a line of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// It has a control character other than a tab.
    #[error("has a control character")]
    ControlCharacter,
    /// It begins with another word than the known ones.
    #[error("begins with `{0}`, and not with `witness`, `group` or `quorum`")]
    Keyword(String),
    /// It has too few or too many words.
    #[error("is not of the form `{0}`")]
    Form(&'static str),
    /// The key is not one of a witness.
    #[error("`{text}` is not the key of a witness: {source}")]
    Key {
        /// The text.
        text: String,
        /// Why.
        source: VerifierKeyError,
    },
    /// The name is used before, or reserved.
    #[error("the name `{0}` is taken")]
    Name(String),
    /// The key, or its name, is that of an earlier witness.
    #[error("has the key, or the name of the key, of the witness `{0}`")]
    SameKey(String),
    /// There are more witnesses than [`WITNESSES_MAX`].
    #[error("there are more than {WITNESSES_MAX} witnesses")]
    TooManyWitnesses,
    /// A second group or quorum.
    #[error("there is more than one line `{0}`")]
    Second(&'static str),
    /// No earlier line defines the name.
    #[error("no earlier line defines `{0}`")]
    Unknown(String),
    /// A member is listed twice.
    #[error("the member `{0}` is listed twice")]
    Twice(String),
    /// The threshold of a group is not a number between 1 and the number of members.
    #[error("the threshold `{text}` is not `all`, `any` or a number from 1 to {members}")]
    Threshold {
        /// The text.
        text: String,
        /// The number of members.
        members: usize,
    },
}

/// The reason why a checkpoint does not satisfy a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuorumError {
    /// A line by one of the witnesses is not a cosignature of the checkpoint.
    #[error(transparent)]
    Signature(#[from] NoteError),
    /// Too few have cosigned.
    #[error("the quorum needs {needed} cosignatures, and there are {found}: missing is any of {missing}")]
    Missing {
        /// How many are needed.
        needed: usize,
        /// How many there are.
        found: usize,
        /// The witnesses that count and have not cosigned.
        missing: Names,
    },
}

/// Names of witnesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|name| format!("`{name}`")).collect();
        f.write_str(&names.join(", "))
    }
}

impl WitnessPolicy {
    /// All witnesses, in the order of the file.
    #[must_use]
    pub fn witnesses(&self) -> &[Witness] {
        &self.witnesses
    }

    /// How many must have cosigned; 0 for the quorum `none`.
    #[must_use]
    pub const fn threshold(&self) -> usize {
        self.threshold
    }

    /// The cosignatures that count, if there are enough of them.
    pub fn quorum(&self, checkpoint: &SignedCheckpoint) -> Result<Vec<Cosignature>, QuorumError> {
        // A wrong line by a witness that does not count is an error too: such a checkpoint was altered.
        let mut found = checkpoint.cosignatures(self.witnesses.iter().map(|witness| &witness.key))?;
        let counting = || self.witnesses.iter().filter(|witness| witness.counts);
        let is_by = |witness: &Witness, cosignature: &Cosignature| *witness.key.name() == cosignature.witness;
        found.retain(|cosignature| counting().any(|witness| is_by(witness, cosignature)));
        if found.len() >= self.threshold {
            return Ok(found);
        }
        let is_missing = |witness: &&Witness| !found.iter().any(|cosignature| is_by(witness, cosignature));
        let missing = counting().filter(is_missing).map(|witness| witness.name.clone()).collect();
        Err(QuorumError::Missing { needed: self.threshold, found: found.len(), missing: Names(missing) })
    }
}

const WITNESS: &str = "witness NAME VKEY [URL]";
const GROUP: &str = "group NAME all|any|K MEMBER...";
const QUORUM: &str = "quorum NAME|none";

/// The name that stands for no witness at all.
const NONE: &str = "none";

#[derive(Default)]
struct Parser {
    witnesses: Vec<Witness>,
    group: Option<Group>,
    /// The members that count, and how many of them are needed.
    quorum: Option<(Vec<String>, usize)>,
}

struct Group {
    name: String,
    threshold: usize,
    members: Vec<String>,
}

impl FromStr for WitnessPolicy {
    type Err = WitnessPolicyError;

    fn from_str(text: &str) -> Result<Self, WitnessPolicyError> {
        if text.len() > POLICY_BYTES_MAX {
            return Err(WitnessPolicyError::TooLong);
        }
        let mut parser = Parser::default();
        for (line, text) in (1..).zip(text.split('\n')) {
            parser.line(text).map_err(|fault| WitnessPolicyError::Line { line, fault })?;
        }
        let (members, threshold) = parser.quorum.ok_or(WitnessPolicyError::NoQuorum)?;
        let mut witnesses = parser.witnesses;
        for witness in &mut witnesses {
            witness.counts = members.contains(&witness.name);
        }
        Ok(Self { witnesses, threshold })
    }
}

impl Parser {
    fn line(&mut self, line: &str) -> Result<(), LineFault> {
        if line.chars().any(|c| c.is_ascii_control() && c != '\t') {
            return Err(LineFault::ControlCharacter);
        }
        let words: Vec<&str> = line.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
        match *words.as_slice() {
            [] => Ok(()),
            [first, ..] if first.starts_with('#') => Ok(()),
            ["witness", name, key] => self.witness(name, key, None),
            ["witness", name, key, url] => self.witness(name, key, Some(url)),
            ["witness", ..] => Err(LineFault::Form(WITNESS)),
            ["group", name, threshold, ref members @ ..] if !members.is_empty() => {
                self.group(name, threshold, members)
            }
            ["group", ..] => Err(LineFault::Form(GROUP)),
            ["quorum", name] => self.quorum(name),
            ["quorum", ..] => Err(LineFault::Form(QUORUM)),
            [other, ..] => Err(LineFault::Keyword(other.to_owned())),
        }
    }

    fn witness(&mut self, name: &str, text: &str, url: Option<&str>) -> Result<(), LineFault> {
        let wrong = |source| LineFault::Key { text: text.to_owned(), source };
        let key: WitnessKey = text.parse().map_err(wrong)?;
        self.check_free(name)?;
        // The signed message does not name the witness, so one key under two names would count twice.
        if let Some(same) = self.witnesses.iter().find(|other| other.key.overlaps(&key)) {
            return Err(LineFault::SameKey(same.name.clone()));
        }
        if self.witnesses.len() == WITNESSES_MAX {
            return Err(LineFault::TooManyWitnesses);
        }
        let (name, url) = (name.to_owned(), url.map(str::to_owned));
        self.witnesses.push(Witness { name, key, url, counts: false });
        Ok(())
    }

    fn group(&mut self, name: &str, threshold: &str, members: &[&str]) -> Result<(), LineFault> {
        self.check_free(name)?;
        if self.group.is_some() {
            return Err(LineFault::Second("group"));
        }
        for (index, member) in members.iter().enumerate() {
            if !self.is_witness(member) {
                return Err(LineFault::Unknown((*member).to_owned()));
            }
            if members.iter().take(index).any(|earlier| earlier == member) {
                return Err(LineFault::Twice((*member).to_owned()));
            }
        }
        let needed = match threshold {
            "all" => Some(members.len()),
            "any" => Some(1),
            number => super::number(number).and_then(|number| usize::try_from(number).ok()),
        };
        let wrong = || LineFault::Threshold { text: threshold.to_owned(), members: members.len() };
        let threshold = needed.filter(|needed| (1..=members.len()).contains(needed)).ok_or_else(wrong)?;
        let members = members.iter().map(|member| (*member).to_owned()).collect();
        self.group = Some(Group { name: name.to_owned(), threshold, members });
        Ok(())
    }

    fn quorum(&mut self, name: &str) -> Result<(), LineFault> {
        if self.quorum.is_some() {
            return Err(LineFault::Second("quorum"));
        }
        let of_group = self.group.as_ref().filter(|group| group.name == name);
        self.quorum = Some(match of_group {
            Some(Group { threshold, members, .. }) => (members.clone(), *threshold),
            None if name == NONE => (Vec::new(), 0),
            None if self.is_witness(name) => (vec![name.to_owned()], 1),
            None => return Err(LineFault::Unknown(name.to_owned())),
        });
        Ok(())
    }

    fn check_free(&self, name: &str) -> Result<(), LineFault> {
        let is_group = self.group.as_ref().is_some_and(|group| group.name == name);
        if name == NONE || is_group || self.is_witness(name) {
            return Err(LineFault::Name(name.to_owned()));
        }
        Ok(())
    }

    fn is_witness(&self, name: &str) -> bool {
        self.witnesses.iter().any(|witness| witness.name == name)
    }
}
