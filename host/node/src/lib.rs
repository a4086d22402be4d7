//! A runtime node: verifies each decision itself, keeps one share a key, and never signs twice.
