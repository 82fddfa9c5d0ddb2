//! The control socket of a running switch. Requests and responses are JSON objects, one per line, over
//! a Unix socket.
//!
//! `docs/control-socket.md` describes the protocol. The server is one thread that never waits for a client.
//! The number of clients and the size of a request are limited. An invalid request gets an error response. A
//! client that does not read its responses does not delay other clients. Only the same user and
//! root are served.

mod address;
mod client;
mod connection;
mod pfc;
mod protocol;
mod server;
mod tables;

use std::time::Duration;

use serde_json::Value;

pub use address::{ControlAddress, ControlListener};
pub use client::Client;
pub use pfc::PfcPort;
pub use protocol::{
    COUNTERS_SCHEMA, ConfigApplyReply, CountersReply, ErrorCode, ErrorReply, MacControlFrame, Operation,
    PingReply, REQUEST_BYTES_MAX, VERSION, WatermarkKind, WatermarkPart,
};
pub use server::{CLIENTS_MAX, ServerHandle, serve_control};
pub use tables::{
    AddressFamily, Interfaces, LagMember, LagStatus, MacEntry, Neighbour, PortStatus, RouteEntry, RouteHop,
    RouterInterface,
};

use xoff_telemetry::failure::Failure;
use xoff_telemetry::{SwitchSnapshot, Taint};

/// A running switch that answers the requests of a control socket. All methods are called from the thread of
/// the server.
pub trait ControlTarget: Send + Sync {
    /// Returns a snapshot of counters and gauges. `None` while the switch starts or stops.
    fn snapshot(&self) -> Option<SwitchSnapshot>;

    /// Returns the current configuration in the form of `config_db.json`.
    fn config(&self) -> Value;

    /// Replaces the configuration of the switch by `config`, completely or not at all. With `dry_run`, only
    /// reports the changes. A change that loses lossless frames needs `force`.
    ///
    /// # Errors
    /// The configuration is invalid, or lossless frames would be lost. In both cases the switch keeps its
    /// present configuration.
    fn apply_config(&self, config: Value, dry_run: bool, force: bool) -> Result<ConfigApplyReply, Failure>;

    /// Returns a snapshot with the watermarks of a kind.
    fn watermarks(&self, kind: WatermarkKind) -> Option<SwitchSnapshot> {
        let _ = kind;
        self.snapshot()
    }

    /// Resets watermarks to the present use.
    fn clear_watermarks(&self, kind: WatermarkKind, part: WatermarkPart);

    /// Runs the tasks that are due. Returns the time until the next task. The server calls this method when a
    /// task is due, and for each request.
    fn run_due_tasks(&self) -> Option<Duration> {
        None
    }

    /// Returns the buffer tables of the configuration. With `running`, they include computed fields.
    ///
    /// # Errors
    /// The switch is stopping, or does not support this request.
    fn buffers(&self, running: bool) -> Result<Value, Failure> {
        let _ = running;
        Err(unsupported("show its buffer configuration"))
    }

    /// Returns the taints of the run so far.
    fn taints(&self) -> Vec<Taint>;

    /// Sends a MAC control frame from a port. The frame is sent before all queued frames. `frame` has no FCS.
    ///
    /// # Errors
    /// The port is unknown, the frame is not a MAC control frame, or the switch does not
    /// support this request.
    fn send_mac_control(&self, port: &str, frame: &[u8]) -> Result<(), Failure> {
        let _ = frame;
        Err(unsupported("send raw MAC control frames").at(port))
    }

    /// Returns the MAC control frames that a port received last, oldest first.
    ///
    /// # Errors
    /// The port is unknown, or the switch does not record MAC control frames.
    fn mac_control(&self, port: &str) -> Result<Vec<MacControlFrame>, Failure> {
        Err(unsupported("record MAC control frames").at(port))
    }

    /// Returns the learned MAC addresses.
    ///
    /// # Errors
    /// The switch is stopping, or does not support this request.
    fn mac_table(&self) -> Result<Vec<MacEntry>, Failure> {
        Err(unsupported("show its MAC addresses"))
    }

    /// Returns the neighbours of the router, sorted by interface and address.
    ///
    /// # Errors
    /// The switch is stopping, or does not support this request.
    fn neighbours(&self) -> Result<Vec<Neighbour>, Failure> {
        Err(unsupported("show its neighbours"))
    }

    /// Returns the routes of an address family, sorted by prefix.
    ///
    /// # Errors
    /// The switch is stopping, or does not support this request.
    fn routes(&self, family: AddressFamily) -> Result<Vec<RouteEntry>, Failure> {
        let _ = family;
        Err(unsupported("show its routes"))
    }

    /// Returns ports, LAGs and router interfaces.
    ///
    /// # Errors
    /// The switch is stopping, or does not support this request.
    fn interfaces(&self) -> Result<Interfaces, Failure> {
        Err(unsupported("show its interfaces"))
    }

    /// Clears the statistics of the PFC watchdog. Storms continue.
    ///
    /// # Errors
    /// The switch is stopping, or has no PFC watchdog.
    fn clear_watchdog(&self) -> Result<(), Failure> {
        Err(unsupported("clear a watchdog's statistics"))
    }

    /// Returns the values that the PFC counters had when they were last cleared. A client gets the difference
    /// between the counters and these values. The result is empty if the counters were never cleared.
    fn pfc_base(&self) -> Vec<PfcPort> {
        Vec::new()
    }

    /// Sets the PFC counters that are subtracted, which clears the counters for clients.
    ///
    /// # Errors
    /// The switch does not support this request.
    fn set_pfc_base(&self, base: Vec<PfcPort>) -> Result<(), Failure> {
        let _ = base;
        Err(unsupported("clear counters"))
    }
}

/// Returns the error of a request that a switch does not support.
fn unsupported(what: &str) -> Failure {
    Failure::environment(format!("this switch cannot {what}"))
}

#[cfg(test)]
mod tests;
