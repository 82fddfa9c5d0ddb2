//! Reads text files that consist of words or table rows. Every error contains the file, line and column.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use xoff_telemetry::failure::Failure;

/// Largest number of characters of a word that an error quotes.
const QUOTED_MAX: usize = 40;

/// The reason why a file of an ns-3 scenario was not read: the file is unreadable, or its contents
/// are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A file cannot be read.
    #[error("{}: {why}", file.display())]
    Unreadable {
        /// Path of the file.
        file: PathBuf,
        /// Error message of the operating system.
        why: String,
    },
    /// A file has invalid contents.
    #[error("{}:{line}:{column}: {what}; expected {expected}", file.display())]
    Invalid {
        /// Path of the file.
        file: PathBuf,
        /// Line, from 1. If text is missing at the end of the file, the line is the one after the last line.
        line: usize,
        /// Column of the invalid word in characters, from 1. In a table, this is the first character of
        /// the field.
        column: usize,
        /// Description of the error, with the invalid value.
        what: String,
        /// Description of valid contents at this position.
        expected: String,
    },
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        match error {
            ReadError::Unreadable { file, why } => {
                Failure::configuration("a file of the ns-3 scenario cannot be read")
                    .at(file.display().to_string())
                    .because(why)
                    .fix(format!(
                        "give a configuration file, or a folder that contains it as config.txt or parameters.txt; its \
                         settings TOPOLOGY_FILE and FLOW_FILE name two more files, which are topology.txt and flow.txt in \
                         the same folder if the settings are missing: put the file at {}, or correct the path",
                        file.display()
                    ))
            }
            ReadError::Invalid {
                file,
                line,
                column,
                what,
                expected,
            } => Failure::configuration(what)
                .at(format!("{}:{line}:{column}", file.display()))
                .fix(format!("expected {expected}")),
        }
    }
}

/// A word or table field with its position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InputWord<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// A line that is not blank.
#[derive(Clone, Debug)]
pub(super) struct TextLine<'a> {
    pub(super) number: usize,
    pub(super) words: Vec<InputWord<'a>>,
    /// Column after the last character.
    end: usize,
}

/// The contents of an input file.
#[derive(Clone, Debug)]
pub(super) struct InputText {
    file: PathBuf,
    content: String,
}

impl InputText {
    /// Reads a file.
    pub(super) fn read(file: PathBuf) -> Result<InputText, ReadError> {
        match xoff_telemetry::read_input_text(&file, xoff_telemetry::InputLimit::SIMULATION) {
            Ok(content) => Ok(InputText { file, content }),
            Err(error) => Err(ReadError::Unreadable {
                file,
                why: error.to_string(),
            }),
        }
    }

    #[cfg(test)]
    pub(super) fn from_content(name: &str, content: &str) -> InputText {
        InputText {
            file: name.into(),
            content: content.into(),
        }
    }

