//! Labs: hosts in network namespaces around a switch, from one file, and nothing left of them afterwards.
//!
//! A lab is a tree of processes of this program, each of which has one job:
//!
//! ```text
//! command line    reads the file, claims the lab's name, shows progress        (goes away after `lab up`)
//!   └ launcher    enters new user, network and PID namespaces, gives borrowed devices back at the end
//!       └ init    PID 1 of the PID namespace: makes namespaces and cables, then only waits
//!           └ switch   the switch, the model hosts, the control socket
//!               └ host, sh, qemu   a process per plain host, the commands of plain hosts, guests
//! ```
//!
//! Nothing has a name in the file system: namespaces live by descriptors, sockets are abstract. Each process
//! watches the one above through a pipe, and the kernel kills everything in the PID namespace with its init.
//! So whichever of them is killed, with SIGKILL too, the others go, and with the last of them everything does.

mod balancing;
pub mod child;
mod compare;
mod config;
mod exec;
pub mod expr;
mod external;
mod file;
mod import;
mod jobs;
mod launch;
mod model_hosts;
mod notes;
pub mod ns3;
mod options;
mod pcap;
pub mod plan;
mod play;
pub mod plot;
mod problem;
mod registry;
mod reordering;
pub mod report;
mod resolve;
mod routes;
mod run;
mod script;
mod signals;
mod stage;
mod status;
mod supervisor;
mod sweep;
mod template;
pub mod units;
mod virtual_run;
mod wire;

pub use child::{HostAttachment, Lab, PortAttachment, PortPlace};
pub use compare::{
    COMPARE_SCHEMA, CompareArgs, CompareReport, ComparedField, ComparisonRow, ComparisonRun, LOAD_BALANCING,
    MedianAndRange, RunMode, run_compare,
};
pub use compare::{NamedFigure, figures_of_report};
pub use config::switch_seed;
pub use config::{SwitchSetup, resolve_switch_setup};
pub use exec::exec;
pub use import::{ImportedLab, import_ns3};
pub use options::{LabOptions, LabRunArgs, LabRunMode, LabUpArgs};
pub use pcap::LabPcap;
pub use play::RealTimeReport;
pub use problem::{Problem, Problems};
pub use registry::{RunningLab, lab_socket_address, running_labs};
pub use resolve::{load_lab, parse_lab};
pub use run::{down, ls, run, up};
pub use script::{Check, CheckArgs, CheckFormat, Checked, check};
pub use status::StatusPipe;
pub use sweep::{
    FieldSetting, FieldValue, JobFigures, MergeArgs, Parameter, RUNS_MAX, RunFigures, SWEEP_SCHEMA, Seeds,
    Shard, SweepArgs, SweepReport, merge_sweep, run_sweep,
};
pub use sweep::{PoolResult, load_with_values, run_in_parallel};
pub use virtual_run::{
    DeadlockReport, EVENTS_MAX_DEFAULT, HostReport, LinkBalanceReport, LinkReport, OutputFormat,
    ReorderedConnectionReport, VirtualLab, VirtualReport, VirtualRunArgs, run_virtual, switch_configuration,
    switch_configurations,
};
pub use wire::hand_over_tap;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs an inner process of a lab, if that is what the command line asks for; `arguments` without the
/// program's name. To be called first thing in `main`, while there is a single thread: the launcher enters
/// namespaces as only a process of one thread can.
pub fn internal(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments
        .into_iter()
        .map(|argument| argument.to_string_lossy().into_owned());
    let stage = stage::Stage::from_argument(&arguments.next()?)?;
    let inherited = stage::Inherited::from_arguments(arguments);
    nix::sys::prctl::set_name(stage.process_name()).ok();
    let result = match stage {
        stage::Stage::Launch => launch::main(&inherited),
        stage::Stage::Init => supervisor::main(&inherited),
        stage::Stage::Switch => child::main(&inherited),
        stage::Stage::Host => loop {
            // It dies with the lab's init.
            nix::unistd::pause();
        },
    };
    Some(result.unwrap_or_else(|failure| {
        eprintln!("{failure}");
        failure.exit.into()
    }))
}
