//! Files of a commit in a git directory, which need not have a work tree.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A git directory at its current commit.
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
    /// A message if the folder is no git directory or git cannot be started.
    pub(crate) fn open(folder: &Path) -> Result<Repository, String> {
        let mut repository = Repository {
            folder: folder.to_owned(),
            commit: "HEAD".to_owned(),
        };
        repository.commit = repository.git(&["rev-parse", "HEAD"])?.trim().to_owned();
        Ok(repository)
    }

    /// The commit in hexadecimal digits.
    pub(crate) fn commit(&self) -> &str {
        &self.commit
    }

    /// One file.
    pub(crate) fn text(&self, path: &str) -> Result<String, String> {
        self.git(&["show", &format!("{}:{path}", self.commit)])
    }

    /// The regular files below the given folders whose path is wanted, by path.
    pub(crate) fn texts(
        &self,
        folders: &[&str],
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, String)>, String> {
        let mut arguments = vec!["ls-tree", "-r", "-z", &self.commit, "--"];
        arguments.extend(folders);
        let listing = self.git(&arguments)?;
        let mut texts = Vec::new();
        for line in listing.split('\0') {
            let Some((description, path)) = line.split_once('\t') else {
                continue;
            };
            // Mode 120000 is a symbolic link: its target is listed too.
            if description.starts_with("100") && wanted(path) {
                texts.push((path.to_owned(), self.text(path)?));
            }
        }
        Ok(texts)
    }

    fn git(&self, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new("git")
            .arg("--git-dir")
            .arg(&self.folder)
            .args(arguments)
            .output()
            .map_err(|error| format!("git cannot be started: {error}"))?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "git {} in {}: {}",
                arguments[0],
                self.folder.display(),
                reason.trim()
            ));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
