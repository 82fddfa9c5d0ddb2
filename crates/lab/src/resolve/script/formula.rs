//! What stands in `$(...)`: names that a script has given, and arithmetic with them.

use std::collections::BTreeMap;
use std::fmt;

/// Deepest nesting of brackets and signs.
const DEPTH_MAX: usize = 32;
/// Integers up to here are exact as doubles.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A value that a name of a script stands for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Constant {
    Number(f64),
    Text(String),
    /// A row of a table: `$(row.column)`.
    Row(BTreeMap<String, Constant>),
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Constant::Number(number) => write!(f, "{number}"),
            Constant::Text(text) => f.write_str(text),
            Constant::Row(_) => f.write_str("a row"),
        }
    }
}

/// The names of a script, the latest last.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope(Vec<(String, Constant)>);

impl Scope {
    /// From here on a name means this.
    pub(super) fn set(&mut self, name: &str, value: Constant) {
        self.0.push((name.to_owned(), value));
    }

    /// A mark to come back to.
    pub(super) fn mark(&self) -> usize {
        self.0.len()
    }

    /// Forgets what was named since a mark.
    pub(super) fn reset(&mut self, mark: usize) {
        self.0.truncate(mark);
    }

    fn get(&self, name: &str) -> Option<&Constant> {
        self.0
            .iter()
            .rev()
            .find(|(own, _)| own == name)
            .map(|(_, value)| value)
    }

    fn names(&self) -> String {
        let mut names: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        names.dedup();
        match names.is_empty() {
            true => "no step above has a `let` or a `for`".to_owned(),
            false => format!("there are {}", names.join(", ")),
        }
    }
}

/// A text with everything in `$(...)` put in. Where there is nothing else in it, the value stays a number.
///
/// # Errors
/// What is wrong, and how to mend it.
pub(super) fn fill(text: &str, scope: &Scope) -> Result<Constant, (String, String)> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("$(") {
        let inside = &rest[start + 2..];
        let Some(end) = closing(inside) else {
            return Err((
                format!("\"{text}\" has a $( that does not end"),
                "write $(NAME)".to_owned(),
            ));
        };
        let value = evaluate(&inside[..end], scope)?;
        if start == 0 && rest.len() == text.len() && end + 3 == text.len() {
            return Ok(value);
        }
        filled.push_str(&rest[..start]);
        filled.push_str(&value.to_string());
        rest = &inside[end + 1..];
    }
    filled.push_str(rest);
    Ok(Constant::Text(filled))
}

/// Where the bracket ends that a text is in.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The value of a formula.
///
/// # Errors
/// What is wrong, and how to mend it.
pub(super) fn evaluate(text: &str, scope: &Scope) -> Result<Constant, (String, String)> {
    let mut formula = Formula {
        text,
        rest: text,
        scope,
        depth: 0,
    };
    let value = formula.sum()?;
    match formula.rest.trim_start() {
        "" => Ok(value),
        _ => Err(formula.unexpected()),
    }
}

struct Formula<'a> {
    text: &'a str,
    rest: &'a str,
    scope: &'a Scope,
    depth: usize,
}

type Value = Result<Constant, (String, String)>;

