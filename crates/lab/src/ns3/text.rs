//! InputFiles of words and of columns, read so that an error names its place.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use xoff_telemetry::failure::Failure;

/// Longest word that an error quotes whole.
const QUOTED_MAX: usize = 40;

/// Why a scenario was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A file that cannot be read.
    #[error("{}: {why}", file.display())]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// What the system says.
        why: String,
    },
    /// A file that does not hold what it should.
    #[error("{}:{line}:{column}: {what}; expected {expected}", file.display())]
    Wrong {
        /// Which file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1; of a table, the first character of the field.
        column: usize,
        /// What is wrong.
        what: String,
        /// What there should be.
        expected: String,
    },
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        match error {
            ReadError::Unreadable { file, why } => Failure::configuration(
                "a file of the ns-3 scenario cannot be read",
            )
            .at(file.display().to_string())
            .because(why)
            .fix("a folder holds config.txt, or topology.txt, flow.txt and parameters.txt (docs/oracle.md)"),
            ReadError::Wrong {
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

/// A word or field, and where it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// A line that is not blank.
#[derive(Clone, Debug)]
pub(super) struct Line<'a> {
    pub(super) number: usize,
    pub(super) words: Vec<Word<'a>>,
    /// The column behind its last character.
    end: usize,
}

/// A file.
#[derive(Clone, Debug)]
pub(super) struct Text {
    file: PathBuf,
    content: String,
}

impl Text {
    /// Reads a file.
    pub(super) fn read(file: PathBuf) -> Result<Text, ReadError> {
        match std::fs::read_to_string(&file) {
            Ok(content) => Ok(Text { file, content }),
            Err(error) => Err(ReadError::Unreadable {
                file,
                why: error.to_string(),
            }),
        }
    }

    #[cfg(test)]
    pub(super) fn of(name: &str, content: &str) -> Text {
        Text {
            file: name.into(),
            content: content.into(),
        }
    }

    /// The words of the file in their order, wherever its lines end.
    pub(super) fn words(&self) -> impl Iterator<Item = Word<'_>> {
        self.lines().flat_map(|line| line.words)
    }

    /// The next of `words`; an error if the file ends before it.
    pub(super) fn next<'a>(
        &self,
        words: &mut impl Iterator<Item = Word<'a>>,
        name: &str,
        form: &str,
    ) -> Result<Word<'a>, ReadError> {
        words
            .next()
            .ok_or_else(|| self.ended(format!("{name} is missing"), form))
    }

    /// The lines that are not blank, in words between blanks.
    pub(super) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let split = |text: &str| text.split(char::is_whitespace).map(str::len).collect::<Vec<_>>();
        self.split_lines(split)
            .map(|mut line| {
                line.words.retain(|word| !word.text.is_empty());
                line
            })
            .filter(|line| !line.words.is_empty())
    }

    /// The rows of a table of comma-separated fields behind its header, each with as many fields.
    pub(super) fn rows(&self, header: &[&str]) -> Result<Vec<Line<'_>>, ReadError> {
        let split = |text: &str| text.split(',').map(str::len).collect::<Vec<_>>();
        let mut lines = self
            .split_lines(split)
            .filter(|line| line.words.iter().any(|word| !word.text.trim().is_empty()));
        let expected = || format!("the header {}", header.join(","));
        let Some(first) = lines.next() else {
            return Err(self.wrong(1, 1, "the table is empty", expected()));
        };
        for (at, name) in header.iter().enumerate() {
            match first.words.get(at) {
                Some(word) if word.text.trim() == *name => {}
                Some(word) => {
                    let what = format!("column {} is {}, not {name}", at + 1, quoted(word.text));
                    return Err(self.wrong_word(word, what, expected()));
                }
                None => return Err(self.wrong_end(&first, format!("column {name} is missing"), expected())),
            }
        }
        if let Some(word) = first.words.get(header.len()) {
            return Err(self.wrong_word(
                word,
                format!("an unknown column {}", quoted(word.text)),
                expected(),
            ));
        }
        lines
            .map(|line| {
                let expected = || format!("{} fields: {}", header.len(), header.join(","));
                match line.words.len() {
                    n if n == header.len() => Ok(line),
                    n => Err(self.wrong_end(&line, format!("the row has {n} fields"), expected())),
                }
            })
            .collect()
    }

    /// Lines whose pieces have the lengths that `lengths` says, with one octet between them.
    fn split_lines(&self, lengths: impl Fn(&str) -> Vec<usize>) -> impl Iterator<Item = Line<'_>> {
        self.content.lines().enumerate().map(move |(index, text)| {
            let number = index + 1;
            let (mut at, mut words) = (0, Vec::new());
            for len in lengths(text) {
                let piece = text.get(at..at + len).unwrap_or_default();
                let column = text.get(..at).unwrap_or_default().chars().count() + 1;
                words.push(Word {
                    text: piece,
                    line: number,
                    column,
                });
                let separator = text.get(at + len..).and_then(|rest| rest.chars().next());
                at += len + separator.map_or(0, char::len_utf8);
            }
            Line {
                number,
                words,
                end: text.chars().count() + 1,
            }
        })
    }

    pub(super) fn wrong(
        &self,
        line: usize,
        column: usize,
        what: impl Into<String>,
        expected: impl Into<String>,
    ) -> ReadError {
        ReadError::Wrong {
            file: self.file.clone(),
            line,
            column,
            what: what.into(),
            expected: expected.into(),
        }
    }

    /// Something is wrong with a word.
    pub(super) fn wrong_word(
        &self,
        word: &Word<'_>,
        what: impl Into<String>,
        expected: impl Into<String>,
    ) -> ReadError {
        self.wrong(word.line, word.column, what, expected)
    }

    /// Something is missing at the end of a line.
    pub(super) fn wrong_end(
        &self,
        line: &Line<'_>,
        what: impl Into<String>,
        expected: impl Into<String>,
    ) -> ReadError {
        self.wrong(line.number, line.end, what, expected)
    }

    /// Something is missing at the end of the file.
    pub(super) fn ended(&self, what: impl Into<String>, expected: impl Into<String>) -> ReadError {
        self.wrong(self.content.lines().count() + 1, 1, what, expected)
    }

    /// A number within a range.
    pub(super) fn number<T>(
        &self,
        word: &Word<'_>,
        name: &str,
        range: RangeInclusive<T>,
    ) -> Result<T, ReadError>
    where
        T: FromStr + PartialOrd + fmt::Display,
    {
        let expected = || format!("a number from {} to {}", range.start(), range.end());
        match word.text.trim().parse::<T>() {
            Ok(number) if range.contains(&number) => Ok(number),
            Ok(number) => Err(self.wrong_word(word, format!("{name} is {number}"), expected())),
            Err(_) => {
                let what = format!("{name} is {}, which is no such number", quoted(word.text));
                Err(self.wrong_word(word, what, expected()))
            }
        }
    }
}

