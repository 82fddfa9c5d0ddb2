//! Errors of a lab file.

use std::fmt;

use serde_saphyr::Location;
use xoff_telemetry::failure::Failure;

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

/// Largest number of errors that are kept. Further errors are counted.
const KEPT_MAX: usize = 1000;
/// Largest number of errors that the [`Display`](fmt::Display) format prints.
const PRINTED_MAX: usize = 50;
/// Largest length of the description and of the correction of an error, in bytes. Both can quote texts of the lab file,
/// and many errors can quote the same text.
const TEXT_BYTES_MAX: usize = 4_096;

/// Shortens a text that is longer than [`TEXT_BYTES_MAX`], and adds its length.
fn shorten(mut text: String) -> String {
    let len = text.len();
    if len > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.shrink_to_fit();
        text.push_str(&format!("... ({})", xoff_units::count_noun(len as u64, "byte")));
    }
    text
}

/// All errors of a lab file, in the order of their lines. The [`Display`](fmt::Display) format has one line for each
/// of the first 50 errors, and a last line with the number of further errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    list: Vec<Problem>,
    /// The number of errors beyond [`KEPT_MAX`].
    omitted: usize,
    /// The scheme of `topology.defaults.load_balancing`, if switches do not have it.
    unknown_scheme: Option<UnknownScheme>,
}

/// A load-balancing scheme of the defaults of a lab that switches do not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnknownScheme {
    pub(super) name: String,
    /// The description and the suggested correction of the error.
    pub(super) what: String,
    pub(super) fix: String,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.list.iter().take(PRINTED_MAX).enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        match self.len().saturating_sub(PRINTED_MAX) {
            0 => Ok(()),
            1 => write!(f, "\nand 1 more error"),
            more => write!(f, "\nand {more} more errors"),
        }
    }
}

impl std::error::Error for Problems {}

impl Problems {
    /// Returns the number of errors.
    pub fn len(&self) -> usize {
        self.list.len() + self.omitted
    }

    /// Returns whether no error was found.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the errors in the order of their lines, at most 1000.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.list.iter()
    }

    /// Returns whether the next error would not be printed. Its description then needs no details.
    pub(super) fn is_next_hidden(&self) -> bool {
        self.list.len() >= PRINTED_MAX
    }

    /// Adds an error at `location` of `file`, unless the list already contains it. `what` describes the
    /// error, and `fix` describes the correction.
    pub(super) fn push(
        &mut self,
        file: &str,
        location: Location,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        if self.list.len() >= KEPT_MAX {
            self.omitted += 1;
            return;
        }
        let (line, column) = (location.line(), location.column());
        let problem = Problem {
            file: file.to_owned(),
            line,
            column,
            what: shorten(what.into()),
            fix: shorten(fix.into()),
        };
        // Two checks can find the same error.
        if !self.list.contains(&problem) {
            self.list.push(problem);
        }
    }

    /// Records the unknown scheme of the defaults, which is also an error of the list.
    pub(super) fn set_unknown_scheme(&mut self, scheme: UnknownScheme) {
        self.unknown_scheme = Some(scheme);
    }

    /// Returns the failure of the lab. If its only error is that the load-balancing scheme `scheme` of its defaults
    /// is unknown, and `option` is the option of the command line that sets this scheme, such as `--lb`, the failure
    /// is a usage error of this option.
    pub fn into_failure_of_scheme(self, option: &str, scheme: &str) -> Failure {
        match &self.unknown_scheme {
            Some(unknown) if self.len() == 1 && unknown.name == scheme => {
                Failure::usage(unknown.what.clone())
                    .at(format!("{option} {scheme}"))
                    .fix(unknown.fix.clone())
            }
            _ => Failure::configuration(self.to_string()),
        }
    }

    /// Returns the errors of both lists. Errors that both lists contain appear once.
    pub(super) fn union(mut self, other: Problems) -> Problems {
        for problem in other.list {
            if !self.list.contains(&problem) {
                self.list.push(problem);
            }
        }
        self.omitted = self.omitted.max(other.omitted);
        self.sort();
        self
    }

    /// Sorts the errors by their positions in the file. Errors of one position keep their order.
    pub(super) fn sort(&mut self) {
        self.list.sort_by_key(|problem| (problem.line, problem.column));
    }
}
