//! The commands `lab run`, `lab up`, `lab down` and `lab ls`.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::config::{limit_host_mtus, resolve_switch_setups};
use super::external_devices::{self, SavedExternalDevice};
use super::hangup::is_hangup_ignored;
use super::inner_process::{
    DETACH_REQUEST, InnerProcess, LabSpec, STOP_REQUEST, create_pipe, signal_pipe, spawn_process,
    wait_until_readable,
};
use super::lab_fields::{FieldValue, load_with_values};
use super::launcher::exit_code_of_process;
use super::load_options::LoadOptions;
use super::options::{LabOptions, LabRunArgs, LabRunMode, LabUpArgs};
use super::plan::{FarEnd, LabPlan, ScriptPlan, TimeMode};
use super::programs::check_programs;
use super::real_time_run::guests;
use super::recording_option::{self, LabRecordings};
use super::registry::{self, RunningLab, running_labs};
use super::status_pipe::{StatusMessage, StatusReader};
use crate::report::Report;
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{MemoryLimit, unwritable_file};

/// Time that `lab down` waits for the end of a lab after SIGTERM, and again after SIGKILL. The switch process
/// writes its report in this time.
const DOWN_TIMEOUT: Duration = Duration::from_secs(15);

/// Starts a lab in real time, runs its workload with a progress bar, and removes the lab (`xoff lab run
/// FILE`). The output of the lab, such as its report, is written to `out`. Returns the exit code of the lab,
/// which depends on its verdict. After Ctrl-C, the exit code is [`Exit::Interrupted`].
///
/// # Errors
/// Fails if the lab is invalid or if this machine cannot run it.
pub fn run_lab(arguments: &LabRunArgs, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let LabRunArgs {
        file,
        field_values,
        options,
        pcap,
        memory,
    } = arguments;
    let plan = load_real_time_lab(file, field_values, *memory)?;
    start_lab(plan, options, pcap, LabRunMode::Run)?.wait_for_end(out)
}

/// Starts a lab in real time (`xoff lab up FILE`). The lab continues to run after the end of the command.
/// Returns when the lab is ready. The output of the lab until then is written to `out`.
///
/// # Errors
/// Fails if the lab is invalid or if this machine cannot run it.
pub fn bring_up_lab(arguments: &LabUpArgs, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let LabUpArgs {
        file,
        options,
        pcap,
        memory,
    } = arguments;
    let plan = load_real_time_lab(file, &[], *memory)?;
    start_lab(plan, options, pcap, LabRunMode::Up)?.wait_until_ready(out)
}

/// Stops a running lab with SIGTERM and waits for its end (`xoff lab down NAME`). After 15 seconds, the lab
/// is killed.
///
/// # Errors
/// Fails if no lab has this name or if the lab cannot be stopped.
pub fn take_down_lab(name: &str) -> Result<(), Failure> {
    let lab = &registry::find_lab(name)?;
    let launcher = Pid::from_raw(registry::find_launcher_pid(lab)?);
    send_signal(launcher, Signal::SIGTERM, name)?;
    if !wait_until_gone(lab, DOWN_TIMEOUT)? {
        // The end of the launcher ends the init process of the lab and all other processes.
        send_signal(launcher, Signal::SIGKILL, name)?;
        if !wait_until_gone(lab, DOWN_TIMEOUT)? {
            return Err(Failure::environment(format!("lab \"{name}\" does not end"))
                .because("a process of the lab cannot be killed")
                .fix("`ps` shows it in state D; it ends when the kernel or a device answers"));
        }
    }
    Ok(())
}

/// Returns the table of the running labs in this network namespace (`xoff lab ls`). Without a running lab,
/// the table has only its header.
///
/// # Errors
/// Fails if the list of sockets cannot be read.
pub fn list_labs() -> Result<String, Failure> {
    let mut table = comfy_table::Table::new();
    table
        .load_style(comfy_table::TableStyle::new())
        .set_header(["NAME", "USER", "PROCESS"]);
    for lab in running_labs().map_err(registry::unreadable_registry)? {
        let process =
            registry::find_launcher_pid(&lab).map_or_else(|_| "?".to_owned(), |pid| pid.to_string());
        let user = nix::unistd::User::from_uid(Uid::from_raw(lab.uid)).ok().flatten();
        let user = user.map_or_else(|| lab.uid.to_string(), |user| user.name);
        table.add_row([lab.name, user, process]);
    }
    Ok(format!("{}\n", table.trim_fmt()))
}

