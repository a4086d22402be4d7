//! [`Notice`]: what readers of the log learn of an event. [`NoticeFilter`]: the events that a reader wants.

use crate::ports::{EventId, Visibility};
use gateway_domain::ids::{Hex32, KeyRef, OperationId, Tenant};
use gateway_domain::intent::{Family, OperationType};
use gateway_domain::operation::State;
use gateway_domain::time::EpochMs;

/// An event of an operation, as everyone sees it who can see the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The event's index in the log of all events, from 0.
    pub index: u64,
    /// The event's time.
    pub at: EpochMs,
    /// The operation.
    pub operation_id: OperationId,
    /// The event's number in the operation, from 1.
    pub seq: u64,
    /// The event's hash in the operation's chain.
    pub event_hash: Hex32,
    /// The `type` of the change.
    pub change: &'static str,
    /// The operation's state after the event.
    pub state: State,
    /// The operation's family.
    pub family: Family,
    /// The operation's type.
    pub operation_type: OperationType,
    /// The name of the operation's key.
    pub key_ref: KeyRef,
    /// The operation's tenant.
    pub tenant: Tenant,
}

impl Notice {
    /// The event's name.
    #[must_use]
    pub fn id(&self) -> EventId {
        EventId::new(self.index, self.event_hash)
    }
}

/// The notices that a reader wants; each condition that is absent includes all.
#[derive(Clone, Debug)]
pub struct NoticeFilter {
    /// The operations that the reader can see.
    pub visibility: Visibility,
    /// The families that the reader can see.
    pub families: Vec<Family>,
    /// Events after which the operation is in one of these states; none: in any.
    pub states: Vec<State>,
    /// Operations of this type.
    pub operation_type: Option<OperationType>,
    /// Operations on the key of this name.
    pub key_ref: Option<KeyRef>,
    /// This operation.
    pub operation_id: Option<OperationId>,
}

impl NoticeFilter {
    pub(super) fn includes(&self, notice: &Notice) -> bool {
        self.visibility.includes(&notice.tenant)
            && self.families.contains(&notice.family)
            && (self.states.is_empty() || self.states.contains(&notice.state))
            && self.operation_type.is_none_or(|kind| kind == notice.operation_type)
            && self.key_ref.as_ref().is_none_or(|key_ref| *key_ref == notice.key_ref)
            && self.operation_id.is_none_or(|id| id == notice.operation_id)
    }
}
