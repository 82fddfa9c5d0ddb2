//! RequestPacket packets as the responder sees them.

use xoff_wire::Opcode;

use super::config::Transport;
use super::packet::{ExtensionHeader, Packet};
use super::work::Verb;

/// Transport fields of a request packet, without its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestPacket {
    pub(super) verb: Verb,
    /// Whether the packet is the first packet and whether it is the last packet of its message. A READ
    /// request is both.
    pub(super) first: bool,
    pub(super) last: bool,
    pub(super) ack_req: bool,
    pub(super) payload_len: u32,
    /// DMA length of the RETH. It is the length of the whole message. For a READ, it is the length of the
    /// requested data.
    pub(super) dma_len: u32,
}

impl RequestPacket {
    /// Parses a request packet. Returns `None` if the packet is not a request or lacks the RETH
    /// of its operation.
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
