//! Evaluation of conditions.
//!
//! Evaluation uses only sums, products, quotients and comparisons of doubles, so the result is the same on
//! every machine. A condition is true, false or undecided. A condition that depends on a missing value is
//! undecided. An event that has not happened has the time infinity.

use super::syntax::{ArithmeticOperator, ComparisonOperator, Function, SyntaxNode};
use super::{Occurrence, UnknownName, ValueSource};

/// The relative difference up to which two numbers with fractions are equal.
const RELATIVE_TOLERANCE: f64 = 1e-9;

/// The value of a part of an expression. `None` means a missing number or an undecided condition.
#[derive(Clone, Debug, PartialEq)]
enum ExpressionValue {
    Number(Option<f64>),
    Condition(Option<bool>),
    /// The values of a part with a pattern, one for each name that matches.
    List(Vec<ExpressionValue>),
}

impl ExpressionValue {
    fn as_number(&self) -> Option<f64> {
        match self {
            ExpressionValue::Number(number) => *number,
            ExpressionValue::Condition(_) | ExpressionValue::List(_) => None,
        }
    }

    fn as_condition(&self) -> Option<bool> {
        match self {
            ExpressionValue::Condition(condition) => *condition,
            ExpressionValue::Number(_) | ExpressionValue::List(_) => None,
        }
    }

    /// Returns the members of a list. A single value becomes a list with one member.
    fn into_members(self) -> Vec<ExpressionValue> {
        match self {
            ExpressionValue::List(members) => members,
            single => vec![single],
        }
    }

    /// Applies a function to the value, or to each member of a list.
    fn map(self, function: &dyn Fn(ExpressionValue) -> ExpressionValue) -> ExpressionValue {
        match self {
            ExpressionValue::List(members) => {
                let mapped = members.into_iter().map(|member| member.map(function));
                ExpressionValue::List(mapped.collect())
            }
            single => function(single),
        }
    }

    /// Combines two values with `function`. If both are lists, the first members are combined, then the
    /// second members, and so on. If only one value is a list, each of its members is combined with the
    /// other value.
    fn combine(
        self,
        other: ExpressionValue,
        function: &dyn Fn(&ExpressionValue, &ExpressionValue) -> ExpressionValue,
    ) -> ExpressionValue {
        match (self, other) {
            (ExpressionValue::List(left), ExpressionValue::List(right)) => {
                let count = left.len().max(right.len());
                let missing = ExpressionValue::Number(None);
                let combine_members = |index: usize| {
                    function(
                        left.get(index).unwrap_or(&missing),
                        right.get(index).unwrap_or(&missing),
                    )
                };
                ExpressionValue::List((0..count).map(combine_members).collect())
            }
            (ExpressionValue::List(left), right) => {
                ExpressionValue::List(left.iter().map(|left| function(left, &right)).collect())
            }
            (left, ExpressionValue::List(right)) => {
                ExpressionValue::List(right.iter().map(|right| function(&left, right)).collect())
            }
            (left, right) => function(&left, &right),
        }
    }
}

/// Returns whether a condition is true. Returns `None` if the condition is undecided.
pub(super) fn evaluate_condition(
    root: &SyntaxNode,
    values: &dyn ValueSource,
) -> Result<Option<bool>, UnknownName> {
    Ok(evaluate(root, values)?.as_condition())
}

fn evaluate(node: &SyntaxNode, values: &dyn ValueSource) -> Result<ExpressionValue, UnknownName> {
    Ok(match node {
        SyntaxNode::Number(number) => ExpressionValue::Number(Some(*number)),
        SyntaxNode::Name {
            path,
            is_pattern: true,
            scale,
        } => {
            let names = values.matching_names(path)?;
            let members = names
                .iter()
                .map(|name| read_scaled_value(values, name, *scale))
                .collect::<Result<_, _>>()?;
            ExpressionValue::List(members)
        }
        SyntaxNode::Name { path, scale, .. } => read_scaled_value(values, path, *scale)?,
        SyntaxNode::Event(occurrence, events) => {
            ExpressionValue::Number(Some(read_event_time(values, *occurrence, events)?))
        }
        SyntaxNode::Negate(inner) => evaluate(inner, values)?
            .map(&|value| ExpressionValue::Number(value.as_number().map(|number| -number))),
        SyntaxNode::Arithmetic(first, rest) => {
            let mut left = evaluate(first, values)?;
            for (operator, right) in rest {
                left = left.combine(evaluate(right, values)?, &|a, b| {
                    ExpressionValue::Number(apply_operator(*operator, a.as_number(), b.as_number()))
                });
            }
            left
        }
        SyntaxNode::Compare(first, rest) => {
            let mut left = evaluate(first, values)?;
            let mut holds = ExpressionValue::Condition(Some(true));
            for (operator, right) in rest {
                let right = evaluate(right, values)?;
                let comparison = left.combine(right.clone(), &|a, b| {
                    ExpressionValue::Condition(compare(*operator, a.as_number(), b.as_number()))
                });
                holds = holds.combine(comparison, &|a, b| {
                    ExpressionValue::Condition(and_three_valued(a.as_condition(), b.as_condition()))
                });
                left = right;
            }
            holds
        }
        SyntaxNode::Not(inner) => evaluate(inner, values)?
            .map(&|value| ExpressionValue::Condition(value.as_condition().map(|holds| !holds))),
        SyntaxNode::And(conditions) => evaluate_junction(conditions, values, true, and_three_valued)?,
        SyntaxNode::Or(conditions) => evaluate_junction(conditions, values, false, or_three_valued)?,
        SyntaxNode::Call(function, arguments) => {
            let mut argument_values = Vec::new();
            for argument in arguments {
                argument_values.push(evaluate(argument, values)?);
            }
            call_function(*function, argument_values)
        }
    })
}