/// A started lab, as seen by the process of its command line.
#[derive(Debug)]
struct LabHandle {
    name: String,
    launcher: Child,
    /// Write end of the pipe to the launcher. If the command line is killed, the kernel closes this end, and
    /// the launcher kills the lab. `None` after the command line has closed the pipe itself.
    lifeline: Option<File>,
    status: StatusReader,
    signals: StopSignals,
    borrowed: Vec<SavedExternalDevice>,
    /// The memory file with the output of the lab processes of `lab up`. `None` for `lab run`, because its
    /// processes write to the terminal.
    log: Option<File>,
    /// Whether to print no progress and no status messages.
    is_quiet: bool,
    /// Whether standard output gets one JSON document and nothing else.
    prints_json: bool,
}

/// Runs a lab like [`run_lab`], but prints nothing and returns the report.
///
/// # Errors
/// Fails if the lab is invalid, if this machine cannot run the lab, or if the user interrupts the run.
pub(super) fn run_and_report(plan: LabPlan, options: &LabOptions) -> Result<Report, Failure> {
    // The folder has a random name, only its owner can enter it, and it is removed at the end of the function.
    let folder = tempfile::tempdir()
        .map_err(|error| Failure::environment("cannot create a temporary folder").because(error))?;
    let path = folder.path().join("report.json");
    let options = LabOptions {
        report: Some(path.clone()),
        ..options.clone()
    };
    let name = plan.name.clone();
    let result = start_lab(plan, &options, &LabRecordings::default(), LabRunMode::Run).and_then(|mut lab| {
        lab.is_quiet = true;
        lab.wait_for_end(&mut std::io::sink())
    });
    let text = std::fs::read_to_string(&path);
    let code = result?;
    if code == ExitCode::from(Exit::Interrupted) {
        return Err(Failure::new(Exit::Interrupted, "interrupted").at(name));
    }
    let missing_report = |error: String| {
        Failure::environment("the lab ended without a report")
            .at(&name)
            .because(error)
            .fix("run the same lab with `xoff lab run` to see the reason; `xoff doctor` checks this machine")
    };
    let text = text.map_err(|error| missing_report(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| missing_report(error.to_string()))
}

/// Reads a lab file for a run in real time.
fn load_real_time_lab(
    file: &Path,
    field_values: &[FieldValue],
    memory: MemoryLimit,
) -> Result<LabPlan, Failure> {
    let options = LoadOptions {
        time: TimeMode::RealTime,
        memory,
    };
    load_with_values(file, field_values, options)
}

/// Records the settings of the external devices of a lab.
///
/// # Errors
/// Fails if a device does not exist or cannot be used. The failure names the link in the lab file.
fn record_external_devices(plan: &LabPlan) -> Result<Vec<SavedExternalDevice>, Failure> {
    let mut recorded = Vec::new();
    for link in &plan.links {
        if let FarEnd::External(device) = &link.far {
            let saved = external_devices::record_device_and_peer(device);
            recorded.extend(saved.map_err(|failure| failure.at(&link.source))?);
        }
    }
    Ok(recorded)
}

/// Checks a plan, claims its name and its external devices, and starts its launcher.
fn start_lab(
    mut plan: LabPlan,
    options: &LabOptions,
    pcap: &LabRecordings,
    mode: LabRunMode,
) -> Result<LabHandle, Failure> {
    // Only `xoff lab check` runs scripts.
    plan.script = ScriptPlan::default();
    let mut options = options.clone();
    check_programs(&plan, options.programs)?;
    options.report = options.report.as_deref().map(writable_report_path).transpose()?;
    guests::check_emulators(&plan)?;
    options.pcap = recording_option::resolve_recordings(&plan, pcap)?;
    plan.read_device_mtus().map_err(|error| {
        Failure::environment("the MTUs of the external devices cannot be read").because(error)
    })?;
    // The switch process resolves the configurations again. This check finds errors before the lab creates
    // any process or device.
    let setups = resolve_switch_setups(
        &plan,
        options.seed,
        &options.driver_options(plan.model_host_count(), plan.switches.len()),
    )?;
    limit_host_mtus(&mut plan, &setups);
    // The name is claimed first, so that a second lab with the same name fails at once.
    let listener = registry::claim_lab_name(&plan.name)?;
    let devices: Vec<&str> = plan.external_devices().collect();
    let locks = devices
        .iter()
        .map(|device| registry::claim_device(device))
        .collect::<Result<Vec<_>, _>>()?;
    let borrowed = record_external_devices(&plan)?;
    let signals = StopSignals {
        requests: signal_pipe(&[SIGINT, SIGTERM])?,
        hangups: match is_hangup_ignored() {
            true => None,
            false => Some(signal_pipe(&[SIGHUP])?),
        },
    };
    let name = plan.name.clone();
    let spec = LabSpec {
        plan,
        options,
        mode,
        borrowed: borrowed.clone(),
    };
    spawn_launcher(name, &spec, listener, &locks, signals, borrowed)
}

fn spawn_launcher(
    name: String,
    spec: &LabSpec,
    listener: UnixListener,
    locks: &[UnixListener],
    signals: StopSignals,
    borrowed: Vec<SavedExternalDevice>,
) -> Result<LabHandle, Failure> {
    let memory_failure =
        |error: std::io::Error| Failure::environment("cannot pass the lab to its processes").because(error);
    let spec_file = spec.write_to_memory_file().map_err(memory_failure)?;
    let (launcher_lifeline, lifeline) = create_pipe()?;
    let (status, launcher_status) = create_pipe()?;
    let log = match spec.mode {
        LabRunMode::Run => None,
        LabRunMode::Up => Some(
            memfd_create(c"xoff-lab-log", MFdFlags::MFD_CLOEXEC)
                .map_err(|errno| memory_failure(errno.into()))?,
        ),
    };
    let output = |is_json: bool| -> Result<Stdio, Failure> {
        match &log {
            // The processes of the hosts must not write into a JSON document.
            None if is_json => {
                let stderr = std::io::stderr().as_fd().try_clone_to_owned();
                Ok(stderr.map_err(memory_failure)?.into())
            }
            None => Ok(Stdio::inherit()),
            Some(log) => Ok(log.try_clone().map_err(memory_failure)?.into()),
        }
    };
    let mut fds: Vec<(&str, BorrowedFd<'_>)> = vec![
        ("spec", spec_file.as_fd()),
        ("lifeline", launcher_lifeline.as_fd()),
        ("status", launcher_status.as_fd()),
    ];
    // No process reads the locks. They only have to stay open until the end of the lab.
    fds.extend(locks.iter().map(|lock| ("lock", lock.as_fd())));
    let stdio = [
        Stdio::from(OwnedFd::from(listener)),
        output(spec.options.prints_json)?,
        output(false)?,
    ];
    let launcher = spawn_process(InnerProcess::Launcher, &name, &fds, stdio)?;
    Ok(LabHandle {
        name,
        launcher,
        lifeline: Some(lifeline.into()),
        status: StatusReader::new(status.into()),
        signals,
        borrowed,
        log: log.map(File::from),
        is_quiet: false,
        prints_json: spec.options.prints_json,
    })
}

/// The pipes through which signals reach the command line.
#[derive(Debug)]
struct StopSignals {
    /// Receives a byte for each SIGINT and SIGTERM.
    requests: File,
    /// Receives a byte for each SIGHUP. The kernel and the shell both send SIGHUP when a terminal is closed, so
    /// a second SIGHUP must not have the effect of a second Ctrl-C. `None` if SIGHUP is ignored, as
    /// under `nohup`.
    hangups: Option<File>,
}

/// An event of a running lab for its command line.
enum LabEvent {
    Status(StatusMessage),
    Interrupted,
    HungUp,
    Ended,
}

impl LabHandle {
    /// Waits for the next status message, signal or end of the lab.
    fn next_event(&mut self) -> LabEvent {
        loop {
            if !self.status.has_buffered() {
                let StopSignals { requests, hangups } = &self.signals;
                let status = self.status.file().as_fd();
                let watched = [
                    Some(status),
                    Some(requests.as_fd()),
                    hangups.as_ref().map(File::as_fd),
                ];
                let [_, requested, hung_up] = wait_until_readable(watched, None);
                if requested && (&mut &*requests).read(&mut [0]).is_ok() {
                    return LabEvent::Interrupted;
                }
                if hung_up
                    && hangups
                        .as_ref()
                        .is_some_and(|mut file| file.read(&mut [0]).is_ok())
                {
                    return LabEvent::HungUp;
                }
                let [has_message] = wait_until_readable([Some(self.status.file().as_fd())], Some(0));
                if !has_message {
                    continue;
                }
            }
            return self
                .status
                .read_message()
                .map_or(LabEvent::Ended, LabEvent::Status);
        }
    }

    /// Shows progress until the end of the lab and returns the exit code.
    fn wait_for_end(mut self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let bar = ProgressBar::new(0).with_style(progress_bar_style());
        bar.set_message(self.name.clone());
        if self.is_quiet {
            bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
        }
        let mut interrupted = false;
        loop {
            match self.next_event() {
                LabEvent::Status(StatusMessage::Ready) => {}
                LabEvent::Status(StatusMessage::Progress { done_ns, total_ns }) => {
                    bar.set_length(total_ns);
                    bar.set_position(done_ns);
                }
                LabEvent::Status(StatusMessage::Print { .. } | StatusMessage::Result { .. })
                    if self.is_quiet => {}
                LabEvent::Status(StatusMessage::Print { text }) => {
                    bar.suspend(|| self.write_note(out, &text))
                }
                LabEvent::Status(StatusMessage::Result { text }) => bar.suspend(|| write_line(out, &text)),
                LabEvent::Interrupted if interrupted => self.lifeline = None,
                LabEvent::HungUp if interrupted => {}
                LabEvent::Interrupted | LabEvent::HungUp => {
                    interrupted = true;
                    bar.set_message(format!("{}, stopping", self.name));
                    self.send_request(STOP_REQUEST);
                }
                LabEvent::Ended => break,
            }
        }
        bar.finish_and_clear();
        let code = self.reap_launcher();
        Ok(if interrupted {
            Exit::Interrupted.into()
        } else {
            code
        })
    }

    /// Waits until the lab is ready. The lab then continues without the command line.
    fn wait_until_ready(mut self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let mut interrupted = false;
        loop {
            match self.next_event() {
                LabEvent::Status(StatusMessage::Ready) if !interrupted => {
                    self.send_request(DETACH_REQUEST);
                    self.print_log();
                    let name = &self.name;
                    let text = match self.prints_json {
                        true => json!({"schema": "xoff.lab-state/1", "lab": name, "state": "up"}).to_string(),
                        false => format!("lab {name} is up; `xoff lab down {name}` stops it"),
                    };
                    write_line(out, &text);
                    return Ok(ExitCode::SUCCESS);
                }
                LabEvent::Status(StatusMessage::Print { text }) => self.write_note(out, &text),
                LabEvent::Status(_) => {}
                LabEvent::Interrupted | LabEvent::HungUp => {
                    interrupted = true;
                    self.send_request(STOP_REQUEST);
                }
                LabEvent::Ended => break,
            }
        }
        let code = self.reap_launcher();
        if interrupted {
            return Ok(Exit::Interrupted.into());
        }
        // The lab ended before it was ready. Its log has the reason.
        Ok(if code == ExitCode::SUCCESS {
            Exit::Environment.into()
        } else {
            code
        })
    }

    /// Writes a line that is not the result. If the result is JSON, the line goes to the log instead.
    fn write_note(&self, out: &mut dyn Write, text: &str) {
        match self.prints_json {
            true => log::info!("{}", text.trim_end()),
            false => write_line(out, text),
        }
    }

    /// Logs the notes, warnings and other output of the lab processes of `lab up`. The lines have their prefixes
    /// already.
    fn print_log(&self) {
        let Some(log) = &self.log else { return };
        let mut bytes = vec![0; log.metadata().map_or(0, |metadata| metadata.len() as usize)];
        // The lab processes share the position of the file, so it must not change.
        if log.read_exact_at(&mut bytes, 0).is_ok() && !bytes.is_empty() {
            log::error!("{}", String::from_utf8_lossy(&bytes).trim_end());
        }
    }

    fn send_request(&mut self, request: u8) {
        // The write fails if the lab has just ended. The end is reported as an event.
        let _ = self
            .lifeline
            .as_mut()
            .map(|lifeline| lifeline.write_all(&[request]));
    }

    /// Waits for the end of the launcher, the last process of the lab, and returns its exit code. Logs the
    /// output of the lab processes of `lab up`. If the launcher was killed, this function restores the
    /// external devices.
    fn reap_launcher(&mut self) -> ExitCode {
        let status = self.launcher.wait();
        self.print_log();
        if status.as_ref().is_ok_and(|status| status.code().is_none()) {
            external_devices::restore_devices(&self.borrowed);
        }
        exit_code_of_process(status, "launcher")
    }
}

fn progress_bar_style() -> ProgressStyle {
    // The template is a valid constant, so the default style is never used.
    ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} % {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn write_line(out: &mut dyn Write, text: &str) {
    // A closed output, as with `| head`, must not stop the lab.
    let _ = writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush());
}

/// Returns the absolute path of the report file and checks that the file can be written.
fn writable_report_path(path: &Path) -> Result<std::path::PathBuf, Failure> {
    let unwritable = |error: std::io::Error| unwritable_file("--report", path, &error);
    xoff_telemetry::check_result_file(path).map_err(unwritable)?;
    std::path::absolute(path).map_err(unwritable)
}

/// Sends a signal to a process of a lab. The kernel checks the permission of the user. The call succeeds if
/// the process has already ended.
fn send_signal(process: Pid, signal: Signal, lab_name: &str) -> Result<(), Failure> {
    match kill(process, signal) {
        Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
        Err(errno) => Err(Failure::environment(format!("cannot stop lab \"{lab_name}\"")).because(errno)),
    }
}

/// Waits until a lab has ended, for at most `timeout`. Returns whether the lab has ended.
fn wait_until_gone(lab: &RunningLab, timeout: Duration) -> Result<bool, Failure> {
    let deadline = Instant::now() + timeout;
    while Instant::now() < deadline {
        if !running_labs()
            .map_err(registry::unreadable_registry)?
            .contains(lab)
        {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(false)
}
