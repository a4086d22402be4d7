//! Limits connections, in total and per address, and chooses the one to evict when a limit is reached.
//!
//! A connection whose client waits for the gateway is never evicted: its request is being handled, or its response is being sent.
//! On the others the gateway waits for the client. Of these it evicts, for a new connection:
//!
//! 1. one of the address that has the most of them;
//! 2. of that address, first one between requests or before the first one, then one in the middle of a TLS handshake or of
//!    headers, then one in the middle of a body, then one whose client does not read its response;
//! 3. of these, the least recently used.
//!
//! So a client that holds connections without using them loses them to others, and an address without a connection gets one
//! however many others have. Only a whole request counts as a use; single bytes do not.

use super::activity::{Activity, Waiting};
use super::{Limits, count_evicted, set_open};
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The limit that was reached, when no connection can be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// The limit of the listener.
    Listener,
    /// The limit of the address.
    Address,
}

impl Full {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Listener => "connections",
            Self::Address => "address",
        }
    }
}

/// The limit of one listener, and its open connections.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    /// The listener's name in metrics.
    listener: &'static str,
    max: usize,
    per_origin_max: usize,
    /// A logical clock, which orders the uses of all connections.
    clock: Arc<AtomicU64>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    connections: BTreeMap<u64, Connection>,
    // INVARIANT: the number of `connections` of each origin, without zeros; `insert` and `remove` keep it.
    by_origin: BTreeMap<IpAddr, usize>,
    next_id: u64,
}

#[derive(Debug)]
struct Connection {
    origin: IpAddr,
    activity: Arc<Activity>,
}

/// A connection's share of the limit, released when it is dropped or the connection is evicted.
#[derive(Debug)]
pub(super) struct Permit {
    limit: Arc<ConnectionLimit>,
    id: u64,
    activity: Arc<Activity>,
}

impl Permit {
    pub(super) const fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }
}

impl ConnectionLimit {
    pub(super) fn new(listener: &'static str, limits: &Limits) -> Arc<Self> {
        let (max, per_origin_max) = (limits.connections_max, limits.connections_per_address_max);
        Arc::new(Self { listener, max, per_origin_max, clock: Arc::default(), open: Mutex::default() })
    }

    /// Acquires a permit for a connection from this address. Evicts another connection if a limit is reached.
    pub(super) fn acquire(self: &Arc<Self>, address: IpAddr) -> Result<Permit, Full> {
        let origin = origin(address);
        let mut open = self.open.lock();
        if open.by_origin.get(&origin).is_some_and(|n_of_origin| *n_of_origin >= self.per_origin_max) {
            self.evict(&mut open, Some(origin)).ok_or(Full::Address)?;
        } else if open.connections.len() >= self.max {
            self.evict(&mut open, None).ok_or(Full::Listener)?;
        }
        let activity = Activity::new(Arc::clone(&self.clock));
        let id = open.insert(Connection { origin, activity: Arc::clone(&activity) });
        set_open(self.listener, open.connections.len());
        Ok(Permit { limit: Arc::clone(self), id, activity })
    }

    /// Evicts a connection of any address; returns whether there was one.
    pub(super) fn make_room(&self) -> bool {
        let mut open = self.open.lock();
        self.evict(&mut open, None).is_some()
    }

    /// Evicts one connection of this origin, or of any origin; `None` if no connection can be evicted.
    fn evict(&self, open: &mut Open, origin: Option<IpAddr>) -> Option<()> {
        // Chooses again if a request has just begun on the chosen connection.
        loop {
            let (id, waiting) = open.choose_victim(origin)?;
            if open.connections.get(&id)?.activity.evict(waiting) {
                open.remove(id);
                count_evicted(self.listener, waiting.as_str());
                return Some(());
            }
        }
    }
}

