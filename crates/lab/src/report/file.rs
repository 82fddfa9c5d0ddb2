//! Writes a report to its file.

use std::path::Path;

use xoff_telemetry::failure::Failure;
use xoff_telemetry::write_result_with;

use super::Report;

impl Report {
    /// Writes the report to a file. A regular file is replaced atomically, so a reader never sees
    /// an incomplete report. If `path` is a pipe or a device such as `/dev/null`, the report is
    /// written directly.
    ///
    /// # Errors
    /// Returns an error if the folder of the file is missing or cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        write_result_with("--report", path, |file| self.write_json(file))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use xoff_telemetry::Environment;

    use super::super::build_report;

    #[test]
    fn a_report_replaces_a_regular_file_and_the_target_of_a_link() {
        let report = build_report(Environment::default(), 0, Vec::new(), Vec::new(), Vec::new());
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("report"), folder.path().join("link"));
        std::fs::write(&file, "older and longer".repeat(1_000)).unwrap();
        symlink(&file, &link).unwrap();
        report.write(&link).unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), report.to_json());
        report.write(&file).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), report.to_json());
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            2,
            "no temporary file is left"
        );
        assert!(report.write(&folder.path().join("no/report")).is_err());
    }
}
