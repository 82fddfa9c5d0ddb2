//! Mutations of values: numbers, units, words and texts.

use super::super::random::Random;

/// Numbers at the limits of types and fields.
const NUMBERS: [&str; 30] = [
    "0",
    "1",
    "2",
    "-1",
    "7",
    "8",
    "63",
    "64",
    "127",
    "255",
    "256",
    "1000",
    "4095",
    "4096",
    "9216",
    "65535",
    "65536",
    "1000000",
    "16777216",
    "2147483647",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "0.0001",
    "1e308",
    "-0",
    ".nan",
    ".inf",
];
/// Units of quantities.
const UNITS: [&str; 16] = [
    "ns", "us", "ms", "s", "k", "m", "g", "t", "K", "M", "G", "T", "%", "", "Gbps", "B",
];
/// Words that YAML or xoff read in a special way.
const WORDS: [&str; 24] = [
    "true",
    "false",
    "null",
    "~",
    "yes",
    "no",
    "",
    "[]",
    "{}",
    "all",
    "auto",
    "none",
    "'",
    "\"",
    "$(x)",
    "$(1/0)",
    "0..65535",
    "h1..h4096",
    "*",
    "&a",
    "*a",
    "<<",
    "!!int",
    "external:lo",
];

/// The position of a token in a text.
type TokenRange = std::ops::Range<usize>;

/// Replaces a value.
pub(super) fn change_value(text: &str, other: &str, random: &mut Random) -> (String, &'static str) {
    let numbers = find_tokens(text, |byte| byte.is_ascii_digit() || byte == b'.');
    let words = find_tokens(text, |byte| {
        byte.is_ascii_alphanumeric() || b"_-.%".contains(&byte)
    });
    match random.below(9) {
        0 | 1 => {
            let number = NUMBERS[random.below(NUMBERS.len())];
            (
                replace(text, random.pick(&numbers), number),
                "set a number to an extreme",
            )
        }
        2 => {
            let unit = UNITS[random.below(UNITS.len())];
            (change_unit(text, random.pick(&numbers), unit), "change a unit")
        }
        3 => {
            let digits = "9".repeat(1 + random.below(40));
            (replace(text, random.pick(&numbers), &digits), "lengthen a number")
        }
        4 => {
            let word = WORDS[random.below(WORDS.len())];
            (replace(text, random.pick(&words), word), "set a special word")
        }
        5 => {
            let own = random.pick(&words).map(|range| text[range.clone()].to_owned());
            let target = random.pick(&words).cloned();
            (
                replace(text, target.as_ref(), &own.unwrap_or_default()),
                "copy a word",
            )
        }
        6 => {
            let foreign = find_tokens(other, |byte| {
                byte.is_ascii_alphanumeric() || b"_-.%".contains(&byte)
            });
            let word = random.pick(&foreign).map(|range| other[range.clone()].to_owned());
            (
                replace(text, random.pick(&words), &word.unwrap_or_default()),
                "set a word of another file",
            )
        }
        7 => (
            misspell(text, random.pick(&words), random.below(8)),
            "misspell a word",
        ),
        _ => {
            let length = [100, 5_000, 100_000][random.below(3)];
            let letter = ["x", "é", "[", "(", "-"][random.below(5)];
            (
                replace(text, random.pick(&words), &letter.repeat(length)),
                "set a long text",
            )
        }
    }
}

/// Returns the places of all tokens that consist of accepted bytes.
fn find_tokens(text: &str, accepts: impl Fn(u8) -> bool) -> Vec<TokenRange> {
    let mut tokens = Vec::new();
    let mut start = None;
    for (at, byte) in text.bytes().chain([b' ']).enumerate() {
        match (accepts(byte), start) {
            (true, None) => start = Some(at),
            (false, Some(first)) => {
                tokens.push(first..at);
                start = None;
            }
            _ => {}
        }
    }
    tokens
}

fn replace(text: &str, range: Option<&TokenRange>, value: &str) -> String {
    match range {
        Some(range) => format!("{}{value}{}", &text[..range.start], &text[range.end..]),
        None => text.to_owned(),
    }
}

/// Replaces the letters after a number.
fn change_unit(text: &str, number: Option<&TokenRange>, unit: &str) -> String {
    let Some(number) = number else {
        return text.to_owned();
    };
    let rest =
        text[number.end..].trim_start_matches(|letter: char| letter.is_ascii_alphabetic() || letter == '%');
    format!("{}{unit}{rest}", &text[..number.end])
}

/// Swaps or doubles a letter of a word.
fn misspell(text: &str, word: Option<&TokenRange>, at: usize) -> String {
    let Some(word) = word else {
        return text.to_owned();
    };
    let mut letters = text.as_bytes()[word.clone()].to_vec();
    let at = at % letters.len().max(1);
    match at + 1 < letters.len() {
        true => letters.swap(at, at + 1),
        false => letters.push(b'x'),
    }
    replace(text, Some(word), &String::from_utf8_lossy(&letters))
}
