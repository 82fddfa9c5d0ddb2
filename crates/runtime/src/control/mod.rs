//! The control socket of a running switch: one JSON object per line, both ways, over a unix socket.
//!
//! The protocol is written down in `docs/control-socket.md`. The server is one thread that never waits for a
//! client: requests and clients are bounded, garbage is answered with an error, and a client that does not read
//! its answers delays nobody else. Only the same user and root are served.

mod address;
mod client;
mod connection;
mod pfc;
mod protocol;
mod server;
mod tables;

use std::time::Duration;

use serde_json::Value;

pub use address::{Address, Endpoint};
pub use client::Client;
pub use pfc::PfcPort;
pub use protocol::{
    Applied, COUNTERS_SCHEMA, Counters, ErrorCode, ErrorReply, Hello, MacControlFrame, Op, REQUEST_BYTES_MAX,
    VERSION, WatermarkKind, WatermarkPart,
};
pub use server::{CLIENTS_MAX, ServerHandle, serve};
pub use tables::{
    Family, Interfaces, LagMember, LagStatus, MacEntry, Neighbour, PortStatus, RouteEntry, RouteHop,
    RouterInterface,
};

use xoff_telemetry::failure::Failure;
use xoff_telemetry::{SwitchSnapshot, Taint};

/// What a control socket speaks for: a running switch. Called from the server's thread only.
pub trait Target: Send + Sync {
    /// Counters and gauges now; none while the switch is starting or stopping.
    fn snapshot(&self) -> Option<SwitchSnapshot>;

    /// The configuration in force, in the form of `config_db.json`.
    fn config(&self) -> Value;

    /// Makes `config` the new generation, whole or not at all; with `dry_run` only says what would change. A change that must
    /// lose lossless frames is made with `force` only.
    ///
    /// # Errors
    /// What is wrong with it, or will be lost; the switch keeps the generation it has.
    fn apply(&self, config: Value, dry_run: bool, force: bool) -> Result<Applied, Failure>;

    /// As [`Target::snapshot`], with the watermarks of a kind.
    fn watermarks(&self, kind: WatermarkKind) -> Option<SwitchSnapshot> {
        let _ = kind;
        self.snapshot()
    }

    /// Starts watermarks again from the present occupancy.
    fn clear_watermarks(&self, kind: WatermarkKind, part: WatermarkPart);

    /// Does what is due, and says how long nothing will be. Called when requests come, and at that time.
    fn tick(&self) -> Option<Duration> {
        None
    }

    /// The tables of the configuration that concern buffers, as written or as completed.
    ///
    /// # Errors
    /// As [`Target::mac_table`].
    fn buffers(&self, running: bool) -> Result<Value, Failure> {
        let _ = running;
        Err(unsupported("show its buffer configuration"))
    }

    /// What has tainted the run so far.
    fn taints(&self) -> Vec<Taint>;

    /// Sends a MAC control frame, as given and without FCS, out of a port ahead of its queues.
    ///
    /// # Errors
    /// The port is unknown, the frame is no MAC control frame, or this switch cannot.
    fn send_mac_control(&self, port: &str, frame: &[u8]) -> Result<(), Failure> {
        let _ = frame;
        Err(unsupported("send raw MAC control frames").at(port))
    }

    /// The MAC control frames a port received last, oldest first.
    ///
    /// # Errors
    /// The port is unknown, or this switch does not record.
    fn mac_control(&self, port: &str) -> Result<Vec<MacControlFrame>, Failure> {
        Err(unsupported("record MAC control frames").at(port))
    }

    /// The MAC addresses learnt.
    ///
    /// # Errors
    /// The switch is stopping, or has no such table.
    fn mac_table(&self) -> Result<Vec<MacEntry>, Failure> {
        Err(unsupported("show its MAC addresses"))
    }

    /// The router's neighbours, by interface and address.
    ///
    /// # Errors
    /// As [`Target::mac_table`].
    fn neighbours(&self) -> Result<Vec<Neighbour>, Failure> {
        Err(unsupported("show its neighbours"))
    }

    /// The routes of a family, by prefix.
    ///
    /// # Errors
    /// As [`Target::mac_table`].
    fn routes(&self, family: Family) -> Result<Vec<RouteEntry>, Failure> {
        let _ = family;
        Err(unsupported("show its routes"))
    }

    /// Ports, LAGs and router interfaces.
    ///
    /// # Errors
    /// As [`Target::mac_table`].
    fn interfaces(&self) -> Result<Interfaces, Failure> {
        Err(unsupported("show its interfaces"))
    }

    /// Sets the watchdog's statistics back to zero; storms go on.
    ///
    /// # Errors
    /// The switch is stopping, or has no watchdog.
    fn clear_watchdog(&self) -> Result<(), Failure> {
        Err(unsupported("clear a watchdog's statistics"))
    }

    /// What the counters of priority flow control are shown less of: their state when they were cleared. Empty: never.
    fn pfc_base(&self) -> Vec<PfcPort> {
        Vec::new()
    }

    /// Clears the counters of priority flow control, for those who are shown them.
    ///
    /// # Errors
    /// This switch cannot.
    fn set_pfc_base(&self, base: Vec<PfcPort>) -> Result<(), Failure> {
        let _ = base;
        Err(unsupported("clear counters"))
    }
}

fn unsupported(what: &str) -> Failure {
    Failure::environment(format!("this switch cannot {what}"))
}

#[cfg(test)]
mod tests;
