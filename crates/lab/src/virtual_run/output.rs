//! What a virtual run prints beside its report: the forms of nccl-tests.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::build::VirtualLab;
use crate::report::Report;
use xoff_telemetry::failure::Failure;
use xoff_workload::{JobResults, NcclRun};

/// What a command prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Tables for people.
    #[default]
    Table,
    /// The table of nccl-tests, for each collective.
    Nccl,
    /// The report, as in its file.
    Json,
}

/// Refuses a lab in which nothing is measured that nccl-tests measures.
///
/// # Errors
/// No job is a collective.
pub(super) fn check_collective(lab: &VirtualLab) -> Result<(), Failure> {
    let workload = lab.simulation.jobs.workload();
    if (0..lab.results().jobs.len()).any(|job| workload.ranks(job).is_some()) {
        return Ok(());
    }
    Err(Failure::usage("the lab has no collective job")
        .at(&lab.plan.name)
        .because("the forms of nccl-tests are for collectives alone")
        .fix("leave --format nccl and --nccl-json out, or add a job such as all_reduce"))
}

/// nccl-tests' tables of all collectives, in the order of the jobs.
pub(super) fn nccl_tables(lab: &VirtualLab, report: &Report) -> String {
    let table = |run: &NcclRun<'_>| run.table();
    collectives(lab, report, table).join("\n")
}

/// Writes nccl-tests' JSON: one object, or a list of them where the lab has several collectives.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write_nccl_json(path: &Path, lab: &VirtualLab, report: &Report) -> Result<(), Failure> {
    let mut objects = collectives(lab, report, |run: &NcclRun<'_>| run.json());
    let value = match objects.len() {
        1 => objects.remove(0),
        _ => Value::Array(objects),
    };
    let text = serde_json::to_string_pretty(&value).expect("our values have string keys and finite numbers");
    xoff_telemetry::write_result_file("--nccl-json", path, &format!("{text}\n"))
}

/// What `form` makes of each collective.
fn collectives<T>(lab: &VirtualLab, report: &Report, form: impl Fn(&NcclRun<'_>) -> Option<T>) -> Vec<T> {
    let jobs: &[JobResults] = report.jobs.as_ref().map_or(&[], |results| &results.jobs);
    let args: Vec<String> = std::env::args().collect();
    let mut made = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let Some(ranks) = lab.simulation.jobs.workload().ranks(index) else {
            continue;
        };
        let hosts: Vec<String> = ranks
            .iter()
            .map(|host| lab.plan.hosts[*host as usize].name.clone())
            .collect();
        made.extend(form(&NcclRun {
            job,
            args: &args,
            hosts: &hosts,
            per_iteration: job.iterations.len() > 1,
            xoff: json!({
                "lab": lab.plan.name,
                "seed": report.seed,
                "failures": report.failures,
                "dropped_frames": report.totals.dropped_frames,
                "pfc_tx_frames": report.totals.pfc_tx_frames,
                "ecn_marked_frames": report.totals.ecn_marked_frames,
            }),
        }));
    }
    made
}

/// Writes to standard output; a reader that went away is no error.
///
/// # Errors
/// The output cannot take it.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::environment("the result cannot be written")
                .at("standard output")
                .because(error))
        }
        _ => Ok(()),
    }
}
