//! Changes of the product by hand, each with the seed that found it. Results of an experiment, for the page.

/// A change that broke an invariant, and the run that found it.
pub(crate) struct Mutant {
    pub(crate) change: &'static str,
    pub(crate) found: &'static str,
    pub(crate) seed: u64,
    pub(crate) n_runs: u64,
}

/// The changes that were tried.
pub(crate) const MUTANTS: &[Mutant] = &[];
