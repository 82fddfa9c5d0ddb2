//! What is said of a comparison.

use std::fmt::Write as _;

use serde::Serialize;

use super::exact::has_no_ratio;
use super::statistics::Shift;
use super::turns::Settings;
use super::verdict::{Plan, Verdict};
use crate::result::{BenchFigure, BetterWhen};
use xoff_telemetry::Environment;
use xoff_telemetry::failure::Exit;

/// Version of the JSON.
pub const COMPARISON_SCHEMA: &str = "xoff-compare/1";

/// A figure of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// As the bench calls it.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Which way it improves.
    pub better: BetterWhen,
    /// Medians of A and B.
    pub medians: [f64; 2],
    /// By how many percent B is worse (below nothing: better): a time longer, or a rate smaller by that part of B's own; null where
    /// one is zero and the other is not.
    pub worse_percent: Option<f64>,
    /// Lower bound; null where there are too few samples for any, or it hangs on a zero.
    pub low_percent: Option<f64>,
    /// Upper bound.
    pub high_percent: Option<f64>,
    /// Fewer samples than any interval takes.
    #[serde(skip)]
    too_few: bool,
    /// p-value of no difference, for all figures and looks together.
    pub p: f64,
    /// It hangs on no machine, so there is no noise to test against.
    pub exact: bool,
    /// What is said of it.
    pub verdict: Verdict,
}

impl ComparedFigure {
    pub(super) fn new(
        figure: &BenchFigure,
        (a, b): (&[f64], &[f64]),
        shift: &Shift,
        plan: &Plan,
        gate: Option<f64>,
    ) -> ComparedFigure {
        let median = |samples: &[f64]| {
            BenchFigure::new("", "", figure.better, samples.to_vec())
                .spread()
                .median
        };
        // Where zeros are, what is beyond ten times can be what stands for a ratio without end, or the mean of that and another.
        let zeros = has_no_ratio(a, b);
        let percent = |log: f64| {
            let told = log.is_finite() && !(zeros && log.abs() > 10_f64.ln());
            told.then(|| log.exp_m1() * 100.0)
        };
        ComparedFigure {
            name: figure.name.clone(),
            unit: figure.unit.clone(),
            better: figure.better,
            medians: [median(a), median(b)],
            worse_percent: percent(shift.estimate),
            low_percent: percent(shift.low),
            high_percent: percent(shift.high),
            too_few: !(shift.low.is_finite() && shift.high.is_finite()),
            p: plan.adjusted(shift.p),
            exact: shift.low == shift.high && shift.low == shift.estimate,
            verdict: Verdict::of(shift, gate),
        }
    }

    /// `slower` and `faster`, as the unit wants it.
    fn words(&self) -> (&'static str, &'static str) {
        match (self.better, self.unit.as_str()) {
            (BetterWhen::Smaller, "ns" | "us" | "ms" | "s") => ("slower", "faster"),
            (BetterWhen::Smaller, "instructions") => ("more", "less"),
            (BetterWhen::Bigger, "frames/s") => ("slower", "faster"),
            _ => ("worse", "better"),
        }
    }

    /// `ecmp/time: B is 3.1 % slower (2.4 to 3.9), p < 0.001`.
    fn line(&self, gate: Option<f64>) -> String {
        if self.too_few {
            return format!("{}: too few samples to say anything", self.name);
        }
        let p = match (self.exact, self.p) {
            (true, _) => String::new(),
            (_, p) if p < 0.001 => ", p < 0.001".to_owned(),
            (_, p) => format!(", p = {p:.3}"),
        };
        let (Some(worse), Some(low), Some(high)) = (self.worse_percent, self.low_percent, self.high_percent)
        else {
            return format!("{}{p}", self.of_zero());
        };
        let size = worse.abs();
        let (more, less) = self.words();
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
                "undecided{}{p}: a gate of {} % is not to be told from that",
                interval(low, high),
                gate.unwrap_or_default()
            ),
        };
        format!("{}: {text}", self.name)
    }

    /// `ndr/loss: B is worse: from 0 to 72.07 percent`: of nothing there is no percentage.
    fn of_zero(&self) -> String {
        let (more, less) = self.words();
        let said = match self.verdict {
            Verdict::Worse => format!("B is {more}"),
            Verdict::WorseWithinGate => format!("B is {more}, less than the gate"),
            Verdict::Better => format!("B is {less}"),
            Verdict::Equal | Verdict::NotWorse => format!("B is not {more} by the gate"),
            Verdict::NoDifference => "no difference shown".to_owned(),
            Verdict::Undecided => "undecided".to_owned(),
        };
        let [from, to] = self.medians.map(amount);
        format!("{}: {said}: from {from} to {to} {}", self.name, self.unit)
    }
}

