//! The control API of running switches: HTTP/1.1 with JSON over a Unix socket. The crate contains the server,
//! the client and the types of all resources. `docs/control-api.md` describes the API.
//!
//! One server serves all switches of a process. A switch implements [`ControlTarget`]. The server has its own
//! thread, and no operation of a client can delay this thread. The number of clients, the rates of bytes and
//! requests, and all times have limits.
#![forbid(unsafe_code)]

mod access;
mod address;
mod client;
mod error;
mod events;
mod merge_patch;
mod pfc;
mod resources;
mod routes;
mod serve;
mod server;
mod tables;
mod target;

pub use access::{ApiToken, TcpAccess};
pub use address::{ControlAddress, ControlListener};
pub use client::Client;
pub use error::{ErrorCode, ErrorReply};
pub use events::{EVENTS_KEPT, EventLog, StreamItem};
pub use merge_patch::merge_patch;
pub use pfc::PfcPort;
pub use resources::{
    COUNTERS_SCHEMA, ClearRequest, ConfigApplyReply, ConfigTables, CountersReply, CurrentConfig, EventGap,
    MacControlFrame, MacControlRequest, NewConfig, REQUEST_BYTES_MAX, ServerInfo, SwitchSummary,
    WatermarkKind, WatermarkPart,
};
pub use routes::api_document;
pub use serve::serve_control;
pub use server::{ServerHandle, ServerOptions};
pub use tables::{
    AddressFamily, Interfaces, LagMember, LagStatus, MacEntry, Neighbour, PortStatus, RouteEntry, RouteHop,
    RouterInterface,
};
pub use target::ControlTarget;

#[cfg(test)]
mod tests;
