//! Passes frames between shards.

use xoff_dataplane::{FrameHandle, Picos};

use super::mail::MailedFrame;
use super::shard::Shard;
use crate::event_queue::Event;

impl Shard {
    /// Adds a frame to the outbox for another shard. It arrives at the time `at`.
    #[inline(never)]
    pub(super) fn mail_frame(&mut self, to_shard: u32, at: Picos, direction: u32, frame: FrameHandle) {
        let frame = self.store.take_frame(frame);
        let outbox = &mut self.outboxes[to_shard as usize];
        outbox.first = outbox.first.min(at);
        outbox.frames.push(MailedFrame { at, direction, frame });
    }

    /// Takes the frames that other shards have sent. They become pending events of the receiving switches.
    pub(super) fn take_mail(&mut self) {
        if self.first_mail == Picos::NEVER {
            return;
        }
        self.first_mail = Picos::NEVER;
        for sender in 0..self.inboxes.len() {
            let mut inbox = std::mem::take(&mut self.inboxes[sender]);
            self.receive_mail(inbox.drain(..));
            self.inboxes[sender] = inbox;
        }
    }

    /// Makes frames from another shard pending events of the receiving switches.
    pub(super) fn receive_mail(&mut self, frames: impl Iterator<Item = MailedFrame>) {
        for MailedFrame { at, direction, frame } in frames {
            let partition = self.receivers[direction as usize].partition;
            let frame = self.store.put_frame(frame);
            self.pending
                .push(partition as usize, Event::new(at, direction, frame.0));
        }
    }

    /// Returns the time of the earliest event, including the frames that other shards have sent.
    pub(super) fn earliest(&self) -> Picos {
        self.pending
            .earliest()
            .unwrap_or(Picos::NEVER)
            .min(self.first_mail)
    }
}

/// Passes the frames in all outboxes to the receiving shards. Only pointers are exchanged.
pub(super) fn deliver_mail(shards: &mut [Shard]) {
    for from in 0..shards.len() {
        for to in 0..shards.len() {
            let outbox = &mut shards[from].outboxes[to];
            if outbox.frames.is_empty() {
                continue;
            }
            let (frames, first) = (std::mem::take(&mut outbox.frames), outbox.first);
            outbox.first = Picos::NEVER;
            shards[to].first_mail = shards[to].first_mail.min(first);
            let emptied = std::mem::replace(&mut shards[to].inboxes[from], frames);
            debug_assert!(emptied.is_empty());
            shards[from].outboxes[to].frames = emptied;
        }
    }
}
