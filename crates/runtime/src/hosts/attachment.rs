//! One host and its device.

use std::io;

use xoff_dataplane::FrameHandle;
use xoff_units::Picos;

use super::{AttachedHost, HostOutcome};
use crate::workers::TaintLedger;
use xoff_host::Host;
use xoff_ports::{ArenaStore, BURST_FRAMES, Port, PortFrame, SlotSource};

/// Bursts taken from one device in a turn, before the others get theirs.
const BURSTS_PER_TURN: usize = 4;

/// The times of a turn of the thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Model time.
    pub(super) now: Picos,
    /// CLOCK_REALTIME.
    pub(super) wall_ns: u64,
    /// CLOCK_MONOTONIC.
    pub(super) monotonic_ns: u64,
}

impl Moment {
    /// CLOCK_REALTIME at a time of CLOCK_MONOTONIC.
    fn wall_at(&self, monotonic_ns: u64) -> u64 {
        let ago = self.monotonic_ns.saturating_sub(monotonic_ns);
        self.wall_ns.saturating_sub(ago)
    }
}

/// A host, its device, and the frames between them.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) host: Host,
    pub(super) port: Port,
    arrived: Vec<PortFrame>,
    /// Built frames that the device has not taken yet.
    leaving: Vec<FrameHandle>,
    lost_outside: u64,
    notes: Vec<String>,
    error: Option<String>,
}

impl Attachment {
    pub(super) fn new(attached: AttachedHost) -> Attachment {
        Attachment {
            host: attached.host,
            port: attached.port,
            arrived: Vec::with_capacity(BURST_FRAMES),
            leaving: Vec::with_capacity(BURST_FRAMES),
            lost_outside: 0,
            notes: Vec::new(),
            error: None,
        }
    }

    /// Whether its device can still be used.
    pub(super) fn is_usable(&self) -> bool {
        self.error.is_none()
    }

    /// Whether frames wait for the device.
    pub(super) fn is_blocked(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Takes what has arrived; how many frames that was.
    pub(super) fn receive(&mut self, moment: &Moment, store: &mut ArenaStore, ledger: &TaintLedger) -> usize {
        let mut total = 0;
        for _ in 0..BURSTS_PER_TURN {
            if !self.is_usable() {
                break;
            }
            let received = self.port.receive(store, BURST_FRAMES, &mut self.arrived);
            for arrival in self.arrived.drain(..) {
                let (bytes, _) = store.arena().segments(arrival.frame);
                let wall_ns = moment.wall_at(arrival.received_ns);
                self.host.receive(moment.now, wall_ns, bytes, &arrival.parsed);
                store.return_slot(arrival.frame);
            }
            match received {
                Ok(count) => {
                    total += count;
                    if count < BURST_FRAMES {
                        break;
                    }
                }
                Err(error) => self.fail(moment, &error, ledger),
            }
        }
        total
    }

    /// Sends what is due; how many frames the device took.
    pub(super) fn transmit(
        &mut self,
        moment: &Moment,
        store: &mut ArenaStore,
        ledger: &TaintLedger,
    ) -> usize {
        let mut total = 0;
        while self.is_usable() {
            let built = self.build(moment, store);
            if self.leaving.is_empty() {
                break;
            }
            match self.port.transmit(store.arena(), &self.leaving) {
                Ok(taken) => {
                    self.leaving
                        .drain(..taken)
                        .for_each(|frame| store.return_slot(frame));
                    total += taken;
                    if built < BURST_FRAMES || !self.leaving.is_empty() {
                        break;
                    }
                }
                Err(error) => self.fail(moment, &error, ledger),
            }
        }
        total
    }

    /// Builds frames while the NIC lets them go and the device has taken the earlier ones.
    fn build(&mut self, moment: &Moment, store: &mut ArenaStore) -> usize {
        if self.is_blocked() {
            return 0;
        }
        let longest = self.host.frame_len_max();
        while self.leaving.len() < BURST_FRAMES {
            let Some(slot) = store.take_slot(longest) else {
                break;
            };
            match self
                .host
                .transmit(moment.now, moment.wall_ns, store.frame_space(slot))
            {
                Some(len) => {
                    store.set_frame(slot, len);
                    self.leaving.push(slot);
                }
                None => {
                    store.return_slot(slot);
                    break;
                }
            }
        }
        self.leaving.len()
    }

    /// Asks the kernel what it lost. Losses taint: the model does not know of them.
    pub(super) fn watch(&mut self, moment: &Moment, ledger: &TaintLedger) {
        if !self.is_usable() {
            return;
        }
        let drops = self.port.take_drops();
        self.notes.extend(drops.notes);
        let (name, device) = (self.host.name(), self.port.device_name());
        let since_ns = moment.now.as_nanos();
        if drops.lost > 0 {
            self.lost_outside += drops.lost;
            let cause = format!(
                "the kernel lost frames of host {name} on {device} ({} so far)",
                self.lost_outside
            );
            ledger.add_taint(since_ns, cause);
        }
        for (reason, count) in drops.by_reason {
            self.lost_outside += count;
            let what = reason.name();
            ledger.add_taint(
                since_ns,
                format!("frames of host {name} dropped on {device} as {what} ({count})"),
            );
        }
    }

    fn fail(&mut self, moment: &Moment, error: &io::Error, ledger: &TaintLedger) {
        let (name, device) = (self.host.name(), self.port.device_name());
        let cause = format!("device {device} of host {name} failed ({error})");
        ledger.add_taint(moment.now.as_nanos(), cause.clone());
        self.error = Some(cause);
    }

    /// Ends the host: its figures, and the frames that are left.
    pub(super) fn finish(
        mut self,
        moment: &Moment,
        store: &mut ArenaStore,
        ledger: &TaintLedger,
    ) -> HostOutcome {
        self.watch(moment, ledger);
        let not_taken = self.leaving.len() as u64;
        if not_taken > 0 {
            let (name, device) = (self.host.name(), self.port.device_name());
            let cause = format!("device {device} never took frames that host {name} had sent ({not_taken})");
            ledger.add_taint(moment.now.as_nanos(), cause);
        }
        self.leaving.drain(..).for_each(|frame| store.return_slot(frame));
        self.port.close(store);
        HostOutcome {
            results: self.host.results(moment.now),
            queue_pairs: self.host.rdma_counters(),
            device: self.port.device_name().to_owned(),
            lost_outside: self.lost_outside,
            not_taken,
            notes: self.notes,
            error: self.error,
        }
    }
}
