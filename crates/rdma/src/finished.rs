//! Packets that are not paced: acknowledgements, NAKs, CNPs.

use xoff_wire::bth::MASK_24;
use xoff_wire::{Aeth, Opcode, Syndrome};

use super::config::QpIndex;
use super::packet::{Header, Packet};
use super::telemetry::Telemetry;

/// Beside the PSN: a CNP; BTH's BECN bit.
const CNP: u32 = 1 << 24;
const BECN: u32 = 1 << 25;

/// A packet that only waits for its class to have the link. In whole words: half of them leave at once, and what is written in small
/// pieces and then read in large ones has to wait for the writes.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) qp: QpIndex,
    /// PSN, and what it is.
    what: u32,
    /// The extension header as on the wire: syndrome, then message sequence number.
    aeth: u32,
    /// The telemetry of the packet that it answers.
    pub(super) telemetry: Option<Box<Telemetry>>,
}

impl Finished {
    /// An acknowledgement or NAK.
    #[inline]
    pub(super) fn answer(
        qp: QpIndex,
        psn: u32,
        marked: bool,
        aeth: Aeth,
        telemetry: Option<Box<Telemetry>>,
    ) -> Finished {
        Finished {
            qp,
            what: psn & MASK_24 | if marked { BECN } else { 0 },
            aeth: u32::from(aeth.syndrome.code()) << 24 | aeth.msn & MASK_24,
            telemetry,
        }
    }

    /// A congestion notification.
    pub(super) fn cnp(qp: QpIndex) -> Finished {
        Finished {
            qp,
            what: CNP | BECN,
            aeth: 0,
            telemetry: None,
        }
    }

    /// The packet, to a peer.
    #[inline]
    pub(super) fn packet(&self, peer: u32) -> Packet {
        let is_cnp = self.what & CNP != 0;
        Packet {
            opcode: if is_cnp {
                Opcode::Cnp
            } else {
                Opcode::RcAcknowledge
            },
            dst_qp: peer,
            psn: self.what & MASK_24,
            ack_req: false,
            becn: self.what & BECN != 0,
            payload_len: 0,
            header: match is_cnp {
                true => Header::None,
                false => Header::Aeth(Aeth {
                    syndrome: Syndrome::from_u8((self.aeth >> 24) as u8),
                    msn: self.aeth & MASK_24,
                }),
            },
        }
    }
}
