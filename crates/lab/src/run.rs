//! The commands: `lab run`, `lab up`, `lab down`, `lab ls`.

use std::fs::File;
use std::io::{IsTerminal, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::config::resolve_switch_setups;
use super::external::{self, BorrowedDevice};
use super::options::{LabOptions, LabRunArgs, LabRunMode, LabUpArgs};
use super::pcap::{self, LabPcap};
use super::plan::{LabPlan, ScriptPlan, TimeMode};
use super::play::guests;
use super::registry::{self, RunningLab, running_labs};
use super::stage::{self, Brief, KEEP, QUIT, Stage, pipe, spawn, wait};
use super::status::{Status, StatusReader};
use super::sweep::{FieldValue, load_with_values};
use crate::report::Report;
use xoff_telemetry::failure::{Exit, Failure};

/// How long `lab down` waits for the switch to write its report, and for the kernel to clear up.
const DOWN_PATIENCE: Duration = Duration::from_secs(15);

/// `xoff lab run FILE`: brings the lab up, runs its workload, shows how it goes, and takes it down.
pub fn run(arguments: &LabRunArgs) -> ExitCode {
    let LabRunArgs {
        file,
        field_values,
        options,
        pcap,
    } = arguments;
    told(start(file, field_values, options, pcap, LabRunMode::Run).and_then(Running::until_the_end))
}

/// `xoff lab up FILE`: brings the lab up and leaves it there.
pub fn up(arguments: &LabUpArgs) -> ExitCode {
    let LabUpArgs { file, options, pcap } = arguments;
    told(start(file, &[], options, pcap, LabRunMode::Up).and_then(Running::until_ready))
}

/// `xoff lab down NAME`: stops a lab that runs, and waits until nothing is left of it.
pub fn down(name: &str) -> ExitCode {
    told(take_down(name).map(|()| {
        println!("lab {name} is down");
        ExitCode::SUCCESS
    }))
}

/// `xoff lab ls`: lists the labs that run in this network namespace.
pub fn ls() -> ExitCode {
    let list = || -> Result<ExitCode, Failure> {
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
        println!("{}", table.trim_fmt());
        Ok(ExitCode::SUCCESS)
    };
    told(list())
}

fn told(result: Result<ExitCode, Failure>) -> ExitCode {
    result.unwrap_or_else(|failure| {
        eprintln!("{failure}");
        failure.exit.into()
    })
}

/// A lab seen from the command line that started it.
#[derive(Debug)]
struct Running {
    name: String,
    launcher: Child,
    /// The write end; `None` once it is cut.
    lifeline: Option<File>,
    status: StatusReader,
    signals: File,
    borrowed: Vec<BorrowedDevice>,
    /// Where the processes of `lab up` write what they would have written to the terminal.
    log: Option<File>,
    /// Nothing of it is shown.
    quiet: bool,
}

/// Runs a lab as [`run`] does, without a word, and hands back its report.
///
/// # Errors
/// A lab that cannot be, an environment that cannot run it, an interrupt.
pub(super) fn run_and_report(plan: LabPlan, options: &LabOptions) -> Result<Report, Failure> {
    static MEASURED: AtomicU32 = AtomicU32::new(0);
    let number = MEASURED.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("xoff-{}-{number}.json", std::process::id()));
    let options = LabOptions {
        report: Some(path.clone()),
        ..options.clone()
    };
    let name = plan.name.clone();
    let ended = start_plan(plan, &options, &LabPcap::default(), LabRunMode::Run).and_then(|mut running| {
        running.quiet = true;
        running.until_the_end()
    });
    let text = std::fs::read_to_string(&path);
    // It was ours alone; where it cannot be taken away, the system does so one day.
    let _ = std::fs::remove_file(&path);
    let code = ended?;
    if code == ExitCode::from(Exit::Interrupted) {
        return Err(Failure::new(Exit::Interrupted, "interrupted").at(name));
    }
    let unread = |error: String| {
        Failure::environment("the lab ended without a report")
            .at(&name)
            .because(error)
            .fix("`xoff lab run` of the same lab says why; `xoff doctor` what this machine can do")
    };
    let text = text.map_err(|error| unread(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| unread(error.to_string()))
}

fn start(
    file: &Path,
    field_values: &[FieldValue],
    options: &LabOptions,
    pcap: &LabPcap,
    mode: LabRunMode,
) -> Result<Running, Failure> {
    start_plan(
        load_with_values(file, field_values, TimeMode::RealTime)?,
        options,
        pcap,
        mode,
    )
}

fn start_plan(
    mut plan: LabPlan,
    options: &LabOptions,
    pcap: &LabPcap,
    mode: LabRunMode,
) -> Result<Running, Failure> {
    // `xoff lab check` runs scripts.
    plan.script = ScriptPlan::default();
    let mut options = options.clone();
    options.report = options.report.as_deref().map(usable_path).transpose()?;
    guests::check_programs(&plan)?;
    options.pcap = pcap::resolve(&plan, pcap)?;
    // The switch resolves its configuration for itself; what is wrong with it is better said before anything exists.
    resolve_switch_setups(
        &plan,
        options.seed,
        &options.driver_options(plan.model_hosts(), plan.switches.len()),
    )?;
    // First of all the name: it keeps two labs apart, and says that there is one from the first moment.
    let listener = registry::claim_lab_name(&plan.name)?;
    let devices: Vec<&str> = plan.external_devices().collect();
    let locks = devices
        .iter()
        .map(|device| registry::claim_device(device))
        .collect::<Result<Vec<_>, _>>()?;
    let borrowed = external::record(&devices)?;
    let signals = stage::signals(&[SIGINT, SIGTERM])?;
    let name = plan.name.clone();
    let brief = Brief {
        plan,
        options,
        mode,
        borrowed: borrowed.clone(),
    };
    launch(name, &brief, listener, &locks, signals, borrowed)
}

fn launch(
    name: String,
    brief: &Brief,
    listener: UnixListener,
    locks: &[UnixListener],
    signals: File,
    borrowed: Vec<BorrowedDevice>,
) -> Result<Running, Failure> {
    let memory =
        |error: std::io::Error| Failure::environment("cannot hand the lab to its processes").because(error);
    let brief_memory = brief.to_memory().map_err(memory)?;
    let (lifeline_below, lifeline) = pipe()?;
    let (status, status_below) = pipe()?;
    let log = match brief.mode {
        LabRunMode::Run => None,
        LabRunMode::Up => {
            Some(memfd_create(c"xoff-lab-log", MFdFlags::MFD_CLOEXEC).map_err(|errno| memory(errno.into()))?)
        }
    };
    let output = || -> Result<Stdio, Failure> {
        match &log {
            None => Ok(Stdio::inherit()),
            Some(log) => Ok(log.try_clone().map_err(memory)?.into()),
        }
    };
    let mut fds: Vec<(&str, BorrowedFd<'_>)> = vec![
        ("brief", brief_memory.as_fd()),
        ("lifeline", lifeline_below.as_fd()),
        ("status", status_below.as_fd()),
    ];
    // Nobody takes these over: that they are open somewhere in the lab is all they are for.
    fds.extend(locks.iter().map(|lock| ("lock", lock.as_fd())));
    let stdio = [Stdio::from(OwnedFd::from(listener)), output()?, output()?];
    let launcher = spawn(Stage::Launch, &name, &fds, stdio)?;
    Ok(Running {
        name,
        launcher,
        lifeline: Some(lifeline.into()),
        status: StatusReader::new(status.into()),
        signals,
        borrowed,
        log: log.map(File::from),
        quiet: false,
    })
}

/// What a lab has to say to the command line.
enum Event {
    Status(Status),
    Interrupted,
    Ended,
}

impl Running {
    fn next(&mut self) -> Event {
        loop {
            if !self.status.has_buffered() {
                let [_, signalled] = wait(
                    [Some(self.status.file().as_fd()), Some(self.signals.as_fd())],
                    None,
                );
                if signalled && self.signals.read(&mut [0]).is_ok() {
                    return Event::Interrupted;
                }
                let [told] = wait([Some(self.status.file().as_fd())], Some(0));
                if !told {
                    continue;
                }
            }
            return self.status.next().map_or(Event::Ended, Event::Status);
        }
    }

    fn until_the_end(mut self) -> Result<ExitCode, Failure> {
        let bar = ProgressBar::new(0).with_style(bar_style());
        bar.set_message(self.name.clone());
        if self.quiet {
            bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
        }
        let mut interrupted = false;
        loop {
            match self.next() {
                Event::Status(Status::Ready) => {}
                Event::Status(Status::Progress { done_ns, total_ns }) => {
                    bar.set_length(total_ns);
                    bar.set_position(done_ns);
                }
                Event::Status(Status::Print { .. }) if self.quiet => {}
                Event::Status(Status::Print { text }) => bar.suspend(|| print_line(&text)),
                Event::Interrupted if interrupted => self.lifeline = None,
                Event::Interrupted => {
                    interrupted = true;
                    bar.set_message(format!("{}, stopping", self.name));
                    self.ask(QUIT);
                }
                Event::Ended => break,
            }
        }
        bar.finish_and_clear();
        let code = self.bury();
        Ok(if interrupted {
            Exit::Interrupted.into()
        } else {
            code
        })
    }

    fn until_ready(mut self) -> Result<ExitCode, Failure> {
        let mut interrupted = false;
        loop {
            match self.next() {
                Event::Status(Status::Ready) if !interrupted => {
                    self.ask(KEEP);
                    let name = &self.name;
                    println!("lab {name} is up; `xoff lab down {name}` stops it");
                    return Ok(ExitCode::SUCCESS);
                }
                Event::Status(Status::Print { text }) => print_line(&text),
                Event::Status(_) => {}
                Event::Interrupted => {
                    interrupted = true;
                    self.ask(QUIT);
                }
                Event::Ended => break,
            }
        }
        let code = self.bury();
        if interrupted {
            return Ok(Exit::Interrupted.into());
        }
        // It ended before it was up: whatever it said about that is in its log.
        Ok(if code == ExitCode::SUCCESS {
            Exit::Environment.into()
        } else {
            code
        })
    }

    fn ask(&mut self, byte: u8) {
        // A lab that has just ended cannot be asked, and says so by its end.
        let _ = self.lifeline.as_mut().map(|lifeline| lifeline.write_all(&[byte]));
    }

    /// Every process of the lab but the launcher has ended: its result, and what it left to be done.
    fn bury(&mut self) -> ExitCode {
        let status = self.launcher.wait();
        if let Some(log) = &mut self.log {
            let mut text = String::new();
            if log.rewind().is_ok() && log.read_to_string(&mut text).is_ok() {
                eprint!("{text}");
            }
        }
        match status.as_ref().map(|status| (status.code(), status.signal())) {
            Ok((Some(code), _)) => ExitCode::from(code.clamp(0, 255) as u8),
            Ok((None, signal)) => {
                external::give_back(&self.borrowed);
                let what = format!("the lab's launcher was killed by signal {}", signal.unwrap_or(0));
                eprintln!(
                    "{}",
                    Failure::environment(what).fix("nothing is left of the lab: start it again")
                );
                Exit::Environment.into()
            }
            Err(_) => Exit::Environment.into(),
        }
    }
}

fn bar_style() -> ProgressStyle {
    // The template is a constant: where it were wrong, the default would do.
    ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} % {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn print_line(text: &str) {
    let mut out = std::io::stdout().lock();
    // A closed standard output (`| head`) is no reason to leave a lab half done.
    let _ = writeln!(out, "{}", text.trim_end());
    if out.is_terminal() {
        let _ = out.flush();
    }
}

/// The report's path, absolute, and known to be writable before half a minute is spent on its content.
fn usable_path(path: &Path) -> Result<std::path::PathBuf, Failure> {
    use nix::unistd::{AccessFlags, access};
    let absolute = std::path::absolute(path).map_err(|error| {
        Failure::usage("the report needs a file name")
            .at("--report")
            .because(error)
    })?;
    let folder = absolute.parent().unwrap_or(Path::new("/"));
    let writable = if absolute.exists() {
        access(&absolute, AccessFlags::W_OK)
    } else {
        access(folder, AccessFlags::W_OK)
    };
    match writable {
        Ok(()) if !absolute.is_dir() => Ok(absolute),
        Ok(()) => Err(Failure::usage(format!("{} is a folder", path.display()))
            .at("--report")
            .fix("give a file in it")),
        Err(errno) => Err(
            Failure::usage(format!("cannot write the report {}", path.display()))
                .at("--report")
                .because(errno)
                .fix("make the folder, or choose another place"),
        ),
    }
}

fn take_down(name: &str) -> Result<(), Failure> {
    let lab = &registry::find_lab(name)?;
    let launcher = Pid::from_raw(registry::find_launcher_pid(lab)?);
    signal(launcher, Signal::SIGTERM, name)?;
    if !gone(lab, DOWN_PATIENCE)? {
        // Without its launcher the lab's init ends at once, and everything with it.
        signal(launcher, Signal::SIGKILL, name)?;
        if !gone(lab, DOWN_PATIENCE)? {
            return Err(Failure::environment(format!("lab \"{name}\" does not end"))
                .because("the kernel keeps a process of it"));
        }
    }
    Ok(())
}

/// The kernel checks that we may.
fn signal(process: Pid, signal: Signal, name: &str) -> Result<(), Failure> {
    match kill(process, signal) {
        Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
        Err(errno) => Err(Failure::environment(format!("cannot stop lab \"{name}\"")).because(errno)),
    }
}

fn gone(lab: &RunningLab, patience: Duration) -> Result<bool, Failure> {
    let deadline = Instant::now() + patience;
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
