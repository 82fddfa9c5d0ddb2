//! The lexer of expressions: it divides a text into numbers, names, keywords and operators.

use super::ExpressionError;
use super::unit::{self, Dimension, PLAIN, UNITS};

const KEYWORDS: [&str; 5] = ["and", "or", "not", "within", "of"];
/// All signs. A longer sign such as `<=` comes before a sign with which it begins, such as `<`.
const SIGNS: [&str; 16] = [
    "<=", ">=", "==", "!=", "<", ">", "=", "+", "-", "*", "//", "/", "%", "(", ")", ",",
];

/// The two languages of expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpressionLanguage {
    /// A condition. Numbers can have a unit, and the value of a name can have a unit. Names can contain `-`,
    /// `*` and quotes, so a minus sign needs spaces.
    Check,
    /// A formula: the text inside `$(...)`. A formula has no units and no keywords. The characters `-`, `*`
    /// and `%` are always operators.
    Formula,
}

/// One token of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A number in base units: picoseconds, bytes, or a product of their powers.
    Number {
        value: f64,
        dimension: Dimension,
        is_percent: bool,
    },
    /// A name or a pattern, without quotes.
    Name(String),
    Keyword(&'static str),
    /// An entry of `SIGNS`. `=` is stored as `==`.
    Sign(&'static str),
    End,
}

/// A token with its position in the text.
#[derive(Clone, Debug)]
pub(super) struct PositionedToken {
    pub(super) token: Token,
    /// The offset of the token in the text, in bytes.
    pub(super) offset: usize,
}

/// Returns all tokens of a text. The last token is `Token::End`.
pub(super) fn tokenize(
    text: &str,
    language: ExpressionLanguage,
) -> Result<Vec<PositionedToken>, ExpressionError> {
    let is_check = language == ExpressionLanguage::Check;
    let mut tokens: Vec<PositionedToken> = Vec::new();
    let mut offset = 0;
    while let Some(next) = text[offset..].chars().next() {
        let is_after_operand = matches!(
            tokens.last().map(|token| &token.token),
            Some(Token::Number { .. } | Token::Name(_) | Token::Sign(")"))
        );
        let is_name_start = next.is_ascii_alphabetic()
            || next == '_'
            || (is_check && (next == '\'' || (next == '*' && !is_after_operand)));
        let (token, len) = if next.is_whitespace() {
            offset += next.len_utf8();
            continue;
        } else if next.is_ascii_digit() || next == '.' {
            read_number(text, offset, language)?
        } else if is_name_start {
            read_name(text, offset, language)?
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| text[offset..].starts_with(sign)) {
            if is_check && matches!(sign, "//" | "%") {
                let what = format!("`{sign}` is an operator of $(...) only");
                return Err(ExpressionError::new(offset, what, format!("write $(a {sign} b)")));
            }
            (Token::Sign(if sign == "=" { "==" } else { sign }), sign.len())
        } else {
            let what = format!("unexpected character {next:?}");
            return Err(ExpressionError::new(
                offset,
                what,
                "docs/script.md has the grammar",
            ));
        };
        tokens.push(PositionedToken { token, offset });
        offset += len;
    }
    tokens.push(PositionedToken {
        token: Token::End,
        offset: text.len(),
    });
    Ok(tokens)
}

/// Reads a number at an offset of the text and returns its length in bytes. In a condition, a unit such as
/// `us` can follow the number, with or without a space.
fn read_number(
    text: &str,
    offset: usize,
    language: ExpressionLanguage,
) -> Result<(Token, usize), ExpressionError> {
    let rest = &text[offset..];
    let mut len = digits_end(rest, 0);
    if rest[len..].starts_with('.') {
        len = digits_end(rest, len + 1);
    }
    if rest[len..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[len + 1..].starts_with(['+', '-']));
        let end = digits_end(rest, len + 1 + sign);
        if end > len + 1 + sign {
            len = end;
        }
    }
    let value = rest[..len].parse::<f64>().ok().filter(|value| value.is_finite());
    let Some(value) = value else {
        return Err(ExpressionError::new(
            offset,
            "this is not a number",
            "write it as 12, 1.5 or 3e6",
        ));
    };
    let after = rest[len..].trim_start();
    let unit = &after[..unit_len(after)];
    if unit.is_empty() || KEYWORDS.contains(&unit) || language == ExpressionLanguage::Formula {
        let plain = Token::Number {
            value,
            dimension: PLAIN,
            is_percent: false,
        };
        return Ok((plain, len));
    }
    let Some((scale, dimension)) = unit::look_up_unit(unit) else {
        let what = format!("there is no unit \"{unit}\"");
        return Err(ExpressionError::new(
            offset,
            what,
            format!("the units are {UNITS}"),
        ));
    };
    let number = Token::Number {
        value: value * scale,
        dimension,
        is_percent: unit == "%",
    };
    Ok((number, rest.len() - after.len() + unit.len()))
}

/// Returns the end of the digits that begin at `start`.
fn digits_end(text: &str, start: usize) -> usize {
    start + text[start..].bytes().take_while(u8::is_ascii_digit).count()
}

/// Returns the length in bytes of the unit at the start of a text. A unit is `%` or a word such as `us` or
/// `KiB`. A rate in bits can end in `/s`, as in `Gb/s`.
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

/// Reads a name or a keyword at an offset.
///
/// Dots separate the parts of a name. A part contains letters, digits and `_`. In a condition, a part can
/// also contain `-` and `*`, or a part is enclosed in single quotes.
fn read_name(
    text: &str,
    offset: usize,
    language: ExpressionLanguage,
) -> Result<(Token, usize), ExpressionError> {
    let is_check = language == ExpressionLanguage::Check;
    let rest = &text[offset..];
    let mut name = String::new();
    let mut len = 0;
    loop {
        let quoted = rest[len..].strip_prefix('\'').filter(|_| is_check);
        if let Some(quoted) = quoted {
            let Some(end) = quoted.find('\'').filter(|end| *end > 0) else {
                return Err(ExpressionError::new(
                    offset + len,
                    "a quoted name has no end",
                    "close it with '",
                ));
            };
            name.push_str(&quoted[..end]);
            len += end + 2;
        } else {
            let part = name_part_len(&rest[len..], is_check);
            if part == 0 {
                let what = "a part of a name is missing";
                return Err(ExpressionError::new(
                    offset + len,
                    what,
                    "write a name such as h1.lost",
                ));
            }
            name.push_str(&rest[len..len + part]);
            len += part;
        }
        if !rest[len..].starts_with('.') {
            break;
        }
        name.push('.');
        len += 1;
    }
    match KEYWORDS.into_iter().find(|keyword| is_check && *keyword == name) {
        Some(keyword) => Ok((Token::Keyword(keyword), len)),
        None => Ok((Token::Name(name), len)),
    }
}

/// Returns the length of the first part of a name, at the start of a text.
///
/// A `-` belongs to the name only if other characters of the name are on both sides. For example, `a-b` is a
/// name, but `a - b` and `a -b` are differences.
fn name_part_len(text: &str, is_check: bool) -> usize {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || (is_check && c == '*');
    let mut len = 0;
    for c in text.chars() {
        let is_dash = is_check && c == '-' && len > 0;
        let is_dash = is_dash && text[len + 1..].starts_with(|c: char| is_inside(c) || c == '-');
        if !is_inside(c) && !is_dash {
            break;
        }
        len += 1;
    }
    len
}
