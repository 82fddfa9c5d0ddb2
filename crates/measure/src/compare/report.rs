//! The report of a comparison, as text and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::figure_pairs::has_zeros_and_positive_values;
use super::settings::ComparisonSettings;
use super::statistics::{ShiftEstimate, pairs_min, samples_per_side_min};
use super::verdict::{SignificanceTestPlan, Verdict};
use crate::result::{BenchFigure, ImprovementDirection};
use xoff_telemetry::failure::Exit;
use xoff_telemetry::{Environment, count_noun};

/// Name and version of the JSON format of a comparison.
pub const COMPARISON_SCHEMA: &str = "xoff-compare/1";

/// The relation between the samples of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SampleKind {
    /// Pairs that were measured in turns.
    Pairs,
    /// Samples of a saved result and of the other side.
    Separate,
}

impl SampleKind {
    /// Describes how many samples there are, how many a confidence interval needs, and how to get them.
    fn describe_shortage(self, [a, b]: [usize; 2], alpha: f64) -> String {
        match self {
            SampleKind::Pairs => {
                let needed = pairs_min(alpha);
                format!("{a} of at least {needed} pairs (--rounds)")
            }
            SampleKind::Separate => {
                let needed = samples_per_side_min(alpha);
                format!("A has {a} and B has {b}, each side needs {needed}")
            }
        }
    }
}

/// The comparison of one figure (measured quantity): values of both sides and verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// Name of the figure, such as `ecmp/time`.
    pub name: String,
    /// Unit of the medians, such as `ns` or `frames/s`.
    pub unit: String,
    /// Direction in which the figure improves.
    pub better: ImprovementDirection,
    /// Medians of A and B, in this order.
    pub medians: [f64; 2],
    /// Percentage by which B is worse than A. The percentage is negative if B is better.
    ///
    /// If smaller values are better (a time), the percentage is relative to A. If larger values are better (a
    /// rate), the percentage is relative to B: 100 % worse means half of the rate. The value is `None` if a
    /// sample of 0 makes the ratio meaningless.
    pub worse_percent: Option<f64>,
    /// Lower bound of the confidence interval of `worse_percent`.
    ///
    /// `None` if there are too few samples for an interval, or if the bound depends on a sample of 0.
    pub low_percent: Option<f64>,
    /// Upper bound of the confidence interval of `worse_percent`. `None` in the same cases as
    /// for `low_percent`.
    pub high_percent: Option<f64>,
    /// If there are too few samples for a confidence interval: the numbers of samples, as text.
    #[serde(skip)]
    too_few_samples: Option<String>,
    /// p-value of the hypothesis that A and B do not differ, 0 to 1. It is corrected for the number of
    /// figures and evaluations.
    pub p: f64,
    /// True if the confidence interval has no width. Every run then gives the same value, such as an
    /// instruction count, and no statistical test is necessary.
    pub exact: bool,
    /// Whether the figure only explains a result. The gate ignores such a figure.
    pub diagnostic: bool,
    /// Verdict about B relative to A for this figure.
    pub verdict: Verdict,
}

impl ComparedFigure {
    pub(super) fn new(
        figure: &BenchFigure,
        (a, b): (&[f64], &[f64]),
        shift: &ShiftEstimate,
        plan: &SignificanceTestPlan,
        log_gate: Option<f64>,
        samples: SampleKind,
    ) -> ComparedFigure {
        let median = |samples: &[f64]| {
            BenchFigure::new("", "", figure.better, samples.to_vec())
                .spread()
                .median
        };
        // With zeros among the samples, a ratio above 10 can come from the replacement of an infinite ratio.
        let has_zeros = has_zeros_and_positive_values(a, b);
        let percent = |log: f64| {
            let is_meaningful = log.is_finite() && !(has_zeros && log.abs() > 10_f64.ln());
            is_meaningful.then(|| log.exp_m1() * 100.0)
        };
        ComparedFigure {
            name: figure.name.clone(),
            unit: figure.unit.clone(),
            better: figure.better,
            medians: [median(a), median(b)],
            worse_percent: percent(shift.estimate),
            low_percent: percent(shift.low),
            high_percent: percent(shift.high),
            too_few_samples: (!(shift.low.is_finite() && shift.high.is_finite()))
                .then(|| samples.describe_shortage([a.len(), b.len()], plan.alpha_per_test())),
            p: plan.adjust_p_value(shift.p),
            exact: shift.low == shift.high && shift.low == shift.estimate,
            diagnostic: figure.diagnostic,
            verdict: Verdict::of_shift(shift, log_gate),
        }
    }

