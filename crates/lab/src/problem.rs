//! Errors of a lab file.

use std::fmt;

use serde_saphyr::Location;

/// One error of a lab file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the lab file, as the user wrote it.
    pub file: String,
    /// Line, from 1. The value 0 means that the error concerns the whole file.
    pub line: u64,
    /// Column, from 1. Not used if `line` is 0.
    pub column: u64,
    /// Description of the error, with the invalid value.
    pub what: String,
    /// The suggested correction, such as the allowed values. Empty if no correction is known.
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what)?,
            line => write!(f, "{}:{line}:{}: {}", self.file, self.column, self.what)?,
        }
        if self.fix.is_empty() {
            Ok(())
        } else {
            write!(f, "; {}", self.fix)
        }
    }
}

/// All errors of a lab file. The [`Display`](fmt::Display) format has one line for each error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl Problems {
    /// Adds an error at `location` of `file`, unless the list already contains it. `what` describes the
    /// error, and `fix` describes the correction.
    pub(super) fn push(
        &mut self,
        file: &str,
        location: Location,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let (line, column) = (location.line(), location.column());
        let problem = Problem {
            file: file.to_owned(),
            line,
            column,
            what: what.into(),
            fix: fix.into(),
        };
        // Two checks can find the same error.
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }
}
