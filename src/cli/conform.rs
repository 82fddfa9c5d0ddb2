//! `xoff conform`: PFC conformance checks of network interface cards.

mod captures;
mod far_end;
mod lockstep;

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use serde_json::json;
use xoff_conform::{
    CHECKS, Check, CheckGroup, CheckScale, Matrix, MatrixScope, Mutant, NicFile, RunOptions, RunReport,
    all_mutants, find_check, report, run_checks, run_matrix, suggest_check,
};
use xoff_conform_port::{run_on_port, run_port_matrix, serve_model_device};
use xoff_host::HostConfigError;
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{write_report_file, write_result_file};
use xoff_units::LinkTiming;

use super::{ConformCommand, ConformDevice, ConformMatrix, ConformRun, MatrixFormat, output, signals};

/// Runs `xoff conform`.
pub(super) fn run(command: &ConformCommand) -> Result<ExitCode, Failure> {
    match command {
        ConformCommand::List(options) => {
            match options.json {
                true => output::print_json(&json!({"schema": "xoff.conform-checks/1", "checks": CHECKS})),
                false => output::print(&report::list_checks(CHECKS)),
            }
            Ok(Exit::Ok.into())
        }
        ConformCommand::Explain(options) => {
            let check = find_check(&options.check).ok_or_else(|| unknown_check(&options.check))?;
            match options.json {
                true => output::print_json(check),
                false => output::print(&report::explain_check(check)),
            }
            Ok(Exit::Ok.into())
        }
        ConformCommand::Run(options) => run_selected(options),
        ConformCommand::Device(options) => serve_device(options),
        ConformCommand::Matrix(options) => print_matrix(options).map(ExitCode::from),
    }
}

fn unknown_check(id: &str) -> Failure {
    Failure::usage(format!("there is no check `{id}`"))
        .at(id.to_owned())
        .fix(suggest_check(id))
}

fn refused_speed(error: HostConfigError) -> Failure {
    Failure::usage("the link cannot have this speed")
        .at("--speed")
        .because(error)
        .fix("give a speed such as 1g or 100g")
}

/// Returns the checks of identifiers and groups, in the order of all checks.
fn select_checks(words: &[String]) -> Result<Vec<&'static Check>, Failure> {
    let group = |word: &str| match word.to_ascii_uppercase().as_str() {
        "A" => Some(CheckGroup::Reception),
        "B" => Some(CheckGroup::Generation),
        "C" => Some(CheckGroup::Configuration),
        _ => None,
    };
    if let Some(word) = words
        .iter()
        .find(|word| group(word).is_none() && find_check(word).is_none())
    {
        return Err(unknown_check(word));
    }
    let is_selected = |check: &Check| {
        let names = |word: &String| check.id.eq_ignore_ascii_case(word) || group(word) == Some(check.group());
        words.is_empty() || words.iter().any(names)
    };
    Ok(CHECKS
        .iter()
        .copied()
        .filter(|check| is_selected(check))
        .collect())
}

fn find_mutant(name: &str) -> Result<&'static Mutant, Failure> {
    all_mutants().find(|mutant| mutant.name == name).ok_or_else(|| {
        let names: Vec<&str> = all_mutants().map(|mutant| mutant.name).collect();
        Failure::usage(format!("there is no mutant `{name}`"))
            .at(format!("--mutant {name}"))
            .fix(format!(
                "{}; docs/conform-matrix.md describes them",
                xoff_units::suggest(name, names.iter().copied(), "mutants")
            ))
    })
}

/// Runs `xoff conform device`.
fn serve_device(options: &ConformDevice) -> Result<ExitCode, Failure> {
    match (&options.lockstep, &options.port) {
        (Some(socket), _) => lockstep::serve_device(socket, options.shared_memory, options.lockstep_timeout)?,
        (None, port) => {
            let (requests, replies) = (std::io::stdin(), output::StandardOutput);
            let port = port.as_deref().unwrap_or_default();
            serve_model_device(port, options.backend.into(), requests, replies)?;
        }
    }
    Ok(Exit::Ok.into())
}

