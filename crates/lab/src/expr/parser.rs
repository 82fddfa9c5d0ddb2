//! The grammar, by recursive descent; `docs/script.md` has it in one piece.

use super::check::{self, Kind, Misfit, Typed};
use super::lexer::{self, Placed, Token};
use super::unit::{self, Dimension, TIME};
use super::{Arithmetic, ExprError, Function, Node, Relation, Which};

/// Deepest nesting of brackets and signs.
const DEPTH_MAX: usize = 64;
const KEYWORDS: [&str; 5] = ["and", "or", "not", "within", "of"];
const FUNCTIONS: [(&str, Function); 8] = [
    ("min", Function::Min),
    ("max", Function::Max),
    ("sum", Function::Sum),
    ("mean", Function::Mean),
    ("abs", Function::Abs),
    ("count", Function::Count),
    ("all", Function::All),
    ("any", Function::Any),
];

pub(super) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

/// Reads a condition.
pub(super) fn parse(text: &str) -> Result<Typed, ExprError> {
    let mut parser = Parser {
        text,
        tokens: lexer::tokens(text)?,
        next: 0,
        depth: 0,
    };
    let whole = parser.or()?;
    if *parser.token() != Token::End {
        return Err(parser.unexpected("the expression is over here"));
    }
    if whole.is_list {
        let fix = "write all(...), any(...) or count(...) around it";
        return Err(lexer::error(
            text,
            whole.at,
            "there are many conditions, one for each name that the star means",
            fix,
        ));
    }
    if let Err((at, misfit)) = whole.clone().condition() {
        return Err(misfit_at(text, at, misfit));
    }
    Ok(whole)
}

fn misfit_at(text: &str, at: usize, (what, fix): Misfit) -> ExprError {
    lexer::error(text, at, what, fix)
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Placed>,
    next: usize,
    depth: usize,
}

