//! Queue pairs of the connections of jobs, in few cache lines.
//!
//! A completion needs the role of a queue pair and the state of its pair, and a message needs its connection and a
//! pair. A large fabric has many thousands of each, so each of these is one element of one list.

use std::num::NonZeroU64;

use xoff_rdma::{InlineQueue, QpIndex, Verb as RdmaVerb};
use xoff_workload::{Connection, MessageId, Verb, Workload};

use super::transport::{ReferenceTransport, request_bytes_max};

/// Role of a queue pair in its connected pair.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueuePairRole {
    /// Index of the pair ([`JobQueuePairs::pair`]).
    pub(super) pair: u32,
    /// True if this queue pair posts the messages of the connection. False for the peer of such a queue pair.
    pub(super) posts: bool,
    /// True if this queue pair posts READs.
    pub(super) reads: bool,
}

/// Two connected queue pairs. Both belong to one connection.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct ConnectedPair {
    /// The messages that have not arrived yet, in the order of posting.
    expected: InlineQueue<ExpectedMessage, 3>,
    /// Index in [`Workload::connections`].
    pub(super) connection: u32,
    /// The queue pair that posts.
    pub(super) poster_qp: QpIndex,
}

const _: () = assert!(size_of::<ConnectedPair>() == 64);

/// The identifier of a message, plus 1, so that an empty place of a queue needs no space of its own.
#[derive(Clone, Copy, Debug)]
struct ExpectedMessage(NonZeroU64);

impl ConnectedPair {
    /// Adds a message that has been posted.
    #[inline]
    pub(super) fn expect(&mut self, message: MessageId) {
        let number = NonZeroU64::MIN.saturating_add(message.0);
        self.expected.push_back(ExpectedMessage(number));
    }

    /// Removes the message that arrives next. Returns `None` if none is expected.
    #[inline]
    pub(super) fn take_expected(&mut self) -> Option<MessageId> {
        let expected = self.expected.pop_front()?;
        Some(MessageId(expected.0.get() - 1))
    }
}

/// The pairs of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionPairs {
    /// Host that posts the messages: the source, or the destination for READs.
    pub(super) poster: u32,
    /// Index of the first pair. The other pairs of the connection follow.
    pub(super) first_pair: u32,
    /// Largest length of a work request in bytes.
    pub(super) request_bytes_max: u64,
    /// Number of pairs.
    pub(super) count: u16,
    /// Pair of the next message that is not split, with round-robin.
    next: u16,
}

impl ConnectionPairs {
    /// Returns the pair that carries the next message that is not split, counted from the first pair of the connection.
    #[inline]
    pub(super) fn take_next(&mut self) -> u16 {
        let pair = self.next;
        self.next = match pair + 1 {
            next if next >= self.count => 0,
            next => next,
        };
        pair
    }
}

/// The queue pairs of all connections.
#[derive(Debug)]
pub(super) struct JobQueuePairs {
    /// By index in [`Workload::connections`].
    connections: Vec<ConnectionPairs>,
    pairs: Vec<ConnectedPair>,
    /// Roles of all queue pairs, by host and then by [`QpIndex`].
    roles: Vec<QueuePairRole>,
    /// For each host: the index of its first role. One more element is the number of all roles.
    first_roles: Vec<u32>,
}

impl JobQueuePairs {
    /// Prepares the connections of a workload. The caller then adds each pair ([`JobQueuePairs::add`]), in the order of
    /// the connections.
    pub(super) fn new(workload: &Workload, transports: &[ReferenceTransport], hosts: usize) -> JobQueuePairs {
        let mut connections = Vec::with_capacity(workload.connections().len());
        let mut first_roles = vec![0; hosts + 1];
        let mut pairs = 0;
        for connection in workload.connections() {
            let verb = workload.job_verb(connection.job);
            let transport = transports.get(connection.transport);
            connections.push(ConnectionPairs {
                poster: poster_and_peer(connection, verb == Verb::Read).0,
                first_pair: pairs,
                request_bytes_max: transport.map_or(u64::MAX, |transport| {
                    request_bytes_max(transport, rdma_verb(verb))
                }),
                count: connection.qps,
                next: 0,
            });
            pairs += u32::from(connection.qps);
            for host in [connection.src, connection.dst] {
                first_roles[host as usize + 1] += u32::from(connection.qps);
            }
        }
        let mut roles = 0;
        for first in &mut first_roles {
            roles += *first;
            *first = roles;
        }
        JobQueuePairs {
            connections,
            pairs: Vec::with_capacity(pairs as usize),
            roles: vec![QueuePairRole::default(); roles as usize],
            first_roles,
        }
    }

    /// Adds the pair that follows the pairs added before. `poster` and `peer` are its two ends. Each end consists of a
    /// host and a queue pair of this host.
    pub(super) fn add(
        &mut self,
        connection: u32,
        poster: (u32, QpIndex),
        peer: (u32, QpIndex),
        is_read: bool,
    ) {
        let pair = self.pairs.len() as u32;
        self.pairs.push(ConnectedPair {
            expected: InlineQueue::default(),
            connection,
            poster_qp: poster.1,
        });
        for ((host, qp), posts) in [(poster, true), (peer, false)] {
            let index = self.first_roles[host as usize] + qp.0;
            self.roles[index as usize] = QueuePairRole {
                pair,
                posts,
                reads: posts && is_read,
            };
        }
    }

    /// Returns the number of hosts.
    pub(super) fn host_count(&self) -> usize {
        self.first_roles.len() - 1
    }

    /// Returns the roles of the queue pairs of a host, by [`QpIndex`].
    pub(super) fn roles_at(&self, host: usize) -> &[QueuePairRole] {
        &self.roles[self.first_roles[host] as usize..self.first_roles[host + 1] as usize]
    }

    /// Returns the role of a queue pair. Returns `None` if no connection uses it.
    #[inline]
    pub(super) fn role(&self, host: usize, qp: QpIndex) -> Option<QueuePairRole> {
        self.roles_at(host).get(qp.0 as usize).copied()
    }

    #[inline]
    pub(super) fn pair(&self, index: u32) -> &ConnectedPair {
        &self.pairs[index as usize]
    }

    #[inline]
    pub(super) fn pair_mut(&mut self, index: u32) -> &mut ConnectedPair {
        &mut self.pairs[index as usize]
    }

    /// Returns the pairs of a connection.
    #[inline]
    pub(super) fn connection_mut(&mut self, index: u32) -> &mut ConnectionPairs {
        &mut self.connections[index as usize]
    }
}

/// Returns the host that posts the messages of a connection, and the other host.
pub(super) fn poster_and_peer(connection: &Connection, is_read: bool) -> (u32, u32) {
    match is_read {
        false => (connection.src, connection.dst),
        true => (connection.dst, connection.src),
    }
}

/// Returns the operation of the RDMA transport.
pub(super) fn rdma_verb(verb: Verb) -> RdmaVerb {
    match verb {
        Verb::Send => RdmaVerb::Send,
        Verb::Write => RdmaVerb::Write,
        Verb::Read => RdmaVerb::Read,
    }
}
