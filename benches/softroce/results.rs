//! Medians, the table, the JSON result and the verdict.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::forwarders::Forwarder;
use crate::measure::{PROGRAMS, Program, TurnResult};

/// All results.
#[derive(Debug, Default)]
pub(crate) struct Results(Vec<TurnResult>);

/// Medians of one program at one MTU through both forwarders.
struct ResultRow {
    program: Program,
    mtu: u32,
    bridge: f64,
    xoff: f64,
    cores: f64,
}

impl ResultRow {
    fn ratio(&self) -> f64 {
        self.xoff / self.bridge
    }

    fn reaches_ratio(&self, ratio_min: f64) -> bool {
        !self.program.is_judged() || self.ratio() >= ratio_min
    }
}

impl Results {
    pub(crate) fn add(&mut self, measured: TurnResult) {
        self.0.push(measured);
    }

    fn mtus(&self) -> Vec<u32> {
        let mut mtus: Vec<u32> = self.0.iter().map(|measured| measured.mtu).collect();
        mtus.dedup();
        mtus
    }

    fn of(&self, forwarder: Forwarder, mtu: u32, program: Program) -> impl Iterator<Item = &TurnResult> {
        let same = move |m: &&TurnResult| m.forwarder == forwarder && m.mtu == mtu && m.program == program;
        self.0.iter().filter(same)
    }

    fn values(&self, forwarder: Forwarder, mtu: u32, program: Program) -> Vec<f64> {
        self.of(forwarder, mtu, program).filter_map(|m| m.value).collect()
    }

    fn rows(&self) -> Vec<ResultRow> {
        let cores = |mtu, program| {
            self.of(Forwarder::Xoff, mtu, program)
                .filter_map(|m| m.cores)
                .collect()
        };
        // A program that did not run has no median.
        let row = |mtu, program| {
            Some(ResultRow {
                program,
                mtu,
                bridge: median(self.values(Forwarder::Bridge, mtu, program))?,
                xoff: median(self.values(Forwarder::Xoff, mtu, program))?,
                cores: median(cores(mtu, program))?,
            })
        };
        let mtus = self.mtus().into_iter();
        mtus.flat_map(|mtu| PROGRAMS.into_iter().filter_map(move |program| row(mtu, program)))
            .collect()
    }

    /// Returns the problems of a forwarder with their place. Problems of the bridge are reported but
    /// are no failure.
    fn problems(&self, forwarder: Forwarder) -> Vec<String> {
        let turns = self.0.iter().filter(|measured| measured.forwarder == forwarder);
        turns
            .flat_map(|m| {
                m.problems
                    .iter()
                    .map(|problem| format!("{}: {problem}", m.place()))
            })
            .collect()
    }

    pub(crate) fn passes(&self, ratio_min: f64) -> bool {
        self.problems(Forwarder::Xoff).is_empty()
            && self.rows().iter().all(|row| row.reaches_ratio(ratio_min))
    }

    pub(crate) fn table(&self, ratio_min: f64) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "medians of all rounds; perftest with messages of 64 KiB; cores: processors that xoff kept busy\n\
             program        MTU     bridge       xoff  unit      cores  ratio"
        );
        for row in self.rows() {
            let verdict = match (row.program.is_judged(), row.reaches_ratio(ratio_min)) {
                (false, _) => "",
                (true, true) => "ok",
                (true, false) => "too low",
            };
            let _ = writeln!(
                text,
                "{:12} {:>5} {:>10.2} {:>10.2}  {:8} {:>6.2} {:>6.3} {verdict}",
                row.program.name(),
                row.mtu,
                row.bridge,
                row.xoff,
                row.program.unit(),
                row.cores,
                row.ratio(),
            );
        }
        for forwarder in [Forwarder::Bridge, Forwarder::Xoff] {
            for problem in self.problems(forwarder) {
                let _ = writeln!(text, "{problem}");
            }
        }
        for measured in &self.0 {
            for remark in &measured.remarks {
                let _ = writeln!(text, "{}, no failure: {remark}", measured.place());
            }
        }
        text
    }

    pub(crate) fn json(&self, ratio_min: f64) -> Value {
        let of_row = |row: &ResultRow| {
            json!({
                "program": row.program.name(), "unit": row.program.unit(), "mtu": row.mtu,
                "bridge": row.bridge, "xoff": row.xoff, "ratio": row.ratio(), "xoff_cores": row.cores,
                "judged": row.program.is_judged(),
                "bridge_values": self.values(Forwarder::Bridge, row.mtu, row.program),
                "xoff_values": self.values(Forwarder::Xoff, row.mtu, row.program),
            })
        };
        let rows: Vec<Value> = self.rows().iter().map(of_row).collect();
        json!({
            "schema": "xoff.softroce/1",
            "ratio_demanded": ratio_min,
            "holds": self.passes(ratio_min),
            "results": rows,
            "problems": { "bridge": self.problems(Forwarder::Bridge), "xoff": self.problems(Forwarder::Xoff) },
        })
    }
}

/// Returns the median, or `None` without values.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    match values.len() % 2 {
        1 => Some(upper),
        _ => Some(f64::midpoint(values[middle - 1], upper)),
    }
}
