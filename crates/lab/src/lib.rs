//! Runs labs in real time and in virtual time. A lab is a set of switches, hosts and links that a lab
//! file describes.
//!
//! In virtual time, a lab is a simulation in the calling process ([`run_virtual`]). In real time, a lab is a
//! tree of processes of this program:
//!
//! ```text
//! command line    reads the lab file, claims the name of the lab, shows progress (ends after `lab up`)
//!   └ launcher    enters new user, network and PID namespaces, restores external devices at the end
//!       └ init    PID 1 of the PID namespace, creates the namespaces of hosts and the cables
//!           └ switch   the switches, the model hosts, the control API
//!               └ host, sh, qemu   plain hosts, their commands, virtual machines
//! ```
//!
//! A lab leaves no files. Open file descriptors keep its namespaces alive, and its sockets are abstract Unix
//! sockets. Each process watches its parent process through a pipe. When the init process ends, the kernel
//! kills all processes of the PID namespace. If any process of the lab is killed, even by SIGKILL, the other
//! processes therefore end too, and the kernel removes the namespaces and devices.

mod attached_lab;
mod balancing;
mod bridge_loops;
mod cabling;
mod capacity;
mod commands;
mod compare;
mod config;
mod down_ports;
mod evidence;
mod exec;
pub mod expr;
mod external_devices;
mod hangup;
mod import;
mod init;
mod inner_process;
mod jobs;
mod lab_fields;
mod launcher;
mod load_options;
mod memory_need;
mod model_hosts;
mod notes;
pub mod ns3;
mod options;
pub mod plan;
pub mod plot;
mod problem;
mod programs;
mod real_time_run;
mod recording_option;
mod registry;
mod reordering;
pub mod report;
mod resolve;
mod routes;
mod script;
mod signals;
mod status_pipe;
mod sweep;
mod switch_errors;
mod switch_names;
mod switch_process;
mod template;
mod unconnected_pair;
pub mod units;
mod virtual_run;

pub use attached_lab::{HostAttachment, Lab, PortAttachment, PortNamespace};
pub use cabling::move_tap_to_host;
pub use commands::{bring_up_lab, list_labs, run_lab, take_down_lab};
pub use compare::{
    COMPARE_SCHEMA, CompareArgs, CompareReport, ComparedField, ComparisonRow, ComparisonRun,
    ComparisonRunMode, LOAD_BALANCING, MedianAndRange, run_compare,
};
pub use compare::{NamedRunMeasurement, measurements_of_report};
pub use config::switch_seed;
pub use config::{SwitchSetup, resolve_switch_setup};
pub use exec::exec_in_host;
pub use hangup::is_hangup_ignored;
pub use import::{ImportedLab, import_ns3};
pub use lab_fields::{FieldOption, FieldSetting, FieldValue, load_with_values};
pub use load_options::LoadOptions;
pub use memory_need::check_memory;
pub use options::{LabOptions, LabRunArgs, LabRunMode, LabUpArgs, ThreadCount};
pub use problem::{Problem, Problems};
pub use programs::ProgramPolicy;
pub use recording_option::LabRecordings;
pub use registry::{RunningLab, lab_socket_address, running_labs};
pub use report::{
    DeadlockReport, HostReport, LinkBalanceReport, LinkReport, RealTimeRunReport, ReorderedConnectionReport,
    VirtualRunReport,
};
pub use resolve::{load_lab, parse_lab};
pub use script::{CheckArgs, CheckFormat, CheckResult, LabCheckResult, check_labs};
pub use status_pipe::StatusPipe;
pub use sweep::{
    JobMeasurements, MergeArgs, RUNS_MAX, RunMeasurements, SWEEP_SCHEMA, Seeds, Shard, SweepArgs,
    SweepReport, VariedField, merge_sweep, run_sweep,
};
pub use sweep::{ParallelRunsResult, run_in_parallel};
pub use virtual_run::{
    EVENTS_MAX_DEFAULT, OutputFormat, ProgressFormat, VirtualLab, VirtualRunArgs, run_virtual,
    switch_configuration, switch_configurations,
};

use inner_process::{InheritedFds, InnerProcess};
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs an inner process of a lab (launcher, init, switch or plain host) if the first argument names such a
/// process. Returns its exit code after its end. Returns `None` for all other commands. `arguments` does not
/// contain the program name.
///
/// `main` calls this function before it starts any threads, because only a process with a single thread can
/// enter a user namespace.
pub fn run_inner_process(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments
        .into_iter()
        .map(|argument| argument.to_string_lossy().into_owned());
    let process = InnerProcess::from_argument(&arguments.next()?)?;
    let inherited = InheritedFds::from_arguments(arguments);
    nix::sys::prctl::set_name(process.process_name()).ok();
    let result = match process {
        InnerProcess::Launcher => launcher::run_launcher(&inherited),
        InnerProcess::Init => init::run_init(&inherited),
        InnerProcess::Switch => switch_process::run_switch_process(&inherited),
        InnerProcess::PlainHost => loop {
            // The process is killed with the init process of the lab.
            nix::unistd::pause();
        },
    };
    Some(result.unwrap_or_else(|failure| {
        log::error!("{failure}");
        failure.exit.into()
    }))
}
