//! What a command asks of a lab, beside its file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::pcap::LabPcap;
use super::sweep::Chosen;
use xoff_capture::live::PcapOptions;
use xoff_ports::Backend;
use xoff_runtime::workers::{Idle, Options, Pin};
use xoff_telemetry::allowed_cpus;

/// `xoff lab run`.
#[derive(Clone, Debug)]
pub struct LabRunArgs {
    /// The lab file.
    pub file: PathBuf,
    /// Fields of it that have another value.
    pub chosen: Vec<Chosen>,
    /// How to run it.
    pub options: LabOptions,
    /// What to record.
    pub pcap: LabPcap,
}

/// `xoff lab up`.
#[derive(Clone, Debug)]
pub struct LabUpArgs {
    /// The lab file.
    pub file: PathBuf,
    /// How to run it.
    pub options: LabOptions,
    /// What to record.
    pub pcap: LabPcap,
}

/// How a lab is run. Handed to the switch as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabOptions {
    /// Where the report goes, as JSON. Becomes absolute before anything is started.
    pub report: Option<PathBuf>,
    /// Model time runs so many times slower than the wall, at least 1.
    pub dilate: u32,
    /// Threads of the driver; `None` leaves it to the lab: see [`LabOptions::driver`].
    pub workers: Option<usize>,
    /// Which thread runs on which core.
    pub pin: Pin,
    /// What threads do when there is nothing to do.
    pub idle: Idle,
    /// Seed of everything random.
    pub seed: u64,
    /// Backend of the ports towards hosts. With taps the switch owns a tap
    /// per host instead of a veth pair. External devices are always opened as what they are.
    pub backend: Backend,
    /// Jobs that are not done by then, in nanoseconds of model time from the start of the workload, are not waited for.
    pub until_ns: Option<u64>,
    /// What is recorded of each switch, by its index in the plan. Files are absolute before anything is started.
    pub pcap: Vec<PcapOptions>,
}

impl Default for LabOptions {
    fn default() -> LabOptions {
        LabOptions {
            report: None,
            dilate: 1,
            workers: None,
            pin: Pin::Auto,
            idle: Idle::Adaptive,
            seed: 0,
            backend: Backend::Auto,
            until_ns: None,
            pcap: Vec::new(),
        }
    }
}

impl LabOptions {
    /// Whether hosts hang on taps that the switch makes.
    pub fn uses_taps(&self) -> bool {
        self.backend == Backend::Tap
    }

    /// What the driver is told; `other_threads` are those of the hosts. Several switches have a thread each where there is a core
    /// for it, and share what there is otherwise.
    pub fn driver(&self, other_threads: usize, switches: usize) -> Options {
        let default = Options::default();
        let free = allowed_cpus().len().saturating_sub(other_threads);
        let workers = match switches {
            0 | 1 => default.workers,
            several => free.clamp(1, several),
        };
        Options {
            workers: self.workers.unwrap_or(workers),
            pin: self.pin.clone(),
            idle: self.idle,
            dilate: self.dilate,
            other_threads,
            ..default
        }
    }
}

/// What a lab is up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// `lab run`: the workload, then a result, then the end.
    Run,
    /// `lab up`: until it is asked to stop. The workload is not started.
    Up,
}
