//! The text formats of a result: table, JSON, CSV and the formats of benchmark trackers.

use crate::choice::named_choices;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{BenchFigure, BenchResult, ImprovementDirection, MedianInterval};
use xoff_telemetry::simple_table;

named_choices! {
    /// The text format of a result.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ResultFormat {
        #[default]
        Table = "table": "A table for people",
        Json = "json": "The complete result (docs/bench.md), input of `bench compare`",
        Csv = "csv": "One line for each figure",
        GhaSmaller = "gha-smaller": "customSmallerIsBetter of github-action-benchmark: figures with smaller values better",
        GhaBigger = "gha-bigger": "customBiggerIsBetter of github-action-benchmark: figures with bigger values better",
    }
}

impl BenchResult {
    /// Returns the result as text in the format `form`, with a final line break.
    pub fn to_text(&self, form: ResultFormat) -> String {
        match form {
            ResultFormat::Table => self.to_table(),
            ResultFormat::Json => {
                to_pretty_json(&serde_json::to_value(self).expect("figures have string keys"))
            }
            ResultFormat::Csv => self.to_csv(),
            ResultFormat::GhaSmaller => self.to_github_action_json(ImprovementDirection::Smaller),
            ResultFormat::GhaBigger => self.to_github_action_json(ImprovementDirection::Bigger),
        }
    }

    fn to_table(&self) -> String {
        let rows = self.figures.iter().map(|figure| {
            let spread = figure.spread();
            let interval = match figure.samples.len() {
                1 => "-".to_owned(),
                _ => format!("{} to {}", format_number(spread.low), format_number(spread.high)),
            };
            vec![
                figure.name.clone(),
                figure.unit.clone(),
                format_number(spread.median),
                interval,
                figure.samples.len().to_string(),
            ]
        });
        let header = ["Figure", "Unit", "Median", "95 % interval", "Samples"];
        let mut text = simple_table(&header, 2, rows.collect());
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        for taint in &self.tainted {
            let _ = writeln!(text, "tainted: {taint}");
        }
        if let Some(missing) = self.traffic().describe_missing() {
            let _ = writeln!(text, "{missing}, so the result proves nothing");
        }
        text
    }

    fn to_csv(&self) -> String {
        let mut text = "bench,subject,figure,unit,better,median,low,high,samples,tainted\n".to_owned();
        for figure in &self.figures {
            let MedianInterval { median, low, high } = figure.spread();
            let _ = writeln!(
                text,
                "{},{},{},{},{},{median},{low},{high},{},{}",
                quote_csv_field(&self.bench),
                quote_csv_field(&self.subject),
                quote_csv_field(&figure.name),
                quote_csv_field(&figure.unit),
                figure.better.name(),
                figure.samples.len(),
                !self.tainted.is_empty()
            );
        }
        text
    }

    /// Returns JSON for the "custom" tools of <https://github.com/benchmark-action/github-action-benchmark>:
    /// an array of objects with `name`, `unit`, `value`, `range` and `extra`. The array contains only the
    /// figures (measured quantities) for which `better` is the better direction, such as smaller values.
    fn to_github_action_json(&self, better: ImprovementDirection) -> String {
        let entry = |figure: &BenchFigure| {
            let spread = figure.spread();
            json!({
                "name": format!("{}/{}", self.bench, figure.name),
                "unit": figure.unit,
                "value": spread.median,
                "range": format!("{} to {}", format_number(spread.low), format_number(spread.high)),
                "extra": self.tainted.join("; "),
            })
        };
        let of_kind = self.figures.iter().filter(|figure| figure.better == better);
        to_pretty_json(&Value::Array(of_kind.map(entry).collect()))
    }
}

/// Formats a number with at least four significant digits, and groups its thousands.
fn format_number(value: f64) -> String {
    if value == 0.0 || value.abs() >= 1_000.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        return sign.to_owned() + &xoff_telemetry::group_thousands(value.abs().round() as u64);
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 9) as usize)
}

fn quote_csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn to_pretty_json(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("a JSON value") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example_result() -> BenchResult {
        let mut result = BenchResult::new("ndr", "a, \"b\"", 7);
        result.figures = vec![
            BenchFigure::new(
                "1082/rate",
                "frames/s",
                ImprovementDirection::Bigger,
                vec![500_000.0, 510_000.0, 490_000.0],
            ),
            BenchFigure::new("1082/p99", "us", ImprovementDirection::Smaller, vec![12.345]),
        ];
        result.tainted = vec!["steal 3.1 %".to_owned()];
        result
    }

    #[test]
    fn json_round_trip_keeps_the_result() {
        let text = example_result().to_text(ResultFormat::Json);
        assert_eq!(
            serde_json::from_str::<BenchResult>(&text).unwrap(),
            example_result()
        );
    }

    #[test]
    fn table_shows_medians_and_taints() {
        let text = example_result().to_text(ResultFormat::Table);
        assert!(text.contains("500,000"), "{text}");
        assert!(text.contains("12.35"), "{text}");
        assert!(text.contains("tainted: steal"), "{text}");
    }

    #[test]
    fn formatted_numbers_keep_their_sign() {
        let forms = [0.0, -0.5, 999.0, -999.0, -1_000.0, -12_345.6, 12_345.6].map(format_number);
        assert_eq!(
            forms,
            ["0", "-0.5000", "999.0", "-999.0", "-1,000", "-12,346", "12,346"]
        );
    }

    #[test]
    fn csv_quotes_fields_with_commas() {
        let text = example_result().to_text(ResultFormat::Csv);
        assert!(
            text.contains("ndr,\"a, \"\"b\"\"\",1082/rate,frames/s,bigger,500000,490000,510000,3,true"),
            "{text}"
        );
    }

    #[test]
    fn github_action_formats_separate_the_directions() {
        let smaller: Value =
            serde_json::from_str(&example_result().to_text(ResultFormat::GhaSmaller)).unwrap();
        assert_eq!(smaller[0]["name"], "ndr/1082/p99");
        assert_eq!(smaller.as_array().unwrap().len(), 1);
        let bigger: Value = serde_json::from_str(&example_result().to_text(ResultFormat::GhaBigger)).unwrap();
        assert_eq!(bigger[0]["value"], 500_000.0);
    }
}
