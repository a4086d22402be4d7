//! Decision records of a real process: exported while it runs, and asked again.

mod export;
mod story;
