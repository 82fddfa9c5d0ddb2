//! Plot of paused senders over time.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::RunTimeline;
use super::style::{AXIS, COLOURS, GREY, GRID, LABEL, TITLE, draw_message, shorten_start, write_svg};
use super::units::{self, format_short};
use xoff_telemetry::failure::Failure;

const WIDTH: u32 = 960;
/// Largest number of senders in the plot.
const SENDERS_SHOWN_MAX: usize = 20;
const ROW_HEIGHT: u32 = 20;
/// Height of title, axis and margins, in pixels.
const MARGIN_HEIGHT: u32 = 110;
/// Largest length of a name beside the axis, in characters.
const NAME_LENGTH_MAX: usize = 30;

/// A sender that was paused: a switch port or a host.
struct PausedSender {
    name: String,
    /// Paused time in each bin (interval of time), in picoseconds.
    paused_ps: Vec<u64>,
    total_ps: u128,
}

/// Writes a plot of the longest paused senders, with one row for each sender and one column for each interval
/// of time. A darker cell means a longer pause.
///
/// # Errors
/// Fails if the file cannot be written.
pub(super) fn write_pause_plot(path: &Path, title: &str, run: &RunTimeline) -> Result<(), Failure> {
    let bins = run.timeline.bins_ns();
    let mut senders = paused_senders(run);
    let paused = senders.len();
    senders.truncate(SENDERS_SHOWN_MAX);
    let caption = match paused > SENDERS_SHOWN_MAX {
        true => format!("{title}: the {SENDERS_SHOWN_MAX} longest paused of {paused} senders"),
        false => format!("{title}: paused senders"),
    };
    let rows = senders.len();
    let height = MARGIN_HEIGHT + ROW_HEIGHT * rows.max(3) as u32;
    write_svg(path, (WIDTH, height), |area| {
        let (Some(&(_, end_ns)), true) = (bins.last(), rows > 0) else {
            return draw_message(area, &format!("{title}: no sender was paused"));
        };
        let time = units::time_unit(end_ns);
        let mut chart = ChartBuilder::on(area)
            .caption(&caption, TITLE)
            .margin(8)
            .margin_right(24)
            .x_label_area_size(44)
            .y_label_area_size(7 * NAME_LENGTH_MAX as i32 + 10)
            .build_cartesian_2d(0.0..end_ns / time.size, 0.0..rows as f64)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .x_desc(format!(
                "Time since the start ({}); darker: longer paused",
                time.name
            ))
            // The names of the rows are drawn below: an axis of plotters has ticks between the rows.
            .y_labels(0)
            .x_label_formatter(&|time| format_short(*time))
            .axis_desc_style(AXIS)
            .label_style(LABEL)
            .axis_style(GREY)
            .draw()?;
        let name_style = TextStyle::from(LABEL).pos(Pos::new(HPos::Right, VPos::Center));
        for (at, sender) in senders.iter().enumerate() {
            // The longest paused sender is in the top row.
            let high = (rows - at) as f64;
            let (middle, low) = (high - 0.5, high - 1.0);
            let tick = PathElement::new(vec![(-5, 0), (0, 0)], GREY);
            let name = Text::new(sender.name.clone(), (-10, 0), name_style.clone());
            chart.draw_series([EmptyElement::at((0.0, middle)) + tick + name])?;
            let cells = bins
                .iter()
                .zip(&sender.paused_ps)
                .filter(|(_, paused)| **paused > 0);
            chart.draw_series(cells.map(|((start, end), paused)| {
                let share = (*paused as f64 / ((end - start) * 1e3)).min(1.0);
                // A minimum shade keeps short pauses visible.
                let shade = COLOURS[1].mix(0.15 + 0.85 * share).filled();
                let mut cell = Rectangle::new([(start / time.size, low), (end / time.size, high)], shade);
                cell.set_margin(2, 2, 0, 0);
                cell
            }))?;
        }
        Ok(())
    })
}

/// Returns all paused senders. The longest paused sender comes first.
fn paused_senders(run: &RunTimeline) -> Vec<PausedSender> {
    let mut senders = Vec::new();
    for (port, name) in run.timeline.ports().iter().zip(&run.names) {
        let mut add = |name: &str, paused_ps: &[u64]| {
            let total_ps: u128 = paused_ps.iter().map(|ps| u128::from(*ps)).sum();
            if total_ps > 0 {
                senders.push(PausedSender {
                    name: shorten_start(name, NAME_LENGTH_MAX),
                    paused_ps: paused_ps.to_vec(),
                    total_ps,
                });
            }
        };
        add(&name.port, &port.paused_ps);
        // The timeline has switch ports only. A host is paused for the time for which its switch port
        // pauses it.
        if !name.between_switches && !name.peer.is_empty() {
            add(&name.peer, &port.pausing_ps);
        }
    }
    // The sort is stable: senders with equal times stay in the order of the lab.
    senders.sort_by_key(|sender| std::cmp::Reverse(sender.total_ps));
    senders
}