    /// Returns the words for "worse" and "better" in the unit of the figure, such as `slower` and `faster`.
    fn comparative_words(&self) -> (&'static str, &'static str) {
        match (self.better, self.unit.as_str()) {
            (ImprovementDirection::Smaller, "ns" | "us" | "ms" | "s") => ("slower", "faster"),
            (ImprovementDirection::Smaller, "instructions") => ("more", "less"),
            (ImprovementDirection::Bigger, "frames/s") => ("slower", "faster"),
            _ => ("worse", "better"),
        }
    }

    /// Returns the line about the figure in the text report, such as `ecmp/time: B is 3.1 % slower (2.4 to
    /// 3.9), p < 0.001`.
    fn format_line(&self, gate_percent: Option<f64>) -> String {
        if let Some(shortage) = &self.too_few_samples {
            return format!("{}: {}", self.name, describe_too_few_samples(shortage));
        }
        let p = match (self.exact, self.p) {
            (true, _) => String::new(),
            (_, p) if p < 0.001 => ", p < 0.001".to_owned(),
            (_, p) => format!(", p = {p:.3}"),
        };
        let (Some(worse), Some(low), Some(high)) = (self.worse_percent, self.low_percent, self.high_percent)
        else {
            return format!("{}{p}", self.format_line_without_percentage());
        };
        let size = worse.abs();
        let (more, less) = self.comparative_words();
        let interval = |a: f64, b: f64| {
            if self.exact {
                String::new()
            } else {
                format!(" ({a:.1} to {b:.1})")
            }
        };
        let within = low.abs().max(high.abs());
        let text = match self.verdict {
            Verdict::Worse => format!("B is {size:.1} % {more}{}{p}", interval(low, high)),
            Verdict::WorseWithinGate => {
                format!(
                    "B is {size:.1} % {more}{}{p}, less than the gate",
                    interval(low, high)
                )
            }
            Verdict::Better => format!("B is {size:.1} % {less}{}{p}", interval(-high, -low)),
            Verdict::Equal if self.exact && size == 0.0 => "the same".to_owned(),
            Verdict::Equal => format!("equal within {within:.1} %{}{p}", interval(low, high)),
            Verdict::NotWorse => format!("B is not {more} by the gate{}{p}", interval(low, high)),
            Verdict::NoDifference if self.exact => "the same".to_owned(),
            Verdict::NoDifference => {
                format!(
                    "no difference shown, at most {within:.1} %{}{p}",
                    interval(low, high)
                )
            }
            Verdict::Undecided => format!(
                "undecided{}{p}: the interval contains the gate of {} %",
                interval(low, high),
                gate_percent.unwrap_or_default()
            ),
        };
        format!("{}: {text}", self.name)
    }

    /// Returns the line about a figure without a percentage, because a value is 0. Example: `ndr/loss: B is
    /// worse: from 0 to 72.07 percent`.
    fn format_line_without_percentage(&self) -> String {
        let (more, less) = self.comparative_words();
        let verdict = match self.verdict {
            Verdict::Worse => format!("B is {more}"),
            Verdict::WorseWithinGate => format!("B is {more}, less than the gate"),
            Verdict::Better => format!("B is {less}"),
            Verdict::Equal | Verdict::NotWorse => format!("B is not {more} by the gate"),
            Verdict::NoDifference => "no difference shown".to_owned(),
            Verdict::Undecided => "undecided".to_owned(),
        };
        let [from, to] = self.medians.map(format_four_digits);
        format!("{}: {verdict}: from {from} to {to} {}", self.name, self.unit)
    }

    /// Returns the name and the medians, such as `found/dropped_worst from 0 to 12 frames`.
    fn name_and_values(&self) -> String {
        let [from, to] = self.medians.map(format_four_digits);
        format!("{} from {from} to {to} {}", self.name, self.unit)
    }
}

/// Largest number of figures that a line names.
const FIGURES_NAMED_MAX: usize = 4;

