//! The recursive-descent parser of expressions; `docs/script.md` contains the grammar.

use super::check::{self, TypedNode};
use super::lexer::{self, Language, PositionedToken, Token};
use super::unit::{self, Dimension, PLAIN, TIME};
use super::{ArithmeticOperator, ComparisonOperator, ExprError, Function, LENGTH_MAX, SyntaxNode, Which};

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

type ParseResult = Result<TypedNode, ExprError>;

/// Parses a whole text: a condition of a check, or a number of a formula.
pub(super) fn parse(text: &str, language: Language) -> Result<SyntaxNode, ExprError> {
    let root = match language {
        Language::Check => parse_condition(text),
        Language::Formula => parse_whole(text, language).and_then(|root| Ok(root.into_number()?.0)),
    };
    root.map_err(|error| {
        let rest = text.get(error.at..).unwrap_or_default();
        let rest = rest.chars().take(QUOTED_LEN).collect();
        ExprError { rest, ..error }
    })
}

fn parse_condition(text: &str) -> Result<SyntaxNode, ExprError> {
    if text.len() > LENGTH_MAX {
        let what = format!("an expression of {} bytes is too long", text.len());
        let fix = format!("at most {LENGTH_MAX} are possible: make it several");
        return Err(ExprError::new(0, what, fix));
    }
    let root = parse_whole(text, Language::Check)?;
    if root.is_list {
        let what = "there are many conditions, one for each name that the star means";
        let fix = "write all(...), any(...) or count(...) around it";
        return Err(ExprError::new(root.at, what, fix));
    }
    root.into_condition()
}

fn parse_whole(text: &str, language: Language) -> ParseResult {
    let mut parser = Parser {
        tokens: lexer::tokens(text, language)?,
        language,
        next: 0,
        depth: 0,
    };
    let root = parser.or()?;
    match parser.token() {
        Token::End => Ok(root),
        _ => Err(parser.unexpected("the expression is over here")),
    }
}

struct Parser {
    tokens: Vec<PositionedToken>,
    language: Language,
    /// The index of the next token.
    next: usize,
    depth: usize,
}

impl Parser {
    fn token(&self) -> &Token {
        &self.tokens[self.next].token
    }

    fn at(&self) -> usize {
        self.tokens[self.next].at
    }

