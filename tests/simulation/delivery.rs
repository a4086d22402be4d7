//! The delivery of one message, with the faults that it meets.

use crate::faults::Fault;
use crate::gaps::Gap;
use crate::network::{Body, Claim, Handled, Message, Origin, Peer};
use crate::world::{N_REPLICAS, World};
use gateway_domain::approval::limits::CLOCK_SKEW_MS;
use gateway_domain::ids::OperationId;
use gateway_domain::node_log::LogEntry;
use gateway_engine::ports::ReadClock as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The longest delay, in turns.
const DELAY_MAX: usize = 80;

/// The longest outage of a process or a connection, in turns.
const OUTAGE_MAX: usize = 400;

/// The part of a database file that can still be written when its disk fails, in bytes: less than the log's header and one page.
const WRITABLE_BYTES: u64 = 33;

/// Faults that a request to each part can meet.
const NODE_FAULTS: [Fault; 10] = [
    Fault::RequestLost,
    Fault::ReplyLost,
    Fault::RequestDelayed,
    Fault::ReplyDelayed,
    Fault::RequestDuplicated,
    Fault::NodeCrashBefore,
    Fault::NodeCrashAfter,
    Fault::NodeDiskError,
    Fault::GatewayCrashBefore,
    Fault::GatewayCrashAfter,
];
const STORE_FAULTS: [Fault; 4] =
    [Fault::GatewayCrashBefore, Fault::GatewayCrashAfter, Fault::StoreDiskError, Fault::StoreReplyLost];
const READ_FAULTS: [Fault; 2] = [Fault::GatewayCrashBefore, Fault::StoreReplyLost];
const AUTHORITY_FAULTS: [Fault; 5] = [
    Fault::RequestLost,
    Fault::ReplyLost,
    Fault::ReplyDelayed,
    Fault::GatewayCrashBefore,
    Fault::GatewayCrashAfter,
];

/// What the trace names of a message.
struct Named {
    origin: Origin,
    peer: Peer,
    point: &'static str,
    operation: Option<OperationId>,
}

