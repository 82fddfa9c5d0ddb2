//! Arguments and options of the lab commands.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::lab_fields::FieldValue;
use super::programs::ProgramPolicy;
use super::recording_option::LabRecordings;
use xoff_capture::recorder::PcapOptions;
use xoff_ports::Backend;
use xoff_runtime::workers::{CorePinning, IdleMode, WorkerOptions};
use xoff_telemetry::{MemoryLimit, allowed_cpus};

/// Number of threads for one run in virtual time (`--threads`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ThreadCount {
    /// This number of threads, at least 1.
    Fixed(usize),
    /// One thread for each CPU that the process may use. Runs at the same time share these CPUs.
    Auto,
}

impl Default for ThreadCount {
    fn default() -> ThreadCount {
        ThreadCount::Fixed(1)
    }
}

impl ThreadCount {
    /// Returns the number of threads of each run if `runs` runs take place at the same time. Several runs together have
    /// at most one thread for each CPU that the process may use.
    pub fn for_each_of(self, runs: usize) -> usize {
        self.share_cpus(runs, allowed_cpus().len())
    }

    /// Returns the number of runs that take place at the same time if `runs` runs are wanted and no other number is
    /// given: together they have about one thread for each CPU.
    pub fn parallel_runs(self, runs: usize) -> usize {
        let threads = match self {
            ThreadCount::Fixed(threads) => threads.max(1),
            ThreadCount::Auto => 1,
        };
        (allowed_cpus().len() / threads).clamp(1, runs.max(1))
    }

    fn share_cpus(self, runs: usize, cpus: usize) -> usize {
        let share = (cpus / runs.max(1)).max(1);
        match self {
            ThreadCount::Fixed(threads) if runs <= 1 => threads.max(1),
            ThreadCount::Fixed(threads) => threads.clamp(1, share),
            ThreadCount::Auto => share,
        }
    }
}

/// Arguments of `xoff lab run`.
#[derive(Clone, Debug)]
pub struct LabRunArgs {
    /// Path of the lab file.
    pub file: PathBuf,
    /// Fields of the lab file with other values for this run (`--set`). May be empty.
    pub field_values: Vec<FieldValue>,
    /// Options of the run in real time that are also sent to the switch process, such as dilation, seed, time
    /// limit, cores and report file. `pcap` is empty here: the field `pcap` of these arguments replaces it.
    pub options: LabOptions,
    /// Packet recordings of switch ports (`--pcap`).
    pub pcap: LabRecordings,
    /// The memory that the lab may need (`--memory`).
    pub memory: MemoryLimit,
}

/// Arguments of `xoff lab up`.
#[derive(Clone, Debug)]
pub struct LabUpArgs {
    /// Path of the lab file.
    pub file: PathBuf,
    /// Options of the run in real time that are also sent to the switch process, such as dilation, seed, time
    /// limit, cores and report file. `pcap` is empty here: the field `pcap` of these arguments replaces it.
    pub options: LabOptions,
    /// Packet recordings of switch ports (`--pcap`).
    pub pcap: LabRecordings,
    /// The memory that the lab may need (`--memory`).
    pub memory: MemoryLimit,
}

