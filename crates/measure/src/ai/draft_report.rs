//! The report that the IETF draft on AI fabric benchmarking requires: device, topology, configuration, host,
//! results, anomalies and repeatability.

use std::fmt::Write as _;

use crate::result::{BenchFigure, BenchResult};
use xoff_telemetry::{Environment, count_noun};

/// Limit of the coefficient of variation, in percent. By the rules of the IETF draft, a measured value is
/// repeatable if its coefficient of variation is below this limit.
pub const CV_MAX_PERCENT: f64 = 5.0;

/// The texts of a report ([`render_report`]) that do not come from measured values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportSetup {
    /// Description of hosts, switches and links, in Markdown.
    pub topology: String,
    /// Description of the configuration of switches and hosts, in Markdown.
    pub configuration: String,
    /// Command line that reproduces the results.
    pub command: String,
}

/// Returns the coefficient of variation of a figure, in percent. It is the sample standard deviation (n - 1)
/// divided by the absolute value of the mean. Returns `None` for fewer than two samples or a mean of 0.
pub fn coefficient_of_variation_percent(figure: &BenchFigure) -> Option<f64> {
    let count = figure.samples.len() as f64;
    let mean = figure.samples.iter().sum::<f64>() / count;
    if figure.samples.len() < 2 || mean == 0.0 {
        return None;
    }
    let squares: f64 = figure.samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    Some((squares / (count - 1.0)).sqrt() * 100.0 / mean.abs())
}

/// Renders the report that the IETF draft on AI fabric benchmarking requires, in Markdown. `setup` has the
/// descriptions, and `result` the measured figures. `seed_count` is the number of runs, one for each seed.
/// `anomalies` are failed checks and incomplete runs. The user must complete the passages that are marked `TO
/// BE FILLED IN`.
pub fn render_report(
    setup: &ReportSetup,
    result: &BenchResult,
    seed_count: usize,
    anomalies: &[String],
) -> String {
    let environment = Environment::read();
    let fill_in = "TO BE FILLED IN";
    let mut text = format!(
        "# AI fabric benchmark: {}\n\n\
         ## Device under test\n\n\
         | | |\n|---|---|\n\
         | Device | xoff {} (a switch in software, in virtual time: figures do not depend on the machine) |\n\
         | Identification | {fill_in} |\n\n\
         ## Topology\n\n{}\n\n\
         ## Configuration\n\n{}\n\n    {}\n\n\
         ## Host\n\n\
         Hosts are xoff's model hosts. The machine that computed them: {}, {}, Linux {}.\n\n\
         ## Results\n\n\
         Medians over {}, one for each seed, with the 95 % interval of the median (for fewer than six runs: smallest and largest).\n\n\
         | Figure | Unit | Median | Low | High | CV |\n|---|---|---:|---:|---:|---:|\n",
        result.subject,
        env!("CARGO_PKG_VERSION"),
        setup.topology,
        setup.configuration,
        setup.command,
        environment.cpu_model.as_deref().unwrap_or("unknown processor"),
        count_noun(environment.cores as u64, "core"),
        environment.kernel.as_deref().unwrap_or("unknown"),
        count_noun(seed_count as u64, "run"),
    );
    for figure in &result.figures {
        let spread = figure.spread();
        let cv = coefficient_of_variation_percent(figure).map_or("-".to_owned(), |cv| format!("{cv:.1} %"));
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {cv} |",
            figure.name,
            figure.unit,
            format_value(spread.median),
            format_value(spread.low),
            format_value(spread.high)
        );
    }
    text.push_str("\n## Anomalies\n\n");
    match anomalies {
        [] => text.push_str("None.\n"),
        some => text.extend(some.iter().map(|what| format!("- {what}\n"))),
    }
    text.push_str(&render_repeatability(result, seed_count));
    text
}

fn render_repeatability(result: &BenchResult, seed_count: usize) -> String {
    let mut text = "\n## Repeatability\n\n".to_owned();
    if seed_count < 2 {
        text.push_str("A single run does not show repeatability.\n");
        return text;
    }
    let not_repeatable: Vec<String> = result
        .figures
        .iter()
        .filter_map(|figure| {
            Some((
                figure,
                coefficient_of_variation_percent(figure).filter(|cv| *cv >= CV_MAX_PERCENT)?,
            ))
        })
        .map(|(figure, cv)| format!("- `{}`: {cv:.1} %", figure.name))
        .collect();
    let _ = writeln!(
        text,
        "The same seed gives the same figures, bit for bit. Over seeds (other hash seeds and random decisions), the \
         coefficient of variation is below {CV_MAX_PERCENT} % for {} of {}.",
        result.figures.len() - not_repeatable.len(),
        count_noun(result.figures.len() as u64, "figure")
    );
    if !not_repeatable.is_empty() {
        let _ = writeln!(text, "\nThe others:\n\n{}", not_repeatable.join("\n"));
    }
    text
}

/// Formats a value as an integer or with four decimals.
fn format_value(value: f64) -> String {
    match value.fract() == 0.0 && value.abs() < 1e15 {
        true => format!("{value:.0}"),
        false => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::ImprovementDirection;

    fn jct_figure(samples: &[f64]) -> BenchFigure {
        BenchFigure::new(
            "allreduce/jct",
            "ns",
            ImprovementDirection::Smaller,
            samples.to_vec(),
        )
    }

    #[test]
    fn coefficient_of_variation_is_deviation_over_mean() {
        assert_eq!(coefficient_of_variation_percent(&jct_figure(&[5.0])), None);
        assert_eq!(coefficient_of_variation_percent(&jct_figure(&[0.0, 0.0])), None);
        assert_eq!(
            coefficient_of_variation_percent(&jct_figure(&[3.0, 3.0, 3.0])),
            Some(0.0)
        );
        // The standard deviation is sqrt(2), and the mean is 1.
        let cv = coefficient_of_variation_percent(&jct_figure(&[0.0, 2.0])).unwrap();
        assert!((cv - 141.421_356).abs() < 1e-3, "{cv}");
    }

    #[test]
    fn a_report_has_all_sections_and_names_figures_that_vary() {
        let mut result = BenchResult::new("ai", "a fabric", 1);
        result.figures = vec![
            jct_figure(&[100.0, 101.0]),
            BenchFigure::new(
                "allreduce/mmr",
                "ratio",
                ImprovementDirection::Smaller,
                vec![1.0, 2.0],
            ),
        ];
        let setup = ReportSetup {
            topology: "four leaves".to_owned(),
            ..ReportSetup::default()
        };
        let text = render_report(&setup, &result, 2, &["seed 1: lost".to_owned()]);
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
