//! What operations, keys, approvals and evidence are, and how they may move: no I/O, clock or randomness.
