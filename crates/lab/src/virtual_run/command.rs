//! The command `xoff lab run FILE --virtual`.

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use super::super::jobs;
use super::super::lab_fields::load_with_values;
use super::super::load_options::LoadOptions;
use super::super::options::LabOptions;
use super::super::plan::{LabPlan, ScriptPlan, TimeMode};
use super::arguments::VirtualRunArgs;
use super::output::{self, OutputFormat};
use super::progress::{ProgressFormat, RunProgress};
use super::virtual_lab::VirtualLab;
use super::workload_run::{RunEnd, RunObservers, run_workload};
use crate::plot::{self, RunTimeline};
use crate::recording_option::find_link;
use crate::report::Report;
use xoff_fabric::{EventLog, LinkRecording, RecordingError, SimulationEnd, TimeSeries, Timeline};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{failed_write, unwritable_file};

/// Runs a lab without its script in virtual time, writes the result to `out` and writes the requested files.
/// Returns the exit code of the report ([`Report::exit`]), or [`Exit::Interrupted`] after an interruption.
///
/// # Errors
/// Fails if the lab is invalid, if no flow gets a signal for its congestion control, or if a file cannot
/// be written.
pub fn run_virtual(arguments: &VirtualRunArgs, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let options = LoadOptions {
        time: TimeMode::Virtual,
        memory: arguments.memory,
    };
    let file_name = arguments.file.file_name().unwrap_or(arguments.file.as_os_str());
    let progress = RunProgress::start(arguments.progress, &file_name.to_string_lossy());
    let plan = load_with_values(&arguments.file, &arguments.field_values, options)?;
    if let Some(folder) = &arguments.plots {
        plot::create_folder("--plots", folder)?;
    }
    let FinishedRun {
        lab,
        report,
        timeline,
        is_interrupted,
        write_failure,
    } = run_with_progress(plan, arguments, progress)?;
    match arguments.format {
        OutputFormat::Table => output::write_result_text(out, &crate::report::render_report(&report))?,
        OutputFormat::Json => output::write_result(out, |out| report.write_json(out))?,
        OutputFormat::Nccl => output::write_result_text(out, &output::format_nccl_tables(&lab, &report))?,
    }
    if let Some(path) = &arguments.report {
        report.write(path)?;
    }
    if let Some(path) = &arguments.nccl_json {
        output::write_nccl_json(path, &lab, &report)?;
    }
    if let (Some(folder), Some(timeline)) = (&arguments.plots, &timeline) {
        let title = format!("{}, seed {}", lab.plan.name, report.seed);
        plot::write_run_plots(folder, &title, timeline)?;
    }
    // The tables of nccl-tests have no place for failures.
    if arguments.format == OutputFormat::Nccl {
        if arguments.accelerate {
            log::info!("times of skipped steps are estimates (--accelerate)");
        }
        for failure in &report.failures {
            log::error!("failed: {failure}");
        }
        if let Some(missing) = report.traffic.describe_missing() {
            log::error!("{missing}, so the run proves nothing");
        }
    }
    let exit = report.exit();
    Ok(match (is_interrupted, write_failure) {
        (true, _) => Exit::Interrupted.into(),
        (false, Some(failure)) if exit == Exit::Ok => return Err(failure),
        (false, Some(failure)) => {
            log::error!("{failure}");
            exit.into()
        }
        (false, None) => exit.into(),
    })
}

/// A finished run.
#[derive(Debug)]
pub(crate) struct FinishedRun {
    /// The lab at the end of the run.
    pub(crate) lab: VirtualLab,
    /// The report of the run.
    pub(crate) report: Report,
    /// The timeline of the run. `None` if it was not recorded.
    pub(crate) timeline: Option<RunTimeline>,
    /// Whether [`VirtualRunArgs::stop`] has stopped the run.
    pub(crate) is_interrupted: bool,
    /// The failure of a file that was written during the run, such as the event log. The results are valid.
    pub(crate) write_failure: Option<Failure>,
}

/// Runs a lab without its script from start to end, without progress.
///
/// # Errors
/// Fails if the lab cannot be set up or a file cannot be written. A run that stops early is not an error
/// here. Its report contains a failure.
pub(crate) fn run_to_end(plan: LabPlan, arguments: &VirtualRunArgs) -> Result<FinishedRun, Failure> {
    run_with_progress(plan, arguments, RunProgress::start(ProgressFormat::Hidden, ""))
}

