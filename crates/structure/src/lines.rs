//! Counts the lines of production code in every workspace member.

use std::path::PathBuf;

use crate::workspace::Workspace;

/// The number of production lines in a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageLineCount {
    /// Name of the package.
    pub name: String,
    /// True if the member is a tool for developers ([`Member::is_tool`](crate::workspace::Member::is_tool)).
    pub is_tool: bool,
    /// Path and number of production lines for each file with at least one production line.
    pub files: Vec<(PathBuf, usize)>,
}

impl PackageLineCount {
    /// Returns the number of production lines in all files of the member.
    pub fn total(&self) -> usize {
        self.files.iter().map(|(_, lines)| lines).sum()
    }
}

/// Counts the production lines of every member of the workspace.
///
/// Production lines are the lines of `.rs` files below `src/`, without blank lines, comment lines and test
/// code. Test code is every item with `#[cfg(test)]`, every file of a module with this attribute, and every
/// folder `tests/`.
///
/// # Errors
/// A file cannot be read or parsed.
pub fn count_lines(workspace: &Workspace) -> Result<Vec<PackageLineCount>, String> {
    let mut members = Vec::new();
    for member in &workspace.members {
        let sources = workspace.read_sources(member)?;
        let counts = sources
            .production_files()
            .map(|(path, source)| (path.clone(), source.code_lines().len()));
        let files = counts.filter(|(_, lines)| *lines > 0).collect();
        members.push(PackageLineCount {
            name: member.name.clone(),
            is_tool: member.is_tool(),
            files,
        });
    }
    Ok(members)
}
