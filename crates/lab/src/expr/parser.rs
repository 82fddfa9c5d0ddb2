//! The recursive-descent parser of expressions; `docs/script.md` contains the grammar.

use super::check::{self, TypedNode};
use super::lexer::{self, ExpressionLanguage, PositionedToken, Token};
use super::syntax::{ArithmeticOperator, ComparisonOperator, Function, SyntaxNode};
use super::unit::{self, Dimension, PLAIN, TIME};
use super::{CONDITION_LEN_MAX, ExpressionError, Occurrence};

/// The maximum nesting depth of brackets and signs.
const DEPTH_MAX: usize = 64;
/// The maximum length of the text that an error quotes, in characters.
const QUOTED_LEN: usize = 24;

const FUNCTIONS: [(&str, Function); 10] = [
    ("min", Function::Min),
    ("max", Function::Max),
    ("sum", Function::Sum),
    ("mean", Function::Mean),
    ("abs", Function::Abs),
    ("floor", Function::Floor),
    ("ceil", Function::Ceil),
    ("count", Function::Count),
    ("all", Function::All),
    ("any", Function::Any),
];

type ParseResult = Result<TypedNode, ExpressionError>;

/// Parses a complete text. A check contains a condition, and a formula contains a number.
pub(super) fn parse(text: &str, language: ExpressionLanguage) -> Result<SyntaxNode, ExpressionError> {
    let root = match language {
        ExpressionLanguage::Check => parse_condition(text),
        ExpressionLanguage::Formula => {
            parse_all_tokens(text, language).and_then(|root| Ok(root.into_number_node()?.0))
        }
    };
    root.map_err(|error| {
        let rest = text.get(error.offset..).unwrap_or_default();
        let rest = rest.chars().take(QUOTED_LEN).collect();
        ExpressionError { rest, ..error }
    })
}

fn parse_condition(text: &str) -> Result<SyntaxNode, ExpressionError> {
    if text.len() > CONDITION_LEN_MAX {
        let what = format!("an expression of {} bytes is too long", text.len());
        let fix = format!("at most {CONDITION_LEN_MAX} are possible: make it several");
        return Err(ExpressionError::new(0, what, fix));
    }
    let root = parse_all_tokens(text, ExpressionLanguage::Check)?;
    if root.is_list {
        let what = "there are several conditions, one for each name that matches the star";
        let fix = "write all(...), any(...) or count(...) around it";
        return Err(ExpressionError::new(root.offset, what, fix));
    }
    root.into_condition_node()
}

fn parse_all_tokens(text: &str, language: ExpressionLanguage) -> ParseResult {
    let mut parser = Parser {
        tokens: lexer::tokenize(text, language)?,
        language,
        next: 0,
        depth: 0,
    };
    let root = parser.parse_or()?;
    match parser.token() {
        Token::End => Ok(root),
        _ => Err(parser.unexpected_token("the expression ends here")),
    }
}

/// The state of a recursive-descent parser.
struct Parser {
    tokens: Vec<PositionedToken>,
    language: ExpressionLanguage,
    /// The index of the next token.
    next: usize,
    /// The number of open brackets and signs at the current position.
    depth: usize,
}

impl Parser {
    fn token(&self) -> &Token {
        &self.tokens[self.next].token
    }

    fn offset(&self) -> usize {
        self.tokens[self.next].offset
    }

    /// Consumes the next token if it is this sign.
    fn take_symbol_token(&mut self, sign: &str) -> bool {
        let is_next = matches!(self.token(), Token::Sign(next) if *next == sign);
        self.next += usize::from(is_next);
        is_next
    }

    /// Consumes the next token if it is this keyword.
    fn take_keyword(&mut self, keyword: &str) -> bool {
        let is_next = matches!(self.token(), Token::Keyword(next) if *next == keyword);
        self.next += usize::from(is_next);
        is_next
    }

    /// Returns the error for an unexpected next token. `expected` describes the tokens that are valid here.
    fn unexpected_token(&self, expected: &str) -> ExpressionError {
        let what = match self.token() {
            Token::End => format!("something is missing at the end: {expected}"),
            _ => format!("this was not expected: {expected}"),
        };
        let fix = match self.language {
            ExpressionLanguage::Check => {
                "put spaces around - and *, or they are parts of names; docs/script.md has the grammar"
            }
            ExpressionLanguage::Formula => {
                "write names, numbers, + - * / // % ( ), min(), max(), floor(), ceil()"
            }
        };
        ExpressionError::new(self.offset(), what, fix)
    }