    /// Returns all words of the file in order. Line ends have no meaning.
    pub(super) fn words(&self) -> impl Iterator<Item = InputWord<'_>> {
        self.lines().flat_map(|line| line.words)
    }

    /// Returns the next word. At the end of the file, returns an error that uses `name` for the missing word
    /// and `form` for the expected text.
    pub(super) fn next_word<'a>(
        &self,
        words: &mut impl Iterator<Item = InputWord<'a>>,
        name: &str,
        form: &str,
    ) -> Result<InputWord<'a>, ReadError> {
        words
            .next()
            .ok_or_else(|| self.error_at_end(format!("{name} is missing"), form))
    }

    /// Returns the lines that are not blank, split at white space.
    pub(super) fn lines(&self) -> impl Iterator<Item = TextLine<'_>> {
        let split = |text: &str| text.split(char::is_whitespace).map(str::len).collect::<Vec<_>>();
        self.split_lines(split)
            .map(|mut line| {
                line.words.retain(|word| !word.text.is_empty());
                line
            })
            .filter(|line| !line.words.is_empty())
    }

    /// Returns the rows of a table with comma-separated fields. The first line must contain the column names
    /// in `header`.
    pub(super) fn table_rows(&self, header: &[&str]) -> Result<Vec<TextLine<'_>>, ReadError> {
        let split = |text: &str| text.split(',').map(str::len).collect::<Vec<_>>();
        let mut lines = self
            .split_lines(split)
            .filter(|line| line.words.iter().any(|word| !word.text.trim().is_empty()));
        let expected = || format!("the header {}", header.join(","));
        let Some(first) = lines.next() else {
            return Err(self.error_at(1, 1, "the table is empty", expected()));
        };
        for (index, name) in header.iter().enumerate() {
            match first.words.get(index) {
                Some(word) if word.text.trim() == *name => {}
                Some(word) => {
                    let what = format!("column {} is {}, not {name}", index + 1, quote(word.text));
                    return Err(self.error_at_word(word, what, expected()));
                }
                None => {
                    return Err(self.error_at_line_end(
                        &first,
                        format!("column {name} is missing"),
                        expected(),
                    ));
                }
            }
        }
        if let Some(word) = first.words.get(header.len()) {
            return Err(self.error_at_word(
                word,
                format!("an unknown column {}", quote(word.text)),
                expected(),
            ));
        }
        lines
            .map(|line| {
                let field_count = |count: usize| xoff_telemetry::count_noun(count as u64, "field");
                let expected = || format!("{}: {}", field_count(header.len()), header.join(","));
                match line.words.len() {
                    n if n == header.len() => Ok(line),
                    n => Err(self.error_at_line_end(
                        &line,
                        format!("the row has {}", field_count(n)),
                        expected(),
                    )),
                }
            })
            .collect()
    }

    /// Splits each line into words, with one separating character between them. `lengths` returns the lengths
    /// of the words of a line in bytes.
    fn split_lines(&self, lengths: impl Fn(&str) -> Vec<usize>) -> impl Iterator<Item = TextLine<'_>> {
        self.content.lines().enumerate().map(move |(index, text)| {
            let number = index + 1;
            let (mut start, mut words) = (0, Vec::new());
            for len in lengths(text) {
                let piece = text.get(start..start + len).unwrap_or_default();
                let column = text.get(..start).unwrap_or_default().chars().count() + 1;
                words.push(InputWord {
                    text: piece,
                    line: number,
                    column,
                });
                let separator = text.get(start + len..).and_then(|rest| rest.chars().next());
                start += len + separator.map_or(0, char::len_utf8);
            }
            TextLine {
                number,
                words,
                end: text.chars().count() + 1,
            }
        })
    }

    /// Returns an error at a line and column.
    pub(super) fn error_at(
        &self,
        line: usize,
        column: usize,
        what: impl Into<String>,
        expected: impl Into<String>,
    ) -> ReadError {
        ReadError::Invalid {
            file: self.file.clone(),
            line,
            column,
            what: what.into(),
            expected: expected.into(),
        }
    }

    /// Returns an error at the position of a word.
    pub(super) fn error_at_word(
        &self,
        word: &InputWord<'_>,
        what: impl Into<String>,
        expected: impl Into<String>,
    ) -> ReadError {
        self.error_at(word.line, word.column, what, expected)
    }

    /// Returns an error at the end of a line.
    pub(super) fn error_at_line_end(
        &self,
        line: &TextLine<'_>,
        what: impl Into<String>,
        expected: impl Into<String>,
    ) -> ReadError {
        self.error_at(line.number, line.end, what, expected)
    }

    /// Returns an error at the end of the file.
    pub(super) fn error_at_end(&self, what: impl Into<String>, expected: impl Into<String>) -> ReadError {
        self.error_at(self.content.lines().count() + 1, 1, what, expected)
    }

    /// Parses a word as a number within `range`. `name` is the name of the number in an error message.
    pub(super) fn parse_number<T>(
        &self,
        word: &InputWord<'_>,
        name: &str,
        range: RangeInclusive<T>,
    ) -> Result<T, ReadError>
    where
        T: FromStr + PartialOrd + fmt::Display,
    {
        let expected = || format!("a number from {} to {}", range.start(), range.end());
        match word.text.trim().parse::<T>() {
            Ok(number) if range.contains(&number) => Ok(number),
            Ok(number) => Err(self.error_at_word(word, format!("{name} is {number}"), expected())),
            Err(_) => {
                let what = format!("{name} is {}, which is not a valid number", quote(word.text));
                Err(self.error_at_word(word, what, expected()))
            }
        }
    }
}

/// Returns a word in quotes. A word with more than [`QUOTED_MAX`] characters is cut.
pub(super) fn quote(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_line_and_column() {
        let text = InputText::from_content("t", "\n a  bb\n\nc\u{e9} d\n");
        let lines: Vec<TextLine<'_>> = text.lines().collect();
        let positions: Vec<(&str, usize, usize)> = lines
            .iter()
            .flat_map(|line| &line.words)
            .map(|word| (word.text, word.line, word.column))
            .collect();
        assert_eq!(
            positions,
            [("a", 2, 2), ("bb", 2, 5), ("c\u{e9}", 4, 1), ("d", 4, 4)]
        );
    }

    #[test]
    fn table_header_and_row_lengths_are_checked() {
        let header = ["a", "bc"];
        let rows = |content: &str| {
            let text = InputText::from_content("t.csv", content);
            text.table_rows(&header)
                .map(|rows| rows.len())
                .map_err(|e| e.to_string())
        };
        assert_eq!(rows("a,bc\n1,2\n\n3,4\n"), Ok(2));
        for (content, error) in [
            ("", "t.csv:1:1: the table is empty; expected the header a,bc"),
            (
                "a,b\n1,2\n",
                "t.csv:1:3: column 2 is \"b\", not bc; expected the header a,bc",
            ),
            (
                "a\n1\n",
                "t.csv:1:2: column bc is missing; expected the header a,bc",
            ),
            (
                "a,bc,d\n",
                "t.csv:1:6: an unknown column \"d\"; expected the header a,bc",
            ),
            (
                "a,bc\n1,2\n1\n",
                "t.csv:3:2: the row has 1 field; expected 2 fields: a,bc",
            ),
        ] {
            assert_eq!(rows(content), Err(error.to_owned()));
        }
    }

    #[test]
    fn numbers_outside_the_range_are_refused() {
        let text = InputText::from_content("t", "7 x 99999999999999999999");
        let line = text.lines().next().unwrap();
        assert_eq!(text.parse_number(&line.words[0], "n", 0_u8..=9), Ok(7));
        let error = |at: usize| {
            text.parse_number(&line.words[at], "n", 0_u8..=6)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(error(0), "t:1:1: n is 7; expected a number from 0 to 6");
        assert_eq!(
            error(1),
            "t:1:3: n is \"x\", which is not a valid number; expected a number from 0 to 6"
        );
        assert!(error(2).contains("not a valid number"));
    }
}
