//! The report as a file.

use std::path::Path;

use super::Report;
use crate::failure::Failure;

impl Report {
    /// Writes the report to its file: first beside it, then in its place, so that no reader sees half of one.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}", std::process::id()));
        let write = || {
            std::fs::write(&beside, self.to_json())?;
            std::fs::rename(&beside, path)
        };
        write().map_err(|error| {
            // What was written of it is of no use; the first error is the one to tell.
            let _ = std::fs::remove_file(&beside);
            Failure::environment("the report cannot be written")
                .at(format!("--report {}", path.display()))
                .because(error)
                .fix("choose a folder that exists and that you may write to")
        })
    }
}