    /// Applies a rule one nesting level deeper.
    fn parse_nested(&mut self, rule: fn(&mut Self) -> ParseResult) -> ParseResult {
        if self.depth >= DEPTH_MAX {
            let what = "brackets or signs are nested too deep";
            return Err(ExpressionError::new(
                self.offset(),
                what,
                "make it several expressions",
            ));
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    fn parse_or(&mut self) -> ParseResult {
        self.parse_junction("or", Self::parse_and, SyntaxNode::Or)
    }

    fn parse_and(&mut self) -> ParseResult {
        self.parse_junction("and", Self::parse_not, SyntaxNode::And)
    }

    /// Parses conditions with the same keyword between them.
    fn parse_junction(
        &mut self,
        keyword: &str,
        operand: fn(&mut Self) -> ParseResult,
        new_node: fn(Vec<SyntaxNode>) -> SyntaxNode,
    ) -> ParseResult {
        let first = operand(self)?;
        let mut operands = vec![first];
        while self.take_keyword(keyword) {
            operands.push(operand(self)?);
        }
        if operands.len() == 1 {
            return Ok(operands.remove(0));
        }
        let offset = operands[0].offset;
        let is_list = operands.iter().any(|operand| operand.is_list);
        let nodes: Result<_, _> = operands.into_iter().map(TypedNode::into_condition_node).collect();
        Ok(TypedNode::new_condition(new_node(nodes?), is_list, offset))
    }

    fn parse_not(&mut self) -> ParseResult {
        let offset = self.offset();
        if !self.take_keyword("not") {
            return self.parse_comparison();
        }
        let inner = self.parse_nested(Self::parse_not)?;
        let is_list = inner.is_list;
        let node = SyntaxNode::Not(Box::new(inner.into_condition_node()?));
        Ok(TypedNode::new_condition(node, is_list, offset))
    }

    fn parse_comparison(&mut self) -> ParseResult {
        let first = self.parse_sum()?;
        let (offset, mut is_list) = (first.offset, first.is_list);
        let is_within = self.take_keyword("within");
        let mut next = if is_within {
            None
        } else {
            self.take_comparison_operator()
        };
        if !is_within && next.is_none() {
            return Ok(first);
        }
        let (node, dimension) = first.into_number_node()?;
        let mut rest = Vec::new();
        if is_within {
            let operator = self.parse_tolerance(dimension)?;
            if !self.take_keyword("of") {
                return Err(self.unexpected_token("write A within 5 % of B"));
            }
            rest.push((operator, self.parse_right_side(dimension, &mut is_list)?));
        }
        while let Some(mut operator) = next {
            let right_offset = self.offset();
            let right = self.parse_right_side(dimension, &mut is_list)?;
            if self.language == ExpressionLanguage::Check {
                let left = rest.last().map_or(&node, |(_, left)| left);
                check::reject_negative_bound(left, offset, &right, right_offset)?;
            }
            let within_offset = self.offset();
            if self.take_keyword("within") {
                if operator != ComparisonOperator::Equal {
                    let what = "`within` needs ==";
                    return Err(ExpressionError::new(
                        within_offset,
                        what,
                        "write a == b within 5 %",
                    ));
                }
                operator = self.parse_tolerance(dimension)?;
            }
            rest.push((operator, right));
            next = self.take_comparison_operator();
        }
        let node = SyntaxNode::Compare(Box::new(node), rest);
        Ok(TypedNode::new_condition(node, is_list, offset))
    }

    /// Parses the right side of a comparison. Sets `is_list` if the right side contains a pattern with
    /// several values.
    fn parse_right_side(
        &mut self,
        dimension: Dimension,
        is_list: &mut bool,
    ) -> Result<SyntaxNode, ExpressionError> {
        let right = self.parse_sum()?;
        *is_list |= right.is_list;
        let offset = right.offset;
        let (node, right_dimension) = right.into_number_node()?;
        check::require_same_dimension(dimension, right_dimension, offset)?;
        Ok(node)
    }

    /// Consumes the next token if it is a comparison operator.
    fn take_comparison_operator(&mut self) -> Option<ComparisonOperator> {
        let Token::Sign(sign) = self.token() else {
            return None;
        };
        let operator = match *sign {
            "<" => ComparisonOperator::Less,
            "<=" => ComparisonOperator::LessOrEqual,
            ">" => ComparisonOperator::Greater,
            ">=" => ComparisonOperator::GreaterOrEqual,
            "==" => ComparisonOperator::Equal,
            "!=" => ComparisonOperator::NotEqual,
            _ => return None,
        };
        self.next += 1;
        Some(operator)
    }

    /// Parses the tolerance after `within`: a percentage of the right side, such as `5 %`, or an amount, such
    /// as `2us`.
    fn parse_tolerance(&mut self, right_dimension: Dimension) -> Result<ComparisonOperator, ExpressionError> {
        let offset = self.offset();
        let Token::Number {
            value,
            dimension,
            is_percent,
        } = *self.token()
        else {
            return Err(self.unexpected_token("`within` takes a number, such as 5 % or 2us"));
        };
        self.next += 1;
        if is_percent {
            return Ok(ComparisonOperator::WithinShare(value));
        }
        check::require_same_dimension(right_dimension, dimension, offset)?;
        Ok(ComparisonOperator::Within(value))
    }

    fn parse_sum(&mut self) -> ParseResult {
        use ArithmeticOperator::{Add, Subtract};
        self.parse_arithmetic(Self::parse_product, &[("+", Add), ("-", Subtract)])
    }

    fn parse_product(&mut self) -> ParseResult {
        use ArithmeticOperator::{Divide, FloorDivide, Modulo, Multiply};
        let operators = [("*", Multiply), ("/", Divide), ("//", FloorDivide), ("%", Modulo)];
        self.parse_arithmetic(Self::parse_unary, &operators)
    }

    /// Parses operands with operators of one precedence between them.
    fn parse_arithmetic(
        &mut self,
        operand: fn(&mut Self) -> ParseResult,
        operators: &[(&str, ArithmeticOperator)],
    ) -> ParseResult {
        let first = operand(self)?;
        let mut operands = Vec::new();
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.take_symbol_token(sign)) {
            operands.push((*operator, operand(self)?));
        }
        if operands.is_empty() {
            return Ok(first);
        }
        let (offset, mut is_list) = (first.offset, first.is_list);
        let (node, mut dimension) = first.into_number_node()?;
        let mut rest = Vec::with_capacity(operands.len());
        for (operator, right) in operands {
            is_list |= right.is_list;
            let right_offset = right.offset;
            let (right, right_dimension) = right.into_number_node()?;
            dimension = check::arithmetic_dimension(operator, dimension, right_dimension, right_offset)?;
            rest.push((operator, right));
        }
        let node = SyntaxNode::Arithmetic(Box::new(node), rest);
        Ok(TypedNode::new_number(node, dimension, is_list, offset))
    }

    fn parse_unary(&mut self) -> ParseResult {
        let offset = self.offset();
        if !self.take_symbol_token("-") {
            return self.parse_primary();
        }
        let inner = self.parse_nested(Self::parse_unary)?;
        let is_list = inner.is_list;
        let (node, dimension) = inner.into_number_node()?;
        let node = SyntaxNode::Negate(Box::new(node));
        Ok(TypedNode::new_number(node, dimension, is_list, offset))
    }

    fn parse_primary(&mut self) -> ParseResult {
        let offset = self.offset();
        let token = self.token().clone();
        if !matches!(token, Token::Number { .. } | Token::Sign("(") | Token::Name(_)) {
            return Err(self.unexpected_token("a number, a name or a bracket comes here"));
        }
        self.next += 1;
        match token {
            Token::Number { value, dimension, .. } => Ok(TypedNode::new_number(
                SyntaxNode::Number(value),
                dimension,
                false,
                offset,
            )),
            Token::Name(name) if self.take_symbol_token("(") => self.parse_call(&name, offset),
            Token::Name(path) => Ok(self.new_name_node(path, offset)),
            _ => {
                let inner = self.parse_nested(Self::parse_or)?;
                self.take_closing_bracket()?;
                Ok(TypedNode { offset, ..inner })
            }
        }
    }

    /// Returns the syntax node of a name. In a condition, the name ends in its unit.
    fn new_name_node(&self, path: String, offset: usize) -> TypedNode {
        let (scale, dimension) = match self.language {
            ExpressionLanguage::Check => unit::unit_of_name(&path),
            ExpressionLanguage::Formula => (1.0, PLAIN),
        };
        let is_pattern = path.contains('*');
        let node = SyntaxNode::Name {
            path,
            is_pattern,
            scale,
        };
        TypedNode::new_number(node, dimension, is_pattern, offset)
    }

    fn take_closing_bracket(&mut self) -> Result<(), ExpressionError> {
        match self.take_symbol_token(")") {
            true => Ok(()),
            false => Err(self.unexpected_token("a bracket is not closed")),
        }
    }

    /// Parses the arguments of a function up to the closing bracket.
    fn parse_call(&mut self, name: &str, offset: usize) -> ParseResult {
        if let "first" | "last" = name {
            let occurrence = if name == "first" {
                Occurrence::First
            } else {
                Occurrence::Last
            };
            let node = SyntaxNode::Event(occurrence, self.parse_event_names()?);
            return Ok(TypedNode::new_number(node, TIME, false, offset));
        }
        let Some((_, function)) = FUNCTIONS.into_iter().find(|(own_name, _)| *own_name == name) else {
            let names: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
            let fix = format!("the functions are {}, first, last", names.join(", "));
            let what = format!("there is no function \"{name}\"");
            return Err(ExpressionError::new(offset, what, fix));
        };
        let mut arguments = vec![self.parse_nested(Self::parse_or)?];
        while self.take_symbol_token(",") {
            arguments.push(self.parse_nested(Self::parse_or)?);
        }
        self.take_closing_bracket()?;
        if function.is_unary() && arguments.len() != 1 {
            let what = format!("{name} takes one number");
            return Err(ExpressionError::new(offset, what, format!("write {name}(a - b)")));
        }
        check::check_call(function, arguments, offset)
    }

    /// Parses the list of events inside `first(...)` or `last(...)`, including the closing bracket.
    fn parse_event_names(&mut self) -> Result<Vec<String>, ExpressionError> {
        let mut events = Vec::new();
        loop {
            let Token::Name(event) = self.token().clone() else {
                let expected = "the name of an event comes here, such as xoff or sw1.Ethernet0.ce";
                return Err(self.unexpected_token(expected));
            };
            events.push(event);
            self.next += 1;
            if !self.take_symbol_token(",") {
                self.take_closing_bracket()?;
                return Ok(events);
            }
        }
    }
}
