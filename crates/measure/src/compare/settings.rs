//! Settings of a comparison.

/// Settings of a comparison, from the command line.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonSettings {
    /// Percentage by which B must be worse than A for the comparison to fail (`--gate`). The percentage is
    /// above 0 and at most 1000. `None` means no gate.
    pub gate_percent: Option<f64>,
    /// Largest number of pairs that are measured in turns. With a saved result, the number of runs of the
    /// other side.
    pub pairs_max: usize,
    /// Seed of the random order of the two sides within the pairs.
    pub seed: u64,
}

impl ComparisonSettings {
    /// Returns the gate as a logarithm for [`Verdict::of_shift`](super::verdict::Verdict::of_shift), such as
    /// 0.03 for 3 %.
    pub(super) fn log_gate(&self) -> Option<f64> {
        self.gate_percent.map(|percent| (percent / 100.0).ln_1p())
    }
}
