//! Runs labs with several seeds and collects their key performance indicators (KPIs). Each KPI becomes a
//! figure with one sample for each seed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::kpi::{Kpi, kpis_of_run};
use crate::result::{BenchFigure, BenchResult};
use xoff_lab::plan::LabPlan;
use xoff_lab::{ComparisonRunMode, EVENTS_MAX_DEFAULT, ParallelRunsResult, VirtualRunArgs, run_in_parallel};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{MemoryLimit, Verdict, count_noun};

/// A lab that runs once with each seed.
#[derive(Clone, Debug)]
pub struct BenchLab {
    /// Prefix of the names of the lab's figures, such as the load-balancing scheme. If the prefix is empty,
    /// the names have no prefix.
    pub prefix: String,
    /// Name of the lab. It is a part of the names of figures that belong to no job.
    pub name: String,
    /// Plan of the lab. Each run uses a copy.
    pub plan: LabPlan,
}

/// The results of all runs of [`run_labs`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabRunResults {
    /// One figure for each KPI of each lab or job, in the order of first occurrence. A figure has one sample
    /// for each run that has the KPI, in the order of the seeds.
    pub figures: Vec<BenchFigure>,
    /// Failed checks of a lab, and reasons why a run did not complete. Each text names the lab and the seed.
    pub anomalies: Vec<String>,
    /// Whether a run proves nothing, because it is tainted or had no traffic.
    pub is_inconclusive: bool,
}

impl LabRunResults {
    /// Returns [`Exit::Inconclusive`] (5) if a run proves nothing, otherwise [`Exit::CheckFailed`] (1) if there is an
    /// anomaly, otherwise [`Exit::Ok`] (0).
    pub fn exit(&self) -> Exit {
        match (self.is_inconclusive, self.anomalies.is_empty()) {
            (true, _) => Exit::Inconclusive,
            (false, false) => Exit::CheckFailed,
            (false, true) => Exit::Ok,
        }
    }
}

/// The results of one run.
struct RunResult {
    kpis: Vec<Kpi>,
    anomalies: Vec<String>,
    is_inconclusive: bool,
}

/// Runs every lab once with every seed, with up to `jobs` runs at the same time. `seeds` must not be empty. The runs
/// that execute at the same time share `memory`.
/// `progress` receives the number of completed runs.
///
/// # Errors
/// A lab cannot be set up or run, or `stop` became true ([`Exit::Interrupted`]).
pub fn run_labs(
    labs: &[BenchLab],
    seeds: &[u64],
    jobs: usize,
    memory: MemoryLimit,
    stop: &AtomicBool,
    progress: impl FnMut(usize),
) -> Result<LabRunResults, Failure> {
    let run_mode = ComparisonRunMode::Virtual {
        run: Box::new(VirtualRunArgs {
            events_max: EVENTS_MAX_DEFAULT,
            memory,
            ..VirtualRunArgs::default()
        }),
        jobs: Some(jobs),
    };
    let (shared_labs, run_seeds) = (Arc::new(labs.to_vec()), seeds.to_vec());
    let at_once = run_mode.parallel_runs();
    let count = labs.len() * seeds.len();
    let work = move |run: usize| {
        let (lab, seed) = (
            &shared_labs[run / run_seeds.len()],
            run_seeds[run % run_seeds.len()],
        );
        let (report, watched) = run_mode.run(lab.plan.clone(), seed, true)?;
        let mut anomalies: Vec<String> = report.failures.clone();
        match report.verdict {
            Verdict::Clean | Verdict::Failed => {}
            Verdict::Tainted => anomalies.push("the run is tainted".to_owned()),
            Verdict::NoTraffic => anomalies.extend(report.traffic.describe_missing()),
        }
        let name = join_name(&lab.prefix, &lab.name);
        Ok(RunResult {
            kpis: kpis_of_run(&report, watched.as_ref()),
            is_inconclusive: report.exit() == Exit::Inconclusive,
            anomalies: anomalies
                .iter()
                .map(|what| format!("{name}, seed {seed}: {what}"))
                .collect(),
        })
    };
    let run_results = match run_in_parallel(count, at_once, work, stop, progress)? {
        ParallelRunsResult::Done(results) => results,
        ParallelRunsResult::Interrupted(done) => {
            let what = format!(
                "interrupted after {done} of {}; nothing is written",
                count_noun(count as u64, "run")
            );
            return Err(Failure::new(Exit::Interrupted, what));
        }
    };
    let mut outcome = LabRunResults::default();
    for (lab, runs) in labs.iter().zip(run_results.chunks(seeds.len())) {
        for run in runs {
            outcome.anomalies.extend(run.anomalies.iter().cloned());
            outcome.is_inconclusive |= run.is_inconclusive;
            for kpi in &run.kpis {
                add_sample(&mut outcome.figures, lab, kpi);
            }
        }
    }
    Ok(outcome)
}

fn join_name(prefix: &str, name: &str) -> String {
    match prefix {
        "" => name.to_owned(),
        prefix => format!("{prefix}/{name}"),
    }
}

/// Adds the value of a KPI as a sample to its figure.
fn add_sample(figures: &mut Vec<BenchFigure>, lab: &BenchLab, kpi: &Kpi) {
    let owner = kpi.job.as_deref().unwrap_or(&lab.name);
    let name = format!("{}/{}", join_name(&lab.prefix, owner), kpi.name);
    match figures.iter_mut().find(|figure| figure.name == name) {
        Some(figure) => figure.samples.push(kpi.value),
        None => figures.push(BenchFigure::new(name, kpi.unit, kpi.better, vec![kpi.value])),
    }
}

/// Returns the result of `xoff bench ai`. `subject` describes the labs that were run. The result has the
/// first seed, the figures of `runs`, and one note for each anomaly.
pub fn bench_result(subject: &str, seeds: &[u64], runs: &LabRunResults) -> BenchResult {
    let mut result = BenchResult::new("ai", subject, seeds.first().copied().unwrap_or(0));
    result.figures.clone_from(&runs.figures);
    result.notes = runs
        .anomalies
        .iter()
        .map(|what| format!("anomaly: {what}"))
        .collect();
    result
}
