//! Request packets in the form that the responder uses.

use xoff_wire::Opcode;

use super::config::Transport;
use super::packet::{ExtensionHeader, Packet};
use super::work::Verb;

/// Transport fields of a request packet. Addresses are not included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestPacket {
    pub(super) verb: Verb,
    /// True for the first packet of a message. A READ request is the first and the last packet.
    pub(super) first: bool,
    /// True for the last packet of a message.
    pub(super) last: bool,
    pub(super) ack_req: bool,
    pub(super) payload_len: u32,
    /// DMA length in the RETH: the length of the whole WRITE message or of the requested READ data. 0 without
    /// a RETH.
    pub(super) dma_len: u32,
}

impl RequestPacket {
    /// Parses a request packet. Returns `None` if the packet is not a request, or if its operation requires a
    /// RETH that is missing.
    #[inline]
    pub(super) fn parse(packet: &Packet) -> Option<(Transport, RequestPacket)> {
        let (transport, verb, first, last) = decode_opcode(packet.opcode)?;
        let dma_len = match packet.header {
            ExtensionHeader::Reth(reth) => reth.dma_len,
            _ if verb == Verb::Read || verb == Verb::Write && first => return None,
            _ => 0,
        };
        let request = RequestPacket {
            verb,
            first,
            last,
            ack_req: packet.ack_req,
            payload_len: packet.payload_len,
            dma_len,
        };
        Some((transport, request))
    }
}

#[inline]
fn decode_opcode(opcode: Opcode) -> Option<(Transport, Verb, bool, bool)> {
    use Transport::{Rc, Uc, Ud};
    use Verb::{Read, Send, Write};
    Some(match opcode {
        Opcode::RcSendFirst => (Rc, Send, true, false),
        Opcode::RcSendMiddle => (Rc, Send, false, false),
        Opcode::RcSendLast | Opcode::RcSendLastImm | Opcode::RcSendLastInvalidate => (Rc, Send, false, true),
        Opcode::RcSendOnly | Opcode::RcSendOnlyImm | Opcode::RcSendOnlyInvalidate => (Rc, Send, true, true),
        Opcode::RcWriteFirst => (Rc, Write, true, false),
        Opcode::RcWriteMiddle => (Rc, Write, false, false),
        Opcode::RcWriteLast | Opcode::RcWriteLastImm => (Rc, Write, false, true),
        Opcode::RcWriteOnly | Opcode::RcWriteOnlyImm => (Rc, Write, true, true),
        Opcode::RcReadRequest => (Rc, Read, true, true),
        Opcode::UcSendFirst => (Uc, Send, true, false),
        Opcode::UcSendMiddle => (Uc, Send, false, false),
        Opcode::UcSendLast | Opcode::UcSendLastImm => (Uc, Send, false, true),
        Opcode::UcSendOnly | Opcode::UcSendOnlyImm => (Uc, Send, true, true),
        Opcode::UcWriteFirst => (Uc, Write, true, false),
        Opcode::UcWriteMiddle => (Uc, Write, false, false),
        Opcode::UcWriteLast | Opcode::UcWriteLastImm => (Uc, Write, false, true),
        Opcode::UcWriteOnly | Opcode::UcWriteOnlyImm => (Uc, Write, true, true),
        Opcode::UdSendOnly | Opcode::UdSendOnlyImm => (Ud, Send, true, true),
        _ => return None,
    })
}
