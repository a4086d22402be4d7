//! Decision records of a real process: `decisions export`, `policy replay` and `policy impact`.

mod export;
mod faults;
mod impact;
mod replay;
mod story;
