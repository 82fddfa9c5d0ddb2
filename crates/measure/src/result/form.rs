//! A result as text: a table for people, JSON, CSV, and what trackers of benchmarks read.

use crate::choice::named_choices;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{BenchResult, Better, Figure, Spread};
use xoff_telemetry::simple_table;

named_choices! {
    /// How a result is printed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Form {
        #[default]
        Table = "table": "For people",
        Json = "json": "All there is (docs/bench.md); `bench compare` reads it",
        Csv = "csv": "A line for each figure",
        GhaSmaller = "gha-smaller": "What github-action-benchmark reads as customSmallerIsBetter: figures of which less is better",
        GhaBigger = "gha-bigger": "What it reads as customBiggerIsBetter: the others",
    }
}

impl BenchResult {
    /// The result in this form, with a final line break.
    pub fn to_form(&self, form: Form) -> String {
        match form {
            Form::Table => self.table(),
            Form::Json => pretty(&serde_json::to_value(self).expect("figures have string keys")),
            Form::Csv => self.csv(),
            Form::GhaSmaller => self.gha(Better::Smaller),
            Form::GhaBigger => self.gha(Better::Bigger),
        }
    }

    fn table(&self) -> String {
        let rows = self.figures.iter().map(|figure| {
            let spread = figure.spread();
            let interval = match figure.samples.len() {
                1 => "-".to_owned(),
                _ => format!("{} to {}", number(spread.low), number(spread.high)),
            };
            vec![
                figure.name.clone(),
                figure.unit.clone(),
                number(spread.median),
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
        text
    }

    fn csv(&self) -> String {
        let mut text = "bench,subject,figure,unit,better,median,low,high,samples,tainted\n".to_owned();
        for figure in &self.figures {
            let Spread { median, low, high } = figure.spread();
            let _ = writeln!(
                text,
                "{},{},{},{},{},{median},{low},{high},{},{}",
                quoted(&self.bench),
                quoted(&self.subject),
                quoted(&figure.name),
                quoted(&figure.unit),
                figure.better.word(),
                figure.samples.len(),
                !self.tainted.is_empty()
            );
        }
        text
    }

    /// <https://github.com/benchmark-action/github-action-benchmark>, "custom" tools: an array of name, unit, value, range and extra.
    fn gha(&self, better: Better) -> String {
        let entry = |figure: &Figure| {
            let spread = figure.spread();
            json!({
                "name": format!("{}/{}", self.bench, figure.name),
                "unit": figure.unit,
                "value": spread.median,
                "range": format!("{} to {}", number(spread.low), number(spread.high)),
                "extra": self.tainted.join("; "),
            })
        };
        let of_kind = self.figures.iter().filter(|figure| figure.better == better);
        pretty(&Value::Array(of_kind.map(entry).collect()))
    }
}

/// Four significant digits, thousands apart.
fn number(value: f64) -> String {
    if value == 0.0 || value.abs() >= 1_000.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        return sign.to_owned() + &xoff_telemetry::group_thousands(value.abs().round() as u64);
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 9) as usize)
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("a JSON value") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> BenchResult {
        let mut result = BenchResult::new("ndr", "a, \"b\"", 7);
        result.figures = vec![
            Figure::new(
                "1082/rate",
                "frames/s",
                Better::Bigger,
                vec![500_000.0, 510_000.0, 490_000.0],
            ),
            Figure::new("1082/p99", "us", Better::Smaller, vec![12.345]),
        ];
        result.tainted = vec!["steal 3.1 %".to_owned()];
        result
    }

    #[test]
    fn json_comes_back_as_it_was() {
        let text = result().to_form(Form::Json);
        assert_eq!(serde_json::from_str::<BenchResult>(&text).unwrap(), result());
    }

    #[test]
    fn a_table_has_medians_and_taints() {
        let text = result().to_form(Form::Table);
        assert!(text.contains("500,000"), "{text}");
        assert!(text.contains("12.35"), "{text}");
        assert!(text.contains("tainted: steal"), "{text}");
    }

    #[test]
    fn numbers_keep_their_sign() {
        let forms = [0.0, -0.5, 999.0, -999.0, -1_000.0, -12_345.6, 12_345.6].map(number);
        assert_eq!(
            forms,
            ["0", "-0.5000", "999.0", "-999.0", "-1,000", "-12,346", "12,346"]
        );
    }

    #[test]
    fn csv_quotes_what_has_commas() {
        let text = result().to_form(Form::Csv);
        assert!(
            text.contains("ndr,\"a, \"\"b\"\"\",1082/rate,frames/s,bigger,500000,490000,510000,3,true"),
            "{text}"
        );
    }

    #[test]
    fn trackers_get_each_kind_apart() {
        let smaller: Value = serde_json::from_str(&result().to_form(Form::GhaSmaller)).unwrap();
        assert_eq!(smaller[0]["name"], "ndr/1082/p99");
        assert_eq!(smaller.as_array().unwrap().len(), 1);
        let bigger: Value = serde_json::from_str(&result().to_form(Form::GhaBigger)).unwrap();
        assert_eq!(bigger[0]["value"], 500_000.0);
    }
}
