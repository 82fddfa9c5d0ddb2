//! Incomplete messages of a queue pair, and the header fields of their packets.

use xoff_units::prefetch;
use xoff_wire::{Deth, Opcode, Reth};

use super::config::Transport;
use super::inline_queue::InlineQueue;
use super::packet::ExtensionHeader;
use super::work::{Verb, WorkRequest};

/// Returns the number of packets of a message. For a READ, this is the number of response packets. An empty
/// message has one packet.
pub(super) fn packet_count(bytes: u32, mtu: u32) -> u32 {
    bytes.div_ceil(mtu).max(1)
}

/// A posted message with its sequence numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) id: u64,
    /// Sequence number of the first packet. For a READ, the sequence number of the first response.
    pub(super) first: u64,
    /// Payload bytes of all earlier SEND and WRITE messages.
    stream_offset: u64,
    pub(super) bytes: u32,
    pub(super) packets: u32,
    pub(super) verb: Verb,
}

impl Message {
    /// Returns the sequence number after the last packet.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.first + u64::from(self.packets)
    }

    /// Returns the offset of the payload of a packet in the message, in bytes. The multiplication cannot
    /// overflow, because a message has fewer than 2^26 packets and the MTU is below 2^14.
    #[inline]
    fn byte_offset(&self, sequence: u64, mtu: u32) -> u32 {
        ((sequence - self.first) * u64::from(mtu)).min(u64::from(self.bytes)) as u32
    }

    /// Returns the number of bytes from the start of a packet to the end of the message.
    pub(super) fn remaining_bytes(&self, sequence: u64, mtu: u32) -> u32 {
        self.bytes - self.byte_offset(sequence, mtu)
    }

    /// Returns the payload length of a packet: of a request packet, or of a READ response.
    #[inline]
    pub(super) fn payload_len(&self, sequence: u64, mtu: u32) -> u32 {
        self.remaining_bytes(sequence, mtu).min(mtu)
    }

    /// Returns the number of payload bytes that the queue pair sends before a packet.
    #[inline]
    fn stream_offset_at(&self, sequence: u64, mtu: u32) -> u64 {
        match self.verb {
            Verb::Read => self.stream_offset,
            Verb::Send | Verb::Write => self.stream_offset + u64::from(self.byte_offset(sequence, mtu)),
        }
    }

    /// Returns the opcode of a packet. The opcode depends on the position in the message.
    pub(super) fn opcode(&self, sequence: u64, transport: Transport) -> Opcode {
        let (first, last) = (sequence == self.first, sequence + 1 == self.end());
        match (transport, self.verb, first, last) {
            (Transport::Ud, ..) => Opcode::UdSendOnly,
            (_, Verb::Read, ..) => Opcode::RcReadRequest,
            (Transport::Rc, Verb::Send, true, true) => Opcode::RcSendOnly,
            (Transport::Rc, Verb::Send, true, false) => Opcode::RcSendFirst,
            (Transport::Rc, Verb::Send, false, true) => Opcode::RcSendLast,
            (Transport::Rc, Verb::Send, false, false) => Opcode::RcSendMiddle,
            (Transport::Rc, Verb::Write, true, true) => Opcode::RcWriteOnly,
            (Transport::Rc, Verb::Write, true, false) => Opcode::RcWriteFirst,
            (Transport::Rc, Verb::Write, false, true) => Opcode::RcWriteLast,
            (Transport::Rc, Verb::Write, false, false) => Opcode::RcWriteMiddle,
            (Transport::Uc, Verb::Send, true, true) => Opcode::UcSendOnly,
            (Transport::Uc, Verb::Send, true, false) => Opcode::UcSendFirst,
            (Transport::Uc, Verb::Send, false, true) => Opcode::UcSendLast,
            (Transport::Uc, Verb::Send, false, false) => Opcode::UcSendMiddle,
            (Transport::Uc, Verb::Write, true, true) => Opcode::UcWriteOnly,
            (Transport::Uc, Verb::Write, true, false) => Opcode::UcWriteFirst,
            (Transport::Uc, Verb::Write, false, true) => Opcode::UcWriteLast,
            (Transport::Uc, Verb::Write, false, false) => Opcode::UcWriteMiddle,
        }
    }

    /// Returns the extension header of a packet. The addresses in the header are offsets in the message. If a
    /// READ is repeated from the middle, the request is only for the remaining bytes.
    pub(super) fn header(
        &self,
        sequence: u64,
        mtu: u32,
        source_qp: u32,
        transport: Transport,
    ) -> ExtensionHeader {
        let reth = |address, dma_len| {
            ExtensionHeader::Reth(Reth {
                virtual_address: u64::from(address),
                rkey: 0,
                dma_len,
            })
        };
        match self.verb {
            _ if transport == Transport::Ud => ExtensionHeader::Deth(Deth { q_key: 0, source_qp }),
            Verb::Read => reth(
                self.byte_offset(sequence, mtu),
                self.remaining_bytes(sequence, mtu),
            ),
            Verb::Write if sequence == self.first => reth(0, self.bytes),
            Verb::Send | Verb::Write => ExtensionHeader::None,
        }
    }
}

/// Incomplete messages in the order of posting.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct MessageQueue {
    /// Often two messages, because the next one is posted before the acknowledgement of the last one arrives.
    queue: InlineQueue<Message, 2>,
    /// Sequence number of the first packet of the next message.
    end: u64,
    /// Payload bytes of all posted SEND and WRITE messages.
    stream_offset: u64,
}

impl MessageQueue {
    /// Adds a message of at most 2^31 bytes.
    pub(super) fn push(&mut self, request: &WorkRequest, mtu: u32) {
        let bytes = request.bytes as u32;
        let message = Message {
            id: request.id,
            first: self.end,
            stream_offset: self.stream_offset,
            bytes,
            packets: packet_count(bytes, mtu),
            verb: request.verb,
        };
        self.end = message.end();
        if request.verb != Verb::Read {
            self.stream_offset += request.bytes;
        }
        self.queue.push_back(message);
    }

    /// Fetches the memory of two messages and of the next one, without waiting for it.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(self);
        prefetch(&self.end);
    }

    /// Returns the sequence number after the last message.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Message> {
        self.queue.get(index)
    }

    #[inline]
    pub(super) fn front(&self) -> Option<&Message> {
        self.queue.front()
    }

    pub(super) fn pop_front(&mut self) -> Option<Message> {
        self.queue.pop_front()
    }

    /// Returns the index of the message that contains a sequence number. If no message contains the number,
    /// returns the number of messages.
    pub(super) fn index_of(&self, sequence: u64) -> usize {
        match self.queue.front() {
            Some(front) if sequence < front.end() => 0,
            _ => self.queue.partition_point(|message| message.end() <= sequence),
        }
    }

    /// Returns the number of payload bytes before a packet.
    #[inline]
    pub(super) fn stream_offset_at(&self, sequence: u64, mtu: u32) -> u64 {
        match self.queue.get(self.index_of(sequence)) {
            Some(message) => message.stream_offset_at(sequence.max(message.first), mtu),
            None => self.stream_offset,
        }
    }
}
