//! The command `xoff lab merge`: merges the parts of a sweep into one report.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::super::virtual_run::OutputFormat;
use super::command::print_and_write;
use super::report::{SWEEP_SCHEMA, SweepReport};
use xoff_telemetry::failure::Failure;

/// Largest number of missing parts that a message lists.
const MISSING_PARTS_LISTED_MAX: usize = 16;

/// Arguments of `xoff lab merge`.
#[derive(Clone, Debug)]
pub struct MergeArgs {
    /// Report files of all parts, in any order. At least one.
    pub parts: Vec<PathBuf>,
    /// File for the merged report in JSON. `None`: no file.
    pub report: Option<PathBuf>,
    /// File for the table in CSV. `None`: no file.
    pub csv: Option<PathBuf>,
    /// Format of the printed result.
    pub format: OutputFormat,
}

/// Merges the parts of a sweep, writes the table to `out` and writes the requested files. The exit code is
/// that of [`run_sweep`](super::run_sweep).
///
/// # Errors
/// Fails if a file is not a part of a sweep, or if the parts belong to different sweeps. Fails if a part is
/// missing or is passed twice. Fails if a result file cannot be written.
pub fn merge_sweep(arguments: &MergeArgs, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let parts = arguments
        .parts
        .iter()
        .map(|path| Ok((path.clone(), read_part(path)?)))
        .collect::<Result<Vec<(PathBuf, SweepReport)>, Failure>>()?;
    print_and_write(
        &merge_parts(parts)?,
        arguments.format,
        &arguments.report,
        &arguments.csv,
        out,
    )
}

fn read_part(path: &Path) -> Result<SweepReport, Failure> {
    let invalid = |why: String| {
        Failure::configuration("the file is not a part of a sweep")
            .at(path.display().to_string())
            .because(why)
            .fix("give files written by `xoff lab run --virtual --shard I/N --report FILE`")
    };
    let text = xoff_telemetry::read_input_text(path, xoff_telemetry::InputLimit::RESULT)
        .map_err(|error| invalid(error.to_string()))?;
    let sweep: SweepReport = serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
    if sweep.schema != SWEEP_SCHEMA {
        return Err(invalid(format!(
            "its schema is {}, not {SWEEP_SCHEMA}",
            sweep.schema
        )));
    }
    Ok(sweep)
}

/// Merges all parts of a sweep into one report without a shard.
fn merge_parts(parts: Vec<(PathBuf, SweepReport)>) -> Result<SweepReport, Failure> {
    let Some((first_path, first)) = parts.first().cloned() else {
        return Err(Failure::usage("there are no parts to merge"));
    };
    let whole = SweepReport {
        shard: None,
        runs: Vec::new(),
        ..first.clone()
    };
    for (path, part) in &parts {
        if let Some(what) = first_differing_property(&first, part) {
            return Err(Failure::configuration("these are parts of different sweeps")
                .at(format!("{} and {}", first_path.display(), path.display()))
                .because(format!("{what} differ"))
                .fix("merge only parts of the same command, lab file and version of xoff"));
        }
    }
    let mut slots = vec![None; usize::try_from(whole.total_runs()).unwrap_or(0)];
    for (path, part) in &parts {
        for run in &part.runs {
            match slots.get_mut(run.run as usize) {
                Some(slot @ None) => *slot = Some(run.clone()),
                Some(Some(_)) => {
                    return Err(
                        Failure::configuration(format!("run {} is in two of the files", run.run))
                            .at(path.display().to_string())
                            .fix("give each part once"),
                    );
                }
                None => {
                    return Err(
                        Failure::configuration(format!("the sweep has no run {}", run.run))
                            .at(path.display().to_string()),
                    );
                }
            }
        }
    }
    let missing = slots.iter().filter(|slot| slot.is_none()).count();
    if missing > 0 {
        return Err(missing_runs_failure(&parts, missing, slots.len()));
    }
    Ok(SweepReport {
        runs: slots.into_iter().flatten().collect(),
        ..whole
    })
}

