//! PFC conformance checks on network ports, in real time.
//!
//! - [`run_on_port`] runs checks of `xoff-conform` on a network port.
//! - [`Adapter`] and [`FarDevice`]: how the program on the far host is started, and what it tests.
//! - [`serve_model_device`] is the program on the far host for the model device.
//!
//! The checks and their criteria are in `xoff-conform`. This crate has the clock, the ports and the processes.
#![forbid(unsafe_code)]

mod adapter;
mod device_server;
mod far_process;
mod frame_port;
mod instrument_port;
mod line_buffer;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use xoff_conform::{
    CheckReport, Matrix, PortRunError, RunOptions, RunReport, run_checks_on_port, run_matrix_on_port,
};
use xoff_ports::Backend;
use xoff_telemetry::failure::{Exit, Failure};

use frame_port::{FramePort, prepare_thread};
use instrument_port::InstrumentPort;

pub use adapter::{Adapter, FarDevice};
pub use device_server::serve_model_device;

/// The port of the instrument, and the far host.
#[derive(Clone, Debug)]
pub struct PortRunSpec {
    /// Name of the network device.
    pub port: String,
    /// The backend with which the instrument uses the device.
    pub backend: Backend,
    /// How the program on the far host is started.
    pub adapter: Adapter,
    /// The device under test at the far end. `None`: a device without a program on its host.
    pub device: Option<FarDevice>,
    /// MAC address of a device without a program on its host.
    pub device_mac: Option<[u8; 6]>,
}

/// Runs checks on a network port. [`RunOptions::stop`] interrupts the run. `notify` gets the report of each check.
///
/// # Errors
/// The port or the far host cannot be used, or the speed is not allowed.
pub fn run_on_port(
    spec: &PortRunSpec,
    options: &RunOptions,
    notify: impl FnMut(&CheckReport),
) -> Result<RunReport, Failure> {
    let mut access = open_access(spec, &options.stop)?;
    run_checks_on_port(options, &mut access, spec.device_mac, notify)
        .map_err(|error| run_failure(&spec.port, error))
}

/// Runs all checks on the model device at a network port, and each mutant on its own check. `notify` is called with
/// the name of the device and the report of each check.
///
/// # Errors
/// As [`run_on_port`], and if the run is interrupted.
pub fn run_port_matrix(
    spec: &PortRunSpec,
    options: &RunOptions,
    notify: impl FnMut(&str, &CheckReport),
) -> Result<Matrix, Failure> {
    let mut access = open_access(spec, &options.stop)?;
    run_matrix_on_port(options, &mut access, notify).map_err(|error| run_failure(&spec.port, error))
}

/// Opens the port and starts the program on the far host.
fn open_access(spec: &PortRunSpec, stop: &Arc<AtomicBool>) -> Result<InstrumentPort, Failure> {
    let port = FramePort::open("--port", &spec.port, spec.backend, stop)?;
    let far_host = match &spec.device {
        Some(device) => spec.adapter.start(device)?,
        None => None,
    };
    // After the start of the program, which would inherit the priority.
    prepare_thread();
    Ok(InstrumentPort::new(port, far_host, Arc::clone(stop)))
}

fn run_failure(port: &str, error: PortRunError) -> Failure {
    match error {
        PortRunError::Speed(error) => Failure::usage("the link cannot have this speed")
            .at("--speed")
            .because(error)
            .fix("give a speed such as 1g"),
        PortRunError::Environment(reason) => Failure::environment("the run cannot start or continue")
            .at(format!("--port {port}"))
            .because(reason)
            .fix("check the port, the adapter and the far host: docs/conform.md"),
        PortRunError::Interrupted => Failure::new(Exit::Interrupted, "interrupted"),
    }
}
