//! Expressions of scripts: relations between counters, watermarks, latencies and times.
//!
//! ```text
//! sw1.Ethernet0.pg3.headroom_watermark_cells <= 24
//! first(ce) < first(xoff) and sum(h*.out_of_sequence) == 0
//! job.train.jct_us == 1.31ms within 5 %
//! ```
//!
//! `docs/script.md` has the grammar. What is written is checked when it is read: a time is not compared with an amount of
//! data, a condition is not added to a number, and what stands alone is a condition. So evaluation can fail for one reason only, a
//! name that [`Values`] does not know, and the same values give the same verdict on every machine.
//!
//! Names end in their unit (`_ns`, `_us`, `_bytes`, `_bps`, ...), which is how a number is known to be a time. Inside, times are
//! picoseconds and amounts of data bytes.

mod check;
pub mod counters;
mod directory;
#[cfg(test)]
mod directory_tests;
mod eval;
mod lexer;
mod parser;
#[cfg(test)]
mod tests;
mod unit;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use directory::{Directory, EventPlace, Place, Subject};
use lexer::Language;

/// Longest expression, bytes.
pub const LENGTH_MAX: usize = 4096;

/// What names mean.
pub trait Values {
    /// The value under a name, in the unit that the name ends in; `None` if there is none, such as the latency of
    /// packets that have not come yet.
    ///
    /// # Errors
    /// There is nothing of that name.
    fn value(&self, path: &str) -> Result<Option<f64>, Unknown>;

    /// All names that a pattern with stars means, in an order that is the same for patterns that differ in their last part
    /// only.
    ///
    /// # Errors
    /// There is nothing of such a name.
    fn matching(&self, pattern: &str) -> Result<Vec<String>, Unknown>;

    /// When an event of this name happened for the first or the last time, in picoseconds; `None`: never.
    ///
    /// # Errors
    /// There is no such event.
    fn event(&self, path: &str, which: Which) -> Result<Option<f64>, Unknown>;
}

/// A name that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing is called \"{name}\"; {known}")]
pub struct Unknown {
    /// The name.
    pub name: String,
    /// What there is instead, as a phrase: `the ports of sw1 are ...`.
    pub known: String,
}

/// The first or the last time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// `first(EVENT)`.
    First,
    /// `last(EVENT)`.
    Last,
}

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}{}", quoted(rest))]
pub struct ExprError {
    /// Where, in bytes from the beginning.
    pub at: usize,
    /// The beginning of what stands there; empty at the end.
    pub rest: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub fix: String,
}

impl ExprError {
    /// An error at an offset. The parser adds the quotation.
    fn new(at: usize, what: impl Into<String>, fix: impl Into<String>) -> ExprError {
        ExprError {
            at,
            rest: String::new(),
            what: what.into(),
            fix: fix.into(),
        }
    }
}

fn quoted(rest: &str) -> String {
    match rest {
        "" => String::new(),
        rest => format!(" at \"{rest}\""),
    }
}

/// Reads the text inside `$(...)` as a syntax tree of numbers. Its names have no units.
///
/// # Errors
/// The first error in the text.
pub(crate) fn parse_formula(text: &str) -> Result<SyntaxNode, ExprError> {
    parser::parse(text, Language::Formula)
}

/// A name in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The name, as [`Values`] is asked for it.
    pub path: &'a str,
    /// It is an event, asked for by [`Values::event`].
    pub is_event: bool,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expression {
    source: String,
    root: SyntaxNode,
}