impl Open {
    fn insert(&mut self, connection: Connection) -> u64 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        *self.by_origin.entry(connection.origin).or_default() += 1;
        self.connections.insert(id, connection);
        id
    }

    /// Has no effect if the connection was removed already.
    fn remove(&mut self, id: u64) {
        let Some(Connection { origin, .. }) = self.connections.remove(&id) else { return };
        let n_left = self.by_origin.get(&origin).copied().unwrap_or_default().saturating_sub(1);
        if n_left == 0 {
            self.by_origin.remove(&origin);
        } else {
            self.by_origin.insert(origin, n_left);
        }
    }

    /// The connection to evict next, in the order described at the top of this module.
    fn choose_victim(&self, only: Option<IpAddr>) -> Option<(u64, Waiting)> {
        let candidates = self
            .connections
            .iter()
            .filter(|(_, connection)| only.is_none_or(|only| connection.origin == only));
        let waiting: Vec<_> = candidates
            .filter_map(|(id, connection)| Some((*id, connection.origin, connection.activity.waiting()?)))
            .collect();
        let mut n_waiting: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for (_, origin, _) in &waiting {
            *n_waiting.entry(*origin).or_default() += 1;
        }
        let rank =
            |(_, origin, rank): &(u64, IpAddr, (Waiting, u64))| (Reverse(n_waiting.get(origin)), *rank);
        waiting.iter().min_by_key(|one| rank(one)).map(|(id, _, (waiting, _))| (*id, *waiting))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.limit.open.lock();
        open.remove(self.id);
        set_open(self.limit.listener, open.connections.len());
    }
}

