//! Plot of the longest queues over time.

use std::path::Path;

use plotters::prelude::*;

use super::RunTimeline;
use super::style::{AXIS, COLOURS, GRID, LABEL, TITLE, draw_legend, draw_message, write_svg};
use super::units::{self, format_short};
use xoff_telemetry::failure::Failure;

/// Width and height of the plot, in pixels.
const SIZE: (u32, u32) = (960, 420);
/// Largest number of ports in the plot.
const LINES_SHOWN_MAX: usize = 6;
const LEGEND_LINE_HEIGHT: u32 = 24;

/// Writes a plot of the ports with the longest queues, one line for each port.
///
/// # Errors
/// Fails if the file cannot be written.
pub(super) fn write_queue_plot(path: &Path, title: &str, run: &RunTimeline) -> Result<(), Failure> {
    let bins = run.timeline.bins_ns();
    let mut ports: Vec<(u64, usize)> = run
        .timeline
        .ports()
        .iter()
        .enumerate()
        .filter_map(|(at, port)| Some((port.queued_bytes.iter().copied().max()?, at)))
        .filter(|(peak, _)| *peak > 0)
        .collect();
    ports.sort_by_key(|(peak, at)| (std::cmp::Reverse(*peak), *at));
    let used_queues = ports.len();
    ports.truncate(LINES_SHOWN_MAX);
    let caption = match used_queues > LINES_SHOWN_MAX {
        true => format!("{title}: the {LINES_SHOWN_MAX} longest of {used_queues} queues"),
        false => format!("{title}: queues"),
    };
    write_svg(path, SIZE, |area| {
        let (Some(&(peak, _)), Some(&(_, end_ns))) = (ports.first(), bins.last()) else {
            return draw_message(area, &format!("{title}: no sample has queued frames"));
        };
        // A line of the legend has two entries.
        let lines = ports.len().div_ceil(2) as u32;
        let (plot, below) = area.split_vertically(SIZE.1 - 8 - LEGEND_LINE_HEIGHT * lines);
        let (time, size) = (units::time_unit(end_ns), units::byte_unit(peak as f64));
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
            .x_label_formatter(&|time| format_short(*time))
            .y_label_formatter(&|size| format_short(*size))
            .axis_desc_style(AXIS)
            .label_style(LABEL)
            .draw()?;
        for (&(_, at), colour) in ports.iter().zip(COLOURS).rev() {
            let queued = &run.timeline.ports()[at].queued_bytes;
            let points = bins.iter().zip(queued);
            let line: Vec<(f64, f64)> = points
                .map(|((_, end), bytes)| (end / time.size, *bytes as f64 / size.size))
                .collect();
            chart.draw_series([PathElement::new(line, colour.stroke_width(2))])?;
        }
        let entry = |(&(_, at), colour): (&(u64, usize), RGBColor)| {
            let name = &run.names[at];
            (format!("{} to {}", name.port, name.peer), colour.filled())
        };
        let entries: Vec<_> = ports.iter().zip(COLOURS).map(entry).collect();
        for (row, pair) in below
            .split_evenly((lines as usize, 1))
            .iter()
            .zip(entries.chunks(2))
        {
            for (cell, entry) in row.split_evenly((1, 2)).iter().zip(pair) {
                draw_legend(cell, std::slice::from_ref(entry))?;
            }
        }
        Ok(())
    })
}
