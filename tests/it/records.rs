//! Decision records of a real process: exported while it runs, asked again, and asked of a candidate.

mod export;
mod faults;
mod impact;
mod replay;
mod story;
