//! Commands to a running switch. The switch worker executes them between two bursts.

use std::fmt;

use crossbeam_channel::Sender;
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{ApplyError, ControlRecord, FrameStore, Picos, PortId, Switch};

use super::clock::monotonic_ns;
use super::switch_worker::SwitchWorker;
use xoff_ports::SlotSource;
use xoff_telemetry::SwitchSnapshot;

/// A function that reads the state of the switch at a model time. The switch forwards no frames while the
/// function runs, so the function must be short.
pub(crate) struct Inspection(pub(crate) Box<InspectFn>);

type InspectFn = dyn FnOnce(&Switch, Picos) + Send;

impl fmt::Debug for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inspection")
    }
}

/// A command to a running switch. If the command has a `Sender`, the switch sends the reply over this
/// channel.
#[derive(Debug)]
pub(crate) enum Command {
    Snapshot(Sender<SwitchSnapshot>),
    Inspect(Inspection),
    Apply(Box<SwitchConfig>, Sender<Result<(), ApplyError>>),
    ClearWatchdogStats,
    /// Returns the state and then resets the watermarks.
    ReadAndClearWatermarks(Sender<SwitchSnapshot>),
    RestartUtilisation,
    SetTxEnabled {
        port: PortId,
        is_enabled: bool,
    },
    SendMacControl {
        port: PortId,
        bytes: Vec<u8>,
        reply: Sender<bool>,
    },
    RecordMacControl {
        port: PortId,
        is_enabled: bool,
    },
    MacControlRecords(Sender<Vec<ControlRecord>>),
}

impl SwitchWorker {
    /// Executes a command and sends the reply.
    pub(super) fn execute(&mut self, command: Command) {
        let now = self.clock.model_time(monotonic_ns());
        let first_departure = self.departures.len();
        let departures = &mut self.departures;
        let mut transmit = |transmit| departures.push_back(transmit);
        let SwitchWorker { engine, store, .. } = self;
        // A failed reply is ignored: the sender of the command no longer waits for it.
        match command {
            Command::Snapshot(reply) => {
                let _ = reply.send(self.snapshot(now));
            }
            Command::Inspect(inspection) => (inspection.0)(engine.switch(), now),
            Command::Apply(config, reply) => {
                let result = engine.with_switch(now, store, &mut transmit, |s, at, store, out| {
                    s.apply_config(at, &config, store, out)
                });
                if result.is_ok() {
                    for (index, port) in config.ports.iter().enumerate() {
                        engine.set_link_timing(PortId(index as u16), port.link);
                    }
                    engine.reconfigure_cpu(&config.routing);
                    self.config = *config;
                }
                let _ = reply.send(result);
            }
            Command::ReadAndClearWatermarks(reply) => {
                let mut snapshot = engine.snapshot(&self.config, &self.facts, now);
                snapshot.worker_busy_ns = Some(self.busy_ns);
                let _ = reply.send(snapshot);
                engine.with_switch(now, store, &mut transmit, |s, _, _, _| s.clear_watermarks());
            }
            Command::ClearWatchdogStats => {
                engine.with_switch(now, store, &mut transmit, |s, _, _, _| s.clear_watchdog_stats());
            }
            Command::RestartUtilisation => {
                engine.with_switch(now, store, &mut transmit, |s, _, _, _| s.restart_utilisation());
            }
            Command::SetTxEnabled { port, is_enabled } => {
                engine.with_switch(now, store, &mut transmit, |s, at, store, out| {
                    s.set_tx_enabled(at, port, is_enabled, store, out)
                })
            }
            Command::SendMacControl { port, bytes, reply } => {
                let sent = store.store_frame(&bytes).is_some_and(|frame| {
                    let sent = engine.with_switch(now, store, &mut transmit, |s, at, store, out| {
                        s.send_mac_control(at, port, frame, store, out)
                    });
                    sent.map_err(|frame| store.release(frame)).is_ok()
                });
                let _ = reply.send(sent);
            }
            Command::RecordMacControl { port, is_enabled } => {
                engine.with_switch(now, store, &mut transmit, |s, _, _, _| {
                    s.set_mac_control_recording(port, is_enabled)
                });
            }
            Command::MacControlRecords(reply) => {
                let _ = reply.send(engine.switch().mac_control_records().copied().collect());
            }
        }
        self.record_departures(first_departure);
    }
}
