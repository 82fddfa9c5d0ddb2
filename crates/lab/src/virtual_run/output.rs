//! Prints the results of runs in virtual time. Output formats include the tables and the JSON of nccl-tests.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::virtual_lab::VirtualLab;
use crate::report::Report;
use crate::resolve::collective_kinds;
use xoff_telemetry::failure::Failure;
use xoff_workload::{JobResults, NcclRun};

/// The format in which a command prints its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// Tables for a terminal.
    #[default]
    Table,
    /// One table for each collective in the format of nccl-tests. Commands for several runs print
    /// [`OutputFormat::Table`] instead.
    Nccl,
    /// The report in JSON.
    Json,
}

/// Checks that a lab has a collective, as the formats of nccl-tests require.
///
/// # Errors
/// Fails if no job is a collective.
pub(super) fn check_collective(lab: &VirtualLab) -> Result<(), Failure> {
    let workload = lab.simulation.jobs.workload();
    if (0..lab.job_results().jobs.len()).any(|job| workload.ranks(job).is_some()) {
        return Ok(());
    }
    let kinds: Vec<&str> = collective_kinds().collect();
    let fix = format!(
        "omit --format nccl and --nccl-json, or add a job of kind {}",
        kinds.join(", ")
    );
    Err(Failure::usage("the lab has no collective job")
        .at(&lab.plan.name)
        .because("the formats of nccl-tests support only collectives")
        .fix(fix))
}

/// Formats the tables of nccl-tests for all collectives, in the order of the jobs.
pub(super) fn format_nccl_tables(lab: &VirtualLab, report: &Report) -> String {
    let table = |run: &NcclRun<'_>| run.table();
    format_collectives(lab, report, table).join("\n")
}

/// Writes a file in the JSON format of nccl-tests. The file contains one object, or a list of objects if the
/// lab has several collectives.
///
/// # Errors
/// Fails if the file cannot be written.
pub(super) fn write_nccl_json(path: &Path, lab: &VirtualLab, report: &Report) -> Result<(), Failure> {
    let mut objects = format_collectives(lab, report, |run: &NcclRun<'_>| run.json());
    let value = match objects.len() {
        1 => objects.remove(0),
        _ => Value::Array(objects),
    };
    let text = serde_json::to_string_pretty(&value).expect("our values have string keys and finite numbers");
    xoff_telemetry::write_result_file("--nccl-json", path, &format!("{text}\n"))
}

/// Applies `format` to each collective of the lab.
fn format_collectives<T>(
    lab: &VirtualLab,
    report: &Report,
    format: impl Fn(&NcclRun<'_>) -> Option<T>,
) -> Vec<T> {
    let jobs: &[JobResults] = report.jobs.as_ref().map_or(&[], |results| &results.jobs);
    let args: Vec<String> = std::env::args().collect();
    let mut formatted = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let Some(ranks) = lab.simulation.jobs.workload().ranks(index) else {
            continue;
        };
        let hosts: Vec<String> = ranks
            .iter()
            .map(|host| lab.plan.hosts[*host as usize].name.clone())
            .collect();
        formatted.extend(format(&NcclRun {
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
    formatted
}

/// Writes the text of a result to the output of a command. A closed pipe is not an error.
///
/// # Errors
/// Fails if the text cannot be written.
pub(crate) fn write_result_text(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    write_result(out, |out| out.write_all(text.as_bytes()))
}

/// Writes a result in parts, as [`write_result_text`] writes a text.
pub(super) fn write_result(
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut buffered = BufWriter::new(out);
    let result = write(&mut buffered).and_then(|()| buffered.flush());
    // After an error, the destructor would write the rest of the buffer again.
    let _ = buffered.into_parts();
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::environment("the result cannot be written")
                .at("standard output")
                .because(error))
        }
        _ => Ok(()),
    }
}
