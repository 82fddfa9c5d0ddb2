//! What is wrong with a lab file, all of it at once.

use std::fmt;

use serde_saphyr::Location;

/// One thing that is wrong with a lab file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// Line, from 1; zero where the whole file is meant.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
    /// What is wrong, with the value.
    pub what: String,
    /// What is allowed there, or what to do.
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

/// Everything that is wrong with a lab file; one line each.
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
    pub(super) fn push(&mut self, file: &str, at: Location, what: impl Into<String>, fix: impl Into<String>) {
        let (line, column) = (at.line(), at.column());
        let problem = Problem {
            file: file.to_owned(),
            line,
            column,
            what: what.into(),
            fix: fix.into(),
        };
        // One mistake met twice is still one.
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }
}
