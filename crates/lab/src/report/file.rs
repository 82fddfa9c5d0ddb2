//! The report as a file.

use std::path::Path;

use xoff_telemetry::failure::Failure;
use xoff_telemetry::write_report_file;

use super::Report;

impl Report {
    /// Writes the report to its file: first beside it, then in its place, so that no reader sees half of one. What
    /// is there and is no plain file, such as a pipe or `/dev/null`, is written to and stays what it is.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        write_report_file(path, &self.to_json())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use xoff_telemetry::Environment;

    use super::super::build;

    #[test]
    fn a_file_is_replaced_and_what_is_no_file_is_written_to() {
        let report = build(Environment::default(), 0, &[], Vec::new(), Vec::new());
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
            "nothing is left beside them"
        );
        assert!(report.write(&folder.path().join("no/report")).is_err());
    }
}
