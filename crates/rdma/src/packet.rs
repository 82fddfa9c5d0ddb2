//! A RoCEv2 packet as the transport sees it.

use xoff_wire::{Aeth, Deth, Opcode, Reth, Syndrome};

/// What stands in a packet's base transport header and behind it; the payload is a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What it is.
    pub opcode: Opcode,
    /// Queue pair it goes to, 24 bits.
    pub dst_qp: u32,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
    /// The requester wants an acknowledgement.
    pub ack_req: bool,
    /// BTH's BECN bit: set in a CNP; in an acknowledgement, the echo of a congestion mark where the connection's feedback is
    /// [`congestion::Feedback::AckEcho`](super::congestion::Feedback).
    pub becn: bool,
    /// Bytes of payload, without pad.
    pub payload_len: u32,
    /// The extension header of its opcode, if it has one that matters here.
    pub header: Header,
}

impl Packet {
    /// Whether its arrival completes nothing at an endpoint that
    /// [completes nothing by itself](super::Endpoint::completes_nothing_before): data that is not the last of a message, of a reliable
    /// connection; a plain acknowledgement; a CNP.
    #[inline]
    pub fn completes_nothing(&self) -> bool {
        match self.opcode {
            Opcode::RcSendFirst
            | Opcode::RcSendMiddle
            | Opcode::RcWriteFirst
            | Opcode::RcWriteMiddle
            | Opcode::Cnp => true,
            Opcode::RcAcknowledge => {
                let Header::Aeth(Aeth { syndrome, .. }) = self.header else {
                    return false;
                };
                matches!(syndrome, Syndrome::Ack { .. })
            }
            _ => false,
        }
    }
}

/// The extension header behind the base transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// None.
    None,
    /// RDMA WRITE (first, only) and READ REQUEST.
    Reth(Reth),
    /// Acknowledgements and READ RESPONSE (first, last, only).
    Aeth(Aeth),
    /// UD.
    Deth(Deth),
}
