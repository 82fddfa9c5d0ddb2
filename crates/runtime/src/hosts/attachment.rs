//! A model host and its device.

use std::io;

use xoff_dataplane::FrameHandle;
use xoff_units::Picos;

use super::{AttachedHost, HostRunResult};
use crate::workers::TaintLog;
use xoff_host::Host;
use xoff_ports::{ArenaStore, BURST_FRAMES, Port, PortFrame, SlotSource};
use xoff_telemetry::format_nanos;

/// Number of bursts that are received from one device in a turn. Then the next device is served.
const BURSTS_PER_TURN: usize = 4;

/// The times of the clocks at the start of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkerTurnTimes {
    /// Model time.
    pub(super) now: Picos,
    /// Time of `CLOCK_REALTIME` in nanoseconds.
    pub(super) wall_ns: u64,
    /// Time of `CLOCK_MONOTONIC` in nanoseconds.
    pub(super) monotonic_ns: u64,
}

impl WorkerTurnTimes {
    /// Converts a time of `CLOCK_MONOTONIC` to `CLOCK_REALTIME`, both in nanoseconds.
    fn realtime_ns_at(&self, monotonic_ns: u64) -> u64 {
        let ago = self.monotonic_ns.saturating_sub(monotonic_ns);
        self.wall_ns.saturating_sub(ago)
    }
}

/// Share of its sending time that a host may lose because its thread ran late, in percent. A larger share taints the
/// run: the host then did not offer the traffic that the user asked for.
const LATE_SENDING_MAX_PERCENT: u64 = 10;

/// Describes the lost time of a host that sent for `span_ns`, both in nanoseconds of model time. Returns `None` if
/// the loss is small.
fn describe_late_sending(host: &str, lost_ns: u64, span_ns: u64) -> Option<String> {
    if lost_ns.saturating_mul(100) <= span_ns.saturating_mul(LATE_SENDING_MAX_PERCENT) {
        return None;
    }
    Some(format!(
        "host {host} sent less than its flows and jobs offer (the machine ran it too late for {} % of {})",
        lost_ns.saturating_mul(100) / span_ns.max(1),
        format_nanos(span_ns)
    ))
}

/// A model host and its device, with the frames between them.
#[derive(Debug)]
pub(super) struct AttachedHostState {
    pub(super) host: Host,
    pub(super) port: Port,
    received_frames: Vec<PortFrame>,
    /// Frames that the device has not accepted yet.
    unsent_frames: Vec<FrameHandle>,
    lost_frames: u64,
    /// Model time at which the host started to send, and the time that it had lost before, in nanoseconds. `None`
    /// before the start, and after the host has stopped.
    sending_since: Option<(Picos, u64)>,
    notes: Vec<String>,
    error: Option<String>,
}

impl AttachedHostState {
    pub(super) fn new(attached: AttachedHost) -> AttachedHostState {
        AttachedHostState {
            host: attached.host,
            port: attached.port,
            received_frames: Vec::with_capacity(BURST_FRAMES),
            unsent_frames: Vec::with_capacity(BURST_FRAMES),
            lost_frames: 0,
            sending_since: None,
            notes: Vec::new(),
            error: None,
        }
    }

    /// Returns whether the device can still be used.
    pub(super) fn is_usable(&self) -> bool {
        self.error.is_none()
    }

    /// Starts the flows of the host.
    pub(super) fn start_sending(&mut self, times: &WorkerTurnTimes) {
        self.host.start(times.now);
        let lost_ns = self.host.results(times.now).late_ns();
        self.sending_since = Some((times.now, lost_ns));
    }

    /// Stops the flows of the host. Taints the run if this thread ran so late that the host sent much less than its
    /// flows and jobs offer.
    pub(super) fn stop_sending(&mut self, times: &WorkerTurnTimes, ledger: &TaintLog) {
        self.host.stop();
        let Some((since, lost_before_ns)) = self.sending_since.take() else {
            return;
        };
        let lost_ns = self.host.results(times.now).late_ns() - lost_before_ns;
        let span_ns = times.now.since(since).as_nanos();
        if let Some(cause) = describe_late_sending(self.host.name(), lost_ns, span_ns) {
            ledger.add_taint(times.now.as_nanos(), cause);
        }
    }

    /// Returns whether frames wait for space at the device.
    pub(super) fn has_unsent_frames(&self) -> bool {
        !self.unsent_frames.is_empty()
    }

    /// Passes received frames to the host. Returns the number of these frames.
    pub(super) fn receive(
        &mut self,
        times: &WorkerTurnTimes,
        store: &mut ArenaStore,
        ledger: &TaintLog,
    ) -> usize {
        let mut total = 0;
        for _ in 0..BURSTS_PER_TURN {
            if !self.is_usable() {
                break;
            }
            let received = self.port.receive(store, BURST_FRAMES, &mut self.received_frames);
            for arrival in self.received_frames.drain(..) {
                let (bytes, _) = store.arena().segments(arrival.frame);
                let wall_ns = times.realtime_ns_at(arrival.received_ns);
                self.host.receive(times.now, wall_ns, bytes, &arrival.parsed);
                store.return_slot(arrival.frame);
            }
            match received {
                Ok(count) => {
                    total += count;
                    if count < BURST_FRAMES {
                        break;
                    }
                }
                Err(error) => self.disable_device(times, &error, ledger),
            }
        }
        total
    }

