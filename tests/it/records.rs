//! Decision records of a real process: exported while it runs, replayed, and evaluated by a candidate.

mod export;
mod faults;
mod impact;
mod replay;
mod story;
