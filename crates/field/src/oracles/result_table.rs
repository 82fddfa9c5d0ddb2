//! Writes the results of the runs as a Markdown table.

use std::fmt::Write as _;

use serde_json::Value;

use super::public_configurations::PublicConfiguration;

/// A run and the comparison of its completion times.
#[derive(Debug)]
pub(super) struct RunRow {
    configuration: PublicConfiguration,
    /// `CC_MODE` of the configuration.
    mode: String,
    flows: usize,
    /// Absolute differences between completion times, as shares of the published time and in ascending order.
    differences: Vec<f64>,
    /// Median of the differences between completion times.
    median: f64,
    /// Largest permitted difference as a share: 0.005 is 0.5 %.
    bound: f64,
    /// Whether the bound applies to the median difference instead of the largest one. This is the case if ECN
    /// marks are random (DCQCN).
    is_random: bool,
    /// Number of flows that ended in xoff.
    ended: usize,
}

impl RunRow {
    /// Reads the result of a run.
    ///
    /// # Errors
    ///
    /// The result has no flows or lacks a field.
    pub(super) fn new(
        configuration: &PublicConfiguration,
        mode: String,
        result: &Value,
    ) -> Result<RunRow, String> {
        let wrong = || format!("{}: the result has no flows", configuration.name);
        let folder = &result["folders"][0];
        let flows = folder["flows"].as_array().ok_or_else(wrong)?;
        let mut differences: Vec<f64> = flows
            .iter()
            .filter_map(|flow| Some(flow["difference"].as_f64()?.abs()))
            .collect();
        differences.sort_by(f64::total_cmp);
        Ok(RunRow {
            configuration: *configuration,
            mode,
            median: folder["median_difference"].as_f64().unwrap_or(0.0),
            flows: flows.len(),
            differences,
            bound: folder["completion_bound"].as_f64().ok_or_else(wrong)?,
            is_random: folder["dcqcn"].as_bool().ok_or_else(wrong)?,
            ended: flows.iter().filter(|flow| flow["xoff_ns"].is_u64()).count(),
        })
    }

    pub(super) fn name(&self) -> &str {
        self.configuration.name
    }

    /// Returns whether the differences exceed the bound without a known reason. Without published results:
    /// whether a flow did not end.
    pub(super) fn is_unexplained(&self) -> bool {
        let is_beyond = match self.is_random {
            true => self.median > self.bound,
            false => self
                .differences
                .last()
                .is_some_and(|largest| *largest > self.bound),
        };
        let is_incomplete = self.configuration.results.is_none() && self.ended < self.flows;
        (is_beyond || is_incomplete) && self.configuration.difference.is_none()
    }

    fn markdown_row(&self) -> String {
        let PublicConfiguration {
            configuration,
            commit,
            ..
        } = self.configuration;
        let start = format!(
            "| {} | {} {commit} | `{}` | {} | {} |",
            self.name(),
            configuration.repository,
            configuration.path,
            self.mode,
            self.flows
        );
        if self.differences.is_empty() {
            return format!(
                "{start} - | - | - | - | no published results; {} flows end |\n",
                self.ended
            );
        }
        let count = |bound: f64| self.differences.iter().filter(|is| **is <= bound).count();
        let percent = |share: f64| format!("{:.3} %", share * 100.0);
        format!(
            "{start} {} | {} | {} | {} | {} |\n",
            count(0.0),
            count(self.bound),
            percent(self.median),
            percent(self.differences[self.differences.len() - 1]),
            self.configuration.difference.unwrap_or("")
        )
    }
}

/// Returns the whole page.
pub(super) fn render_markdown(rows: &[RunRow]) -> String {
    let mut text = String::from(
        "# Public ns-3 configurations\n\n\
         `cargo run --release -p field -- oracles OWNER/NAME=GITDIR... --long` writes this page. Each public configuration of the\n\
         HPCC model of ns-3 runs with seed 1, as `xoff bench oracle` runs it ([oracle.md](oracle.md)). The page compares the\n\
         completion times with those that the repository publishes. The bound is 0.5 %. It is 5 % for the median if marks are\n\
         random (DCQCN with marks).\n\
         \n\
         The results of the first row belong to the topology and the flows of alibaba-edu 9f4be2a. The flows in that repository\n\
         differ from the flows of its results. The row \"ten flows to a host\" uses the flows that the results name.\n\n\
         | run | repository, commit | configuration | CC_MODE | flows | same nanosecond | within the bound | median | largest | difference |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let _ = write!(text, "{}", row.markdown_row());
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::public_configurations::CONFIGURATIONS;
    use super::*;

    fn row(is_random: bool, differences: &[f64]) -> RunRow {
        let flows: Vec<Value> = differences
            .iter()
            .map(|difference| json!({"difference": difference, "xoff_ns": 5}))
            .collect();
        let bound = if is_random { 0.05 } else { 0.005 };
        let median = differences[differences.len() / 2].abs();
        let result = json!({"folders": [{"flows": flows, "completion_bound": bound, "dcqcn": is_random, "median_difference": median}]});
        RunRow::new(&CONFIGURATIONS[0], "3".to_owned(), &result).unwrap()
    }

    #[test]
    fn bound_applies_to_all_flows_or_to_the_median() {
        assert!(!row(false, &[0.0, -0.004]).is_unexplained());
        assert!(row(false, &[0.0, -0.006]).is_unexplained());
        assert!(!row(true, &[0.01, -0.02, 0.9]).is_unexplained());
        assert!(row(true, &[0.01, -0.06, 0.9]).is_unexplained());
        assert!(
            row(false, &[0.0, -0.004])
                .markdown_row()
                .contains("| 3 | 2 | 1 | 2 | 0.400 % | 0.400 % |")
        );
    }

    #[test]
    fn result_without_flows_is_an_error() {
        assert!(RunRow::new(&CONFIGURATIONS[0], "3".to_owned(), &json!({"folders": []})).is_err());
    }
}
