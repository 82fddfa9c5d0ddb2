//! Other programs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a command that has to succeed, and returns its standard output.
///
/// # Errors
///
/// A message if it cannot be started, or with its standard error if it fails.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, String> {
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

/// Makes a virtual environment of Python in a folder, and installs a package there. Returns its interpreter.
///
/// # Errors
///
/// A message if Python is missing or the package cannot be installed.
pub(crate) fn python_with(package: &str, folder: &Path) -> Result<PathBuf, String> {
    let environment = folder.join("venv");
    output(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let python = environment.join("bin/python");
    output(Command::new(&python).args(["-m", "pip", "install", "--quiet", package]))?;
    Ok(python)
}
