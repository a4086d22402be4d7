//! Violations that are known and not fixed yet. They are counted separately, and shown on the page; when one is fixed, its entry goes.

/// A known gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    DisjointSigners,
    AbandonedPackage,
    ReleasedAndStuck,
    RestoredAndStuck,
    UnnoticedRollback,
}

impl Gap {
    pub(crate) const ALL: [Self; 5] = [
        Self::DisjointSigners,
        Self::AbandonedPackage,
        Self::ReleasedAndStuck,
        Self::RestoredAndStuck,
        Self::UnnoticedRollback,
    ];

    /// Its name in counts.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::DisjointSigners => "disjoint-signers",
            Self::AbandonedPackage => "abandoned-package",
            Self::ReleasedAndStuck => "released-and-stuck",
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
            Self::AbandonedPackage => {
                "S4: two replicas, or a replica and the one that died before it, make two packages for one attempt; nodes release \
                 shares of the one that is not recorded, and no event names them. With two of four holders both packages are \
                 completed, which is a hidden signature over the same digest"
            }
            Self::ReleasedAndStuck => {
                "nodes released shares, and before the gateway recorded the signature the key changed its epoch or the decision expired: \
                 the nodes refuse to discard, and the operation stays in `discarding`"
            }
            Self::UnnoticedRollback => {
                "a restored node is called by the replica that knows only older receipts of it, and signs another entry at a position \
                 that it had used; it stops when the other replica calls it"
            }
            Self::RestoredAndStuck => {
                "a node of the operation is restored to an older copy and readmitted after the decision: it does nothing for the \
                 operation any more, not even promote, publish or discard, and an operation that needs it stays where it is"
            }
        }
    }
}
