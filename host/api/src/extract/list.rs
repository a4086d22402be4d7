//! The query of a list: `limit`, `cursor`, and filters.

use super::query::{self, invalid_query};
use crate::error::ApiError;
use gateway_domain::canonical;
use gateway_domain::ids::KeyRef;
use gateway_domain::time::EpochMs;
use gateway_engine::ports::{Created, Place};
use gateway_service::strict::TEXT_BYTES_MAX;
use percent_encoding::percent_decode_str;
use std::collections::BTreeMap;

/// Default number of entries on a page.
pub const PAGE_DEFAULT: u32 = 50;

/// Maximum number of entries on a page: each has a few kilobytes.
pub const PAGE_MAX: u32 = 200;

/// The filters of a query: parameters with percent-encoded values, and `+` for a space.
#[derive(Debug)]
pub struct Filters(BTreeMap<&'static str, String>);

impl Filters {
    /// Reads the filters `known`. The parameters `others` are read elsewhere.
    pub fn parse(query: &str, known: &[&'static str], others: &[&str]) -> Result<Self, ApiError> {
        let mut filters = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if others.contains(&name) {
                continue;
            }
            let Some(name) = known.iter().find(|known| **known == name) else {
                let all: Vec<_> = others.iter().chain(known).map(|name| format!("`{name}`")).collect();
                let message = format!("there is no parameter `{}`, only {}", shown(name), all.join(", "));
                return Err(invalid_query(message));
            };
            if filters.insert(*name, decoded(name, value)?).is_some() {
                return Err(invalid_query(format!("`{name}` must be given once")));
            }
        }
        Ok(Self(filters))
    }

    /// The value of a filter.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of the filter `key_ref`.
    #[must_use]
    pub fn key_ref(&self) -> Option<KeyRef> {
        self.text("key_ref").map(|name| KeyRef(name.to_owned()))
    }

    /// The value of a filter that is one of some words.
    pub fn word<T: Copy>(
        &self,
        name: &str,
        all: &[T],
        as_str: impl Fn(T) -> &'static str,
    ) -> Result<Option<T>, ApiError> {
        self.text(name).map(|text| query::word(name, text, all, as_str)).transpose()
    }

    /// The value of a filter that is a time.
    pub fn time(&self, name: &str) -> Result<Option<EpochMs>, ApiError> {
        let digits = |text| query::digits(text).map(EpochMs);
        let wrong = || invalid_query(format!("`{name}` must be a time in milliseconds since 1970"));
        self.text(name).map(|text| digits(text).ok_or_else(wrong)).transpose()
    }

    /// The filters `created_after_ms` and `created_before_ms`.
    pub fn created(&self) -> Result<Created, ApiError> {
        Ok(Created { after: self.time("created_after_ms")?, before: self.time("created_before_ms")? })
    }
}

/// A place in a list, as the beginning of a cursor.
pub trait Placed: Sized {
    /// Its parts, none of which has a `-`.
    fn parts(self) -> Vec<String>;

    /// The place that has these parts.
    fn of(parts: &[&str]) -> Option<Self>;
}

impl Placed for Place {
    fn parts(self) -> Vec<String> {
        vec![self.created_at.0.to_string(), self.id.to_string()]
    }

    fn of(parts: &[&str]) -> Option<Self> {
        let [created_at, id] = parts else { return None };
        Some(Self { created_at: EpochMs(query::digits(created_at)?), id: id.parse().ok()? })
    }
}

/// The parsed query of a list.
#[derive(Debug)]
pub struct ListQuery<P> {
    /// The maximum of entries.
    pub n_max: u32,
    /// The place that the cursor names.
    pub after: Option<P>,
    /// What the list is restricted to.
    pub filters: Filters,
    digest: String,
}

impl<P: Placed> ListQuery<P> {
    /// Parses the query of a list that knows these filters.
    ///
    /// # Errors
    /// As [`Filters::parse`], and `invalid_request` for a cursor of another list or of other filters.
    pub fn parse(list: &str, query: &str, known: &[&'static str]) -> Result<Self, ApiError> {
        let n_max = query::limit(query, PAGE_DEFAULT, PAGE_MAX)?;
        let filters = Filters::parse(query, known, &["limit", "cursor"])?;
        let digest = canonical::digest("svc/list/v1", &(list, &filters.0))
            .map_err(|_| invalid_query("the query is too large".to_owned()))?;
        let digest: String = digest.to_string().chars().take(16).collect();
        let after = query::once(query, "cursor")?.map(|cursor| place(cursor, &digest)).transpose()?;
        Ok(Self { n_max, after, filters, digest })
    }

    /// The cursor of the page that begins after this place: its parts, and a digest of what the list is restricted to.
    #[must_use]
    pub fn cursor(&self, next: Option<P>) -> Option<String> {
        next.map(|place| format!("{}-{}", place.parts().join("-"), self.digest))
    }
}

fn decoded(name: &str, value: &str) -> Result<String, ApiError> {
    let spaced = value.replace('+', " ");
    let text = percent_decode_str(&spaced).decode_utf8().ok();
    let text = text.filter(|text| !text.is_empty() && !text.contains('\0')).ok_or_else(|| {
        invalid_query(format!("`{name}` must be UTF-8, percent-encoded, not empty and without U+0000"))
    })?;
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("`{name}` must be at most {TEXT_BYTES_MAX} bytes, not {}", text.len());
        return Err(invalid_query(message));
    }
    Ok(text.into())
}

/// As much of a name as a message can have.
fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}

fn place<P: Placed>(cursor: &str, digest: &str) -> Result<P, ApiError> {
    let wrong = || invalid_query("`cursor` must be the `next_cursor` of a page of this list".to_owned());
    let (parts, of) = cursor.rsplit_once('-').ok_or_else(wrong)?;
    let place = P::of(&parts.split('-').collect::<Vec<_>>()).ok_or_else(wrong)?;
    if of != digest {
        let message = "`cursor` is of another list, or of other filters: give the filters of the page before, or no cursor";
        return Err(invalid_query(message.to_owned()));
    }
    Ok(place)
}
