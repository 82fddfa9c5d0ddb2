//! What the CPU has answered, and what it has not.

use super::icmp::{IcmpError, Suppression};

/// Counted since the start, in frames and packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuCounters {
    /// Answers to ARP requests.
    pub arp_replies: u64,
    /// Answers to neighbour solicitations.
    pub neighbour_adverts: u64,
    /// Frames of ARP and neighbour discovery that ask for nothing that is ours, or are malformed.
    pub neighbour_ignored: u64,
    /// Answers to echo requests, ICMP and ICMPv6.
    pub echo_replies: u64,
    /// TCP segments refused.
    pub tcp_resets: u64,
    /// Parameter problems, and refusals of packets that came in fragments.
    pub other_replies: u64,
    /// Packets to the switch without an answer: malformed, answers themselves, fragments that wait for their rest.
    pub local_ignored: u64,
    /// Frames of protocols that nothing here speaks.
    pub protocol_ignored: u64,
    /// ICMP errors, by [`IcmpError::index`].
    pub errors: [u64; IcmpError::COUNT],
    /// ICMP errors that were not to be sent, by [`Suppression`].
    pub suppressed: [u64; Suppression::COUNT],
    /// Replies that could not be sent: no frame slot, no way out.
    pub unsent: u64,
}

/// What the endpoint has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Echo,
    Reset,
    Other,
}

impl CpuCounters {
    pub(super) fn of(&mut self, answer: Answer) -> &mut u64 {
        match answer {
            Answer::Echo => &mut self.echo_replies,
            Answer::Reset => &mut self.tcp_resets,
            Answer::Other => &mut self.other_replies,
        }
    }

    /// ICMP errors of all kinds.
    pub fn errors_sent(&self) -> u64 {
        self.errors.iter().sum()
    }

    /// ICMP errors of all kinds that were not to be sent.
    pub fn errors_suppressed(&self) -> u64 {
        self.suppressed.iter().sum()
    }

    /// What was sent or should have been, under names for reports.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let answers = [
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
        let suppressed = Suppression::ALL.iter().map(|rule| rule.name());
        answers
            .into_iter()
            .chain(errors)
            .chain(suppressed.zip(self.suppressed))
    }
}
