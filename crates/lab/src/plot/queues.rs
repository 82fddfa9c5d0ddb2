//! Queues over time: the longest ones.

use std::path::Path;

use plotters::prelude::*;

use super::Watched;
use super::style::{AXIS, COLOURS, GRID, LABEL, TITLE, legend, nothing, picture};
use super::units::{self, short};
use xoff_telemetry::failure::Failure;

const SIZE: (u32, u32) = (960, 420);
/// So many queues have a line of their own.
const SHOWN: usize = 6;
const LEGEND_LINE: u32 = 24;

/// A line for each of the ports whose queues were longest.
pub(super) fn write(path: &Path, title: &str, watched: &Watched) -> Result<(), Failure> {
    let bins = watched.timeline.bins_ns();
    let mut ports: Vec<(u64, usize)> = watched
        .timeline
        .ports()
        .iter()
        .enumerate()
        .filter_map(|(at, port)| Some((port.queued_bytes.iter().copied().max()?, at)))
        .filter(|(peak, _)| *peak > 0)
        .collect();
    ports.sort_by_key(|(peak, at)| (std::cmp::Reverse(*peak), *at));
    let waiting = ports.len();
    ports.truncate(SHOWN);
    let caption = match waiting > SHOWN {
        true => format!("{title}: the {SHOWN} longest of {waiting} queues"),
        false => format!("{title}: queues"),
    };
    picture(path, SIZE, |area| {
        let (Some(&(peak, _)), Some(&(_, end_ns))) = (ports.first(), bins.last()) else {
            return nothing(area, &format!("{title}: nothing was queued when it was looked"));
        };
        // Two entries of the legend in a line.
        let lines = ports.len().div_ceil(2) as u32;
        let (plot, below) = area.split_vertically(SIZE.1 - 8 - LEGEND_LINE * lines);
        let (time, size) = (units::time(end_ns), units::bytes(peak as f64));
        let mut chart = ChartBuilder::on(&plot)
            .caption(&caption, TITLE)
            .margin(8)
            .margin_right(24)
            .x_label_area_size(44)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..end_ns / time.size, 0.0..1.05 * peak as f64 / size.size)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .x_desc(format!("Time since the start ({})", time.name))
            .y_desc(format!("Queued at the port ({})", size.name))
            .x_label_formatter(&|time| short(*time))
            .y_label_formatter(&|size| short(*size))
            .axis_desc_style(AXIS)
            .label_style(LABEL)
            .draw()?;
        for (&(_, at), colour) in ports.iter().zip(COLOURS).rev() {
            let queued = &watched.timeline.ports()[at].queued_bytes;
            let points = bins.iter().zip(queued);
            let line: Vec<(f64, f64)> = points
                .map(|((_, end), bytes)| (end / time.size, *bytes as f64 / size.size))
                .collect();
            chart.draw_series([PathElement::new(line, colour.stroke_width(2))])?;
        }
        let entry = |(&(_, at), colour): (&(u64, usize), RGBColor)| {
            let name = &watched.names[at];
            (format!("{} to {}", name.port, name.peer), colour.filled())
        };
        let entries: Vec<_> = ports.iter().zip(COLOURS).map(entry).collect();
        for (row, pair) in below
            .split_evenly((lines as usize, 1))
            .iter()
            .zip(entries.chunks(2))
        {
            for (cell, one) in row.split_evenly((1, 2)).iter().zip(pair) {
                legend(cell, std::slice::from_ref(one))?;
            }
        }
        Ok(())
    })
}
