//! Lists of operations and keys for callers, newest first.

use crate::engine::{Engine, Inner};
use crate::error::EngineError;
use crate::ports::{KeyFilter, Listed, OperationFilter, Place, ReadError, Record, Visibility};
use gateway_domain::approval::LapsedApproval;
use gateway_domain::ids::{KeyId, OperationId};
use gateway_domain::key::CustodyKey;
use gateway_domain::names::is_same_person;
use gateway_domain::operation::{Operation, Phase};
use gateway_domain::people;

/// The operations that are looked at for a page of those that await someone.
const CANDIDATES_MAX: u32 = 200;

/// A request for a part of the list of operations.
#[derive(Clone, Debug)]
pub struct ListOperations {
    /// The operations that the caller can see.
    pub visibility: Visibility,
    /// Those that are asked for.
    pub filter: OperationFilter,
    /// Only operations that could still use the approval of this subject: they wait for approvals, and it neither submitted nor
    /// approved nor rejected them.
    pub awaiting: Option<String>,
    /// The place after which the part begins.
    pub after: Option<Place>,
    /// The maximum of operations.
    pub n_max: u32,
}

/// A part of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// In order, without those whose records are damaged. There may be fewer than asked for, although more follow.
    pub items: Vec<T>,
    /// The place after which the list goes on; `None` at its end.
    pub next: Option<Place>,
}

impl Engine {
    /// A part of the list of operations.
    pub async fn operations(&self, list: &ListOperations) -> Result<Page<Record>, EngineError> {
        let ListOperations { visibility, filter, awaiting, after, n_max } = list;
        let n_candidates = awaiting.as_ref().map_or(*n_max, |_| CANDIDATES_MAX);
        let lists = &self.0.ports.lists;
        let Listed { places, next } =
            lists.operations_listed(visibility, filter, *after, n_candidates).await?;
        let (mut items, mut size, last) = (Vec::new(), PageSize::default(), places.last().copied());
        for place in places {
            let id = OperationId(place.id);
            let Some(record) = sound(self.0.ports.reads.operation_find(id, visibility).await)? else {
                continue;
            };
            if awaiting.as_ref().is_none_or(|subject| self.0.awaits(&record.operation, subject)) {
                size.add(&record.operation);
                items.push(record);
            }
            if items.len() >= usize::try_from(*n_max).unwrap_or(usize::MAX) || size.is_full() {
                let is_last = last == Some(place);
                return Ok(Page { items, next: if is_last { next } else { Some(place) } });
            }
        }
        Ok(Page { items, next })
    }

    /// A part of the list of keys, each with the latest custody operation on it.
    pub async fn keys(
        &self,
        visibility: &Visibility,
        filter: &KeyFilter,
        after: Option<Place>,
        n_max: u32,
    ) -> Result<Page<(CustodyKey, OperationId)>, EngineError> {
        let Listed { places, next } =
            self.0.ports.lists.keys_listed(visibility, filter, after, n_max).await?;
        let mut items = Vec::with_capacity(places.len());
        for place in places {
            let key = sound(self.0.ports.reads.key_load(KeyId(place.id)).await)?;
            // The row that was listed may have been altered.
            if let Some(key) = key.filter(|key| visibility.includes(&key.tenant)) {
                let latest = self.0.latest_operation(&key).await?;
                items.push((key, latest));
            }
        }
        Ok(Page { items, next })
    }
}

/// The bytes of the operations of a page, which end it: what answers hold in memory does not grow with what callers store.
#[derive(Default)]
pub(crate) struct PageSize(usize);

impl PageSize {
    /// A page ends with the operation with which it reaches this size as JSON, about that of its answer.
    const MAX: usize = 1 << 20;

    pub(crate) fn add(&mut self, operation: &Operation) {
        // An operation was read from JSON, so that this cannot fail. If it did, it would count as a whole page.
        let bytes = serde_json::to_vec(operation).map_or(Self::MAX, |bytes| bytes.len());
        self.0 = self.0.saturating_add(bytes);
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.0 >= Self::MAX
    }
}

/// Leaves damaged records out. Reading one of them alone gives an error, and readiness names it.
pub(crate) fn sound<T>(read: Result<Option<T>, ReadError>) -> Result<Option<T>, EngineError> {
    match read {
        Err(ReadError::Damaged(_)) => Ok(None),
        read => Ok(read?),
    }
}

impl Inner {
    fn awaits(&self, operation: &Operation, subject: &str) -> bool {
        // Without a registry that can be read, a subject is its own person.
        let registered = self.rules.signed_approvals.registered(&operation.tenant, subject).ok().flatten();
        let person = people::person(subject, registered.as_deref());
        operation.phase == Phase::PendingApproval
            && !is_same_person(operation.submitter.person(), person)
            && !operation.is_rejected_by(person)
            && (!operation.is_approved_by(person) || self.has_lapsed(operation, subject))
    }

    /// Whether the subject has to approve again, though that is not recorded yet.
    fn has_lapsed(&self, operation: &Operation, subject: &str) -> bool {
        let is_theirs = |one: &LapsedApproval| is_same_person(&one.subject_id, subject);
        self.lapsed(operation).is_ok_and(|lapsed| lapsed.iter().any(is_theirs))
    }
}
