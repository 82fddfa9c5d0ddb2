//! Settings of a comparison.

/// Settings of a comparison, from the command line.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonSettings {
    /// Percentage by which B may be worse, or `None` for a comparison without a gate.
    pub gate_percent: Option<f64>,
    /// Largest number of pairs.
    pub pairs_max: usize,
    /// Seed of the order of the two sides within the pairs.
    pub seed: u64,
}

impl ComparisonSettings {
    /// Returns the gate as a logarithm, as [`super::verdict::Verdict::of_shift`] takes it.
    pub(super) fn log_gate(&self) -> Option<f64> {
        self.gate_percent.map(|percent| (percent / 100.0).ln_1p())
    }
}
