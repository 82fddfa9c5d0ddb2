//! `xoff switch run`: runs a switch between network devices until it is interrupted.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{SwitchRun, args, output, values};
use xoff_capture::recorder::{PcapOptions, PcapRequest, StandardOutput};
use xoff_config::{DeviceDefaults, DeviceMtu, LoadedConfig, PORT_OPTION, ResolveOptions, build_preset, load};
use xoff_control::{
    ApiToken, ControlAddress, ControlListener, ControlTarget, ServerHandle, ServerOptions, TcpAccess,
    serve_control,
};
use xoff_lab::report::{Report, build_report, render_report};
use xoff_runtime::session::{SwitchPort, SwitchSession, reaction_budget_in_model_time};
use xoff_runtime::workers::{StoppedSwitch, TaintLog, WorkerOptions};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::verdict::{ProtectedClasses, Traffic};
use xoff_telemetry::{ControlApiReport, CpuStealMeter, Environment, SwitchSnapshot, Taint, allowed_cpus};

/// Time between two checks for a stop request. Only the main thread waits; the threads of the switch continue
/// to work.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Largest default number of worker threads. One switch worker cannot supply more than three I/O workers
/// with frames.
const DEFAULT_WORKERS_MAX: usize = 4;

/// Runs `xoff switch run`.
pub(super) fn run(arguments: SwitchRun) -> Result<Exit, Failure> {
    values::check_ports(&arguments.ports)?;
    check_pcap(&arguments)?;
    if let Some(path) = &arguments.report {
        output::check_report_path("--report", path)?;
    }
    // If a recording goes to standard output, all other output goes to standard error.
    let stdout_has_capture = arguments
        .pcap
        .iter()
        .any(|recording| recording.file == Path::new("-"));
    if stdout_has_capture {
        output::reserve_stdout();
    }
    let options = worker_options(&arguments);
    let devices = read_device_defaults(&arguments.ports)?;
    let resolve = arguments.configuration.apply_to(ResolveOptions {
        ports: arguments.ports.iter().map(|port| port.name.clone()).collect(),
        seed: arguments.seed,
        reaction_budget: reaction_budget_in_model_time(&options),
        devices,
        port_source: Some(PORT_OPTION),
        ..ResolveOptions::default()
    })?;
    let loaded = load_config(&arguments, &resolve)?;
    // The configuration has been read: the wait for a pipe without data ends with the first signal.
    let stop = super::signals::watch_stop_signals()?;
    let name = loaded.resolved.config.name.clone();
    let tcp = tcp_access(&arguments)?;
    // The socket is bound before the switch starts, so an invalid path has no side effects.
    let endpoint = arguments
        .api
        .clone()
        .map(|path| ControlListener::bind(&ControlAddress::Path(path)))
        .transpose()?;
    let steal = CpuStealMeter::start();
    let session = Arc::new(SwitchSession::start(
        loaded,
        resolve,
        switch_ports(&arguments),
        &options,
        TaintLog::new(),
    )?);
    for note in &session.notes {
        output::print_note(&format!("note: {note}"));
    }
    let server = endpoint
        .map(|endpoint| start_control_server(endpoint, &session, tcp))
        .transpose()?;
    if let Some(address) = server.as_ref().and_then(ServerHandle::tcp_address) {
        output::print_note(&format!("note: the control API is at http://{address}/v1"));
    }
    if stop.load(Ordering::Relaxed) {
        drop(server);
        session.stop();
        return Ok(Exit::Interrupted);
    }
    // With --json, standard output contains the report and nothing else.
    let print = |text: &str, to_stderr: bool| match to_stderr {
        true => output::print_note(text.trim_end()),
        false => output::print(text),
    };
    print(
        &ready_line(&name, &arguments, &session),
        stdout_has_capture || arguments.json,
    );
    while !stop.load(Ordering::Relaxed) && !session.is_dead() {
        session.follow_device_mtus();
        std::thread::sleep(CHECK_INTERVAL);
    }
    let control_api = server.map(ServerHandle::stop);
    let finished = session.stop();
    for note in &finished.notes {
        output::print_note(&format!("note: {note}"));
    }
    let report = build_switch_report(finished, &steal, control_api, arguments.seed);
    if let Some(path) = &arguments.report {
        report.write(path)?;
    }
    let text = match arguments.json {
        true => report.to_json(),
        false => render_report(&report),
    };
    print(&text, stdout_has_capture);
    Ok(report.exit())
}

