//! `xoff lab`: converts the arguments of the command line and calls `xoff-lab`.

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;

use super::args::{CompareFormatChoice, LabCheck, LabCompare, LabImport, LabRun};
use super::{
    BackendChoice, FormatChoice, LabCommand, PcapArgument, SwitchRuntimeArguments, output, running_labs,
    signals, values,
};
use xoff_lab::{
    CheckArgs, CompareArgs, ComparedField, ComparisonRunMode, FieldOption, FieldSetting, FieldValue,
    LabOptions, LabRecordings, LabRunArgs, LabUpArgs, MergeArgs, OutputFormat, SweepArgs, VirtualRunArgs,
};
use xoff_telemetry::failure::{Exit, Failure};

/// Runs a command of `xoff lab`.
pub(super) fn run(command: LabCommand) -> Result<ExitCode, Failure> {
    match command {
        LabCommand::Run(arguments) => {
            let arguments = *arguments;
            if let Some(path) = &arguments.report {
                output::check_report_path("--report", path)?;
            }
            if arguments.virtual_time {
                return run_virtual(arguments);
            }
            run_real(arguments)
        }
        LabCommand::Compare(arguments) => compare(*arguments),
        LabCommand::Merge(arguments) => {
            check_paths([("--report", &arguments.report), ("--csv", &arguments.csv)])?;
            let merge = MergeArgs {
                parts: arguments.parts,
                report: arguments.report,
                csv: arguments.csv,
                format: if arguments.json {
                    OutputFormat::Json
                } else {
                    OutputFormat::Table
                },
            };
            xoff_lab::merge_sweep(&merge, &mut output::StandardOutput)
        }
        LabCommand::Check(arguments) => check(arguments),
        LabCommand::Up(arguments) => {
            let pcap = lab_pcap(&arguments.pcap, arguments.pcap_snaplen)?;
            let options = LabOptions {
                prints_json: arguments.json,
                programs: arguments.limits.programs(),
                ..lab_options(&arguments.running, arguments.seed, arguments.backend)
            };
            let up = LabUpArgs {
                file: arguments.file,
                options,
                pcap,
                memory: arguments.limits.memory.limit(),
            };
            xoff_lab::bring_up_lab(&up, &mut output::StandardOutput)
        }
        LabCommand::Down { name, json } => {
            xoff_lab::take_down_lab(&name)?;
            match json {
                true => output::print_json(&json!({
                    "schema": "xoff.lab-state/1", "lab": name, "state": "down"
                })),
                false => output::print(&format!("lab {name} is down\n")),
            }
            Ok(Exit::Ok.into())
        }
        LabCommand::Exec { name, node, command } => xoff_lab::exec_in_host(&name, &node, &command),
        LabCommand::Import(arguments) => import(&arguments),
        LabCommand::Ls { json: false } => {
            output::print(&xoff_lab::list_labs()?);
            Ok(Exit::Ok.into())
        }
        LabCommand::Ls { json: true } => {
            let labs = running_labs::list_running_labs()?
                .into_iter()
                .map(|lab| LabRow {
                    name: lab.name,
                    uid: lab.uid,
                })
                .collect();
            output::print_json(&LabList {
                schema: "xoff.labs/1",
                labs,
            });
            Ok(Exit::Ok.into())
        }
    }
}

/// Runs a lab once in real time.
fn run_real(arguments: LabRun) -> Result<ExitCode, Failure> {
    let (set, until) = (
        arguments.in_virtual_time.sweep.set,
        arguments.in_virtual_time.until,
    );
    if let Some(several) = set.iter().find(|setting| setting.values.len() > 1) {
        return Err(Failure::usage("a sweep needs virtual time")
            .at(format!("--set {}={}", several.path, several.values.join(",")))
            .fix("give one value, or add --virtual"));
    }
    if arguments.format == FormatChoice::Nccl {
        return Err(Failure::usage("the table of nccl-tests needs virtual time")
            .at("--format nccl")
            .fix("add --virtual, or choose table or json"));
    }
    let options = LabOptions {
        report: arguments.report,
        prints_json: arguments.format == FormatChoice::Json,
        until_ns: until.map(|until| until.as_nanos()),
        programs: arguments.limits.programs(),
        ..lab_options(&arguments.running, arguments.seed, arguments.backend)
    };
    let run = LabRunArgs {
        file: arguments.file,
        field_values: set.into_iter().map(first_field_value).collect(),
        options,
        pcap: lab_pcap(&arguments.pcap, arguments.pcap_snaplen)?,
        memory: arguments.limits.memory.limit(),
    };
    xoff_lab::run_lab(&run, &mut output::StandardOutput)
}

