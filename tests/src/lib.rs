//! Nothing: the tests are in `it`.
