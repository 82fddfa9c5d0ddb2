//! The file `pg_profile_lookup.ini`: sizes of lossless buffer profiles by port speed and cable length.
//!
//! SONiC ships one such file for each SKU. In the traditional buffer model, the daemon `buffermgrd` reads the
//! file and creates the profile `pg_lossless_SPEED_CABLE_profile` for each lossless port. The function
//! `BufferMgr::readPgProfileLookupFile` of sonic-swss defines the format:
//!
//! ```text
//! # speed  cable  size   xon    xoff   threshold  xon_offset
//!   100000 5m     1248   2288   177632 0          2288
//! ```
//!
//! Blanks separate the columns. Lines that begin with `#` are comments. The column `xon_offset` is
//! optional, and all further columns are ignored. A later row replaces an earlier row with the same speed
//! and cable length.

use std::collections::BTreeMap;

use super::problem::{Problem, Problems};
use super::schema;

const COLUMNS: &str = "speed cable size xon xoff threshold [xon_offset]";

/// The rows of a file `pg_profile_lookup.ini`: the sizes of lossless buffer profiles, by port speed and
/// cable length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PgProfileLookup {
    source: String,
    rows: BTreeMap<(String, String), PgProfileRow>,
}

/// The sizes of a profile in bytes, as they are in one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PgProfileRow {
    pub(crate) size: String,
    pub(crate) xon: String,
    pub(crate) xoff: String,
    /// The value of `dynamic_th` or `static_th`. The mode of `ingress_lossless_pool` determines which field
    /// is set.
    pub(crate) threshold: String,
    pub(crate) xon_offset: Option<String>,
}

impl PgProfileLookup {
    /// Parses the text of a file `pg_profile_lookup.ini`. Error messages use `source` as the name of
    /// the file.
    ///
    /// # Errors
    ///
    /// Returns all rows with an error: a row has too few columns, a value is not a whole number, or the cable
    /// length does not end with `m`.
    pub fn parse(text: &str, source: &str) -> Result<PgProfileLookup, Problems> {
        let mut profiles = PgProfileLookup {
            source: source.to_owned(),
            rows: BTreeMap::new(),
        };
        let mut problems = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            match parse_row(line) {
                Ok((link, profile)) => {
                    profiles.rows.insert(link, profile);
                }
                Err(why) => problems.push(Problem {
                    source: format!("{source}:{}", number + 1),
                    why,
                    ..Problem::default()
                }),
            }
        }
        match problems.is_empty() {
            true => Ok(profiles),
            false => Err(Problems::new(problems)),
        }
    }

    /// Returns the name of the file.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the number of different pairs of speed and cable length.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether the file has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the row for a port speed in Mb/s and a cable length such as `5m`. Both values must
    /// match exactly.
    pub(crate) fn find_row(&self, speed_mbps: u32, cable: &str) -> Option<&PgProfileRow> {
        self.rows.get(&(speed_mbps.to_string(), cable.to_owned()))
    }
}

/// Parses one row. Returns the speed and the cable length as the key, and the sizes of the profile.
fn parse_row(line: &str) -> Result<((String, String), PgProfileRow), String> {
    let mut columns = line.split_ascii_whitespace();
    let mut next = |name: &str| {
        columns
            .next()
            .ok_or_else(|| format!("the row has no {name}; expected {COLUMNS}"))
    };
    let speed = parse_whole_number("speed", next("speed")?, "Mb/s")?;
    let cable = next("cable")?.to_owned();
    if schema::parse_cable(&cable).is_none() {
        return Err(format!(
            "cable {cable:?}: expected a length in metres, such as 5m"
        ));
    }
    let mut bytes = |name: &str| parse_whole_number(name, next(name)?, "bytes");
    let (size, xon, xoff) = (bytes("size")?, bytes("xon")?, bytes("xoff")?);
    let threshold = next("threshold")?;
    // A dynamic threshold can be negative. The schema checks the range when the profile is created.
    if threshold.parse::<i64>().is_err() {
        return Err(format!("threshold {threshold:?}: expected a whole number"));
    }
    let xon_offset = match columns.next() {
        Some(text) => Some(parse_whole_number("xon_offset", text, "bytes")?),
        None => None,
    };
    let profile = PgProfileRow {
        size,
        xon,
        xoff,
        threshold: threshold.to_owned(),
        xon_offset,
    };
    Ok(((speed, cable), profile))
}

/// Checks a whole number without a sign, and returns its decimal form.
fn parse_whole_number(name: &str, text: &str, unit: &str) -> Result<String, String> {
    match text.parse::<u64>() {
        Ok(number) => Ok(number.to_string()),
        Err(_) => Err(format!("{name} {text:?}: expected a whole number of {unit}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE_FILE: &str = "# PG lossless profiles.\n# speed cable size xon xoff threshold xon_offset\n\
                        \x20 10000   5m  49152 19456 29696 1\n\n100000\t300m 1248 2288 177632 -2 2288 rest\n\
                        10000 5m 50000 19456 29696 1\n";

    #[test]
    fn rows_are_read_as_buffermgrd_reads_them() {
        let profiles = PgProfileLookup::parse(EXAMPLE_FILE, "lookup.ini").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(profiles.len(), 2);
        let short = profiles.find_row(10_000, "5m").expect("the row of 10 Gb/s");
        assert_eq!(
            (short.size.as_str(), &short.xon_offset),
            ("50000", &None),
            "the later row counts"
        );
        let long = profiles.find_row(100_000, "300m").expect("the row of 100 Gb/s");
        assert_eq!(
            (long.threshold.as_str(), long.xon_offset.as_deref()),
            ("-2", Some("2288"))
        );
        assert_eq!(profiles.find_row(100_000, "5m"), None);
        assert!(PgProfileLookup::parse("", "empty").is_ok_and(|profiles| profiles.is_empty()));
    }

    #[test]
    fn invalid_row_error_contains_the_line_number() {
        for (line, why) in [
            ("100000 5m 1248 2288 177632", "the row has no threshold"),
            ("100000", "the row has no cable"),
            (
                "100G 5m 1 2 3 4",
                "speed \"100G\": expected a whole number of Mb/s",
            ),
            ("100000 5 1 2 3 4", "cable \"5\": expected a length in metres"),
            (
                "100000 5m 1 -2 3 4",
                "xon \"-2\": expected a whole number of bytes",
            ),
            ("100000 5m 1 2 3 x", "threshold \"x\": expected a whole number"),
            (
                "100000 5m 1 2 3 4 y",
                "xon_offset \"y\": expected a whole number of bytes",
            ),
        ] {
            let text = format!("# comment\n{line}\n");
            let problems = PgProfileLookup::parse(&text, "lookup.ini")
                .expect_err(line)
                .to_string();
            assert!(problems.starts_with("lookup.ini:2: "), "{problems}");
            assert!(problems.contains(why), "{problems}");
        }
    }
}
