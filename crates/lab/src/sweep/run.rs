//! `xoff lab run FILE --virtual --seeds ... --set ...`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use indicatif::{ProgressBar, ProgressStyle};

use super::super::plan::TimeMode;
use super::super::virtual_run::{Format, Played, VirtualRunArgs, play, print};
use super::pool::{Pooled, run_all};
use super::report::{Parameter, RunFigures, SWEEP_SCHEMA, Shard, SweepReport};
use super::setting::{self, Chosen, Setting};
use super::table;
use xoff_telemetry::failure::{Exit, Failure};

/// Most runs of a sweep.
pub const RUNS_MAX: usize = 1_000_000;

/// What the command asks for.
#[derive(Clone, Debug)]
pub struct SweepArgs {
    /// What all runs have: its seed, its changed fields and its files are not used.
    pub run: VirtualRunArgs,
    /// Seeds, at least one.
    pub seeds: Vec<u64>,
    /// Fields of the lab file and their values.
    pub settings: Vec<Setting>,
    /// Runs at the same time; `None`: as many as there are cores.
    pub jobs: Option<usize>,
    /// Only this part of it.
    pub shard: Option<Shard>,
    /// Where the result goes, as JSON.
    pub report: Option<PathBuf>,
    /// Where its table goes, as CSV.
    pub csv: Option<PathBuf>,
}

/// Runs a sweep, and prints its table. `stop` ends it early.
///
/// # Errors
/// A lab or a value that cannot be, before anything is run; a file that cannot be written.
pub fn run(arguments: &SweepArgs, stop: &AtomicBool) -> Result<ExitCode, Failure> {
    let file = &arguments.run.file;
    let text = setting::read(file)?;
    let combinations = combinations(&arguments.settings, arguments.seeds.len())?;
    let mut lab = String::new();
    let mut texts = Vec::with_capacity(combinations.len());
    for chosen in &combinations {
        let changed = setting::changed(file, &text, chosen)?;
        lab = setting::plan(file, &changed, chosen, TimeMode::Virtual)?.name;
        texts.push(changed);
    }
    let sweep = SweepReport {
        schema: SWEEP_SCHEMA.to_owned(),
        xoff_version: env!("CARGO_PKG_VERSION").to_owned(),
        lab,
        lab_crc32: format!("{:08x}", crc32fast::hash(text.as_bytes())),
        until_ns: arguments.run.until.map(|until| until.as_nanos()),
        events_max: arguments.run.events_max,
        parameters: arguments.settings.iter().map(parameter).collect(),
        seeds: arguments.seeds.clone(),
        shard: arguments.shard,
        runs: Vec::new(),
    };
    let in_part = |run: &u64| arguments.shard.is_none_or(|shard| shard.has(*run));
    let mine: Vec<u64> = (0..sweep.runs_in_all()).filter(in_part).collect();
    let bar = progress_bar(mine.len());
    let threads = arguments
        .jobs
        .unwrap_or_else(|| xoff_telemetry::allowed_cpus().len().max(1));
    let (count, seeds) = (mine.len(), arguments.seeds.clone());
    let template = arguments.run.clone();
    let work = move |at: usize| {
        let run = mine[at];
        let (combination, seed) = (run as usize / seeds.len(), run as usize % seeds.len());
        one(
            run,
            &template,
            &texts[combination],
            &combinations[combination],
            seeds[seed],
        )
    };
    let pooled = run_all(count, threads, work, stop, |done| bar.set_position(done as u64))?;
    bar.finish_and_clear();
    match pooled {
        Pooled::Done(runs) => finish(
            &SweepReport { runs, ..sweep },
            arguments.run.format,
            &arguments.report,
            &arguments.csv,
        ),
        Pooled::Interrupted(done) => {
            eprintln!("interrupted: {done} of {count} runs were done; nothing is written");
            Ok(Exit::Interrupted.into())
        }
    }
}

