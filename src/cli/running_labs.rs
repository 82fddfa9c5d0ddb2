//! The running labs of this network namespace and their control sockets.

use nix::unistd::geteuid;

use xoff_control::ControlAddress;
use xoff_lab::RunningLab;
use xoff_telemetry::failure::Failure;

/// Returns the running labs.
///
/// # Errors
/// The list of sockets cannot be read.
pub(super) fn list_running_labs() -> Result<Vec<RunningLab>, Failure> {
    xoff_lab::running_labs().map_err(|error| {
        Failure::environment("cannot list the running labs")
            .at("/proc/net/unix")
            .because(error)
    })
}

/// Returns the address of the control socket of a running lab. If several labs match, a lab of the calling
/// user is preferred. A user who is not root can reach only the user's own labs.
///
/// # Errors
/// No lab of this name runs.
pub(super) fn control_address(name: &str) -> Result<ControlAddress, Failure> {
    let own = geteuid().as_raw();
    let labs = list_running_labs()?;
    let found = labs
        .iter()
        .filter(|lab| lab.name == name)
        .min_by_key(|lab| lab.uid != own);
    let Some(lab) = found else {
        let names: Vec<&str> = labs.iter().map(|lab| lab.name.as_str()).collect();
        let reason = if names.is_empty() {
            "no lab runs".to_owned()
        } else {
            format!("running: {}", names.join(", "))
        };
        return Err(Failure::usage(format!("no lab called \"{name}\" runs"))
            .at(format!("--lab {name}"))
            .because(reason)
            .fix("start it with `xoff lab up FILE`; `xoff lab ls` lists those that run"));
    };
    let socket = xoff_lab::lab_socket_address(lab.uid, &lab.name).map_err(|error| {
        Failure::environment("the lab's name cannot be the name of a socket")
            .at(name)
            .because(error)
    })?;
    Ok(ControlAddress::Lab {
        socket,
        owner: lab.uid,
    })
}
