//! Bar charts of a figure (a measured quantity), one bar for each scheme, with the range over the seeds.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::rows::{ROWS_WIDTH, Row, draw_rows, label_with_unit, rows_height};
use super::style::{AXIS, Area, COLOURS, DrawResult, GREY, GRID, LABEL, TITLE, draw_message, write_svg};
use super::units::{self, AxisUnit, format_short};
use xoff_telemetry::failure::Failure;

/// Height of a chart, in pixels.
const PANEL_HEIGHT: u32 = 320;
/// Width of a bar, in pixels.
const BAR_WIDTH: u32 = 110;
/// Width of axis and margins, in pixels.
const MARGIN_WIDTH: u32 = 130;
/// Largest number of vertical bars. More bars are drawn as rows, so that the chart is not too wide.
const COLUMNS_MAX: usize = 9;

/// One bar of a chart.
#[derive(Clone, Debug)]
pub struct ChartBar {
    /// Label of the bar.
    pub name: String,
    /// Median, smallest value and largest value, in the unit of the chart. `None`: the bar has no value and
    /// is not drawn.
    pub median_min_max: Option<[f64; 3]>,
    /// Whether the bar is the reference for the other bars. The reference bar has another colour.
    pub is_reference: bool,
}

/// One chart with several bars.
#[derive(Clone, Debug)]
pub struct BarPanel {
    /// Title of the chart.
    pub title: String,
    /// The bars from left to right.
    pub bars: Vec<ChartBar>,
}

/// Writes an SVG file with bar charts of times, one below the other. The values of the bars are in
/// nanoseconds. `x_label` is the label of the horizontal axis, such as the name of the compared field.
/// `y_label` is the name of the measured time. A chart without a value shows a message instead.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn write_time_bars(
    path: &Path,
    panels: &[BarPanel],
    x_label: &str,
    y_label: &str,
) -> Result<(), Failure> {
    let bars_max = panels.iter().map(|panel| panel.bars.len()).max().unwrap_or(0);
    let are_rows = bars_max > COLUMNS_MAX;
    let (width, panel_height) = match are_rows {
        true => (ROWS_WIDTH, rows_height(bars_max)),
        false => (
            (MARGIN_WIDTH + BAR_WIDTH * bars_max as u32).max(480),
            PANEL_HEIGHT,
        ),
    };
    write_svg(path, (width, panel_height * panels.len().max(1) as u32), |area| {
        let areas = area.split_evenly((panels.len().max(1), 1));
        for (area, panel) in areas.iter().zip(panels) {
            let largest = largest_value(panel);
            if largest <= 0.0 {
                draw_message(area, &format!("{}: no run has ended", panel.title))?;
                continue;
            }
            let unit = units::time_unit(largest);
            let y_label = format!("{y_label} ({})", unit.name);
            match are_rows {
                true => draw_rows(area, &panel.title, &panel_rows(panel, &unit), &y_label)?,
                false => draw_panel(area, panel, x_label, &y_label, &unit)?,
            }
        }
        Ok(())
    })
}

/// Returns the largest value of all bars. Returns 0 if no bar has a value.
fn largest_value(panel: &BarPanel) -> f64 {
    let values = panel.bars.iter().filter_map(|bar| bar.median_min_max);
    values.map(|[.., max]| max).fold(0.0, f64::max)
}

/// Returns the bars of a chart as rows of a horizontal bar chart.
fn panel_rows(panel: &BarPanel, unit: &AxisUnit) -> Vec<Row> {
    let row = |bar: &ChartBar| Row {
        name: bar.name.clone(),
        median_low_high: bar
            .median_min_max
            .map(|values| values.map(|value| value / unit.size)),
        label: bar
            .median_min_max
            .map_or(String::new(), |[median, ..]| label_with_unit(median, unit)),
        is_reference: bar.is_reference,
    };
    panel.bars.iter().map(row).collect()
}

/// Draws one chart of vertical bars. `unit` is the unit of the axis. For example, the unit `us` with the size
/// 1000 shows values in nanoseconds as microseconds.
fn draw_panel(
    area: &Area<'_>,
    panel: &BarPanel,
    x_label: &str,
    y_label: &str,
    unit: &AxisUnit,
) -> DrawResult {
    let largest = match largest_value(panel) {
        none if none <= 0.0 => unit.size,
        largest => largest,
    };
    let count = panel.bars.len();
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, TITLE)
        .margin(8)
        .margin_right(20)
        .x_label_area_size(52)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..count.max(1) as f64, 0.0..1.15 * largest / unit.size)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .x_desc(x_label)
        .y_desc(y_label)
        // The names of the bars are drawn below: an axis of plotters has ticks between the bars.
        .x_labels(0)
        .y_label_formatter(&|value| format_short(*value))
        .axis_desc_style(AXIS)
        .label_style(LABEL)
        .draw()?;
    let name_style = TextStyle::from(LABEL).pos(Pos::new(HPos::Center, VPos::Top));
    for (at, bar) in panel.bars.iter().enumerate() {
        let middle = at as f64 + 0.5;
        let tick = PathElement::new(vec![(0, 0), (0, 5)], BLACK);
        let name = Text::new(bar.name.clone(), (0, 10), name_style.clone());
        chart.draw_series([EmptyElement::at((middle, 0.0)) + tick + name])?;
        let Some(values) = bar.median_min_max else {
            continue;
        };
        let bar_median = values[0];
        let [median, min, max] = values.map(|value| value / unit.size);
        let colour = if bar.is_reference { GREY } else { COLOURS[0] };
        let mut rectangle = Rectangle::new(
            [(middle - 0.5, 0.0), (middle + 0.5, median)],
            colour.mix(0.75).filled(),
        );
        rectangle.set_margin(0, 0, 22, 22);
        chart.draw_series([rectangle])?;
        if max > min {
            chart.draw_series([PathElement::new(vec![(middle, min), (middle, max)], BLACK)])?;
            for end in [min, max] {
                let cap = PathElement::new(vec![(-7, 0), (7, 0)], BLACK);
                chart.draw_series([EmptyElement::at((middle, end)) + cap])?;
            }
        }
        let style = TextStyle::from(LABEL).pos(Pos::new(HPos::Center, VPos::Bottom));
        let label =
            EmptyElement::at((middle, max)) + Text::new(label_with_unit(bar_median, unit), (0, -5), style);
        chart.draw_series([label])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_at_most_1200_pixels_wide() {
        let folder = tempfile::tempdir().expect("a folder");
        for count in [1, COLUMNS_MAX, COLUMNS_MAX + 1, 64] {
            let bar = |n: usize| ChartBar {
                name: format!("scheme-{n}"),
                median_min_max: Some([1e6, 0.9e6, 1.1e6 + n as f64]),
                is_reference: n == 0,
            };
            let panel = BarPanel {
                title: "lab: job".to_owned(),
                bars: (0..count).map(bar).collect(),
            };
            let path = folder.path().join("jct.svg");
            write_time_bars(&path, &[panel], "Scheme", "Completion time").expect("written");
            let text = std::fs::read_to_string(&path).expect("a file");
            let width = text
                .split("width=\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            let width: u32 = width.expect("a width").parse().expect("a number");
            assert!(width <= 1_200, "{count} bars: {width}");
            for n in 0..count {
                assert!(text.contains(&format!("\nscheme-{n}\n")), "{count} bars: {n}");
            }
            assert!(text.contains("1 ms"), "{text}");
        }
    }
}