/// Converts a setting with one value. Further values of the setting are ignored.
fn first_field_value(setting: FieldSetting) -> FieldValue {
    FieldValue {
        value: setting.values.into_iter().next().unwrap_or_default(),
        path: setting.path,
        option: FieldOption::Set,
    }
}

/// Writes a lab file from the files of ns-3.
fn import(arguments: &LabImport) -> Result<ExitCode, Failure> {
    if let Some(path) = &arguments.output {
        output::check_report_path("--output", path)?;
    }
    let imported = xoff_lab::import_ns3(&arguments.ns3)?;
    for note in &imported.notes {
        output::print_note(&format!("note: {note}"));
    }
    if let Some(path) = &arguments.output {
        xoff_telemetry::write_result_file("--output", path, &imported.text)?;
    }
    if arguments.json {
        output::print_json(&json!({
            "schema": "xoff.import/1",
            "output": arguments.output,
            "notes": imported.notes,
            // The lab file itself, unless it is in the file of --output.
            "lab_file": arguments.output.is_none().then_some(&imported.text),
        }));
    } else if arguments.output.is_none() {
        output::print(&imported.text);
    }
    Ok(Exit::Ok.into())
}

/// Checks that the files of these options can be written. Call this before a run.
fn check_paths(files: [(&str, &Option<std::path::PathBuf>); 2]) -> Result<(), Failure> {
    for (option, path) in files {
        if let Some(path) = path {
            output::check_report_path(option, path)?;
        }
    }
    Ok(())
}

/// Runs a lab in virtual time, once or as a sweep.
fn run_virtual(mut arguments: LabRun) -> Result<ExitCode, Failure> {
    let sweep = arguments.in_virtual_time.sweep.clone();
    check_paths([
        ("--nccl-json", &arguments.in_virtual_time.nccl_json),
        ("--csv", &sweep.csv),
    ])?;
    let several = sweep.set.iter().any(|setting| setting.values.len() > 1);
    if sweep.seeds.is_none() && sweep.shard.is_none() && sweep.csv.is_none() && !several {
        let run = virtual_run_arguments(arguments)?;
        let run = VirtualRunArgs {
            field_values: sweep.set.into_iter().map(first_field_value).collect(),
            stop: Some(signals::watch_stop_signals()?),
            ..run
        };
        return xoff_lab::run_virtual(&run, &mut output::StandardOutput);
    }
    let more = &arguments.in_virtual_time;
    for (given, option) in [
        (more.events.is_some(), "--events"),
        (more.series.is_some(), "--series"),
        (more.plots.is_some(), "--plots"),
        (!arguments.pcap.is_empty(), "--pcap"),
        (more.nccl_json.is_some(), "--nccl-json"),
        (arguments.format == FormatChoice::Nccl, "--format nccl"),
    ] {
        if given {
            return Err(
                Failure::usage("this option is for a single run, and this is a sweep")
                    .at(option)
                    .fix("repeat the run of interest alone: --seed N and --set with one value"),
            );
        }
    }
    let report = arguments.report.take();
    let seed = arguments.seed;
    xoff_lab::run_sweep(
        &SweepArgs {
            run: virtual_run_arguments(arguments)?,
            seeds: sweep.seeds.map_or(vec![seed], |seeds| seeds.0),
            settings: sweep.set,
            jobs: sweep.jobs.map(usize::from),
            shard: sweep.shard,
            report,
            csv: sweep.csv,
        },
        &*signals::watch_stop_signals()?,
        &mut output::StandardOutput,
    )
}

