//! Sends MAC control frames at a constant rate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use xoff_ports::tester::SEND_BURST_FRAMES;
use xoff_telemetry::failure::Failure;

use super::device::{ControlDevice, monotonic_ns};
use super::frame_spec::ControlFrameSpec;
use super::send_schedule::SendSchedule;

/// Longest sleep, after which the loop looks at the stop flag.
const SLEEP_NS_MAX: u64 = 50_000_000;
/// Time before a frame in which the loop does not sleep, because a sleep can last longer than ordered.
const WAKE_UP_NS: u64 = 100_000;
/// Time after the end of the schedule in which late frames are still sent.
const GRACE_NS: u64 = 100_000_000;

/// Frames to send.
#[derive(Clone, Debug, PartialEq)]
pub struct SendOrder {
    /// The frame.
    pub frame: ControlFrameSpec,
    /// Number of frames per second, greater than 0.
    pub rate_fps: f64,
    /// Number of frames after which sending ends. `None`: no limit.
    pub frames_max: Option<u64>,
    /// Time after which sending ends. `None`: no limit.
    pub duration: Option<Duration>,
    /// Whether to send the frame with all pause times 0 at the end, also after an interruption.
    pub resumes_at_end: bool,
}

/// The result of a [`SendOrder`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SendResult {
    /// Number of frames that the device accepted, without the frame at the end.
    pub sent_frames: u64,
    /// Number of frames that the device or the far end had no space for.
    pub lost_frames: u64,
    /// Number of frames that were not sent in time.
    pub missed_frames: u64,
    /// Time from the first to the last frame in nanoseconds.
    pub elapsed_ns: u64,
    /// Whether the frame with all pause times 0 was sent.
    pub is_resumed: bool,
    /// Whether a signal ended the sending.
    pub is_interrupted: bool,
}

/// Sends the frames of an order, until the order is complete or `stop` is set.
///
/// # Errors
/// The device cannot send the frame, for example because it went down, was removed or has a smaller MTU.
pub fn send_frames(
    device: &mut ControlDevice,
    order: &SendOrder,
    stop: &AtomicBool,
) -> Result<SendResult, Failure> {
    let bytes = order.frame.to_bytes();
    let burst = [bytes.as_slice(); SEND_BURST_FRAMES];
    let start_ns = monotonic_ns();
    let duration_ns = order.duration.map(duration_to_ns);
    let end_ns = duration_ns.map_or(u64::MAX, |duration| start_ns.saturating_add(duration));
    let mut schedule = SendSchedule::new(start_ns, order.rate_fps, order.frames_max, duration_ns);
    let mut result = SendResult::default();
    loop {
        let now_ns = monotonic_ns();
        if stop.load(Ordering::Relaxed) {
            result.is_interrupted = true;
            break;
        }
        let due = schedule.due_frames(now_ns);
        let is_over = now_ns >= end_ns.saturating_add(GRACE_NS);
        if (due == 0 && schedule.has_ended(now_ns)) || is_over {
            result.missed_frames = due;
            break;
        }
        if due == 0 {
            wait(now_ns, schedule.next_due_ns().unwrap_or(end_ns));
            continue;
        }
        let frames = usize::try_from(due).unwrap_or(usize::MAX).min(SEND_BURST_FRAMES);
        let counts = device.send(&burst[..frames])?;
        let done = (counts.sent + counts.lost) as u64;
        schedule.add_sent(done);
        result.sent_frames += counts.sent as u64;
        result.lost_frames += counts.lost as u64;
        match done {
            0 => std::thread::sleep(Duration::from_nanos(WAKE_UP_NS)),
            _ => result.elapsed_ns = now_ns - start_ns,
        }
    }
    if order.resumes_at_end && result.sent_frames > 0 {
        let resume = order.frame.resume().to_bytes();
        result.is_resumed = device.send(&[&resume])?.sent == 1;
    }
    Ok(result)
}

/// Waits until `due_ns`, or returns earlier so that the caller can look at the stop flag.
fn wait(now_ns: u64, due_ns: u64) {
    let left_ns = due_ns.saturating_sub(now_ns).min(SLEEP_NS_MAX);
    match left_ns.checked_sub(WAKE_UP_NS) {
        Some(sleep_ns) => std::thread::sleep(Duration::from_nanos(sleep_ns)),
        None => std::thread::yield_now(),
    }
}

fn duration_to_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
