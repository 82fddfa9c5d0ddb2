//! Types of expressions: which operands an operator or a function accepts.

use super::ExpressionError;
use super::syntax::{ArithmeticOperator, Function, SyntaxNode};
use super::unit::{Dimension, PLAIN};

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
    /// Whether the part contains a pattern such as `sw1.*.tx_bytes`, and therefore has several values.
    pub(super) is_list: bool,
    /// The offset of the part in the text, in bytes.
    pub(super) offset: usize,
}

impl TypedNode {
    pub(super) fn new_number(
        node: SyntaxNode,
        dimension: Dimension,
        is_list: bool,
        offset: usize,
    ) -> TypedNode {
        let value_type = ValueType::Number(dimension);
        TypedNode {
            node,
            value_type,
            is_list,
            offset,
        }
    }

    pub(super) fn new_condition(node: SyntaxNode, is_list: bool, offset: usize) -> TypedNode {
        TypedNode {
            node,
            value_type: ValueType::Condition,
            is_list,
            offset,
        }
    }

    pub(super) fn into_number_node(self) -> Result<(SyntaxNode, Dimension), ExpressionError> {
        match self.value_type {
            ValueType::Number(dimension) => Ok((self.node, dimension)),
            ValueType::Condition => Err(ExpressionError::new(
                self.offset,
                "a number is needed, and this is a condition",
                "count(...) makes a number of conditions",
            )),
        }
    }

    pub(super) fn into_condition_node(self) -> Result<SyntaxNode, ExpressionError> {
        match self.value_type {
            ValueType::Condition => Ok(self.node),
            ValueType::Number(dimension) => Err(ExpressionError::new(
                self.offset,
                format!("a condition is needed, and this is {dimension}"),
                "compare it with something, such as `== 0`",
            )),
        }
    }
}

/// Returns the dimension of the result of an operator. For example, bytes divided by a time give a rate.
/// `offset` is the position of the right operand, for the error message.
pub(super) fn arithmetic_dimension(
    operator: ArithmeticOperator,
    left: Dimension,
    right: Dimension,
    offset: usize,
) -> Result<Dimension, ExpressionError> {
    use ArithmeticOperator::{Add, Divide, FloorDivide, Modulo, Multiply, Subtract};
    match operator {
        Multiply => Ok(left.multiply(right)),
        Divide | FloorDivide => Ok(left.divide(right)),
        Add | Subtract | Modulo => require_same_dimension(left, right, offset).map(|()| left),
    }
}

/// Returns an error at `offset` if two operands have different dimensions.
pub(super) fn require_same_dimension(
    left: Dimension,
    right: Dimension,
    offset: usize,
) -> Result<(), ExpressionError> {
    if left == right {
        return Ok(());
    }
    let what = format!("{left} and {right} cannot be compared or added");
    let fix = "give the number a unit, such as 10us, 64K or 40Gbps; a name ends in its unit";
    Err(ExpressionError::new(offset, what, fix))
}

/// Returns an error if one side of a comparison is a negative number and the other side is never negative. Such a
/// condition would have the same result in every run.
pub(super) fn reject_negative_bound(
    left: &SyntaxNode,
    left_offset: usize,
    right: &SyntaxNode,
    right_offset: usize,
) -> Result<(), ExpressionError> {
    let offset = match (is_negative_number(left), is_negative_number(right)) {
        (false, true) if is_measured_and_never_negative(left) => right_offset,
        (true, false) if is_measured_and_never_negative(right) => left_offset,
        _ => return Ok(()),
    };
    Err(ExpressionError::new(
        offset,
        "the other side is never negative",
        "counters, times and sizes are 0 or more: write a number of 0 or more",
    ))
}

fn is_measured_and_never_negative(node: &SyntaxNode) -> bool {
    let mut names = Vec::new();
    node.collect_names(&mut names);
    !names.is_empty() && is_never_negative(node)
}

fn is_negative_number(node: &SyntaxNode) -> bool {
    match node {
        SyntaxNode::Number(value) => *value < 0.0,
        SyntaxNode::Negate(inner) => matches!(**inner, SyntaxNode::Number(value) if value > 0.0),
        _ => false,
    }
}

/// Returns whether the value of an expression is 0 or more in every run.
fn is_never_negative(node: &SyntaxNode) -> bool {
    match node {
        SyntaxNode::Number(value) => *value >= 0.0,
        SyntaxNode::Name { .. }
        | SyntaxNode::Event(..)
        | SyntaxNode::Call(Function::Count | Function::Abs, _) => true,
        SyntaxNode::Call(_, arguments) => arguments.iter().all(is_never_negative),
        SyntaxNode::Arithmetic(first, rest) => {
            let keeps_sign = |(operator, node): &(ArithmeticOperator, SyntaxNode)| {
                *operator != ArithmeticOperator::Subtract && is_never_negative(node)
            };
            is_never_negative(first) && rest.iter().all(keeps_sign)
        }
        _ => false,
    }
}

/// Checks the arguments of a function call. Returns the syntax node of the call with the type of the result.
/// `offset` is the position of the function name.
pub(super) fn check_call(
    function: Function,
    arguments: Vec<TypedNode>,
    offset: usize,
) -> Result<TypedNode, ExpressionError> {
    let is_condition = |argument: &TypedNode| argument.value_type == ValueType::Condition;
    let first = arguments[0].clone();
    let is_first_list = first.is_list;
    let (value_type, is_list) = match function {
        Function::Count if arguments.iter().any(is_condition) != arguments.iter().all(is_condition) => {
            return Err(ExpressionError::new(
                first.offset,
                "count has both numbers and conditions",
                "count either numbers or conditions",
            ));
        }
        Function::Count => (ValueType::Number(PLAIN), false),
        Function::All | Function::Any => {
            for argument in &arguments {
                argument.clone().into_condition_node()?;
            }
            (ValueType::Condition, false)
        }
        _ => {
            let is_rounding = matches!(function, Function::Floor | Function::Ceil);
            let (_, dimension) = first.into_number_node()?;
            let dimension = if is_rounding { PLAIN } else { dimension };
            for argument in &arguments {
                let (_, other) = argument.clone().into_number_node()?;
                require_same_dimension(dimension, other, argument.offset)?;
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
        offset,
    })
}