/// The part of an address by which connections are counted: an IPv4 address, or the first 64 bits of an IPv6 address, since a
/// client can usually choose the others.
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
        let (clock, open) = (Arc::default(), Mutex::default());
        Arc::new(ConnectionLimit { listener: "test", max, per_origin_max, clock, open })
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// A connection whose request is being handled.
    fn busy(limit: &Arc<ConnectionLimit>, origin: &str) -> Result<Permit, Full> {
        let permit = limit.acquire(address(origin))?;
        assert!(permit.activity().begin_handling());
        Ok(permit)
    }

    /// Handles a request on a connection, which is idle afterwards.
    fn use_once(permit: &Permit) {
        assert!(permit.activity().begin_handling());
        permit.activity().responding();
        permit.activity().sent_all();
    }

    fn is_open(permit: &Permit) -> bool {
        permit.limit.open.lock().connections.contains_key(&permit.id)
    }

    /// The indices of the connections in the order of their eviction.
    fn evicted_in_turn(limit: &Arc<ConnectionLimit>, permits: &[Permit]) -> Vec<usize> {
        let mut gone = Vec::new();
        while limit.make_room() {
            let new = (0..permits.len()).find(|n| !is_open(&permits[*n]) && !gone.contains(n)).unwrap();
            gone.push(new);
        }
        gone
    }

    #[test]
    fn connections_are_limited_per_address_and_in_total() {
        let limit = limit(3, 2);
        let (a, b) = ("10.0.0.1", "10.0.0.2");
        let first = busy(&limit, a).unwrap();
        let _second = busy(&limit, a).unwrap();
        assert_eq!(busy(&limit, a).unwrap_err(), Full::Address);
        let _third = busy(&limit, b).unwrap();
        assert_eq!(busy(&limit, b).unwrap_err(), Full::Listener);
        drop(first);
        let _fourth = busy(&limit, b).unwrap();
        assert_eq!(busy(&limit, a).unwrap_err(), Full::Listener);
    }

    #[test]
    fn closed_refused_and_evicted_connections_release_their_permits() {
        let limit = limit(2, 1);
        for n in 0..100 {
            let permit = busy(&limit, &format!("10.0.0.{n}")).unwrap();
            assert!(busy(&limit, &format!("10.0.0.{n}")).is_err());
            drop(permit);
        }
        let evicted: Vec<_> =
            (0..100).map(|n| limit.acquire(address(&format!("10.0.0.{n}"))).unwrap()).collect();
        assert_eq!(limit.open.lock().connections.len(), 2);
        drop(evicted);
        let open = limit.open.lock();
        assert_eq!((open.connections.len(), open.by_origin.len()), (0, 0));
    }

    #[test]
    fn mapped_ipv4_counts_as_ipv4_and_an_ipv6_64_counts_as_one_address() {
        let limit = limit(10, 1);
        let _permit = busy(&limit, "10.0.0.1").unwrap();
        assert!(busy(&limit, "::ffff:10.0.0.1").is_err());
        let _permit = busy(&limit, "2001:db8:0:1::1").unwrap();
        assert!(busy(&limit, "2001:db8:0:1:ffff::2").is_err());
        assert!(busy(&limit, "2001:db8:0:2::1").is_ok());
    }

    #[test]
    fn the_address_with_most_waiting_connections_is_evicted_first() {
        let limit = limit(100, 100);
        let origins = ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "10.0.0.3", "10.0.0.3"];
        let permits: Vec<_> =
            origins.into_iter().map(|origin| limit.acquire(address(origin)).unwrap()).collect();
        // Connections whose requests are being handled do not count.
        let _busy: Vec<_> = (0..9).map(|_| busy(&limit, "10.0.0.4").unwrap()).collect();
        assert_eq!(evicted_in_turn(&limit, &permits), [1, 2, 4, 0, 3, 5]);
    }

    #[test]
    fn address_at_its_limit_evicts_only_its_own_connections() {
        let limit = limit(100, 3);
        let _busy = [busy(&limit, "10.0.0.1").unwrap(), busy(&limit, "10.0.0.1").unwrap()];
        let others: Vec<_> = (0..3).map(|_| limit.acquire(address("10.0.0.2")).unwrap()).collect();
        let idle = limit.acquire(address("10.0.0.1")).unwrap();
        let _newcomer = busy(&limit, "10.0.0.1").unwrap();
        assert!(!is_open(&idle) && others.iter().all(is_open));
        assert_eq!(limit.acquire(address("10.0.0.1")).unwrap_err(), Full::Address);
    }

    #[test]
    fn idle_is_evicted_before_headers_then_bodies_then_unread_answers() {
        let limit = limit(100, 100);
        let permits: Vec<_> = (0..7).map(|_| limit.acquire(address("10.0.0.1")).unwrap()).collect();
        let activity = |n: usize| permits[n].activity();
        assert!(activity(0).begin_handling());
        activity(0).responding();
        activity(0).unread();
        assert!(activity(1).begin_handling());
        activity(1).awaits_body();
        activity(2).received();
        activity(3).handshake_started();
        use_once(&permits[4]);
        assert!(activity(6).begin_handling());
        // Index 5 never sent a byte and was accepted before index 4 was used; index 6 is being handled.
        assert_eq!(evicted_in_turn(&limit, &permits), [5, 4, 2, 3, 1, 0]);
    }

    #[test]
    fn least_recently_used_is_evicted_first_and_a_single_byte_is_no_use() {
        let limit = limit(100, 100);
        let permits: Vec<_> = (0..4).map(|_| limit.acquire(address("10.0.0.1")).unwrap()).collect();
        use_once(&permits[2]);
        permits[2].activity().received();
        permits[3].activity().received();
        use_once(&permits[1]);
        use_once(&permits[0]);
        assert_eq!(evicted_in_turn(&limit, &permits), [1, 0, 3, 2]);
    }

    #[test]
    fn handling_and_answering_connections_are_never_evicted() {
        let limit = limit(2, 2);
        let answering = busy(&limit, "10.0.0.1").unwrap();
        answering.activity().responding();
        let handling = busy(&limit, "10.0.0.1").unwrap();
        handling.activity().awaits_body();
        assert!(handling.activity().received_body());
        assert!(!limit.make_room());
        assert_eq!(limit.acquire(address("10.0.0.2")).unwrap_err(), Full::Listener);
        // Once its response is sent the client is idle, and another connection replaces it.
        answering.activity().sent_all();
        let _other = limit.acquire(address("10.0.0.2")).unwrap();
        assert!(!is_open(&answering) && is_open(&handling));
    }

    #[test]
    fn evicted_connection_handles_no_request() {
        let limit = limit(1, 1);
        let first = limit.acquire(address("10.0.0.1")).unwrap();
        let _second = limit.acquire(address("10.0.0.2")).unwrap();
        first.activity().received();
        assert!(!first.activity().begin_handling() && !first.activity().received_body());
        first.activity().responding();
        first.activity().sent_all();
        assert!(!first.activity().begin_handling());
    }
}
