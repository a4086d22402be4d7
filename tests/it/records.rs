//! Decision records of a real process: `decisions export`, `policy replay` and `policy impact`.

mod decisions;
mod export;
mod faults;
mod impact;
mod replay;
