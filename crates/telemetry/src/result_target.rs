//! The target of a path that a command writes: an absent or regular file, a device, a pipe, or the target of a
//! symbolic link that may be followed.
//!
//! In a folder where other users can create files, such as `/tmp`, another user can place a symbolic link under
//! the name of a result file. A program that follows the link overwrites a file of its own user. The rules of
//! this module prevent this for the last component of a path. The folders before the last component are
//! resolved by the kernel as usual, because the caller names them.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc::{O_NOCTTY, O_NOFOLLOW};
use nix::unistd::{Gid, Group, User, geteuid};

/// Largest number of symbolic links in a chain, as in the kernel.
const LINKS_MAX: usize = 40;
/// Permission bit of the group of a file: the group may write.
const GROUP_WRITE: u32 = 0o020;
/// Permission bit of a file: all users may write.
const OTHER_WRITE: u32 = 0o002;
/// Permission bit of a folder: only the owner of a file may rename or remove the file.
const STICKY: u32 = 0o1000;

/// The target of a result file, after all symbolic links that may be followed.
#[derive(Debug)]
pub(crate) enum ResultTarget {
    /// No file exists at this path. Its folder may be missing.
    Absent(PathBuf),
    /// A regular file at this path.
    Regular(PathBuf),
    /// A device or a pipe at this path.
    Special(PathBuf, Metadata),
    /// An open file of a process, such as `/dev/stdout` or `/dev/fd/63`. The path is in the folder `/proc`.
    OpenFile(PathBuf),
}

impl ResultTarget {
    /// Finds the target of a path.
    ///
    /// # Errors
    /// The path is a folder or `-`, or it is a symbolic link that must not be followed. The error says why.
    pub(crate) fn find(path: &Path) -> io::Result<ResultTarget> {
        if path == Path::new("-") {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "standard output is for the result of the command",
            ));
        }
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            let metadata = match path.symlink_metadata() {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ResultTarget::Absent(path)),
                Err(error) => return Err(error),
            };
            let kind = metadata.file_type();
            if kind.is_dir() {
                return Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder"));
            }
            if kind.is_file() {
                return Ok(ResultTarget::Regular(path));
            }
            if !kind.is_symlink() {
                return Ok(ResultTarget::Special(path, metadata));
            }
            let folder = folder_of(&path);
            if is_on_procfs(folder) {
                return Ok(ResultTarget::OpenFile(path));
            }
            check_link(&metadata, &folder.metadata()?, Identity::of_caller())?;
            path = folder.join(path.read_link()?);
        }
        Err(io::Error::other("the chain of symbolic links is too long"))
    }

    /// Opens the target for a live stream: the stream appears in the file while the command runs. A regular
    /// file is emptied first.
    ///
    /// # Errors
    /// The file cannot be opened. In a folder where others can write, the file belongs to another user or has
    /// a second name.
    pub(crate) fn open_stream(self) -> io::Result<StreamFile> {
        let file = match self {
            ResultTarget::Absent(path) => OpenOptions::new()
                .write(true)
                .create_new(true)
                .custom_flags(O_NOFOLLOW)
                .open(path)?,
            ResultTarget::Regular(path) | ResultTarget::Special(path, _) => {
                let file = write_options().open(&path)?;
                // The check examines the opened file, because another user may have replaced the path.
                let metadata = file.metadata()?;
                if metadata.is_file() {
                    check_regular_file(&metadata, &folder_of(&path).metadata()?, Identity::of_caller())?;
                    file.set_len(0)?;
                }
                file
            }
            // The file was opened before, and its content is not removed.
            ResultTarget::OpenFile(path) => OpenOptions::new()
                .append(true)
                .custom_flags(O_NOCTTY)
                .open(path)?,
        };
        Ok(StreamFile::from(file))
    }

    /// Checks whether the target of a file that is replaced can be written. Leaves no file behind, and does
    /// not wait for the reader of a pipe.
    ///
    /// # Errors
    /// The target cannot be written.
    pub(crate) fn check_writable(&self) -> io::Result<()> {
        match self {
            ResultTarget::Absent(path) | ResultTarget::Regular(path) => {
                tempfile::tempfile_in(folder_of(path)).map(drop)
            }
            ResultTarget::Special(_, metadata)
                if metadata.file_type().is_fifo() || metadata.file_type().is_socket() =>
            {
                Ok(())
            }
            ResultTarget::Special(path, _) => write_options().open(path).map(drop),
            ResultTarget::OpenFile(_) => Ok(()),
        }
    }
}

