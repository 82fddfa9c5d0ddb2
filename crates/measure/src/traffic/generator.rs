//! Sends frames: as fast as possible, or at a rate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::frames::{Frame, SAMPLES_MAX};
use xoff_ports::tester::{FrameSender, LiveFrames, SEND_BURST_FRAMES};
use xoff_runtime::workers::clock::monotonic_ns;
use xoff_telemetry::failure::Failure;

/// How fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// As fast as the generator can.
    Saturate,
    /// So many frames a second, evenly; what the host was late for follows in bursts of at most 32.
    Paced(f64),
}

/// Frames that may be sent back to back at a rate, after the host was late.
const CATCH_UP_FRAMES: usize = 32;
/// Frames of one call that the kernel makes itself: some 10 ms.
const LIVE_FRAMES: u32 = 8_192;

/// What was sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sending {
    /// Frames that the interface took.
    pub frames: u64,
    /// Frames that it refused, and that are gone.
    pub refused: u64,
    /// How long it took, in nanoseconds.
    pub elapsed_ns: u64,
    /// Frames that a paced sender did not get to before the end.
    pub behind: u64,
    /// When each sample was sent, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) sampled_ns: Vec<u64>,
}

impl Sending {
    /// Frames a second.
    pub fn rate_fps(&self) -> f64 {
        self.frames as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }
}

/// Frames of all flows in turn, out of a packet socket.
#[derive(Debug)]
pub(super) struct Generator {
    pub(super) sender: FrameSender,
    pub(super) frames: Vec<Frame>,
    /// Frames that were sent, ever: the next one's flow and sequence number.
    sequence: u64,
}

impl Generator {
    pub(super) fn new(sender: FrameSender, frames: Vec<Frame>) -> Generator {
        Generator {
            sender,
            frames,
            sequence: 0,
        }
    }

    /// Sends until the time is over or `stop` is set. A sample is the first frame of a burst, and at most one in `sample_every_ns`; none where that
    /// is `None`.
    pub(super) fn run(
        &mut self,
        rate: Rate,
        duration: Duration,
        sample_every_ns: Option<u64>,
        stop: &AtomicBool,
    ) -> Result<Sending, Failure> {
        let began_ns = monotonic_ns();
        let duration_ns = duration.as_nanos() as u64;
        let mut sending = Sending::default();
        let mut next_sample_ns = began_ns;
        loop {
            let now_ns = monotonic_ns();
            let elapsed_ns = now_ns - began_ns;
            let over = elapsed_ns >= duration_ns || stop.load(Ordering::Relaxed);
            let due = match rate {
                Rate::Saturate if over => 0,
                Rate::Saturate => SEND_BURST_FRAMES,
                Rate::Paced(fps) => {
                    let due = (fps * elapsed_ns.min(duration_ns) as f64 / 1e9) as u64;
                    let behind = due.saturating_sub(sending.frames + sending.refused);
                    sending.behind = behind;
                    (behind as usize).min(CATCH_UP_FRAMES)
                }
            };
            if over {
                sending.elapsed_ns = elapsed_ns;
                return Ok(sending);
            }
            if due == 0 {
                std::hint::spin_loop();
                continue;
            }
            let samples = sample_every_ns.filter(|_| now_ns >= next_sample_ns);
            if let Some(every_ns) = samples
                && sending.sampled_ns.len() < SAMPLES_MAX
            {
                next_sample_ns = now_ns + every_ns;
                self.burst(due, true, &mut sending)?;
            } else {
                self.burst(due, false, &mut sending)?;
            }
        }
    }

    fn burst(&mut self, count: usize, sample: bool, sending: &mut Sending) -> Result<(), Failure> {
        let flows = self.frames.len();
        let first = (self.sequence % flows as u64) as usize;
        let count = count.min(flows - first);
        let frames = &mut self.frames[first..first + count];
        for (frame, sequence) in frames.iter_mut().zip(self.sequence..) {
            frame.set_data(sequence);
        }
        let mut borrowed = [&[] as &[u8]; SEND_BURST_FRAMES];
        if sample {
            frames[0].set_sample(sending.sampled_ns.len() as u32);
            sending.sampled_ns.push(monotonic_ns());
        }
        for (to, frame) in borrowed.iter_mut().zip(frames.iter()) {
            *to = &frame.bytes;
        }
        let sent = self
            .sender
            .send(&borrowed[..count])
            .map_err(|error| Failure::environment("test frames cannot be sent").because(error))?;
        if sample && sent == Default::default() {
            sending.sampled_ns.pop();
        }
        sending.frames += sent.taken as u64;
        sending.refused += sent.refused as u64;
        self.sequence += (sent.taken + sent.refused) as u64;
        Ok(())
    }
}

/// Has the kernel make frames until the time is over or `stop` is set.
pub(super) fn run_live(
    frames: &mut LiveFrames,
    duration: Duration,
    stop: &AtomicBool,
) -> Result<Sending, Failure> {
    let began_ns = monotonic_ns();
    let mut sending = Sending::default();
    while sending.elapsed_ns < duration.as_nanos() as u64 && !stop.load(Ordering::Relaxed) {
        frames.send(LIVE_FRAMES).map_err(|error| {
            Failure::environment("the kernel makes no test frames")
                .because(error)
                .fix("send from a packet socket; live frames take Linux 5.18, root, and frames of less than 3.4 KB")
        })?;
        sending.frames += u64::from(LIVE_FRAMES);
        sending.elapsed_ns = monotonic_ns() - began_ns;
    }
    Ok(sending)
}
