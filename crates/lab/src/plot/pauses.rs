//! Pauses over time: who stood still.

use std::path::Path;

use plotters::prelude::*;

use super::Watched;
use super::style::{AXIS, COLOURS, GREY, GRID, LABEL, TITLE, edge, nothing, picture, places};
use super::units::{self, short};
use xoff_telemetry::failure::Failure;

const WIDTH: u32 = 960;
/// So many senders have a row.
const SHOWN: usize = 20;
const ROW_HEIGHT: u32 = 20;
const AROUND: u32 = 110;
/// Letters of a name that fit before the axis.
const NAME_LETTERS: usize = 30;

/// A sender that was paused: a port of a switch, or a host.
struct Sender {
    name: String,
    /// By bin, in picoseconds.
    paused_ps: Vec<u64>,
    total_ps: u128,
}

/// A row for each of those that were paused longest, the darker the more of the time.
pub(super) fn write(path: &Path, title: &str, watched: &Watched) -> Result<(), Failure> {
    let bins = watched.timeline.bins_ns();
    let mut senders = senders(watched);
    let paused = senders.len();
    senders.truncate(SHOWN);
    let caption = match paused > SHOWN {
        true => format!("{title}: the {SHOWN} longest paused of {paused} senders"),
        false => format!("{title}: paused senders"),
    };
    let rows = senders.len();
    let height = AROUND + ROW_HEIGHT * rows.max(3) as u32;
    picture(path, (WIDTH, height), |area| {
        let (Some(&(_, end_ns)), true) = (bins.last(), rows > 0) else {
            return nothing(area, &format!("{title}: nobody was paused"));
        };
        let time = units::time(end_ns);
        let mut chart = ChartBuilder::on(area)
            .caption(&caption, TITLE)
            .margin(8)
            .margin_right(24)
            .x_label_area_size(44)
            .y_label_area_size(7 * NAME_LETTERS as i32 + 10)
            .build_cartesian_2d(0.0..end_ns / time.size, places(rows).into_segmented())?;
        // The longest paused one stands on top.
        let row_of = |row: usize| rows - 1 - row;
        let name = |row: &SegmentValue<usize>| match row {
            SegmentValue::CenterOf(row) if *row < rows => senders[row_of(*row)].name.clone(),
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .x_desc(format!(
                "Time since the start ({}); the darker, the more of it paused",
                time.name
            ))
            .y_labels(rows)
            .y_label_formatter(&name)
            .x_label_formatter(&|time| short(*time))
            .axis_desc_style(AXIS)
            .label_style(LABEL)
            .axis_style(GREY)
            .draw()?;
        for row in 0..rows {
            let sender = &senders[row_of(row)];
            let (low, high) = (edge(row, rows), edge(row + 1, rows));
            let cells = bins
                .iter()
                .zip(&sender.paused_ps)
                .filter(|(_, paused)| **paused > 0);
            chart.draw_series(cells.map(|((begin, end), paused)| {
                let share = (*paused as f64 / ((end - begin) * 1e3)).min(1.0);
                // Short pauses are to be seen, too.
                let shade = COLOURS[1].mix(0.15 + 0.85 * share).filled();
                let mut cell = Rectangle::new(
                    [(begin / time.size, low.clone()), (end / time.size, high.clone())],
                    shade,
                );
                cell.set_margin(2, 2, 0, 0);
                cell
            }))?;
        }
        Ok(())
    })
}

/// All that were paused, the longest first.
fn senders(watched: &Watched) -> Vec<Sender> {
    let mut senders = Vec::new();
    for (port, name) in watched.timeline.ports().iter().zip(&watched.names) {
        let mut add = |name: &str, paused_ps: &[u64]| {
            let total_ps: u128 = paused_ps.iter().map(|ps| u128::from(*ps)).sum();
            if total_ps > 0 {
                senders.push(Sender {
                    name: shortened(name),
                    paused_ps: paused_ps.to_vec(),
                    total_ps,
                });
            }
        };
        add(&name.port, &port.paused_ps);
        // A switch's port tells itself; a host is known by who pauses it.
        if !name.between_switches && !name.peer.is_empty() {
            add(&name.peer, &port.pausing_ps);
        }
    }
    // The sort is stable: equals stay in the order of the lab.
    senders.sort_by_key(|sender| std::cmp::Reverse(sender.total_ps));
    senders
}

/// The end of a name says more than its begin.
fn shortened(name: &str) -> String {
    let letters = name.chars().count();
    match letters.checked_sub(NAME_LETTERS) {
        None | Some(0) => name.to_owned(),
        Some(more) => format!("..{}", name.chars().skip(more + 2).collect::<String>()),
    }
}
