//! Receives MAC control frames until a limit or a signal.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::device::{ControlDevice, monotonic_ns};
use super::watcher::{WatchSummary, WatchedEvent, Watcher};

/// Longest sleep, after which the loop looks at the stop flag.
const SLEEP_MS_MAX: u16 = 50;
/// Delay of the report of an expired pause. A frame that was received before the expiry can be readable a little
/// later.
const EXPIRY_DELAY_NS: u64 = 2_000_000;

/// The end of an observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchLimits {
    /// Duration of the observation. `None`: no limit.
    pub duration: Option<Duration>,
    /// Number of MAC control frames. `None`: no limit.
    pub frames_max: Option<u64>,
}

/// The reason for the end of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// A limit was reached.
    Complete,
    /// The stop flag was set.
    Stopped,
    /// The device was removed.
    DeviceRemoved,
}

/// Receives MAC control frames and calls `handle` for each event, until a limit is reached or `stop` is set.
/// `speed_mbps` is the speed of the link in Mb/s. Returns the counters and the reason for the end.
pub fn watch_frames(
    device: &mut ControlDevice,
    speed_mbps: u32,
    limits: &WatchLimits,
    stop: &AtomicBool,
    mut handle: impl FnMut(&WatchedEvent),
) -> (WatchSummary, WatchEnd) {
    let start_ns = monotonic_ns();
    let duration_ns = limits
        .duration
        .map(|duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    let end_ns = duration_ns.map_or(u64::MAX, |duration| start_ns.saturating_add(duration));
    let frames_max = limits.frames_max.unwrap_or(u64::MAX);
    let mut watcher = Watcher::new(start_ns, device.properties.mac, speed_mbps);
    loop {
        // The frames are read after these observations, so the frames from before an end are not lost.
        let (is_stopped, exists) = (stop.load(Ordering::Relaxed), device.exists());
        let now_ns = monotonic_ns();
        device.receive(|captured| {
            if watcher.frames() < frames_max {
                let events = watcher.receive(captured.captured_ns, captured.bytes, captured.removed_tag);
                events.iter().for_each(&mut handle);
            }
        });
        let lost_frames = device.take_lost_frames();
        watcher
            .add_lost_frames(now_ns, lost_frames)
            .iter()
            .for_each(&mut handle);
        let is_complete = now_ns >= end_ns || watcher.frames() >= frames_max;
        let settled_ns = now_ns.saturating_sub(EXPIRY_DELAY_NS).min(end_ns);
        watcher.advance(settled_ns).iter().for_each(&mut handle);
        let end = if is_complete {
            Some(WatchEnd::Complete)
        } else if is_stopped {
            Some(WatchEnd::Stopped)
        } else {
            (!exists).then_some(WatchEnd::DeviceRemoved)
        };
        if let Some(end) = end {
            return (watcher.summary(now_ns.min(end_ns)), end);
        }
        let expiry_ns = watcher.tracker().next_expiry_ns();
        let due_ns = expiry_ns.map_or(end_ns, |after_ns| {
            end_ns.min(start_ns.saturating_add(after_ns).saturating_add(EXPIRY_DELAY_NS))
        });
        wait_for_frame(device.fd(), now_ns, due_ns);
    }
}

/// Waits until a frame arrives or until `due_ns`, at most [`SLEEP_MS_MAX`].
fn wait_for_frame(fd: Option<BorrowedFd<'_>>, now_ns: u64, due_ns: u64) {
    let left_ms = due_ns.saturating_sub(now_ns).div_ceil(1_000_000);
    let timeout = u16::try_from(left_ms).unwrap_or(SLEEP_MS_MAX).min(SLEEP_MS_MAX);
    let mut polled: Vec<PollFd<'_>> = fd
        .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
        .into_iter()
        .collect();
    // An interrupted wait only ends earlier. A device that went down makes the socket readable with an error.
    let woken = poll(&mut polled, PollTimeout::from(timeout));
    let has_error = polled
        .iter()
        .filter_map(PollFd::revents)
        .any(|events| events.contains(PollFlags::POLLERR));
    if woken.is_err() || has_error {
        std::thread::sleep(Duration::from_millis(1));
    }
}
