//! Errors as text.

use std::error::Error;

/// An error and what is behind it, on one line, for an operator.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let texts = std::iter::successors(Some(error), |error| (*error).source()).map(ToString::to_string);
    texts.collect::<Vec<_>>().join(": ").replace('\n', " ")
}
