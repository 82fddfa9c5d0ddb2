//! The report of placements, as JSON and as tables.

use serde::Serialize;

use super::frame_runs::PlacementRunResult;
use super::placement_lab::{LeafShape, QueuePairNumbering, SeedInput};
use super::utilisation::MeanUtilisation;
use xoff_telemetry::failure::Exit;
use xoff_telemetry::simple_table;

/// Name and version of the report's JSON format.
pub const PLACEMENT_SCHEMA: &str = "xoff.placement/1";

/// Published results, for comparison. Each entry has the shape of the leaf, the number of queue pairs of each
/// host, and the utilisation. The values come from Monte Carlo simulations with 400 to 1500 trials, so the
/// last digit is not exact.
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

/// The report of `xoff bench placement`. docs/ecmp.md describes the fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementReport {
    /// Name and version of the format: [`PLACEMENT_SCHEMA`].
    pub schema: &'static str,
    /// Version of xoff that created the report.
    pub xoff_version: &'static str,
    /// Number of placements in each row, one for each seed.
    pub seeds: usize,
    /// The input that the seed of a placement changes.
    pub vary: SeedInput,
    /// Rule that numbers the queue pairs.
    pub numbering: QueuePairNumbering,
    /// Largest permitted difference between two utilisations, which are shares: 0.02 means two
    /// percentage points.
    pub tolerance: f64,
    /// Largest permitted relative difference between a measured and a calculated rate.
    pub rate_tolerance: f64,
    /// True if all rows agree within the tolerances (their field `holds`).
    pub holds: bool,
    /// Rows of calculated placements.
    pub rows: Vec<PlacementRow>,
    /// Rows of placements that ran with frames. Empty if no frames were sent.
    pub frames: Vec<FramePlacementRow>,
}

/// The mean utilisation for one leaf shape and one number of queue pairs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementRow {
    /// Hosts and uplinks.
    pub shape: LeafShape,
    /// Queue pairs per host.
    pub queue_pairs: u16,
    /// Utilisation if the hash of the switch selects the uplinks.
    pub hash: MeanUtilisation,
    /// Utilisation if the uplinks are selected at random.
    pub lot: MeanUtilisation,
    /// Published utilisation, or `None` if [`PUBLISHED_FIGURES`] has no entry.
    pub reference: Option<MeanUtilisation>,
    /// Largest difference between the utilisation with the hash and the other utilisations.
    pub difference: f64,
    /// True if the difference is within the tolerance.
    pub holds: bool,
}

impl PlacementRow {
    /// Creates a row and compares the utilisation `hash` with `lot` (random placement) and with the
    /// published value.
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

/// The results of placements that ran with frames.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FramePlacementRow {
    /// Hosts and uplinks.
    pub shape: LeafShape,
    /// Queue pairs per host.
    pub queue_pairs: u16,
    /// Name of the congestion control. PFC is always enabled.
    pub congestion: String,
    /// Number of placements that ran with frames.
    pub placements: usize,
    /// Calculated mean utilisation of these placements.
    pub arithmetic: MeanUtilisation,
    /// Measured mean utilisation.
    pub found: MeanUtilisation,
    /// Largest relative deviation of a measured rate from the calculated rate, over all queue pairs. 0.01
    /// means 1 %.
    pub deviation: f64,
    /// Number of queue pairs, over all placements, that did not use the uplink that
    /// [`LeafSwitch`](super::LeafSwitch) has selected.
    pub astray: usize,
    /// True if the measured rates must agree with the calculated rates. This is the case if each host has one
    /// queue pair and there is no congestion control. If a host has several queue pairs, a pause for one of
    /// them delays all of them, so the rates differ from the calculation.
    pub compared: bool,
    /// True if every queue pair used the uplink that [`LeafSwitch`](super::LeafSwitch) has selected, and if
    /// the measured rates agree with the calculated rates where they must agree.
    pub holds: bool,
}

impl FramePlacementRow {
    /// Creates a row from the results of placements. `tolerance` is the largest permitted relative deviation
    /// of a rate.
    pub fn new(
        shape: LeafShape,
        queue_pairs: u16,
        congestion: &str,
        placed: &[PlacementRunResult],
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
    /// Returns [`Exit::Ok`] (0) if all rows agree within the tolerances, otherwise [`Exit::CheckFailed`] (1).
    pub fn exit(&self) -> Exit {
        match self.holds {
            true => Exit::Ok,
            false => Exit::CheckFailed,
        }
    }

    /// Returns the report as text tables for a terminal.
    pub fn render(&self) -> String {
        let mut text = format!(
            "Mean utilisation of the uplinks / slowest host, over {}\n\n",
            xoff_telemetry::count_noun(self.seeds as u64, "placement")
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
