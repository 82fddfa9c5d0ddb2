//! RoCEv2 packets as the transport sees them.

use xoff_wire::{Aeth, Deth, Opcode, Reth, Syndrome};

/// Fields of the base transport header (BTH) and of the extension header. The payload is only a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Operation of the packet.
    pub opcode: Opcode,
    /// Number of the destination queue pair, 24 bits.
    pub dst_qp: u32,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
    /// Acknowledge request bit (AckReq).
    pub ack_req: bool,
    /// BECN bit of the BTH. It is set in a CNP. With
    /// [`AckEcho`](super::congestion::CongestionFeedback::AckEcho), an acknowledgement echoes the ECN mark of
    /// a data packet in this bit.
    pub becn: bool,
    /// Payload length in bytes, without padding.
    pub payload_len: u32,
    /// Extension header, if the opcode has one that the transport uses.
    pub header: ExtensionHeader,
}

impl Packet {
    /// Returns whether the arrival of this packet cannot complete a message.
    ///
    /// The result is true for RC data packets that do not end a message, for positive acknowledgements and
    /// for CNPs. The result is only valid if the
    /// endpoint satisfies [`completes_nothing_before`](super::Endpoint::completes_nothing_before).
    #[inline]
    pub fn completes_nothing(&self) -> bool {
        match self.opcode {
            Opcode::RcSendFirst
            | Opcode::RcSendMiddle
            | Opcode::RcWriteFirst
            | Opcode::RcWriteMiddle
            | Opcode::Cnp => true,
            Opcode::RcAcknowledge => {
                let ExtensionHeader::Aeth(Aeth { syndrome, .. }) = self.header else {
                    return false;
                };
                matches!(syndrome, Syndrome::Ack { .. })
            }
            _ => false,
        }
    }
}

/// Extension header after the base transport header (IBTA 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionHeader {
    /// No extension header.
    None,
    /// RDMA extended transport header: the first packet of a WRITE, and a READ REQUEST.
    Reth(Reth),
    /// ACK extended transport header: acknowledgements, and the first and last READ RESPONSE.
    Aeth(Aeth),
    /// Datagram extended transport header: UD packets.
    Deth(Deth),
}