/// Returns the value of a name in base units.
fn read_scaled_value(
    values: &dyn ValueSource,
    name: &str,
    scale: f64,
) -> Result<ExpressionValue, UnknownName> {
    let value = values.value(name)?.filter(|value| !value.is_nan());
    Ok(ExpressionValue::Number(value.map(|value| value * scale)))
}

/// Returns the time of the first or last of several events, in picoseconds. Returns infinity if none
/// has happened.
fn read_event_time(
    values: &dyn ValueSource,
    occurrence: Occurrence,
    events: &[String],
) -> Result<f64, UnknownName> {
    let mut times = Vec::with_capacity(events.len());
    for event in events {
        times.extend(values.event_time_ps(event, occurrence)?);
    }
    let time = match occurrence {
        Occurrence::First => times.into_iter().reduce(f64::min),
        Occurrence::Last => times.into_iter().reduce(f64::max),
    };
    Ok(time.unwrap_or(f64::INFINITY))
}

/// Applies an arithmetic operator to two numbers. Returns `None` if a number is missing or the result is
/// undefined, as in `0 / 0`.
fn apply_operator(operator: ArithmeticOperator, left: Option<f64>, right: Option<f64>) -> Option<f64> {
    Some(operator.apply(left?, right?)).filter(|result| !result.is_nan())
}

fn compare(operator: ComparisonOperator, left: Option<f64>, right: Option<f64>) -> Option<bool> {
    let (left, right) = (left?, right?);
    let difference = (left - right).abs();
    // The difference of two infinite times is not a number, although the times are equal.
    let is_within = |tolerance: f64| left == right || difference <= tolerance;
    Some(match operator {
        ComparisonOperator::Less => left < right,
        ComparisonOperator::LessOrEqual => left <= right || is_equal(left, right),
        ComparisonOperator::Greater => left > right,
        ComparisonOperator::GreaterOrEqual => left >= right || is_equal(left, right),
        ComparisonOperator::Equal => is_equal(left, right),
        ComparisonOperator::NotEqual => !is_equal(left, right),
        ComparisonOperator::WithinShare(share) => is_within(share * right.abs()),
        ComparisonOperator::Within(amount) => is_within(amount),
    })
}

/// Returns whether two numbers are equal. Whole numbers, such as counters, must be exactly equal. Numbers
/// with fractions may differ by a rounding error.
fn is_equal(left: f64, right: f64) -> bool {
    let is_whole = left.fract() == 0.0 && right.fract() == 0.0;
    left == right || (!is_whole && (left - right).abs() <= RELATIVE_TOLERANCE * left.abs().max(right.abs()))
}

fn and_three_valued(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or_three_valued(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

/// Combines conditions with `and` or `or`. `neutral` is the result for an empty list.
fn evaluate_junction(
    conditions: &[SyntaxNode],
    values: &dyn ValueSource,
    neutral: bool,
    operator: fn(Option<bool>, Option<bool>) -> Option<bool>,
) -> Result<ExpressionValue, UnknownName> {
    let mut result = ExpressionValue::Condition(Some(neutral));
    for condition in conditions {
        let value = evaluate(condition, values)?;
        result = result.combine(value, &|a, b| {
            ExpressionValue::Condition(operator(a.as_condition(), b.as_condition()))
        });
    }
    Ok(result)
}

/// Applies a function to its arguments. Functions of numbers ignore missing arguments, and their result is
/// missing if all arguments are missing.
fn call_function(function: Function, arguments: Vec<ExpressionValue>) -> ExpressionValue {
    if function.is_unary() {
        let argument = arguments
            .into_iter()
            .next()
            .unwrap_or(ExpressionValue::Number(None));
        return argument.map(&|value| ExpressionValue::Number(function.apply(value.as_number().as_slice())));
    }
    let members: Vec<ExpressionValue> = arguments
        .into_iter()
        .flat_map(ExpressionValue::into_members)
        .collect();
    let conditions = || members.iter().map(ExpressionValue::as_condition);
    let numbers: Vec<f64> = members.iter().filter_map(ExpressionValue::as_number).collect();
    match function {
        Function::All => ExpressionValue::Condition(conditions().fold(Some(true), and_three_valued)),
        Function::Any => ExpressionValue::Condition(conditions().fold(Some(false), or_three_valued)),
        Function::Count => {
            let holding = conditions().filter(|condition| *condition == Some(true)).count();
            ExpressionValue::Number(Some((holding + numbers.len()) as f64))
        }
        _ => ExpressionValue::Number(function.apply(&numbers)),
    }
}
