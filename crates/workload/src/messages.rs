//! Messages under way: a slab whose places are used again.

use xoff_units::Picos;

/// A message. Unique in a run; the lower 32 bits are a dense place, used again once the message is received and
/// acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

impl MessageId {
    /// A small number that no other message under way has: an index into a driver's own table.
    pub fn slot(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

/// What a job knows a message by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tag {
    /// Edge of a pattern or index of a flow.
    pub(super) edge: u32,
    /// Number on that edge, or repetition of the flow.
    pub(super) sequence: u64,
}

/// A message under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) job: u32,
    pub(super) connection: u32,
    pub(super) bytes: u64,
    pub(super) posted: Picos,
    pub(super) tag: Tag,
    /// Index of its flow record in the job, or none.
    pub(super) record: u32,
    pub(super) received: bool,
    pub(super) acknowledged: bool,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    generation: u32,
    message: Option<Message>,
}

/// All messages under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Messages {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Messages {
    pub(super) fn insert(&mut self, message: Message) -> MessageId {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                message: None,
            });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[at as usize];
        slot.message = Some(message);
        MessageId(u64::from(slot.generation) << 32 | u64::from(at))
    }

    /// The message, unless it is unknown or over.
    pub(super) fn get_mut(&mut self, id: MessageId) -> Option<&mut Message> {
        let slot = self.slots.get_mut(id.slot())?;
        if u64::from(slot.generation) != id.0 >> 32 {
            return None;
        }
        slot.message.as_mut()
    }

    /// Forgets a message of [`Messages::get_mut`].
    pub(super) fn remove(&mut self, id: MessageId) {
        if let Some(slot) = self.slots.get_mut(id.slot()) {
            slot.message = None;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(id.slot() as u32);
        }
    }

    /// How many are under way.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Those under way, by place.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Message> {
        self.slots.iter().filter_map(|slot| slot.message.as_ref())
    }
}
