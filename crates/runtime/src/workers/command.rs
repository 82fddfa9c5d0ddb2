//! What can be asked of a running switch; its worker answers at a burst's edge.

use std::fmt;

use crossbeam_channel::Sender;
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{ApplyError, ControlRecord, FrameStore, Picos, PortId, Switch};

use super::clock::monotonic_ns;
use super::worker::Worker;
use xoff_ports::SlotSource;
use xoff_telemetry::SwitchSnapshot;

/// A look at the switch, at a moment of model time. It must be short: meanwhile no frame moves.
pub(crate) struct Look(pub(crate) Box<Looking>);

type Looking = dyn FnOnce(&Switch, Picos) + Send;

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Look")
    }
}

/// What can be asked of a running switch; answered at a burst's edge.
#[derive(Debug)]
pub(crate) enum Command {
    Snapshot(Sender<SwitchSnapshot>),
    Look(Look),
    Apply(Box<SwitchConfig>, Sender<Result<(), ApplyError>>),
    ClearWatchdogStats,
    /// The state, with the watermarks that start again by it.
    TakeWatermarks(Sender<SwitchSnapshot>),
    RestartUtilisation,
    SetTxEnabled {
        port: PortId,
        on: bool,
    },
    SendMacControl {
        port: PortId,
        bytes: Vec<u8>,
        reply: Sender<bool>,
    },
    RecordMacControl {
        port: PortId,
        on: bool,
    },
    MacControlRecords(Sender<Vec<ControlRecord>>),
}

impl Worker {
    /// Does what is asked, and answers.
    pub(super) fn obey(&mut self, command: Command) {
        let now = self.clock.at(monotonic_ns());
        let before = self.leaving.len();
        let leaving = &mut self.leaving;
        let mut transmit = |transmit| leaving.push_back(transmit);
        let Worker { engine, store, .. } = self;
        // An asker that has gone away does not want the answer.
        match command {
            Command::Snapshot(reply) => {
                let _ = reply.send(self.snapshot(now));
            }
            Command::Look(look) => (look.0)(engine.switch(), now),
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
            Command::TakeWatermarks(reply) => {
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
            Command::SetTxEnabled { port, on } => {
                engine.with_switch(now, store, &mut transmit, |s, at, store, out| {
                    s.set_tx_enabled(at, port, on, store, out)
                })
            }
            Command::SendMacControl { port, bytes, reply } => {
                let sent = store.store(&bytes).is_some_and(|frame| {
                    let sent = engine.with_switch(now, store, &mut transmit, |s, at, store, out| {
                        s.send_mac_control(at, port, frame, store, out)
                    });
                    sent.map_err(|frame| store.release(frame)).is_ok()
                });
                let _ = reply.send(sent);
            }
            Command::RecordMacControl { port, on } => {
                engine.with_switch(now, store, &mut transmit, |s, _, _, _| {
                    s.set_mac_control_recording(port, on)
                });
            }
            Command::MacControlRecords(reply) => {
                let _ = reply.send(engine.switch().mac_control_records().copied().collect());
            }
        }
        self.record_departures(before);
    }
}
