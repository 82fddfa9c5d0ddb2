//! Bars: a figure by scheme, with its spread over seeds.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{AXIS, Area, COLOURS, Drawn, GREY, GRID, LABEL, TITLE, edge, nothing, picture, places};
use super::units::{self, short};
use xoff_telemetry::failure::Failure;

const PANEL_HEIGHT: u32 = 320;
const BAR_WIDTH: u32 = 110;
/// Where a bar is called by several words.
const WIDE_BAR: u32 = 150;
const AROUND: u32 = 130;

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What it is called.
    pub name: String,
    /// Median, smallest and largest, in nanoseconds; `None`: there is no value.
    pub spread: Option<[f64; 3]>,
    /// It is what the others are measured against.
    pub reference: bool,
}

/// Bars beside each other.
#[derive(Clone, Debug)]
pub struct BarPanel {
    /// Its title.
    pub title: String,
    /// From left to right.
    pub bars: Vec<Bar>,
}

/// A panel below the other. `axis` is what the bars differ by, `what` the time they show.
///
/// # Errors
/// The file cannot be written.
pub fn write_bars(path: &Path, panels: &[BarPanel], axis: &str, what: &str) -> Result<(), Failure> {
    let most = panels.iter().map(|panel| panel.bars.len()).max().unwrap_or(0);
    let width = (AROUND + BAR_WIDTH * most as u32).max(480);
    let height = PANEL_HEIGHT * panels.len().max(1) as u32;
    picture(path, (width, height), |area| {
        let areas = area.split_evenly((panels.len().max(1), 1));
        for (area, panel) in areas.iter().zip(panels) {
            let largest = largest(panel);
            if largest <= 0.0 {
                nothing(area, &format!("{}: no run came to its end", panel.title))?;
                continue;
            }
            let unit = units::time(largest);
            let what = format!("{what} ({})", unit.name);
            draw(area, panel, axis, &what, (unit.name, unit.size))?;
        }
        Ok(())
    })
}

/// As [`write_bars`], of anything: each panel with the unit of its values.
///
/// # Errors
/// The file cannot be written.
pub fn write_bars_of(path: &Path, panels: &[(&str, BarPanel)]) -> Result<(), Failure> {
    let most = panels
        .iter()
        .map(|(_, panel)| panel.bars.len())
        .max()
        .unwrap_or(0);
    let width = (AROUND + WIDE_BAR * most as u32).max(480);
    let height = PANEL_HEIGHT * panels.len().max(1) as u32;
    picture(path, (width, height), |area| {
        let areas = area.split_evenly((panels.len().max(1), 1));
        for (area, (unit, panel)) in areas.iter().zip(panels) {
            draw(area, panel, "", unit, (unit, 1.0))?;
        }
        Ok(())
    })
}

/// The upper end of the axis.
fn largest(panel: &BarPanel) -> f64 {
    let spreads = panel.bars.iter().filter_map(|bar| bar.spread);
    spreads.map(|[.., max]| max).fold(0.0, f64::max)
}

/// `unit` is its name, and how many of the values' own unit it is.
fn draw(area: &Area<'_>, panel: &BarPanel, axis: &str, what: &str, unit: (&str, f64)) -> Drawn {
    let largest = match largest(panel) {
        nothing if nothing <= 0.0 => unit.1,
        largest => largest,
    };
    let count = panel.bars.len();
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, TITLE)
        .margin(8)
        .margin_right(20)
        .x_label_area_size(52)
        .y_label_area_size(70)
        .build_cartesian_2d(places(count).into_segmented(), 0.0..1.15 * largest / unit.1)?;
    let name = |bar: &SegmentValue<usize>| match bar {
        SegmentValue::CenterOf(at) => panel.bars.get(*at).map_or(String::new(), |bar| bar.name.clone()),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .x_desc(axis)
        .y_desc(what)
        .x_labels(count)
        .x_label_formatter(&name)
        .y_label_formatter(&|value| short(*value))
        .axis_desc_style(AXIS)
        .label_style(LABEL)
        .draw()?;
    for (at, bar) in panel.bars.iter().enumerate() {
        let Some(spread) = bar.spread else { continue };
        let [median, min, max] = spread.map(|value| value / unit.1);
        let colour = if bar.reference { GREY } else { COLOURS[0] };
        let mut rectangle = Rectangle::new(
            [(edge(at, count), 0.0), (edge(at + 1, count), median)],
            colour.mix(0.75).filled(),
        );
        rectangle.set_margin(0, 0, 22, 22);
        chart.draw_series([rectangle])?;
        let middle = || SegmentValue::CenterOf(at);
        if max > min {
            chart.draw_series([PathElement::new(vec![(middle(), min), (middle(), max)], BLACK)])?;
            for end in [min, max] {
                let cap = PathElement::new(vec![(-7, 0), (7, 0)], BLACK);
                chart.draw_series([EmptyElement::at((middle(), end)) + cap])?;
            }
        }
        let style = TextStyle::from(LABEL).pos(Pos::new(HPos::Center, VPos::Bottom));
        let label = EmptyElement::at((middle(), max)) + Text::new(text(median, unit), (0, -5), style);
        chart.draw_series([label])?;
    }
    Ok(())
}

fn text(value: f64, (unit, _): (&str, f64)) -> String {
    format!("{} {unit}", short(value))
}
