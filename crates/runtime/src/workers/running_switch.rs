//! The handle of a running switch: commands, queries and stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{ApplyError, ControlRecord, Picos, PortId, Switch};

use super::clock::ModelClock;
use super::command::{Command, Inspection};
use super::switch_worker::{RetainedPorts, WorkerResult};
use super::taint_ledger::TaintLedger;
use xoff_ports::ThreadWaker;
use xoff_telemetry::{SwitchSnapshot, Taint};

/// Longest wait for a reply of the switch worker.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// The handle of a thread that runs one or more switches. When the last owner drops the handle, it waits for
/// the end of the thread.
#[derive(Debug)]
pub(super) struct SwitchThreadHandle(Mutex<Option<JoinHandle<()>>>);

impl SwitchThreadHandle {
    pub(super) fn new(thread: JoinHandle<()>) -> SwitchThreadHandle {
        SwitchThreadHandle(Mutex::new(Some(thread)))
    }

    fn is_finished(&self) -> bool {
        let thread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for SwitchThreadHandle {
    fn drop(&mut self) {
        let thread = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // A thread that panicked has already printed the reason.
        let _ = thread.map(JoinHandle::join);
    }
}

/// The channels, threads and facts of a switch for its [`RunningSwitch`].
#[derive(Debug)]
pub(super) struct RunningSwitchParts {
    pub(super) commands: Sender<Command>,
    pub(super) waker: ThreadWaker,
    pub(super) ledger: TaintLedger,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) result: Receiver<WorkerResult>,
    pub(super) helper_threads: Vec<JoinHandle<()>>,
    pub(super) recording_thread: Option<JoinHandle<Vec<String>>>,
    pub(super) port_count: u16,
    pub(super) notes: Vec<String>,
    pub(super) cores: Vec<Option<usize>>,
    pub(super) clock: ModelClock,
}

/// A running switch.
#[derive(Debug)]
pub struct RunningSwitch {
    commands: Sender<Command>,
    waker: ThreadWaker,
    ledger: TaintLedger,
    stop: Arc<AtomicBool>,
    /// Receives the result of the switch worker when it ends. If the worker dies, the channel closes without
    /// a result.
    result: Receiver<WorkerResult>,
    /// `None` after the stop.
    thread: Option<Arc<SwitchThreadHandle>>,
    helper_threads: Vec<JoinHandle<()>>,
    /// Writes recordings and returns notes about them.
    recording_thread: Option<JoinHandle<Vec<String>>>,
    port_count: u16,
    /// Notes for the user, such as settings of devices that were repaired.
    pub notes: Vec<String>,
    /// Cores of the switch workers, the I/O workers and
    /// [`WorkerOptions::other_threads`](super::WorkerOptions::other_threads), in this order.
    pub cores: Vec<Option<usize>>,
    /// The clock of model time.
    pub clock: ModelClock,
}

/// The result of a switch after its stop.
#[derive(Debug, Default)]
pub struct StoppedSwitch {
    /// The last state of the switch. `None` if the switch worker died.
    pub snapshot: Option<SwitchSnapshot>,
    /// The taints of the run. Empty for a clean run.
    pub taints: Vec<Taint>,
    /// Notes about the recordings of the switch.
    pub notes: Vec<String>,
    /// The ends of links in memory that belong to this switch. The links stay up until this value is dropped.
    pub(crate) _retained_ports: Option<RetainedPorts>,
}

impl RunningSwitch {
    pub(super) fn new(parts: RunningSwitchParts, thread: &Arc<SwitchThreadHandle>) -> RunningSwitch {
        RunningSwitch {
            commands: parts.commands,
            waker: parts.waker,
            ledger: parts.ledger,
            stop: parts.stop,
            result: parts.result,
            thread: Some(Arc::clone(thread)),
            helper_threads: parts.helper_threads,
            recording_thread: parts.recording_thread,
            port_count: parts.port_count,
            notes: parts.notes,
            cores: parts.cores,
            clock: parts.clock,
        }
    }

    /// Returns the number of ports of the switch, with or without a device.
    pub fn port_count(&self) -> u16 {
        self.port_count
    }

    /// Returns a snapshot of the switch. `None` if its worker has ended.
    pub fn snapshot(&self) -> Option<SwitchSnapshot> {
        let (reply, answer) = bounded(1);
        self.send_command(Command::Snapshot(reply));
        answer.recv_timeout(REPLY_TIMEOUT).ok()
    }

