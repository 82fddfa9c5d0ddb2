//! The command `xoff lab run FILE --virtual --seeds ... --set ...`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use super::super::lab_fields::{self, FieldOption, FieldSetting, FieldValue};
use super::super::load_options::LoadOptions;
use super::super::options::ThreadCount;
use super::super::plan::TimeMode;
use super::super::resolve::LabText;
use super::super::virtual_run::{FinishedRun, OutputFormat, VirtualRunArgs, run_to_end, write_result_text};
use super::pool::{ParallelRunsResult, run_in_parallel};
use super::progress::SweepProgress;
use super::report::{RunMeasurements, SWEEP_SCHEMA, Shard, SweepReport, VariedField};
use super::table;
use xoff_telemetry::Verdict;
use xoff_telemetry::failure::{Exit, Failure};

/// Largest number of runs of a sweep or a comparison.
pub const RUNS_MAX: usize = 1_000_000;

/// Arguments of a sweep: `xoff lab run --virtual` with `--seeds`, `--shard`, `--csv` or several values of a
/// `--set` field.
#[derive(Clone, Debug)]
pub struct SweepArgs {
    /// Arguments of each run. The sweep uses the file, the time limit, the event limit and the output format
    /// of these arguments.
    pub run: VirtualRunArgs,
    /// The seeds, at least one. Each combination of values runs once with each seed.
    pub seeds: Vec<u64>,
    /// Fields of the lab file with the values of the sweep (`--set`). The sweep runs all combinations of the
    /// values. May be empty.
    pub settings: Vec<FieldSetting>,
    /// Number of runs that execute at the same time, at least 1. `None` means the number of CPUs that the
    /// process may use.
    pub jobs: Option<usize>,
    /// The part of the sweep to run (`--shard`). `None`: the whole sweep.
    pub shard: Option<Shard>,
    /// File for the report in JSON. `None`: no file.
    pub report: Option<PathBuf>,
    /// File for the table in CSV. `None`: no file.
    pub csv: Option<PathBuf>,
}

/// Runs a sweep, writes its table to `out` and writes the requested files. If `stop` becomes true, the sweep
/// ends early without a result. Returns [`Exit::CheckFailed`] as exit code if a run failed.
///
/// # Errors
/// Fails before the first run if the lab or a value is invalid. Later, fails if a run cannot be set up or a
/// file cannot be written.
pub fn run_sweep(arguments: &SweepArgs, stop: &AtomicBool, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let file = &arguments.run.file;
    let text = lab_fields::read_lab_file(file)?;
    let combinations = setting_combinations(&arguments.settings, arguments.seeds.len())?;
    let mut lab = String::new();
    let mut texts = Vec::with_capacity(combinations.len());
    let run_count = combinations.len().saturating_mul(arguments.seeds.len());
    let threads = arguments
        .jobs
        .unwrap_or_else(|| arguments.run.threads.parallel_runs(run_count));
    // Each run that executes at the same time gets an equal part of the memory.
    let options = LoadOptions {
        time: TimeMode::Virtual,
        memory: arguments.run.memory.divided_by(threads.min(run_count)),
    };
    for values in &combinations {
        let changed = text.with_text(lab_fields::apply_values(file, &text.text, values)?);
        lab = lab_fields::parse_changed_lab(file, &changed, values, options)?.name;
        texts.push(changed);
    }
    let sweep = SweepReport {
        schema: SWEEP_SCHEMA.to_owned(),
        xoff_version: env!("CARGO_PKG_VERSION").to_owned(),
        lab,
        lab_crc32: format!("{:08x}", crc32fast::hash(text.text.as_bytes())),
        until_ns: arguments.run.until.map(|until| until.as_nanos()),
        events_max: arguments.run.events_max,
        parameters: arguments.settings.iter().map(to_varied_field).collect(),
        seeds: arguments.seeds.clone(),
        shard: arguments.shard,
        runs: Vec::new(),
    };
    let in_part = |run: &u64| arguments.shard.is_none_or(|shard| shard.contains_run(*run));
    let part_runs: Vec<u64> = (0..sweep.total_runs()).filter(in_part).collect();
    let mut progress = SweepProgress::start(arguments.run.progress, &sweep.lab, part_runs.len());
    let (count, seeds) = (part_runs.len(), arguments.seeds.clone());
    let template = VirtualRunArgs {
        threads: ThreadCount::Fixed(arguments.run.threads.for_each_of(threads.min(run_count))),
        memory: options.memory,
        ..arguments.run.clone()
    };
    let work = move |at: usize| {
        let run = part_runs[at];
        let (combination, seed) = (run as usize / seeds.len(), run as usize % seeds.len());
        run_combination(
            run,
            &template,
            &texts[combination],
            &combinations[combination],
            seeds[seed],
        )
    };
    let pooled = run_in_parallel(count, threads, work, stop, |done| progress.update(done))?;
    progress.finish();
    match pooled {
        ParallelRunsResult::Done(runs) => print_and_write(
            &SweepReport { runs, ..sweep },
            arguments.run.format,
            &arguments.report,
            &arguments.csv,
            out,
        ),
        ParallelRunsResult::Interrupted(done) => {
            log::error!(
                "interrupted after {done} of {}; no file was written",
                xoff_telemetry::count_noun(count as u64, "run")
            );
            Ok(Exit::Interrupted.into())
        }
    }
}

