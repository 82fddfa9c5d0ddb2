//! Load of links over time.

use std::path::Path;

use plotters::prelude::*;

use super::style::{AXIS, Area, COLOURS, Drawn, GRID, LABEL, TITLE, legend, nothing, picture};
use super::units::{self, Unit, short};
use super::{PortName, Watched};
use xoff_telemetry::failure::Failure;

const WIDTH: u32 = 960;
const PANEL_HEIGHT: u32 = 240;
const LEGEND_HEIGHT: u32 = 34;
/// Band of all links, and of the middle half of them.
const ALL: RGBColor = RGBColor(222, 235, 247);
const MIDDLE: RGBColor = RGBColor(158, 202, 225);

/// Loads of one run, in percent of links' speed: of each bin the least over the links, the lower quartile, the mean, the upper
/// quartile and the largest.
struct Loads {
    of: &'static str,
    /// Begin and end in nanoseconds.
    bins: Vec<(f64, f64)>,
    spread: Vec<[f64; 5]>,
}

impl Loads {
    fn new(watched: &Watched) -> Loads {
        let between = |name: &PortName| name.between_switches && name.usable;
        let (of, chosen): (_, Vec<bool>) = match watched.names.iter().any(between) {
            true => (
                "links between switches",
                watched.names.iter().map(between).collect(),
            ),
            false => (
                "links to hosts",
                watched
                    .names
                    .iter()
                    .map(|name| name.usable && !name.between_switches)
                    .collect(),
            ),
        };
        let bins = watched.timeline.bins_ns();
        let ports = || watched.timeline.ports().iter().zip(&chosen);
        let count = ports().filter(|(_, chosen)| **chosen).count();
        let spread_of = |(at, (begin, end)): (usize, &(f64, f64))| {
            let span_ps = (end - begin) * 1e3;
            let loads = ports().filter(|(_, chosen)| **chosen);
            // A frame counts where it began: the bin may have less time than it.
            let loads = loads.map(|(port, _)| (100.0 * port.busy_ps[at] as f64 / span_ps).min(100.0));
            let mut loads: Vec<f64> = loads.collect();
            loads.sort_by(f64::total_cmp);
            let mean = loads.iter().sum::<f64>() / count as f64;
            // Nearest ranks: each is the load of a link.
            let quantile = |quarters: usize| loads[(count * quarters).div_ceil(4).max(1) - 1];
            [quantile(0), quantile(1), mean, quantile(3), quantile(4)]
        };
        let spread = match count {
            0 => Vec::new(),
            _ => bins.iter().enumerate().map(spread_of).collect(),
        };
        Loads { of, bins, spread }
    }

    /// A line of steps through one of the five.
    fn steps(&self, which: usize, unit: Unit) -> Vec<(f64, f64)> {
        let bins = self.bins.iter().zip(&self.spread);
        bins.flat_map(|((begin, end), spread)| [begin, end].map(|time| (time / unit.size, spread[which])))
            .collect()
    }
}

/// A panel for each run, all with the same axes.
///
/// # Errors
/// The file cannot be written.
pub fn write_links(path: &Path, runs: &[(String, &Watched)]) -> Result<(), Failure> {
    let loads: Vec<(&str, Loads)> = runs
        .iter()
        .map(|(title, watched)| (title.as_str(), Loads::new(watched)))
        .collect();
    let ends = loads
        .iter()
        .filter_map(|(_, loads)| loads.bins.last().map(|bin| bin.1));
    let longest_ns = ends.fold(1.0, f64::max);
    let unit = units::time(longest_ns);
    let height = LEGEND_HEIGHT + PANEL_HEIGHT * loads.len().max(1) as u32;
    picture(path, (WIDTH, height), |area| {
        let (top, panels) = area.split_vertically(LEGEND_HEIGHT);
        let of = loads.first().map_or("", |(_, loads)| loads.of);
        let words = [
            (format!("mean of the {of}"), COLOURS[0].filled()),
            ("middle half of them".to_owned(), MIDDLE.filled()),
            ("from the least loaded to the busiest".to_owned(), ALL.filled()),
        ];
        legend(&top, &words)?;
        for (panel, (title, loads)) in panels.split_evenly((loads.len().max(1), 1)).iter().zip(&loads) {
            draw(panel, title, loads, longest_ns / unit.size, unit)?;
        }
        Ok(())
    })
}

fn draw(area: &Area<'_>, title: &str, loads: &Loads, longest: f64, unit: Unit) -> Drawn {
    if loads.spread.is_empty() {
        return nothing(area, &format!("{title}: no link was used"));
    }
    let mut chart = ChartBuilder::on(area)
        .caption(title, TITLE)
        .margin(8)
        .margin_right(24)
        .x_label_area_size(44)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..longest, 0.0..100.0)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .x_desc(format!("Time since the start ({})", unit.name))
        .y_desc("Link load (%)")
        .y_labels(5)
        .x_label_formatter(&|time| short(*time))
        .y_label_formatter(&|load| short(*load))
        .axis_desc_style(AXIS)
        .label_style(LABEL)
        .draw()?;
    let band = |low: usize, high: usize| -> Vec<(f64, f64)> {
        let back = loads.steps(low, unit).into_iter().rev();
        loads.steps(high, unit).into_iter().chain(back).collect()
    };
    chart.draw_series([Polygon::new(band(0, 4), ALL.filled())])?;
    chart.draw_series([Polygon::new(band(1, 3), MIDDLE.filled())])?;
    chart.draw_series([PathElement::new(loads.steps(2, unit), COLOURS[0].stroke_width(2))])?;
    Ok(())
}
