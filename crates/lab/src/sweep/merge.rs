//! The command `xoff lab merge`: merges the parts of a sweep into one report.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::super::virtual_run::{EVENTS_MAX_DEFAULT, OutputFormat};
use super::command::print_and_write;
use super::report::{SWEEP_SCHEMA, SweepReport, VariedField};
use xoff_telemetry::count_noun;
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
    let failure = |what: &str, why: String| {
        Failure::configuration(what)
            .at(path.display().to_string())
            .because(why)
            .fix(format!(
                "write the file with `xoff lab run LAB.xoff.yml --virtual --seeds 1..=8 --shard 1/2 --report {}`, with the \
                 lab file, seeds and values of the sweep",
                path.display()
            ))
    };
    let invalid = |why: String| failure("the file is not a part of a sweep", why);
    let text = xoff_telemetry::read_input_text(path, xoff_telemetry::InputLimit::RESULT)
        .map_err(|error| failure("the part of the sweep cannot be read", error.to_string()))?;
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
        return Err(Failure::usage("there are no parts to merge")
            .fix("name the reports of the parts: `xoff lab merge part1.json part2.json`"));
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
                .fix(match part.shard {
                    Some(shard) => format!(
                        "leave {} out, or run this part again like the first one: {}",
                        path.display(),
                        part_command(&first, shard.part)
                    ),
                    None => format!("leave {} out: it is a whole sweep", path.display()),
                }));
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
                            .fix(format!("leave {} out: give each part once", path.display())),
                    );
                }
                None => {
                    let number = part.shard.map_or(1, |shard| shard.part);
                    return Err(
                        Failure::configuration(format!("the sweep has no run {}", run.run))
                            .at(path.display().to_string())
                            .because(format!("it has {}", count_noun(whole.total_runs(), "run")))
                            .fix(format!(
                                "the file was changed: run the part again: {}",
                                part_command(&first, number)
                            )),
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
    let absent: Vec<u32> = (1..=of)
        .filter(|number| !given(number))
        .take(MISSING_PARTS_LISTED_MAX)
        .collect();
    let Some((first, (_, sweep))) = absent.first().zip(parts.first()) else {
        return failure
            .because("the report of a part lacks runs")
            .fix("run the part with fewer runs again, with the same options");
    };
    let names: Vec<String> = absent.iter().map(|number| format!("{number}/{of}")).collect();
    failure
        .because(format!("parts are missing: {}", names.join(", ")))
        .fix(format!(
            "add the reports of these parts to the command; run a part that has no report yet, such as: {}",
            part_command(sweep, *first)
        ))
}

/// Returns the command that writes part `number` of the sweep of `part`. Only the name of the lab file is unknown.
fn part_command(part: &SweepReport, number: u32) -> String {
    let mut command = format!(
        "`xoff lab run LAB.xoff.yml --virtual --seeds {}",
        format_seeds(&part.seeds)
    );
    for VariedField { path, values } in &part.parameters {
        command.push_str(&format!(" --set '{path}={}'", values.join(",")));
    }
    if let Some(until_ns) = part.until_ns {
        command.push_str(&format!(" --until {until_ns}ns"));
    }
    if part.events_max != EVENTS_MAX_DEFAULT {
        command.push_str(&format!(" --events-max {}", part.events_max));
    }
    let of = part.shard.map_or(1, |shard| shard.of);
    format!("{command} --shard {number}/{of} --report part-{number}.json`")
}

/// Formats seeds for `--seeds`: consecutive numbers become a range.
fn format_seeds(seeds: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for seed in seeds {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*seed) => *last = *seed,
            _ => ranges.push((*seed, *seed)),
        }
    }
    let texts: Vec<String> = ranges
        .iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}..={last}"),
        })
        .collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::super::report::{RunMeasurements, Shard};
    use super::super::seeds::Seeds;
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
    fn seeds_are_printed_as_the_command_line_takes_them() {
        for text in ["0..=2", "5", "1,3,5", "7..=9,2,4..=5", "18446744073709551615"] {
            let seeds: Seeds = text.parse().unwrap();
            assert_eq!(format_seeds(&seeds.0), text);
        }
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
            (
                vec![sample_part(1, 3), sample_part(3, 3)],
                "`xoff lab run LAB.xoff.yml --virtual --seeds 0..=2 --set 'p=1,2' --events-max 1 --shard 2/3 --report \
                 part-2.json`",
            ),
        ] {
            let failure = merge_parts(parts).unwrap_err().to_string();
            assert!(failure.contains(what), "{failure}");
        }
    }
}