/// Returns an error if a recording names a port without a device, or if two recordings have the same file.
fn check_pcap(arguments: &SwitchRun) -> Result<(), Failure> {
    values::check_pcap_files(&arguments.pcap)?;
    let ports: Vec<&str> = arguments.ports.iter().map(|port| port.name.as_str()).collect();
    for recording in &arguments.pcap {
        let Some(place) = &recording.location else {
            continue;
        };
        if !ports.contains(&place.as_str()) {
            return Err(Failure::usage(format!("no frame passes {place:?}"))
                .at(format!("--pcap {place}={}", recording.file.display()))
                .because(format!("the ports with a device are {}", ports.join(", ")))
                .fix("give one of them, or no port for all of them; a file with '=' in its name as ./FILE"));
        }
    }
    Ok(())
}

fn pcap_options(arguments: &SwitchRun) -> PcapOptions {
    let request = |recording: &super::PcapArgument| PcapRequest {
        port: recording.location.clone(),
        file: recording.file.clone(),
    };
    PcapOptions {
        requests: arguments.pcap.iter().map(request).collect(),
        snaplen: arguments.pcap_snaplen.unwrap_or(0),
        standard_output: Some(StandardOutput(output::open_standard_output)),
    }
}

fn worker_options(arguments: &SwitchRun) -> WorkerOptions {
    let running = &arguments.running;
    WorkerOptions {
        workers: running.workers.map_or_else(
            || default_worker_count(allowed_cpus().len(), arguments.ports.len()),
            usize::from,
        ),
        pin: running.pin.clone(),
        idle: arguments.idle.into(),
        dilate: running.dilate,
        pcap: pcap_options(arguments),
        ..WorkerOptions::default()
    }
}

/// Returns the default number of worker threads: at most one for each port and one for the switch, and at
/// most [`DEFAULT_WORKERS_MAX`]. One core remains free for the programs that send and receive the frames.
fn default_worker_count(core_count: usize, port_count: usize) -> usize {
    core_count
        .saturating_sub(1)
        .min(port_count + 1)
        .clamp(1, DEFAULT_WORKERS_MAX)
}

/// Reads the MTUs of the devices of all ports. The result lists the ports whose devices do not exist yet.
fn read_device_defaults(ports: &[super::PortArgument]) -> Result<DeviceDefaults, Failure> {
    let mut devices = DeviceDefaults::default();
    for port in ports {
        let mtu = xoff_ports::read_device_mtu(&port.device).map_err(|error| {
            Failure::environment(format!("the MTU of {} cannot be read", port.device))
                .at(format!("--port {}={}", port.name, port.device))
                .because(error)
        })?;
        let (name, device) = (port.name.clone(), port.device.clone());
        match mtu {
            Some(mtu) => drop(devices.mtu_by_port.insert(name, DeviceMtu::new(device, mtu))),
            // xoff itself creates the device of a tap or stream port, with the MTU of the port.
            None if port.backend.creates_device() => {}
            None => drop(devices.missing.insert(name)),
        }
    }
    Ok(devices)
}