impl Formula<'_> {
    fn sign(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        self.rest = self.rest.trim_start();
        let sign = signs.iter().find(|sign| self.rest.starts_with(**sign))?;
        self.rest = &self.rest[sign.len()..];
        Some(sign)
    }

    fn unexpected(&self) -> (String, String) {
        let what = match self.rest.trim() {
            "" => format!("$({}) ends too early", self.text),
            rest => format!("$({}): \"{rest}\" was not expected", self.text),
        };
        let fix = "write names, numbers, + - * / // % ( ), min(), max(), floor(), ceil()";
        (what, fix.to_owned())
    }

    fn number(&self, value: Constant) -> Result<f64, (String, String)> {
        match value {
            Constant::Number(number) => Ok(number),
            other => Err((
                format!("$({}): \"{other}\" is no number", self.text),
                "reckon with numbers only".to_owned(),
            )),
        }
    }

    fn result(&self, number: f64) -> Value {
        match number.is_finite() && number.abs() <= EXACT_MAX {
            true => Ok(Constant::Number(number)),
            false => Err((
                format!("$({}) is no number of up to 2^53", self.text),
                "divide by something other than 0, or use smaller numbers".to_owned(),
            )),
        }
    }

    fn sum(&mut self) -> Value {
        let mut left = self.product()?;
        while let Some(sign) = self.sign(&["+", "-"]) {
            let right = self.product()?;
            let (a, b) = (self.number(left)?, self.number(right)?);
            left = self.result(if sign == "+" { a + b } else { a - b })?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Value {
        let mut left = self.operand()?;
        while let Some(sign) = self.sign(&["//", "*", "/", "%"]) {
            let right = self.operand()?;
            let (a, b) = (self.number(left)?, self.number(right)?);
            left = self.result(match sign {
                "*" => a * b,
                "/" => a / b,
                "//" => (a / b).floor(),
                _ => a - b * (a / b).floor(),
            })?;
        }
        Ok(left)
    }

    fn operand(&mut self) -> Value {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err((
                format!("$({}) is nested too deep", self.text),
                "use `let` for parts of it".to_owned(),
            ));
        }
        let value = self.one();
        self.depth -= 1;
        value
    }

    fn one(&mut self) -> Value {
        if self.sign(&["-"]).is_some() {
            let value = self.operand()?;
            let number = self.number(value)?;
            return self.result(-number);
        }
        if self.sign(&["("]).is_some() {
            let value = self.sum()?;
            return match self.sign(&[")"]) {
                Some(_) => Ok(value),
                None => Err(self.unexpected()),
            };
        }
        let word = self.word();
        match word.chars().next() {
            None => Err(self.unexpected()),
            Some(first) if first.is_ascii_digit() => match word.parse() {
                Ok(number) => self.result(number),
                Err(_) => Err((
                    format!("$({}): \"{word}\" is no number", self.text),
                    "write digits".to_owned(),
                )),
            },
            Some(_) if self.sign(&["("]).is_some() => self.call(&word),
            Some(_) => self.named(&word),
        }
    }

    /// Letters, digits, `_` and `.`.
    fn word(&mut self) -> String {
        self.rest = self.rest.trim_start();
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.';
        let end = self
            .rest
            .find(|letter| !is_part(letter))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }

    fn named(&self, path: &str) -> Value {
        let mut parts = path.split('.');
        let name = parts.next().unwrap_or_default();
        let unknown = |known: String| (format!("$({}): nothing is called \"{path}\"", self.text), known);
        let mut value = self.scope.get(name).ok_or_else(|| unknown(self.scope.names()))?;
        for part in parts {
            value = match value {
                Constant::Row(row) => row.get(part).ok_or_else(|| {
                    let names: Vec<&str> = row.keys().map(String::as_str).collect();
                    unknown(format!("{name} has {}", names.join(", ")))
                })?,
                _ => return Err(unknown(format!("{name} has no parts"))),
            };
        }
        Ok(value.clone())
    }

    fn call(&mut self, function: &str) -> Value {
        let mut arguments = Vec::new();
        loop {
            let value = self.sum()?;
            arguments.push(self.number(value)?);
            if self.sign(&[","]).is_none() {
                break;
            }
        }
        if self.sign(&[")"]).is_none() {
            return Err(self.unexpected());
        }
        let first = arguments[0];
        match (function, arguments.len()) {
            ("min", _) => self.result(arguments.into_iter().fold(first, f64::min)),
            ("max", _) => self.result(arguments.into_iter().fold(first, f64::max)),
            ("floor", 1) => self.result(first.floor()),
            ("ceil", 1) => self.result(first.ceil()),
            _ => Err((
                format!("$({}): there is no function {function} of so many", self.text),
                "write min(a, b), max(a, b), floor(a) or ceil(a)".to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        let mut scope = Scope::default();
        scope.set("trig", Constant::Number(20_036.0));
        scope.set("port", Constant::Text("sw1:Ethernet8".into()));
        let row = [("speed".to_owned(), Constant::Number(40.0))];
        scope.set("row", Constant::Row(row.into_iter().collect()));
        scope
    }

    #[test]
    fn formulas_are_reckoned() {
        for (text, value) in [
            ("trig", 20_036.0),
            ("trig//3 - 1 - 2*2", 6673.0),
            ("-(1 + 2) * 3", -9.0),
            ("7 % 4 / 2", 1.5),
            ("max(1, row.speed, 3) + min(5, 4)", 44.0),
            ("floor(2.5) + ceil(2.5)", 5.0),
        ] {
            assert_eq!(evaluate(text, &scope()), Ok(Constant::Number(value)), "{text}");
        }
    }

    #[test]
    fn a_lone_formula_stays_a_number_and_others_are_text() {
        assert_eq!(fill("$(trig - 1)", &scope()), Ok(Constant::Number(20_035.0)));
        let text = |text: &str| Ok(Constant::Text(text.to_owned()));
        assert_eq!(fill("$(port)", &scope()), text("sw1:Ethernet8"));
        assert_eq!(
            fill("a $(trig) b $(row.speed/16)", &scope()),
            text("a 20036 b 2.5")
        );
        assert_eq!(fill("nothing", &scope()), text("nothing"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, what) in [
            ("$(trg)", "\"trg\""),
            ("$(row.x)", "\"row.x\""),
            ("$(trig.x)", "\"trig.x\""),
            ("$(1 / 0)", "2^53"),
            ("$(port + 1)", "no number"),
            ("$(1 +)", "too early"),
            ("$(1 2)", "\"2\" was not expected"),
            ("$((1)", "does not end"),
            ("$(max(1)", "does not end"),
            ("$(sqrt(4))", "function sqrt"),
            ("$(1x)", "\"1x\""),
            ("$(trig", "does not end"),
        ] {
            let (said, _) = fill(text, &scope()).expect_err(text);
            assert!(said.contains(what), "{text}: {said}");
        }
        let deep = format!("$({}1)", "-".repeat(100));
        assert!(fill(&deep, &scope()).is_err());
    }

    #[test]
    fn the_latest_name_rules_until_the_mark() {
        let mut scope = scope();
        let mark = scope.mark();
        scope.set("trig", Constant::Number(1.0));
        assert_eq!(evaluate("trig", &scope), Ok(Constant::Number(1.0)));
        scope.reset(mark);
        assert_eq!(evaluate("trig", &scope), Ok(Constant::Number(20_036.0)));
    }
}
