//! The arguments of a run in virtual time.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use xoff_telemetry::MemoryLimit;
use xoff_units::Picos;

use super::output::OutputFormat;
use super::progress::ProgressFormat;
use crate::lab_fields::FieldValue;
use crate::options::ThreadCount;

/// Default of `--events-max`, the number of simulation events after which a run stops. One core needs about
/// an hour for this number of events.
pub const EVENTS_MAX_DEFAULT: u64 = 10_000_000_000;

/// Arguments of `xoff lab run --virtual`.
#[derive(Clone, Debug, Default)]
pub struct VirtualRunArgs {
    /// Path of the lab file.
    pub file: PathBuf,
    /// Seed of all random decisions.
    pub seed: u64,
    /// Model time from the start of the workload after which the run stops. `None`: a run with jobs ends with
    /// its jobs, and a run without jobs ends after the duration and the drain time of its workload.
    pub until: Option<Picos>,
    /// File for the report in JSON. `None`: no file.
    pub report: Option<PathBuf>,
    /// File for the event log. `None`: no event log.
    pub events: Option<PathBuf>,
    /// Whether the event log has an entry for each frame. If false, the event log has only rare events, such
    /// as drops and pauses.
    pub events_frames: bool,
    /// Names of the links to record, each with its pcapng file. May be empty.
    pub pcap: Vec<(String, PathBuf)>,
    /// Folder for the time series (counters and queue lengths over time). `None`: no time series.
    pub series: Option<PathBuf>,
    /// Model time between two samples of the time series. Not used without `series`.
    pub series_interval: Picos,
    /// Fields of the lab file to change, with their new values (`--set`). May be empty.
    pub field_values: Vec<FieldValue>,
    /// Format of the printed result.
    pub format: OutputFormat,
    /// File for the results of collectives in the JSON format of nccl-tests. `None`: no file. The lab must
    /// have a collective.
    pub nccl_json: Option<PathBuf>,
    /// Number of simulation events after which the run stops with a failure.
    pub events_max: u64,
    /// Whether notes and warnings are hidden.
    pub quiet: bool,
    /// How progress is written to standard error.
    pub progress: ProgressFormat,
    /// The run stops soon after this flag has become true. Its report then covers the time until the stop.
    /// `None`: nothing interrupts the run.
    pub stop: Option<Arc<AtomicBool>>,
    /// Folder for the plots, which is created if it does not exist. `None`: no plots.
    pub plots: Option<PathBuf>,
    /// Whether the timeline (loads, queues and pauses over time) is recorded even without plots.
    pub records_timeline: bool,
    /// Number of threads of the run (`--threads`). It changes no result.
    pub threads: ThreadCount,
    /// Whether steps of jobs that repeat are skipped (`--accelerate`). The results of skipped steps are estimates.
    pub accelerate: bool,
    /// The memory that the lab may need (`--memory`). In a sweep, all runs at the same time share it.
    pub memory: MemoryLimit,
}

impl VirtualRunArgs {
    /// Creates the arguments for a lab file with the defaults of the command line: seed 0, no limit of time,
    /// no files, and 10 us between samples of time series.
    pub fn new(file: PathBuf) -> VirtualRunArgs {
        VirtualRunArgs {
            file,
            series_interval: Picos::from_micros(10),
            events_max: EVENTS_MAX_DEFAULT,
            ..VirtualRunArgs::default()
        }
    }
}
