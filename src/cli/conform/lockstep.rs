//! `xoff conform` in lock step with another program on a Unix socket.

use std::path::Path;
use std::time::Duration;

use xoff_conform::{
    Matrix, PortRunError, RunOptions, RunReport, run_checks_in_lockstep, run_matrix_in_lockstep,
    serve_lockstep_device,
};
use xoff_lockstep::{
    Connection, Hello, LinkError, SocketListener, VERSION, WaitOptions, connect_shared_memory, connect_socket,
};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_units::LinkTiming;

use super::super::{output, signals};
use super::refused_speed;

/// Describes an error of the connection.
fn link_failure(socket: &Path, error: LinkError) -> Failure {
    let fix = match &error {
        LinkError::Interrupted => return Failure::new(Exit::Interrupted, "interrupted"),
        LinkError::NoPeer(_) => {
            "start the peer, such as `xoff conform device --lockstep SOCKET`, within this time, or \
                                 give a longer --lockstep-timeout"
                .to_owned()
        }
        LinkError::Silent { .. } | LinkError::NoProgress { .. } => {
            "the peer must send a GRANT message when it waits for this program, or needs a \
                                     longer --lockstep-timeout"
                .to_owned()
        }
        LinkError::System { .. } => "give the path of a socket in a folder that you may write".to_owned(),
        LinkError::Bye(_) | LinkError::Closed | LinkError::Done => {
            "read the messages of the peer, and start both programs again".to_owned()
        }
        LinkError::Speed { .. } => "give the speed of the peer by --speed".to_owned(),
        _ => "correct the peer: docs/lockstep.md has the rules".to_owned(),
    };
    Failure::environment("the run in lock step cannot start or continue")
        .at(format!("--lockstep {}", socket.display()))
        .because(error)
        .fix(fix)
}

fn run_failure(socket: &Path, error: PortRunError) -> Failure {
    match error {
        PortRunError::Speed(error) => refused_speed(error),
        PortRunError::Interrupted => Failure::new(Exit::Interrupted, "interrupted"),
        PortRunError::Environment(reason) => {
            Failure::environment("the run in lock step cannot start or continue")
                .at(format!("--lockstep {}", socket.display()))
                .because(reason)
                .fix("correct the peer: docs/lockstep.md has the rules")
        }
    }
}

fn hello(speed_bps: u64, name: &str) -> Hello {
    Hello {
        version: VERSION,
        flags: 0,
        speed_bps,
        name: name.to_owned(),
    }
}

/// Waits for the peer.
fn accept(socket: &Path, timeout: Duration, options: &RunOptions) -> Result<Connection, Failure> {
    let speed_mbps = options.link.speed_mbps;
    // A wrong speed is an error before anybody waits.
    xoff_conform::ModelDevice::new(LinkTiming::ethernet(speed_mbps)).map_err(refused_speed)?;
    let failure = |error| link_failure(socket, error);
    let mut listener = SocketListener::bind(socket).map_err(failure)?;
    output::print_note(&format!("waiting for a peer at {}", socket.display()));
    let wait = WaitOptions {
        timeout,
        stop: options.stop.clone(),
        ..WaitOptions::default()
    };
    let transport = listener.accept(wait).map_err(failure)?;
    let own = hello(u64::from(speed_mbps) * 1_000_000, "xoff conform");
    Connection::open(Box::new(transport), &own).map_err(failure)
}

/// Runs checks on the simulator that connects to a socket.
pub(super) fn run(socket: &Path, timeout: Duration, options: &RunOptions) -> Result<RunReport, Failure> {
    let connection = accept(socket, timeout, options)?;
    run_checks_in_lockstep(options, connection, |_| ()).map_err(|error| run_failure(socket, error))
}

/// Runs each mutant on its own check on the model device that connects to a socket.
pub(super) fn compute_matrix(
    socket: &Path,
    timeout: Duration,
    options: &RunOptions,
) -> Result<Matrix, Failure> {
    let connection = accept(socket, timeout, options)?;
    run_matrix_in_lockstep(options, connection, |device, check| {
        output::print_note(&format!("{device}: {} {}", check.check.id, check.outcome.name()));
    })
    .map_err(|error| run_failure(socket, error))
}

/// Runs the model device at a socket.
pub(super) fn serve_device(socket: &Path, uses_memory: bool, timeout: Duration) -> Result<(), Failure> {
    let failure = |error| link_failure(socket, error);
    let wait = WaitOptions {
        timeout,
        stop: signals::watch_stop_signals()?,
        ..WaitOptions::default()
    };
    let connected = match uses_memory {
        true => connect_shared_memory(socket, wait),
        false => connect_socket(socket, wait),
    };
    let transport = connected.map_err(failure)?;
    let mut connection = Connection::open(Box::new(transport), &hello(0, "model host")).map_err(failure)?;
    serve_lockstep_device(&mut connection).map_err(failure)
}
