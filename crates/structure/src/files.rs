//! Lists of files below a folder.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns every file below `folder` with the extension `extension`, sorted by path.
///
/// Hidden folders and folders named `target` are skipped. If a folder does not exist, the result is empty.
pub(crate) fn files_below(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    if folder.is_dir() {
        collect_files(folder, extension, &mut found)?;
    }
    found.sort();
    Ok(found)
}

fn collect_files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let path = entry.path();
        if kind.is_dir() {
            let name = entry.file_name();
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                collect_files(&path, extension, found)?;
            }
        } else if kind.is_file() && path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
    Ok(())
}

/// Reads a text file. An error names the file.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Splits a table of tab-separated columns into its rows. Empty lines and lines that start with `#` are
/// skipped, and so are empty cells.
pub(crate) fn table_rows(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| {
            line.split('\t')
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect()
}
