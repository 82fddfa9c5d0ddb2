//! A lab run by a user without privileges.

use std::fs;
use std::process::{Command, Stdio};

use crate::test_lab::lab_file_text;

/// Runs a short lab as a user other than root. The caller must not have entered a user namespace yet. Returns
/// `Ok(Some(reason))` if the machine does not allow the run.
pub(crate) fn run_without_root() -> Result<Option<String>, String> {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    /// The unprivileged user `nobody` of Linux.
    const NOBODY: u32 = 65_534;
    let describe = |error: std::io::Error| error.to_string();
    let folder = tempfile::tempdir().map_err(describe)?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).map_err(describe)?;
    let name = format!("rootless-{}", std::process::id());
    let file = folder.path().join("rootless.xoff.yml");
    fs::write(&file, lab_file_text(&name, "100ms", "")).map_err(describe)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
    command
        .args(["lab", "run"])
        .arg(&file)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            return Ok(Some(format!(
                "another user cannot execute {}: {error}",
                env!("CARGO_BIN_EXE_xoff")
            )));
        }
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0 | 5) => Ok(None),
        Some(3) if text.contains("without being root") => Ok(Some(text)),
        _ => Err(format!("{}: {text}", output.status)),
    }
}
