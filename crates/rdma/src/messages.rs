//! The requests of a queue pair that are not complete, and what their packets are.

use std::collections::VecDeque;

use xoff_wire::{Deth, Opcode, Reth};

use super::config::Transport;
use super::packet::Header;
use super::work::{Verb, WorkRequest};

/// Packets of a message, or of the responses to a READ; an empty message has one.
pub(super) fn packets_of(bytes: u32, mtu: u32) -> u32 {
    bytes.div_ceil(mtu).max(1)
}

/// A request, numbered from the moment at which it is posted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) id: u64,
    /// Sequence number of its first packet; of a READ, of its first response.
    pub(super) first: u64,
    /// Payload bytes (SEND, WRITE) of the messages before it.
    stream: u64,
    pub(super) bytes: u32,
    pub(super) packets: u32,
    pub(super) verb: Verb,
}

impl Message {
    /// Sequence number behind its last packet.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.first + u64::from(self.packets)
    }

    /// Where a packet of it begins. Packets of a message lie below 2^25 and the MTU below 2^14.
    #[inline]
    fn offset(&self, sequence: u64, mtu: u32) -> u32 {
        ((sequence - self.first) * u64::from(mtu)).min(u64::from(self.bytes)) as u32
    }

    /// Bytes from a packet of it to its end.
    pub(super) fn remaining(&self, sequence: u64, mtu: u32) -> u32 {
        self.bytes - self.offset(sequence, mtu)
    }

    /// Payload of a packet of it, on whichever way it goes.
    #[inline]
    pub(super) fn payload(&self, sequence: u64, mtu: u32) -> u32 {
        self.remaining(sequence, mtu).min(mtu)
    }

    /// Payload bytes of the stream before a packet of it.
    #[inline]
    fn stream_at(&self, sequence: u64, mtu: u32) -> u64 {
        match self.verb {
            Verb::Read => self.stream,
            Verb::Send | Verb::Write => self.stream + u64::from(self.offset(sequence, mtu)),
        }
    }

    /// Operation of its packet, by its place in the message.
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

    /// Extension header of its packet. Addresses count from the start of the message; a READ that is repeated from within
    /// asks for what remains.
    pub(super) fn header(&self, sequence: u64, mtu: u32, source_qp: u32, transport: Transport) -> Header {
        let reth = |address, dma_len| {
            Header::Reth(Reth {
                virtual_address: u64::from(address),
                rkey: 0,
                dma_len,
            })
        };
        match self.verb {
            _ if transport == Transport::Ud => Header::Deth(Deth { q_key: 0, source_qp }),
            Verb::Read => reth(self.offset(sequence, mtu), self.remaining(sequence, mtu)),
            Verb::Write if sequence == self.first => reth(0, self.bytes),
            Verb::Send | Verb::Write => Header::None,
        }
    }
}

/// The requests in their order.
#[derive(Debug, Default)]
pub(super) struct Messages {
    queue: VecDeque<Message>,
    /// Sequence number of the next request.
    end: u64,
    /// Payload bytes posted so far.
    stream: u64,
}

impl Messages {
    /// Adds a request of at most 2^31 bytes.
    pub(super) fn push(&mut self, request: &WorkRequest, mtu: u32) {
        let bytes = request.bytes as u32;
        let message = Message {
            id: request.id,
            first: self.end,
            stream: self.stream,
            bytes,
            packets: packets_of(bytes, mtu),
            verb: request.verb,
        };
        self.end = message.end();
        if request.verb != Verb::Read {
            self.stream += request.bytes;
        }
        self.queue.push_back(message);
    }

    /// Sequence number behind the last request.
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

    /// Place of the request that a sequence number belongs to; the number of requests if to none.
    pub(super) fn find(&self, sequence: u64) -> usize {
        match self.queue.front() {
            Some(front) if sequence < front.end() => 0,
            _ => self.queue.partition_point(|message| message.end() <= sequence),
        }
    }

    /// Payload bytes of the stream before a packet.
    #[inline]
    pub(super) fn stream_at(&self, sequence: u64, mtu: u32) -> u64 {
        match self.queue.get(self.find(sequence)) {
            Some(message) => message.stream_at(sequence.max(message.first), mtu),
            None => self.stream,
        }
    }
}
