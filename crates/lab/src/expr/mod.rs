//! Expressions of scripts: conditions over counters, watermarks, latencies and times, and
//! formulas in `$(...)`.
//!
//! ```text
//! sw1.Ethernet0.pg3.headroom_watermark_cells <= 24
//! first(ce) < first(xoff) and sum(h*.out_of_sequence) == 0
//! job.train.jct_us == 1.31ms within 5 %
//! ```
//!
//! `docs/script.md` contains the grammar. The parser checks the types of a condition. For example, a time
//! cannot be compared with a number of bytes, and a condition cannot be added to a number. After this check,
//! evaluation fails only if the [`ValueSource`] does not know a name. The result is the same
//! on every machine.
//!
//! A name ends in its unit, for example `_ns`, `_us`, `_bytes` or `_bps`. The evaluation converts all times
//! to picoseconds and all amounts of data to bytes.

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

/// The values of the names in an expression.
pub trait ValueSource {
    /// Returns the value of a name, in the unit of the name. Returns `None` if the value does not exist yet.
    /// For example, a flow has no latency before its first packet arrives.
    ///
    /// # Errors
    /// The name is unknown.
    fn value(&self, path: &str) -> Result<Option<f64>, UnknownName>;

    /// Returns all names that match a pattern with `*`. Two patterns that differ only in the counter return
    /// the objects in the same order.
    ///
    /// # Errors
    /// No name matches the pattern.
    fn matching_names(&self, pattern: &str) -> Result<Vec<String>, UnknownName>;

    /// Returns the time of the first or the last event with this name, in picoseconds. Returns `None` if no
    /// such event has happened.
    ///
    /// # Errors
    /// The name is unknown.
    fn event_time_ps(&self, path: &str, occurrence: Occurrence) -> Result<Option<f64>, UnknownName>;
}

/// A name that does not exist in the lab.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing is called \"{name}\"; {hint}")]
pub struct UnknownName {
    /// The name in the expression.
    pub name: String,
    /// The names that exist instead, as a phrase: `the ports of sw1 are ...`.
    pub hint: String,
}

/// The first or the last event of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// The first event, `first(EVENT)`.
    First,
    /// The last event, `last(EVENT)`.
    Last,
}

/// The reason why a text is not a valid expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}{}", quote_rest(rest))]
pub struct ExpressionError {
    /// The offset of the error in the text, in bytes.
    pub offset: usize,
    /// The text from the offset on, shortened for the message. Empty if the error is at the end of the text.
    pub rest: String,
    /// A description of the error.
    pub what: String,
    /// A way to correct the error.
    pub fix: String,
}

impl ExpressionError {
    /// Returns an error without a quotation. The parser adds the quotation.
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

/// Parses the text inside `$(...)`. The names in this text have no units.
///
/// # Errors
/// Returns the first error of the text.
pub(crate) fn parse_formula(text: &str) -> Result<SyntaxNode, ExpressionError> {
    parser::parse(text, ExpressionLanguage::Formula)
}

/// A name in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameReference<'a> {
    /// The full name, or a pattern with stars.
    pub path: &'a str,
    /// Whether the name is an event, the argument of `first` or `last`.
    pub is_event: bool,
}

/// A parsed condition. It is serialised as its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expression {
    source: String,
    root: SyntaxNode,
}

impl Expression {
    /// Parses a condition.
    ///
    /// # Errors
    /// Returns the first error of the text.
    pub fn parse(text: &str) -> Result<Expression, ExpressionError> {
        Ok(Expression {
            source: text.to_owned(),
            root: parser::parse(text, ExpressionLanguage::Check)?,
        })
    }

    /// Returns whether the condition is true. Returns `None` if the result depends on a missing value.
    ///
    /// # Errors
    /// A name is unknown.
    pub fn holds(&self, values: &dyn ValueSource) -> Result<Option<bool>, UnknownName> {
        eval::evaluate_condition(&self.root, values)
    }

    /// Returns the names in the condition from left to right. A name that occurs twice is returned twice.
    pub fn name_references(&self) -> Vec<NameReference<'_>> {
        let mut names = Vec::new();
        self.root.collect_names(&mut names);
        names
    }

    /// Returns each name in the condition with its value, for the message of a failed check.
    ///
    /// The end of a name states the unit of its value, such as `_us` or `_bytes`. Times of events are in
    /// picoseconds. For a pattern, the result has all names that match the pattern.
    ///
    /// # Errors
    /// A name is unknown.
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
