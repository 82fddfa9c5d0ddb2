//! Runs of labs over seeds, and their KPIs as figures with a sample for each seed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::kpi::{Kpi, kpis};
use crate::result::{BenchResult, Figure};
use xoff_lab::plan::LabPlan;
use xoff_lab::{EVENTS_MAX_DEFAULT, Pooled, VirtualRunArgs, Way, run_all};
use xoff_telemetry::Verdict;
use xoff_telemetry::failure::{Exit, Failure};

/// A lab to be run with each seed.
#[derive(Clone, Debug)]
pub struct Subject {
    /// First parts of its figures' names, without the job: the scheme, or empty.
    pub prefix: String,
    /// What figures of the run as a whole are named after.
    pub name: String,
    /// The lab.
    pub plan: LabPlan,
}

/// What has come of all runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// A figure for each KPI that any run had, in the order of the runs.
    pub figures: Vec<Figure>,
    /// What a lab promised and a run did not keep, or why it did not come to its end.
    pub anomalies: Vec<String>,
}

/// What one run has.
struct Made {
    kpis: Vec<Kpi>,
    anomalies: Vec<String>,
}

/// Runs every lab with every seed, so many at the same time. `progress` hears how many are done.
///
/// # Errors
/// A lab that cannot be set up; an interrupt.
pub fn run(
    subjects: &[Subject],
    seeds: &[u64],
    jobs: usize,
    stop: &AtomicBool,
    progress: impl FnMut(usize),
) -> Result<Outcome, Failure> {
    let way = Way::Virtual {
        run: Box::new(VirtualRunArgs {
            events_max: EVENTS_MAX_DEFAULT,
            ..VirtualRunArgs::default()
        }),
        jobs: Some(jobs),
    };
    let (all, each) = (Arc::new(subjects.to_vec()), seeds.to_vec());
    let at_once = way.at_once();
    let count = subjects.len() * seeds.len();
    let work = move |run: usize| {
        let (subject, seed) = (&all[run / each.len()], each[run % each.len()]);
        let (report, watched) = way.run(subject.plan.clone(), seed, true)?;
        let mut anomalies: Vec<String> = report.failures.clone();
        if report.verdict == Verdict::Tainted {
            anomalies.push("the run is tainted".to_owned());
        }
        let name = join(&subject.prefix, &subject.name);
        Ok(Made {
            kpis: kpis(&report, watched.as_ref()),
            anomalies: anomalies
                .iter()
                .map(|what| format!("{name}, seed {seed}: {what}"))
                .collect(),
        })
    };
    let made = match run_all(count, at_once, work, stop, progress)? {
        Pooled::Done(made) => made,
        Pooled::Interrupted(done) => {
            let what = format!("interrupted: {done} of {count} runs were done; nothing is written");
            return Err(Failure::new(Exit::Interrupted, what));
        }
    };
    let mut outcome = Outcome::default();
    for (subject, runs) in subjects.iter().zip(made.chunks(seeds.len())) {
        for run in runs {
            outcome.anomalies.extend(run.anomalies.iter().cloned());
            for kpi in &run.kpis {
                enter(&mut outcome.figures, subject, kpi);
            }
        }
    }
    Ok(outcome)
}

fn join(prefix: &str, name: &str) -> String {
    match prefix {
        "" => name.to_owned(),
        prefix => format!("{prefix}/{name}"),
    }
}

/// Adds a sample to the figure of a KPI.
fn enter(figures: &mut Vec<Figure>, subject: &Subject, kpi: &Kpi) {
    let of = kpi.job.as_deref().unwrap_or(&subject.name);
    let name = format!("{}/{}", join(&subject.prefix, of), kpi.name);
    match figures.iter_mut().find(|figure| figure.name == name) {
        Some(figure) => figure.samples.push(kpi.value),
        None => figures.push(Figure::new(name, kpi.unit, kpi.better, vec![kpi.value])),
    }
}

/// The result of a bench. `subject`: what was run, in words.
pub fn result(subject: &str, seeds: &[u64], outcome: &Outcome) -> BenchResult {
    let mut result = BenchResult::new("ai", subject, seeds.first().copied().unwrap_or(0));
    result.figures.clone_from(&outcome.figures);
    result.notes = outcome
        .anomalies
        .iter()
        .map(|what| format!("anomaly: {what}"))
        .collect();
    result
}
