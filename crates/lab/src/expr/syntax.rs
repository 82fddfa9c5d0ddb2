//! The syntax tree of expressions.

use super::{NameReference, Occurrence, UnknownName, ValueSource};

/// An operator between two numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ArithmeticOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    /// `//`, division rounded down. Only formulas can contain it.
    FloorDivide,
    /// `%`, the remainder of `//`. Only formulas can contain it.
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

/// An operator that compares two numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ComparisonOperator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    /// Equal within a share of the right side. 0.05 is 5 %.
    WithinShare(f64),
    /// Equal within an absolute difference.
    Within(f64),
}

/// A function that an expression can call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    Min,
    Max,
    Sum,
    Mean,
    Abs,
    Floor,
    Ceil,
    /// The number of values, or the number of true conditions.
    Count,
    All,
    Any,
}

impl Function {
    /// Returns whether the function has exactly one argument. If the argument is a pattern, such a function
    /// is applied to each value.
    pub(super) fn is_unary(self) -> bool {
        matches!(self, Function::Abs | Function::Floor | Function::Ceil)
    }

    /// Applies the function to numbers. Returns `None` for an empty list and for functions of conditions.
    pub(crate) fn apply(self, numbers: &[f64]) -> Option<f64> {
        let reduce = |combine: fn(f64, f64) -> f64| numbers.iter().copied().reduce(combine);
        let map_first = |map: fn(f64) -> f64| numbers.first().copied().map(map);
        match self {
            Function::Min => reduce(f64::min),
            Function::Max => reduce(f64::max),
            Function::Sum => reduce(|a, b| a + b),
            Function::Mean => reduce(|a, b| a + b).map(|sum| sum / numbers.len() as f64),
            Function::Abs => map_first(f64::abs),
            Function::Floor => map_first(f64::floor),
            Function::Ceil => map_first(f64::ceil),
            Function::Count | Function::All | Function::Any => None,
        }
    }
}

/// A node of the syntax tree of an expression. The types of all operands have been checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SyntaxNode {
    /// A number in base units: picoseconds, bytes, or a product of their powers.
    Number(f64),
    /// A name or a pattern. A value of the name times `scale` is in base units.
    Name {
        path: String,
        is_pattern: bool,
        scale: f64,
    },
    Event(Occurrence, Vec<String>),
    Negate(Box<SyntaxNode>),
    /// Operators of one precedence, applied from left to right: `a - b + c`.
    Arithmetic(Box<SyntaxNode>, Vec<(ArithmeticOperator, SyntaxNode)>),
    /// A chain of comparisons: `0 < a <= b`.
    Compare(Box<SyntaxNode>, Vec<(ComparisonOperator, SyntaxNode)>),
    Not(Box<SyntaxNode>),
    And(Vec<SyntaxNode>),
    Or(Vec<SyntaxNode>),
    Call(Function, Vec<SyntaxNode>),
}

impl SyntaxNode {
    /// Returns the direct children from left to right.
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
            SyntaxNode::And(nodes) | SyntaxNode::Or(nodes) | SyntaxNode::Call(_, nodes) => {
                nodes.iter().collect()
            }
        }
    }

    /// Adds the names in this part of the tree, from left to right.
    pub(super) fn collect_names<'a>(&'a self, names: &mut Vec<NameReference<'a>>) {
        match self {
            SyntaxNode::Name { path, .. } => names.push(NameReference {
                path,
                is_event: false,
            }),
            SyntaxNode::Event(_, events) => {
                names.extend(events.iter().map(|path| NameReference { path, is_event: true }));
            }
            _ => {
                for child in self.children() {
                    child.collect_names(names);
                }
            }
        }
    }

    /// Adds the names in this part of the tree with their values.
    pub(super) fn collect_values(
        &self,
        values: &dyn ValueSource,
        named_values: &mut Vec<(String, Option<f64>)>,
    ) -> Result<(), UnknownName> {
        match self {
            SyntaxNode::Name {
                path,
                is_pattern: true,
                ..
            } => {
                for name in values.matching_names(path)? {
                    let value = values.value(&name)?;
                    named_values.push((name, value));
                }
            }
            SyntaxNode::Name { path, .. } => named_values.push((path.clone(), values.value(path)?)),
            SyntaxNode::Event(occurrence, events) => {
                let function = match occurrence {
                    Occurrence::First => "first",
                    Occurrence::Last => "last",
                };
                for event in events {
                    let time_ps = values.event_time_ps(event, *occurrence)?;
                    named_values.push((format!("{function}({event})"), time_ps));
                }
            }
            _ => {
                for child in self.children() {
                    child.collect_values(values, named_values)?;
                }
            }
        }
        Ok(())
    }
}
