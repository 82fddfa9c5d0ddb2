//! Charts of the figures (measured quantities) of a bench, one panel for each unit.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::rows::{ROWS_WIDTH, Row, draw_rows, label_with_unit, rows_height};
use super::style::{Area, DrawResult, GREY, LABEL, write_svg};
use super::units::{self, Quantity};
use xoff_telemetry::failure::Failure;

/// Largest number of rows in a panel. A unit with more figures has a panel for each kind of figure.
const PANEL_ROWS_MAX: usize = 24;
/// Height of a line of text, in pixels.
const LINE_HEIGHT: u32 = 20;
/// Largest length of a line of text, in characters.
const LINE_LENGTH_MAX: usize = 125;
/// Largest number of lines about figures without a bar.
const LINES_MAX: usize = 8;

/// A figure of a bench.
#[derive(Clone, Debug, PartialEq)]
pub struct PlottedFigure {
    /// Name, such as `1518/ndr/rate`.
    pub name: String,
    /// Unit, such as `ns` or `frames/s`.
    pub unit: String,
    /// Median and the bounds of its confidence interval, in the unit.
    pub median_low_high: [f64; 3],
}

/// A panel of the chart: figures of one unit.
struct Panel<'a> {
    title: String,
    figures: Vec<&'a PlottedFigure>,
}

/// Writes an SVG file with horizontal bars, one for each figure. Figures of the same unit share a panel, and the
/// unit is scaled, for example from `ns` to `ms`. Figures whose values are all 0 have no bar: they are listed below the
/// panels.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn write_figure_bars(path: &Path, title: &str, figures: &[PlottedFigure]) -> Result<(), Failure> {
    let panels = group_by_unit(title, figures);
    let lines = describe_zero_figures(figures);
    let text_height = match lines.len() as u32 {
        0 => 0,
        count => LINE_HEIGHT * count + 16,
    };
    let panels_height: u32 = panels.iter().map(|panel| rows_height(panel.figures.len())).sum();
    let height = (panels_height + text_height).max(LINE_HEIGHT * 3);
    write_svg(path, (ROWS_WIDTH, height), |area| {
        let mut rest = area.clone();
        for panel in &panels {
            let (own, below) = rest.split_vertically(rows_height(panel.figures.len()));
            draw_panel(&own, panel)?;
            rest = below;
        }
        draw_lines(&rest, &lines)
    })
}

/// Returns the panels of all figures with a value other than 0, in the order of the figures.
fn group_by_unit<'a>(title: &str, figures: &'a [PlottedFigure]) -> Vec<Panel<'a>> {
    let mut units: Vec<(&str, Vec<&PlottedFigure>)> = Vec::new();
    for figure in figures.iter().filter(|figure| !is_zero(figure)) {
        match units.iter_mut().find(|(unit, _)| *unit == figure.unit) {
            Some((_, members)) => members.push(figure),
            None => units.push((&figure.unit, vec![figure])),
        }
    }
    let mut panels = Vec::new();
    for (unit, members) in units {
        // Figures with the same last part of the name are of one kind, such as `p99`.
        let mut kinds: Vec<(&str, Vec<&PlottedFigure>)> = Vec::new();
        for figure in &members {
            let kind = figure.name.rsplit('/').next().unwrap_or(unit);
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, members)) => members.push(figure),
                None => kinds.push((kind, vec![figure])),
            }
        }
        // A panel for each figure would be longer than a long panel.
        if members.len() <= PANEL_ROWS_MAX || kinds.len() * 2 > members.len() {
            panels.push(Panel {
                title: title.to_owned(),
                figures: members,
            });
            continue;
        }
        panels.extend(kinds.into_iter().map(|(kind, figures)| Panel {
            title: format!("{title}: {kind}"),
            figures,
        }));
    }
    panels
}

/// Returns whether a figure and its interval are 0. A bar of this length would not be visible.
fn is_zero(figure: &PlottedFigure) -> bool {
    figure.median_low_high.iter().all(|value| *value == 0.0)
}

fn largest_value(figure: &PlottedFigure) -> f64 {
    figure.median_low_high.into_iter().fold(0.0, f64::max)
}

fn draw_panel(area: &Area<'_>, panel: &Panel<'_>) -> DrawResult {
    let largest = panel
        .figures
        .iter()
        .map(|figure| largest_value(figure))
        .fold(0.0, f64::max);
    let quantity = Quantity::of_unit(&panel.figures[0].unit);
    let unit = quantity.fitting_unit(largest);
    let rows: Vec<Row> = panel
        .figures
        .iter()
        .map(|figure| Row {
            name: figure.name.clone(),
            median_low_high: Some(figure.median_low_high.map(|value| value.max(0.0) / unit.size)),
            // A value far below the largest value has a smaller unit than the axis.
            label: label_with_unit(
                figure.median_low_high[0],
                &quantity.fitting_unit(figure.median_low_high[0]),
            ),
            is_reference: false,
        })
        .collect();
    draw_rows(area, &panel.title, &rows, &units::axis_name(&unit))
}

/// Returns lines of text with the names of all figures that no panel has, because their values are 0.
fn describe_zero_figures(figures: &[PlottedFigure]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for figure in figures.iter().filter(|figure| is_zero(figure)) {
        match lines.last_mut() {
            Some(line) if line.len() + figure.name.len() + 2 <= LINE_LENGTH_MAX => {
                line.push_str(", ");
                line.push_str(&figure.name);
            }
            Some(line) => {
                line.push(',');
                lines.push(figure.name.clone());
            }
            None => lines.push(format!("Figures with the value 0: {}", figure.name)),
        }
    }
    if lines.len() > LINES_MAX {
        lines.truncate(LINES_MAX);
        lines.push("and more".to_owned());
    }
    lines
}