/// Four significant digits, and all of a whole number: `72.07`, `0.001234`, `148810`.
fn amount(value: f64) -> String {
    let digits = 3 - value.abs().max(1e-300).log10().floor() as i32;
    let text = format!("{value:.*}", digits.clamp(0, 12) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A comparison of B with A.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// [`COMPARISON_SCHEMA`].
    pub schema: &'static str,
    /// The bench.
    pub bench: String,
    /// What A is.
    pub a: String,
    /// What B is.
    pub b: String,
    /// Percent by which B may be worse.
    pub gate_percent: Option<f64>,
    /// Seed of the order within pairs.
    pub seed: u64,
    /// Pairs that were measured in turns; null for what was saved.
    pub pairs: Option<usize>,
    /// The machine; of saved results, that of B.
    pub environment: Option<Environment>,
    /// Why nothing may be gated on.
    pub tainted: Vec<String>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// The figures that both have.
    pub figures: Vec<ComparedFigure>,
    /// Figures of A that B has not, or in another unit or direction: with a gate, nothing can be said.
    pub uncompared: Vec<String>,
    /// `ok`, `worse` or `inconclusive`.
    pub verdict: &'static str,
}

impl Comparison {
    pub(super) fn new([a, b]: [&str; 2], bench: &str, settings: &Settings) -> Comparison {
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

    /// Notes what is not compared: what A alone has, and what is new in B.
    pub(super) fn leave_out(&mut self, lost: Vec<String>, new: &[String]) {
        if !lost.is_empty() {
            self.notes.push(format!(
                "not in B, or in another unit or direction there: {}",
                lost.join(", ")
            ));
        }
        if !new.is_empty() {
            self.notes.push(format!("only in B: {}", new.join(", ")));
        }
        self.uncompared = lost;
    }

    /// Fills in the verdict of the whole.
    #[must_use]
    pub fn concluded(mut self) -> Comparison {
        self.verdict = match self.exit() {
            Exit::CheckFailed => "worse",
            Exit::Inconclusive => "inconclusive",
            _ => "ok",
        };
        self
    }

    /// 5 if the machine was disturbed; with a gate, 1 if a figure is worse by it, 5 if one is undecided or not in B; else 0.
    pub fn exit(&self) -> Exit {
        let any = |verdict| self.figures.iter().any(|figure| figure.verdict == verdict);
        if !self.tainted.is_empty() {
            Exit::Inconclusive
        } else if self.gate_percent.is_some() && any(Verdict::Worse) {
            Exit::CheckFailed
        } else if any(Verdict::Undecided) || self.is_short() {
            Exit::Inconclusive
        } else {
            Exit::Ok
        }
    }

    /// What cannot be compared cannot be gated on.
    fn is_short(&self) -> bool {
        self.gate_percent.is_some() && !self.uncompared.is_empty()
    }

    /// A line for each figure, and the verdict.
    pub fn render(&self) -> String {
        let mut text = format!("A: {}\nB: {}\n", self.a, self.b);
        if let Some(pairs) = self
            .pairs
            .filter(|_| !self.figures.iter().all(|figure| figure.exact))
        {
            let _ = writeln!(
                text,
                "{pairs} pairs in turns, intervals of 99.9 % for all figures together"
            );
        }
        for figure in &self.figures {
            // A tainted comparison shows what was measured, and says nothing of it.
            if self.tainted.is_empty() {
                let _ = writeln!(text, "{}", figure.line(self.gate_percent));
            } else {
                let [a, b] = figure.medians;
                let _ = writeln!(text, "{}: medians {a:.1} and {b:.1} {}", figure.name, figure.unit);
            }
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        for taint in &self.tainted {
            let _ = writeln!(text, "tainted: {taint}");
        }
        let last = match (self.exit(), self.gate_percent) {
            (Exit::CheckFailed, Some(gate)) => format!("worse: by the gate of {gate} % or more"),
            (Exit::Inconclusive, _) if self.is_short() => {
                format!("inconclusive: no gate can hold {}", self.uncompared.join(", "))
            }
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

    const SETTINGS: Settings = Settings {
        gate_percent: Some(3.0),
        pairs_max: 1,
        seed: 1,
    };

    /// A figure without noise.
    fn loss(a: f64, b: f64) -> ComparedFigure {
        let figure = BenchFigure::new("ndr/loss", "percent", BetterWhen::Smaller, vec![a]);
        let log = super::super::exact::log_ratio(a, b, BetterWhen::Smaller).unwrap();
        let shift = Shift {
            estimate: log,
            low: log,
            high: log,
            p: 0.0,
        };
        let plan = Plan::new(1, true, 1);
        ComparedFigure::new(&figure, (&[a], &[b]), &shift, &plan, SETTINGS.gate())
    }

    #[test]
    fn of_nothing_there_is_no_percentage() {
        let worse = loss(0.0, 72.07);
        assert_eq!(
            worse.line(Some(3.0)),
            "ndr/loss: B is worse: from 0 to 72.07 percent"
        );
        assert_eq!((worse.worse_percent, worse.low_percent), (None, None));
        assert_eq!(worse.verdict, Verdict::Worse);
        let better = loss(72.07, 0.0);
        assert_eq!(
            better.line(Some(3.0)),
            "ndr/loss: B is better: from 72.07 to 0 percent"
        );
        assert_eq!(better.verdict, Verdict::Better);
        assert_eq!(loss(0.0, 0.0).line(Some(3.0)), "ndr/loss: the same");
        let twentyfold = loss(1.0, 20.0);
        assert_eq!(twentyfold.line(Some(3.0)), "ndr/loss: B is 1900.0 % worse");
    }

    #[test]
    fn amounts_have_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (72.07, "72.07"),
            (5.0, "5"),
            (0.001_234_5, "0.001234"),
            (148_809.52, "148810"),
            (100.0, "100"),
        ] {
            assert_eq!(amount(value), text);
        }
    }

    #[test]
    fn a_figure_that_is_gone_is_no_figure_within_the_gate() {
        let mut comparison = Comparison::new(["a", "b"], "ndr", &SETTINGS);
        comparison.figures = vec![loss(1.0, 1.0)];
        comparison.leave_out(Vec::new(), &["new".to_owned()]);
        assert_eq!(comparison.exit(), Exit::Ok);
        comparison.leave_out(vec!["gone".to_owned()], &[]);
        assert_eq!(comparison.exit(), Exit::Inconclusive);
        assert!(
            comparison
                .render()
                .ends_with("inconclusive: no gate can hold gone\n"),
            "{}",
            comparison.render()
        );
        comparison.gate_percent = None;
        assert_eq!(comparison.exit(), Exit::Ok);
    }
}
