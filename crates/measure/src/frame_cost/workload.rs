//! Workloads: named loads that another process can build again.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use xoff_telemetry::failure::Failure;

use super::{ConfiguredSwitchLoad, FrameLoad, VirtualLabLoad};

type BuildLoad = dyn Fn() -> Result<Box<dyn FrameLoad>, Failure> + Send + Sync;

/// Default of [`Workload::counted_frames`].
const COUNTED_FRAMES: u64 = 40_960;

/// A named load that another process can build again from command-line arguments.
#[derive(Clone)]
pub struct Workload {
    /// Name of the workload, such as `ecmp`. The names of its figures (measured quantities) start with
    /// this name.
    pub name: String,
    /// Description of the workload in one line, such as "a lab in virtual time".
    pub summary: String,
    /// Unit of work that is counted: `frame`, or `frame-hop` (one frame on one link).
    pub unit: &'static str,
    /// Number of frames whose instructions are counted, after the first ones. More frames cover more phases of a load
    /// that is not always the same.
    pub counted_frames: u64,
    /// Arguments of this program that select the workload, such as `bench core --config FILE`.
    pub arguments: Vec<OsString>,
    build: Arc<BuildLoad>,
}

impl Workload {
    /// Creates a workload with the unit `frame`. `arguments` select the workload on the command line of the
    /// running program. `build` builds its load.
    pub fn new(
        name: &str,
        summary: &str,
        arguments: Vec<OsString>,
        build: impl Fn() -> Result<Box<dyn FrameLoad>, Failure> + Send + Sync + 'static,
    ) -> Workload {
        Workload {
            name: name.to_owned(),
            summary: summary.to_owned(),
            unit: "frame",
            counted_frames: COUNTED_FRAMES,
            arguments,
            build: Arc::new(build),
        }
    }

    /// Creates the workload of `xoff bench core --config`: a switch with the
    /// configuration `path` (`config_db.json`).
    pub fn of_configuration(path: &Path) -> Workload {
        let file = path.to_owned();
        Workload::new(
            "config",
            "each port sends to the next port",
            file_arguments("--config", path),
            move || Ok(Box::new(ConfiguredSwitchLoad::read(&file)?)),
        )
    }

    /// Creates the workload of `xoff bench core --lab`: the lab file `path` in virtual time.
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

    /// Builds the load and fills its queues and tables, so that the measurement can start at once.
    ///
    /// # Errors
    /// The configuration or lab file is unreadable or invalid, or the load cannot send frames.
    pub fn build(&self) -> Result<Box<dyn FrameLoad>, Failure> {
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
