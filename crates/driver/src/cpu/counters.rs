//! Counters of the replies and ICMP errors of the CPU stack.

use super::icmp::{IcmpError, IcmpErrorSuppressionReason};

/// Numbers of replies, ignored frames and ICMP errors since the CPU stack was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuCounters {
    /// Replies to ARP requests.
    pub arp_replies: u64,
    /// Neighbour advertisements in reply to neighbour solicitations (IPv6).
    pub neighbour_adverts: u64,
    /// Number of ARP and neighbour discovery frames without a reply. These frames are malformed or do not ask
    /// for an address of the switch.
    pub neighbour_ignored: u64,
    /// Replies to echo requests of ICMP and ICMPv6.
    pub echo_replies: u64,
    /// TCP segments that the CPU stack answered with a reset.
    pub tcp_resets: u64,
    /// Other replies: ICMPv6 parameter problems, and ICMP errors about IPv4 packets that arrived
    /// in fragments.
    pub other_replies: u64,
    /// Number of packets to the switch that got no reply. Examples are malformed packets, echo replies, and
    /// fragments of incomplete packets.
    pub local_ignored: u64,
    /// Frames of protocols that the CPU stack does not implement, such as LACP.
    pub protocol_ignored: u64,
    /// Sent ICMP errors, indexed by [`IcmpError::index`].
    pub errors: [u64; IcmpError::COUNT],
    /// ICMP errors that were not sent. The index is the number of the [`IcmpErrorSuppressionReason`]: the
    /// rule that forbade the error.
    pub suppressed: [u64; IcmpErrorSuppressionReason::COUNT],
    /// Number of replies that were not sent for lack of a free frame slot or an egress port. Punted frames
    /// that the driver dropped are also counted ([`CpuPort::answer_punts`](crate::CpuPort::answer_punts)).
    pub unsent: u64,
}

/// The kind of a reply from the smoltcp stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyKind {
    Echo,
    TcpReset,
    Other,
}

impl CpuCounters {
    /// Returns the counter of a kind of reply.
    pub(super) fn reply_counter_mut(&mut self, kind: ReplyKind) -> &mut u64 {
        match kind {
            ReplyKind::Echo => &mut self.echo_replies,
            ReplyKind::TcpReset => &mut self.tcp_resets,
            ReplyKind::Other => &mut self.other_replies,
        }
    }

    /// Returns the number of sent ICMP errors of all kinds.
    pub fn errors_sent(&self) -> u64 {
        self.errors.iter().sum()
    }

    /// Returns the number of ICMP errors that were not sent, as the sum over all rules of
    /// [`IcmpErrorSuppressionReason`].
    pub fn errors_suppressed(&self) -> u64 {
        self.suppressed.iter().sum()
    }

    /// Returns the name of each counter in reports and its value.
    pub fn named_counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let replies = [
            ("arp_replies", self.arp_replies),
            ("neighbour_adverts", self.neighbour_adverts),
            ("neighbour_ignored", self.neighbour_ignored),
            ("echo_replies", self.echo_replies),
            ("tcp_resets", self.tcp_resets),
            ("other_replies", self.other_replies),
            ("local_ignored", self.local_ignored),
            ("protocol_ignored", self.protocol_ignored),
            ("unsent", self.unsent),
        ];
        let errors = IcmpError::NAMES.iter().copied().zip(self.errors);
        let suppressed = IcmpErrorSuppressionReason::ALL.iter().map(|rule| rule.name());
        replies
            .into_iter()
            .chain(errors)
            .chain(suppressed.zip(self.suppressed))
    }
}
