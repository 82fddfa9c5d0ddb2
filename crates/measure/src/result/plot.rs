//! Writes a result as a chart. The bars show medians and their confidence intervals. Each unit has its own panel.

use std::path::Path;

use super::BenchResult;
use xoff_lab::plot::{PlottedFigure, write_figure_bars};
use xoff_telemetry::failure::Failure;

impl BenchResult {
    /// Writes the chart to `folder/BENCH.svg`, where `BENCH` is the name of the bench.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_plot(&self, folder: &Path) -> Result<(), Failure> {
        let plotted = self.figures.iter().map(|figure| {
            let spread = figure.spread();
            PlottedFigure {
                name: figure.name.clone(),
                unit: figure.unit.clone(),
                median_low_high: [spread.median, spread.low, spread.high],
            }
        });
        write_figure_bars(
            &folder.join(format!("{}.svg", self.bench)),
            &format!("{}: {}", self.bench, self.subject),
            &plotted.collect::<Vec<_>>(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{BenchFigure, ImprovementDirection};

    #[test]
    fn plot_has_a_panel_per_unit_and_a_bar_per_figure() {
        let mut result = BenchResult::new("core", "x", 1);
        result.figures = vec![
            BenchFigure::new(
                "ecmp/time",
                "ns",
                ImprovementDirection::Smaller,
                vec![80.0, 85.0, 90.0],
            ),
            BenchFigure::new(
                "ecmp/instructions",
                "instructions",
                ImprovementDirection::Smaller,
                vec![1_300.0],
            ),
            BenchFigure::new("loss", "percent", ImprovementDirection::Smaller, vec![0.0]),
        ];
        let folder = tempfile::tempdir().unwrap();
        result.write_plot(folder.path()).unwrap();
        let svg = std::fs::read_to_string(folder.path().join("core.svg")).unwrap();
        for text in [
            "ecmp/time",
            "ecmp/instructions",
            "85 ns",
            "1300 instructions",
            "Figures with the value 0: loss",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}
