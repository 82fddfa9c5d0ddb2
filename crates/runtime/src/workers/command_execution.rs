//! Executes commands in the switch worker. The switch worker does this between two bursts of frames.

use xoff_dataplane::{FrameStore, PortId};

use super::clock::monotonic_ns;
use super::command::Command;
use super::device_watcher::DeviceRequest;
use super::port_io::PortIo;
use super::switch_worker::SwitchWorker;
use xoff_ports::SlotSource;

impl SwitchWorker {
    /// Executes a command and sends its reply, if it has one.
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
                    engine.configure_lldp(now, config.lldp.as_ref(), store, &mut transmit);
                    self.config = *config;
                    self.update_device_mtus();
                    self.update_stream_links();
                }
                let _ = reply.send(result);
            }
            Command::ReadAndClearWatermarks(reply) => {
                let mut snapshot = engine.snapshot(&self.config, &self.facts, now);
                snapshot.report.worker_busy_ns = Some(self.busy_ns);
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

    /// Passes the MTUs of all ports to the device watcher. Opens each device again that was opened for a smaller
    /// MTU than its port has now.
    fn update_device_mtus(&mut self) {
        for index in 0..self.opened_mtus.len() {
            if self.opened_mtus[index].is_none() || self.port_links[index].location.is_none() {
                continue;
            }
            let (port, mtu) = (PortId(index as u16), self.config.ports[index].mtu);
            // The device watcher ends only at the end of the run.
            let _ = self.device_requests.send(DeviceRequest::SetMtu(port, mtu));
            self.reopen_for_larger_mtu(port);
        }
    }

    /// Passes the speeds of the links to the stream ports.
    fn update_stream_links(&mut self) {
        let ports = self.port_links.iter().zip(&self.facts).zip(&self.config.ports);
        for ((port_link, facts), port) in ports {
            if let Some(location) = port_link.location.filter(|_| facts.stream.is_some()) {
                self.io.change_stream_link(location, port.link);
            }
        }
    }

    /// Opens the device of a port again if it was opened for a smaller MTU than the port has now. Otherwise the device
    /// would refuse the longest frames of the port.
    pub(super) fn reopen_for_larger_mtu(&mut self, port: PortId) {
        let mtu = self.config.ports[port.index()].mtu;
        let Some((worker, index_in_set)) = self.port_links[port.index()].location else {
            return;
        };
        let Some(opened) = self.opened_mtus[port.index()]
            .as_mut()
            .filter(|opened| **opened < mtu)
        else {
            return;
        };
        let is_requested = match &mut self.io {
            PortIo::Direct(ports) => {
                ports.reopen(usize::from(index_in_set));
                true
            }
            PortIo::IoWorkers(remotes) => remotes[worker].queue_reopen(index_in_set),
        };
        if is_requested {
            *opened = mtu;
        }
    }
}
