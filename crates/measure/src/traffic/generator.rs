//! The generator: sends test frames as fast as possible or at a constant rate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::frames::{FlowFrame, SAMPLES_MAX};
use xoff_ports::tester::{FrameSender, KernelFrameSender, SEND_BURST_FRAMES};
use xoff_runtime::workers::clock::monotonic_ns;
use xoff_telemetry::failure::Failure;

/// Rate of the generator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SendRate {
    /// The generator sends as fast as possible.
    Saturate,
    /// A constant rate in frames per second. If the generator is late, it catches up with bursts of at most
    /// 32 frames.
    Paced(f64),
}

/// Largest burst of a paced generator after a delay of the host.
const CATCH_UP_BURST_FRAMES: usize = 32;
/// Frames that the kernel builds in one call, which takes about 10 ms.
const LIVE_FRAMES_PER_CALL: u32 = 8_192;

/// The frames that a generator sent in a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SendResult {
    /// Frames that the interface accepted.
    pub frames: u64,
    /// Number of frames that the interface refused, for example because the transmit queue of the interface
    /// was full. These frames are lost.
    pub refused: u64,
    /// Measured duration of the sending, in nanoseconds.
    pub elapsed_ns: u64,
    /// Frames that a paced generator should have sent before the end, but did not send. 0
    /// for [`SendRate::Saturate`].
    pub behind: u64,
    /// Send time of each sample in nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) sampled_ns: Vec<u64>,
}

impl SendResult {
    /// Returns the rate of the accepted frames, in frames per second.
    pub fn rate_fps(&self) -> f64 {
        self.frames as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }
}

/// Sends frames of all flows in turn from a packet socket.
#[derive(Debug)]
pub(super) struct Generator {
    pub(super) sender: FrameSender,
    pub(super) frames: Vec<FlowFrame>,
    /// Number of frames sent so far. The generator computes the flow and the sequence number of the next
    /// frame from this number.
    sequence: u64,
}

impl Generator {
    pub(super) fn new(sender: FrameSender, frames: Vec<FlowFrame>) -> Generator {
        Generator {
            sender,
            frames,
            sequence: 0,
        }
    }

    /// Sends frames until the time is over or `stop` is set. Some frames are samples: their latency is
    /// measured. The first frame of a burst is a sample if the previous sample is at least `sample_every_ns`
    /// old. With `None`, the generator sends no samples.
    pub(super) fn send_frames(
        &mut self,
        rate: SendRate,
        duration: Duration,
        sample_every_ns: Option<u64>,
        stop: &AtomicBool,
    ) -> Result<SendResult, Failure> {
        let began_ns = monotonic_ns();
        let duration_ns = duration.as_nanos() as u64;
        let mut result = SendResult::default();
        let mut next_sample_ns = began_ns;
        loop {
            let now_ns = monotonic_ns();
            let elapsed_ns = now_ns - began_ns;
            let over = elapsed_ns >= duration_ns || stop.load(Ordering::Relaxed);
            let due = match rate {
                SendRate::Saturate if over => 0,
                SendRate::Saturate => SEND_BURST_FRAMES,
                SendRate::Paced(fps) => {
                    let due = (fps * elapsed_ns.min(duration_ns) as f64 / 1e9) as u64;
                    let behind = due.saturating_sub(result.frames + result.refused);
                    result.behind = behind;
                    (behind as usize).min(CATCH_UP_BURST_FRAMES)
                }
            };
            if over {
                result.elapsed_ns = elapsed_ns;
                return Ok(result);
            }
            if due == 0 {
                std::hint::spin_loop();
                continue;
            }
            let samples = sample_every_ns.filter(|_| now_ns >= next_sample_ns);
            if let Some(every_ns) = samples
                && result.sampled_ns.len() < SAMPLES_MAX
            {
                next_sample_ns = now_ns + every_ns;
                self.send_burst(due, true, &mut result)?;
            } else {
                self.send_burst(due, false, &mut result)?;
            }
        }
    }

    fn send_burst(&mut self, count: usize, is_sampled: bool, result: &mut SendResult) -> Result<(), Failure> {
        let flows = self.frames.len();
        let first = (self.sequence % flows as u64) as usize;
        let count = count.min(flows - first);
        let frames = &mut self.frames[first..first + count];
        for (frame, sequence) in frames.iter_mut().zip(self.sequence..) {
            frame.set_data_sequence(sequence);
        }
        let mut borrowed = [&[] as &[u8]; SEND_BURST_FRAMES];
        if is_sampled {
            frames[0].set_sample(result.sampled_ns.len() as u32);
            result.sampled_ns.push(monotonic_ns());
        }
        for (to, frame) in borrowed.iter_mut().zip(frames.iter()) {
            *to = &frame.bytes;
        }
        let counts = self
            .sender
            .send(&borrowed[..count])
            .map_err(|error| Failure::environment("test frames cannot be sent").because(error))?;
        if is_sampled && counts == Default::default() {
            result.sampled_ns.pop();
        }
        result.frames += counts.sent as u64;
        result.refused += counts.lost as u64;
        self.sequence += (counts.sent + counts.lost) as u64;
        Ok(())
    }
}

/// Makes the kernel build and send frames until the time is over or `stop` is set.
pub(super) fn send_live_frames(
    frames: &mut KernelFrameSender,
    duration: Duration,
    stop: &AtomicBool,
) -> Result<SendResult, Failure> {
    let began_ns = monotonic_ns();
    let mut result = SendResult::default();
    while result.elapsed_ns < duration.as_nanos() as u64 && !stop.load(Ordering::Relaxed) {
        frames.send(LIVE_FRAMES_PER_CALL).map_err(|error| {
            Failure::environment("the kernel cannot build test frames")
                .because(error)
                .fix("send from a packet socket; frames built by the kernel need Linux 5.18, root, and less than 3.4 KB each")
        })?;
        result.frames += u64::from(LIVE_FRAMES_PER_CALL);
        result.elapsed_ns = monotonic_ns() - began_ns;
    }
    Ok(result)
}
