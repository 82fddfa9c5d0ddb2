//! A switch that runs: asking and stopping it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{ApplyError, ControlRecord, Picos, PortId, Switch};

use super::clock::ModelClock;
use super::command::{Command, Look};
use super::ledger::Ledger;
use super::worker::{End, Kept};
use xoff_ports::Bell;
use xoff_telemetry::{SwitchSnapshot, Taint};

/// Longest wait for an answer of the switch's worker.
const ANSWER: Duration = Duration::from_secs(5);

/// The thread that drives a switch, and perhaps others. It is waited for when the last of them lets go of it.
#[derive(Debug)]
pub(super) struct CrewThread(Mutex<Option<JoinHandle<()>>>);

impl CrewThread {
    pub(super) fn new(thread: JoinHandle<()>) -> CrewThread {
        CrewThread(Mutex::new(Some(thread)))
    }

    fn is_finished(&self) -> bool {
        let thread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for CrewThread {
    fn drop(&mut self) {
        let thread = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // A thread that panicked has said so on standard error.
        let _ = thread.map(JoinHandle::join);
    }
}

/// What a running switch is made of.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) commands: Sender<Command>,
    pub(super) bell: Bell,
    pub(super) ledger: Ledger,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) end: Receiver<End>,
    pub(super) others: Vec<JoinHandle<()>>,
    pub(super) pcap: Option<JoinHandle<Vec<String>>>,
    pub(super) ports: u16,
    pub(super) notes: Vec<String>,
    pub(super) cores: Vec<Option<usize>>,
    pub(super) clock: ModelClock,
}

/// A switch that forwards.
#[derive(Debug)]
pub struct Running {
    commands: Sender<Command>,
    bell: Bell,
    ledger: Ledger,
    stop: Arc<AtomicBool>,
    /// What the worker leaves at its end; closed without that if it dies.
    end: Receiver<End>,
    /// `None` once it is stopped.
    thread: Option<Arc<CrewThread>>,
    others: Vec<JoinHandle<()>>,
    /// Writes recordings; ends with what it has to say about them.
    pcap: Option<JoinHandle<Vec<String>>>,
    ports: u16,
    /// What was repaired or should be known.
    pub notes: Vec<String>,
    /// Cores of the switches' workers, the I/O workers and the `other_threads`, in this order.
    pub cores: Vec<Option<usize>>,
    /// The model's time.
    pub clock: ModelClock,
}

/// What a run leaves.
#[derive(Debug, Default)]
pub struct Finished {
    /// The last state of the switch; `None` if its worker died.
    pub snapshot: Option<SwitchSnapshot>,
    /// Why the run is tainted; empty if it is clean.
    pub taints: Vec<Taint>,
    /// What should be known of its recordings.
    pub notes: Vec<String>,
    /// Its ends of links in memory, which stay up as long as this is there.
    pub(crate) _kept: Option<Kept>,
}

impl Running {
    pub(super) fn new(parts: Parts, thread: &Arc<CrewThread>) -> Running {
        Running {
            commands: parts.commands,
            bell: parts.bell,
            ledger: parts.ledger,
            stop: parts.stop,
            end: parts.end,
            thread: Some(Arc::clone(thread)),
            others: parts.others,
            pcap: parts.pcap,
            ports: parts.ports,
            notes: parts.notes,
            cores: parts.cores,
            clock: parts.clock,
        }
    }

    /// How many ports the switch has, with or without a device.
    pub fn port_count(&self) -> u16 {
        self.ports
    }

    /// A copy of the switch's state; `None` if its worker is gone.
    pub fn snapshot(&self) -> Option<SwitchSnapshot> {
        let (reply, answer) = bounded(1);
        self.ask(Command::Snapshot(reply));
        answer.recv_timeout(ANSWER).ok()
    }

