//! Expressions of scripts: conditions over counters and times, and formulas in `$(...)`.
//!
//! ```text
//! sw1.Ethernet0.pg3.headroom_watermark_cells <= 24
//! first(ce) < first(xoff) and sum(h*.out_of_sequence) == 0
//! job.train.jct_us == 1.31ms within 5 %
//! ```
//!
//! `docs/script.md` contains the grammar. The parser checks the types of a condition. For example, a time
//! cannot be compared with a number of bytes, and a condition cannot be added to a number. Evaluation can
//! fail only if the [`ValueSource`] does not know a name. The result is the same on every machine.
//!
//! The end of a name is the unit of its value, for example `_ns`, `_us`, `_bytes` or `_bps`. The evaluation
//! converts all times to picoseconds and all amounts of data to bytes.

mod check;
pub mod counters;
mod directory;
#[cfg(test)]
mod directory_tests;
mod eval;
mod lexer;
mod parser;
mod syntax;
#[cfg(test)]
mod tests;
mod unit;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use directory::{CounterOwner, CounterReference, EventReference, NameDirectory};
use lexer::ExpressionLanguage;
pub(crate) use syntax::SyntaxNode;

/// The maximum length of a condition, in bytes.
pub const CONDITION_LEN_MAX: usize = 4096;

/// A source of the values for the names in an expression, such as a running lab.
pub trait ValueSource {
    /// Returns the value of a full name, in the unit of the name. Returns `None` if the value does not exist
    /// yet. For example, a flow has no latency before its first packet arrives. NaN (not a number) also
    /// counts as a missing value.
    ///
    /// # Errors
    /// Returns an error if the name is unknown.
    fn value(&self, path: &str) -> Result<Option<f64>, UnknownName>;

    /// Returns all full names that match a pattern with `*`, at least one. If two patterns differ only in the
    /// counter, both results have the same objects in the same order.
    ///
    /// # Errors
    /// Returns an error if no name matches the pattern.
    fn matching_names(&self, pattern: &str) -> Result<Vec<String>, UnknownName>;

    /// Returns the time of the first or the last event with this name, in picoseconds of model time since the
    /// start of the workload. Returns `None` if no event with this name has happened.
    ///
    /// # Errors
    /// Returns an error if the name is unknown.
    fn event_time_ps(&self, path: &str, occurrence: Occurrence) -> Result<Option<f64>, UnknownName>;
}

/// A name that does not exist in the lab.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing is called \"{name}\"; {hint}")]
pub struct UnknownName {
    /// The full name in the expression.
    pub name: String,
    /// A similar name, or the names that exist. Example: `sw1 has no "Ethernet99"; it has
    /// Ethernet0, Ethernet4`.
    pub hint: String,
}

/// Selects the first or the last event of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// The first event, `first(EVENT)`.
    First,
    /// The last event, `last(EVENT)`.
    Last,
}

/// The first error in the text of an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}{}", quote_rest(rest))]
pub struct ExpressionError {
    /// The offset of the error in the text, in bytes from 0.
    pub offset: usize,
    /// The text from the offset on, at most 24 characters. Empty if the error is at the end of the text.
    pub rest: String,
    /// A description of the error, without its position.
    pub what: String,
    /// A way to correct the error.
    pub fix: String,
}

impl ExpressionError {
    /// Returns an error with an empty `rest`, which the parser sets later.
    fn new(offset: usize, what: impl Into<String>, fix: impl Into<String>) -> ExpressionError {
        ExpressionError {
            offset,
            rest: String::new(),
            what: what.into(),
            fix: fix.into(),
        }
    }
}

fn quote_rest(rest: &str) -> String {
    match rest {
        "" => String::new(),
        rest => format!(" at \"{rest}\""),
    }
}

/// Parses the text inside `$(...)`. Names and numbers in this text have no units.
///
/// # Errors
/// Returns the first error of the text.
pub(crate) fn parse_formula(text: &str) -> Result<SyntaxNode, ExpressionError> {
    parser::parse(text, ExpressionLanguage::Formula)
}

/// A name in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameReference<'a> {
    /// The full name, or a pattern with `*`.
    pub path: &'a str,
    /// Whether the name is an event: an argument of `first` or `last`.
    pub is_event: bool,
}

/// A parsed condition. Serialisation writes its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expression {
    source: String,
    root: SyntaxNode,
}

impl Expression {
    /// Parses a condition of at most [`CONDITION_LEN_MAX`] bytes.
    ///
    /// # Errors
    /// Returns the first error of the text.
    pub fn parse(text: &str) -> Result<Expression, ExpressionError> {
        Ok(Expression {
            source: text.to_owned(),
            root: parser::parse(text, ExpressionLanguage::Check)?,
        })
    }

    /// Returns whether the condition is true. Returns `None` if the result depends on a missing value. For
    /// example, `a == 1 or b == 1` is true if `a` is 1, even if `b` is missing.
    ///
    /// # Errors
    /// Returns an error if a name is unknown.
    pub fn holds(&self, values: &dyn ValueSource) -> Result<Option<bool>, UnknownName> {
        eval::evaluate_condition(&self.root, values)
    }

    /// Returns the names in the condition from left to right, with repetitions.
    pub fn name_references(&self) -> Vec<NameReference<'_>> {
        let mut names = Vec::new();
        self.root.collect_names(&mut names);
        names
    }

    /// Returns each name in the condition once, with its value (`None` if the value is missing). The message
    /// of a failed check contains this list.
    ///
    /// A value is in the unit at the end of its name, such as `_us` or `_bytes`. Events appear as
    /// `first(NAME)` or `last(NAME)`, with the time in picoseconds. A pattern is replaced by all names
    /// that match.
    ///
    /// # Errors
    /// Returns an error if a name is unknown.
    pub fn values_of_names(
        &self,
        values: &dyn ValueSource,
    ) -> Result<Vec<(String, Option<f64>)>, UnknownName> {
        let mut named_values = Vec::new();
        self.root.collect_values(values, &mut named_values)?;
        let mut seen = std::collections::HashSet::new();
        named_values.retain(|(name, _)| seen.insert(name.clone()));
        Ok(named_values)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl TryFrom<String> for Expression {
    type Error = ExpressionError;

    fn try_from(text: String) -> Result<Expression, ExpressionError> {
        Expression::parse(&text)
    }
}

impl From<Expression> for String {
    fn from(expression: Expression) -> String {
        expression.source
    }
}
