//! What an expression comes to.
//!
//! Only sums, products and comparisons of doubles, which are the same on every machine. A value that is missing makes what
//! hangs on it undecided (three-valued logic); an event that has not happened is later than all that have.

use super::{ArithmeticOperator, ComparisonOperator, Function, SyntaxNode, Unknown, Values, Which};

/// Numbers with fractions that differ by this share are equal.
const ROUNDING: f64 = 1e-9;

/// A number, a condition, or many; `None` where a value is missing.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(Option<f64>),
    Condition(Option<bool>),
    Many(Vec<Value>),
}

impl Value {
    fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => *number,
            Value::Condition(_) | Value::Many(_) => None,
        }
    }

    fn condition(&self) -> Option<bool> {
        match self {
            Value::Condition(condition) => *condition,
            Value::Number(_) | Value::Many(_) => None,
        }
    }

    fn members(self) -> Vec<Value> {
        match self {
            Value::Many(members) => members,
            one => vec![one],
        }
    }

    /// Applies a function to it, or to each of its members.
    fn map(self, function: &dyn Fn(Value) -> Value) -> Value {
        match self {
            Value::Many(members) => {
                Value::Many(members.into_iter().map(|member| member.map(function)).collect())
            }
            one => function(one),
        }
    }

    /// Member by member; one of them goes with all of the other side.
    fn with(self, other: Value, function: &dyn Fn(&Value, &Value) -> Value) -> Value {
        match (self, other) {
            (Value::Many(left), Value::Many(right)) => {
                let count = left.len().max(right.len());
                let missing = Value::Number(None);
                let pair = |at: usize| {
                    function(
                        left.get(at).unwrap_or(&missing),
                        right.get(at).unwrap_or(&missing),
                    )
                };
                Value::Many((0..count).map(pair).collect())
            }
            (Value::Many(left), right) => {
                Value::Many(left.iter().map(|left| function(left, &right)).collect())
            }
            (left, Value::Many(right)) => {
                Value::Many(right.iter().map(|right| function(&left, right)).collect())
            }
            (left, right) => function(&left, &right),
        }
    }
}

/// Whether a condition holds.
pub(super) fn condition(node: &SyntaxNode, values: &dyn Values) -> Result<Option<bool>, Unknown> {
    Ok(value(node, values)?.condition())
}

fn value(node: &SyntaxNode, values: &dyn Values) -> Result<Value, Unknown> {
    Ok(match node {
        SyntaxNode::Number(number) => Value::Number(Some(*number)),
        SyntaxNode::Name {
            path,
            is_pattern: true,
            scale,
        } => {
            let names = values.matching(path)?;
            let members = names
                .iter()
                .map(|name| scaled(values, name, *scale))
                .collect::<Result<_, _>>()?;
            Value::Many(members)
        }
        SyntaxNode::Name { path, scale, .. } => scaled(values, path, *scale)?,
        SyntaxNode::Event(which, events) => Value::Number(Some(event(values, *which, events)?)),
        SyntaxNode::Negate(inner) => {
            value(inner, values)?.map(&|value| Value::Number(value.number().map(|number| -number)))
        }
        SyntaxNode::Arithmetic(first, rest) => {
            let mut left = value(first, values)?;
            for (operation, right) in rest {
                left = left.with(value(right, values)?, &|a, b| {
                    Value::Number(arithmetic(*operation, a.number(), b.number()))
                });
            }
            left
        }
        SyntaxNode::Compare(first, rest) => {
            let mut left = value(first, values)?;
            let mut holds = Value::Condition(Some(true));
            for (relation, right) in rest {
                let right = value(right, values)?;
                let step = left.with(right.clone(), &|a, b| {
                    Value::Condition(compare(*relation, a.number(), b.number()))
                });
                holds = holds.with(step, &|a, b| Value::Condition(and(a.condition(), b.condition())));
                left = right;
            }
            holds
        }
        SyntaxNode::Not(inner) => {
            value(inner, values)?.map(&|value| Value::Condition(value.condition().map(|holds| !holds)))
        }
        SyntaxNode::And(parts) => junction(parts, values, true, and)?,
        SyntaxNode::Or(parts) => junction(parts, values, false, or)?,
        SyntaxNode::Call(function, arguments) => {
            let mut members = Vec::new();
            for argument in arguments {
                members.push(value(argument, values)?);
            }
            call(*function, members)
        }
    })
}

