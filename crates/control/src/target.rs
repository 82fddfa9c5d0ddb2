//! The interface between the server and a running switch.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::events::EventLog;
use crate::pfc::PfcPort;
use crate::resources::{
    ConfigApplyReply, CurrentConfig, MacControlFrame, NewConfig, WatermarkKind, WatermarkPart,
};
use crate::tables::{AddressFamily, Interfaces, MacEntry, Neighbour, RouteEntry};
use xoff_telemetry::failure::Failure;
use xoff_telemetry::{SwitchSnapshot, Taint};

/// A running switch that answers the requests of a control API. Several threads of the server call the
/// methods at the same time. At most one thread at a time calls a method that changes the switch. No method
/// that reads may wait for a change.
pub trait ControlTarget: Send + Sync {
    /// Returns the name of the switch.
    fn name(&self) -> String;

    /// Returns the names of the ports, in the order of the configuration.
    fn port_names(&self) -> Vec<String>;

    /// Returns the latest events of the switch.
    fn event_log(&self) -> Arc<EventLog>;

    /// Returns a snapshot of counters and gauges, with the watermarks of the kind [`WatermarkKind::User`].
    /// Returns `None` while the switch starts or stops.
    fn snapshot(&self) -> Option<SwitchSnapshot>;

    /// Returns the configuration in use and its generation.
    fn config(&self) -> CurrentConfig;

    /// Returns the generation of the configuration. Each applied change increments this number.
    fn config_generation(&self) -> u64;

    /// Replaces the configuration of the switch by `config`, completely or not at all. With `dry_run`, the
    /// method only reports the changes. Without `dry_run`, a change that loses lossless frames needs `force`.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid, if the change would lose lossless frames and neither
    /// `dry_run` nor `force` is set, or if the switch is stopping. After an error, the switch keeps its
    /// present configuration.
    fn apply_config(
        &self,
        config: NewConfig,
        dry_run: bool,
        force: bool,
    ) -> Result<ConfigApplyReply, Failure>;

    /// Returns a snapshot with the watermarks of one kind. Returns `None` while the switch starts or stops.
    /// By default, the kind is ignored.
    fn watermarks(&self, kind: WatermarkKind) -> Option<SwitchSnapshot> {
        let _ = kind;
        self.snapshot()
    }

    /// Resets the selected watermarks of one kind to the present use. Does nothing while the switch starts
    /// or stops.
    fn clear_watermarks(&self, kind: WatermarkKind, part: WatermarkPart);

    /// Runs the tasks that are due, such as the start of a new period of the periodic watermarks. Returns the
    /// time until the next task, or `None` if no task is planned. The server calls this method when a task
    /// is due.
    fn run_due_tasks(&self) -> Option<Duration> {
        None
    }

    /// Returns the buffer tables of the configuration, as an object of tables. With `running`, the tables
    /// include computed fields.
    ///
    /// # Errors
    /// Returns an error if the switch is stopping or does not support this request.
    fn buffers(&self, running: bool) -> Result<Value, Failure> {
        let _ = running;
        Err(unsupported("show its buffer configuration"))
    }

    /// Returns the taints of the run so far. A taint is a reason for which the run proves nothing.
    fn taints(&self) -> Vec<Taint>;

    /// Sends a MAC control frame from the port `port`, ahead of all queued frames. `frame` has no FCS.
    ///
    /// # Errors
    /// Returns an error if the port is unknown or down, the frame is not a MAC control frame, too many
    /// control frames wait at the port, or the switch does not support this request.
    fn send_mac_control(&self, port: &str, frame: &[u8]) -> Result<(), Failure> {
        let _ = frame;
        Err(unsupported("send raw MAC control frames").at(port))
    }

    /// Returns the latest MAC control frames that the port `port` received, oldest first.
    ///
    /// # Errors
    /// Returns an error if the port is unknown, or if the switch does not record MAC control frames.
    fn mac_control(&self, port: &str) -> Result<Vec<MacControlFrame>, Failure> {
        Err(unsupported("record MAC control frames").at(port))
    }

    /// Returns the learned MAC addresses, sorted by VLAN and address.
    ///
    /// # Errors
    /// Returns an error if the switch is stopping or does not support this request.
    fn mac_table(&self) -> Result<Vec<MacEntry>, Failure> {
        Err(unsupported("show its MAC addresses"))
    }

    /// Returns the neighbours of the router, sorted by interface and address.
    ///
    /// # Errors
    /// Returns an error if the switch is stopping or does not support this request.
    fn neighbours(&self) -> Result<Vec<Neighbour>, Failure> {
        Err(unsupported("show its neighbours"))
    }

    /// Returns the routes of an address family, sorted by prefix. Static routes that are not in use
    /// are included.
    ///
    /// # Errors
    /// Returns an error if the switch is stopping or does not support this request.
    fn routes(&self, family: AddressFamily) -> Result<Vec<RouteEntry>, Failure> {
        let _ = family;
        Err(unsupported("show its routes"))
    }

    /// Returns the ports, LAGs and router interfaces of the switch.
    ///
    /// # Errors
    /// Returns an error if the switch is stopping or does not support this request.
    fn interfaces(&self) -> Result<Interfaces, Failure> {
        Err(unsupported("show its interfaces"))
    }

    /// Clears the statistics of the PFC watchdog. Present storms continue.
    ///
    /// # Errors
    /// Returns an error if the switch is stopping or does not support this request.
    fn clear_watchdog(&self) -> Result<(), Failure> {
        Err(unsupported("clear a watchdog's statistics"))
    }

    /// Returns the values that the PFC counters had when they were last cleared. Clients get the difference
    /// between the present counters and these values. The result is empty if the counters were never cleared.
    fn pfc_baseline(&self) -> Vec<PfcPort> {
        Vec::new()
    }

    /// Sets the values that are subtracted from the PFC counters. With the present values, this clears the
    /// counters for all clients.
    ///
    /// # Errors
    /// Returns an error if the switch does not support this request.
    fn set_pfc_baseline(&self, base: Vec<PfcPort>) -> Result<(), Failure> {
        let _ = base;
        Err(unsupported("clear counters"))
    }
}

/// Returns the error for a request that a switch does not support. `what` completes the sentence "this switch
/// cannot ...".
fn unsupported(what: &str) -> Failure {
    Failure::environment(format!("this switch cannot {what}"))
        .fix("use a switch that `xoff switch run` or a lab runs")
}
