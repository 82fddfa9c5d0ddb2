//! The `xoff` program under test.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the `xoff` program with the same profile (release or dev) as this tool. Returns the path of
/// the program.
///
/// # Errors
///
/// Cargo cannot be started, or the build fails.
pub(crate) fn build_xoff() -> Result<PathBuf, String> {
    let own = env::current_exe().map_err(|error| format!("the path of this program is unknown: {error}"))?;
    let folder = own.parent().unwrap_or(Path::new("."));
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args([
        "build",
        "--quiet",
        "--package",
        "xoff",
        "--bin",
        "xoff",
        "--manifest-path",
    ]);
    build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"));
    if folder.ends_with("release") {
        build.arg("--release");
    }
    let status = build
        .status()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    if !status.success() {
        return Err(format!("cargo build of xoff failed: {status}"));
    }
    Ok(folder.join("xoff"))
}