/// Compares two parts of a sweep in the properties that all parts must share. Returns the name of the first
/// property that differs.
fn first_differing_property(one: &SweepReport, other: &SweepReport) -> Option<&'static str> {
    let shard_count = |part: &SweepReport| part.shard.map(|shard| shard.of);
    [
        (one.lab != other.lab, "names of labs"),
        (one.lab_crc32 != other.lab_crc32, "lab files"),
        (one.xoff_version != other.xoff_version, "versions of xoff"),
        (one.parameters != other.parameters, "parameters (--set)"),
        (one.seeds != other.seeds, "seeds"),
        (one.until_ns != other.until_ns, "times (--until)"),
        (one.events_max != other.events_max, "limits (--events-max)"),
        (shard_count(one) != shard_count(other), "numbers of parts"),
    ]
    .into_iter()
    .find_map(|(differs, what)| differs.then_some(what))
}

/// Builds the error for missing runs. The error lists the parts that none of the files contains.
fn missing_runs_failure(parts: &[(PathBuf, SweepReport)], missing: usize, runs: usize) -> Failure {
    let failure = Failure::usage(format!(
        "no file has {missing} of {}",
        xoff_telemetry::count_noun(runs as u64, "run")
    ))
    .at("xoff lab merge");
    let Some(of) = parts
        .first()
        .and_then(|(_, part)| part.shard)
        .map(|shard| shard.of)
    else {
        return failure;
    };
    let given = |number: &u32| {
        parts
            .iter()
            .any(|(_, part)| part.shard.is_some_and(|shard| shard.part == *number))
    };
    let absent = (1..=of).filter(|number| !given(number));
    let names: Vec<String> = absent
        .take(MISSING_PARTS_LISTED_MAX)
        .map(|number| format!("{number}/{of}"))
        .collect();
    match names.len() {
        0 => failure.because("a part is incomplete"),
        _ => failure.because(format!("parts are missing: {}", names.join(", "))),
    }
    .fix("give the reports of all parts")
}

#[cfg(test)]
mod tests {
    use super::super::report::{RunMeasurements, Shard, VariedField};
    use super::*;

    fn sample_part(number: u32, of: u32) -> (PathBuf, SweepReport) {
        let shard = Shard { part: number, of };
        let figures = |run: u64| RunMeasurements {
            run,
            seed: run % 3,
            ..RunMeasurements::default()
        };
        let sweep = SweepReport {
            schema: SWEEP_SCHEMA.to_owned(),
            xoff_version: "0".to_owned(),
            lab: "a".to_owned(),
            lab_crc32: "0".to_owned(),
            until_ns: None,
            events_max: 1,
            parameters: vec![VariedField {
                path: "p".to_owned(),
                values: vec!["1".to_owned(), "2".to_owned()],
            }],
            seeds: vec![0, 1, 2],
            shard: Some(shard),
            runs: (0..6)
                .filter(|run| shard.contains_run(*run))
                .map(figures)
                .collect(),
        };
        (PathBuf::from(format!("part{number}")), sweep)
    }

    #[test]
    fn parts_in_any_order_merge_into_one_sweep() {
        let (forth, back) = (
            merge_parts(vec![sample_part(1, 3), sample_part(2, 3), sample_part(3, 3)]),
            merge_parts(vec![sample_part(3, 3), sample_part(1, 3), sample_part(2, 3)]),
        );
        let whole = forth.unwrap();
        assert_eq!(whole, back.unwrap());
        assert_eq!(whole.shard, None);
        let runs: Vec<u64> = whole.runs.iter().map(|run| run.run).collect();
        assert_eq!(runs, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn missing_duplicate_and_different_parts_are_rejected() {
        let mut other = sample_part(2, 3);
        other.1.seeds = vec![0, 1, 5];
        for (parts, what) in [
            (
                vec![sample_part(1, 3), sample_part(3, 3)],
                "parts are missing: 2/3",
            ),
            (vec![sample_part(1, 3), sample_part(1, 3)], "two of the files"),
            (vec![sample_part(1, 3), other], "seeds differ"),
            (
                vec![sample_part(1, 3), sample_part(2, 2)],
                "numbers of parts differ",
            ),
            (vec![], "no parts"),
        ] {
            let failure = merge_parts(parts).unwrap_err().to_string();
            assert!(failure.contains(what), "{failure}");
        }
    }
}