fn draw_lines(area: &Area<'_>, lines: &[String]) -> DrawResult {
    let style = TextStyle::from(LABEL)
        .color(&GREY)
        .pos(Pos::new(HPos::Left, VPos::Top));
    for (at, line) in lines.iter().enumerate() {
        let position = (16, 8 + (LINE_HEIGHT as usize * at) as i32);
        area.draw(&Text::new(line.clone(), position, style.clone()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &str, unit: &str, value: f64) -> PlottedFigure {
        PlottedFigure {
            name: name.to_owned(),
            unit: unit.to_owned(),
            median_low_high: [value; 3],
        }
    }

    /// Writes a chart. Returns its text, its width and its height.
    fn chart_of(figures: &[PlottedFigure]) -> (String, u32, u32) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("chart.svg");
        write_figure_bars(&path, "bench: subject", figures).expect("written");
        let text = std::fs::read_to_string(path).expect("a file");
        let size = |name: &str| {
            let value = text.split(&format!("{name}=\"")).nth(1).expect("a size");
            value
                .split('"')
                .next()
                .expect("a value")
                .parse()
                .expect("a number")
        };
        let (width, height) = (size("width"), size("height"));
        (text, width, height)
    }

    #[test]
    fn the_width_does_not_depend_on_the_number_of_figures() {
        for count in [1, 8, 48, 200] {
            let figures: Vec<PlottedFigure> = (0..count)
                .map(|n| figure(&format!("size{n}/p{}", n % 8), "ns", f64::from(n + 1)))
                .collect();
            let (text, width, _) = chart_of(&figures);
            assert_eq!(width, ROWS_WIDTH);
            for figure in &figures {
                assert!(text.contains(&figure.name), "{}", figure.name);
            }
        }
    }

    #[test]
    fn figures_without_a_value_have_no_row() {
        let (text, _, height) = chart_of(&[
            figure("class0/paused", "ns", 0.0),
            figure("class3/paused", "ns", 2_000.0),
            figure("class4/paused", "ns", 0.0),
        ]);
        // One row, with its name and its label, and a line of text.
        assert_eq!(height, rows_height(1) + LINE_HEIGHT + 16);
        assert!(
            text.contains("Figures with the value 0: class0/paused, class4/paused"),
            "{text}"
        );
        let negative = chart_of(&[figure("change", "percent", -2.0)]).0;
        assert!(
            !negative.contains("value 0") && negative.contains("-2 %"),
            "{negative}"
        );
    }

    #[test]
    fn each_row_has_one_tick() {
        // Ticks at the names are the only lines that end at the axis.
        let ticks = |count: u32| {
            let figures: Vec<PlottedFigure> = (0..count)
                .map(|n| figure(&format!("name{n}"), "percent", 50.0))
                .collect();
            let (text, ..) = chart_of(&figures);
            let lengths = text.split("<polyline ").filter_map(|element| {
                let points = element.split("points=\"").nth(1)?.split('"').next()?;
                let numbers: Vec<i32> = points
                    .split([',', ' '])
                    .filter_map(|number| number.parse().ok())
                    .collect();
                let is_tick =
                    numbers.len() == 4 && numbers[1] == numbers[3] && (numbers[2] - numbers[0]).abs() == 5;
                is_tick.then_some(())
            });
            lengths.count()
        };
        for count in [1, 2, 3, 7] {
            assert_eq!(ticks(count), count as usize, "{count} rows");
        }
    }

    #[test]
    fn names_do_not_overlap() {
        let figures: Vec<PlottedFigure> = (0..100)
            .map(|n| figure(&format!("frames-of-some-length/variant-{n}"), "bytes", 1e6))
            .collect();
        let (text, ..) = chart_of(&figures);
        // plotters writes the position of a text before the text.
        let mut rows: Vec<i32> = text
            .split("<text ")
            .filter(|element| element.contains("variant-"))
            .map(|element| {
                let y = element.split("y=\"").nth(1).expect("a position");
                y.split('"').next().expect("a value").parse().expect("a number")
            })
            .collect();
        rows.sort_unstable();
        assert_eq!(rows.len(), 100);
        for pair in rows.windows(2) {
            assert!(pair[1] - pair[0] >= 16, "{pair:?}");
        }
    }

    #[test]
    fn units_are_scaled_and_zeros_have_no_panel() {
        let (text, _, height) = chart_of(&[
            figure("b2b/longest", "ns", 2_500_000.0),
            figure("b2b/shortest", "ns", 8.0),
            figure("rate", "frames/s", 1_488_095.0),
            figure("lost", "frames", 0.0),
            figure("dropped", "frames", 0.0),
        ]);
        for part in [
            "2.5 ms",
            "8 ns",
            "1.49 Mframes/s",
            "Figures with the value 0: lost, dropped",
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        assert!(!text.contains("2500000"), "{text}");
        let without_zeros = chart_of(&[
            figure("b2b/longest", "ns", 2_500_000.0),
            figure("b2b/shortest", "ns", 8.0),
            figure("rate", "frames/s", 1_488_095.0),
        ]);
        assert_eq!(height, without_zeros.2 + LINE_HEIGHT + 16);
    }
}