/// Writes the report of a sweep to `out`, writes the requested files, and returns the exit code.
pub(super) fn print_and_write(
    sweep: &SweepReport,
    format: OutputFormat,
    report_file: &Option<PathBuf>,
    csv: &Option<PathBuf>,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    match format {
        OutputFormat::Json => write_result_text(out, &sweep.to_json())?,
        OutputFormat::Table | OutputFormat::Nccl => write_result_text(out, &table::render_sweep(sweep))?,
    }
    if let Some(path) = report_file {
        xoff_telemetry::write_report_file(path, &sweep.to_json())?;
    }
    if let Some(path) = csv {
        xoff_telemetry::write_result_file("--csv", path, &table::format_csv(sweep))?;
    }
    let has_failures = sweep.runs.iter().any(|run| !run.failures.is_empty());
    let proves_nothing = |run: &&RunMeasurements| run.without_traffic && run.failures.is_empty();
    let idle = sweep.runs.iter().filter(proves_nothing).count();
    if idle > 0 {
        let runs = xoff_telemetry::count_noun(idle as u64, "run");
        log::warn!(
            "no traffic in {runs}: no frame was offered, or none arrived, so the sweep proves nothing"
        );
    }
    let verdict = match (has_failures, idle) {
        (true, _) => Verdict::Failed,
        (false, 0) => Verdict::Clean,
        (false, _) => Verdict::NoTraffic,
    };
    Ok(verdict.exit().into())
}

/// Runs the lab with one combination of values and one seed. `text` is the lab file with these values.
fn run_combination(
    run: u64,
    template: &VirtualRunArgs,
    text: &LabText,
    values: &[FieldValue],
    seed: u64,
) -> Result<RunMeasurements, Failure> {
    let arguments = VirtualRunArgs {
        file: template.file.clone(),
        seed,
        until: template.until,
        events_max: template.events_max,
        threads: template.threads,
        quiet: true,
        ..VirtualRunArgs::default()
    };
    let plan = lab_fields::parse_changed_lab(&template.file, text, values, TimeMode::Virtual)?;
    let FinishedRun { report, lab, .. } = run_to_end(plan, &arguments)
        .map_err(|failure| with_run_options(failure, &template.file, values, seed))?;
    let values = values.iter().map(|field| field.value.clone()).collect();
    Ok(RunMeasurements {
        notes: lab.notes,
        ..RunMeasurements::of_report(run, values, &report)
    })
}

/// Adds the field values and the seed of a run to its failure. The seed is not written as an option, because the
/// commands for several runs have `--seeds`.
pub(crate) fn with_run_options(failure: Failure, file: &Path, values: &[FieldValue], seed: u64) -> Failure {
    let source = failure
        .location
        .clone()
        .unwrap_or_else(|| file.display().to_string());
    let fields = match values {
        [] => String::new(),
        some => format!("{} and ", lab_fields::format_field_options(some)),
    };
    failure.at(format!("{source}, with {fields}seed {seed}"))
}

/// Returns all combinations of values. The last field changes fastest.
///
/// # Errors
/// Fails if a field is set twice, or if the number of combinations times the number of
/// seeds exceeds [`RUNS_MAX`].
pub(crate) fn setting_combinations(
    settings: &[FieldSetting],
    seed_count: usize,
) -> Result<Vec<Vec<FieldValue>>, Failure> {
    let count = settings.iter().try_fold(seed_count, |count, setting| {
        count.checked_mul(setting.values.len())
    });
    if count.is_none_or(|count| count > RUNS_MAX) {
        return Err(Failure::usage(format!(
            "the sweep has more than {} runs",
            xoff_telemetry::group_thousands(RUNS_MAX as u64)
        ))
        .at("--seeds and --set")
        .fix("give fewer seeds or values, or several sweeps"));
    }
    for (at, setting) in settings.iter().enumerate() {
        if settings[..at].iter().any(|other| other.path == setting.path) {
            return Err(Failure::usage(format!("\"{}\" is set twice", setting.path))
                .at("--set")
                .fix(format!(
                    "give its values in one list: --set {}=V1,V2",
                    setting.path
                )));
        }
    }
    let mut all: Vec<Vec<FieldValue>> = vec![Vec::new()];
    for setting in settings {
        let extend = |combination: &Vec<FieldValue>| {
            let combination = combination.clone();
            setting.values.iter().map(move |value| {
                let mut longer = combination.clone();
                longer.push(FieldValue {
                    path: setting.path.clone(),
                    value: value.clone(),
                    option: FieldOption::Set,
                });
                longer
            })
        };
        all = all.iter().flat_map(extend).collect();
    }
    Ok(all)
}

fn to_varied_field(setting: &FieldSetting) -> VariedField {
    VariedField {
        path: setting.path.clone(),
        values: setting.values.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_field_changes_fastest() {
        let settings: Vec<FieldSetting> = ["a=1,2", "b=x,y"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let all = setting_combinations(&settings, 3).unwrap();
        let values: Vec<Vec<&str>> = all
            .iter()
            .map(|combination| combination.iter().map(|field| field.value.as_str()).collect())
            .collect();
        assert_eq!(values, [["1", "x"], ["1", "y"], ["2", "x"], ["2", "y"]]);
        assert_eq!(setting_combinations(&[], 1).unwrap(), [Vec::new()]);
    }

    #[test]
    fn a_field_set_twice_and_too_many_runs_are_rejected() {
        let twice: Vec<FieldSetting> = ["a=1", "a=2"].iter().map(|text| text.parse().unwrap()).collect();
        assert!(
            setting_combinations(&twice, 1)
                .unwrap_err()
                .what
                .contains("twice")
        );
        let many: Vec<FieldSetting> = vec!["a=1,2".parse().unwrap()];
        assert!(
            setting_combinations(&many, RUNS_MAX)
                .unwrap_err()
                .what
                .contains("more than 1,000,000")
        );
    }
}