/// A file to which a command writes while it runs.
///
/// If the file is a pipe and its reader has closed it, as `head` does, the file discards all later output. This is no
/// error, because the reader has all that it wants.
#[derive(Debug)]
pub struct StreamFile {
    file: File,
    is_reader_gone: bool,
}

impl StreamFile {
    /// Returns a second handle of the same open file.
    ///
    /// # Errors
    /// The process has no free file descriptor.
    pub fn try_clone(&self) -> io::Result<StreamFile> {
        Ok(StreamFile {
            file: self.file.try_clone()?,
            is_reader_gone: self.is_reader_gone,
        })
    }
}

impl From<File> for StreamFile {
    fn from(file: File) -> StreamFile {
        StreamFile {
            file,
            is_reader_gone: false,
        }
    }
}

impl AsFd for StreamFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Write for StreamFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.is_reader_gone {
            return Ok(buffer.len());
        }
        match self.file.write(buffer) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_reader_gone = true;
                Ok(buffer.len())
            }
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns the folder of a path, `.` for a name without a folder.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) => Path::new("."),
        None => Path::new("/"),
    }
}

/// Returns the options that open an existing file without following a symbolic link.
fn write_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(O_NOFOLLOW | O_NOCTTY);
    options
}

/// Returns whether a folder is in a procfs. Its links name open files of processes and not paths.
fn is_on_procfs(folder: &Path) -> bool {
    nix::sys::statfs::statfs(folder)
        .is_ok_and(|info| info.filesystem_type() == nix::sys::statfs::PROC_SUPER_MAGIC)
}

/// The user for whom the rules are evaluated.
#[derive(Clone, Copy, Debug)]
struct Identity {
    uid: u32,
    /// The group that contains only this user. `None` if the user has no such group.
    private_gid: Option<u32>,
}

impl Identity {
    /// Returns the effective user of this process.
    fn of_caller() -> Identity {
        let uid = geteuid();
        let gid = nix::unistd::getegid();
        Identity {
            uid: uid.as_raw(),
            private_gid: is_private_group(uid, gid).then_some(gid.as_raw()),
        }
    }

    /// Returns whether a file belongs to the user or to root.
    fn trusts_owner(self, metadata: &Metadata) -> bool {
        metadata.uid() == self.uid || metadata.uid() == 0
    }

    /// Returns whether users other than the caller and root can create files in a folder.
    fn is_shared(self, folder: &Metadata) -> bool {
        let mode = folder.mode();
        mode & OTHER_WRITE != 0 || (mode & GROUP_WRITE != 0 && Some(folder.gid()) != self.private_gid)
    }
}

/// Returns whether a group is the private group of a user, as most distributions create one for each user: the
/// group has the name of the user and no other members.
fn is_private_group(uid: nix::unistd::Uid, gid: Gid) -> bool {
    let (Ok(Some(user)), Ok(Some(group))) = (User::from_uid(uid), Group::from_gid(gid)) else {
        return false;
    };
    group.name == user.name && group.mem.iter().all(|member| *member == user.name)
}

/// Checks whether a symbolic link may be followed.
///
/// Where nobody else can write, the link or its folder must belong to the caller or to root. In a folder with
/// the sticky bit, such as `/tmp`, the link itself must belong to the caller or to root. In another folder
/// where others can write, no link is followed.
fn check_link(link: &Metadata, folder: &Metadata, caller: Identity) -> io::Result<()> {
    let refuse = |why: &str| {
        let text = format!("it is a symbolic link of user {}, {why}", link.uid());
        Err(io::Error::new(ErrorKind::PermissionDenied, text))
    };
    match (caller.is_shared(folder), folder.mode() & STICKY != 0) {
        (false, _) if caller.trusts_owner(link) || caller.trusts_owner(folder) => Ok(()),
        (false, _) => refuse("and neither the link nor its folder belongs to you or to root"),
        (true, true) if caller.trusts_owner(link) => Ok(()),
        (true, true) => refuse("and other users can create links in its folder"),
        (true, false) => refuse("and other users can replace links in its folder"),
    }
}

