//! `xoff lab merge`: parts of a sweep become one.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::super::virtual_run::Format;
use super::report::{SWEEP_SCHEMA, SweepReport};
use super::run::finish;
use xoff_telemetry::failure::Failure;

/// Most missing parts that a message names.
const PARTS_LISTED: usize = 16;

/// What the command asks for.
#[derive(Clone, Debug)]
pub struct MergeArgs {
    /// Reports of all parts, in any order.
    pub parts: Vec<PathBuf>,
    /// Where the result goes, as JSON.
    pub report: Option<PathBuf>,
    /// Where its table goes, as CSV.
    pub csv: Option<PathBuf>,
    /// What is printed.
    pub format: Format,
}

/// Merges the parts of a sweep, and prints its table.
///
/// # Errors
/// A file that is no part, parts of different sweeps, a part that is missing or given twice.
pub fn merge(arguments: &MergeArgs) -> Result<ExitCode, Failure> {
    let parts = arguments
        .parts
        .iter()
        .map(|path| Ok((path.clone(), read(path)?)))
        .collect::<Result<Vec<(PathBuf, SweepReport)>, Failure>>()?;
    finish(
        &merged(parts)?,
        arguments.format,
        &arguments.report,
        &arguments.csv,
    )
}

fn read(path: &Path) -> Result<SweepReport, Failure> {
    let wrong = |why: String| {
        Failure::configuration("this is no part of a sweep")
            .at(path.display().to_string())
            .because(why)
            .fix("give files that `xoff lab run --virtual --shard I/N --report FILE` has written")
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let sweep: SweepReport = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if sweep.schema != SWEEP_SCHEMA {
        return Err(wrong(format!(
            "its schema is {}, not {SWEEP_SCHEMA}",
            sweep.schema
        )));
    }
    Ok(sweep)
}

/// One sweep of its parts.
fn merged(parts: Vec<(PathBuf, SweepReport)>) -> Result<SweepReport, Failure> {
    let Some((first_path, first)) = parts.first().cloned() else {
        return Err(Failure::usage("there are no parts to merge"));
    };
    let whole = SweepReport {
        shard: None,
        runs: Vec::new(),
        ..first.clone()
    };
    for (path, part) in &parts {
        if let Some(what) = difference(&first, part) {
            return Err(Failure::configuration("these are parts of different sweeps")
                .at(format!("{} and {}", first_path.display(), path.display()))
                .because(format!("{what} differ"))
                .fix("merge only parts of one command, made from one lab file by one version of xoff"));
        }
    }
    let mut slots = vec![None; usize::try_from(whole.runs_in_all()).unwrap_or(0)];
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
        return Err(incomplete(&parts, missing, slots.len()));
    }
    Ok(SweepReport {
        runs: slots.into_iter().flatten().collect(),
        ..whole
    })
}

/// What two parts of one sweep would have in common and these have not.
fn difference(one: &SweepReport, other: &SweepReport) -> Option<&'static str> {
    let of = |part: &SweepReport| part.shard.map(|shard| shard.of);
    [
        (one.lab != other.lab, "names of labs"),
        (one.lab_crc32 != other.lab_crc32, "lab files"),
        (one.xoff_version != other.xoff_version, "versions of xoff"),
        (one.parameters != other.parameters, "parameters (--set)"),
        (one.seeds != other.seeds, "seeds"),
        (one.until_ns != other.until_ns, "times (--until)"),
        (one.events_max != other.events_max, "limits (--events-max)"),
        (of(one) != of(other), "numbers of parts"),
    ]
    .into_iter()
    .find_map(|(differs, what)| differs.then_some(what))
}

fn incomplete(parts: &[(PathBuf, SweepReport)], missing: usize, runs: usize) -> Failure {
    let failure =
        Failure::usage(format!("{missing} of {runs} runs are in none of the files")).at("xoff lab merge");
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
        .take(PARTS_LISTED)
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
    use super::super::report::{Parameter, RunFigures, Shard};
    use super::*;

    fn part(number: u32, of: u32) -> (PathBuf, SweepReport) {
        let shard = Shard { part: number, of };
        let figures = |run: u64| RunFigures {
            run,
            seed: run % 3,
            ..RunFigures::default()
        };
        let sweep = SweepReport {
            schema: SWEEP_SCHEMA.to_owned(),
            xoff_version: "0".to_owned(),
            lab: "a".to_owned(),
            lab_crc32: "0".to_owned(),
            until_ns: None,
            events_max: 1,
            parameters: vec![Parameter {
                path: "p".to_owned(),
                values: vec!["1".to_owned(), "2".to_owned()],
            }],
            seeds: vec![0, 1, 2],
            shard: Some(shard),
            runs: (0..6).filter(|run| shard.has(*run)).map(figures).collect(),
        };
        (PathBuf::from(format!("part{number}")), sweep)
    }

    #[test]
    fn parts_in_any_order_are_one_sweep() {
        let (forth, back) = (
            merged(vec![part(1, 3), part(2, 3), part(3, 3)]),
            merged(vec![part(3, 3), part(1, 3), part(2, 3)]),
        );
        let whole = forth.unwrap();
        assert_eq!(whole, back.unwrap());
        assert_eq!(whole.shard, None);
        let runs: Vec<u64> = whole.runs.iter().map(|run| run.run).collect();
        assert_eq!(runs, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_is_no_whole_sweep_is_refused() {
        let mut other = part(2, 3);
        other.1.seeds = vec![0, 1, 5];
        for (parts, what) in [
            (vec![part(1, 3), part(3, 3)], "parts are missing: 2/3"),
            (vec![part(1, 3), part(1, 3)], "two of the files"),
            (vec![part(1, 3), other], "seeds differ"),
            (vec![part(1, 3), part(2, 2)], "numbers of parts differ"),
            (vec![], "no parts"),
        ] {
            let failure = merged(parts).unwrap_err().to_string();
            assert!(failure.contains(what), "{failure}");
        }
    }
}