    /// Calls `read` with the switch and returns the result of `read`. Returns `None` if the switch worker has
    /// ended. The switch forwards no frames during the call, so `read` must be short. Conversions to text
    /// should follow after the call.
    pub fn inspect<R: Send + 'static>(
        &self,
        read: impl FnOnce(&Switch, Picos) -> R + Send + 'static,
    ) -> Option<R> {
        let (reply, answer) = bounded(1);
        self.send_command(Command::Inspect(Inspection(Box::new(move |switch, now| {
            // A failed reply is ignored: the caller no longer waits for it.
            let _ = reply.send(read(switch, now));
        }))));
        answer.recv_timeout(REPLY_TIMEOUT).ok()
    }

    /// Makes `config` the current generation. Returns `None` if the switch worker has ended.
    pub fn apply_config(&self, config: SwitchConfig) -> Option<Result<(), ApplyError>> {
        let (reply, answer) = bounded(1);
        self.send_command(Command::Apply(Box::new(config), reply));
        answer.recv_timeout(REPLY_TIMEOUT).ok()
    }

    /// Resets every watermark to the present use. Returns the state before the reset.
    pub fn read_and_clear_watermarks(&self) -> Option<SwitchSnapshot> {
        let (reply, answer) = bounded(1);
        self.send_command(Command::ReadAndClearWatermarks(reply));
        answer.recv_timeout(REPLY_TIMEOUT).ok()
    }

    /// Clears the statistics of the PFC watchdog. Storms continue.
    pub fn clear_watchdog_stats(&self) {
        self.send_command(Command::ClearWatchdogStats);
    }

    /// Restarts the measurement of utilisation and transmit deficit.
    pub fn restart_utilisation(&self) {
        self.send_command(Command::RestartUtilisation);
    }

    /// Enables or disables transmission from the queues of a port. MAC control frames are still sent.
    pub fn set_tx_enabled(&self, port: PortId, is_enabled: bool) {
        self.send_command(Command::SetTxEnabled { port, is_enabled });
    }

    /// Sends a raw MAC control frame from a port. Returns whether the switch accepted the frame.
    pub fn send_mac_control(&self, port: PortId, bytes: Vec<u8>) -> bool {
        let (reply, answer) = bounded(1);
        self.send_command(Command::SendMacControl { port, bytes, reply });
        answer.recv_timeout(REPLY_TIMEOUT).unwrap_or(false)
    }

    /// Starts or stops the recording of the MAC control frames that a port receives.
    pub fn set_mac_control_recording(&self, port: PortId, is_enabled: bool) {
        self.send_command(Command::RecordMacControl { port, is_enabled });
    }

    /// Returns the recorded MAC control frames, oldest first.
    pub fn mac_control_records(&self) -> Vec<ControlRecord> {
        let (reply, answer) = bounded(1);
        self.send_command(Command::MacControlRecords(reply));
        answer.recv_timeout(REPLY_TIMEOUT).unwrap_or_default()
    }

    /// Returns the taints of the run so far.
    pub fn taints(&self) -> Vec<Taint> {
        self.ledger.taints()
    }

    /// Returns whether the switch worker has died.
    pub fn is_dead(&self) -> bool {
        self.thread.as_ref().is_none_or(|thread| thread.is_finished())
    }

    /// Asks the switch to stop and does not wait.
    pub fn request_stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Stops all threads and returns the last state.
    pub fn stop(mut self) -> StoppedSwitch {
        let (result, mut notes) = self.stop_threads();
        let (snapshot, retained_ports) = result
            .map(|result| (result.snapshot, result.retained_ports))
            .unzip();
        if snapshot.is_none() {
            self.ledger.add_taint(0, "the switch's worker died".to_owned());
        }
        let ports = snapshot.iter().flat_map(|snapshot| &snapshot.report.ports);
        for port in ports.filter(|port| port.pcap_missed > 0) {
            notes.push(format!(
                "{} frames of {} are missing in its recording, because the file could not be written fast enough",
                port.pcap_missed, port.name
            ));
        }
        StoppedSwitch {
            snapshot,
            taints: self.ledger.taints(),
            notes,
            _retained_ports: retained_ports,
        }
    }

    fn stop_threads(&mut self) -> (Option<WorkerResult>, Vec<String>) {
        self.request_stop();
        // A switch without a thread was stopped before.
        let result = self.thread.as_ref().and_then(|_| self.result.recv().ok());
        self.thread = None;
        for thread in self.helper_threads.drain(..) {
            // A thread that panicked has already printed an error.
            let _ = thread.join();
        }
        // The switch worker has ended, so the recording thread has all frames. It ends after it has written
        // them.
        let notes = self.recording_thread.take().and_then(|thread| thread.join().ok());
        (result, notes.unwrap_or_default())
    }

    fn send_command(&self, command: Command) {
        // A worker that has ended does not reply. The caller notices this by the closed channel.
        let _ = self.commands.send(command);
        self.waker.wake();
    }
}

impl Drop for RunningSwitch {
    fn drop(&mut self) {
        self.stop_threads();
    }
}
