//! How many connections there are, in all and from one address.

use super::{Limits, open_now};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Why there is no room for a connection.
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

/// The connections of one listener.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    /// Whose: for counters.
    listener: &'static str,
    max: usize,
    per_origin_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    // INVARIANT: the sum of `by_origin`, which has no zeros; `ConnectionLimit::take` and `Permit::drop` keep it.
    n_taken: usize,
    by_origin: BTreeMap<IpAddr, usize>,
}

/// A connection's place, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    limit: Arc<ConnectionLimit>,
    origin: IpAddr,
}

impl ConnectionLimit {
    pub(super) fn new(listener: &'static str, limits: &Limits) -> Arc<Self> {
        let per_origin_max = limits.connections_per_address_max;
        Arc::new(Self { listener, max: limits.connections_max, per_origin_max, taken: Mutex::default() })
    }

    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Result<Permit, Full> {
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
        Ok(Permit { limit: Arc::clone(self), origin })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.limit.lock();
        taken.n_taken = taken.n_taken.saturating_sub(1);
        open_now(self.limit.listener, taken.n_taken);
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

    fn limit(max: usize, per_origin_max: usize) -> Arc<ConnectionLimit> {
        Arc::new(ConnectionLimit { listener: "test", max, per_origin_max, taken: Mutex::default() })
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_address_does_not_take_all_and_all_is_a_number() {
        let limit = limit(3, 2);
        let (a, b) = (address("10.0.0.1"), address("10.0.0.2"));
        let first = limit.take(a).unwrap();
        let _second = limit.take(a).unwrap();
        assert_eq!(limit.take(a).unwrap_err(), Full::Address);
        let _third = limit.take(b).unwrap();
        assert_eq!(limit.take(b).unwrap_err(), Full::Everywhere);
        drop(first);
        let _fourth = limit.take(b).unwrap();
        assert_eq!(limit.take(a).unwrap_err(), Full::Everywhere);
    }

    #[test]
    fn what_is_refused_and_what_has_gone_leaves_nothing_behind() {
        let limit = limit(2, 1);
        for n in 0..100 {
            let permit = limit.take(address(&format!("10.0.0.{n}"))).unwrap();
            assert!(limit.take(address(&format!("10.0.0.{n}"))).is_err());
            drop(permit);
        }
        let taken = limit.lock();
        assert_eq!((taken.n_taken, taken.by_origin.len()), (0, 0));
    }

    #[test]
    fn a_mapped_address_is_itself_and_a_network_of_ipv6_is_one() {
        let limit = limit(10, 1);
        let _permit = limit.take(address("10.0.0.1")).unwrap();
        assert!(limit.take(address("::ffff:10.0.0.1")).is_err());
        let _permit = limit.take(address("2001:db8:0:1::1")).unwrap();
        assert!(limit.take(address("2001:db8:0:1:ffff::2")).is_err());
        assert!(limit.take(address("2001:db8:0:2::1")).is_ok());
    }
}
