//! Medians, the table, the JSON, and whether it holds.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::forwarders::Forwarder;
use crate::measure::{Measured, PROGRAMS, Program};

/// Everything measured.
#[derive(Debug, Default)]
pub(crate) struct Results(Vec<Measured>);

/// One program at one MTU, through both.
struct Row {
    program: Program,
    mtu: u32,
    bridge: f64,
    xoff: f64,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.xoff / self.bridge
    }

    fn holds(&self, demanded: f64) -> bool {
        !self.program.is_judged() || self.ratio() >= demanded
    }
}

impl Results {
    pub(crate) fn add(&mut self, measured: Measured) {
        self.0.push(measured);
    }

    fn mtus(&self) -> Vec<u32> {
        let mut mtus: Vec<u32> = self.0.iter().map(|measured| measured.mtu).collect();
        mtus.dedup();
        mtus
    }

    fn values(&self, forwarder: Forwarder, mtu: u32, program: usize) -> Vec<f64> {
        let of_both = self.0.iter().filter(|m| m.forwarder == forwarder && m.mtu == mtu);
        of_both.map(|measured| measured.values[program]).collect()
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for mtu in self.mtus() {
            for (index, program) in PROGRAMS.into_iter().enumerate() {
                let median = |forwarder| median(self.values(forwarder, mtu, index));
                rows.push(Row {
                    program,
                    mtu,
                    bridge: median(Forwarder::Bridge),
                    xoff: median(Forwarder::Xoff),
                });
            }
        }
        rows
    }

    /// What must not have happened through xoff: the bridge is not on trial, and is told of beside.
    fn problems(&self, forwarder: Forwarder) -> Vec<String> {
        let turns = self.0.iter().filter(|measured| measured.forwarder == forwarder);
        turns
            .flat_map(|m| {
                let taps = (m.tap_drops > 0).then(|| format!("the taps dropped {} frames", m.tap_drops));
                m.problems
                    .iter()
                    .cloned()
                    .chain(taps)
                    .map(|problem| format!("MTU {}: {problem}", m.mtu))
            })
            .collect()
    }

    pub(crate) fn hold(&self, demanded: f64) -> bool {
        self.problems(Forwarder::Xoff).is_empty() && self.rows().iter().all(|row| row.holds(demanded))
    }

    pub(crate) fn table(&self, demanded: f64) -> String {
        let mut text = String::new();
        let turns = self.0.len() / (2 * self.mtus().len().max(1));
        let _ = writeln!(
            text,
            "medians of {turns} rounds, perftest with messages of 64 KiB"
        );
        let _ = writeln!(
            text,
            "{:12} {:>5} {:>10} {:>10}  {:8} {:>6}",
            "program", "MTU", "bridge", "xoff", "unit", "ratio"
        );
        for row in self.rows() {
            let (name, unit) = (row.program.name(), row.program.unit());
            let verdict = match (row.program.is_judged(), row.holds(demanded)) {
                (false, _) => "",
                (true, true) => "ok",
                (true, false) => "too low",
            };
            let (mtu, bridge, xoff, ratio) = (row.mtu, row.bridge, row.xoff, row.ratio());
            let _ = writeln!(
                text,
                "{name:12} {mtu:>5} {bridge:>10.2} {xoff:>10.2}  {unit:8} {ratio:>6.3} {verdict}"
            );
        }
        for forwarder in [Forwarder::Bridge, Forwarder::Xoff] {
            for problem in self.problems(forwarder) {
                let _ = writeln!(text, "{}: {problem}", forwarder.name());
            }
        }
        for measured in &self.0 {
            for remark in &measured.remarks {
                let _ = writeln!(
                    text,
                    "{} (no failure): MTU {}: {remark}",
                    measured.forwarder.name(),
                    measured.mtu
                );
            }
        }
        text
    }

    pub(crate) fn json(&self, demanded: f64) -> Value {
        let of_row = |row: &Row, index: usize| {
            json!({
                "program": row.program.name(), "unit": row.program.unit(), "mtu": row.mtu,
                "bridge": row.bridge, "xoff": row.xoff, "ratio": row.ratio(), "judged": row.program.is_judged(),
                "bridge_values": self.values(Forwarder::Bridge, row.mtu, index),
                "xoff_values": self.values(Forwarder::Xoff, row.mtu, index),
            })
        };
        let rows = self.rows();
        let rows: Vec<Value> = rows
            .iter()
            .enumerate()
            .map(|(at, row)| of_row(row, at % PROGRAMS.len()))
            .collect();
        json!({
            "schema": "xoff.softroce/1",
            "ratio_demanded": demanded,
            "holds": self.hold(demanded),
            "results": rows,
            "problems": { "bridge": self.problems(Forwarder::Bridge), "xoff": self.problems(Forwarder::Xoff) },
        })
    }
}

/// The middle one, or between the middle two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}