/// Formats a list of names as `a, b, c, d and 24 more`.
pub(super) fn join_first_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let named = names[..names.len().min(FIGURES_NAMED_MAX)].join(", ");
    match names.len().saturating_sub(FIGURES_NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn describe_too_few_samples(shortage: &str) -> String {
    format!("too few samples for a result: {shortage}")
}

/// Formats a value with four significant digits, or more if the integer part is longer: `0.001234`, `148810`.
fn format_four_digits(value: f64) -> String {
    let digits = 3 - value.abs().max(1e-300).log10().floor() as i32;
    let text = format!("{value:.*}", digits.clamp(0, 12) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// The result of a comparison of two sides of a benchmark: whether side B (such as a change) is worse than
/// side A (the baseline).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Name and version of the JSON format: [`COMPARISON_SCHEMA`].
    pub schema: &'static str,
    /// Name of the benchmark, such as `core`.
    pub bench: String,
    /// Name of side A, as the user gave it.
    pub a: String,
    /// Name of side B, as the user gave it.
    pub b: String,
    /// The gate: percentage by which B must be worse than A for the comparison to fail. `None` means no gate.
    pub gate_percent: Option<f64>,
    /// Seed of the random order of the two sides within the pairs.
    pub seed: u64,
    /// Number of pairs that were measured in turns, including pairs that were left out later. `None` if a
    /// side is a saved result.
    pub pairs: Option<usize>,
    /// The machine of the measurement. If a side is a saved result, this is the machine of B, or `None` if B
    /// was measured in virtual time.
    pub environment: Option<Environment>,
    /// Reasons why the comparison proves nothing, such as a disturbed machine. The comparison is inconclusive
    /// unless this list is empty.
    pub tainted: Vec<String>,
    /// Notes, for example about figures or pairs that were left out.
    pub notes: Vec<String>,
    /// The figures that both sides have, in the order of A.
    pub figures: Vec<ComparedFigure>,
    /// Names of the figures of A that are missing in B, or that have another unit or direction in B. If
    /// the list is not empty, a comparison with a gate is inconclusive unless another figure is worse by
    /// the gate.
    pub uncompared: Vec<String>,
    /// `ok`, `worse` or `inconclusive` (see [`Comparison::exit`]). Empty before [`Comparison::with_verdict`].
    pub verdict: &'static str,
}

impl Comparison {
    pub(super) fn new([a, b]: [&str; 2], bench: &str, settings: &ComparisonSettings) -> Comparison {
        Comparison {
            schema: COMPARISON_SCHEMA,
            bench: bench.to_owned(),
            a: a.to_owned(),
            b: b.to_owned(),
            gate_percent: settings.gate_percent,
            seed: settings.seed,
            pairs: None,
            environment: None,
            tainted: Vec::new(),
            notes: Vec::new(),
            figures: Vec::new(),
            uncompared: Vec::new(),
            verdict: "",
        }
    }

    /// Adds notes about the figures that cannot be compared.
    pub(super) fn note_uncompared_figures(&mut self, missing_in_b: Vec<String>, only_in_b: &[String]) {
        if !missing_in_b.is_empty() {
            self.notes.push(format!(
                "missing in B, or in another unit or direction: {}",
                missing_in_b.join(", ")
            ));
        }
        if !only_in_b.is_empty() {
            self.notes.push(format!("only in B: {}", only_in_b.join(", ")));
        }
        self.uncompared = missing_in_b;
    }

    /// Sets [`Comparison::verdict`] from [`Comparison::exit`]: `ok` for exit code 0, `worse` for exit code 1,
    /// and `inconclusive` for exit code 5.
    #[must_use]
    pub fn with_verdict(mut self) -> Comparison {
        self.verdict = match self.exit() {
            Exit::CheckFailed => "worse",
            Exit::Inconclusive => "inconclusive",
            _ => "ok",
        };
        self
    }

    /// Returns the exit code. The first matching case applies:
    ///
    /// - 5 if the comparison is tainted, for example because the machine was disturbed,
    /// - 1 if there is a gate and a figure is worse by the gate,
    /// - 5 if a figure is undecided, or if there is a gate and a figure of A cannot be compared,
    /// - 0 in all other cases.
    pub fn exit(&self) -> Exit {
        let any = |verdict| self.result_figures().any(|figure| figure.verdict == verdict);
        if !self.tainted.is_empty() {
            Exit::Inconclusive
        } else if self.gate_percent.is_some() && any(Verdict::Worse) {
            Exit::CheckFailed
        } else if any(Verdict::Undecided) || self.has_figures_without_gate() {
            Exit::Inconclusive
        } else {
            Exit::Ok
        }
    }

    /// Returns the figures that are results, and not only diagnostics.
    fn result_figures(&self) -> impl Iterator<Item = &ComparedFigure> {
        self.figures.iter().filter(|figure| !figure.diagnostic)
    }

    /// Lists the results with a verdict, each with the values of A and B.
    fn list_results_with_values(&self, verdict: Verdict) -> String {
        let figures = self.result_figures().filter(|figure| figure.verdict == verdict);
        let texts: Vec<String> = figures.map(ComparedFigure::name_and_values).collect();
        texts.join("; ")
    }

    /// Returns whether there is a gate that cannot be applied to some figures of A.
    fn has_figures_without_gate(&self) -> bool {
        self.gate_percent.is_some() && !self.uncompared.is_empty()
    }

    /// Writes one line for each figure. Figures with the same shortage of samples share a line.
    fn write_verdicts(&self, text: &mut String) {
        let mut reported: Vec<&str> = Vec::new();
        for figure in &self.figures {
            let Some(shortage) = figure.too_few_samples.as_deref() else {
                let remark = match figure.diagnostic {
                    true => " (diagnostic, not part of the verdict)",
                    false => "",
                };
                let line = figure.format_line(self.gate_percent);
                let _ = writeln!(text, "{line}{remark}");
                continue;
            };
            if reported.contains(&shortage) {
                continue;
            }
            reported.push(shortage);
            let alike = self.figures.iter();
            let alike = alike.filter(|other| other.too_few_samples.as_deref() == Some(shortage));
            let names = join_first_names(alike.map(|figure| figure.name.as_str()));
            let _ = writeln!(text, "{names}: {}", describe_too_few_samples(shortage));
        }
    }

    /// Returns the text report: one line for each figure, the notes and taints, and the verdict.
    pub fn to_text(&self) -> String {
        let mut text = format!("A: {}\nB: {}\n", self.a, self.b);
        if let Some(pairs) = self
            .pairs
            .filter(|_| !self.figures.iter().all(|figure| figure.exact))
        {
            let _ = writeln!(
                text,
                "{} in turns, confidence level 99.9 % for all figures together",
                count_noun(pairs as u64, "pair")
            );
        }
        match self.tainted.is_empty() {
            true => self.write_verdicts(&mut text),
            // A tainted comparison shows the medians without a verdict.
            false => self.figures.iter().for_each(|figure| {
                let [a, b] = figure.medians;
                let _ = writeln!(text, "{}: medians {a:.1} and {b:.1} {}", figure.name, figure.unit);
            }),
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        for taint in &self.tainted {
            let _ = writeln!(text, "tainted: {taint}");
        }
        let last = match (self.exit(), self.gate_percent) {
            (Exit::CheckFailed, Some(gate)) => format!(
                "worse: by the gate of {gate} % or more: {}",
                self.list_results_with_values(Verdict::Worse)
            ),
            (Exit::Inconclusive, _) if self.has_figures_without_gate() => {
                format!(
                    "inconclusive: the gate cannot be applied to {}, because side B has no such figures (the names of figures \
                     contain the `name` of the lab)",
                    self.uncompared.join(", ")
                )
            }
            (Exit::Inconclusive, Some(_)) if self.tainted.is_empty() => format!(
                "inconclusive: undecided: {}",
                self.list_results_with_values(Verdict::Undecided)
            ),
            (Exit::Inconclusive, _) => "inconclusive".to_owned(),
            (_, Some(gate)) => format!("ok: not worse by the gate of {gate} %"),
            _ => return text,
        };
        text + &last + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: ComparisonSettings = ComparisonSettings {
        gate_percent: Some(3.0),
        pairs_max: 1,
        seed: 1,
    };

    /// Compares the exact figure `ndr/loss` with the values `a` and `b` in percent.
    fn compared_loss(a: f64, b: f64) -> ComparedFigure {
        let figure = BenchFigure::new("ndr/loss", "percent", ImprovementDirection::Smaller, vec![a]);
        let log = super::super::figure_pairs::log_ratio(a, b, ImprovementDirection::Smaller).unwrap();
        let shift = ShiftEstimate {
            estimate: log,
            low: log,
            high: log,
            p: 0.0,
        };
        let plan = SignificanceTestPlan::new(1, true, 1);
        ComparedFigure::new(
            &figure,
            (&[a], &[b]),
            &shift,
            &plan,
            SETTINGS.log_gate(),
            SampleKind::Pairs,
        )
    }

    #[test]
    fn too_few_samples_are_reported_with_the_numbers_that_exist_and_that_are_needed() {
        let figure = BenchFigure::new("time", "ns", ImprovementDirection::Smaller, vec![1.0]);
        let plan = SignificanceTestPlan::new(2, false, 1);
        let shift = ShiftEstimate {
            estimate: 0.1,
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
            p: 0.5,
        };
        let line = |samples| {
            let values = (&[1.0, 1.1][..], &[1.1, 1.2, 1.3][..]);
            ComparedFigure::new(&figure, values, &shift, &plan, None, samples).format_line(None)
        };
        // 2 / 2^11 is the first value below 0.001.
        assert_eq!(
            line(SampleKind::Pairs),
            "time: too few samples for a result: 2 of at least 11 pairs (--rounds)"
        );
        // 2 / (14 over 7) is the first value below 0.001.
        assert_eq!(
            line(SampleKind::Separate),
            "time: too few samples for a result: A has 2 and B has 3, each side needs 7"
        );
    }

    #[test]
    fn figures_with_the_same_shortage_share_a_line() {
        let figure = |name: &str, count: usize| ComparedFigure {
            name: name.to_owned(),
            too_few_samples: Some(SampleKind::Pairs.describe_shortage([count; 2], 0.001)),
            ..compared_loss(1.0, 1.0)
        };
        let mut comparison = Comparison::new(["a", "b"], "rfc2544", &SETTINGS);
        comparison.figures = (0..28).map(|n| figure(&format!("f{n}"), 2)).collect();
        comparison.figures.push(figure("last", 3));
        let text = comparison.to_text();
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("too few")).collect();
        assert_eq!(
            lines,
            [
                "f0, f1, f2, f3 and 24 more: too few samples for a result: 2 of at least 11 pairs (--rounds)",
                "last: too few samples for a result: 3 of at least 11 pairs (--rounds)"
            ]
        );
    }

    #[test]
    fn only_results_decide_and_the_verdict_names_them_with_both_values() {
        let figure = |name: &str, diagnostic, a, b| ComparedFigure {
            name: name.to_owned(),
            diagnostic,
            ..compared_loss(a, b)
        };
        let mut comparison = Comparison::new(["a", "b"], "tune-buffers", &SETTINGS);
        comparison.figures = vec![
            figure("found/loss", false, 1.0, 1.0),
            figure("cell_less/loss", true, 1.0, 5.0),
        ];
        assert_eq!(comparison.exit(), Exit::Ok, "{}", comparison.to_text());
        assert!(
            comparison
                .to_text()
                .contains("(diagnostic, not part of the verdict)")
        );
        comparison.figures[1].verdict = Verdict::Undecided;
        assert_eq!(comparison.exit(), Exit::Ok);
        comparison.figures.push(figure("headroom", false, 2.0, 8.0));
        comparison.figures.push(figure("buffer", false, 0.0, 3.0));
        assert_eq!(comparison.exit(), Exit::CheckFailed);
        let text = comparison.to_text();
        let last = text.lines().last().unwrap_or_default();
        assert_eq!(
            last,
            "worse: by the gate of 3 % or more: headroom from 2 to 8 percent; buffer from 0 to 3 percent"
        );
    }

    #[test]
    fn a_change_from_or_to_zero_has_no_percentage() {
        let worse = compared_loss(0.0, 72.07);
        assert_eq!(
            worse.format_line(Some(3.0)),
            "ndr/loss: B is worse: from 0 to 72.07 percent"
        );
        assert_eq!((worse.worse_percent, worse.low_percent), (None, None));
        assert_eq!(worse.verdict, Verdict::Worse);
        let better = compared_loss(72.07, 0.0);
        assert_eq!(
            better.format_line(Some(3.0)),
            "ndr/loss: B is better: from 72.07 to 0 percent"
        );
        assert_eq!(better.verdict, Verdict::Better);
        assert_eq!(
            compared_loss(0.0, 0.0).format_line(Some(3.0)),
            "ndr/loss: the same"
        );
        let twentyfold = compared_loss(1.0, 20.0);
        assert_eq!(twentyfold.format_line(Some(3.0)), "ndr/loss: B is 1900.0 % worse");
    }

    #[test]
    fn values_are_formatted_with_four_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (72.07, "72.07"),
            (5.0, "5"),
            (0.001_234_5, "0.001234"),
            (148_809.52, "148810"),
            (100.0, "100"),
        ] {
            assert_eq!(format_four_digits(value), text);
        }
    }

    #[test]
    fn a_figure_that_is_missing_in_b_makes_a_gated_comparison_inconclusive() {
        let mut comparison = Comparison::new(["a", "b"], "ndr", &SETTINGS);
        comparison.figures = vec![compared_loss(1.0, 1.0)];
        comparison.note_uncompared_figures(Vec::new(), &["new".to_owned()]);
        assert_eq!(comparison.exit(), Exit::Ok);
        comparison.note_uncompared_figures(vec!["gone".to_owned()], &[]);
        assert_eq!(comparison.exit(), Exit::Inconclusive);
        assert!(
            comparison.to_text().contains(
                "inconclusive: the gate cannot be applied to gone, because side B has no such figures"
            ),
            "{}",
            comparison.to_text()
        );
        comparison.gate_percent = None;
        assert_eq!(comparison.exit(), Exit::Ok);
    }
}
