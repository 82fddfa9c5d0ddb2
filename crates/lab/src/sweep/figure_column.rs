//! Columns of result tables, and the median and the range of a figure over several runs.

use super::report::{JobFigures, RunFigures};

/// A column of a result table: one figure of a run or of one of its jobs.
pub(crate) struct FigureColumn {
    /// Title of the column in tables.
    pub(crate) title: &'static str,
    /// Name of the figure in files, with its unit.
    pub(crate) name: &'static str,
    /// Returns the value of the figure for a run and, in a row of a job, for the job.
    pub(crate) value: fn(&RunFigures, Option<&JobFigures>) -> Option<f64>,
    /// Formats a value for tables.
    pub(crate) format: fn(f64) -> String,
}

/// Returns the smallest value, the median and the largest value. The median of an even number of values is
/// the lower one of the two middle values. Returns `None` without values.
pub(crate) fn min_median_max(values: impl Iterator<Item = f64>) -> Option<[f64; 3]> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (min, max) = (*values.first()?, *values.last()?);
    Some([min, values[(values.len() - 1) / 2], max])
}

/// Formats smallest value, median and largest value as `median [smallest, largest]`. If all three have the
/// same text, the result is one number.
pub(crate) fn format_median_and_range(min_median_max: Option<[f64; 3]>, format: fn(f64) -> String) -> String {
    match min_median_max {
        None => "-".to_owned(),
        Some([min, median, max]) => {
            let (low, middle, high) = (format(min), format(median), format(max));
            match low == high {
                true => middle,
                false => format!("{middle} [{low}, {high}]"),
            }
        }
    }
}

/// Formats a text as a field of a CSV file (RFC 4180).
pub(crate) fn csv_field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
