//! What is said of a comparison.

use std::fmt::Write as _;

use serde::Serialize;

use super::statistics::Shift;
use super::turns::Settings;
use super::verdict::{Plan, Verdict};
use crate::bench::result::{Better, Figure};
use crate::failure::Exit;
use crate::report::Environment;

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
    pub better: Better,
    /// Medians of A and B.
    pub medians: [f64; 2],
    /// By how many percent B is worse (below nothing: better): a time longer, or a rate smaller by that part of B's own.
    pub worse_percent: f64,
    /// Lower bound; null where there are too few samples for any.
    pub low_percent: Option<f64>,
    /// Upper bound.
    pub high_percent: Option<f64>,
    /// p-value of no difference, for all figures and looks together.
    pub p: f64,
    /// It hangs on no machine, so there is no noise to test against.
    pub exact: bool,
    /// What is said of it.
    pub verdict: Verdict,
}

impl ComparedFigure {
    pub(super) fn new(
        figure: &Figure,
        (a, b): (&[f64], &[f64]),
        shift: &Shift,
        plan: &Plan,
        gate: Option<f64>,
    ) -> ComparedFigure {
        let median = |samples: &[f64]| {
            Figure::new("", "", figure.better, samples.to_vec())
                .spread()
                .median
        };
        let percent = |log: f64| log.exp_m1() * 100.0;
        let bound = |log: f64| log.is_finite().then(|| percent(log));
        ComparedFigure {
            name: figure.name.clone(),
            unit: figure.unit.clone(),
            better: figure.better,
            medians: [median(a), median(b)],
            worse_percent: percent(shift.estimate),
            low_percent: bound(shift.low),
            high_percent: bound(shift.high),
            p: plan.adjusted(shift.p),
            exact: shift.low == shift.high && shift.low == shift.estimate,
            verdict: Verdict::of(shift, gate),
        }
    }

    /// `ecmp/time: B is 3.1 % slower (2.4 to 3.9), p < 0.001`.
    fn line(&self, gate: Option<f64>) -> String {
        let size = self.worse_percent.abs();
        let (more, less) = match (self.better, self.unit.as_str()) {
            (Better::Smaller, "ns" | "us" | "ms" | "s") => ("slower", "faster"),
            (Better::Smaller, "instructions") => ("more", "less"),
            (Better::Bigger, "frames/s") => ("slower", "faster"),
            _ => ("worse", "better"),
        };
        let (low, high) = match (self.low_percent, self.high_percent) {
            (Some(low), Some(high)) => (low, high),
            _ => return format!("{}: too few samples to say anything", self.name),
        };
        let p = match (self.exact, self.p) {
            (true, _) => String::new(),
            (_, p) if p < 0.001 => ", p < 0.001".to_owned(),
            (_, p) => format!(", p = {p:.3}"),
        };
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
            verdict: "",
        }
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

    /// 5 if the machine was disturbed; with a gate, 1 if a figure is worse by it, 5 if one is undecided; else 0.
    pub fn exit(&self) -> Exit {
        let any = |verdict| self.figures.iter().any(|figure| figure.verdict == verdict);
        if !self.tainted.is_empty() {
            Exit::Inconclusive
        } else if self.gate_percent.is_some() && any(Verdict::Worse) {
            Exit::CheckFailed
        } else if any(Verdict::Undecided) {
            Exit::Inconclusive
        } else {
            Exit::Ok
        }
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
            (Exit::Inconclusive, _) => "inconclusive".to_owned(),
            (_, Some(gate)) => format!("ok: not worse by the gate of {gate} %"),
            _ => return text,
        };
        text + &last + "\n"
    }
}
