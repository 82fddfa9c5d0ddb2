//! Types of expressions: which operands an operator or a function accepts.

use super::unit::{Dimension, PLAIN};
use super::{ArithmeticOperator, ExprError, Function, SyntaxNode};

/// The type of the value of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueType {
    Number(Dimension),
    Condition,
}

/// A part of an expression with its type.
#[derive(Clone, Debug)]
pub(super) struct TypedNode {
    pub(super) node: SyntaxNode,
    pub(super) value_type: ValueType,
    /// Whether the part contains a pattern and so has several values.
    pub(super) is_list: bool,
    /// The offset of the part in the text, in bytes.
    pub(super) at: usize,
}

impl TypedNode {
    pub(super) fn number(node: SyntaxNode, dimension: Dimension, is_list: bool, at: usize) -> TypedNode {
        let value_type = ValueType::Number(dimension);
        TypedNode {
            node,
            value_type,
            is_list,
            at,
        }
    }

    pub(super) fn condition(node: SyntaxNode, is_list: bool, at: usize) -> TypedNode {
        TypedNode {
            node,
            value_type: ValueType::Condition,
            is_list,
            at,
        }
    }

    pub(super) fn into_number(self) -> Result<(SyntaxNode, Dimension), ExprError> {
        match self.value_type {
            ValueType::Number(dimension) => Ok((self.node, dimension)),
            ValueType::Condition => Err(ExprError::new(
                self.at,
                "a number is needed, and this is a condition",
                "count(...) makes a number of conditions",
            )),
        }
    }

    pub(super) fn into_condition(self) -> Result<SyntaxNode, ExprError> {
        match self.value_type {
            ValueType::Condition => Ok(self.node),
            ValueType::Number(dimension) => Err(ExprError::new(
                self.at,
                format!("a condition is needed, and this is {dimension}"),
                "compare it with something, such as `== 0`",
            )),
        }
    }
}

/// Returns the dimension of the result of an operator. `at` is the offset of the right operand.
pub(super) fn arithmetic_dimension(
    operator: ArithmeticOperator,
    left: Dimension,
    right: Dimension,
    at: usize,
) -> Result<Dimension, ExprError> {
    use ArithmeticOperator::{Add, Divide, FloorDivide, Modulo, Multiply, Subtract};
    match operator {
        Multiply => Ok(left.times(right)),
        Divide | FloorDivide => Ok(left.over(right)),
        Add | Subtract | Modulo => require_same_dimension(left, right, at).map(|()| left),
    }
}

/// Fails at the offset `at` unless two operands have the same dimension.
pub(super) fn require_same_dimension(left: Dimension, right: Dimension, at: usize) -> Result<(), ExprError> {
    if left == right {
        return Ok(());
    }
    let what = format!("{left} and {right} do not go together");
    let fix = "give the number a unit, such as 10us, 64K or 40Gbps; names end in theirs";
    Err(ExprError::new(at, what, fix))
}

/// Returns the syntax node of a function call with its type. `at` is the offset of the function name.
pub(super) fn call(function: Function, arguments: Vec<TypedNode>, at: usize) -> Result<TypedNode, ExprError> {
    let is_condition = |argument: &TypedNode| argument.value_type == ValueType::Condition;
    let first = arguments[0].clone();
    let is_first_list = first.is_list;
    let (value_type, is_list) = match function {
        Function::Count if arguments.iter().any(is_condition) != arguments.iter().all(is_condition) => {
            return Err(ExprError::new(
                first.at,
                "count has numbers and conditions",
                "count one or the other",
            ));
        }
        Function::Count => (ValueType::Number(PLAIN), false),
        Function::All | Function::Any => {
            for argument in &arguments {
                argument.clone().into_condition()?;
            }
            (ValueType::Condition, false)
        }
        _ => {
            let is_rounding = matches!(function, Function::Floor | Function::Ceil);
            let (_, dimension) = first.into_number()?;
            let dimension = if is_rounding { PLAIN } else { dimension };
            for argument in &arguments {
                let (_, other) = argument.clone().into_number()?;
                require_same_dimension(dimension, other, argument.at)?;
            }
            // A function of one number is applied to each member of a list.
            let is_list = function.is_unary() && is_first_list;
            (ValueType::Number(dimension), is_list)
        }
    };
    let nodes = arguments.into_iter().map(|argument| argument.node).collect();
    let node = SyntaxNode::Call(function, nodes);
    Ok(TypedNode {
        node,
        value_type,
        is_list,
        at,
    })
}
