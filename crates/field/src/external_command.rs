//! Runs external programs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a command and returns its standard output.
///
/// # Errors
///
/// Returns an error if the command cannot be started, or if its exit status is not 0. In the second case, the
/// message contains the standard error of the command.
pub(crate) fn run_command(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?} cannot be started: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// Creates a Python virtual environment in a folder and installs a package there. Returns the path of
/// the interpreter.
///
/// # Errors
///
/// Python is missing, or the package cannot be installed.
pub(crate) fn create_python_environment(package: &str, folder: &Path) -> Result<PathBuf, String> {
    let environment = folder.join("venv");
    run_command(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let python = environment.join("bin/python");
    run_command(Command::new(&python).args(["-m", "pip", "install", "--quiet", package]))?;
    Ok(python)
}
