//! Common style of all plots: colours, fonts, axes, legends and files.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use xoff_telemetry::failure::Failure;

/// The drawing area of a plot or of a part of it.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// The result of a drawing function. Plots are drawn into memory, so errors do not occur in practice.
pub(super) type DrawResult = Result<(), Box<dyn std::error::Error>>;

/// Colours of lines and bars, darker colours first. The palette of Okabe and Ito is suitable for
/// colour-blind users.
pub(super) const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];
/// Colour of the grid lines.
pub(super) const GRID: RGBColor = RGBColor(225, 225, 225);
/// Colour of secondary text and of reference bars.
pub(super) const GREY: RGBColor = RGBColor(110, 110, 110);

/// Font of titles.
pub(super) const TITLE: (&str, i32) = ("sans-serif", 18);
/// Font of axis descriptions.
pub(super) const AXIS: (&str, i32) = ("sans-serif", 15);
/// Font of labels.
pub(super) const LABEL: (&str, i32) = ("sans-serif", 13);

/// Draws a plot of the given size and writes it as an SVG file.
///
/// # Errors
/// Fails if the file cannot be written.
pub(super) fn write_svg(
    path: &Path,
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> DrawResult,
) -> Result<(), Failure> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE)
            .map_err(|error| error.to_string())
            .and_then(|()| draw(&area).map_err(|error| error.to_string()))
            .and_then(|()| area.present().map_err(|error| error.to_string()))
            .map_err(|error| {
                Failure::environment("cannot draw a plot")
                    .at(path.display().to_string())
                    .because(error)
            })?;
    }
    xoff_telemetry::write_result_file("--plots", path, &text)
}

/// Shortens a long name by removing its start, because the ends of names differ more than the starts.
pub(super) fn shorten_start(name: &str, length_max: usize) -> String {
    let length = name.chars().count();
    match length.checked_sub(length_max) {
        None | Some(0) => name.to_owned(),
        Some(excess) => format!("..{}", name.chars().skip(excess + 2).collect::<String>()),
    }
}

/// Shortens a long text by removing its end.
pub(super) fn shorten_end(text: &str, length_max: usize) -> String {
    match text.chars().count() > length_max {
        true => format!("{}..", text.chars().take(length_max - 2).collect::<String>()),
        false => text.to_owned(),
    }
}

/// Draws a line of text in the middle of an area without data.
pub(super) fn draw_message(area: &Area<'_>, text: &str) -> DrawResult {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    let (width, height) = area.dim_in_pixel();
    let style = TextStyle::from(AXIS)
        .color(&GREY)
        .pos(Pos::new(HPos::Center, VPos::Center));
    let at = (width as i32 / 2, height as i32 / 2);
    area.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}

/// Draws the entries of a legend from left to right. `area` has the height of one line of text.
pub(super) fn draw_legend(area: &Area<'_>, entries: &[(String, ShapeStyle)]) -> DrawResult {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    let style = TextStyle::from(LABEL).pos(Pos::new(HPos::Left, VPos::Center));
    let middle = area.dim_in_pixel().1 as i32 / 2;
    let mut x = 70;
    for (word, sample) in entries {
        area.draw(&Rectangle::new([(x, middle - 4), (x + 22, middle + 4)], *sample))?;
        area.draw(&Text::new(word.clone(), (x + 28, middle), style.clone()))?;
        // A character of this font is at most seven pixels wide.
        x += 28 + 7 * word.chars().count() as i32 + 22;
    }
    Ok(())
}
