//! The packets of a message, in the order in which its sender sends them.

use xoff_wire::{IPV4_LEN, IPV6_LEN, Opcode, icrc};

use super::pipeline::Run;
use crate::lengths::PacketLengths;
use xoff_host::FixedLengths;
use xoff_rdma::{Transport, Verb};

/// Frames of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Framing {
    pub(super) mtu: u32,
    pub(super) ipv6: bool,
    pub(super) transport: Transport,
    pub(super) verb: Verb,
    /// Lengths over IPv4.
    pub(super) lengths: PacketLengths,
    /// Of a host that has a simulator's lengths.
    pub(super) fixed: Option<FixedLengths>,
}

impl Framing {
    /// Length of the READ request that precedes the data, as a socket sees it.
    pub(super) fn request_len(&self) -> u32 {
        self.frame_len(Opcode::RcReadRequest, 0)
    }

    fn frame_len(&self, opcode: Opcode, payload: u32) -> u32 {
        let ipv6 = if self.ipv6 { IPV6_LEN - IPV4_LEN } else { 0 };
        let own = self.lengths.frame_len(opcode, payload) + ipv6 as u32;
        let Some(fixed) = self.fixed else { return own };
        let padded = payload.next_multiple_of(4) + icrc::LEN as u32;
        // A simulator's length replaces ours, but for telemetry.
        let telemetry = own - PacketLengths::default().frame_len(opcode, payload) - ipv6 as u32;
        (fixed.header_bytes + payload).max(own - telemetry - padded) + telemetry
    }

    fn opcode(&self, first: bool, last: bool) -> Opcode {
        match (self.transport, self.verb, first, last) {
            (Transport::Ud, ..) => Opcode::UdSendOnly,
            (_, Verb::Read, true, true) => Opcode::RcReadResponseOnly,
            (_, Verb::Read, true, false) => Opcode::RcReadResponseFirst,
            (_, Verb::Read, false, true) => Opcode::RcReadResponseLast,
            (_, Verb::Read, false, false) => Opcode::RcReadResponseMiddle,
            (_, Verb::Send, true, true) => Opcode::RcSendOnly,
            (_, Verb::Send, true, false) => Opcode::RcSendFirst,
            (_, Verb::Send, false, true) => Opcode::RcSendLast,
            (_, Verb::Send, false, false) => Opcode::RcSendMiddle,
            (_, Verb::Write, true, true) => Opcode::RcWriteOnly,
            (_, Verb::Write, true, false) => Opcode::RcWriteFirst,
            (_, Verb::Write, false, true) => Opcode::RcWriteLast,
            (_, Verb::Write, false, false) => Opcode::RcWriteMiddle,
        }
    }

    /// Frames of `bytes` that are divided evenly over `parts` queue pairs, which take turns.
    pub(super) fn train(&self, bytes: u64, parts: u64) -> Vec<Run> {
        let parts = parts.max(1);
        let longer = Part::new(bytes / parts + 1, self.mtu);
        let shorter = Part::new(bytes / parts, self.mtu);
        let groups = [(longer, bytes % parts), (shorter, parts - bytes % parts)];
        let mut train = Vec::new();
        // The second packet to the last but one of the shorter parts: all are equal.
        let equal = shorter.packets.saturating_sub(2);
        let rounds = if !bytes.is_multiple_of(parts) {
            longer.packets
        } else {
            shorter.packets
        };
        let mut round = 1;
        while round <= rounds {
            let repeated = if round == 2 { equal.max(1) } else { 1 };
            for (part, count) in groups {
                if round <= part.packets {
                    train.push(Run {
                        frame_len: self.packet_len(&part, round),
                        count: count * repeated,
                    });
                }
            }
            round += repeated;
        }
        train
    }

    fn packet_len(&self, part: &Part, number: u64) -> u32 {
        let (first, last) = (number == 1, number == part.packets);
        let payload = if last { part.last } else { self.mtu };
        self.frame_len(self.opcode(first, last), payload)
    }
}

/// What one queue pair carries.
#[derive(Clone, Copy, Debug)]
struct Part {
    packets: u64,
    /// Payload of the last one.
    last: u32,
}

impl Part {
    fn new(bytes: u64, mtu: u32) -> Part {
        let mtu = u64::from(mtu.max(1));
        let packets = bytes.div_ceil(mtu).max(1);
        Part {
            packets,
            last: (bytes - (packets - 1) * mtu) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(transport: Transport, verb: Verb) -> Framing {
        Framing {
            mtu: 1000,
            ipv6: false,
            transport,
            verb,
            lengths: PacketLengths::default(),
            fixed: None,
        }
    }

    fn lengths(framing: &Framing, bytes: u64, parts: u64) -> Vec<(u32, u64)> {
        let runs = framing.train(bytes, parts);
        let full = runs.iter().filter(|run| run.count > 0);
        full.map(|run| (run.frame_len, run.count)).collect()
    }

    #[test]
    fn headers_are_those_of_the_first_the_middle_and_the_last_packet() {
        let write = framing(Transport::Rc, Verb::Write);
        assert_eq!(lengths(&write, 0, 1), [(74, 1)]);
        assert_eq!(lengths(&write, 501, 1), [(74 + 504, 1)]);
        assert_eq!(lengths(&write, 1001, 1), [(1074, 1), (62, 1)]);
        assert_eq!(lengths(&write, 4040, 1), [(1074, 1), (1058, 3), (98, 1)]);
        assert_eq!(
            lengths(&framing(Transport::Uc, Verb::Send), 3000, 1),
            [(1058, 1), (1058, 1), (1058, 1)]
        );
        assert_eq!(lengths(&framing(Transport::Ud, Verb::Send), 8, 1), [(74, 1)]);
        let read = framing(Transport::Rc, Verb::Read);
        assert_eq!(lengths(&read, 3001, 1), [(1062, 1), (1058, 2), (66, 1)]);
        assert_eq!(read.request_len(), 74);
    }

    #[test]
    fn queue_pairs_take_turns() {
        let send = framing(Transport::Rc, Verb::Send);
        assert_eq!(lengths(&send, 7, 3), [(62, 1), (62, 2)]);
        // Two parts of two packets, one of three.
        assert_eq!(
            lengths(&send, 6001, 3),
            [(1058, 1), (1058, 2), (1058, 1), (1058, 2), (62, 1)]
        );
        let packets: u64 = send.train(1_000_000, 7).iter().map(|run| run.count).sum();
        assert_eq!(packets, 7 * 143);
    }
}