/// Runs `xoff lab compare`.
fn compare(mut arguments: LabCompare) -> Result<ExitCode, Failure> {
    // `--json` without a file is short for `--format json`.
    if arguments.json.as_deref() == Some(Path::new("-")) {
        arguments.json = None;
        arguments.format = CompareFormatChoice::Json;
    }
    check_paths([("--json", &arguments.json), ("--csv", &arguments.csv)])?;
    let compared = match (arguments.lb, arguments.by) {
        (Some(schemes), _) => ComparedField::LoadBalancing(schemes.values),
        (None, Some(setting)) => ComparedField::Field(setting),
        (None, None) => {
            return Err(Failure::usage("there is nothing to compare").fix("add --lb ecmp,flowlet"));
        }
    };
    let run_mode = match arguments.virtual_time {
        true => ComparisonRunMode::Virtual {
            run: Box::new(VirtualRunArgs {
                until: arguments.until,
                events_max: arguments.events_max,
                memory: arguments.limits.memory.limit(),
                ..VirtualRunArgs::new(arguments.file.clone())
            }),
            jobs: arguments.jobs.map(usize::from),
        },
        false => ComparisonRunMode::RealTime(Box::new(LabOptions {
            programs: arguments.limits.programs(),
            ..lab_options(&arguments.running, 0, arguments.backend)
        })),
    };
    let compare = CompareArgs {
        file: arguments.file,
        compared,
        settings: arguments.set,
        seeds: arguments.seeds.0,
        run_mode,
        format: match arguments.format {
            CompareFormatChoice::Table => OutputFormat::Table,
            CompareFormatChoice::Json => OutputFormat::Json,
        },
        json: arguments.json,
        csv: arguments.csv,
        plots: arguments.plots,
        memory: arguments.limits.memory.limit(),
    };
    xoff_lab::run_compare(
        &compare,
        &*signals::watch_stop_signals()?,
        &mut output::StandardOutput,
    )
}

/// Runs `xoff lab check`.
fn check(arguments: LabCheck) -> Result<ExitCode, Failure> {
    if let Some(path) = &arguments.report {
        if arguments.files.len() > 1 {
            return Err(Failure::usage("--report is for one lab, and there are several")
                .at(format!("--report {}", path.display()))
                .fix("check them one by one, or leave --report out"));
        }
        output::check_report_path("--report", path)?;
    }
    let check = CheckArgs {
        files: arguments.files,
        virtual_time: arguments.virtual_time,
        seed: arguments.seed,
        events_max: arguments.events_max,
        jobs: arguments.jobs.map(usize::from),
        threads: arguments.threads,
        accelerate: arguments.accelerate,
        format: arguments.format.into(),
        report: arguments.report,
        memory: arguments.limits.memory.limit(),
        stop: signals::watch_stop_signals()?,
    };
    xoff_lab::check_labs(&check, &mut output::StandardOutput)
}

fn virtual_run_arguments(arguments: LabRun) -> Result<VirtualRunArgs, Failure> {
    values::check_pcap_files(&arguments.pcap)?;
    let link = |recording: PcapArgument| match recording.location {
        Some(link) => Ok((link, recording.file)),
        None => Err(Failure::usage("in virtual time a recording needs a link")
            .at(format!("--pcap {}", recording.file.display()))
            .fix("write LINK=FILE, such as h1:eth0--sw1:Ethernet0=h1.pcapng")),
    };
    let more = arguments.in_virtual_time;
    Ok(VirtualRunArgs {
        file: arguments.file,
        seed: arguments.seed,
        until: more.until,
        report: arguments.report,
        events: more.events,
        events_frames: more.events_frames,
        pcap: arguments.pcap.into_iter().map(link).collect::<Result<_, _>>()?,
        series: more.series,
        series_interval: more.series_interval,
        field_values: Vec::new(),
        format: arguments.format.into(),
        nccl_json: more.nccl_json,
        events_max: more.events_max,
        quiet: false,
        progress: more.progress.into(),
        stop: None,
        plots: more.plots,
        records_timeline: false,
        threads: more.threads,
        accelerate: more.accelerate,
        memory: arguments.limits.memory.limit(),
    })
}

/// The JSON output of `xoff lab ls --json`.
#[derive(Serialize)]
struct LabList {
    schema: &'static str,
    labs: Vec<LabRow>,
}

#[derive(Serialize)]
struct LabRow {
    name: String,
    /// User id of the user who started the lab.
    uid: u32,
}

fn lab_options(running: &SwitchRuntimeArguments, seed: u64, backend: BackendChoice) -> LabOptions {
    LabOptions {
        dilate: running.dilate,
        workers: running.workers.map(usize::from),
        pin: running.pin.clone(),
        seed,
        backend: backend.into(),
        ..LabOptions::default()
    }
}

fn lab_pcap(recordings: &[PcapArgument], snaplen: Option<u32>) -> Result<LabRecordings, Failure> {
    values::check_pcap_files(recordings)?;
    let file = |recording: &PcapArgument| (recording.location.clone(), recording.file.clone());
    Ok(LabRecordings {
        files: recordings.iter().map(file).collect(),
        snaplen: snaplen.unwrap_or(0),
    })
}