impl Parser<'_> {
    fn placed(&self) -> &Placed {
        // The last one is the end, and nothing goes beyond.
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn token(&self) -> &Token {
        &self.placed().token
    }

    fn at(&self) -> usize {
        self.placed().at
    }

    fn sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.token(), Token::Sign(found) if *found == sign);
        self.next += usize::from(found);
        found
    }

    fn keyword(&mut self, keyword: &str) -> bool {
        let found = matches!(self.token(), Token::Word(word) if word == keyword);
        self.next += usize::from(found);
        found
    }

    fn unexpected(&self, expected: &str) -> ExprError {
        let what = match self.token() {
            Token::End => format!("something is missing at the end: {expected}"),
            _ => format!("this was not expected: {expected}"),
        };
        let fix = "spaces around - and * tell them from parts of names; docs/script.md has the grammar";
        lexer::error(self.text, self.at(), what, fix)
    }

    fn misfit(&self, at: usize) -> impl Fn(Misfit) -> ExprError + '_ {
        move |misfit| misfit_at(self.text, at, misfit)
    }

    /// Runs a rule one level deeper.
    fn deeper(&mut self, rule: fn(&mut Self) -> Result<Typed, ExprError>) -> Result<Typed, ExprError> {
        if self.depth >= DEPTH_MAX {
            return Err(lexer::error(
                self.text,
                self.at(),
                "brackets or signs are nested too deep",
                "make it several expressions",
            ));
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    fn or(&mut self) -> Result<Typed, ExprError> {
        self.junction("or", Self::and, Node::Or)
    }

    fn and(&mut self) -> Result<Typed, ExprError> {
        self.junction("and", Self::not, Node::And)
    }

    fn junction(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Result<Typed, ExprError>,
        make: fn(Vec<Node>) -> Node,
    ) -> Result<Typed, ExprError> {
        let first = part(self)?;
        let at = first.at;
        let mut is_list = first.is_list;
        let mut parts = vec![first];
        while self.keyword(word) {
            let part = part(self)?;
            is_list |= part.is_list;
            parts.push(part);
        }
        if parts.len() == 1 {
            return Ok(parts.remove(0));
        }
        let nodes: Result<Vec<Node>, _> = parts.into_iter().map(Typed::condition).collect();
        let nodes = nodes.map_err(|(at, misfit)| misfit_at(self.text, at, misfit))?;
        Ok(Typed {
            node: make(nodes),
            kind: Kind::Condition,
            is_list,
            at,
        })
    }

    fn not(&mut self) -> Result<Typed, ExprError> {
        let at = self.at();
        if !self.keyword("not") {
            return self.comparison();
        }
        let inner = self.deeper(Self::not)?;
        let is_list = inner.is_list;
        let node = inner
            .condition()
            .map_err(|(at, misfit)| misfit_at(self.text, at, misfit))?;
        Ok(Typed {
            node: Node::Not(Box::new(node)),
            kind: Kind::Condition,
            is_list,
            at,
        })
    }

    fn comparison(&mut self) -> Result<Typed, ExprError> {
        let first = self.sum()?;
        if self.keyword("within") {
            return self.within_of(first);
        }
        let Some(mut relation) = self.relation() else {
            return Ok(first);
        };
        let (at, mut is_list) = (first.at, first.is_list);
        let (node, left) = self.number(first)?;
        let mut rest = Vec::new();
        loop {
            let (right, dimension, many) = self.right_side(left)?;
            is_list |= many;
            let within = self.at();
            if self.keyword("within") {
                if relation != Relation::Equal {
                    let what = "`within` goes with ==";
                    return Err(lexer::error(self.text, within, what, "write a == b within 5 %"));
                }
                relation = self.tolerance(dimension)?;
            }
            rest.push((relation, right));
            match self.relation() {
                Some(next) => relation = next,
                None => break,
            }
        }
        Ok(Typed {
            node: Node::Compare(Box::new(node), rest),
            kind: Kind::Condition,
            is_list,
            at,
        })
    }

    /// `A within 5 % of B`.
    fn within_of(&mut self, first: Typed) -> Result<Typed, ExprError> {
        let (at, mut is_list) = (first.at, first.is_list);
        let (node, dimension) = self.number(first)?;
        let relation = self.tolerance(dimension)?;
        if !self.keyword("of") {
            return Err(self.unexpected("write A within 5 % of B"));
        }
        let (right, _, many) = self.right_side(dimension)?;
        is_list |= many;
        let node = Node::Compare(Box::new(node), vec![(relation, right)]);
        Ok(Typed {
            node,
            kind: Kind::Condition,
            is_list,
            at,
        })
    }

    fn right_side(&mut self, left: Dimension) -> Result<(Node, Dimension, bool), ExprError> {
        let right = self.sum()?;
        let (at, is_list) = (right.at, right.is_list);
        let (node, dimension) = self.number(right)?;
        check::same(left, dimension).map_err(self.misfit(at))?;
        Ok((node, dimension, is_list))
    }

    fn number(&self, typed: Typed) -> Result<(Node, Dimension), ExprError> {
        typed
            .number()
            .map_err(|(at, misfit)| misfit_at(self.text, at, misfit))
    }

    fn relation(&mut self) -> Option<Relation> {
        let Token::Sign(sign) = self.token() else {
            return None;
        };
        let relation = match *sign {
            "<" => Relation::Less,
            "<=" => Relation::LessOrEqual,
            ">" => Relation::Greater,
            ">=" => Relation::GreaterOrEqual,
            "==" => Relation::Equal,
            "!=" => Relation::NotEqual,
            _ => return None,
        };
        self.next += 1;
        Some(relation)
    }

    /// A share of the right side, or an amount of its dimension.
    fn tolerance(&mut self, of: Dimension) -> Result<Relation, ExprError> {
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
            return Ok(Relation::WithinShare(value));
        }
        check::same(of, dimension).map_err(self.misfit(at))?;
        Ok(Relation::Within(value))
    }

    fn sum(&mut self) -> Result<Typed, ExprError> {
        self.chain(
            Self::product,
            &[("+", Arithmetic::Add), ("-", Arithmetic::Subtract)],
        )
    }

    fn product(&mut self) -> Result<Typed, ExprError> {
        self.chain(
            Self::unary,
            &[("*", Arithmetic::Multiply), ("/", Arithmetic::Divide)],
        )
    }

    fn chain(
        &mut self,
        part: fn(&mut Self) -> Result<Typed, ExprError>,
        operations: &[(&str, Arithmetic)],
    ) -> Result<Typed, ExprError> {
        let mut left = part(self)?;
        while let Some((_, operation)) = operations.iter().find(|(sign, _)| self.sign(sign)) {
            let right = part(self)?;
            let (at, is_list, right_at) = (left.at, left.is_list || right.is_list, right.at);
            let (a, dimension) = self.number(left)?;
            let (b, other) = self.number(right)?;
            let dimension = check::arithmetic(*operation, dimension, other).map_err(self.misfit(right_at))?;
            let node = Node::Arithmetic(*operation, Box::new(a), Box::new(b));
            left = Typed {
                node,
                kind: Kind::Number(dimension),
                is_list,
                at,
            };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Typed, ExprError> {
        let at = self.at();
        if !self.sign("-") {
            return self.primary();
        }
        let inner = self.deeper(Self::unary)?;
        let is_list = inner.is_list;
        let (node, dimension) = self.number(inner)?;
        Ok(Typed {
            node: Node::Negate(Box::new(node)),
            kind: Kind::Number(dimension),
            is_list,
            at,
        })
    }

    fn primary(&mut self) -> Result<Typed, ExprError> {
        let at = self.at();
        match self.token().clone() {
            Token::Number { value, dimension, .. } => {
                self.next += 1;
                Ok(Typed {
                    node: Node::Number(value),
                    kind: Kind::Number(dimension),
                    is_list: false,
                    at,
                })
            }
            Token::Sign("(") => {
                self.next += 1;
                let inner = self.deeper(Self::or)?;
                self.close()?;
                Ok(Typed { at, ..inner })
            }
            Token::Word(word) if !is_keyword(&word) => {
                self.next += 1;
                match self.sign("(") {
                    true => self.call(&word, at),
                    false => Ok(name(word, at)),
                }
            }
            _ => Err(self.unexpected("a number, a name or a bracket comes here")),
        }
    }

    fn close(&mut self) -> Result<(), ExprError> {
        match self.sign(")") {
            true => Ok(()),
            false => Err(self.unexpected("a bracket is not closed")),
        }
    }

    fn call(&mut self, word: &str, at: usize) -> Result<Typed, ExprError> {
        let which = match word {
            "first" => Some(Which::First),
            "last" => Some(Which::Last),
            _ => None,
        };
        if let Some(which) = which {
            let node = Node::Event(which, self.events()?);
            return Ok(Typed {
                node,
                kind: Kind::Number(TIME),
                is_list: false,
                at,
            });
        }
        let Some((_, function)) = FUNCTIONS.into_iter().find(|(name, _)| *name == word) else {
            let names: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
            let fix = format!("the functions are {}, first, last", names.join(", "));
            return Err(lexer::error(
                self.text,
                at,
                format!("there is no function \"{word}\""),
                fix,
            ));
        };
        let mut arguments = vec![self.deeper(Self::or)?];
        while self.sign(",") {
            arguments.push(self.deeper(Self::or)?);
        }
        self.close()?;
        if function == Function::Abs && arguments.len() != 1 {
            return Err(lexer::error(
                self.text,
                at,
                "abs takes one number",
                "write abs(a - b)",
            ));
        }
        let typed = check::function(function, &arguments);
        let (kind, is_list) = typed.map_err(|(at, misfit)| misfit_at(self.text, at, misfit))?;
        let nodes = arguments.into_iter().map(|argument| argument.node).collect();
        Ok(Typed {
            node: Node::Call(function, nodes),
            kind,
            is_list,
            at,
        })
    }

    /// Names of events, up to the bracket.
    fn events(&mut self) -> Result<Vec<String>, ExprError> {
        let mut events = Vec::new();
        loop {
            match self.token().clone() {
                Token::Word(word) if !is_keyword(&word) => events.push(word),
                _ => {
                    return Err(
                        self.unexpected("the name of an event comes here, such as xoff or sw1.Ethernet0.ce")
                    );
                }
            }
            self.next += 1;
            if !self.sign(",") {
                self.close()?;
                return Ok(events);
            }
        }
    }
}

fn name(path: String, at: usize) -> Typed {
    let (scale, dimension) = unit::of_name(&path);
    let is_pattern = path.contains('*');
    let node = Node::Name {
        path,
        is_pattern,
        scale,
    };
    Typed {
        node,
        kind: Kind::Number(dimension),
        is_list: is_pattern,
        at,
    }
}
