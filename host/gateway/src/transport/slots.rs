//! How many connections there are, in all and from one address.

use super::{Limits, open_now};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Why there is no slot for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// There are as many connections as there may be.
    Everywhere,
    /// There are as many from this address.
    Address,
}

impl Full {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Everywhere => "connections",
            Self::Address => "address",
        }
    }
}

/// The slots of one listener.
#[derive(Debug)]
pub(super) struct Slots {
    /// Whose: for counters.
    listener: &'static str,
    max: usize,
    per_origin_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    // INVARIANT: the sum of `by_origin`, which has no zeros; `Slots::take` and `Slot::drop` keep it.
    n_taken: usize,
    by_origin: BTreeMap<IpAddr, usize>,
}

/// A connection's slot, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    origin: IpAddr,
}

impl Slots {
    pub(super) fn new(listener: &'static str, limits: &Limits) -> Arc<Self> {
        let per_origin_max = limits.connections_per_address_max;
        Arc::new(Self { listener, max: limits.connections_max, per_origin_max, taken: Mutex::default() })
    }

    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Result<Slot, Full> {
        let origin = origin(address);
        let mut taken = self.lock();
        if taken.n_taken >= self.max {
            return Err(Full::Everywhere);
        }
        let n_of_origin = taken.by_origin.entry(origin).or_default();
        if *n_of_origin >= self.per_origin_max {
            return Err(Full::Address);
        }
        *n_of_origin += 1;
        taken.n_taken += 1;
        open_now(self.listener, taken.n_taken);
        Ok(Slot { slots: Arc::clone(self), origin })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.lock();
        taken.n_taken = taken.n_taken.saturating_sub(1);
        open_now(self.slots.listener, taken.n_taken);
        let n_left = taken.by_origin.get(&self.origin).copied().unwrap_or_default().saturating_sub(1);
        if n_left == 0 {
            taken.by_origin.remove(&self.origin);
        } else {
            taken.by_origin.insert(self.origin, n_left);
        }
    }
}

/// What one client can not choose freely of its address.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(max: usize, per_origin_max: usize) -> Arc<Slots> {
        Arc::new(Slots { listener: "test", max, per_origin_max, taken: Mutex::default() })
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_address_does_not_take_all_and_all_is_a_number() {
        let slots = slots(3, 2);
        let (a, b) = (address("10.0.0.1"), address("10.0.0.2"));
        let first = slots.take(a).unwrap();
        let _second = slots.take(a).unwrap();
        assert_eq!(slots.take(a).unwrap_err(), Full::Address);
        let _third = slots.take(b).unwrap();
        assert_eq!(slots.take(b).unwrap_err(), Full::Everywhere);
        drop(first);
        let _fourth = slots.take(b).unwrap();
        assert_eq!(slots.take(a).unwrap_err(), Full::Everywhere);
    }

    #[test]
    fn what_is_refused_and_what_has_gone_leaves_nothing_behind() {
        let slots = slots(2, 1);
        for n in 0..100 {
            let slot = slots.take(address(&format!("10.0.0.{n}"))).unwrap();
            assert!(slots.take(address(&format!("10.0.0.{n}"))).is_err());
            drop(slot);
        }
        let taken = slots.lock();
        assert_eq!((taken.n_taken, taken.by_origin.len()), (0, 0));
    }

    #[test]
    fn a_mapped_address_is_itself_and_a_network_of_ipv6_is_one() {
        let slots = slots(10, 1);
        let _slot = slots.take(address("10.0.0.1")).unwrap();
        assert!(slots.take(address("::ffff:10.0.0.1")).is_err());
        let _slot = slots.take(address("2001:db8:0:1::1")).unwrap();
        assert!(slots.take(address("2001:db8:0:1:ffff::2")).is_err());
        assert!(slots.take(address("2001:db8:0:2::1")).is_ok());
    }
}
