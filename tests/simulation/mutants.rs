//! Changes of the product by hand, and what the simulation found. Results of an experiment, for the page.

/// A change, and the first violation, with the seed of a run of 100 orders.
pub(crate) struct Mutant {
    pub(crate) change: &'static str,
    pub(crate) found: &'static str,
    pub(crate) seed: &'static str,
}

/// The changes that were tried, each with the seeds from 0 for about a minute.
pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        change: "a node returns its share although the write of its mark and its log entry failed",
        found: "`unlogged-share`",
        seed: "14",
    },
    Mutant {
        change: "a restored node does not stop when it is shown its later receipt",
        found: "`rollback`",
        seed: "1",
    },
    Mutant {
        change: "the gateway takes a ceremony for complete when one receiver has staged its share",
        found: "`stuck`",
        seed: "7",
    },
    Mutant {
        change: "the gateway performs effects before it has committed the events that decide them",
        found: "no invariant is violated, and no operation is published: `seeds_hold_every_invariant` requires that some are",
        seed: "0",
    },
    Mutant {
        change: "a node does not store the mark of used nonces",
        found: "not found in the time; presumably the unique index of the node's log refuses the second entry",
        seed: "",
    },
    Mutant {
        change: "the store commits without comparing the revision",
        found: "not found in the time; presumably the unique sequence of the events refuses the second writer",
        seed: "",
    },
    Mutant {
        change: "a node discards after a promotion",
        found: "not found: an honest gateway never asks for it (`discard_is_permanent_and_refused_after_promotion` tests it)",
        seed: "",
    },
    Mutant { change: "a node discards after it released a share", found: "not found in the time", seed: "" },
    Mutant {
        change: "a node signs with nonces that it opened under an earlier epoch",
        found: "not found in the time",
        seed: "",
    },
    Mutant {
        change: "the gateway numbers attempts anew after each start of a replica",
        found: "not found in the time",
        seed: "",
    },
];
