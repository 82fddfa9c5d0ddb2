//! The results as the AI-fabric draft wants them reported: device, topology, configuration, host, results, anomalies, repeatability.

use std::fmt::Write as _;

use crate::result::{BenchResult, Figure};
use xoff_telemetry::Environment;

/// Coefficient of variation above which the draft does not call a figure repeatable, in percent.
pub const CV_MAX_PERCENT: f64 = 5.0;

/// What stands in a report beside its figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Hosts, switches and links, in words.
    pub topology: String,
    /// How switches and hosts are configured.
    pub configuration: String,
    /// The command that makes these results again.
    pub command: String,
}

/// Standard deviation over mean, in percent: of the sample (n - 1). `None`: fewer than two samples, or a mean of 0.
pub fn cv_percent(figure: &Figure) -> Option<f64> {
    let count = figure.samples.len() as f64;
    let mean = figure.samples.iter().sum::<f64>() / count;
    if figure.samples.len() < 2 || mean == 0.0 {
        return None;
    }
    let squares: f64 = figure.samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    Some((squares / (count - 1.0)).sqrt() * 100.0 / mean.abs())
}

/// The report, in Markdown. What only people know is left open, marked `TO BE FILLED IN`.
pub fn draft(setup: &Setup, result: &BenchResult, seeds: usize, anomalies: &[String]) -> String {
    let environment = Environment::read();
    let open = "TO BE FILLED IN";
    let mut text = format!(
        "# AI fabric benchmark: {}\n\n\
         ## Device under test\n\n\
         | | |\n|---|---|\n\
         | Device | xoff {} (a switch in software, in virtual time: figures hang on no machine) |\n\
         | Identification | {open} |\n\n\
         ## Topology\n\n{}\n\n\
         ## Configuration\n\n{}\n\n    {}\n\n\
         ## Host\n\n\
         Hosts are xoff's model hosts. The machine that computed them: {}, {} cores, Linux {}.\n\n\
         ## Results\n\n\
         Medians over {seeds} runs, one for each seed, with the 95 % interval of the median (of fewer than six runs: smallest and largest).\n\n\
         | Figure | Unit | Median | Low | High | CV |\n|---|---|---:|---:|---:|---:|\n",
        result.subject,
        env!("CARGO_PKG_VERSION"),
        setup.topology,
        setup.configuration,
        setup.command,
        environment.cpu_model.as_deref().unwrap_or("unknown processor"),
        environment.cores,
        environment.kernel.as_deref().unwrap_or("unknown"),
    );
    for figure in &result.figures {
        let spread = figure.spread();
        let cv = cv_percent(figure).map_or("-".to_owned(), |cv| format!("{cv:.1} %"));
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {cv} |",
            figure.name,
            figure.unit,
            short(spread.median),
            short(spread.low),
            short(spread.high)
        );
    }
    text.push_str("\n## Anomalies\n\n");
    match anomalies {
        [] => text.push_str("None.\n"),
        some => text.extend(some.iter().map(|what| format!("- {what}\n"))),
    }
    text.push_str(&repeatability(result, seeds));
    text
}

fn repeatability(result: &BenchResult, seeds: usize) -> String {
    let mut text = "\n## Repeatability\n\n".to_owned();
    if seeds < 2 {
        text.push_str("A single run says nothing of it.\n");
        return text;
    }
    let beyond: Vec<String> = result
        .figures
        .iter()
        .filter_map(|figure| Some((figure, cv_percent(figure).filter(|cv| *cv >= CV_MAX_PERCENT)?)))
        .map(|(figure, cv)| format!("- `{}`: {cv:.1} %", figure.name))
        .collect();
    let _ = writeln!(
        text,
        "The same seed gives the same figures, bit for bit. Over seeds (other hash seeds and random decisions), {} of {} figures have a \
         coefficient of variation below {CV_MAX_PERCENT} %.",
        result.figures.len() - beyond.len(),
        result.figures.len()
    );
    if !beyond.is_empty() {
        let _ = writeln!(text, "\nThe others:\n\n{}", beyond.join("\n"));
    }
    text
}

/// Six significant digits at most.
fn short(value: f64) -> String {
    match value.fract() == 0.0 && value.abs() < 1e15 {
        true => format!("{value:.0}"),
        false => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Better;

    fn figure(samples: &[f64]) -> Figure {
        Figure::new("allreduce/jct", "ns", Better::Smaller, samples.to_vec())
    }

    #[test]
    fn variation_is_deviation_over_mean() {
        assert_eq!(cv_percent(&figure(&[5.0])), None);
        assert_eq!(cv_percent(&figure(&[0.0, 0.0])), None);
        assert_eq!(cv_percent(&figure(&[3.0, 3.0, 3.0])), Some(0.0));
        // Deviation sqrt(2), mean 1.
        let cv = cv_percent(&figure(&[0.0, 2.0])).unwrap();
        assert!((cv - 141.421_356).abs() < 1e-3, "{cv}");
    }

    #[test]
    fn a_report_has_all_parts_and_names_what_varies() {
        let mut result = BenchResult::new("ai", "a fabric", 1);
        result.figures = vec![
            figure(&[100.0, 101.0]),
            Figure::new("allreduce/mmr", "ratio", Better::Smaller, vec![1.0, 2.0]),
        ];
        let setup = Setup {
            topology: "four leaves".to_owned(),
            ..Setup::default()
        };
        let text = draft(&setup, &result, 2, &["seed 1: lost".to_owned()]);
        for part in [
            "Device under test",
            "Topology",
            "Configuration",
            "Host",
            "Results",
            "Anomalies",
            "Repeatability",
        ] {
            assert!(text.contains(&format!("## {part}")), "{part}");
        }
        assert!(text.contains("1 of 2 figures"), "{text}");
        assert!(text.contains("- `allreduce/mmr`: 47.1 %"), "{text}");
        assert!(text.contains("- seed 1: lost"));
    }
}