/// Loads the configuration: the preset, and the files above it.
fn load_config(arguments: &SwitchRun, resolve: &ResolveOptions) -> Result<LoadedConfig, Failure> {
    let mut layers = Vec::new();
    let mut preset_note = None;
    if let Some(name) = &arguments.preset {
        let ports: Vec<(String, u32)> = arguments
            .ports
            .iter()
            .map(|port| (port.name.clone(), arguments.speed))
            .collect();
        let mut preset = build_preset(name, &ports, resolve.reaction_budget).map_err(|unknown| {
            Failure::usage(unknown.to_string())
                .at(format!("--preset {name}"))
                .fix(format!("write --preset {}", values::PRESET_VALUE))
        })?;
        preset_note = resolve.devices.replace_mtus_of_preset(&mut preset);
        layers.push((format!("preset {name}"), preset.to_json()));
    }
    layers.extend(args::read_layers(&arguments.config, &arguments.configuration)?);
    let mut loaded = load(&args::borrow_layers(&layers), resolve).map_err(|problems| {
        let places: Vec<&str> = layers.iter().map(|(place, _)| place.as_str()).collect();
        Failure::configuration("the configuration is invalid")
            .at(places.join(" + "))
            .because_of_errors(&problems, problems.as_slice())
    })?;
    loaded.resolved.warnings.extend(preset_note);
    Ok(loaded)
}

fn switch_ports(arguments: &SwitchRun) -> Vec<SwitchPort> {
    let port = |port: &super::PortArgument| SwitchPort {
        delay: xoff_units::Picos::ZERO,
        name: port.name.clone(),
        device: port.device.clone(),
        backend: port.backend,
        netns: None,
        opened: None,
    };
    arguments.ports.iter().map(port).collect()
}

/// Returns the access over a TCP address, with the token of `--api-token`.
fn tcp_access(arguments: &SwitchRun) -> Result<Option<TcpAccess>, Failure> {
    let Some(address) = arguments.api_tcp else {
        return Ok(None);
    };
    let token = arguments.api_token.as_deref().map(ApiToken::read).transpose()?;
    Ok(Some(TcpAccess { address, token }))
}

fn start_control_server(
    listener: ControlListener,
    session: &Arc<SwitchSession>,
    tcp: Option<TcpAccess>,
) -> Result<ServerHandle, Failure> {
    let targets = vec![Arc::clone(session) as Arc<dyn ControlTarget>];
    let options = ServerOptions {
        tcp,
        worker_cores: session.cores.iter().copied().flatten().collect(),
    };
    serve_control(listener, targets, options)
}

/// Returns the line that begins with `ready`. With this line, a script knows that the switch now
/// forwards frames.
fn ready_line(name: &str, arguments: &SwitchRun, session: &SwitchSession) -> String {
    let ports: Vec<String> = arguments
        .ports
        .iter()
        .map(|port| format!("{}={}", port.name, port.device))
        .collect();
    let cores: Vec<String> = session
        .cores
        .iter()
        .map(|core| core.map_or_else(|| "any".to_owned(), |core| core.to_string()))
        .collect();
    format!(
        "ready: switch {name} forwards between {}; workers on cores {}\n",
        ports.join(" "),
        cores.join(", ")
    )
}

fn build_switch_report(
    finished: StoppedSwitch,
    steal: &CpuStealMeter,
    control_api: Option<ControlApiReport>,
    seed: u64,
) -> Report {
    let StoppedSwitch {
        snapshot, mut taints, ..
    } = finished;
    if snapshot.is_none() {
        taints.push(Taint {
            since_ns: 0,
            cause: "the switch ended by a bug in xoff; its counters are lost".to_owned(),
        });
    }
    let environment = Environment {
        steal_percent: steal.percent(),
        control_api,
        ..Environment::read()
    };
    let switches = snapshot.into_iter().map(SwitchSnapshot::into_report).collect();
    let mut report = build_report(environment, seed, switches, Vec::new(), taints);
    // A switch alone neither offers nor awaits traffic.
    report.judge(Traffic::default(), Vec::new(), &ProtectedClasses::default());
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_worker_count_leaves_one_core_to_the_traffic() {
        assert_eq!(
            [1, 2, 3, 4, 64].map(|cores| default_worker_count(cores, 2)),
            [1, 1, 2, 3, 3]
        );
        assert_eq!(default_worker_count(0, 8), 1, "the number of cores is unknown");
        assert_eq!(default_worker_count(64, 8), 4);
    }

    #[test]
    fn a_run_whose_switch_died_is_tainted() {
        let finished = StoppedSwitch::default();
        assert_eq!(
            build_switch_report(finished, &CpuStealMeter::start(), None, 0).exit(),
            Exit::Inconclusive
        );
    }
}
