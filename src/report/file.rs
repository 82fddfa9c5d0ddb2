//! The report as a file.

use std::io;
use std::path::Path;

use super::Report;
use crate::failure::Failure;

impl Report {
    /// Writes the report to its file: first beside it, then in its place, so that no reader sees half of one. What
    /// is there and is no plain file, such as a pipe or `/dev/null`, is written to and stays what it is.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        write_file(path, &self.to_json())
    }
}

/// Writes the text of a report, as [`Report::write`] does.
///
/// # Errors
/// The folder cannot be written.
pub fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    write_text("--report", path, text)
}

/// The same for a file that another option names.
///
/// # Errors
/// The folder cannot be written.
pub fn write_text(option: &str, path: &Path, text: &str) -> Result<(), Failure> {
    let written = match path.symlink_metadata() {
        Ok(there) if !there.is_file() => std::fs::write(path, text),
        _ => replace(path, text),
    };
    written.map_err(|error| {
        Failure::environment("the result cannot be written")
            .at(format!("{option} {}", path.display()))
            .because(error)
            .fix("choose a folder that exists and that you may write to")
    })
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, path))
        .inspect_err(|_| {
            // What was written of it is of no use; the first error is the one to tell.
            let _ = std::fs::remove_file(&beside);
        })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::{Environment, build};

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
