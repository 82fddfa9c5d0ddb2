//! The start of a server with all resources.

use std::sync::Arc;

use crate::address::ControlListener;
use crate::routes;
use crate::server::{Limits, ServerHandle, ServerOptions, start_server};
use crate::target::ControlTarget;
use xoff_telemetry::failure::Failure;

/// Starts a thread that answers the requests for the switches `targets` on `listener`.
///
/// # Errors
/// Returns an error if the TCP address is not a loopback address or cannot be bound, or if the kernel refuses
/// a thread or a descriptor.
pub fn serve_control(
    listener: ControlListener,
    targets: Vec<Arc<dyn ControlTarget>>,
    options: ServerOptions,
) -> Result<ServerHandle, Failure> {
    start_server(listener, targets, options, Limits::default(), routes::router)
}
