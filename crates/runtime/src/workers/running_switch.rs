//! The handle of a running switch. The handle sends commands and queries to the switch, and stops the switch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{ApplyError, ControlRecord, Picos, PortId, Switch};

use super::clock::ModelClock;
use super::command::{Command, Inspection};
use super::recent_snapshot::RecentSnapshot;
use super::switch_worker::{RetainedPorts, WorkerResult};
use super::taint_ledger::TaintLog;
use xoff_ports::ThreadWaker;
use xoff_telemetry::{SwitchSnapshot, Taint, count_noun};

/// Longest wait for a reply from the switch worker.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// The handle of a thread that runs one or more switches. When the last owner drops the handle, the drop
/// waits for the end of the thread.
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

/// The parts from which a [`RunningSwitch`] is created.
#[derive(Debug)]
pub(super) struct RunningSwitchParts {
    pub(super) commands: Sender<Command>,
    pub(super) waker: ThreadWaker,
    pub(super) ledger: TaintLog,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) result: Receiver<WorkerResult>,
    pub(super) helper_threads: Vec<JoinHandle<()>>,
    pub(super) removed_devices: Receiver<PortId>,
    pub(super) recording_thread: Option<JoinHandle<Vec<String>>>,
    pub(super) port_count: u16,
    pub(super) notes: Vec<String>,
    pub(super) cores: Vec<Option<usize>>,
    pub(super) clock: ModelClock,
}

/// A running switch. Dropping the value stops the switch and waits for the end of its threads.
///
/// Methods with a reply wait at most 5 seconds for the switch worker, which is the thread that owns
/// the switch.
#[derive(Debug)]
pub struct RunningSwitch {
    commands: Sender<Command>,
    recent_snapshot: RecentSnapshot,
    waker: ThreadWaker,
    ledger: TaintLog,
    stop: Arc<AtomicBool>,
    /// Receives the result of the switch worker at its end. If the worker dies, the channel closes without
    /// a result.
    result: Receiver<WorkerResult>,
    /// `None` after the stop.
    thread: Option<Arc<SwitchThreadHandle>>,
    helper_threads: Vec<JoinHandle<()>>,
    /// The ports whose device was removed and whose MTU the session sets when the device exists again.
    removed_devices: Receiver<PortId>,
    /// The thread that writes recordings. At its end it returns notes about them.
    recording_thread: Option<JoinHandle<Vec<String>>>,
    port_count: u16,
    /// Notes for the user, such as notes about changed settings of devices.
    pub notes: Vec<String>,
    /// Cores of all threads in this order: switch workers, I/O workers, and
    /// [`WorkerOptions::other_threads`](super::WorkerOptions::other_threads). `None` means that the thread is
    /// not pinned.
    pub cores: Vec<Option<usize>>,
    /// The clock that converts between wall time and model time.
    pub clock: ModelClock,
}

/// The result of a switch after its stop.
#[derive(Debug, Default)]
pub struct StoppedSwitch {
    /// The last state of the switch. `None` if the switch worker died.
    pub snapshot: Option<SwitchSnapshot>,
    /// The taints of the run, which are the reasons for which the run proves nothing. Empty for a clean run.
    pub taints: Vec<Taint>,
    /// Notes about the recordings of the switch.
    pub notes: Vec<String>,
    /// The ends of in-memory links that belong to this switch. The links stay up until this value is dropped.
    pub(crate) _retained_ports: Option<RetainedPorts>,
}

impl RunningSwitch {
    pub(super) fn new(parts: RunningSwitchParts, thread: &Arc<SwitchThreadHandle>) -> RunningSwitch {
        RunningSwitch {
            commands: parts.commands,
            recent_snapshot: RecentSnapshot::new(Instant::now()),
            waker: parts.waker,
            ledger: parts.ledger,
            stop: parts.stop,
            result: parts.result,
            thread: Some(Arc::clone(thread)),
            helper_threads: parts.helper_threads,
            removed_devices: parts.removed_devices,
            recording_thread: parts.recording_thread,
            port_count: parts.port_count,
            notes: parts.notes,
            cores: parts.cores,
            clock: parts.clock,
        }
    }

    /// Returns the ports whose device was removed since the last call, and whose MTU the session sets when the device
    /// exists again.
    pub(crate) fn take_removed_devices(&self) -> Vec<PortId> {
        self.removed_devices.try_iter().collect()
    }

    /// Returns the number of ports of the switch, with or without a device.
    pub fn port_count(&self) -> u16 {
        self.port_count
    }

    /// Returns a snapshot of the switch. The switch takes at most 100 snapshots per second for a long time, so a
    /// snapshot can be up to 10 ms old if it is read more often. It is never older than the latest change of the
    /// switch. Returns `None` if the switch worker has ended or does not answer within 5 seconds.
    pub fn snapshot(&self) -> Option<SwitchSnapshot> {
        self.recent_snapshot.read(Instant::now(), || {
            let (reply, answer) = bounded(1);
            self.send_command(Command::Snapshot(reply));
            answer.recv_timeout(REPLY_TIMEOUT).ok()
        })
    }

