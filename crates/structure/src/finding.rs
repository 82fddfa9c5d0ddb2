//! Findings of the checks.

use std::fmt;
use std::path::PathBuf;

/// A location in a file that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path of the file, relative to the root of the workspace.
    pub file: PathBuf,
    /// Line number, from 1.
    pub line: usize,
    /// Kind of text that was checked, for example `rustdoc` or `function name`.
    pub kind: &'static str,
    /// Description of the broken rule.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            kind,
            message,
        } = self;
        write!(formatter, "{}:{line}: {kind}: {message}", file.display())
    }
}
