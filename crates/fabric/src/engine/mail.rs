//! Frames that leave a switch of one shard for a switch of another shard.

use xoff_dataplane::Picos;

use crate::store::MovedFrame;

/// A frame on a link between two shards.
#[derive(Debug)]
pub(super) struct MailedFrame {
    /// Arrival time of the last bit.
    pub(super) at: Picos,
    /// Number of the link direction.
    pub(super) direction: u32,
    pub(super) frame: MovedFrame,
}

/// The frames for one other shard, in the order in which they were sent.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) frames: Vec<MailedFrame>,
    /// Earliest arrival of these frames, or [`Picos::NEVER`].
    pub(super) first: Picos,
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox {
            frames: Vec::new(),
            first: Picos::NEVER,
        }
    }
}
