//! Loads, and workloads that build them.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use xoff_telemetry::failure::Failure;

use super::{BURST, ConfiguredSwitch, VirtualLabLoad};

/// A source of frames that can send through the data plane for as long as it is asked to.
pub trait Load {
    /// Sends at least `frames` frames and returns the number sent.
    ///
    /// The number is below `frames` only if the traffic of the load has an end, such as the jobs of a lab.
    fn run(&mut self, frames: u64) -> u64;

    /// Checks that the traffic was as intended: no frame was lost, and every link was used.
    ///
    /// # Errors
    /// A description of the deviation.
    fn check(&self) -> Result<(), String>;
}

/// Runs `burst` often enough to send at least `frames` frames, [`BURST`] at a time. Returns the number of frames sent.
pub fn run_bursts(frames: u64, mut burst: impl FnMut()) -> u64 {
    let bursts = frames.div_ceil(BURST as u64);
    (0..bursts).for_each(|_| burst());
    bursts * BURST as u64
}

type BuildLoad = dyn Fn() -> Result<Box<dyn Load>, Failure> + Send + Sync;

/// A load that can be built again in another process.
#[derive(Clone)]
pub struct Workload {
    /// Name, such as `ecmp`. It is the first part of the names of its figures.
    pub name: String,
    /// Description in one line.
    pub summary: String,
    /// Unit of work that is counted: `frame` or `frame-hop`.
    pub unit: &'static str,
    /// Arguments of this program that select the workload, such as `bench core --config FILE`.
    pub arguments: Vec<OsString>,
    build: Arc<BuildLoad>,
}

impl Workload {
    /// Creates a workload. `arguments` select it on the command line of the running program.
    pub fn new(
        name: &str,
        summary: &str,
        arguments: Vec<OsString>,
        build: impl Fn() -> Result<Box<dyn Load>, Failure> + Send + Sync + 'static,
    ) -> Workload {
        Workload {
            name: name.to_owned(),
            summary: summary.to_owned(),
            unit: "frame",
            arguments,
            build: Arc::new(build),
        }
    }

    /// A switch with the configuration `path` (`config_db.json`), for `xoff bench core --config`.
    pub fn of_configuration(path: &Path) -> Workload {
        let file = path.to_owned();
        Workload::new(
            "config",
            "each port sends to the next port",
            file_arguments("--config", path),
            move || Ok(Box::new(ConfiguredSwitch::read(&file)?)),
        )
    }

    /// The lab file `path` in virtual time, for `xoff bench core --lab`.
    pub fn of_lab(path: &Path) -> Workload {
        let file = path.to_owned();
        let mut workload = Workload::new(
            "lab",
            "a lab in virtual time",
            file_arguments("--lab", path),
            move || Ok(Box::new(VirtualLabLoad::read(&file)?)),
        );
        workload.unit = "frame-hop";
        workload
    }

    /// Builds the load. Its queues and tables are filled, so that measurement can start at once.
    ///
    /// # Errors
    /// The configuration or lab file is unreadable or invalid.
    pub fn build(&self) -> Result<Box<dyn Load>, Failure> {
        (self.build)()
    }
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workload")
            .field("name", &self.name)
            .field("arguments", &self.arguments)
            .finish_non_exhaustive()
    }
}

fn file_arguments(option: &str, path: &Path) -> Vec<OsString> {
    vec!["bench".into(), "core".into(), option.into(), path.into()]
}
