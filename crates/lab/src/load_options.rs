//! The limits for reading a lab file.

use super::plan::TimeMode;
use xoff_telemetry::MemoryLimit;

/// The limits for reading a lab file.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// The mode of the run: real time or virtual time.
    pub time: TimeMode,
    /// The memory that the lab may need. A lab with a larger estimate is an error.
    pub memory: MemoryLimit,
}

impl From<TimeMode> for LoadOptions {
    /// Returns options without a limit of memory.
    fn from(time: TimeMode) -> LoadOptions {
        LoadOptions {
            time,
            memory: MemoryLimit::UNLIMITED,
        }
    }
}
