//! Lines of production code of every workspace member.

use std::path::PathBuf;

use crate::workspace::Workspace;

/// Production lines of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberLines {
    /// Name of the package.
    pub name: String,
    /// Whether the member is a tool of the developers.
    pub is_tool: bool,
    /// Production lines of each file with at least one such line.
    pub files: Vec<(PathBuf, usize)>,
}

impl MemberLines {
    /// Returns the sum over all files.
    pub fn total(&self) -> usize {
        self.files.iter().map(|(_, lines)| lines).sum()
    }
}

/// Counts the production lines of every member of the workspace.
///
/// Production lines are the lines of `.rs` files below `src/`, without blank lines, comment lines and test
/// code. Test code is every item with `#[cfg(test)]`, every file that such a module includes, and every
/// folder `tests/`.
pub fn count_lines(workspace: &Workspace) -> Result<Vec<MemberLines>, String> {
    let mut members = Vec::new();
    for member in &workspace.members {
        let sources = workspace.read_sources(member)?;
        let counts = sources
            .production_files()
            .map(|(path, source)| (path.clone(), source.code_lines().len()));
        let files = counts.filter(|(_, lines)| *lines > 0).collect();
        members.push(MemberLines {
            name: member.name.clone(),
            is_tool: member.is_tool(),
            files,
        });
    }
    Ok(members)
}
