//! The result: JSON, and tables.

use serde::Serialize;

use super::figures::Figures;
use super::frames::Placed;
use super::lab::{Numbering, Shape, Vary};
use xoff_telemetry::failure::Exit;
use xoff_telemetry::simple_table;

/// Name and version of the report's form.
pub const SCHEMA: &str = "xoff.placement/1";

/// What others have computed: leaf, queue pairs a host, mean utilisation and slowest host. By Monte Carlo with 400 to 1500
/// trials, so the last digit is not exact.
pub const REFERENCE: [(Shape, u16, Figures); 10] = {
    const fn row(ports: u16, queue_pairs: u16, utilisation: f64, slowest: f64) -> (Shape, u16, Figures) {
        let shape = Shape {
            hosts: ports,
            uplinks: ports,
        };
        (shape, queue_pairs, Figures { utilisation, slowest })
    }
    [
        row(4, 1, 0.69, 0.51),
        row(4, 2, 0.80, 0.63),
        row(4, 4, 0.91, 0.79),
        row(4, 8, 0.98, 0.92),
        row(4, 16, 1.0, 0.99),
        row(8, 1, 0.65, 0.41),
        row(8, 2, 0.78, 0.54),
        row(8, 4, 0.90, 0.71),
        row(8, 8, 0.96, 0.85),
        row(8, 16, 0.99, 0.94),
    ]
};

/// All that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of xoff.
    pub xoff_version: &'static str,
    /// How many placements.
    pub seeds: usize,
    /// What seeds change.
    pub vary: Vary,
    /// How queue pairs are numbered.
    pub numbering: Numbering,
    /// By how much figures may differ.
    pub tolerance: f64,
    /// By which share a rate may differ from arithmetic.
    pub rate_tolerance: f64,
    /// Whether all did.
    pub holds: bool,
    /// Arithmetic.
    pub rows: Vec<Row>,
    /// Frames.
    pub frames: Vec<FrameRow>,
}

/// A leaf and a number of queue pairs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Hosts and uplinks.
    pub shape: Shape,
    /// Queue pairs a host.
    pub queue_pairs: u16,
    /// As the switch's hash places them.
    pub hash: Figures,
    /// Placed by lot.
    pub lot: Figures,
    /// As published, if they are.
    pub reference: Option<Figures>,
    /// Largest difference of the hash's figures to any other.
    pub difference: f64,
    /// Whether it is within the tolerance.
    pub holds: bool,
}

impl Row {
    /// A row of figures.
    pub fn new(shape: Shape, queue_pairs: u16, hash: Figures, lot: Figures, tolerance: f64) -> Row {
        let reference = REFERENCE
            .iter()
            .find(|(of, pairs, _)| (*of, *pairs) == (shape, queue_pairs))
            .map(|(_, _, figures)| *figures);
        let difference = reference
            .iter()
            .chain([&lot])
            .map(|other| hash.difference(other))
            .fold(0.0, f64::max);
        Row {
            shape,
            queue_pairs,
            hash,
            lot,
            reference,
            difference,
            holds: difference <= tolerance,
        }
    }
}

/// Placements as frames.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrameRow {
    /// Hosts and uplinks.
    pub shape: Shape,
    /// Queue pairs a host.
    pub queue_pairs: u16,
    /// Congestion control, beside PFC.
    pub congestion: String,
    /// How many placements.
    pub placements: usize,
    /// By arithmetic, of just these placements.
    pub arithmetic: Figures,
    /// As frames.
    pub found: Figures,
    /// Largest deviation of a queue pair's rate from its rate by arithmetic, as a share of that.
    pub deviation: f64,
    /// Queue pairs that took another uplink than the switch alone said.
    pub astray: usize,
    /// Whether rates must agree: with PFC alone and one queue pair a host, where pausing a host holds up nothing else.
    pub compared: bool,
    /// Whether they do, if they must; and no queue pair went astray.
    pub holds: bool,
}

impl FrameRow {
    /// A row of placements.
    pub fn new(
        shape: Shape,
        queue_pairs: u16,
        congestion: &str,
        placed: &[Placed],
        tolerance: f64,
    ) -> FrameRow {
        let (expected, found): (Vec<_>, Vec<_>) = placed.iter().map(|one| (one.expected, one.found)).unzip();
        let deviation = placed.iter().map(|one| one.deviation).fold(0.0, f64::max);
        let astray = placed.iter().map(|one| one.astray).sum();
        let compared = queue_pairs == 1 && congestion == "none";
        FrameRow {
            shape,
            queue_pairs,
            congestion: congestion.to_owned(),
            placements: placed.len(),
            arithmetic: Figures::mean(&expected),
            found: Figures::mean(&found),
            deviation,
            astray,
            compared,
            holds: astray == 0 && (!compared || deviation <= tolerance),
        }
    }
}

impl PlacementReport {
    /// How the command ends.
    pub fn exit(&self) -> Exit {
        match self.holds {
            true => Exit::Ok,
            false => Exit::CheckFailed,
        }
    }

    /// For people.
    pub fn render(&self) -> String {
        let mut text = format!(
            "Mean utilisation of the uplinks / slowest host, over {} placements\n\n",
            self.seeds
        );
        let header = [
            "Hosts/uplinks",
            "QPs",
            "Hash",
            "Lot",
            "Published",
            "Difference",
            "",
        ];
        let rows = self.rows.iter().map(|row| {
            vec![
                row.shape.to_string(),
                row.queue_pairs.to_string(),
                pair(&row.hash),
                pair(&row.lot),
                row.reference.as_ref().map_or("-".to_owned(), |figures| {
                    format!("{:.2} / {:.2}", figures.utilisation, figures.slowest)
                }),
                format!("{:.3}", row.difference),
                verdict(row.holds),
            ]
        });
        text.push_str(&simple_table(&header, 1, rows.collect()));
        if !self.frames.is_empty() {
            text.push_str("\nAs frames in virtual time, with PFC\n\n");
            let header = [
                "Hosts/uplinks",
                "QPs",
                "Congestion",
                "Placements",
                "Arithmetic",
                "Frames",
                "Largest deviation",
                "",
            ];
            let rows = self.frames.iter().map(|row| {
                vec![
                    row.shape.to_string(),
                    row.queue_pairs.to_string(),
                    row.congestion.clone(),
                    row.placements.to_string(),
                    pair(&row.arithmetic),
                    pair(&row.found),
                    format!("{:.1} %", 100.0 * row.deviation),
                    match row.compared || !row.holds {
                        true => verdict(row.holds),
                        false => String::new(),
                    },
                ]
            });
            text.push_str(&simple_table(&header, 1, rows.collect()));
        }
        text
    }
}

fn pair(figures: &Figures) -> String {
    format!("{:.3} / {:.3}", figures.utilisation, figures.slowest)
}

fn verdict(holds: bool) -> String {
    match holds {
        true => "ok".to_owned(),
        false => "differs".to_owned(),
    }
}