impl World<'_> {
    /// Delivers the message, judges what it did, and lets its replica go on.
    pub(crate) fn deliver(&mut self, message: Message) {
        self.counts.n_messages += 1;
        let replica = message.origin.replica;
        let is_for_us = message.origin == self.replicas[replica].origin;
        let Message { origin, peer, point, operation, .. } = message;
        let fault = if message.is_late { None } else { self.fault_for(&message) };
        let named = Named { origin, peer, point, operation };
        let outcome = if let Some(fault) = fault {
            self.met.push((fault, point, operation));
            let outcome = self.deliver_with(fault, message);
            format!("{} {outcome}", fault.name())
        } else {
            self.deliver_plainly(message)
        };
        self.log_line(&named, &outcome);
        if is_for_us {
            self.replicas[replica].settle();
        }
        self.collect();
    }

    fn log_line(&mut self, named: &Named, outcome: &str) {
        let number = named.operation.and_then(|id| self.orders.get(&id)).map_or(0, |order| order.number);
        let Named { origin, peer, point, .. } = named;
        self.trace.line(format!(
            "{} replica {}.{} {peer:?} {point} op{number}: {outcome}",
            self.turn, origin.replica, origin.incarnation
        ));
    }

    fn fault_for(&mut self, message: &Message) -> Option<Fault> {
        if let Peer::Node(index) = message.peer
            && self.partitions.get(&(message.origin.replica, index)).is_some_and(|until| *until > self.turn)
            && !matches!(message.body, Body::Answer(_))
        {
            return Some(Fault::Partition);
        }
        if message.peer == Peer::Authority && self.authority_down_until > self.turn {
            return Some(Fault::AuthorityDown);
        }
        if !self.chance.one_in(self.weather) {
            return None;
        }
        match (&message.body, message.peer) {
            (Body::Answer(_), _) => None,
            (_, Peer::Node(_)) => Some(*self.chance.pick(&NODE_FAULTS)),
            (_, Peer::Authority) => Some(*self.chance.pick(&AUTHORITY_FAULTS)),
            // Reads are most of the messages to the store.
            (_, Peer::Store) if message.point == "read" => {
                self.chance.one_in(10).then(|| *self.chance.pick(&READ_FAULTS))
            }
            (_, Peer::Store) => Some(*self.chance.pick(&STORE_FAULTS)),
        }
    }

    fn deliver_plainly(&mut self, message: Message) -> String {
        let fail = message.fail.clone();
        if let Body::Answer(hand_over) = message.body {
            hand_over();
            return "answer".to_owned();
        }
        match self.handle(message) {
            Some(Handled { outcome, hand_over }) => {
                hand_over();
                outcome
            }
            None => {
                fail();
                "down".to_owned()
            }
        }
    }

    fn deliver_with(&mut self, fault: Fault, mut message: Message) -> String {
        let (fail, replica) = (message.fail.clone(), message.origin.replica);
        match fault {
            Fault::RequestLost | Fault::Partition | Fault::AuthorityDown => {
                fail();
                "not delivered".to_owned()
            }
            Fault::RequestDelayed => {
                fail();
                message.is_late = true;
                message.due = self.turn + self.delay(DELAY_MAX);
                self.network.send(message);
                "not delivered yet".to_owned()
            }
            Fault::ReplyLost | Fault::StoreReplyLost => {
                let outcome = self.handle(message).map(|handled| handled.outcome);
                fail();
                outcome.unwrap_or_else(|| "down".to_owned())
            }
            Fault::ReplyDelayed => self.deliver_and_delay_reply(message),
            Fault::RequestDuplicated => {
                if let Body::Node(work) = &message.body {
                    let again = Message {
                        due: self.turn + self.delay(DELAY_MAX),
                        origin: message.origin,
                        peer: message.peer,
                        point: message.point,
                        operation: message.operation,
                        claim: message.claim.clone(),
                        size_shown: message.size_shown,
                        body: Body::Node(work.clone()),
                        fail: fail.clone(),
                        is_late: true,
                    };
                    self.network.send(again);
                }
                self.deliver_plainly(message)
            }
            Fault::NodeCrashBefore | Fault::NodeCrashAfter => self.deliver_and_crash_node(fault, message),
            Fault::NodeDiskError | Fault::StoreDiskError => {
                let limit = getrlimit(Resource::Fsize);
                setrlimit(Resource::Fsize, Rlimit { current: Some(WRITABLE_BYTES), ..limit }).unwrap();
                let outcome = self.deliver_plainly(message);
                setrlimit(Resource::Fsize, limit).unwrap();
                outcome
            }
            Fault::GatewayCrashBefore => {
                message.is_late = true;
                self.network.send(message);
                self.crash_replica(replica);
                "the replica dies".to_owned()
            }
            Fault::GatewayCrashAfter => {
                let outcome = self.handle(message).map_or_else(|| "down".to_owned(), |done| done.outcome);
                self.crash_replica(replica);
                outcome
            }
            Fault::NodeRestored | Fault::MachineRestored | Fault::ClockJump | Fault::ClientRetry => {
                self.deliver_plainly(message)
            }
        }
    }

    fn deliver_and_delay_reply(&mut self, message: Message) -> String {
        let due = self.turn + self.delay(DELAY_MAX);
        let Message { origin, peer, point, operation, .. } = message;
        let fail = message.fail.clone();
        let Some(Handled { outcome, hand_over }) = self.handle(message) else {
            fail();
            return "down".to_owned();
        };
        let body = Body::Answer(hand_over);
        let claim = Claim::Nothing;
        let (size_shown, is_late) = (0, true);
        self.network.send(Message {
            due,
            origin,
            peer,
            point,
            operation,
            claim,
            size_shown,
            body,
            fail,
            is_late,
        });
        outcome
    }

    fn deliver_and_crash_node(&mut self, fault: Fault, message: Message) -> String {
        let (fail, peer) = (message.fail.clone(), message.peer);
        let outcome = match fault {
            Fault::NodeCrashAfter => self.handle(message).map(|handled| handled.outcome),
            _ => None,
        };
        if let Peer::Node(index) = peer {
            let starts_at = self.turn + self.delay(OUTAGE_MAX);
            self.machines[usize::from(index)].crash(self.shared, starts_at);
        }
        fail();
        outcome.unwrap_or_else(|| "not handled".to_owned())
    }

    fn delay(&mut self, max: usize) -> u64 {
        1 + u64::try_from(self.chance.below(max)).unwrap()
    }

    /// Runs the request at its part, and judges it. `None` if the part is down.
    fn handle(&mut self, message: Message) -> Option<Handled> {
        let Message { peer, claim, operation, size_shown, body, .. } = message;
        let io = &self.shared.io;
        let handled = match (body, peer) {
            (Body::Node(work), Peer::Node(index)) => {
                let node = self.machines[usize::from(index)].node()?.clone();
                io.block_on(work(node))
            }
            (Body::Store(work), _) => io.block_on(work(self.store.clone())),
            (Body::Authority(work), _) => io.block_on(work(self.authority.clone())),
            (Body::Answer(hand_over), _) => Handled { outcome: "answer".to_owned(), hand_over },
            (Body::Node(_), Peer::Store | Peer::Authority) => return None,
        };
        if let Peer::Node(index) = peer {
            self.read_log(index, size_shown);
        }
        if handled.outcome == "ok" {
            match (claim, peer, operation) {
                (Claim::Commit(commit), ..) => self.judge.committed(&commit),
                (Claim::Share { commitments, package_hash }, Peer::Node(index), Some(id)) => {
                    self.judge.returned_share(index, id, commitments, package_hash);
                }
                (Claim::Share { .. } | Claim::Nothing, ..) => {}
            }
        }
        Some(handled)
    }

    /// Judges the new entries of a node's log. A request that showed the node a receipt beyond its log adds none.
    pub(crate) fn read_log(&mut self, index: u16, size_shown: u64) {
        let machine = &mut self.machines[usize::from(index)];
        let n_stored = machine.n_stored;
        let is_shown = size_shown > u64::try_from(n_stored).unwrap();
        for entry in machine.new_entries(self.shared) {
            let position = usize::try_from(entry.log_index()).unwrap();
            if position < machine.entries.len() {
                let is_receipt = matches!(entry, LogEntry::Receipt { .. });
                if is_receipt && machine.entries[position] != entry {
                    let details = format!("node {index} has two entries at position {position}");
                    if is_shown {
                        self.judge.violation("rollback", details);
                    } else {
                        self.judge.gaps.push((Gap::UnnoticedRollback, details));
                        let forgotten = machine.entries.split_at(n_stored).1;
                        self.judge.forgot(forgotten);
                    }
                    self.judge.logged(&entry, &self.orders);
                }
                continue;
            }
            machine.entries.push(entry.clone());
            self.judge.logged(&entry, &self.orders);
        }
    }

    /// Faults that meet no message: processes start again, connections break, clocks jump, a database is restored.
    pub(crate) fn upset(&mut self) {
        for index in 0..self.machines.len() {
            let machine = &mut self.machines[index];
            if machine.node().is_none() && machine.starts_at <= self.turn {
                machine.open(self.shared);
                self.trace.line(format!("{} node {index} starts", self.turn));
            }
            if self.machines[index].node().is_some_and(|node| node.is_stopped()) && self.chance.one_in(200) {
                self.readmit(index);
            }
        }
        if self.weather == 0 || !self.chance.one_in(self.weather * 4) {
            return;
        }
        match self.chance.below(8) {
            0 | 1 => {
                let replica = self.chance.below(N_REPLICAS);
                let node = u16::try_from(self.chance.below(self.machines.len())).unwrap();
                let until = self.turn + self.delay(OUTAGE_MAX);
                self.partitions.insert((replica, node), until);
                self.trace.line(format!("{} replica {replica} and node {node} are parted", self.turn));
            }
            2 => {
                self.authority_down_until = self.turn + self.delay(OUTAGE_MAX);
                self.trace.line(format!("{} the authority is down", self.turn));
            }
            3 => self.jump_clock(),
            4 => {
                let index = self.chance.below(self.machines.len());
                let starts_at = self.turn + self.delay(OUTAGE_MAX);
                self.machines[index].crash(self.shared, starts_at);
                self.met.push((Fault::NodeCrashBefore, "idle", None));
                self.trace.line(format!("{} node {index} crashes", self.turn));
            }
            5 => {
                let replica = self.chance.below(N_REPLICAS);
                self.met.push((Fault::GatewayCrashBefore, "idle", None));
                self.crash_replica(replica);
            }
            _ => self.age_or_restore(),
        }
    }

    fn jump_clock(&mut self) {
        let errors = [0, 0, 60_000, -60_000, 240_000, -240_000, 1_200_000, -1_200_000];
        let error = *self.chance.pick(&errors);
        let process = self.chance.below(self.machines.len() + N_REPLICAS + 1);
        let clock = match process.checked_sub(self.machines.len()) {
            None => &self.machines[process].clock,
            Some(replica) if replica < N_REPLICAS => &self.replicas[replica].clock,
            Some(_) => &self.authority.clock,
        };
        clock.set_error(error);
        self.met.push((Fault::ClockJump, "idle", None));
        self.trace.line(format!("{} the clock of process {process} errs by {error} ms", self.turn));
    }

    /// Takes a copy of one node's database, or puts an earlier one back. One node in a run: of two of three holders, one may forget.
    fn age_or_restore(&mut self) {
        let index = usize::try_from(self.seed % u64::try_from(self.machines.len()).unwrap()).unwrap();
        if self.machines[index].node().is_none_or(|node| node.is_stopped()) {
            return;
        }
        if !self.machines[index].has_image {
            self.machines[index].keep_image();
            return;
        }
        let is_whole = self.chance.one_in(2);
        self.machines[index].restore(self.shared, is_whole);
        let (fault, what) = match is_whole {
            true => (Fault::MachineRestored, "machine"),
            false => (Fault::NodeRestored, "database"),
        };
        self.met.push((fault, "idle", None));
        self.trace.line(format!("{} the {what} of node {index} is restored from an older copy", self.turn));
    }

    pub(crate) fn readmit(&mut self, index: usize) {
        self.machines[index].readmit(self.shared, self.clock.now());
        // Nodes take decisions from five minutes before: without this pause, the node refuses most of what follows.
        if !self.chance.one_in(4) {
            self.clock.advance(CLOCK_SKEW_MS);
        }
        self.trace.line(format!("{} node {index} is readmitted", self.turn));
        self.read_log(u16::try_from(index).unwrap(), 0);
    }
}