    /// Consumes the next token if it is this sign.
    fn take_sign(&mut self, sign: &str) -> bool {
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

    fn unexpected(&self, expected: &str) -> ExprError {
        let what = match self.token() {
            Token::End => format!("something is missing at the end: {expected}"),
            _ => format!("this was not expected: {expected}"),
        };
        let fix = match self.language {
            Language::Check => {
                "spaces around - and * tell them from parts of names; docs/script.md has the grammar"
            }
            Language::Formula => "write names, numbers, + - * / // % ( ), min(), max(), floor(), ceil()",
        };
        ExprError::new(self.at(), what, fix)
    }

    /// Applies a rule one nesting level deeper.
    fn nested(&mut self, rule: fn(&mut Self) -> ParseResult) -> ParseResult {
        if self.depth >= DEPTH_MAX {
            let what = "brackets or signs are nested too deep";
            return Err(ExprError::new(self.at(), what, "make it several expressions"));
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    fn or(&mut self) -> ParseResult {
        self.junction("or", Self::and, SyntaxNode::Or)
    }

    fn and(&mut self) -> ParseResult {
        self.junction("and", Self::not, SyntaxNode::And)
    }

    fn junction(
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
        let at = operands[0].at;
        let is_list = operands.iter().any(|operand| operand.is_list);
        let nodes: Result<_, _> = operands.into_iter().map(TypedNode::into_condition).collect();
        Ok(TypedNode::condition(new_node(nodes?), is_list, at))
    }

    fn not(&mut self) -> ParseResult {
        let at = self.at();
        if !self.take_keyword("not") {
            return self.comparison();
        }
        let inner = self.nested(Self::not)?;
        let is_list = inner.is_list;
        let node = SyntaxNode::Not(Box::new(inner.into_condition()?));
        Ok(TypedNode::condition(node, is_list, at))
    }

    fn comparison(&mut self) -> ParseResult {
        let first = self.sum()?;
        let (at, mut is_list) = (first.at, first.is_list);
        let is_within = self.take_keyword("within");
        let mut next = if is_within {
            None
        } else {
            self.comparison_operator()
        };
        if !is_within && next.is_none() {
            return Ok(first);
        }
        let (node, dimension) = first.into_number()?;
        let mut rest = Vec::new();
        if is_within {
            let operator = self.tolerance(dimension)?;
            if !self.take_keyword("of") {
                return Err(self.unexpected("write A within 5 % of B"));
            }
            rest.push((operator, self.right_side(dimension, &mut is_list)?));
        }
        while let Some(mut operator) = next {
            let right = self.right_side(dimension, &mut is_list)?;
            let within_at = self.at();
            if self.take_keyword("within") {
                if operator != ComparisonOperator::Equal {
                    let what = "`within` goes with ==";
                    return Err(ExprError::new(within_at, what, "write a == b within 5 %"));
                }
                operator = self.tolerance(dimension)?;
            }
            rest.push((operator, right));
            next = self.comparison_operator();
        }
        let node = SyntaxNode::Compare(Box::new(node), rest);
        Ok(TypedNode::condition(node, is_list, at))
    }

    fn right_side(&mut self, dimension: Dimension, is_list: &mut bool) -> Result<SyntaxNode, ExprError> {
        let right = self.sum()?;
        *is_list |= right.is_list;
        let at = right.at;
        let (node, right_dimension) = right.into_number()?;
        check::require_same_dimension(dimension, right_dimension, at)?;
        Ok(node)
    }

    fn comparison_operator(&mut self) -> Option<ComparisonOperator> {
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

    /// Parses the number after `within`: a share of the right side, or an amount of its dimension.
    fn tolerance(&mut self, right_dimension: Dimension) -> Result<ComparisonOperator, ExprError> {
        let at = self.at();
        let Token::Number {
            value,
            dimension,
            is_percent,
        } = *self.token()
        else {
            return Err(self.unexpected("`within` takes a number, such as 5 % or 2us"));
        };
        self.next += 1;
        if is_percent {
            return Ok(ComparisonOperator::WithinShare(value));
        }
        check::require_same_dimension(right_dimension, dimension, at)?;
        Ok(ComparisonOperator::Within(value))
    }

    fn sum(&mut self) -> ParseResult {
        use ArithmeticOperator::{Add, Subtract};
        self.arithmetic(Self::product, &[("+", Add), ("-", Subtract)])
    }

    fn product(&mut self) -> ParseResult {
        use ArithmeticOperator::{Divide, FloorDivide, Modulo, Multiply};
        let operators = [("*", Multiply), ("/", Divide), ("//", FloorDivide), ("%", Modulo)];
        self.arithmetic(Self::unary, &operators)
    }

    /// Parses operands with operators of one precedence between them.
    fn arithmetic(
        &mut self,
        operand: fn(&mut Self) -> ParseResult,
        operators: &[(&str, ArithmeticOperator)],
    ) -> ParseResult {
        let first = operand(self)?;
        let mut operands = Vec::new();
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.take_sign(sign)) {
            operands.push((*operator, operand(self)?));
        }
        if operands.is_empty() {
            return Ok(first);
        }
        let (at, mut is_list) = (first.at, first.is_list);
        let (node, mut dimension) = first.into_number()?;
        let mut rest = Vec::with_capacity(operands.len());
        for (operator, right) in operands {
            is_list |= right.is_list;
            let right_at = right.at;
            let (right, right_dimension) = right.into_number()?;
            dimension = check::arithmetic_dimension(operator, dimension, right_dimension, right_at)?;
            rest.push((operator, right));
        }
        let node = SyntaxNode::Arithmetic(Box::new(node), rest);
        Ok(TypedNode::number(node, dimension, is_list, at))
    }

    fn unary(&mut self) -> ParseResult {
        let at = self.at();
        if !self.take_sign("-") {
            return self.primary();
        }
        let inner = self.nested(Self::unary)?;
        let is_list = inner.is_list;
        let (node, dimension) = inner.into_number()?;
        let node = SyntaxNode::Negate(Box::new(node));
        Ok(TypedNode::number(node, dimension, is_list, at))
    }

    fn primary(&mut self) -> ParseResult {
        let at = self.at();
        let token = self.token().clone();
        if !matches!(token, Token::Number { .. } | Token::Sign("(") | Token::Word(_)) {
            return Err(self.unexpected("a number, a name or a bracket comes here"));
        }
        self.next += 1;
        match token {
            Token::Number { value, dimension, .. } => {
                Ok(TypedNode::number(SyntaxNode::Number(value), dimension, false, at))
            }
            Token::Word(word) if self.take_sign("(") => self.call(&word, at),
            Token::Word(path) => Ok(self.name(path, at)),
            _ => {
                let inner = self.nested(Self::or)?;
                self.close_bracket()?;
                Ok(TypedNode { at, ..inner })
            }
        }
    }

    fn name(&self, path: String, at: usize) -> TypedNode {
        let (scale, dimension) = match self.language {
            Language::Check => unit::of_name(&path),
            Language::Formula => (1.0, PLAIN),
        };
        let is_pattern = path.contains('*');
        let node = SyntaxNode::Name {
            path,
            is_pattern,
            scale,
        };
        TypedNode::number(node, dimension, is_pattern, at)
    }

    fn close_bracket(&mut self) -> Result<(), ExprError> {
        match self.take_sign(")") {
            true => Ok(()),
            false => Err(self.unexpected("a bracket is not closed")),
        }
    }

    /// Parses the arguments of a function up to the closing bracket.
    fn call(&mut self, word: &str, at: usize) -> ParseResult {
        if let "first" | "last" = word {
            let which = if word == "first" {
                Which::First
            } else {
                Which::Last
            };
            let node = SyntaxNode::Event(which, self.event_names()?);
            return Ok(TypedNode::number(node, TIME, false, at));
        }
        let Some((_, function)) = FUNCTIONS.into_iter().find(|(name, _)| *name == word) else {
            let names: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
            let fix = format!("the functions are {}, first, last", names.join(", "));
            let what = format!("there is no function \"{word}\"");
            return Err(ExprError::new(at, what, fix));
        };
        let mut arguments = vec![self.nested(Self::or)?];
        while self.take_sign(",") {
            arguments.push(self.nested(Self::or)?);
        }
        self.close_bracket()?;
        if function.is_unary() && arguments.len() != 1 {
            let what = format!("{word} takes one number");
            return Err(ExprError::new(at, what, format!("write {word}(a - b)")));
        }
        check::call(function, arguments, at)
    }

    fn event_names(&mut self) -> Result<Vec<String>, ExprError> {
        let mut events = Vec::new();
        loop {
            let Token::Word(event) = self.token().clone() else {
                let expected = "the name of an event comes here, such as xoff or sw1.Ethernet0.ce";
                return Err(self.unexpected(expected));
            };
            events.push(event);
            self.next += 1;
            if !self.take_sign(",") {
                self.close_bracket()?;
                return Ok(events);
            }
        }
    }
}
