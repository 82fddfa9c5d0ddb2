//! Reads files of a commit from a bare git directory, which has no work tree.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::external_command;

/// Returns whether a folder is a bare git directory.
pub(crate) fn is_bare_repository(folder: &Path) -> bool {
    folder.join("HEAD").is_file() && folder.join("objects").is_dir()
}

/// A commit of a git directory.
#[derive(Debug)]
pub(crate) struct Repository {
    folder: PathBuf,
    commit: String,
}

impl Repository {
    /// Opens a git directory at `HEAD`.
    ///
    /// # Errors
    ///
    /// The folder is not a git directory, or git cannot be started.
    pub(crate) fn open(folder: &Path) -> Result<Repository, String> {
        Repository::open_at(folder, "HEAD")
    }

    /// Opens a git directory at a commit.
    ///
    /// # Errors
    ///
    /// The folder is not a git directory, the commit does not exist, or git cannot be started.
    pub(crate) fn open_at(folder: &Path, commit: &str) -> Result<Repository, String> {
        let mut repository = Repository {
            folder: folder.to_owned(),
            commit: "HEAD".to_owned(),
        };
        repository.commit = repository
            .run_git(&["rev-parse", "--verify", &format!("{commit}^{{commit}}")])?
            .trim()
            .to_owned();
        Ok(repository)
    }

    /// Returns the commit hash in hexadecimal digits.
    pub(crate) fn commit(&self) -> &str {
        &self.commit
    }

    /// Returns the text of a file.
    pub(crate) fn read_text(&self, path: &str) -> Result<String, String> {
        self.run_git(&["show", &format!("{}:{path}", self.commit)])
    }

    /// Returns the paths and texts of the regular files in these folders, sorted by path. `is_wanted` selects
    /// files by their paths.
    pub(crate) fn read_texts(
        &self,
        folders: &[&str],
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, String)>, String> {
        let files = self.regular_files(folders)?;
        let wanted = files.into_iter().filter(|(path, _)| is_wanted(path));
        wanted
            .map(|(path, _)| {
                let text = self.read_text(&path)?;
                Ok((path, text))
            })
            .collect()
    }

    /// Writes regular files to the folder `target` and keeps their paths. `is_wanted` selects files by their
    /// contents. A file is skipped if the git directory does not contain its content.
    ///
    /// # Errors
    ///
    /// Git fails, or a file cannot be written.
    pub(crate) fn extract_files(&self, target: &Path, is_wanted: fn(&[u8]) -> bool) -> Result<(), String> {
        let mut objects = ObjectReader::open(&self.folder)?;
        for (path, object) in self.regular_files(&[])? {
            let Some(content) = objects.read(&object)?.filter(|content| is_wanted(content)) else {
                continue;
            };
            let file = target.join(path);
            let folder = file.parent().unwrap_or(target);
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            fs::write(&file, content).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        Ok(())
    }

    /// Returns the path and the object id of each regular file in these folders. If `folders` is empty,
    /// returns all regular files of the commit.
    fn regular_files(&self, folders: &[&str]) -> Result<Vec<(String, String)>, String> {
        let mut arguments = vec!["ls-tree", "-r", "-z", &self.commit, "--"];
        arguments.extend(folders);
        let listing = self.run_git(&arguments)?;
        let mut files = Vec::new();
        for line in listing.split('\0') {
            let Some((description, path)) = line.split_once('\t') else {
                continue;
            };
            // Mode 120000 is a symbolic link. The listing also contains the target of the link.
            let description: Vec<&str> = description.split(' ').collect();
            if let [mode, "blob", object] = description[..]
                && mode.starts_with("100")
            {
                files.push((path.to_owned(), object.to_owned()));
            }
        }
        Ok(files)
    }

    fn run_git(&self, arguments: &[&str]) -> Result<String, String> {
        let output = external_command::run_command(git_command(&self.folder).args(arguments))?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }
}

fn git_command(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("--git-dir").arg(folder);
    git
}

/// Reads objects through `git cat-file --batch`.
struct ObjectReader {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl ObjectReader {
    fn open(folder: &Path) -> Result<ObjectReader, String> {
        let mut child = git_command(folder)
            .args(["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("git cannot be started: {error}"))?;
        let answers = BufReader::new(child.stdout.take().ok_or("git has no output")?);
        Ok(ObjectReader { child, answers })
    }

    /// Returns the content of an object, or `None` if the git directory does not contain the object.
    fn read(&mut self, object: &str) -> Result<Option<Vec<u8>>, String> {
        let failed = |error| format!("git cat-file: {error}");
        let requests = self.child.stdin.as_mut().ok_or("git has no input")?;
        writeln!(requests, "{object}").map_err(failed)?;
        let mut header = String::new();
        self.answers.read_line(&mut header).map_err(failed)?;
        let fields: Vec<&str> = header.split_whitespace().collect();
        let [_, _, size] = fields[..] else { return Ok(None) };
        let size: usize = size.parse().map_err(|error| format!("git cat-file: {error}"))?;
        let mut content = vec![0; size + 1];
        self.answers.read_exact(&mut content).map_err(failed)?;
        content.truncate(size);
        Ok(Some(content))
    }
}

impl Drop for ObjectReader {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The process ends when its input is closed. Its exit code has no meaning here.
        let _ = self.child.wait();
    }
}
