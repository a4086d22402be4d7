//! Violations that are known and not fixed yet. They are counted apart, and shown on the page; when one is fixed, its entry goes.

/// A known gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    SecondPackage,
    AbandonedPackage,
    ReleasedAndStuck,
    RestoredReceiver,
}

impl Gap {
    pub(crate) const ALL: [Self; 4] =
        [Self::SecondPackage, Self::AbandonedPackage, Self::ReleasedAndStuck, Self::RestoredReceiver];

    /// Its name in counts.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SecondPackage => "second-package",
            Self::AbandonedPackage => "abandoned-package",
            Self::ReleasedAndStuck => "released-and-stuck",
            Self::RestoredReceiver => "restored-receiver",
        }
    }

    /// What happens, for the page.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::SecondPackage => {
                "S2: answers with shares are lost, the gateway gives the attempt up, and the next attempt is signed too: two signatures \
                 of one operation over the same digest"
            }
            Self::AbandonedPackage => {
                "S4: two replicas, or a replica and the one that died before it, make two packages for one attempt; a node releases a \
                 share of the one that is not completed, and no event names it"
            }
            Self::ReleasedAndStuck => {
                "nodes released shares, and before the gateway recorded the signature the key changed its epoch, the decision expired, \
                 or a signer was restored: the nodes refuse to discard, and the operation stays in `discarding`"
            }
            Self::RestoredReceiver => {
                "a node is restored to an older copy while it receives a new share: after its readmission it neither promotes, publishes \
                 nor discards, and the operation stays where it is. The schedule avoids it unless `SVC_SIMULATION_GAPS` is set"
            }
        }
    }
}

/// Whether the schedule makes the faults whose result is known to be stuck.
pub(crate) fn are_provoked() -> bool {
    std::env::var_os("SVC_SIMULATION_GAPS").is_some()
}
