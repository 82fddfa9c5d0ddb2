//! Runs `render.py` with Jinja2 from the system or from a temporary virtual environment.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::external_command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/render.py");

/// Renders all SKUs of the bare git directory `git_dir` into the folder `output`.
///
/// # Errors
/// Python or Jinja2 is missing and cannot be installed, or the repository cannot be read.
pub(super) fn render_skus(git_dir: &Path, output: &Path) -> Result<(), String> {
    let python = python_with_jinja2(output)?;
    let mut render = Command::new(&python);
    external_command::run_command(render.arg("-B").arg(SCRIPT).arg(git_dir).arg(output))?;
    Ok(())
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
    external_command::create_python_environment("jinja2", folder).map_err(|why| {
        format!("{why}; the templates need Jinja2: install it (pip install jinja2), or allow pip the network")
    })
}
