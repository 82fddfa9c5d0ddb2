//! Load of links over time.

use std::path::Path;

use plotters::prelude::*;

use super::style::{AXIS, Area, COLOURS, Drawn, GRID, LABEL, TITLE, legend, nothing, picture};
use super::units::{self, Unit, short};
use super::{PortName, Watched};
use crate::failure::Failure;

const WIDTH: u32 = 960;
const PANEL_HEIGHT: u32 = 240;
const LEGEND_HEIGHT: u32 = 34;

/// Loads of one run, in percent of links' speed: of each bin the least, mean and largest over the links.
struct Loads {
    of: &'static str,
    /// Begin and end in nanoseconds.
    bins: Vec<(f64, f64)>,
    spread: Vec<[f64; 3]>,
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
            let (mut least, mut sum, mut most) = (f64::INFINITY, 0.0, 0.0_f64);
            for load in loads {
                (least, sum, most) = (least.min(load), sum + load, most.max(load));
            }
            [least, sum / count as f64, most]
        };
        let spread = match count {
            0 => Vec::new(),
            _ => bins.iter().enumerate().map(spread_of).collect(),
        };
        Loads { of, bins, spread }
    }

    /// A line of steps through one of the three.
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
        let colour = COLOURS[0];
        legend(
            &top,
            &[
                ("busiest link".to_owned(), COLOURS[1].filled()),
                ("mean of all".to_owned(), colour.filled()),
                (
                    "from the least loaded to the busiest".to_owned(),
                    colour.mix(0.2).filled(),
                ),
            ],
        )?;
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
        .y_desc(format!("Load of {} (%)", loads.of.trim_start_matches("links ")))
        .y_labels(5)
        .x_label_formatter(&|time| short(*time))
        .y_label_formatter(&|load| short(*load))
        .axis_desc_style(AXIS)
        .label_style(LABEL)
        .draw()?;
    let (least, mean, most) = (loads.steps(0, unit), loads.steps(1, unit), loads.steps(2, unit));
    let band: Vec<(f64, f64)> = most.iter().copied().chain(least.into_iter().rev()).collect();
    chart.draw_series([Polygon::new(band, COLOURS[0].mix(0.2).filled())])?;
    chart.draw_series([PathElement::new(most, COLOURS[1].stroke_width(1))])?;
    chart.draw_series([PathElement::new(mean, COLOURS[0].stroke_width(2))])?;
    Ok(())
}