    /// What `look` finds in the switch; `None` if its worker is gone. No frame moves meanwhile: it must be short, and
    /// what it finds is put into words elsewhere.
    pub fn look<R: Send + 'static>(
        &self,
        look: impl FnOnce(&Switch, Picos) -> R + Send + 'static,
    ) -> Option<R> {
        let (reply, answer) = bounded(1);
        self.ask(Command::Look(Look(Box::new(move |switch, now| {
            // An asker that has gone away does not want the answer.
            let _ = reply.send(look(switch, now));
        }))));
        answer.recv_timeout(ANSWER).ok()
    }

    /// Makes `config` the current generation; `None` if the worker is gone.
    pub fn apply(&self, config: SwitchConfig) -> Option<Result<(), ApplyError>> {
        let (reply, answer) = bounded(1);
        self.ask(Command::Apply(Box::new(config), reply));
        answer.recv_timeout(ANSWER).ok()
    }

    /// Sets every watermark back to what is in use now; the state before that.
    pub fn take_watermarks(&self) -> Option<SwitchSnapshot> {
        let (reply, answer) = bounded(1);
        self.ask(Command::TakeWatermarks(reply));
        answer.recv_timeout(ANSWER).ok()
    }

    /// Sets the statistics of the PFC watchdog back to zero; storms go on.
    pub fn clear_watchdog_stats(&self) {
        self.ask(Command::ClearWatchdogStats);
    }

    /// Starts the measurement of utilisation and deficit anew.
    pub fn restart_utilisation(&self) {
        self.ask(Command::RestartUtilisation);
    }

    /// Holds a port's queues back, or lets them go on; MAC control frames still leave.
    pub fn set_tx_enabled(&self, port: PortId, on: bool) {
        self.ask(Command::SetTxEnabled { port, on });
    }

    /// Sends a raw MAC control frame from a port; whether it was taken.
    pub fn send_mac_control(&self, port: PortId, bytes: Vec<u8>) -> bool {
        let (reply, answer) = bounded(1);
        self.ask(Command::SendMacControl { port, bytes, reply });
        answer.recv_timeout(ANSWER).unwrap_or(false)
    }

    /// Records the MAC control frames that a port receives, or stops doing so.
    pub fn record_mac_control(&self, port: PortId, on: bool) {
        self.ask(Command::RecordMacControl { port, on });
    }

    /// Recorded MAC control frames, oldest first.
    pub fn mac_control_records(&self) -> Vec<ControlRecord> {
        let (reply, answer) = bounded(1);
        self.ask(Command::MacControlRecords(reply));
        answer.recv_timeout(ANSWER).unwrap_or_default()
    }

    /// Why the run is tainted so far.
    pub fn taints(&self) -> Vec<Taint> {
        self.ledger.taints()
    }

    /// Whether the switch's worker has died.
    pub fn is_dead(&self) -> bool {
        self.thread.as_ref().is_none_or(|thread| thread.is_finished())
    }

    /// Tells the switch to stop, and does not wait for it.
    pub fn tell_to_stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.bell.ring();
    }

    /// Stops all threads and takes the last state.
    pub fn stop(mut self) -> Finished {
        let (end, mut notes) = self.halt();
        let (snapshot, kept) = end.map(|end| (end.snapshot, end.kept)).unzip();
        if snapshot.is_none() {
            self.ledger.taint(0, "the switch's worker died".to_owned());
        }
        let ports = snapshot.iter().flat_map(|snapshot| &snapshot.ports);
        for port in ports.filter(|port| port.pcap_missed > 0) {
            notes.push(format!(
                "{} frames of {} are missing in its recording, which could not be written as fast as they came",
                port.pcap_missed, port.name
            ));
        }
        Finished {
            snapshot,
            taints: self.ledger.taints(),
            notes,
            _kept: kept,
        }
    }

    fn halt(&mut self) -> (Option<End>, Vec<String>) {
        self.tell_to_stop();
        // Without a thread it has been stopped before.
        let end = self.thread.as_ref().and_then(|_| self.end.recv().ok());
        self.thread = None;
        for thread in self.others.drain(..) {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
        // It has all frames now that the worker is gone, and ends when it has written them.
        let notes = self.pcap.take().and_then(|thread| thread.join().ok());
        (end, notes.unwrap_or_default())
    }

    fn ask(&self, command: Command) {
        // A worker that is gone does not answer; the asker notices by that.
        let _ = self.commands.send(command);
        self.bell.ring();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.halt();
    }
}
