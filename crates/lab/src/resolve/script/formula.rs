//! Formulas in `$(...)`: the constants of a script and arithmetic with them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::super::super::expr::{SyntaxNode, parse_formula};

/// The largest absolute value of a formula, 2^53. A double can represent every integer up to
/// this value exactly.
const MAGNITUDE_MAX: f64 = 9_007_199_254_740_992.0;
/// The maximum length of a text after the substitution of its formulas, in bytes.
const SUBSTITUTED_BYTES_MAX: usize = 1 << 20;

/// The value of a name that `let` or `for` defines.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Constant {
    Number(f64),
    Text(String),
    /// A row of named values. `$(row.column)` selects one of them.
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

/// The names that a step can use, with their values. If two entries have the same name, the later
/// entry applies.
#[derive(Clone, Debug, Default)]
pub(super) struct ConstantScope {
    entries: Vec<(String, Constant)>,
    /// The positions of the entries of each name.
    positions: HashMap<String, Vec<usize>>,
}

impl ConstantScope {
    /// Defines a name from this step on.
    pub(super) fn define(&mut self, name: &str, value: Constant) {
        self.positions
            .entry(name.to_owned())
            .or_default()
            .push(self.entries.len());
        self.entries.push((name.to_owned(), value));
    }

    /// Returns the current length of the scope for [`ConstantScope::truncate`].
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Removes all names that were defined after the scope had this length.
    pub(super) fn truncate(&mut self, len: usize) {
        for (name, _) in self.entries.drain(len.min(self.entries.len())..) {
            self.positions.get_mut(&name).map(Vec::pop);
        }
    }

    fn get(&self, name: &str) -> Option<&Constant> {
        let position = *self.positions.get(name)?.last()?;
        self.entries.get(position).map(|(_, value)| value)
    }

    /// Lists the names for an error message.
    fn list_names(&self) -> String {
        match self.entries.is_empty() {
            true => "no step above has a `let` or a `for`".to_owned(),
            false => {
                let names = self.entries.iter().map(|(name, _)| name.as_str());
                format!("there are {}", xoff_units::list_names(names))
            }
        }
    }
}

/// An error of a formula: its text and a way to correct it.
pub(super) type FormulaError = (String, String);

/// Replaces every `$(...)` in a text by its value. If the whole text is one `$(...)`, the result is the value
/// itself, which can be a number.
///
/// # Errors
/// Returns an error if a formula is invalid or does not end, or if the result is longer than 1 MiB.
pub(super) fn substitute(text: &str, scope: &ConstantScope) -> Result<Constant, FormulaError> {
    let mut substituted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("$(") {
        let inside = &rest[start + 2..];
        let Some(end) = find_closing_bracket(inside) else {
            return Err((
                format!("\"{text}\" has a $( that does not end"),
                "write $(NAME)".to_owned(),
            ));
        };
        let value = evaluate(&inside[..end], scope)?;
        if start == 0 && rest.len() == text.len() && end + 3 == text.len() {
            return Ok(value);
        }
        let value = value.to_string();
        // Constants that contain other constants several times grow exponentially.
        if substituted.len() + start + value.len() > SUBSTITUTED_BYTES_MAX {
            return Err((
                format!(
                    "a text with $(...) becomes longer than {} MiB",
                    SUBSTITUTED_BYTES_MAX >> 20
                ),
                "use shorter constants".to_owned(),
            ));
        }
        substituted.push_str(&rest[..start]);
        substituted.push_str(&value);
        rest = &inside[end + 1..];
    }
    substituted.push_str(rest);
    Ok(Constant::Text(substituted))
}

