//! Whether this replica agrees with the other ones that share its store.

use crate::engine::{Engine, Inner, ReplicaFault};
use crate::error::{Dependency, Unavailable};

impl Engine {
    /// What is wrong with this replica, until the next call.
    pub fn set_replica_fault(&self, fault: Option<ReplicaFault>) {
        *self.0.replica_fault.lock() = fault;
    }

    /// Whether anything may be written: the store is complete, and this replica makes the records that the others make.
    #[must_use]
    pub fn may_write(&self) -> bool {
        self.0.check_may_write().is_ok()
    }
}

impl Inner {
    fn replica_fault(&self) -> Option<ReplicaFault> {
        self.replica_fault.lock().clone()
    }

    /// Checks that this replica agrees with the others.
    ///
    /// # Errors
    /// [`Dependency::Store`] with the fault.
    pub(crate) fn check_replica(&self) -> Result<(), Unavailable> {
        self.replica_fault()
            .map_or(Ok(()), |fault| Err(Unavailable::new(Dependency::Store, fault.to_string())))
    }

    /// Checks, before each write, that the store is complete and that this replica makes the records that the others make.
    ///
    /// # Errors
    /// [`Dependency::Store`] with what is wrong.
    pub(crate) fn check_may_write(&self) -> Result<(), Unavailable> {
        self.check_complete()?;
        match self.replica_fault() {
            Some(fault @ ReplicaFault::MustNotWrite(_)) => {
                Err(Unavailable::new(Dependency::Store, fault.to_string()))
            }
            Some(ReplicaFault::Differs(_)) | None => Ok(()),
        }
    }
}
