//! Plot of the link loads over time.

use std::path::Path;

use plotters::prelude::*;

use super::style::{
    AXIS, Area, COLOURS, DrawResult, GRID, LABEL, TITLE, draw_legend, draw_message, write_svg,
};
use super::units::{self, AxisUnit, format_short};
use super::{PlottedPort, RunTimeline};
use xoff_telemetry::failure::Failure;

const WIDTH: u32 = 960;
const PANEL_HEIGHT: u32 = 240;
const LEGEND_HEIGHT: u32 = 34;
/// Colour of the area from the load of the least loaded link to the load of the busiest link.
const RANGE_COLOUR: RGBColor = RGBColor(222, 235, 247);
/// Colour of the area from the lower to the upper quartile of the link loads.
const QUARTILES_COLOUR: RGBColor = RGBColor(158, 202, 225);

/// The link loads of one run over time.
struct LinkLoads {
    /// Description of the links.
    links: &'static str,
    /// Start and end of each bin (interval of time), in nanoseconds.
    bins: Vec<(f64, f64)>,
    /// The link loads in each bin, in percent of the link speed: minimum, lower quartile, mean, upper
    /// quartile and maximum over all links. Empty if no link was selected.
    quantiles: Vec<[f64; 5]>,
}

impl LinkLoads {
    fn of_timeline(run: &RunTimeline) -> LinkLoads {
        let between_switches = |name: &PlottedPort| name.between_switches && name.usable;
        let (links, selected): (_, Vec<bool>) = match run.names.iter().any(between_switches) {
            true => (
                "links between switches",
                run.names.iter().map(between_switches).collect(),
            ),
            false => (
                "links to hosts",
                run.names
                    .iter()
                    .map(|name| name.usable && !name.between_switches)
                    .collect(),
            ),
        };
        let bins = run.timeline.bins_ns();
        let ports = || run.timeline.ports().iter().zip(&selected);
        let count = ports().filter(|(_, selected)| **selected).count();
        let quantiles_of = |(at, (start, end)): (usize, &(f64, f64))| {
            let span_ps = (end - start) * 1e3;
            let loads = ports().filter(|(_, selected)| **selected);
            // A frame counts in the bin of its start and can take longer than the bin.
            let loads = loads.map(|(port, _)| (100.0 * port.busy_ps[at] as f64 / span_ps).min(100.0));
            let mut loads: Vec<f64> = loads.collect();
            loads.sort_by(f64::total_cmp);
            let mean = loads.iter().sum::<f64>() / count as f64;
            // Nearest-rank quantiles: each one is the load of a link.
            let quantile = |quarters: usize| loads[(count * quarters).div_ceil(4).max(1) - 1];
            [quantile(0), quantile(1), mean, quantile(3), quantile(4)]
        };
        let quantiles = match count {
            0 => Vec::new(),
            _ => bins.iter().enumerate().map(quantiles_of).collect(),
        };
        LinkLoads {
            links,
            bins,
            quantiles,
        }
    }

    /// Returns the points of a step line for one of the five values, such as the mean.
    fn step_line(&self, quantile: usize, unit: &AxisUnit) -> Vec<(f64, f64)> {
        let bins = self.bins.iter().zip(&self.quantiles);
        bins.flat_map(|((start, end), values)| [start, end].map(|time| (time / unit.size, values[quantile])))
            .collect()
    }
}

/// Writes a plot of the link loads over time, with one panel for each run. A run is a title and a timeline.
/// All panels have the same axes. The plot shows the links between switches that the workload could use. If
/// there are none, the plot shows the links to hosts.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn write_link_plot(path: &Path, runs: &[(String, &RunTimeline)]) -> Result<(), Failure> {
    let loads: Vec<(&str, LinkLoads)> = runs
        .iter()
        .map(|(title, run)| (title.as_str(), LinkLoads::of_timeline(run)))
        .collect();
    let ends = loads
        .iter()
        .filter_map(|(_, loads)| loads.bins.last().map(|bin| bin.1));
    let longest_ns = ends.fold(1.0, f64::max);
    let unit = units::time_unit(longest_ns);
    let height = LEGEND_HEIGHT + PANEL_HEIGHT * loads.len().max(1) as u32;
    write_svg(path, (WIDTH, height), |area| {
        let (top, panels) = area.split_vertically(LEGEND_HEIGHT);
        let links = loads.first().map_or("", |(_, loads)| loads.links);
        let entries = [
            (format!("mean of the {links}"), COLOURS[0].filled()),
            ("lower to upper quartile".to_owned(), QUARTILES_COLOUR.filled()),
            ("least loaded to busiest".to_owned(), RANGE_COLOUR.filled()),
        ];
        draw_legend(&top, &entries)?;
        for (panel, (title, loads)) in panels.split_evenly((loads.len().max(1), 1)).iter().zip(&loads) {
            draw_panel(panel, title, loads, longest_ns / unit.size, &unit)?;
        }
        Ok(())
    })
}

fn draw_panel(area: &Area<'_>, title: &str, loads: &LinkLoads, time_max: f64, unit: &AxisUnit) -> DrawResult {
    if loads.quantiles.is_empty() {
        return draw_message(area, &format!("{title}: no link was used"));
    }
    let mut chart = ChartBuilder::on(area)
        .caption(title, TITLE)
        .margin(8)
        .margin_right(24)
        .x_label_area_size(44)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..time_max, 0.0..100.0)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .x_desc(format!("Time since the start ({})", unit.name))
        .y_desc("Link load (%)")
        .y_labels(5)
        .x_label_formatter(&|time| format_short(*time))
        .y_label_formatter(&|load| format_short(*load))
        .axis_desc_style(AXIS)
        .label_style(LABEL)
        .draw()?;
    let band = |low: usize, high: usize| -> Vec<(f64, f64)> {
        let back = loads.step_line(low, unit).into_iter().rev();
        loads.step_line(high, unit).into_iter().chain(back).collect()
    };
    chart.draw_series([Polygon::new(band(0, 4), RANGE_COLOUR.filled())])?;
    chart.draw_series([Polygon::new(band(1, 3), QUARTILES_COLOUR.filled())])?;
    chart.draw_series([PathElement::new(
        loads.step_line(2, unit),
        COLOURS[0].stroke_width(2),
    )])?;
    Ok(())
}