/// Checks whether an existing regular file may be written in place. In a folder where others can write, the
/// file must belong to the caller or to root, and must not have a second name (a hard link).
fn check_regular_file(file: &Metadata, folder: &Metadata, caller: Identity) -> io::Result<()> {
    if !caller.is_shared(folder) {
        return Ok(());
    }
    let refuse = |why: String| Err(io::Error::new(ErrorKind::PermissionDenied, why));
    if !caller.trusts_owner(file) {
        return refuse(format!(
            "the file belongs to user {}, and its folder is shared with other users",
            file.uid()
        ));
    }
    if file.nlink() > 1 {
        return refuse("the file has a second name, and its folder is shared with other users".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A folder with a mode, and a symbolic link in it.
    fn folder_with_link(mode: u32) -> (tempfile::TempDir, Metadata, Metadata) {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("folder");
        fs::create_dir(&folder).unwrap();
        symlink("target", folder.join("link")).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        let metadata = folder.metadata().unwrap();
        let link = folder.join("link").symlink_metadata().unwrap();
        (outer, metadata, link)
    }

    /// The identity of the user who runs the test, without a private group.
    fn owner() -> Identity {
        Identity {
            uid: geteuid().as_raw(),
            private_gid: None,
        }
    }

    /// The identity of a user who owns no file of the test.
    fn stranger() -> Identity {
        Identity {
            uid: 4_000_000_000,
            private_gid: None,
        }
    }

    #[test]
    fn a_link_is_followed_only_where_others_cannot_place_it() {
        for (mode, is_followed) in [
            (0o755, true),
            (0o700, true),
            (0o1777, true),
            (0o777, false),
            (0o775, false),
            (0o1775, true),
        ] {
            let (_outer, folder, link) = folder_with_link(mode);
            let result = check_link(&link, &folder, owner());
            assert_eq!(result.is_ok(), is_followed, "{mode:o}: {result:?}");
        }
    }

    #[test]
    fn a_link_of_another_user_is_refused_with_the_reason() {
        if geteuid().is_root() {
            // The rules trust the files of root, so the link needs another owner.
            let (outer, ..) = folder_with_link(0o1777);
            let path = outer.path().join("folder/link");
            std::os::unix::fs::lchown(&path, Some(1234), None).unwrap();
            let error = ResultTarget::find(&path).unwrap_err().to_string();
            assert!(
                error.contains("user 1234") && error.contains("create links"),
                "{error}"
            );
            return;
        }
        for (mode, why) in [
            (0o1777, "create links"),
            (0o777, "replace links"),
            (0o755, "neither"),
        ] {
            let (_outer, folder, link) = folder_with_link(mode);
            let error = check_link(&link, &folder, stranger()).unwrap_err().to_string();
            assert!(error.contains(why), "{mode:o}: {error}");
        }
    }

    #[test]
    fn every_link_of_a_chain_is_checked() {
        let outer = tempfile::tempdir().unwrap();
        let shared = outer.path().join("shared");
        fs::create_dir(&shared).unwrap();
        symlink(outer.path().join("precious"), shared.join("trap")).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o777)).unwrap();
        symlink("shared/trap", outer.path().join("own")).unwrap();
        assert!(ResultTarget::find(&outer.path().join("own")).is_err());
        fs::set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
        let target = ResultTarget::find(&outer.path().join("own")).unwrap();
        assert!(matches!(target, ResultTarget::Absent(path) if path.ends_with("precious")));
    }

    #[test]
    fn a_group_counts_as_others_unless_it_is_private() {
        let (_outer, folder, link) = folder_with_link(0o775);
        assert!(check_link(&link, &folder, owner()).is_err());
        let with_group = Identity {
            private_gid: Some(folder.gid()),
            ..owner()
        };
        assert!(check_link(&link, &folder, with_group).is_ok());
    }

    #[test]
    fn a_stream_refuses_files_that_others_may_have_placed() {
        let outer = tempfile::tempdir().unwrap();
        let (file, second) = (outer.path().join("file"), outer.path().join("second"));
        fs::write(&file, "precious").unwrap();
        let metadata = |path: &Path| path.metadata().unwrap();
        fs::set_permissions(outer.path(), Permissions::from_mode(0o1777)).unwrap();
        let folder = metadata(outer.path());
        assert!(check_regular_file(&metadata(&file), &folder, owner()).is_ok());
        fs::hard_link(&file, &second).unwrap();
        assert!(check_regular_file(&metadata(&file), &folder, owner()).is_err());
        assert!(ResultTarget::find(&file).unwrap().open_stream().is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
        fs::set_permissions(outer.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(ResultTarget::find(&file).unwrap().open_stream().is_ok());
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            "",
            "a stream starts with an empty file"
        );
    }

    #[test]
    fn an_open_file_of_a_process_is_written_where_it_ends() {
        use std::io::{Read, Seek, Write};
        use std::os::fd::AsRawFd;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"before").unwrap();
        let path = PathBuf::from(format!("/dev/fd/{}", file.as_raw_fd()));
        let target = ResultTarget::find(&path).unwrap();
        target.open_stream().unwrap().write_all(b", after").unwrap();
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "before, after");
    }
}
