//! Passes the version with the commit of the source to the compiler, as the variable `XOFF_VERSION`.
//!
//! The build works without Git and without a repository, for example from a source archive. The version then
//! has no commit.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of digits of the commit in the version.
const COMMIT_DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = match read_commit() {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo::rustc-env=XOFF_VERSION={version}");
}

/// Returns the first digits of the commit that is checked out. Returns `None` if this folder is not the root of
/// a Git checkout. A source archive inside another repository must not show the commit of that repository.
fn read_commit() -> Option<String> {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?);
    if !root.join(".git").exists() {
        return None;
    }
    watch_head(&root);
    let commit = run_git(&root, &["rev-parse", "HEAD"])?;
    let is_hash = commit.len() >= COMMIT_DIGITS && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| commit[..COMMIT_DIGITS].to_owned())
}

/// Tells cargo to run this script again if another commit is checked out. Cargo runs a script in every build if
/// a named file does not exist, so only existing files are named.
fn watch_head(root: &Path) {
    // The log of HEAD changes with each commit, even if the branch has no file of its own yet.
    let mut names = ["HEAD", "packed-refs", "logs/HEAD"].map(str::to_owned).to_vec();
    names.extend(run_git(root, &["symbolic-ref", "--quiet", "HEAD"]));
    for name in names {
        // In a worktree, HEAD and the branches are in different folders.
        let path = run_git(root, &["rev-parse", "--git-path", &name]).map(|path| root.join(path));
        if let Some(path) = path.filter(|path| path.exists()) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}

/// Runs git in the folder `root` and returns its output. Returns `None` if git is missing or fails.
fn run_git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