fn run_with_progress(
    mut plan: LabPlan,
    arguments: &VirtualRunArgs,
    progress: RunProgress,
) -> Result<FinishedRun, Failure> {
    let options = LabOptions {
        seed: arguments.seed,
        threads: arguments.threads.for_each_of(1),
        memory: arguments.memory,
        accelerate: arguments.accelerate,
        ..LabOptions::default()
    };
    // Only `xoff lab check` runs scripts.
    plan.script = ScriptPlan::default();
    let mut lab = VirtualLab::new(plan, options)?;
    if !arguments.quiet {
        progress.suspend(|| {
            for note in &lab.notes {
                log::info!("{note}");
            }
            for warning in lab.warnings() {
                log::warn!("{warning}");
            }
        });
    }
    if arguments.format == OutputFormat::Nccl || arguments.nccl_json.is_some() {
        output::check_collective(&lab)?;
    }
    let mut observers = create_observers(&lab, arguments)?;
    let mut series = match &arguments.series {
        Some(folder) => Some(
            TimeSeries::new(&lab.simulation.fabric, arguments.series_interval, folder).map_err(|error| {
                Failure::usage(format!("cannot write the time series to {}", folder.display())).because(error)
            })?,
        ),
        None => None,
    };
    lab.start(&mut observers)?;
    let records_timeline = arguments.records_timeline || arguments.plots.is_some();
    let mut timeline = records_timeline.then(|| Timeline::new(&lab.simulation.fabric));
    let end = run_workload(
        &mut lab,
        arguments,
        &progress,
        &mut observers,
        &mut series,
        &mut timeline,
    )?;
    drop(progress);
    if let Some(timeline) = &mut timeline {
        timeline.finish(&lab.simulation.fabric);
    }
    let (events, recordings) = observers;
    let mut write_failure = None;
    if let (Some(log), Some(path)) = (events, &arguments.events)
        && let Err(error) = log.finish()
    {
        write_failure = Some(failed_write("--events", path, &error));
    }
    for recording in recordings {
        recording
            .finish()
            .map_err(|error| Failure::environment(error.to_string()))?;
    }
    if let (Some(series), Some(folder)) = (series, &arguments.series)
        && let Err(error) = series.finish()
    {
        write_failure = Some(failed_write("--series", folder, &error));
    }
    // The report of a large fabric needs about as much memory as the pending events.
    lab.simulation.fabric.discard_events();
    let mut report = lab.report();
    report.add_failures(describe_run_failures(&lab, &end, arguments.events_max));
    let timeline = timeline.map(|timeline| RunTimeline {
        timeline,
        names: lab.port_names(),
    });
    Ok(FinishedRun {
        lab,
        report,
        timeline,
        is_interrupted: end == RunEnd::Interrupted,
        write_failure,
    })
}

fn create_observers(lab: &VirtualLab, arguments: &VirtualRunArgs) -> Result<RunObservers, Failure> {
    let events = match &arguments.events {
        Some(path) => {
            let file = xoff_telemetry::open_stream_file(path)
                .map_err(|error| unwritable_file("--events", path, &error))?;
            Some(EventLog::new(
                &lab.fabric_plan,
                &lab.plan.name,
                lab.options.seed,
                arguments.events_frames,
                BufWriter::new(file),
            ))
        }
        None => None,
    };
    let mut recordings = Vec::new();
    for (name, path) in &arguments.pcap {
        let link = find_link(&lab.plan, name).map_err(|failure| failure.at("--pcap"))?;
        let recording = LinkRecording::new(&lab.fabric_plan, link, path).map_err(|error| match error {
            RecordingError::Write { error, .. } => unwritable_file("--pcap", path, &error),
        })?;
        recordings.push(recording);
    }
    Ok((events, recordings))
}

/// Describes the end of a run whose frames need more memory than its limit ([`LabOptions::memory`]).
pub(crate) fn describe_frame_memory_limit(lab: &VirtualLab) -> String {
    let frames = lab.simulation.fabric.frames_in_flight() as u64;
    let now = xoff_telemetry::format_nanos(lab.elapsed().as_nanos());
    format!(
        "stopped at {now} of model time: {} in queues and on links need more memory than --memory allows; shorten \
         `delay`, lower the rates or raise --memory",
        xoff_telemetry::count_noun(frames, "frame"),
    )
}

/// Describes failed messages and unfinished jobs. If the run ended early, also describes the reason.
fn describe_run_failures(lab: &VirtualLab, end: &RunEnd, events_max: u64) -> Vec<String> {
    let jobs = &lab.simulation.jobs;
    let mut failures = jobs::describe_failed_messages(&lab.plan, jobs, lab.workload_start);
    let unfinished = || jobs::describe_unfinished_jobs(&lab.plan, jobs);
    let end = match end {
        RunEnd::Interrupted => {
            let elapsed_ns = lab.elapsed().as_nanos();
            failures.push(jobs::describe_interruption(elapsed_ns, &unfinished()));
            return failures;
        }
        RunEnd::Simulation(end) => end,
    };
    match end {
        SimulationEnd::Finished => {}
        SimulationEnd::TimeReached if jobs.is_finished() || jobs.workload().connections().is_empty() => {}
        SimulationEnd::TimeReached => failures.push(format!("the time limit was reached{}", unfinished())),
        SimulationEnd::Idle => failures.push(format!("no further event exists{}", unfinished())),
        SimulationEnd::Standstill(Some(deadlock)) => failures.push(format!("{deadlock}{}", unfinished())),
        SimulationEnd::Standstill(None) => failures.push(format!(
            "no frame has moved for 10 ms, and switches hold {}{}",
            xoff_telemetry::count_noun(lab.simulation.fabric.frames_queued() as u64, "frame"),
            unfinished()
        )),
        SimulationEnd::Stuck => failures.push(format!(
            "model time does not advance: more than {} events at {}",
            xoff_telemetry::group_thousands(xoff_fabric::SIMULTANEOUS_EVENTS_MAX),
            xoff_telemetry::format_nanos(lab.elapsed().as_nanos())
        )),
        SimulationEnd::EventLimit => failures.push(format!(
            "stopped after {}, at {} of model time (`xoff lab run --events-max N` allows more){}",
            xoff_telemetry::count_noun(events_max, "event"),
            xoff_telemetry::format_nanos(lab.elapsed().as_nanos()),
            unfinished()
        )),
        SimulationEnd::FrameMemoryLimit => {
            failures.push(format!("{}{}", describe_frame_memory_limit(lab), unfinished()))
        }
    }
    failures
}