    /// Calls `read` with the switch and the present model time, and returns the result of `read`. Returns
    /// `None` if the switch worker has ended or does not answer within 5 seconds. The switch forwards no
    /// frames during the call, so `read` must be short. For example, conversions to text should follow after
    /// the call.
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

    /// Makes `config` the current configuration of the switch. The inner result is an error if the switch
    /// refuses the configuration. Returns `None` if the switch worker has ended or does not answer within
    /// 5 seconds.
    pub fn apply_config(&self, config: SwitchConfig) -> Option<Result<(), ApplyError>> {
        let (reply, answer) = bounded(1);
        self.send_command(Command::Apply(Box::new(config), reply));
        answer.recv_timeout(REPLY_TIMEOUT).ok()
    }

    /// Resets all watermarks to the present use, and returns the state before the reset. Returns `None` if
    /// the switch worker has ended or does not answer within 5 seconds.
    pub fn read_and_clear_watermarks(&self) -> Option<SwitchSnapshot> {
        let (reply, answer) = bounded(1);
        self.send_command(Command::ReadAndClearWatermarks(reply));
        answer.recv_timeout(REPLY_TIMEOUT).ok()
    }

    /// Clears the statistics of the PFC watchdog. Present storms continue. Does not wait for the
    /// switch worker.
    pub fn clear_watchdog_stats(&self) {
        self.send_command(Command::ClearWatchdogStats);
    }

    /// Restarts the measurement of utilisation and transmit deficit. Does not wait for the switch worker.
    pub fn restart_utilisation(&self) {
        self.send_command(Command::RestartUtilisation);
    }

    /// Enables or disables transmission from the queues of a port. A disabled port still sends MAC
    /// control frames.
    pub fn set_tx_enabled(&self, port: PortId, is_enabled: bool) {
        self.send_command(Command::SetTxEnabled { port, is_enabled });
    }

    /// Sends a MAC control frame from a port, ahead of all queues. `bytes` is the frame without FCS. Returns
    /// whether the switch accepted the frame. The result is false if the port is down, too many control
    /// frames wait, no frame slot is free, or the switch worker does not answer within 5 seconds.
    pub fn send_mac_control(&self, port: PortId, bytes: Vec<u8>) -> bool {
        let (reply, answer) = bounded(1);
        self.send_command(Command::SendMacControl { port, bytes, reply });
        answer.recv_timeout(REPLY_TIMEOUT).unwrap_or(false)
    }

    /// Starts or stops the recording of the MAC control frames that a port receives.
    pub fn set_mac_control_recording(&self, port: PortId, is_enabled: bool) {
        self.send_command(Command::RecordMacControl { port, is_enabled });
    }

    /// Returns the latest MAC control frames of the ports whose recording is on, oldest first, at most
    /// [`CONTROL_RECORDS_MAX`](xoff_dataplane::CONTROL_RECORDS_MAX). The result is also empty if the switch
    /// worker has ended or does not answer within 5 seconds.
    pub fn mac_control_records(&self) -> Vec<ControlRecord> {
        let (reply, answer) = bounded(1);
        self.send_command(Command::MacControlRecords(reply));
        answer.recv_timeout(REPLY_TIMEOUT).unwrap_or_default()
    }

    /// Returns the taints of the run so far.
    pub fn taints(&self) -> Vec<Taint> {
        self.ledger.taints()
    }

    /// Returns whether the thread of the switch has ended. The thread ends after a panic or when a stop
    /// is requested.
    pub fn is_dead(&self) -> bool {
        self.thread.as_ref().is_none_or(|thread| thread.is_finished())
    }

    /// Asks the switch to stop, and returns without waiting.
    pub fn request_stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Stops all threads of the switch, waits for their end, and returns the last state. If the switch worker
    /// died, the result has no snapshot. A taint (a reason for which the run proves nothing) then reports the
    /// death of the worker.
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
                "the recording of {} lacks {}, because the file could not be written fast enough",
                port.name,
                count_noun(port.pcap_missed, "frame")
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
        // The switch worker has ended, so the recording thread has all frames. It ends after it has
        // written them.
        let notes = self.recording_thread.take().and_then(|thread| thread.join().ok());
        (result, notes.unwrap_or_default())
    }

    fn send_command(&self, command: Command) {
        let is_change = !matches!(command, Command::Snapshot(_) | Command::Inspect(_));
        // A worker that has ended does not reply. The caller notices this by the closed channel.
        let _ = self.commands.send(command);
        self.waker.wake();
        if is_change {
            self.recent_snapshot.record_change();
        }
    }
}

impl Drop for RunningSwitch {
    fn drop(&mut self) {
        self.stop_threads();
    }
}