impl Expression {
    /// Reads a condition.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse(text: &str) -> Result<Expression, ExprError> {
        Ok(Expression {
            source: text.to_owned(),
            root: parser::parse(text, Language::Check)?,
        })
    }

    /// Whether it is so; `None` if that hangs on a value that there is not.
    ///
    /// # Errors
    /// A name that means nothing.
    pub fn holds(&self, values: &dyn Values) -> Result<Option<bool>, Unknown> {
        eval::condition(&self.root, values)
    }

    /// The names in it, from left to right, one that is there twice twice.
    pub fn names(&self) -> Vec<Name<'_>> {
        let mut names = Vec::new();
        self.root.names(&mut names);
        names
    }

    /// The value of each name in it, in the unit of its name, to be printed when it does not hold. Patterns are taken apart; times of
    /// events are in picoseconds.
    ///
    /// # Errors
    /// A name that means nothing.
    pub fn explain(&self, values: &dyn Values) -> Result<Vec<(String, Option<f64>)>, Unknown> {
        let mut all = Vec::new();
        self.root.explain(values, &mut all)?;
        let mut seen = std::collections::HashSet::new();
        all.retain(|(name, _)| seen.insert(name.clone()));
        Ok(all)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl TryFrom<String> for Expression {
    type Error = ExprError;

    fn try_from(text: String) -> Result<Expression, ExprError> {
        Expression::parse(&text)
    }
}

impl From<Expression> for String {
    fn from(expression: Expression) -> String {
        expression.source
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ArithmeticOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    /// `//`, rounded down. Only in formulas.
    FloorDivide,
    /// `%`, the remainder of `//`. Only in formulas.
    Modulo,
}

impl ArithmeticOperator {
    pub(crate) fn apply(self, left: f64, right: f64) -> f64 {
        match self {
            ArithmeticOperator::Add => left + right,
            ArithmeticOperator::Subtract => left - right,
            ArithmeticOperator::Multiply => left * right,
            ArithmeticOperator::Divide => left / right,
            ArithmeticOperator::FloorDivide => (left / right).floor(),
            ArithmeticOperator::Modulo => left - right * (left / right).floor(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ComparisonOperator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    /// Equal but for this share of the right side.
    WithinShare(f64),
    /// Equal but for this much.
    Within(f64),
}

/// What makes one value of many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    Min,
    Max,
    Sum,
    Mean,
    Abs,
    Floor,
    Ceil,
    /// How many numbers there are, or how many conditions hold.
    Count,
    All,
    Any,
}

impl Function {
    /// Whether the function has one argument and is applied to each member of a list.
    fn is_unary(self) -> bool {
        matches!(self, Function::Abs | Function::Floor | Function::Ceil)
    }

    /// The value of a function of numbers; `None` without numbers, and for functions of conditions.
    pub(crate) fn apply(self, numbers: &[f64]) -> Option<f64> {
        let fold = |fold: fn(f64, f64) -> f64| numbers.iter().copied().reduce(fold);
        let map = |map: fn(f64) -> f64| numbers.first().copied().map(map);
        match self {
            Function::Min => fold(f64::min),
            Function::Max => fold(f64::max),
            Function::Sum => fold(|a, b| a + b),
            Function::Mean => fold(|a, b| a + b).map(|sum| sum / numbers.len() as f64),
            Function::Abs => map(f64::abs),
            Function::Floor => map(f64::floor),
            Function::Ceil => map(f64::ceil),
            Function::Count | Function::All | Function::Any => None,
        }
    }
}

/// A checked expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SyntaxNode {
    /// In picoseconds, bytes and their quotients.
    Number(f64),
    /// A name, or a pattern, and what its values are multiplied with.
    Name {
        path: String,
        is_pattern: bool,
        scale: f64,
    },
    Event(Which, Vec<String>),
    Negate(Box<SyntaxNode>),
    /// A chain of one precedence, `a - b + c`, from left to right.
    Arithmetic(Box<SyntaxNode>, Vec<(ArithmeticOperator, SyntaxNode)>),
    /// A chain, `0 < a <= b`.
    Compare(Box<SyntaxNode>, Vec<(ComparisonOperator, SyntaxNode)>),
    Not(Box<SyntaxNode>),
    And(Vec<SyntaxNode>),
    Or(Vec<SyntaxNode>),
    Call(Function, Vec<SyntaxNode>),
}

impl SyntaxNode {
    /// Its parts, from left to right.
    fn children(&self) -> Vec<&SyntaxNode> {
        match self {
            SyntaxNode::Number(_) | SyntaxNode::Name { .. } | SyntaxNode::Event(..) => Vec::new(),
            SyntaxNode::Negate(inner) | SyntaxNode::Not(inner) => vec![inner],
            SyntaxNode::Arithmetic(first, rest) => std::iter::once(&**first)
                .chain(rest.iter().map(|(_, node)| node))
                .collect(),
            SyntaxNode::Compare(first, rest) => std::iter::once(&**first)
                .chain(rest.iter().map(|(_, node)| node))
                .collect(),
            SyntaxNode::And(all) | SyntaxNode::Or(all) | SyntaxNode::Call(_, all) => all.iter().collect(),
        }
    }

    fn names<'a>(&'a self, names: &mut Vec<Name<'a>>) {
        match self {
            SyntaxNode::Name { path, .. } => names.push(Name {
                path,
                is_event: false,
            }),
            SyntaxNode::Event(_, events) => {
                names.extend(events.iter().map(|path| Name { path, is_event: true }));
            }
            _ => self.children().into_iter().for_each(|child| child.names(names)),
        }
    }

    fn explain(&self, values: &dyn Values, all: &mut Vec<(String, Option<f64>)>) -> Result<(), Unknown> {
        match self {
            SyntaxNode::Name {
                path,
                is_pattern: true,
                ..
            } => {
                for name in values.matching(path)? {
                    let value = values.value(&name)?;
                    all.push((name, value));
                }
            }
            SyntaxNode::Name { path, .. } => all.push((path.clone(), values.value(path)?)),
            SyntaxNode::Event(which, events) => {
                let function = match which {
                    Which::First => "first",
                    Which::Last => "last",
                };
                for event in events {
                    all.push((format!("{function}({event})"), values.event(event, *which)?));
                }
            }
            _ => {
                for child in self.children() {
                    child.explain(values, all)?;
                }
            }
        }
        Ok(())
    }
}
