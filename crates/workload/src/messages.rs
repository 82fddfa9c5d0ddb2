//! Messages in flight, stored in reusable slots.

use xoff_units::Picos;

/// Identifier of a message, unique in a run. The lower 32 bits are the slot of the message, and the upper 32
/// bits count the earlier messages in this slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

impl MessageId {
    /// Returns the slot of the message. No two messages in flight have the same slot, so a driver can use
    /// the slot as an index. When the message is received and acknowledged, the slot becomes free for a
    /// new message.
    pub fn slot(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

/// The key by which a job identifies a message or a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TransferTag {
    /// Index of an edge of a pattern, or index of a flow.
    pub(super) edge: u32,
    /// Number of the transfer on its edge, or number of the message in its flow. Both start at 0.
    pub(super) sequence: u64,
}

/// A message in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlightMessage {
    pub(super) job: u32,
    pub(super) connection: u32,
    pub(super) bytes: u64,
    pub(super) posted: Picos,
    pub(super) tag: TransferTag,
    /// Index of the flow record of the message in the job, or [`NO_RECORD`](super::job_context::NO_RECORD).
    pub(super) record: u32,
    /// Number of requests of the message that the receiver has not received.
    pub(super) unreceived: u32,
    /// Number of requests of the message that are not acknowledged.
    pub(super) unacknowledged: u32,
}

/// Space for a message, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct MessageSlot {
    message: InFlightMessage,
    generation: u32,
    is_in_use: bool,
}

const _: () = assert!(size_of::<MessageSlot>() == 64);

/// All messages in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlightMessages {
    slots: Vec<MessageSlot>,
    free: Vec<u32>,
}

impl InFlightMessages {
    pub(super) fn insert(&mut self, message: InFlightMessage) -> MessageId {
        let Some(at) = self.free.pop() else {
            self.slots.push(MessageSlot {
                message,
                generation: 0,
                is_in_use: true,
            });
            return MessageId(self.slots.len() as u64 - 1);
        };
        let slot = &mut self.slots[at as usize];
        (slot.message, slot.is_in_use) = (message, true);
        MessageId(u64::from(slot.generation) << 32 | u64::from(at))
    }

    /// Returns the message in flight. Returns `None` if the message is unknown or already removed.
    pub(super) fn get_mut(&mut self, id: MessageId) -> Option<&mut InFlightMessage> {
        let slot = self.slots.get_mut(id.slot())?;
        let is_known = slot.is_in_use && u64::from(slot.generation) == id.0 >> 32;
        is_known.then_some(&mut slot.message)
    }

    /// Removes a message in flight.
    pub(super) fn remove(&mut self, id: MessageId) {
        if let Some(slot) = self.slots.get_mut(id.slot()) {
            slot.is_in_use = false;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(id.slot() as u32);
        }
    }

    /// Returns the number of messages in flight.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns all messages in flight in the order of their slots, for changes.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut InFlightMessage> {
        let in_use = self.slots.iter_mut().filter(|slot| slot.is_in_use);
        in_use.map(|slot| &mut slot.message)
    }

    /// Returns all messages in flight in the order of their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = &InFlightMessage> {
        let in_use = self.slots.iter().filter(|slot| slot.is_in_use);
        in_use.map(|slot| &slot.message)
    }
}
