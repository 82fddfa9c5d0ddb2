//! `xoff lab run FILE --virtual`.

use std::fs::File;
use std::io::{BufWriter, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use xoff_units::Picos;

use super::super::jobs;
use super::super::options::LabOptions;
use super::super::plan::{LabPlan, ScriptPlan, TimeMode};
use super::super::sweep::{Chosen, load_with};
use super::build::VirtualLab;
use super::output::{self, Format};
use crate::plot::{self, Watched};
use crate::report::Report;
use xoff_fabric::{EventLog, LinkRecording, SimulationEnd, TimeSeries, Timeline};
use xoff_telemetry::failure::Failure;

/// Model time between two looks of the progress bar, and at most so many looks in a run.
const LOOKS: u64 = 200;
/// A run without a time of its own and without an end to its jobs is given up after this much model time.
const UNTIL_MAX: Picos = Picos(u64::MAX / 4);

/// A run is given up after so many events unless it is told otherwise: about an hour of one core.
pub const EVENTS_MAX_DEFAULT: u64 = 10_000_000_000;

/// What the command asks for.
#[derive(Clone, Debug, Default)]
pub struct VirtualRunArgs {
    /// The lab file.
    pub file: PathBuf,
    /// Seed of everything random.
    pub seed: u64,
    /// The run ends after this much model time, if not before.
    pub until: Option<Picos>,
    /// Where the report goes, as JSON.
    pub report: Option<PathBuf>,
    /// Where the event log goes.
    pub events: Option<PathBuf>,
    /// Every frame in the event log, not only what is special.
    pub events_frames: bool,
    /// Links to record, by name, and the files.
    pub pcap: Vec<(String, PathBuf)>,
    /// Folder of the series.
    pub series: Option<PathBuf>,
    /// Model time between two samples of the series.
    pub series_interval: Picos,
    /// Fields of the lab file that have another value.
    pub chosen: Vec<Chosen>,
    /// What is printed.
    pub format: Format,
    /// Where the results of collectives go, in the form of nccl-tests.
    pub nccl_json: Option<PathBuf>,
    /// The run is given up after so many events.
    pub events_max: u64,
    /// No progress on the terminal.
    pub quiet: bool,
    /// Folder of the plots.
    pub plots: Option<PathBuf>,
    /// What happens over time is kept, plots or not.
    pub watched: bool,
}

/// The observers that a command asks for.
type Watching = (Option<EventLog<BufWriter<File>>>, Vec<LinkRecording>);

/// Runs a lab in virtual time and prints its result.
pub fn run(arguments: &VirtualRunArgs) -> Result<ExitCode, Failure> {
    let plan = load_with(&arguments.file, &arguments.chosen, TimeMode::Virtual)?;
    if let Some(folder) = &arguments.plots {
        plot::make_folder("--plots", folder)?;
    }
    let Played { lab, report, watched } = play(plan, arguments)?;
    let text = match arguments.format {
        Format::Table => crate::report::render(&report),
        Format::Json => report.to_json(),
        Format::Nccl => output::nccl_tables(&lab, &report),
    };
    output::print(&text)?;
    if let Some(path) = &arguments.report {
        report.write(path)?;
    }
    if let Some(path) = &arguments.nccl_json {
        output::write_nccl_json(path, &lab, &report)?;
    }
    if let (Some(folder), Some(watched)) = (&arguments.plots, &watched) {
        let title = format!("{}, seed {}", lab.plan.name, report.seed);
        plot::write_run(folder, &title, watched)?;
    }
    // The tables of others have no place for what went wrong here.
    if arguments.format == Format::Nccl {
        for failure in &report.failures {
            eprintln!("failed: {failure}");
        }
    }
    Ok(report.exit().into())
}

/// A run that came to its end.
#[derive(Debug)]
pub(crate) struct Played {
    /// The lab as it is now.
    pub(crate) lab: VirtualLab,
    /// What came of it.
    pub(crate) report: Report,
    /// What happened over time, if that was asked for.
    pub(crate) watched: Option<Watched>,
}

/// Plays a lab to its end.
///
/// # Errors
/// What cannot be set up, a file that cannot be written, a run that cannot come to its end.
pub(crate) fn play(mut plan: LabPlan, arguments: &VirtualRunArgs) -> Result<Played, Failure> {
    let options = LabOptions {
        seed: arguments.seed,
        ..LabOptions::default()
    };
    // `xoff lab check` runs scripts.
    plan.script = ScriptPlan::default();
    let mut lab = VirtualLab::new(plan, options)?;
    if !arguments.quiet {
        for note in &lab.notes {
            eprintln!("note: {note}");
        }
        for warning in lab.warnings() {
            eprintln!("warning: {warning}");
        }
    }
    if arguments.format == Format::Nccl || arguments.nccl_json.is_some() {
        output::check_collective(&lab)?;
    }
    let mut watching = watch(&lab, arguments)?;
    let mut series = match &arguments.series {
        Some(folder) => Some(
            TimeSeries::new(&lab.simulation.fabric, arguments.series_interval, folder).map_err(|error| {
                Failure::usage(format!("cannot write series to {}", folder.display())).because(error)
            })?,
        ),
        None => None,
    };
    lab.start(&mut watching)?;
    let fabric = &mut lab.simulation.fabric;
    fabric.set_events_max(fabric.events().saturating_add(arguments.events_max));
    let watched = arguments.watched || arguments.plots.is_some();
    let mut timeline = watched.then(|| Timeline::new(&lab.simulation.fabric));
    let outcome = advance(&mut lab, arguments, &mut watching, &mut series, &mut timeline)?;
    if let Some(timeline) = &mut timeline {
        timeline.finish(&lab.simulation.fabric);
    }
    let (events, recordings) = watching;
    let unwritten = |error: std::io::Error, path: &Path| {
        Failure::environment(format!("cannot write {}", path.display())).because(error)
    };
    if let (Some(log), Some(path)) = (events, &arguments.events) {
        log.finish().map_err(|error| unwritten(error, path))?;
    }
    for recording in recordings {
        recording
            .finish()
            .map_err(|error| Failure::environment(error.to_string()))?;
    }
    if let (Some(series), Some(folder)) = (series, &arguments.series) {
        series.finish().map_err(|error| unwritten(error, folder))?;
    }
    let mut report = lab.report();
    report
        .failures
        .extend(complaint(&lab, &outcome, arguments.events_max));
    let watched = timeline.map(|timeline| Watched {
        timeline,
        names: lab.names(),
    });
    Ok(Played { lab, report, watched })
}

fn watch(lab: &VirtualLab, arguments: &VirtualRunArgs) -> Result<Watching, Failure> {
    let events = match &arguments.events {
        Some(path) => {
            let file = File::create(path).map_err(|error| {
                Failure::usage(format!("cannot write {}", path.display()))
                    .at("--events")
                    .because(error)
            })?;
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
        let link = lab.plan.links.iter().position(|link| link.name == *name);
        let Some(link) = link else {
            let names: Vec<&str> = lab
                .plan
                .links
                .iter()
                .take(12)
                .map(|link| link.name.as_str())
                .collect();
            return Err(Failure::usage(format!("there is no link \"{name}\""))
                .at("--pcap")
                .fix(format!("the links are {}", names.join(", "))));
        };
        let recording = LinkRecording::new(&lab.fabric_plan, link, path)
            .map_err(|error| Failure::usage(error.to_string()).at("--pcap"))?;
        recordings.push(recording);
    }
    Ok((events, recordings))
}

/// Lets time go on until the workload is over, or the time that was given is.
fn advance(
    lab: &mut VirtualLab,
    arguments: &VirtualRunArgs,
    watching: &mut Watching,
    series: &mut Option<TimeSeries>,
    timeline: &mut Option<Timeline>,
) -> Result<SimulationEnd, Failure> {
    let workload = &lab.plan.workload;
    let sending = Picos::from_nanos(workload.duration_ns);
    let drained = sending.saturating_add(Picos::from_nanos(workload.drain_ns));
    let has_jobs = !lab.simulation.jobs.workload().connections().is_empty();
    // Flows without an end of their own last as long as the file says; jobs as long as they take.
    let end = arguments
        .until
        .unwrap_or(if has_jobs { UNTIL_MAX } else { drained });
    let bar = ProgressBar::new(end.min(drained.max(sending)).as_nanos().max(1));
    if arguments.quiet || !std::io::stderr().is_terminal() {
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    bar.set_style(
        ProgressStyle::with_template("{msg} {wide_bar} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let look = Picos((end.min(Picos::from_millis(10 * LOOKS)).0 / LOOKS).max(1));
    let mut stopped = workload.duration_ns == 0;
    let outcome = loop {
        let now = lab.elapsed();
        // A long time in which nothing happens is one step.
        let active = lab.simulation.next_activity().since(lab.began);
        let mut next = now.saturating_add(look).max(active).min(end);
        if !stopped {
            next = next.min(sending);
        }
        if let Some(series) = series {
            next = next.min(series.next_sample().since(lab.began).max(Picos(now.0 + 1)));
        }
        if let Some(timeline) = timeline {
            next = next.min(timeline.next_sample().since(lab.began).max(Picos(now.0 + 1)));
        }
        let outcome = lab.run(next, has_jobs && stopped, watching);
        if let Some(series) = series {
            series
                .sample(&lab.simulation.fabric)
                .map_err(|error| Failure::environment("cannot write the series").because(error))?;
        }
        if let Some(timeline) = timeline {
            timeline.sample(&lab.simulation.fabric);
        }
        if !stopped && lab.elapsed() >= sending {
            stopped = true;
            lab.stop_flows(watching);
        }
        bar.set_message(format!(
            "{}: {} of model time",
            lab.plan.name,
            xoff_telemetry::format_nanos(lab.elapsed().as_nanos())
        ));
        bar.set_position(lab.elapsed().as_nanos());
        match outcome {
            SimulationEnd::TimeReached if lab.elapsed() < end => {}
            // Without jobs there is nothing to finish before the time is over.
            SimulationEnd::Finished if !has_jobs && lab.elapsed() < end => {}
            outcome => break outcome,
        }
    };
    bar.finish_and_clear();
    Ok(outcome)
}

/// What keeps a run from being what it should have been.
fn complaint(lab: &VirtualLab, outcome: &SimulationEnd, events_max: u64) -> Vec<String> {
    let jobs = &lab.simulation.jobs;
    let mut complaints = jobs::failed(&lab.plan, jobs, lab.began);
    let unfinished = || jobs::unfinished(jobs);
    match outcome {
        SimulationEnd::Finished => {}
        SimulationEnd::TimeReached if jobs.is_finished() || jobs.workload().connections().is_empty() => {}
        SimulationEnd::TimeReached => complaints.push(format!("the time is over{}", unfinished())),
        SimulationEnd::Idle => complaints.push(format!("nothing happens any more{}", unfinished())),
        SimulationEnd::Standstill(Some(deadlock)) => complaints.push(format!("{deadlock}{}", unfinished())),
        SimulationEnd::Standstill(None) => complaints.push(format!(
            "nothing has moved for 10 ms and {} frames wait in switches{}",
            lab.simulation.fabric.frames_queued(),
            unfinished()
        )),
        SimulationEnd::Stuck => complaints.push(format!(
            "time does not go on: more than {} events at {}",
            xoff_telemetry::group_thousands(xoff_fabric::SIMULTANEOUS_EVENTS_MAX),
            xoff_telemetry::format_nanos(lab.elapsed().as_nanos())
        )),
        SimulationEnd::EventLimit => complaints.push(format!(
            "given up after {} events, at {} of model time{}; --events-max N allows more",
            xoff_telemetry::group_thousands(events_max),
            xoff_telemetry::format_nanos(lab.elapsed().as_nanos()),
            unfinished()
        )),
    }
    complaints
}

impl VirtualRunArgs {
    /// As the command's defaults are.
    pub fn new(file: PathBuf) -> VirtualRunArgs {
        VirtualRunArgs {
            file,
            series_interval: Picos::from_micros(10),
            events_max: EVENTS_MAX_DEFAULT,
            ..VirtualRunArgs::default()
        }
    }
}
