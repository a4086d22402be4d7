//! What is wrong with stored records.

use gateway_engine::ports::{Damage, ReadError, Subject};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;

/// A fault of a row, a table or the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The table; `sqlite_schema` for the schema, `database` for the file.
    pub table: String,
    /// The key of the row; empty if the finding is about the whole table.
    pub row: String,
    /// What is wrong, without text from a stored body.
    pub what: String,
}

impl Finding {
    pub(crate) fn new(table: &str, row: impl Into<String>, what: impl Into<String>) -> Self {
        Self { table: table.to_owned(), row: row.into(), what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, row, what } = self;
        if row.is_empty() { write!(f, "{table}: {what}") } else { write!(f, "{table}, {row}: {what}") }
    }
}

pub(crate) type Report<'a> = dyn FnMut(Finding) + Send + 'a;

pub(crate) fn report(to: &mut Report<'_>, table: &str, row: impl Into<String>, what: impl Into<String>) {
    to(Finding::new(table, row, what));
}

/// The most damaged records in the list. Further ones are refused too, but not listed.
const REMEMBERED_MAX: usize = 1024;

/// The records found damaged when last read.
#[derive(Debug, Default)]
pub(crate) struct Damaged(Mutex<BTreeMap<Subject, String>>);

impl Damaged {
    /// Adds a damaged record to the list, or removes one that is sound again.
    pub(crate) fn update<T>(&self, subject: Subject, rebuilt: Result<T, Finding>) -> Result<T, ReadError> {
        let mut damaged = self.0.lock();
        match rebuilt {
            Ok(sound) => {
                damaged.remove(&subject);
                Ok(sound)
            }
            Err(finding) => {
                let detail = finding.to_string();
                if damaged.len() < REMEMBERED_MAX || damaged.contains_key(&subject) {
                    damaged.insert(subject, detail.clone());
                }
                Err(ReadError::Damaged(Damage { subject, detail }))
            }
        }
    }

    pub(crate) fn list(&self) -> Vec<Damage> {
        let damaged = self.0.lock();
        damaged.iter().map(|(subject, detail)| Damage { subject: *subject, detail: detail.clone() }).collect()
    }
}