/// Options of one run of a lab in real time. The switch process receives them as part of the lab description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabOptions {
    /// Path of the JSON report. `None`: no report is written. The path is made absolute before any
    /// process starts.
    pub report: Option<PathBuf>,
    /// Dilation, at least 1. With dilation 10, model time runs ten times slower than wall time.
    pub dilate: u32,
    /// Number of worker threads for the switches, at least 1. `None`: see [`LabOptions::driver_options`].
    pub workers: Option<usize>,
    /// Assignment of the worker and host threads to cores (`--pin`).
    pub pin: CorePinning,
    /// Behaviour of idle worker threads (`--idle`): whether they sleep or poll.
    pub idle: IdleMode,
    /// Seed of all random decisions. Each switch has its own seed, see [`switch_seed`](crate::switch_seed).
    pub seed: u64,
    /// Port backend of the links to hosts: the kernel interface through which the switch sends and
    /// receives frames.
    ///
    /// With [`Backend::Tap`], the switch uses a tap device for each host instead of a veth pair. This option
    /// does not apply to external devices.
    pub backend: Backend,
    /// Time limit for flows and jobs in nanoseconds of model time, from the start of the workload. At this
    /// time, the run ends even if a job is not complete. `None`: no limit.
    pub until_ns: Option<u64>,
    /// Whether the output of the command is one JSON document: the report of `lab run`, or the state of
    /// `lab up`. All other output of the lab then goes to standard error.
    pub prints_json: bool,
    /// Packet recordings of each switch, in the order of
    /// [`LabPlan::switches`](crate::plan::LabPlan::switches). Empty before the start of the lab. Paths are
    /// made absolute before any process starts.
    pub pcap: Vec<PcapOptions>,
    /// Whether the lab may start programs that its file names (`--allow-exec`, `--no-exec`).
    pub programs: ProgramPolicy,
    /// Number of threads of a run in virtual time, at least 1. A small fabric uses fewer.
    pub threads: usize,
    /// Whether a run in virtual time skips steps of jobs that repeat (`--accelerate`).
    #[serde(skip)]
    pub accelerate: bool,
    /// The memory of a run in virtual time. The run stops if its frames need more than the estimate of the lab leaves.
    #[serde(skip)]
    pub memory: MemoryLimit,
}

impl Default for LabOptions {
    fn default() -> LabOptions {
        LabOptions {
            report: None,
            dilate: 1,
            workers: None,
            pin: CorePinning::Auto,
            idle: IdleMode::Adaptive,
            seed: 0,
            backend: Backend::Auto,
            until_ns: None,
            prints_json: false,
            pcap: Vec::new(),
            programs: ProgramPolicy::OwnFiles,
            threads: 1,
            accelerate: false,
            memory: MemoryLimit::UNLIMITED,
        }
    }
}

impl LabOptions {
    /// Returns whether hosts are connected through tap devices instead of veth pairs.
    pub fn uses_taps(&self) -> bool {
        self.backend == Backend::Tap
    }

    /// Returns the options of the worker threads of the switches.
    ///
    /// `other_threads` is the number of threads of the hosts. If [`LabOptions::workers`] is `None`, a lab
    /// with several switches gets one worker thread for each switch. If fewer cores are free, it gets one
    /// worker thread for each core that no host thread needs. A lab with one switch gets the default number
    /// of [`WorkerOptions`].
    pub fn driver_options(&self, other_threads: usize, switch_count: usize) -> WorkerOptions {
        let default = WorkerOptions::default();
        let free = allowed_cpus().len().saturating_sub(other_threads);
        let workers = match switch_count {
            0 | 1 => default.workers,
            several => free.clamp(1, several),
        };
        WorkerOptions {
            workers: self.workers.unwrap_or(workers),
            pin: self.pin.clone(),
            idle: self.idle,
            dilate: self.dilate,
            other_threads,
            ..default
        }
    }
}

/// The command that started a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LabRunMode {
    /// `lab run`: the lab runs its workload, writes the report and ends.
    Run,
    /// `lab up`: the lab runs without the workload until a user stops it.
    Up,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_runs_share_the_cpus() {
        assert_eq!(ThreadCount::Fixed(8).share_cpus(1, 2), 8);
        assert_eq!(ThreadCount::Fixed(8).share_cpus(2, 16), 8);
        assert_eq!(ThreadCount::Fixed(8).share_cpus(4, 16), 4);
        assert_eq!(ThreadCount::Fixed(2).share_cpus(64, 16), 1);
        assert_eq!(ThreadCount::Auto.share_cpus(1, 16), 16);
        assert_eq!(ThreadCount::Auto.share_cpus(3, 16), 5);
        assert_eq!(ThreadCount::Auto.share_cpus(1, 0), 1);
    }
}
