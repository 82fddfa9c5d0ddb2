//! Figures as columns: several runs become median, smallest and largest.

use super::report::{JobFigures, RunFigures};

/// A figure of a run or of a job of it.
pub(crate) struct Column {
    /// What it is called in tables.
    pub(crate) title: &'static str,
    /// What it is called in files, with its unit.
    pub(crate) name: &'static str,
    pub(crate) value: fn(&RunFigures, Option<&JobFigures>) -> Option<f64>,
    pub(crate) show: fn(f64) -> String,
}

/// Smallest, median and largest of values; the median is one of them, of an even number the lower of the two in the middle.
pub(crate) fn spread(values: impl Iterator<Item = f64>) -> Option<[f64; 3]> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (min, max) = (*values.first()?, *values.last()?);
    Some([min, values[(values.len() - 1) / 2], max])
}

/// `median [smallest, largest]`, or one number if they look alike.
pub(crate) fn spread_text(spread: Option<[f64; 3]>, show: fn(f64) -> String) -> String {
    match spread {
        None => "-".to_owned(),
        Some([min, median, max]) => {
            let (low, middle, high) = (show(min), show(median), show(max));
            match low == high {
                true => middle,
                false => format!("{middle} [{low}, {high}]"),
            }
        }
    }
}

/// A field of RFC 4180.
pub(crate) fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