/// A word in quotes, cut where it is long.
pub(super) fn quoted(text: &str) -> String {
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
    fn words_know_their_place() {
        let text = Text::of("t", "\n a  bb\n\nc\u{e9} d\n");
        let lines: Vec<Line<'_>> = text.lines().collect();
        let places: Vec<(&str, usize, usize)> = lines
            .iter()
            .flat_map(|line| &line.words)
            .map(|word| (word.text, word.line, word.column))
            .collect();
        assert_eq!(
            places,
            [("a", 2, 2), ("bb", 2, 5), ("c\u{e9}", 4, 1), ("d", 4, 4)]
        );
    }

    #[test]
    fn a_table_has_the_columns_that_are_asked_for() {
        let header = ["a", "bc"];
        let rows = |content: &str| {
            let text = Text::of("t.csv", content);
            text.rows(&header)
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
                "t.csv:3:2: the row has 1 fields; expected 2 fields: a,bc",
            ),
        ] {
            assert_eq!(rows(content), Err(error.to_owned()));
        }
    }

    #[test]
    fn numbers_have_a_range() {
        let text = Text::of("t", "7 x 99999999999999999999");
        let line = text.lines().next().unwrap();
        assert_eq!(text.number(&line.words[0], "n", 0_u8..=9), Ok(7));
        let error = |at: usize| {
            text.number(&line.words[at], "n", 0_u8..=6)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(error(0), "t:1:1: n is 7; expected a number from 0 to 6");
        assert_eq!(
            error(1),
            "t:1:3: n is \"x\", which is no such number; expected a number from 0 to 6"
        );
        assert!(error(2).contains("no such number"));
    }
}
