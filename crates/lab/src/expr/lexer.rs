//! Words, numbers and signs.

use super::unit::{self, Dimension, PLAIN, UNITS};
use super::{ExprError, LENGTH_MAX};

/// How much of what is wrong a message quotes, characters.
const QUOTED: usize = 24;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// In picoseconds, bytes or what they make.
    Number {
        value: f64,
        dimension: Dimension,
        is_percent: bool,
    },
    /// A name or a keyword.
    Word(String),
    /// `+ - * / ( ) , < <= > >= == !=`
    Sign(&'static str),
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) token: Token,
    pub(super) at: usize,
}

/// Signs, the longer before what they begin with.
const SIGNS: [&str; 14] = [
    "<=", ">=", "==", "!=", "<", ">", "=", "+", "-", "*", "/", "(", ")", ",",
];

pub(super) fn error(text: &str, at: usize, what: impl Into<String>, fix: impl Into<String>) -> ExprError {
    ExprError {
        at,
        rest: text.get(at..).unwrap_or_default().chars().take(QUOTED).collect(),
        what: what.into(),
        fix: fix.into(),
    }
}

/// All tokens, and one for the end.
pub(super) fn tokens(text: &str) -> Result<Vec<Placed>, ExprError> {
    if text.len() > LENGTH_MAX {
        let what = format!("an expression of {} bytes is too long", text.len());
        return Err(error(
            text,
            0,
            what,
            format!("at most {LENGTH_MAX} are possible: make it several"),
        ));
    }
    let mut tokens: Vec<Placed> = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let operand_before = match tokens.last().map(|placed| &placed.token) {
            Some(Token::Number { .. } | Token::Sign(")")) => true,
            Some(Token::Word(word)) => !super::parser::is_keyword(word),
            _ => false,
        };
        let (token, len) = if next.is_whitespace() {
            at += next.len_utf8();
            continue;
        } else if next.is_ascii_digit() || next == '.' {
            number(text, at)?
        } else if starts_name(next) || (next == '*' && !operand_before) {
            word(text, at)?
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| text[at..].starts_with(sign)) {
            (Token::Sign(if sign == "=" { "==" } else { sign }), sign.len())
        } else {
            let what = format!("there is no use for {next:?}");
            return Err(error(text, at, what, "docs/script.md has the grammar"));
        };
        tokens.push(Placed { token, at });
        at += len;
    }
    tokens.push(Placed {
        token: Token::End,
        at: text.len(),
    });
    Ok(tokens)
}

fn starts_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == '\''
}

/// Digits with a point and an exponent, and a unit, which may stand apart.
fn number(text: &str, at: usize) -> Result<(Token, usize), ExprError> {
    let rest = &text[at..];
    let mut len = digits(rest, 0);
    if rest[len..].starts_with('.') {
        len = digits(rest, len + 1);
    }
    if rest[len..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[len + 1..].starts_with(['+', '-']));
        let end = digits(rest, len + 1 + sign);
        if end > len + 1 + sign {
            len = end;
        }
    }
    let value = rest[..len].parse::<f64>().ok().filter(|value| value.is_finite());
    let Some(value) = value else {
        return Err(error(text, at, "this is no number", "write it as 12, 1.5 or 3e6"));
    };
    let gap = rest[len..].len() - rest[len..].trim_start().len();
    let behind = &rest[len + gap..];
    let unit_len = unit_len(behind);
    let unit = &behind[..unit_len];
    if unit.is_empty() || super::parser::is_keyword(unit) {
        let plain = Token::Number {
            value,
            dimension: PLAIN,
            is_percent: false,
        };
        return Ok((plain, len));
    }
    let Some((scale, dimension)) = unit::of_number(unit) else {
        return Err(error(
            text,
            at,
            format!("there is no unit \"{unit}\""),
            format!("the units are {UNITS}"),
        ));
    };
    let number = Token::Number {
        value: value * scale,
        dimension,
        is_percent: unit == "%",
    };
    Ok((number, len + gap + unit_len))
}

fn digits(text: &str, from: usize) -> usize {
    from + text[from..].bytes().take_while(u8::is_ascii_digit).count()
}

/// Letters, or a percent sign; `b/s` has a stroke in it.
fn unit_len(text: &str) -> usize {
    if text.starts_with('%') {
        return 1;
    }
    let letters: usize = text
        .chars()
        .take_while(|c| c.is_alphabetic())
        .map(char::len_utf8)
        .sum();
    let is_bits = text[..letters].ends_with('b') && letters <= 2;
    let per_second = text[letters..].strip_prefix("/s");
    match per_second {
        Some(rest) if is_bits && !rest.starts_with(|c: char| c.is_alphanumeric()) => letters + 2,
        _ => letters,
    }
}

/// A name: parts with points between them. A part has letters, digits, `_`, `-` and `*`, or is quoted with `'`.
fn word(text: &str, at: usize) -> Result<(Token, usize), ExprError> {
    let rest = &text[at..];
    let mut name = String::new();
    let mut len = 0;
    loop {
        if let Some(quoted) = rest[len..].strip_prefix('\'') {
            let Some(end) = quoted.find('\'').filter(|end| *end > 0) else {
                return Err(error(
                    text,
                    at + len,
                    "a quoted name has no end",
                    "close it with '",
                ));
            };
            name.push_str(&quoted[..end]);
            len += end + 2;
        } else {
            let part = part_len(&rest[len..]);
            if part == 0 {
                return Err(error(
                    text,
                    at + len,
                    "a part of a name is missing",
                    "write a name such as h1.lost",
                ));
            }
            name.push_str(&rest[len..len + part]);
            len += part;
        }
        if !rest[len..].starts_with('.') {
            return Ok((Token::Word(name), len));
        }
        name.push('.');
        len += 1;
    }
}

/// A `-` belongs to a name only in its middle, so that `a - b` and `a -b` are differences.
fn part_len(text: &str) -> usize {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '*');
    let mut len = 0;
    for c in text.chars() {
        let dash = c == '-' && len > 0 && text[len + 1..].starts_with(|c: char| inside(c) || c == '-');
        if !inside(c) && !dash {
            break;
        }
        len += 1;
    }
    len
}
