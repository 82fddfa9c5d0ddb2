//! Errors of a configuration, with their location and a suggestion.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::natural;

/// One error of a configuration: the location, the refused value, the reason and a suggestion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// Name of the file, or the names of the files of all layers, joined by ` + `. Can be empty.
    pub source: String,
    /// Name of the table. Empty if the error concerns the whole text.
    pub table: String,
    /// Key of the entry. Empty if the error concerns the whole table.
    pub key: String,
    /// Name of the field. Empty if the error concerns the whole entry.
    pub field: String,
    /// The refused value. `None` if the error is not about a value.
    pub value: Option<String>,
    /// The reason for the error, with the accepted values.
    pub why: String,
    /// A suggestion for a correction. `None` if the correction is clear from `why`.
    pub fix: Option<String>,
    /// The name of the port that the entry uses and that does not exist. `None` for all other errors.
    pub missing_port: Option<String>,
}

impl Problem {
    /// Creates an error for a field. If the name of the field, entry or table is empty, the error is for the
    /// whole entry, table or file.
    pub(crate) fn at_field(table: &str, key: &str, field: &str, why: impl Into<String>) -> Problem {
        Problem {
            table: table.to_owned(),
            key: key.to_owned(),
            field: field.to_owned(),
            why: why.into(),
            ..Problem::default()
        }
    }

    /// Adds the refused value.
    pub(crate) fn with_value(mut self, value: impl Into<String>) -> Problem {
        self.value = Some(value.into());
        self
    }

    /// Adds a suggestion.
    pub(crate) fn with_fix(mut self, fix: impl Into<String>) -> Problem {
        self.fix = Some(fix.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.source.is_empty() {
            write!(f, "{}: ", self.source)?;
        }
        let mut location = self.table.clone();
        if !self.key.is_empty() {
            location = format!("{location}|{}", self.key);
        }
        if !self.field.is_empty() {
            location = format!("{location} {}", self.field);
        }
        if let Some(value) = &self.value {
            location = format!("{location} {value:?}");
        }
        // Names come from the file. A control character must not break the line of the message.
        for c in location.trim_start().chars() {
            if c.is_control() {
                write!(f, "{}", c.escape_default())?
            } else {
                write!(f, "{c}")?
            }
        }
        if !location.is_empty() {
            f.write_str(": ")?;
        }
        f.write_str(&self.why)?;
        match &self.fix {
            Some(fix) => write!(f, "; {fix}"),
            None => Ok(()),
        }
    }
}

/// All errors of a configuration, sorted by location and without duplicates. If a function returns this type
/// as an error, the list contains at least one error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

/// Largest number of printed errors. Users usually correct the first errors and check again.
const PRINTED_MAX: usize = 20;

impl Problems {
    /// Creates a list with one error about a whole text. `source` is the name of the text, and `why` is
    /// the reason.
    pub fn for_text(source: &str, why: String) -> Problems {
        Problems(vec![Problem {
            source: source.to_owned(),
            why,
            ..Problem::default()
        }])
    }

    /// Exit code of a program that stops because of these errors.
    pub const EXIT_CODE: u8 = 4;

    /// Sorts the errors and removes duplicates.
    pub(crate) fn new(mut all: Vec<Problem>) -> Problems {
        let location = |p: &Problem| (p.source.clone(), p.value.clone(), p.why.clone());
        all.sort_by(|a, b| {
            natural::compare_naturally(&a.table, &b.table)
                .then_with(|| natural::compare_naturally(&a.key, &b.key))
                .then_with(|| natural::compare_naturally(&a.field, &b.field))
                .then_with(|| location(a).cmp(&location(b)))
        });
        all.dedup();
        Problems(all)
    }

    /// Returns the errors, sorted by table, key and field.
    pub fn as_slice(&self) -> &[Problem] {
        &self.0
    }

    /// Returns the errors as a vector.
    pub(crate) fn into_vec(self) -> Vec<Problem> {
        self.0
    }
}

/// Smallest number of missing ports that share a line. Fewer missing ports can be spelling mistakes, and each
/// has its own suggestion.
const GROUPED_PORTS_MIN: usize = 4;
/// Largest number of names in a line about missing ports.
const NAMED_PORTS_MAX: usize = 4;

/// Writes one line for each of the first 20 errors. If more errors exist, a last line contains their number.
///
/// Errors that differ only in their keys share a line. For example, a missing profile causes one line, even
/// if several priority groups use it. All missing ports share a line if there are more than three.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.group_alike();
        for (n, (first, others)) in groups.iter().take(PRINTED_MAX).enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            match others {
                0 => write!(f, "{first}")?,
                others => {
                    let key = format!("{} and {others} more", first.key);
                    let line = Problem { key, ..first.clone() };
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
    /// Groups the errors that differ only in their keys, and the errors about missing ports. Returns the
    /// first error of each group, and the number of further errors in the group.
    fn group_alike(&self) -> Vec<(Problem, usize)> {
        let missing: BTreeSet<&str> = self
            .0
            .iter()
            .filter_map(|problem| problem.missing_port.as_deref())
            .collect();
        if missing.len() < GROUPED_PORTS_MIN {
            let groups = group_by_keys(self.0.iter()).into_iter();
            return groups.map(|(first, others)| (first.clone(), others)).collect();
        }
        let about_ports: Vec<&Problem> = self.0.iter().filter(|p| p.missing_port.is_some()).collect();
        let others = group_by_keys(self.0.iter().filter(|p| p.missing_port.is_none()));
        let mut groups = vec![(
            describe_missing_ports(&about_ports, &missing),
            about_ports.len() - 1,
        )];
        groups.extend(others.into_iter().map(|(first, others)| (first.clone(), others)));
        groups
    }
}

/// Returns one error for all entries that use missing ports. `about_ports` is not empty.
fn describe_missing_ports(about_ports: &[&Problem], missing: &BTreeSet<&str>) -> Problem {
    let mut names: Vec<&str> = missing.iter().copied().collect();
    names.sort_by(|a, b| natural::compare_naturally(a, b));
    let more = match names.len().saturating_sub(NAMED_PORTS_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(NAMED_PORTS_MAX);
    // The suggestion of a similar name fits one port and not all of them.
    let fixes = about_ports.iter().filter_map(|problem| problem.fix.as_deref());
    let other_source = fixes
        .filter_map(|fix| fix.split_once(", or "))
        .map(|(_, other)| other)
        .next();
    Problem {
        why: format!("there are no ports {}{more}", names.join(", ")),
        fix: Some(match other_source {
            Some(other) => format!("add them to PORT, or {}", other.replacen("it ", "them ", 1)),
            None => "add them to PORT".to_owned(),
        }),
        ..about_ports[0].clone()
    }
}

/// Groups the errors that differ only in their keys. Returns the first error of each group, and the number of
/// further errors in the group.
fn group_by_keys<'a>(problems: impl Iterator<Item = &'a Problem>) -> Vec<(&'a Problem, usize)> {
    type EqualExceptKey<'a> = (
        &'a str,
        &'a str,
        &'a str,
        Option<&'a str>,
        &'a str,
        Option<&'a str>,
    );
    let mut groups: Vec<(&Problem, usize)> = Vec::new();
    let mut numbers: BTreeMap<EqualExceptKey<'_>, usize> = BTreeMap::new();
    for problem in problems {
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

impl std::error::Error for Problems {}
