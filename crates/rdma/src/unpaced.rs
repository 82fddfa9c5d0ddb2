//! Packets without pacing: acknowledgements, NAKs and CNPs.

use xoff_wire::bth::MASK_24;
use xoff_wire::{Aeth, Opcode, Syndrome};

use super::config::QpIndex;
use super::packet::{ExtensionHeader, Packet};
use super::telemetry::Telemetry;

/// Flag above the PSN: the packet is a CNP.
const CNP: u32 = 1 << 24;
/// Flag above the PSN: BECN bit of the BTH.
const BECN: u32 = 1 << 25;

/// A packet that leaves as soon as its NIC class may send.
///
/// All fields have 32 or 64 bits. A packet is often read directly after it was written, and a wide read after
/// narrow writes would stall the processor.
#[derive(Debug)]
pub(super) struct UnpacedPacket {
    pub(super) qp: QpIndex,
    /// PSN in the lower 24 bits, and the flags.
    psn_and_flags: u32,
    /// ACK extended transport header in wire format: syndrome in the upper 8 bits, message sequence number in
    /// the lower 24 bits.
    aeth: u32,
    /// Telemetry of the acknowledged packet. `None` without telemetry.
    pub(super) telemetry: Option<Box<Telemetry>>,
}

impl UnpacedPacket {
    /// Creates an acknowledgement or a NAK.
    #[inline]
    pub(super) fn acknowledge(
        qp: QpIndex,
        psn: u32,
        marked: bool,
        aeth: Aeth,
        telemetry: Option<Box<Telemetry>>,
    ) -> UnpacedPacket {
        UnpacedPacket {
            qp,
            psn_and_flags: psn & MASK_24 | if marked { BECN } else { 0 },
            aeth: u32::from(aeth.syndrome.code()) << 24 | aeth.msn & MASK_24,
            telemetry,
        }
    }

    /// Creates a congestion notification packet.
    pub(super) fn cnp(qp: QpIndex) -> UnpacedPacket {
        UnpacedPacket {
            qp,
            psn_and_flags: CNP | BECN,
            aeth: 0,
            telemetry: None,
        }
    }

    /// Builds the packet. `peer` is the number of the destination queue pair.
    #[inline]
    pub(super) fn to_packet(&self, peer: u32) -> Packet {
        let is_cnp = self.psn_and_flags & CNP != 0;
        Packet {
            opcode: if is_cnp {
                Opcode::Cnp
            } else {
                Opcode::RcAcknowledge
            },
            dst_qp: peer,
            psn: self.psn_and_flags & MASK_24,
            ack_req: false,
            becn: self.psn_and_flags & BECN != 0,
            payload_len: 0,
            header: match is_cnp {
                true => ExtensionHeader::None,
                false => ExtensionHeader::Aeth(Aeth {
                    syndrome: Syndrome::from_u8((self.aeth >> 24) as u8),
                    msn: self.aeth & MASK_24,
                }),
            },
        }
    }
}
