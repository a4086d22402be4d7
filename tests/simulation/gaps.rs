//! Violations that are known and not fixed yet. They are counted separately, and shown on the page; when one is fixed, its entry goes.

/// A known gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    DisjointSigners,
    RestoredAndStuck,
    UnnoticedRollback,
}

impl Gap {
    pub(crate) const ALL: [Self; 3] =
        [Self::DisjointSigners, Self::RestoredAndStuck, Self::UnnoticedRollback];

    /// Its name in counts.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::DisjointSigners => "disjoint-signers",
            Self::RestoredAndStuck => "restored-and-stuck",
            Self::UnnoticedRollback => "unnoticed-rollback",
        }
    }

    /// What happens, for the page.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::DisjointSigners => {
                "S2: a key has at least twice as many holders as its threshold, and two sets of signers without a common node each \
                 complete a package: two signatures of one operation over the same digest"
            }
            Self::UnnoticedRollback => {
                "a node whose whole machine was restored is called by a replica that knows only older receipts of it, and signs another entry \
                 at a position that it had used, or the operation of a share that it forgot again; it stops when it is shown a later receipt"
            }
            Self::RestoredAndStuck => {
                "a signer is restored to an older copy and readmitted after another signer released its share: it may have signed too, \
                 so neither a signature nor its absence can be proved, and the operation stays in `discarding`; the same with the receiver \
                 of new shares that must have staged its share last"
            }
        }
    }
}
