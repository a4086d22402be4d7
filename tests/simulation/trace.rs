//! The trace of a run: a line for each action, without keys, hashes or signatures, which are random.

use sha2::{Digest, Sha256};
use std::collections::VecDeque;

/// Lines that are kept for a report.
const TAIL: usize = 60;

pub(crate) struct Trace {
    digest: Sha256,
    tail: VecDeque<String>,
    pub(crate) n_lines: u64,
    prints: bool,
}

impl Trace {
    pub(crate) fn new() -> Self {
        let prints = std::env::var_os("SVC_SIMULATION_TRACE").is_some();
        Self { digest: Sha256::new(), tail: VecDeque::new(), n_lines: 0, prints }
    }

    pub(crate) fn line(&mut self, line: String) {
        if self.prints {
            println!("{line}");
        }
        self.digest.update(line.as_bytes());
        self.digest.update(b"\n");
        self.n_lines += 1;
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    /// The last lines.
    pub(crate) fn tail(&self) -> String {
        self.tail.iter().map(|line| format!("  {line}\n")).collect()
    }

    /// SHA-256 of all lines, hexadecimal.
    pub(crate) fn finish(self) -> String {
        hex::encode(self.digest.finalize())
    }
}
