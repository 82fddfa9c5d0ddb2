//! The far end of `xoff conform run --port`, from the options and the variables of the kernel's selftests.

use std::env::var;

use xoff_conform_port::{Adapter, FarDevice, PortRunSpec};
use xoff_measure::pfc::check_control_device;
use xoff_ports::{Backend, StreamAddress};
use xoff_telemetry::failure::Failure;

use super::super::{BackendChoice, ConformFarEnd, ConformRun};

/// Returns the value of a variable that is not empty.
fn read_variable(name: &str) -> Option<String> {
    var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the port and the far end.
pub(super) fn find_far_end(
    options: &ConformFarEnd,
    device_mac: Option<[u8; 6]>,
) -> Result<PortRunSpec, Failure> {
    let port = options.port.clone().or_else(|| read_variable("NETIF"));
    let port = port.ok_or_else(|| {
        Failure::usage("the run has no device").fix(
            "give --virtual for a model host in virtual time, or --port DEVICE (or the variable NETIF) for a device \
             that is connected to this machine",
        )
    })?;
    let device = match &options.device {
        Some(device) => Some(device.clone()),
        None if device_mac.is_some() => None,
        None => read_variable("REMOTE_V4")
            .or_else(|| read_variable("REMOTE_V6"))
            .map(FarDevice::Plain),
    };
    let adapter = match &options.adapter {
        Some(adapter) => adapter.clone(),
        None => find_remote_adapter()?.unwrap_or_default(),
    };
    Ok(PortRunSpec {
        backend: port_backend(&port, options.backend),
        port,
        device: device.filter(|_| adapter != Adapter::None),
        adapter,
        device_mac,
    })
}

/// Returns the backend of the port of the instrument. `stream:PATH` has its own backend.
fn port_backend(port: &str, choice: BackendChoice) -> Backend {
    match StreamAddress::is_stream_device(port) {
        true => Backend::Stream,
        false => choice.into(),
    }
}

/// Returns the adapter of the variables `REMOTE_TYPE` and `REMOTE_ARGS`.
fn find_remote_adapter() -> Result<Option<Adapter>, Failure> {
    let Some(kind) = read_variable("REMOTE_TYPE") else {
        return Ok(None);
    };
    let text = format!("{kind}:{}", read_variable("REMOTE_ARGS").unwrap_or_default());
    text.parse().map(Some).map_err(|reason: String| {
        Failure::usage("the variables REMOTE_TYPE and REMOTE_ARGS name no adapter")
            .at(text)
            .because(reason)
            .fix("set REMOTE_TYPE to netns or ssh, and REMOTE_ARGS to the namespace or the host")
    })
}

/// Checks that the port exists, is up, has a carrier and belongs to no bridge. A tap or stream of xoff exists only
/// while xoff has it open.
pub(super) fn check_device(spec: &PortRunSpec, options: &ConformRun) -> Result<(), Failure> {
    if options.mutant.is_some() {
        require_model(spec)?;
    }
    match spec.backend.creates_device() {
        true => Ok(()),
        false => check_control_device("--port", &spec.port),
    }
}

/// Fails unless the device at the far end is the model device.
pub(super) fn require_model(spec: &PortRunSpec) -> Result<(), Failure> {
    match spec.device {
        Some(FarDevice::Model(_)) => Ok(()),
        _ => Err(Failure::usage("only the model device has mutants")
            .at("--mutant")
            .fix("give --device model:DEVICE, where DEVICE is the other end of the link")),
    }
}

/// Describes what a user can do if there is no program on the far host.
pub(super) fn describe_missing_far_host(port: &str) -> String {
    format!(
        "note: no program runs on the far host, so checks that need traffic, operations or counters of the device are \
         skipped. Commands that start it:\n  \
         xoff conform run --port {port} --device plain:DEVICE --adapter ssh:root@HOST\n  \
         xoff conform run --port {port} --device plain:DEVICE --adapter netns:NAME\n  \
         xoff conform run --port {port} --device plain:DEVICE --adapter exec:'docker exec -i NAME'"
    )
}
