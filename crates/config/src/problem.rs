//! What is wrong with a configuration, said so that a person can fix it.

use std::collections::BTreeMap;
use std::fmt;

use super::natural;

/// One mistake: where it is, what stands there, what may stand there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// File, or files of several layers, that it was found in.
    pub source: String,
    /// Table; empty when the text as a whole is at fault.
    pub table: String,
    /// Key in the table; empty when the table as a whole is at fault.
    pub key: String,
    /// Field of the entry; empty when the entry as a whole is at fault.
    pub field: String,
    /// The value found, if one was.
    pub value: Option<String>,
    /// Why it is refused, and what is allowed.
    pub why: String,
    /// What to do, where that does not follow from `why`.
    pub fix: Option<String>,
}

impl Problem {
    /// A problem at an entry or, with empty names, at what contains it.
    pub(crate) fn at(table: &str, key: &str, field: &str, why: impl Into<String>) -> Problem {
        Problem {
            table: table.to_owned(),
            key: key.to_owned(),
            field: field.to_owned(),
            why: why.into(),
            ..Problem::default()
        }
    }

    pub(crate) fn value(mut self, value: impl Into<String>) -> Problem {
        self.value = Some(value.into());
        self
    }

    pub(crate) fn fix(mut self, fix: impl Into<String>) -> Problem {
        self.fix = Some(fix.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.source.is_empty() {
            write!(f, "{}: ", self.source)?;
        }
        let mut place = self.table.clone();
        if !self.key.is_empty() {
            place = format!("{place}|{}", self.key);
        }
        if !self.field.is_empty() {
            place = format!("{place} {}", self.field);
        }
        if let Some(value) = &self.value {
            place = format!("{place} {value:?}");
        }
        // Names come from the file: a line break in one must not break the report's line.
        for c in place.trim_start().chars() {
            if c.is_control() {
                write!(f, "{}", c.escape_default())?
            } else {
                write!(f, "{c}")?
            }
        }
        if !place.is_empty() {
            f.write_str(": ")?;
        }
        f.write_str(&self.why)?;
        match &self.fix {
            Some(fix) => write!(f, "; {fix}"),
            None => Ok(()),
        }
    }
}

/// Everything wrong with a configuration, sorted, each once, one line each. Never empty as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

/// Most problems that are printed. A person corrects the first ones and looks again.
const PRINTED_MAX: usize = 20;

impl Problems {
    /// One problem of a text as a whole.
    pub fn of_text(source: &str, why: String) -> Problems {
        Problems(vec![Problem {
            source: source.to_owned(),
            why,
            ..Problem::default()
        }])
    }

    /// Exit code of a program that stops because of these.
    pub const EXIT_CODE: u8 = 4;

    /// Sorts and removes repetitions.
    pub(crate) fn new(mut all: Vec<Problem>) -> Problems {
        let place = |p: &Problem| (p.source.clone(), p.value.clone(), p.why.clone());
        all.sort_by(|a, b| {
            natural::compare(&a.table, &b.table)
                .then_with(|| natural::compare(&a.key, &b.key))
                .then_with(|| natural::compare(&a.field, &b.field))
                .then_with(|| place(a).cmp(&place(b)))
        });
        all.dedup();
        Problems(all)
    }

    /// The problems, by table, key and field.
    pub fn as_slice(&self) -> &[Problem] {
        &self.0
    }

    pub(crate) fn into_vec(self) -> Vec<Problem> {
        self.0
    }
}

/// A line for each of the first 20 problems, and a line with the number of those left out. Problems that differ in their keys
/// alone, such as the users of a profile that is missing, share a line.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.groups();
        for (n, (first, others)) in groups.iter().take(PRINTED_MAX).enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            match others {
                0 => write!(f, "{first}")?,
                others => {
                    let key = format!("{} and {others} more", first.key);
                    let line = Problem {
                        key,
                        ..(*first).clone()
                    };
                    write!(f, "{line}")?;
                }
            }
        }
        let left_out = groups.iter().skip(PRINTED_MAX);
        match left_out.map(|(_, others)| others + 1).sum::<usize>() {
            0 => Ok(()),
            1 => f.write_str("\nand 1 more error; JSON output has all"),
            more => write!(f, "\nand {more} more errors; JSON output has all"),
        }
    }
}

impl Problems {
    /// The first of the problems that differ in their keys alone, and the number of the others, by the first ones.
    fn groups(&self) -> Vec<(&Problem, usize)> {
        type Alike<'a> = (
            &'a str,
            &'a str,
            &'a str,
            Option<&'a str>,
            &'a str,
            Option<&'a str>,
        );
        let mut groups: Vec<(&Problem, usize)> = Vec::new();
        let mut numbers: BTreeMap<Alike<'_>, usize> = BTreeMap::new();
        for problem in &self.0 {
            let alike = (
                problem.source.as_str(),
                problem.table.as_str(),
                problem.field.as_str(),
                problem.value.as_deref(),
                problem.why.as_str(),
                problem.fix.as_deref(),
            );
            match numbers.get(&alike) {
                Some(&number) if !problem.key.is_empty() => groups[number].1 += 1,
                _ => {
                    numbers.insert(alike, groups.len());
                    groups.push((problem, 0));
                }
            }
        }
        groups
    }
}

impl std::error::Error for Problems {}
