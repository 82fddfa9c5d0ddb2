//! Files of bare git directories.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Whether a folder is a bare git directory.
pub(crate) fn is_bare(folder: &Path) -> bool {
    folder.join("HEAD").is_file() && folder.join("objects").is_dir()
}

/// Writes the files of the newest commit whose content `is_wanted` to `target`, in their folders. Returns the commit. Objects that the
/// directory lacks are left out.
///
/// # Errors
///
/// A message if git fails or a file cannot be written.
pub(crate) fn extract(git: &Path, target: &Path, is_wanted: fn(&[u8]) -> bool) -> Result<String, String> {
    let run = |arguments: &[&str]| {
        let output = Command::new("git")
            .arg("--git-dir")
            .arg(git)
            .args(arguments)
            .output();
        let output = output.map_err(|error| format!("git cannot be started: {error}"))?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(format!(
                "git {arguments:?}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            )),
        }
    };
    let commit = String::from_utf8_lossy(&run(&["rev-parse", "HEAD"])?)
        .trim()
        .to_owned();
    let tree = run(&["ls-tree", "-r", "-z", "HEAD"])?;
    let mut objects = Objects::open(git)?;
    for entry in tree.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        let entry = String::from_utf8_lossy(entry);
        let Some((fields, path)) = entry.split_once('\t') else {
            continue;
        };
        let fields: Vec<&str> = fields.split(' ').collect();
        // Regular files only: the target of a symbolic link is in the tree itself.
        let [mode, "blob", object] = fields[..] else {
            continue;
        };
        if !mode.starts_with("100") {
            continue;
        }
        let Some(content) = objects.read(object)? else {
            continue;
        };
        if is_wanted(&content) {
            let file = target.join(path);
            let folder = file.parent().unwrap_or(target);
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            fs::write(&file, content).map_err(|error| format!("{}: {error}", file.display()))?;
        }
    }
    Ok(commit)
}

/// `git cat-file --batch`.
struct Objects {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Objects {
    fn open(git: &Path) -> Result<Objects, String> {
        let mut child = Command::new("git")
            .arg("--git-dir")
            .arg(git)
            .args(["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("git cannot be started: {error}"))?;
        let answers = BufReader::new(child.stdout.take().ok_or("git has no output")?);
        Ok(Objects { child, answers })
    }

    /// The content of an object; `None` if the directory lacks it.
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

impl Drop for Objects {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The process ends with its input; its exit code has nothing to say.
        let _ = self.child.wait();
    }
}
