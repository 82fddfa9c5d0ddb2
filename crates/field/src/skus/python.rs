//! Runs `render.py`, with Jinja2 from the system or from a temporary virtual environment.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/render.py");

/// Renders every SKU of the repository into `output`.
///
/// # Errors
/// Python or Jinja2 is missing and cannot be installed, or the repository cannot be read.
pub(super) fn render(git_dir: &Path, output: &Path) -> Result<(), String> {
    let python = python_with_jinja2(output)?;
    let mut command = Command::new(&python);
    command.arg("-B").arg(SCRIPT).arg(git_dir).arg(output);
    succeed(&mut command, "render.py")
}

fn python_with_jinja2(folder: &Path) -> Result<PathBuf, String> {
    let system = PathBuf::from("python3");
    let mut probe = Command::new(&system);
    probe.args(["-c", "import jinja2"]).stderr(Stdio::null());
    match probe.status() {
        Ok(status) if status.success() => return Ok(system),
        Ok(_) => {}
        Err(error) => return Err(format!("python3 cannot be started: {error}; install Python 3")),
    }
    let environment = folder.join("venv");
    succeed(
        Command::new(&system).args(["-m", "venv"]).arg(&environment),
        "python3 -m venv",
    )?;
    let python = environment.join("bin/python");
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "jinja2"]);
    succeed(&mut install, "pip install jinja2").map_err(|why| {
        format!("{why}; the templates need Jinja2: install it (pip install jinja2), or allow pip the network")
    })?;
    Ok(python)
}

fn succeed(command: &mut Command, name: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} failed: {status}")),
        Err(error) => Err(format!("{name} cannot be started: {error}")),
    }
}