    /// Sends the frames that are due. Returns the number of frames that the device has accepted.
    pub(super) fn transmit(
        &mut self,
        times: &WorkerTurnTimes,
        store: &mut ArenaStore,
        ledger: &TaintLog,
    ) -> usize {
        let mut total = 0;
        while self.is_usable() {
            let built = self.build_frames(times, store);
            if self.unsent_frames.is_empty() {
                break;
            }
            match self.port.transmit(store.arena(), &self.unsent_frames) {
                Ok(taken) => {
                    self.unsent_frames
                        .drain(..taken)
                        .for_each(|frame| store.return_slot(frame));
                    total += taken;
                    if built < BURST_FRAMES || !self.unsent_frames.is_empty() {
                        break;
                    }
                }
                Err(error) => self.disable_device(times, &error, ledger),
            }
        }
        total
    }

    /// Builds the frames that the NIC may send now. Returns the number of built frames. If earlier frames
    /// still wait for the device, builds no frames and returns 0.
    fn build_frames(&mut self, times: &WorkerTurnTimes, store: &mut ArenaStore) -> usize {
        if self.has_unsent_frames() {
            return 0;
        }
        let longest = self.host.frame_len_max();
        while self.unsent_frames.len() < BURST_FRAMES {
            let Some(slot) = store.take_slot(longest) else {
                break;
            };
            match self
                .host
                .transmit(times.now, times.wall_ns, store.frame_space(slot))
            {
                Some(len) => {
                    store.set_frame(slot, len);
                    self.unsent_frames.push(slot);
                }
                None => {
                    store.return_slot(slot);
                    break;
                }
            }
        }
        self.unsent_frames.len()
    }

    /// Reads the loss counters of the device. The model has no such losses, so each loss taints the run (the
    /// run then proves nothing).
    pub(super) fn check_losses(&mut self, times: &WorkerTurnTimes, ledger: &TaintLog) {
        if !self.is_usable() {
            return;
        }
        let drops = self.port.take_drops();
        self.notes.extend(drops.notes);
        let (name, device) = (self.host.name(), self.port.device_name());
        let since_ns = times.now.as_nanos();
        if drops.lost > 0 {
            self.lost_frames += drops.lost;
            let cause = format!(
                "the kernel lost frames of host {name} on {device} ({} so far)",
                self.lost_frames
            );
            ledger.add_taint(since_ns, cause);
        }
        for (reason, count) in drops.by_reason {
            self.lost_frames += count;
            let what = reason.name();
            ledger.add_taint(
                since_ns,
                format!("frames of host {name} dropped on {device} as {what} ({count})"),
            );
        }
    }

    fn disable_device(&mut self, times: &WorkerTurnTimes, error: &io::Error, ledger: &TaintLog) {
        let (name, device) = (self.host.name(), self.port.device_name());
        let cause = format!("device {device} of host {name} failed ({error})");
        ledger.add_taint(times.now.as_nanos(), cause.clone());
        self.error = Some(cause);
    }

    /// Ends the host and returns its results. Frames that the device has not accepted are released, and they
    /// taint the run.
    pub(super) fn finish(
        mut self,
        times: &WorkerTurnTimes,
        store: &mut ArenaStore,
        ledger: &TaintLog,
    ) -> HostRunResult {
        self.stop_sending(times, ledger);
        self.check_losses(times, ledger);
        let unaccepted_frames = self.unsent_frames.len() as u64;
        if unaccepted_frames > 0 {
            let (name, device) = (self.host.name(), self.port.device_name());
            let cause =
                format!("device {device} never took frames that host {name} had sent ({unaccepted_frames})");
            ledger.add_taint(times.now.as_nanos(), cause);
        }
        self.unsent_frames
            .drain(..)
            .for_each(|frame| store.return_slot(frame));
        self.port.close(store);
        HostRunResult {
            results: self.host.results(times.now),
            queue_pairs: self.host.rdma_counters(),
            device: self.port.device_name().to_owned(),
            lost_frames: self.lost_frames,
            unaccepted_frames,
            notes: self.notes,
            error: self.error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_lost_much_link_time_is_described() {
        assert_eq!(describe_late_sending("h1", 100_000_000, 1_000_000_000), None);
        assert_eq!(describe_late_sending("h1", 0, 0), None);
        let cause = describe_late_sending("h1", 270_000_000, 1_000_000_000).expect("a taint");
        assert!(
            cause.starts_with("host h1 sent less") && cause.contains("27 % of 1.00 s"),
            "{cause}"
        );
    }
}
