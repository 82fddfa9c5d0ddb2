//! A load for the ring that passes frames from an I/O worker to a switch worker.
//!
//! One core writes and reads the ring. The measured cost therefore does not include the transfer of cache
//! lines between cores.

use std::hint::black_box;

use rtrb::{Consumer, Producer, RingBuffer};
use xoff_dataplane::{FrameHandle, PortId};
use xoff_wire::parse::parse;

use super::FLOWS;
use crate::many_to_one_load;
use xoff_measure::frame_cost::BURST_FRAMES;
use xoff_measure::frame_cost::{FrameLoad, run_bursts};
use xoff_ports::PortFrame;
use xoff_runtime::workers::{RING_ENTRIES, ReceivedEntry};

/// Writes bursts of 32 frames into the ring and reads them, as the driver does. The bursts consist of 64
/// frames in turn.
#[derive(Debug)]
pub(super) struct WorkerRingLoad {
    producer: Producer<ReceivedEntry>,
    consumer: Consumer<ReceivedEntry>,
    frames: Vec<(PortId, PortFrame)>,
    /// Number of frames that did not fit into the ring or left it in the wrong order.
    misplaced: u64,
    written: u64,
    read: u64,
}

impl WorkerRingLoad {
    pub(super) fn new() -> WorkerRingLoad {
        let (producer, consumer) = RingBuffer::new(RING_ENTRIES);
        let frame = |n: u32| {
            let forwarding = many_to_one_load::ForwardingMode::Routed { routes: 1_000 };
            let bytes = many_to_one_load::build_frame(n as u16 % 4, n, forwarding);
            let received = PortFrame {
                frame: FrameHandle(n),
                frame_len: bytes.len() as u32,
                parsed: parse(&bytes),
                received_ns: 1_000 * u64::from(n),
                arrival: None,
            };
            (PortId(n as u16 % 4), received)
        };
        WorkerRingLoad {
            producer,
            consumer,
            frames: (0..FLOWS).map(frame).collect(),
            misplaced: 0,
            written: 0,
            read: 0,
        }
    }

    /// Writes the burst that starts with the frame `first`.
    #[inline(always)]
    fn write_burst(&mut self, first: usize) {
        let frames = &self.frames[first..first + BURST_FRAMES];
        let room = self.producer.write_chunk_uninit(frames.len());
        let arrived = frames
            .iter()
            .map(|(port, received)| ReceivedEntry::new(*port, black_box(received)));
        match room.map(|room| room.fill_from_iter(arrived)) {
            Ok(written) => self.written += written as u64,
            Err(_) => self.misplaced += frames.len() as u64,
        }
    }

    /// Reads all frames from the ring. The ring should contain the burst that starts with the frame `first`.
    #[inline(always)]
    fn read_burst(&mut self, first: usize) {
        let waiting = self.consumer.slots();
        let Ok(frames) = self.consumer.read_chunk(waiting) else {
            return;
        };
        let (early, late) = frames.as_slices();
        let expected = &self.frames[first..first + BURST_FRAMES];
        for (arrived, expected) in early.iter().chain(late).zip(expected) {
            let received = arrived.received();
            self.misplaced += u64::from((arrived.port, received.frame) != (expected.0, expected.1.frame));
            black_box(&received);
        }
        self.read += frames.len() as u64;
        frames.commit_all();
    }
}

impl FrameLoad for WorkerRingLoad {
    fn run(&mut self, frames: u64) -> u64 {
        let mut first = 0;
        run_bursts(frames, || {
            self.write_burst(first);
            self.read_burst(first);
            first = (first + BURST_FRAMES) % self.frames.len();
        })
    }

    fn check(&self) -> Result<(), String> {
        match (self.misplaced, self.written - self.read) {
            (0, 0) => Ok(()),
            (misplaced, left) => Err(format!(
                "{misplaced} frames were refused or out of order, {left} are left in the ring"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_reports_frames_that_stay_in_the_ring_or_are_out_of_order() {
        let mut load = WorkerRingLoad::new();
        load.write_burst(0);
        assert!(load.check().unwrap_err().contains("32 are left"));
        load.read_burst(BURST_FRAMES);
        assert!(load.check().unwrap_err().contains("32 frames were refused"));
    }
}
