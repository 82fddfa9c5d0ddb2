//! Files that a command writes: results, which are written completely or not at all, and live streams.
//!
//! Symbolic links in shared folders are followed only under the rules of [`ResultTarget`].

use std::fs::{OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::libc::O_TMPFILE;
use nix::unistd::linkat;
use tempfile::TempPath;

use crate::failure::{Exit, Failure};
pub use crate::result_target::StreamFile;
use crate::result_target::{ResultTarget, folder_of};

/// Permissions of a new file before the file mode creation mask (`umask`) is applied.
const NEW_FILE_MODE: u32 = 0o666;

/// Writes the text of a report (`--report`) like [`write_result_file`].
///
/// # Errors
///
/// Returns an error if the folder does not exist or is not writable, or if the file cannot be written.
pub fn write_report_file(path: &Path, text: &str) -> Result<(), Failure> {
    write_result_file("--report", path, text)
}

/// Writes the text of a result file. The function first writes a temporary file with a random name in the same
/// folder, and then renames this file to `path`. A reader therefore never sees a partial result. If `path` is a
/// device such as `/dev/null`, or a pipe, the text is written directly.
///
/// A symbolic link at `path` is followed if the link or its folder belongs to the caller or to root, and other
/// users cannot write to the folder. In a folder with the sticky bit, such as `/tmp`, the link itself must
/// belong to the caller or to root. The rule applies to the last component of the path.
///
/// `option` is the command line option with the path of the file. The error message names this option.
///
/// # Errors
///
/// Returns an error if the folder does not exist or is not writable, if the file cannot be written, or if a
/// symbolic link is not followed.
pub fn write_result_file(option: &str, path: &Path, text: &str) -> Result<(), Failure> {
    write_result_with(option, path, |file| file.write_all(text.as_bytes()))
}

/// Writes a result file like [`write_result_file`]. `write` writes the content in parts, so the content is never in
/// memory as a whole.
///
/// # Errors
///
/// As [`write_result_file`], and if `write` fails.
pub fn write_result_with(
    option: &str,
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let result = ResultFile::create(path).and_then(|mut file| {
        let mut buffered = BufWriter::new(&mut file);
        write(&mut buffered)?;
        buffered.flush()?;
        drop(buffered);
        file.commit()
    });
    result.map_err(|error| failed_write(option, path, &error))
}

/// Opens a file for a live stream, such as a recording or an event log. The stream appears in the file while
/// the command runs, so the file is not renamed at the end. A regular file is emptied first.
///
/// Symbolic links are followed under the rule of [`write_result_file`]. In a folder where others can write, an
/// existing regular file must belong to the caller or to root, and must not have a second name.
///
/// # Errors
/// The file cannot be opened, or one of the rules forbids it. The error says why.
pub fn open_stream_file(path: &Path) -> io::Result<StreamFile> {
    ResultTarget::find(path)?.open_stream()
}

/// Checks that [`write_result_file`] can write to a path. Call this before a long run that writes the file at
/// its end. The check leaves no file behind.
///
/// # Errors
/// The file cannot be written. The error says why.
pub fn check_result_file(path: &Path) -> io::Result<()> {
    ResultTarget::find(path)?.check_writable()
}

/// Returns the failure for a file that cannot be written. `option` is the command line option with the path, and
/// `error` the error of a function of this module.
pub fn unwritable_file(option: &str, path: &Path, error: &io::Error) -> Failure {
    let folder = folder_of(path);
    let (why, fix) = if path == Path::new("-") {
        let fix = match option {
            "--report" => "`--format json` prints the report on standard output; or give a file",
            _ => "give a file; `/dev/stdout` mixes both on standard output",
        };
        (error.to_string(), fix)
    } else if path.is_dir() {
        ("it is a folder".to_owned(), "give a file in this folder")
    } else if !folder.is_dir() {
        (
            format!("the folder {} does not exist", folder.display()),
            "create the folder, or choose another one",
        )
    } else {
        let fix = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free space on the file system, or choose a file on another one"
            }
            _ => "choose a folder that can be written to",
        };
        (error.to_string(), fix)
    };
    Failure::usage("the file cannot be written")
        .at(format!("{option} {}", path.display()))
        .because(why)
        .fix(fix)
}

/// Returns the failure of a write to a file that the command has opened before.
pub fn failed_write(option: &str, path: &Path, error: &io::Error) -> Failure {
    Failure {
        exit: Exit::Environment,
        ..unwritable_file(option, path, error)
    }
}

/// Checks that files can be created in a folder. The check leaves no file behind.
///
/// # Errors
/// No file can be created in the folder.
pub fn check_result_folder(folder: &Path) -> io::Result<()> {
    tempfile::tempfile_in(folder).map(drop)
}

/// A result file that is written in parts, such as the capture of a replay. A regular or absent target gets its
/// content with [`ResultFile::commit`]. Until then, the content is in a temporary file of the same folder,
/// which disappears if the program ends early. Devices and pipes are written directly.
#[derive(Debug)]
pub struct ResultFile {
    file: StreamFile,
    state: ResultFileState,
}

/// The storage of the content before [`ResultFile::commit`].
#[derive(Debug)]
enum ResultFileState {
    /// In the target itself.
    WrittenDirectly,
    /// In a file without a name. The path is the target.
    Unnamed(PathBuf),
    /// In a file with a random name. The path is the target.
    Named(TempPath, PathBuf),
}

