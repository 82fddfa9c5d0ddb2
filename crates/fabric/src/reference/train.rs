//! Lists the packets of a message in the order in which they are sent.

use xoff_wire::{ICRC_LEN, IPV4_LEN, IPV6_LEN, Opcode};

use super::pipeline::EqualLengthPackets;
use crate::packet_lengths::PacketLengths;
use xoff_host::FixedLengths;
use xoff_rdma::{Transport, Verb};

/// Properties of the frames of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameFormat {
    pub(super) mtu: u32,
    pub(super) ipv6: bool,
    pub(super) transport: Transport,
    pub(super) verb: Verb,
    /// Packet lengths over IPv4.
    pub(super) lengths: PacketLengths,
    /// Packet lengths of another simulator, if the host uses them.
    pub(super) fixed: Option<FixedLengths>,
}

impl FrameFormat {
    /// Returns the length of a READ request in bytes, without FCS.
    pub(super) fn request_len(&self) -> u32 {
        self.frame_len(Opcode::RcReadRequest, 0)
    }

    fn frame_len(&self, opcode: Opcode, payload: u32) -> u32 {
        let ipv6 = if self.ipv6 { IPV6_LEN - IPV4_LEN } else { 0 };
        let own = self.lengths.frame_len(opcode, payload) + ipv6 as u32;
        let Some(fixed) = self.fixed else { return own };
        let padded = payload.next_multiple_of(4) + ICRC_LEN as u32;
        // The length of the other simulator replaces the real length, except for telemetry.
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

    /// Returns the packets of a message of `bytes` bytes in sending order. The bytes are divided evenly among
    /// `queue_pairs` queue pairs, which send in turn.
    pub(super) fn train(&self, bytes: u64, queue_pairs: u64) -> Vec<EqualLengthPackets> {
        let queue_pairs = queue_pairs.max(1);
        let longer = QueuePairMessagePart::new(bytes / queue_pairs + 1, self.mtu);
        let shorter = QueuePairMessagePart::new(bytes / queue_pairs, self.mtu);
        let groups = [
            (longer, bytes % queue_pairs),
            (shorter, queue_pairs - bytes % queue_pairs),
        ];
        let mut train = Vec::new();
        // The shorter shares have equal packets from the second packet to the last packet but one.
        let equal = shorter.packets.saturating_sub(2);
        let rounds = if !bytes.is_multiple_of(queue_pairs) {
            longer.packets
        } else {
            shorter.packets
        };
        let mut round = 1;
        while round <= rounds {
            let repeated = if round == 2 { equal.max(1) } else { 1 };
            for (share, count) in groups {
                if round <= share.packets {
                    train.push(EqualLengthPackets {
                        frame_len: self.packet_len(&share, round),
                        count: count * repeated,
                    });
                }
            }
            round += repeated;
        }
        train
    }

    fn packet_len(&self, share: &QueuePairMessagePart, number: u64) -> u32 {
        let (first, last) = (number == 1, number == share.packets);
        let payload = if last { share.last } else { self.mtu };
        self.frame_len(self.opcode(first, last), payload)
    }
}

/// Packets of one queue pair for its share of a message.
#[derive(Clone, Copy, Debug)]
struct QueuePairMessagePart {
    packets: u64,
    /// Payload of the last packet in bytes.
    last: u32,
}

impl QueuePairMessagePart {
    fn new(bytes: u64, mtu: u32) -> QueuePairMessagePart {
        let mtu = u64::from(mtu.max(1));
        let packets = bytes.div_ceil(mtu).max(1);
        QueuePairMessagePart {
            packets,
            last: (bytes - (packets - 1) * mtu) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(transport: Transport, verb: Verb) -> FrameFormat {
        FrameFormat {
            mtu: 1000,
            ipv6: false,
            transport,
            verb,
            lengths: PacketLengths::default(),
            fixed: None,
        }
    }

    fn lengths(framing: &FrameFormat, bytes: u64, queue_pairs: u64) -> Vec<(u32, u64)> {
        let runs = framing.train(bytes, queue_pairs);
        let full = runs.iter().filter(|run| run.count > 0);
        full.map(|run| (run.frame_len, run.count)).collect()
    }

    #[test]
    fn headers_depend_on_the_position_of_the_packet() {
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
    fn queue_pairs_send_in_turn() {
        let send = framing(Transport::Rc, Verb::Send);
        assert_eq!(lengths(&send, 7, 3), [(62, 1), (62, 2)]);
        // Two queue pairs send two packets, and one sends three.
        assert_eq!(
            lengths(&send, 6001, 3),
            [(1058, 1), (1058, 2), (1058, 1), (1058, 2), (62, 1)]
        );
        let packets: u64 = send.train(1_000_000, 7).iter().map(|run| run.count).sum();
        assert_eq!(packets, 7 * 143);
    }
}
