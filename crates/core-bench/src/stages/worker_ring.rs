//! The ring over which I/O workers hand frames over, both of its ends on one core: what the ring itself takes. What a cache line takes
//! from one core to another is not in it.

use std::hint::black_box;

use rtrb::{Consumer, Producer, RingBuffer};
use xoff_dataplane::{FrameHandle, PortId};
use xoff_wire::parse::parse;

use super::FLOWS;
use crate::many_to_one;
use xoff_measure::frame_cost::BURST;
use xoff_measure::frame_cost::{Load, run_bursts};
use xoff_ports::PortFrame;
use xoff_runtime::workers::{RING_ENTRIES, ReceivedEntry};

/// Puts 32 frames in and takes them out, as the driver does; 64 in turn.
#[derive(Debug)]
pub(super) struct WorkerRing {
    producer: Producer<ReceivedEntry>,
    consumer: Consumer<ReceivedEntry>,
    frames: Vec<(PortId, PortFrame)>,
    /// Frames that found no room, or came out where another one should have.
    astray: u64,
    put: u64,
    taken: u64,
}

impl WorkerRing {
    pub(super) fn new() -> WorkerRing {
        let (producer, consumer) = RingBuffer::new(RING_ENTRIES);
        let frame = |n: u32| {
            let way = many_to_one::ForwardingMode::Routed { routes: 1_000 };
            let bytes = many_to_one::frame(n as u16 % 4, n, way);
            let received = PortFrame {
                frame: FrameHandle(n),
                frame_len: bytes.len() as u32,
                parsed: parse(&bytes),
                received_ns: 1_000 * u64::from(n),
                arrival: None,
            };
            (PortId(n as u16 % 4), received)
        };
        WorkerRing {
            producer,
            consumer,
            frames: (0..FLOWS).map(frame).collect(),
            astray: 0,
            put: 0,
            taken: 0,
        }
    }

    #[inline(always)]
    fn put(&mut self, first: usize) {
        let frames = &self.frames[first..first + BURST];
        let room = self.producer.write_chunk_uninit(frames.len());
        let arrived = frames
            .iter()
            .map(|(port, received)| ReceivedEntry::new(*port, black_box(received)));
        match room.map(|room| room.fill_from_iter(arrived)) {
            Ok(put) => self.put += put as u64,
            Err(_) => self.astray += frames.len() as u64,
        }
    }

    /// Takes what there is, which should be the frames from the `first` on.
    #[inline(always)]
    fn take(&mut self, first: usize) {
        let waiting = self.consumer.slots();
        let Ok(frames) = self.consumer.read_chunk(waiting) else {
            return;
        };
        let (early, late) = frames.as_slices();
        let expected = &self.frames[first..first + BURST];
        for (arrived, expected) in early.iter().chain(late).zip(expected) {
            let received = arrived.received();
            self.astray += u64::from((arrived.port, received.frame) != (expected.0, expected.1.frame));
            black_box(&received);
        }
        self.taken += frames.len() as u64;
        frames.commit_all();
    }
}

impl Load for WorkerRing {
    fn run(&mut self, frames: u64) -> u64 {
        let mut at = 0;
        run_bursts(frames, || {
            self.put(at);
            self.take(at);
            at = (at + BURST) % self.frames.len();
        })
    }

    fn check(&self) -> Result<(), String> {
        match (self.astray, self.put - self.taken) {
            (0, 0) => Ok(()),
            (astray, left) => Err(format!(
                "{astray} frames went astray, {left} are left in the ring"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_stay_or_come_out_of_turn_are_found() {
        let mut load = WorkerRing::new();
        load.put(0);
        assert!(load.check().unwrap_err().contains("32 are left"));
        load.take(BURST);
        assert!(load.check().unwrap_err().contains("32 frames went astray"));
    }
}
