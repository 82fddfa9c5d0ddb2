//! The report of placements, as JSON and as tables.

use serde::Serialize;

use super::frame_runs::FramePlacement;
use super::placement_lab::{LeafShape, QueuePairNumbering, SeedInput};
use super::utilisation::MeanUtilisation;
use xoff_telemetry::failure::Exit;
use xoff_telemetry::simple_table;

/// Name and version of the report format.
pub const PLACEMENT_SCHEMA: &str = "xoff.placement/1";

/// Published figures: leaf, queue pairs per host, mean utilisation and slowest host. They are
/// results of Monte Carlo simulations with 400 to 1500 trials, so the last digit is not exact.
pub const PUBLISHED_FIGURES: [(LeafShape, u16, MeanUtilisation); 10] = {
    const fn row(
        ports: u16,
        queue_pairs: u16,
        utilisation: f64,
        slowest: f64,
    ) -> (LeafShape, u16, MeanUtilisation) {
        let shape = LeafShape {
            hosts: ports,
            uplinks: ports,
        };
        (shape, queue_pairs, MeanUtilisation { utilisation, slowest })
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

/// The report of `xoff bench placement`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementReport {
    /// Schema of the report, [`PLACEMENT_SCHEMA`].
    pub schema: &'static str,
    /// Version of xoff.
    pub xoff_version: &'static str,
    /// Number of placements.
    pub seeds: usize,
    /// Input that seeds change.
    pub vary: SeedInput,
    /// Numbering of queue pairs.
    pub numbering: QueuePairNumbering,
    /// Largest permitted difference of the figures.
    pub tolerance: f64,
    /// Largest permitted relative difference between a measured and a calculated rate.
    pub rate_tolerance: f64,
    /// Whether all rows hold.
    pub holds: bool,
    /// Calculated placements.
    pub rows: Vec<PlacementRow>,
    /// Placements that ran as frames.
    pub frames: Vec<FramePlacementRow>,
}

/// The figures of one leaf and one number of queue pairs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementRow {
    /// Hosts and uplinks.
    pub shape: LeafShape,
    /// Queue pairs per host.
    pub queue_pairs: u16,
    /// Figures with the hash of the switch.
    pub hash: MeanUtilisation,
    /// Figures with random placement.
    pub lot: MeanUtilisation,
    /// Published figures, if there are any.
    pub reference: Option<MeanUtilisation>,
    /// Largest difference between the hash and the other figures.
    pub difference: f64,
    /// Whether the difference is within the tolerance.
    pub holds: bool,
}

impl PlacementRow {
    /// Creates a row and compares its figures.
    pub fn new(
        shape: LeafShape,
        queue_pairs: u16,
        hash: MeanUtilisation,
        lot: MeanUtilisation,
        tolerance: f64,
    ) -> PlacementRow {
        let reference = PUBLISHED_FIGURES
            .iter()
            .find(|(of, pairs, _)| (*of, *pairs) == (shape, queue_pairs))
            .map(|(_, _, figures)| *figures);
        let difference = reference
            .iter()
            .chain([&lot])
            .map(|other| hash.difference(other))
            .fold(0.0, f64::max);
        PlacementRow {
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

/// Figures of placements that ran as frames.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FramePlacementRow {
    /// Hosts and uplinks.
    pub shape: LeafShape,
    /// Queue pairs per host.
    pub queue_pairs: u16,
    /// Congestion control. PFC is always enabled.
    pub congestion: String,
    /// Number of placements.
    pub placements: usize,
    /// Calculated figures of these placements.
    pub arithmetic: MeanUtilisation,
    /// Measured figures.
    pub found: MeanUtilisation,
    /// Largest relative deviation of the measured rate of a queue pair from the calculated rate.
    pub deviation: f64,
    /// Number of queue pairs that used another uplink than the switch alone selected.
    pub astray: usize,
    /// Whether the measured rates must agree with the calculated rates. They must agree if each host has one
    /// queue pair and no congestion control is used. With more queue pairs, a pause for one queue pair also
    /// delays the other queue pairs of the host.
    pub compared: bool,
    /// Whether no queue pair used another uplink and the compared rates agree.
    pub holds: bool,
}

impl FramePlacementRow {
    /// Creates a row from the results of placements.
    pub fn new(
        shape: LeafShape,
        queue_pairs: u16,
        congestion: &str,
        placed: &[FramePlacement],
        tolerance: f64,
    ) -> FramePlacementRow {
        let (expected, found): (Vec<_>, Vec<_>) = placed.iter().map(|one| (one.expected, one.found)).unzip();
        let deviation = placed.iter().map(|one| one.deviation).fold(0.0, f64::max);
        let astray = placed.iter().map(|one| one.astray).sum();
        let compared = queue_pairs == 1 && congestion == "none";
        FramePlacementRow {
            shape,
            queue_pairs,
            congestion: congestion.to_owned(),
            placements: placed.len(),
            arithmetic: MeanUtilisation::mean(&expected),
            found: MeanUtilisation::mean(&found),
            deviation,
            astray,
            compared,
            holds: astray == 0 && (!compared || deviation <= tolerance),
        }
    }
}

impl PlacementReport {
    /// Returns the exit code of the command.
    pub fn exit(&self) -> Exit {
        match self.holds {
            true => Exit::Ok,
            false => Exit::CheckFailed,
        }
    }

    /// Returns the report as tables.
    pub fn render(&self) -> String {
        let mut text = format!(
            "Mean utilisation of the uplinks / slowest host, over {} placements\n\n",
            self.seeds
        );
        let header = [
            "Hosts/uplinks",
            "QPs",
            "Hash",
            "Random",
            "Published",
            "Difference",
            "",
        ];
        let rows = self.rows.iter().map(|row| {
            vec![
                row.shape.to_string(),
                row.queue_pairs.to_string(),
                format_figures(&row.hash),
                format_figures(&row.lot),
                row.reference.as_ref().map_or("-".to_owned(), |figures| {
                    format!("{:.2} / {:.2}", figures.utilisation, figures.slowest)
                }),
                format!("{:.3}", row.difference),
                format_verdict(row.holds),
            ]
        });
        text.push_str(&simple_table(&header, 1, rows.collect()));
        if !self.frames.is_empty() {
            text.push_str("\nFrames in virtual time, with PFC\n\n");
            let header = [
                "Hosts/uplinks",
                "QPs",
                "Congestion",
                "Placements",
                "Calculated",
                "Measured",
                "Largest deviation",
                "",
            ];
            let rows = self.frames.iter().map(|row| {
                vec![
                    row.shape.to_string(),
                    row.queue_pairs.to_string(),
                    row.congestion.clone(),
                    row.placements.to_string(),
                    format_figures(&row.arithmetic),
                    format_figures(&row.found),
                    format!("{:.1} %", 100.0 * row.deviation),
                    match row.compared || !row.holds {
                        true => format_verdict(row.holds),
                        false => String::new(),
                    },
                ]
            });
            text.push_str(&simple_table(&header, 1, rows.collect()));
        }
        text
    }
}

fn format_figures(figures: &MeanUtilisation) -> String {
    format!("{:.3} / {:.3}", figures.utilisation, figures.slowest)
}

fn format_verdict(holds: bool) -> String {
    match holds {
        true => "ok".to_owned(),
        false => "differs".to_owned(),
    }
}