/// Writes and prints a sweep that is done or merged.
pub(super) fn finish(
    sweep: &SweepReport,
    format: Format,
    report_file: &Option<PathBuf>,
    csv: &Option<PathBuf>,
) -> Result<ExitCode, Failure> {
    match format {
        Format::Json => print(&sweep.to_json())?,
        Format::Table | Format::Nccl => print(&table::render(sweep))?,
    }
    if let Some(path) = report_file {
        xoff_telemetry::write_report_file(path, &sweep.to_json())?;
    }
    if let Some(path) = csv {
        xoff_telemetry::write_result_file("--csv", path, &table::csv(sweep))?;
    }
    let kept = sweep.runs.iter().all(|run| run.failures.is_empty());
    Ok(if kept { Exit::Ok } else { Exit::CheckFailed }.into())
}

/// One run, from the text of its lab file.
fn one(
    run: u64,
    template: &VirtualRunArgs,
    text: &str,
    chosen: &[Chosen],
    seed: u64,
) -> Result<RunFigures, Failure> {
    let arguments = VirtualRunArgs {
        file: template.file.clone(),
        seed,
        until: template.until,
        events_max: template.events_max,
        quiet: true,
        ..VirtualRunArgs::default()
    };
    let plan = setting::plan(&template.file, text, chosen, TimeMode::Virtual)?;
    let Played { report, lab, .. } =
        play(plan, &arguments).map_err(|failure| named(failure, &template.file, chosen, seed))?;
    let values = chosen.iter().map(|chosen| chosen.value.clone()).collect();
    Ok(RunFigures {
        notes: lab.notes,
        ..RunFigures::new(run, values, &report)
    })
}

/// Says which run of the sweep it was.
pub(crate) fn named(failure: Failure, file: &Path, chosen: &[Chosen], seed: u64) -> Failure {
    let place = failure
        .place
        .clone()
        .unwrap_or_else(|| file.display().to_string());
    failure.at(format!(
        "{place}, with {} --seed {seed}",
        setting::described(chosen)
    ))
}

/// All combinations of values, the last field changing fastest.
pub(crate) fn combinations(settings: &[Setting], seeds: usize) -> Result<Vec<Vec<Chosen>>, Failure> {
    let count = settings
        .iter()
        .try_fold(seeds, |count, setting| count.checked_mul(setting.values.len()));
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
    let mut all: Vec<Vec<Chosen>> = vec![Vec::new()];
    for setting in settings {
        let with = |chosen: &Vec<Chosen>| {
            let chosen = chosen.clone();
            setting.values.iter().map(move |value| {
                let mut longer = chosen.clone();
                longer.push(Chosen {
                    path: setting.path.clone(),
                    value: value.clone(),
                });
                longer
            })
        };
        all = all.iter().flat_map(with).collect();
    }
    Ok(all)
}

fn parameter(setting: &Setting) -> Parameter {
    Parameter {
        path: setting.path.clone(),
        values: setting.values.clone(),
    }
}

pub(crate) fn progress_bar(runs: usize) -> ProgressBar {
    let bar = ProgressBar::new(runs as u64);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    bar.set_style(
        ProgressStyle::with_template("{pos} of {len} runs {wide_bar} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_field_changes_fastest() {
        let settings: Vec<Setting> = ["a=1,2", "b=x,y"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let all = combinations(&settings, 3).unwrap();
        let values: Vec<Vec<&str>> = all
            .iter()
            .map(|chosen| chosen.iter().map(|chosen| chosen.value.as_str()).collect())
            .collect();
        assert_eq!(values, [["1", "x"], ["1", "y"], ["2", "x"], ["2", "y"]]);
        assert_eq!(combinations(&[], 1).unwrap(), [Vec::new()]);
    }

    #[test]
    fn a_field_set_twice_and_too_many_runs_are_refused() {
        let twice: Vec<Setting> = ["a=1", "a=2"].iter().map(|text| text.parse().unwrap()).collect();
        assert!(combinations(&twice, 1).unwrap_err().what.contains("twice"));
        let many: Vec<Setting> = vec!["a=1,2".parse().unwrap()];
        assert!(
            combinations(&many, RUNS_MAX)
                .unwrap_err()
                .what
                .contains("more than 1,000,000")
        );
    }
}
