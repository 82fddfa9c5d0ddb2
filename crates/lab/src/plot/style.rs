//! One look for all plots.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use xoff_telemetry::failure::Failure;

/// What is drawn on.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// What can go wrong while drawing; with SVG in memory nothing does.
pub(super) type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Colours that people with any eyes tell apart (Okabe and Ito), the darker ones first.
pub(super) const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];
/// Grid lines.
pub(super) const GRID: RGBColor = RGBColor(225, 225, 225);
/// Text that is not the point.
pub(super) const GREY: RGBColor = RGBColor(110, 110, 110);

pub(super) const TITLE: (&str, i32) = ("sans-serif", 18);
pub(super) const AXIS: (&str, i32) = ("sans-serif", 15);
pub(super) const LABEL: (&str, i32) = ("sans-serif", 13);

/// An axis of so many places, and where each begins. Plotters' ranges include their ends, and one of a single place is none.
pub(super) fn places(count: usize) -> std::ops::Range<usize> {
    0..count.saturating_sub(1).max(1)
}

/// The begin of a place on such an axis; that behind the last is the axis' end.
pub(super) fn edge(at: usize, count: usize) -> SegmentValue<usize> {
    match at == count.max(2) {
        true => SegmentValue::Last,
        false => SegmentValue::Exact(at),
    }
}

/// Draws a picture of a size and writes it.
pub(super) fn picture(
    path: &Path,
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Drawn,
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

/// A line of text in the middle of an area where there is nothing to show.
pub(super) fn nothing(area: &Area<'_>, text: &str) -> Drawn {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    let (width, height) = area.dim_in_pixel();
    let style = TextStyle::from(AXIS)
        .color(&GREY)
        .pos(Pos::new(HPos::Center, VPos::Center));
    let at = (width as i32 / 2, height as i32 / 2);
    area.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}

/// A row of samples with their words, from left to right; the area's height is that of one line.
pub(super) fn legend(area: &Area<'_>, entries: &[(String, ShapeStyle)]) -> Drawn {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    let style = TextStyle::from(LABEL).pos(Pos::new(HPos::Left, VPos::Center));
    let middle = area.dim_in_pixel().1 as i32 / 2;
    let mut x = 70;
    for (word, sample) in entries {
        area.draw(&Rectangle::new([(x, middle - 4), (x + 22, middle + 4)], *sample))?;
        area.draw(&Text::new(word.clone(), (x + 28, middle), style.clone()))?;
        // Seven pixels are more than a letter of this size takes.
        x += 28 + 7 * word.chars().count() as i32 + 22;
    }
    Ok(())
}