/// Returns the offset of the closing bracket for an opening bracket that is directly before the text.
fn find_closing_bracket(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(offset),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Returns the value of a formula.
///
/// # Errors
/// Returns an error if the text is not a formula or contains an unknown name. The absolute value of each
/// result must be at most 2^53.
pub(super) fn evaluate(text: &str, scope: &ConstantScope) -> Result<Constant, FormulaError> {
    let result = match parse_formula(text) {
        Ok(node) => evaluate_node(&node, scope),
        Err(error) => Err((error.to_string(), error.fix)),
    };
    result.map_err(|(what, fix)| (format!("$({text}): {what}"), fix))
}

fn evaluate_node(node: &SyntaxNode, scope: &ConstantScope) -> Result<Constant, FormulaError> {
    let number = match node {
        SyntaxNode::Name { path, .. } => return look_up_constant(path, scope),
        SyntaxNode::Number(number) => *number,
        SyntaxNode::Negate(inner) => -evaluate_number(inner, scope)?,
        SyntaxNode::Arithmetic(first, rest) => {
            let mut left = evaluate_number(first, scope)?;
            for (operation, right) in rest {
                left = check_magnitude(operation.apply(left, evaluate_number(right, scope)?))?;
            }
            left
        }
        SyntaxNode::Call(function, arguments) => {
            let numbers: Result<Vec<f64>, _> = arguments
                .iter()
                .map(|node| evaluate_number(node, scope))
                .collect();
            function.apply(&numbers?).ok_or_else(unsupported_value)?
        }
        _ => return Err(unsupported_value()),
    };
    check_magnitude(number).map(Constant::Number)
}

/// Returns the error for a part that only a condition can have.
fn unsupported_value() -> FormulaError {
    let fix = "use min, max, sum, mean, abs, floor and ceil only";
    (
        "conditions, events and count() have no value here".to_owned(),
        fix.to_owned(),
    )
}

fn evaluate_number(node: &SyntaxNode, scope: &ConstantScope) -> Result<f64, FormulaError> {
    match evaluate_node(node, scope)? {
        Constant::Number(number) => Ok(number),
        other => Err((
            format!("\"{other}\" is not a number"),
            "calculate with numbers only".to_owned(),
        )),
    }
}

fn check_magnitude(number: f64) -> Result<f64, FormulaError> {
    match number.is_finite() && number.abs() <= MAGNITUDE_MAX {
        true => Ok(number),
        false => Err((
            "the result is not a number of up to 2^53".to_owned(),
            "divide by something other than 0, or use smaller numbers".to_owned(),
        )),
    }
}

fn look_up_constant(path: &str, scope: &ConstantScope) -> Result<Constant, FormulaError> {
    let unknown = |known: String| (format!("nothing is called \"{path}\""), known);
    let mut parts = path.split('.');
    let name = parts.next().unwrap_or_default();
    let mut value = scope.get(name).ok_or_else(|| unknown(scope.list_names()))?;
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

    fn new_scope() -> ConstantScope {
        let mut scope = ConstantScope::default();
        scope.define("trig", Constant::Number(20_036.0));
        scope.define("port", Constant::Text("sw1:Ethernet8".into()));
        scope.define("of", Constant::Number(1.0));
        let row = [("speed", 40.0), ("wait_us", 10.0)];
        let row = row.map(|(column, value)| (column.to_owned(), Constant::Number(value)));
        scope.define("row", Constant::Row(row.into_iter().collect()));
        scope
    }

    #[test]
    fn formulas_are_evaluated() {
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
            assert_eq!(
                evaluate(text, &new_scope()),
                Ok(Constant::Number(value)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_single_formula_gives_a_number_and_other_texts_stay_text() {
        assert_eq!(
            substitute("$(trig - 1)", &new_scope()),
            Ok(Constant::Number(20_035.0))
        );
        let text = |text: &str| Ok(Constant::Text(text.to_owned()));
        assert_eq!(substitute("$(port)", &new_scope()), text("sw1:Ethernet8"));
        assert_eq!(
            substitute("a $(trig) b $(row.speed/16)", &new_scope()),
            text("a 20036 b 2.5")
        );
        assert_eq!(substitute("nothing", &new_scope()), text("nothing"));
    }

    #[test]
    fn errors_of_formulas_are_reported() {
        for (text, what) in [
            ("$(trg)", "\"trg\""),
            ("$(row.x)", "\"row.x\""),
            ("$(trig.x)", "\"trig.x\""),
            ("$(1 / 0)", "2^53"),
            ("$(port + 1)", "not a number"),
            ("$(1 +)", "missing at the end"),
            ("$(1 2)", "ends here at \"2\""),
            ("$((1)", "does not end"),
            ("$(max(1)", "does not end"),
            ("$(sqrt(4))", "function \"sqrt\""),
            ("$(1x)", "ends here at \"x\""),
            ("$(trig", "does not end"),
            ("$(1 < 2)", "a condition"),
            ("$(first(trig))", "events"),
            ("$(trig + 2us)", "ends here"),
        ] {
            let (said, _) = substitute(text, &new_scope()).expect_err(text);
            assert!(said.contains(what), "{text}: {said}");
        }
        let deep = format!("$({}1)", "-".repeat(100));
        assert!(substitute(&deep, &new_scope()).is_err());
    }

    #[test]
    fn a_later_name_hides_an_earlier_one_until_the_scope_is_truncated() {
        let mut scope = new_scope();
        let len = scope.len();
        scope.define("trig", Constant::Number(1.0));
        assert_eq!(evaluate("trig", &scope), Ok(Constant::Number(1.0)));
        scope.truncate(len);
        assert_eq!(evaluate("trig", &scope), Ok(Constant::Number(20_036.0)));
    }
}
