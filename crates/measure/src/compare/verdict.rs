//! What is said of a figure, and when there is enough to say it.
//!
//! **What is tested.** A figure's shift is that of the logarithm, positive where B is worse: 0.03 is 3 % slower. Its interval holds
//! for all figures and all looks at the data together with 99.9 % ([`Plan::alpha`]), so that to look several times, at several
//! figures, does not find differences that are none.
//!
//! - *worse than the gate*: the interval is above nothing, and the estimate is at the gate or above;
//! - *within the gate*: the whole interval is below the gate; *equal* if it is above minus the gate, too;
//! - anything else is *undecided*, and more pairs are measured while there may be more.

use serde::Serialize;

use super::statistics::Shift;

/// What the intervals of all figures and looks together may miss.
const ALPHA: f64 = 0.001;
/// Pairs at the first look; each further one is at twice as many.
pub const FIRST_LOOK: usize = 16;

/// When is looked at how many figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Pairs at each look.
    pub looks: Vec<usize>,
    /// Figures that are compared.
    pub figures: usize,
}

impl Plan {
    /// At most so many pairs. Without a gate there is nothing to stop for: one look, at the end.
    pub fn new(pairs_max: usize, gate: bool, figures: usize) -> Plan {
        let mut looks = vec![pairs_max.max(1)];
        while gate && looks[0] / 2 >= FIRST_LOOK {
            looks.insert(0, looks[0] / 2);
        }
        Plan {
            looks,
            figures: figures.max(1),
        }
    }

    /// What one interval may miss.
    pub fn alpha(&self) -> f64 {
        ALPHA / self.tests()
    }

    /// A p-value that holds for all figures and looks together.
    pub fn adjusted(&self, p: f64) -> f64 {
        (p * self.tests()).min(1.0)
    }

    fn tests(&self) -> f64 {
        (self.looks.len() * self.figures) as f64
    }
}

/// What is said of a figure of B, seen from A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Worse, and by the gate if there is one.
    Worse,
    /// Worse, by less than the gate.
    WorseWithinGate,
    /// The whole interval is inside the gate.
    Equal,
    /// No worse by the gate, and perhaps better.
    NotWorse,
    /// Better.
    Better,
    /// Without a gate: no difference shown.
    NoDifference,
    /// The interval is too wide, or holds the gate.
    Undecided,
}

impl Verdict {
    /// The verdict of a shift of logarithms; `gate` is a logarithm, too.
    pub fn of(shift: &Shift, gate: Option<f64>) -> Verdict {
        let (worse, better) = (shift.low > 0.0, shift.high < 0.0);
        let Some(gate) = gate else {
            return match (worse, better) {
                (true, _) => Verdict::Worse,
                (_, true) => Verdict::Better,
                _ if shift.low.is_finite() => Verdict::NoDifference,
                _ => Verdict::Undecided,
            };
        };
        if worse && shift.estimate >= gate {
            return Verdict::Worse;
        }
        if shift.high >= gate {
            return Verdict::Undecided;
        }
        match (worse, better) {
            (_, true) => Verdict::Better,
            (true, _) => Verdict::WorseWithinGate,
            _ if shift.low > -gate => Verdict::Equal,
            _ => Verdict::NotWorse,
        }
    }
}

#[cfg(test)]
#[path = "simulation.rs"]
mod simulation;

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(low: f64, estimate: f64, high: f64) -> Verdict {
        let shift = Shift {
            estimate,
            low,
            high,
            p: 0.5,
        };
        Verdict::of(&shift, Some(0.03))
    }

    #[test]
    fn equal_is_said_only_of_what_lies_inside_the_gate() {
        assert_eq!(verdict(-0.02, 0.0, 0.02), Verdict::Equal);
        assert_eq!(verdict(-0.02, 0.0, 0.031), Verdict::Undecided);
        assert_eq!(verdict(-0.04, -0.01, 0.01), Verdict::NotWorse);
        assert_eq!(verdict(f64::NEG_INFINITY, 0.0, f64::INFINITY), Verdict::Undecided);
    }

    #[test]
    fn a_gate_takes_significance_and_size() {
        assert_eq!(verdict(0.001, 0.03, 0.06), Verdict::Worse);
        assert_eq!(verdict(0.001, 0.02, 0.029), Verdict::WorseWithinGate);
        assert_eq!(verdict(0.001, 0.029, 0.05), Verdict::Undecided);
        assert_eq!(verdict(-0.001, 0.05, 0.1), Verdict::Undecided);
        assert_eq!(verdict(-0.2, -0.1, -0.01), Verdict::Better);
    }

    #[test]
    fn looks_double_and_share_what_may_be_missed() {
        assert_eq!(Plan::new(64, true, 2).looks, [16, 32, 64]);
        assert_eq!(Plan::new(64, false, 2).looks, [64]);
        assert_eq!(Plan::new(5, true, 1).looks, [5]);
        assert!((Plan::new(64, true, 2).adjusted(0.01) - 0.06).abs() < 1e-12);
    }
}