fn scaled(values: &dyn Values, name: &str, scale: f64) -> Result<Value, Unknown> {
    let value = values.value(name)?.filter(|value| !value.is_nan());
    Ok(Value::Number(value.map(|value| value * scale)))
}

/// Never is later than every time.
fn event(values: &dyn Values, which: Which, events: &[String]) -> Result<f64, Unknown> {
    let mut times = Vec::with_capacity(events.len());
    for event in events {
        times.extend(values.event(event, which)?);
    }
    let best = match which {
        Which::First => times.into_iter().reduce(f64::min),
        Which::Last => times.into_iter().reduce(f64::max),
    };
    Ok(best.unwrap_or(f64::INFINITY))
}

/// Nothing over nothing, and what is like it, is no number.
fn arithmetic(operation: ArithmeticOperator, left: Option<f64>, right: Option<f64>) -> Option<f64> {
    Some(operation.apply(left?, right?)).filter(|result| !result.is_nan())
}

fn compare(relation: ComparisonOperator, left: Option<f64>, right: Option<f64>) -> Option<bool> {
    let (left, right) = (left?, right?);
    let apart = (left - right).abs();
    // An infinite distance from itself is not one.
    let within = |tolerance: f64| left == right || apart <= tolerance;
    Some(match relation {
        ComparisonOperator::Less => left < right,
        ComparisonOperator::LessOrEqual => left <= right || equal(left, right),
        ComparisonOperator::Greater => left > right,
        ComparisonOperator::GreaterOrEqual => left >= right || equal(left, right),
        ComparisonOperator::Equal => equal(left, right),
        ComparisonOperator::NotEqual => !equal(left, right),
        ComparisonOperator::WithinShare(share) => within(share * right.abs()),
        ComparisonOperator::Within(amount) => within(amount),
    })
}

/// Counters are whole and compared exactly; what has a fraction has been rounded.
fn equal(left: f64, right: f64) -> bool {
    let is_whole = left.fract() == 0.0 && right.fract() == 0.0;
    left == right || (!is_whole && (left - right).abs() <= ROUNDING * left.abs().max(right.abs()))
}

fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

fn junction(
    parts: &[SyntaxNode],
    values: &dyn Values,
    neutral: bool,
    combine: fn(Option<bool>, Option<bool>) -> Option<bool>,
) -> Result<Value, Unknown> {
    let mut result = Value::Condition(Some(neutral));
    for part in parts {
        let part = value(part, values)?;
        result = result.with(part, &|a, b| {
            Value::Condition(combine(a.condition(), b.condition()))
        });
    }
    Ok(result)
}

/// Missing values are left out of sums and the like; where all are missing there is none.
fn call(function: Function, arguments: Vec<Value>) -> Value {
    if function.is_unary() {
        let first = arguments.into_iter().next().unwrap_or(Value::Number(None));
        return first.map(&|value| Value::Number(function.apply(value.number().as_slice())));
    }
    let members: Vec<Value> = arguments.into_iter().flat_map(Value::members).collect();
    let conditions = || members.iter().map(Value::condition);
    let numbers: Vec<f64> = members.iter().filter_map(Value::number).collect();
    match function {
        Function::All => Value::Condition(conditions().fold(Some(true), and)),
        Function::Any => Value::Condition(conditions().fold(Some(false), or)),
        Function::Count => {
            let holding = conditions().filter(|condition| *condition == Some(true)).count();
            Value::Number(Some((holding + numbers.len()) as f64))
        }
        _ => Value::Number(function.apply(&numbers)),
    }
}
