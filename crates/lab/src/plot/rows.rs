//! Horizontal bar charts: one row for each bar, so any number of long names fits.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{AXIS, Area, COLOURS, DrawResult, GREY, GRID, LABEL, TITLE, shorten_end, shorten_start};
use super::units::{AxisUnit, format_short};

/// Width of a chart, in pixels.
pub(super) const ROWS_WIDTH: u32 = 960;
/// Height of a row, in pixels.
const ROW_HEIGHT: u32 = 22;
/// Height of title, axis and margins, in pixels.
const MARGIN_HEIGHT: u32 = 96;
/// Largest length of a name beside the axis, in characters.
const NAME_LENGTH_MAX: usize = 44;
/// Largest length of a title, in characters.
const TITLE_LENGTH_MAX: usize = 100;
/// Largest width of a character of a label, in pixels.
const CHARACTER_WIDTH: i32 = 7;

/// A bar with its whisker and its label.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    /// Median and the ends of the whisker, in the unit of the axis. `None`: the row has no bar.
    pub(super) median_low_high: Option<[f64; 3]>,
    /// Text at the end of the bar.
    pub(super) label: String,
    pub(super) is_reference: bool,
}

/// Returns the height of a chart with this number of rows, in pixels.
pub(super) fn rows_height(count: usize) -> u32 {
    MARGIN_HEIGHT + ROW_HEIGHT * count.max(1) as u32
}

/// Draws a chart. The first row is at the top. `x_label` is the label of the axis, with the unit.
pub(super) fn draw_rows(area: &Area<'_>, title: &str, rows: &[Row], x_label: &str) -> DrawResult {
    let values = rows.iter().filter_map(|row| row.median_low_high);
    let largest = values.map(|[.., high]| high).fold(0.0, f64::max);
    let count = rows.len();
    let name_width = |row: &Row| row.name.chars().count().min(NAME_LENGTH_MAX) as i32 * CHARACTER_WIDTH;
    let names_width = rows.iter().map(name_width).max().unwrap_or(0) + 20;
    let label_width = |row: &Row| row.label.chars().count() as i32 * CHARACTER_WIDTH;
    let labels_width = rows.iter().map(label_width).max().unwrap_or(0) + 16;
    // The labels need space at the right of the longest bar.
    let bars_width = (ROWS_WIDTH as i32 - names_width - 40 - labels_width).max(100);
    let range_end = match largest > 0.0 {
        true => largest * f64::from(bars_width + labels_width) / f64::from(bars_width),
        false => 1.0,
    };
    let mut chart = ChartBuilder::on(area)
        .caption(shorten_end(title, TITLE_LENGTH_MAX), TITLE)
        .margin(8)
        .margin_right(24)
        .x_label_area_size(44)
        .y_label_area_size(names_width)
        .build_cartesian_2d(0.0..range_end, 0.0..count.max(1) as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .x_desc(x_label)
        // The names of the rows are drawn below: an axis of plotters has ticks between the rows.
        .y_labels(0)
        .x_label_formatter(&|value| format_short(*value))
        .axis_desc_style(AXIS)
        .label_style(LABEL)
        .axis_style(GREY)
        .draw()?;
    let name_style = TextStyle::from(LABEL).pos(Pos::new(HPos::Right, VPos::Center));
    for (at, row) in rows.iter().enumerate() {
        // The first row is at the top.
        let middle = (count - at) as f64 - 0.5;
        let name = shorten_start(&row.name, NAME_LENGTH_MAX);
        let tick = PathElement::new(vec![(-5, 0), (0, 0)], GREY);
        chart.draw_series([EmptyElement::at((0.0, middle))
            + tick
            + Text::new(name, (-10, 0), name_style.clone())])?;
        let Some([median, low, high]) = row.median_low_high else {
            continue;
        };
        let colour = if row.is_reference { GREY } else { COLOURS[0] };
        let mut bar = Rectangle::new(
            [(0.0, middle - 0.5), (median, middle + 0.5)],
            colour.mix(0.75).filled(),
        );
        bar.set_margin(4, 4, 0, 0);
        chart.draw_series([bar])?;
        if high > low {
            chart.draw_series([PathElement::new(vec![(low, middle), (high, middle)], BLACK)])?;
            for end in [low, high] {
                let cap = PathElement::new(vec![(0, -4), (0, 4)], BLACK);
                chart.draw_series([EmptyElement::at((end, middle)) + cap])?;
            }
        }
        let style = TextStyle::from(LABEL).pos(Pos::new(HPos::Left, VPos::Center));
        let end = high.max(median);
        chart.draw_series([EmptyElement::at((end, middle)) + Text::new(row.label.clone(), (8, 0), style)])?;
    }
    Ok(())
}

/// Returns a value as text with the unit that fits the value, such as `1.25 ms`.
pub(super) fn label_with_unit(value: f64, unit: &AxisUnit) -> String {
    let number = format_short(value / unit.size);
    let unit = match unit.name.as_str() {
        "percent" => "%",
        // A number without a unit.
        "ratio" | "index" => "",
        // A word in the plural, such as `frames`.
        words if number == "1" && words.len() > 2 && !words.contains('/') => {
            words.strip_suffix('s').unwrap_or(words)
        }
        symbol => symbol,
    };
    format!("{number} {unit}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_short_units() {
        for (value, unit, label) in [
            (57.8, "percent", "57.8 %"),
            (3.05, "ratio", "3.05"),
            (1.0, "frames", "1 frame"),
            (2.0, "frames", "2 frames"),
            (1.0, "ms", "1 ms"),
            (1.0, "Mframes/s", "1 Mframes/s"),
        ] {
            let unit = AxisUnit {
                name: unit.to_owned(),
                size: 1.0,
            };
            assert_eq!(label_with_unit(value, &unit), label);
        }
    }
}