/// Runs `xoff conform run`.
fn run_selected(options: &ConformRun) -> Result<ExitCode, Failure> {
    // The parser sees the conflict with `--json`, but not with `--format json`.
    if options.json && options.kselftest {
        return Err(
            Failure::usage("--kselftest prints KTAP, and --format json prints JSON")
                .at("--kselftest")
                .fix("leave one of them out; --report FILE writes JSON to a file"),
        );
    }
    for (option, path) in [
        ("--report", &options.report),
        ("--junit", &options.junit),
        ("--html", &options.html),
    ] {
        if let Some(path) = path {
            output::check_report_path(option, path)?;
        }
    }
    if let Some(folder) = &options.captures {
        captures::create_folder(folder)?;
    }
    let run_options = RunOptions {
        link: LinkTiming::ethernet(options.speed),
        scale: CheckScale {
            factor: options.scale,
            is_long: options.long,
        },
        checks: select_checks(&options.checks)?,
        mutant: options.mutant.as_deref().map(find_mutant).transpose()?,
        nic: options.nic.as_deref().map(NicFile::read).transpose()?,
        records_frames: options.captures.is_some() || options.html.is_some(),
        stop: signals::watch_stop_signals()?,
    };
    let results = if options.virtual_time {
        run_checks(&run_options).map_err(refused_speed)?
    } else if let Some(socket) = &options.lockstep.lockstep {
        lockstep::run(socket, options.lockstep.lockstep_timeout, &run_options)?
    } else {
        let spec = far_end::find_far_end(&options.far_end, options.device_mac)?;
        far_end::check_device(&spec, options)?;
        if spec.device.is_none() {
            output::print_note(&far_end::describe_missing_far_host(&spec.port));
        }
        run_on_port(&spec, &run_options, |check| {
            output::print_note(&format!("{} {}", check.check.id, check.outcome.name()));
        })?
    };
    write_files(options, &results)?;
    match (options.json, options.kselftest) {
        (true, _) => output::print_json(&results),
        (false, true) => output::print(&report::format_ktap(&results)),
        (false, false) => output::print(&report::format_run(&results)),
    }
    Ok(match options.kselftest {
        true => ExitCode::from(results.kselftest_exit_code()),
        false => results.exit().into(),
    })
}

/// Writes the files of `--report`, `--junit`, `--html` and `--captures`.
fn write_files(options: &ConformRun, results: &RunReport) -> Result<(), Failure> {
    if let Some(path) = &options.report {
        let text =
            serde_json::to_string_pretty(results).expect("our types have string keys and finite numbers");
        write_report_file(path, &format!("{text}\n"))?;
    }
    if let Some(path) = &options.junit {
        write_result_file("--junit", path, &report::format_junit(results))?;
    }
    if let Some(path) = &options.html {
        write_result_file("--html", path, &report::format_html(results))?;
    }
    if let Some(folder) = &options.captures {
        captures::write_captures(folder, results)?;
    }
    Ok(())
}

/// Runs `xoff conform matrix`.
fn print_matrix(options: &ConformMatrix) -> Result<Exit, Failure> {
    let scope = match options.own {
        true => MatrixScope::OwnChecks,
        false => MatrixScope::Full,
    };
    let scale = CheckScale {
        factor: options
            .scale
            .unwrap_or(match (&options.far_end.port, &options.lockstep) {
                (None, None) => 0.1,
                _ => 1.0,
            }),
        is_long: false,
    };
    if let (false, None, None) = (
        options.checks.is_empty(),
        &options.far_end.port,
        &options.lockstep,
    ) {
        return Err(Failure::usage("the full matrix has all checks")
            .at(options.checks.join(" "))
            .fix("leave the checks out, or give --port or --lockstep"));
    }
    let matrix = match (&options.far_end.port, &options.lockstep) {
        (Some(_), _) => compute_port_matrix(options, scale)?,
        (None, Some(socket)) => {
            let run_options = RunOptions {
                scale,
                checks: select_checks(&options.checks)?,
                stop: signals::watch_stop_signals()?,
                ..RunOptions::new(LinkTiming::ethernet(options.speed))
            };
            lockstep::compute_matrix(socket, options.lockstep_timeout, &run_options)?
        }
        (None, None) => {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            let link = LinkTiming::ethernet(options.speed);
            let stop = signals::watch_stop_signals()?;
            let matrix = run_matrix(scope, link, scale, threads, &stop).map_err(refused_speed)?;
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::new(Exit::Interrupted, "interrupted; nothing is printed"));
            }
            matrix
        }
    };
    match options.format {
        MatrixFormat::Table => output::print(&report::format_matrix(&matrix)),
        MatrixFormat::Markdown => output::print(&report::format_matrix_markdown(&matrix)),
        MatrixFormat::Json => output::print_json(&report::matrix_json(&matrix)),
    }
    let problems = matrix.problems();
    if options.format == MatrixFormat::Markdown {
        problems.iter().for_each(|problem| output::print_note(problem));
    }
    Ok(match problems.is_empty() {
        true => Exit::Ok,
        false => Exit::CheckFailed,
    })
}

/// Runs each mutant on its own check on a network port.
fn compute_port_matrix(options: &ConformMatrix, scale: CheckScale) -> Result<Matrix, Failure> {
    let spec = far_end::find_far_end(&options.far_end, None)?;
    far_end::require_model(&spec)?;
    let run_options = RunOptions {
        scale,
        checks: select_checks(&options.checks)?,
        stop: signals::watch_stop_signals()?,
        ..RunOptions::new(LinkTiming::ethernet(options.speed))
    };
    run_port_matrix(&spec, &run_options, |device, check| {
        output::print_note(&format!("{device}: {} {}", check.check.id, check.outcome.name()));
    })
}
