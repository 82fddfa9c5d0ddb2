//! What stands in `$(...)`: names that a script has given, and arithmetic with them.

use std::collections::BTreeMap;
use std::fmt;

use super::super::super::expr::{SyntaxNode, parse_formula};

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

/// The value of a formula. An error has its text and its remedy.
///
/// # Errors
/// The text is no formula, a name is unknown, or a result is no number of up to 2^53.
pub(super) fn evaluate(text: &str, scope: &Scope) -> Result<Constant, (String, String)> {
    let result = match parse_formula(text) {
        Ok(node) => constant(&node, scope),
        Err(error) => Err((error.to_string(), error.fix)),
    };
    result.map_err(|(what, fix)| (format!("$({text}): {what}"), fix))
}

fn constant(node: &SyntaxNode, scope: &Scope) -> Result<Constant, (String, String)> {
    let number = match node {
        SyntaxNode::Name { path, .. } => return named(path, scope),
        SyntaxNode::Number(number) => *number,
        SyntaxNode::Negate(inner) => -number(inner, scope)?,
        SyntaxNode::Arithmetic(first, rest) => {
            let mut left = number(first, scope)?;
            for (operation, right) in rest {
                left = exact(operation.apply(left, number(right, scope)?))?;
            }
            left
        }
        SyntaxNode::Call(function, arguments) => {
            let numbers: Result<Vec<f64>, _> = arguments.iter().map(|node| number(node, scope)).collect();
            function.apply(&numbers?).ok_or_else(no_value)?
        }
        _ => return Err(no_value()),
    };
    exact(number).map(Constant::Number)
}

fn no_value() -> (String, String) {
    let fix = "use min, max, sum, mean, abs, floor and ceil only";
    (
        "conditions, events and count() have no value here".to_owned(),
        fix.to_owned(),
    )
}

fn number(node: &SyntaxNode, scope: &Scope) -> Result<f64, (String, String)> {
    match constant(node, scope)? {
        Constant::Number(number) => Ok(number),
        other => Err((
            format!("\"{other}\" is no number"),
            "reckon with numbers only".to_owned(),
        )),
    }
}

fn exact(number: f64) -> Result<f64, (String, String)> {
    match number.is_finite() && number.abs() <= EXACT_MAX {
        true => Ok(number),
        false => Err((
            "this is no number of up to 2^53".to_owned(),
            "divide by something other than 0, or use smaller numbers".to_owned(),
        )),
    }
}

fn named(path: &str, scope: &Scope) -> Result<Constant, (String, String)> {
    let unknown = |known: String| (format!("nothing is called \"{path}\""), known);
    let mut parts = path.split('.');
    let name = parts.next().unwrap_or_default();
    let mut value = scope.get(name).ok_or_else(|| unknown(scope.names()))?;
    for part in parts {
        let Constant::Row(row) = value else {
            return Err(unknown(format!("{name} has no parts")));
        };
        value = row.get(part).ok_or_else(|| {
            let names: Vec<&str> = row.keys().map(String::as_str).collect();
            unknown(format!("{name} has {}", names.join(", ")))
        })?;
    }
    Ok(value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        let mut scope = Scope::default();
        scope.set("trig", Constant::Number(20_036.0));
        scope.set("port", Constant::Text("sw1:Ethernet8".into()));
        scope.set("of", Constant::Number(1.0));
        let row = [("speed", 40.0), ("wait_us", 10.0)];
        let row = row.map(|(column, value)| (column.to_owned(), Constant::Number(value)));
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
            ("trig-1 + 2*trig*0 + 7%4", 20_038.0),
            ("row.wait_us + 1e3 - of", 1009.0),
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
            ("$(1 +)", "missing at the end"),
            ("$(1 2)", "over here at \"2\""),
            ("$((1)", "does not end"),
            ("$(max(1)", "does not end"),
            ("$(sqrt(4))", "function \"sqrt\""),
            ("$(1x)", "over here at \"x\""),
            ("$(trig", "does not end"),
            ("$(1 < 2)", "a condition"),
            ("$(first(trig))", "events"),
            ("$(trig + 2us)", "over here"),
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
