//! Types of expressions: what may be combined with what.

use super::unit::{Dimension, PLAIN};
use super::{Arithmetic, Function, Node};

/// What an expression is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Number(Dimension),
    Condition,
}

/// An expression with its type.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    pub(super) node: Node,
    pub(super) kind: Kind,
    /// It is many: there is a pattern in it.
    pub(super) is_list: bool,
    /// Where it begins.
    pub(super) at: usize,
}

/// What is wrong, and what to do.
pub(super) type Misfit = (String, String);

impl Typed {
    pub(super) fn number(self) -> Result<(Node, Dimension), (usize, Misfit)> {
        match self.kind {
            Kind::Number(dimension) => Ok((self.node, dimension)),
            Kind::Condition => {
                let misfit = (
                    "a number is needed, and this is a condition".to_owned(),
                    "count(...) makes a number of conditions".to_owned(),
                );
                Err((self.at, misfit))
            }
        }
    }

    pub(super) fn condition(self) -> Result<Node, (usize, Misfit)> {
        match self.kind {
            Kind::Condition => Ok(self.node),
            Kind::Number(dimension) => {
                let what = format!("a condition is needed, and this is {dimension}");
                Err((
                    self.at,
                    (what, "compare it with something, such as `== 0`".to_owned()),
                ))
            }
        }
    }
}

/// The dimension of a sum or product.
pub(super) fn arithmetic(
    operation: Arithmetic,
    left: Dimension,
    right: Dimension,
) -> Result<Dimension, Misfit> {
    match operation {
        Arithmetic::Multiply => Ok(left.times(right)),
        Arithmetic::Divide => Ok(left.over(right)),
        Arithmetic::Add | Arithmetic::Subtract => same(left, right).map(|()| left),
    }
}

/// What is added or compared is of one dimension.
pub(super) fn same(left: Dimension, right: Dimension) -> Result<(), Misfit> {
    if left == right {
        return Ok(());
    }
    let what = format!("{left} and {right} do not go together");
    let fix = "give the number a unit, such as 10us, 64K or 40Gbps; names end in theirs";
    Err((what, fix.to_owned()))
}

/// What a function makes of its arguments.
pub(super) fn function(function: Function, arguments: &[Typed]) -> Result<(Kind, bool), (usize, Misfit)> {
    let conditions = arguments
        .iter()
        .filter(|argument| argument.kind == Kind::Condition)
        .count();
    match function {
        Function::Count if conditions == arguments.len() || conditions == 0 => {
            Ok((Kind::Number(PLAIN), false))
        }
        Function::Count => {
            let misfit = (
                "count has numbers and conditions".to_owned(),
                "count one or the other".to_owned(),
            );
            Err((arguments[0].at, misfit))
        }
        Function::All | Function::Any => {
            for argument in arguments {
                argument.clone().condition()?;
            }
            Ok((Kind::Condition, false))
        }
        Function::Min | Function::Max | Function::Sum | Function::Mean | Function::Abs => {
            let (_, dimension) = arguments[0].clone().number()?;
            for argument in arguments {
                let (_, other) = argument.clone().number()?;
                same(dimension, other).map_err(|misfit| (argument.at, misfit))?;
            }
            // Each member of a list has its own magnitude.
            let is_list = function == Function::Abs && arguments[0].is_list;
            Ok((Kind::Number(dimension), is_list))
        }
    }
}
