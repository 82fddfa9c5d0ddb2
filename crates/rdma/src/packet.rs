//! RoCEv2 packets in the form that the transport uses.

use xoff_wire::{Aeth, Deth, Opcode, Reth, Syndrome};

/// A RoCEv2 packet: fields of the base transport header (BTH), the extension header and the payload length.
/// The payload has no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Opcode of the BTH: the operation and the position in the message.
    pub opcode: Opcode,
    /// Number of the destination queue pair, 24 bits.
    pub dst_qp: u32,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
    /// AckReq bit of the BTH: the packet requests an acknowledgement.
    pub ack_req: bool,
    /// BECN bit of the BTH. The bit is set in a CNP. With
    /// [`AckEcho`](super::congestion::CongestionFeedback::AckEcho), an acknowledgement with this bit reports
    /// that a data packet had an ECN mark.
    pub becn: bool,
    /// Payload length in bytes, without padding.
    pub payload_len: u32,
    /// Extension header, if the opcode has one that the transport uses.
    pub header: ExtensionHeader,
}

impl Packet {
    /// Returns true if the arrival of this packet certainly completes no message.
    ///
    /// The result is true for RC data packets that do not end a message, for positive
    /// acknowledgements and for CNPs. The result is only valid while the endpoint of the receiving
    /// host satisfies [`completes_no_message_before`](super::Endpoint::completes_no_message_before).
    #[inline]
    pub fn completes_no_message(&self) -> bool {
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
    /// RDMA extended transport header (RETH): in the first packet of a WRITE and in a READ request.
    Reth(Reth),
    /// ACK extended transport header (AETH): in acknowledgements and in the first and last READ response.
    Aeth(Aeth),
    /// Datagram extended transport header (DETH): in UD packets.
    Deth(Deth),
}