impl ResultFile {
    /// Prepares the target of a path under the rules of [`write_result_file`].
    ///
    /// # Errors
    /// The folder does not exist or is not writable, the device cannot be opened, or a symbolic link is not
    /// followed.
    pub fn create(path: &Path) -> io::Result<ResultFile> {
        let path = match ResultTarget::find(path)? {
            ResultTarget::Absent(path) | ResultTarget::Regular(path) => path,
            special => {
                return Ok(ResultFile {
                    file: special.open_stream()?,
                    state: ResultFileState::WrittenDirectly,
                });
            }
        };
        let unnamed = OpenOptions::new()
            .write(true)
            .mode(NEW_FILE_MODE)
            .custom_flags(O_TMPFILE)
            .open(folder_of(&path));
        if let Ok(file) = unnamed {
            return Ok(ResultFile {
                file: file.into(),
                state: ResultFileState::Unnamed(path),
            });
        }
        // Some file systems have no files without a name. A folder that cannot be written fails here, too.
        let (file, temporary) = temporary_name()
            .permissions(Permissions::from_mode(NEW_FILE_MODE))
            .tempfile_in(folder_of(&path))?
            .into_parts();
        Ok(ResultFile {
            file: file.into(),
            state: ResultFileState::Named(temporary, path),
        })
    }

    /// Gives the content the name of the target, and replaces the file that has this name.
    ///
    /// # Errors
    /// The file cannot be renamed.
    pub fn commit(self) -> io::Result<()> {
        match self.state {
            ResultFileState::WrittenDirectly => Ok(()),
            ResultFileState::Named(temporary, path) => temporary.persist(path).map_err(|error| error.error),
            ResultFileState::Unnamed(path) => {
                let own_fd = format!("/proc/self/fd/{}", self.file.as_fd().as_raw_fd());
                let link = |name: &Path| -> io::Result<()> {
                    let follow = AtFlags::AT_SYMLINK_FOLLOW;
                    Ok(linkat(AT_FDCWD, own_fd.as_str(), AT_FDCWD, name, follow)?)
                };
                // An existing name cannot be linked to, so the file first gets a random name.
                let named = temporary_name().make_in(folder_of(&path), link)?;
                named.persist(path).map(drop).map_err(|error| error.error)
            }
        }
    }
}

impl Write for ResultFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.file.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns the form of the names of temporary files, with 12 random letters and digits.
fn temporary_name() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".xoff-").suffix(".tmp").rand_bytes(12);
    builder
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_result_replaces_the_file_and_leaves_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let (file, second) = (folder.path().join("result"), folder.path().join("second"));
        fs::write(&file, "old").unwrap();
        fs::hard_link(&file, &second).unwrap();
        write_result_file("--report", &file, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        // The file was replaced and not overwritten, so a second name keeps the old content.
        assert_eq!(fs::read_to_string(&second).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_link_in_a_shared_folder_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o777)).unwrap();
        let precious = folder.path().join("precious");
        fs::write(&precious, "kept").unwrap();
        let link = shared.join("result");
        symlink(&precious, &link).unwrap();
        let failure = write_result_file("--report", &link, "new").unwrap_err();
        assert!(failure.why.unwrap().contains("symbolic link"));
        assert!(check_result_file(&link).is_err() && open_stream_file(&link).is_err());
        assert_eq!(fs::read_to_string(&precious).unwrap(), "kept");
        // The same link in a folder of the caller is followed.
        fs::set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
        write_result_file("--report", &link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&precious).unwrap(), "new");
    }

    #[test]
    fn a_new_file_has_the_permissions_of_the_mask() {
        let folder = tempfile::tempdir().unwrap();
        let (file, reference) = (folder.path().join("result"), folder.path().join("reference"));
        write_result_file("--report", &file, "new").unwrap();
        fs::write(&reference, "").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&file), mode(&reference));
    }

    #[test]
    fn a_result_in_parts_appears_with_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        let mut file = ResultFile::create(&path).unwrap();
        file.write_all(b"first, ").unwrap();
        assert!(!path.exists());
        file.write_all(b"second").unwrap();
        file.commit().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first, second");
        drop(ResultFile::create(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "first, second");
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no temporary file is left"
        );
    }

    #[test]
    fn devices_are_written_in_place() {
        write_result_file("--report", Path::new("/dev/null"), "text").unwrap();
        let failure = write_result_file("--report", Path::new("/dev/full"), "text").unwrap_err();
        assert_eq!(failure.exit as u8, 3);
        assert!(
            Path::new("/dev/null")
                .metadata()
                .is_ok_and(|device| !device.is_file())
        );
    }

    #[test]
    fn a_path_that_cannot_be_written_gets_the_fix_of_its_cause() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none/file");
        for (path, option, why, fix) in [
            (Path::new("-"), "--report", "standard output", "--format json"),
            (Path::new("-"), "--events", "standard output", "/dev/stdout"),
            (folder.path(), "--csv", "it is a folder", "a file in this folder"),
            (&missing, "--events", "none does not exist", "create the folder"),
        ] {
            let error = check_result_file(path).unwrap_err();
            let failure = unwritable_file(option, path, &error);
            assert!(
                failure.why.as_deref().unwrap_or_default().contains(why),
                "{failure}"
            );
            assert!(
                failure.fix.as_deref().unwrap_or_default().contains(fix),
                "{failure}"
            );
            assert!(open_stream_file(path).is_err() && write_result_file(option, path, "").is_err());
        }
        assert!(!Path::new("-").exists());
    }

    #[test]
    fn output_after_the_end_of_the_reader_of_a_pipe_is_discarded() {
        let (reader, writer) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let mut stream = open_stream_file(Path::new(&path)).unwrap();
        drop(reader);
        assert!(stream.write_all(b"first").is_ok() && stream.write_all(b"second").is_ok());
        assert!(write_result_file("--report", Path::new(&path), "text").is_ok());
    }
}
