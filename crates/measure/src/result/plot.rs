//! Writes a result as a bar chart. The bars show medians and their confidence intervals. Each unit has its
//! own panel.

use std::path::Path;

use super::BenchResult;
use xoff_lab::plot::{BarPanel, ChartBar, write_unit_bars};
use xoff_telemetry::failure::Failure;

impl BenchResult {
    /// Writes the bar chart to `folder/BENCH.svg`, where `BENCH` is the name of the bench.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_plot(&self, folder: &Path) -> Result<(), Failure> {
        let mut units: Vec<(&str, BarPanel)> = Vec::new();
        for figure in &self.figures {
            let spread = figure.spread();
            let bar = ChartBar {
                name: figure.name.clone(),
                median_min_max: Some([spread.median, spread.low, spread.high]),
                is_reference: false,
            };
            match units.iter_mut().find(|(unit, _)| *unit == figure.unit) {
                Some((_, panel)) => panel.bars.push(bar),
                None => units.push((
                    &figure.unit,
                    BarPanel {
                        title: format!("{}: {}", self.bench, self.subject),
                        bars: vec![bar],
                    },
                )),
            }
        }
        let path = folder.join(format!("{}.svg", self.bench));
        write_unit_bars(&path, &units)
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
            "0 percent",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}
