//! `xoff host run`: a model host on a network device.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;

use xoff_wire::Ecn;

use super::{HostRun, SendArgument, output};
use xoff_host::FlowRate;
use xoff_lab::plan::OfferedRate;
use xoff_lab::report::{HostReport, Report, build_report, render_report};
use xoff_ports::net;
use xoff_runtime::hosts::standalone::{
    DEFAULT_ADDRESS, HostRunError, HostRunSpec, HostSummary, SendFlowSpec, run_standalone,
};
use xoff_runtime::port_failure;
use xoff_runtime::workers::IdleMode;
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::verdict::{ProtectedClasses, Traffic};
use xoff_telemetry::{CpuStealMeter, Environment, FlowEnd, FlowReport};

/// Runs `xoff host run`.
pub(super) fn run(arguments: HostRun) -> Result<Exit, Failure> {
    if let Some(path) = &arguments.report {
        output::check_report_path("--report", path)?;
    }
    let stop = super::signals::watch_stop_signals()?;
    let steal = CpuStealMeter::start();
    let summary = run_host(&arguments, &stop)?;
    let report = build_host_report(&summary, &arguments, &steal);
    if let Some(path) = &arguments.report {
        report.write(path)?;
    }
    output::print(&match arguments.json {
        true => report.to_json(),
        false => render_report(&report),
    });
    // A run without an end normally ends by a signal.
    let endless = arguments.duration.is_none() && arguments.send.iter().all(|flow| flow.frames_max.is_none());
    let exit = if summary.interrupted && !endless {
        Exit::Interrupted
    } else {
        report.exit()
    };
    // The report is the result of the command, so the exit code is that of the report.
    for failure in unanswered_failures(&summary.unresolved, arguments.dev.as_str(), exit) {
        output::print_note(&failure.to_string());
    }
    Ok(exit)
}

/// Describes the destinations that answered no request for their MAC address, one failure for each address.
fn unanswered_failures(unresolved: &[IpAddr], device: &str, exit: Exit) -> Vec<Failure> {
    let failure = |address: &IpAddr| {
        let (what, why) = describe_unanswered(address);
        Failure::new(exit, what)
            .at(format!("--dev {device} --send {address}"))
            .because(why)
            .fix(format!(
                "start the receiver first, such as `xoff host run --dev DEV --ip {address} --receive`; check the link with \
                 `ip link show {device}`; or give the MAC address of the receiver or the next hop: `--send \
                 {address},mac=02:00:00:00:00:02`"
            ))
    };
    let addresses: BTreeSet<IpAddr> = unresolved.iter().copied().collect();
    addresses.iter().map(failure).collect()
}

/// Returns what happened to the flows to an address that did not answer, and the reason.
fn describe_unanswered(address: &IpAddr) -> (String, String) {
    let requests = match address {
        IpAddr::V4(_) => "ARP request",
        IpAddr::V6(_) => "neighbour solicitation",
    };
    (
        format!("no frame was sent to {address}"),
        format!("{address} answered no {requests}, so its MAC address is unknown"),
    )
}

/// Runs the host and prints a line when it is ready.
fn run_host(arguments: &HostRun, stop: &AtomicBool) -> Result<HostSummary, Failure> {
    let ready = |notes: &[String]| {
        for note in notes {
            output::print_note(&format!("note: {note}"));
        }
        let line = format!("ready: host on {}", arguments.dev);
        match arguments.json {
            true => output::print_note(&line),
            false => output::print(&format!("{line}\n")),
        }
    };
    run_standalone(&host_run_spec(arguments), stop, ready, |_| {})
        .map_err(|error| host_failure(error, arguments))
}

fn host_run_spec(arguments: &HostRun) -> HostRunSpec {
    HostRunSpec {
        backend: arguments.backend.into(),
        mac: arguments.mac,
        addresses: arguments.ip.clone(),
        speed_mbps: arguments.speed,
        flows: arguments.send.iter().map(send_flow_spec).collect(),
        duration: arguments.duration,
        awaits_frames: arguments.receive,
        response_ns: arguments
            .pfc_response
            .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
        pfc: !arguments.no_pfc,
        buffer_bytes: arguments.buffer,
        dilate: arguments.dilate,
        idle: IdleMode::Adaptive,
        ..HostRunSpec::new(arguments.dev.clone())
    }
}

fn send_flow_spec(argument: &SendArgument) -> SendFlowSpec {
    SendFlowSpec {
        dst_ip: argument.destination,
        dst_mac: argument.mac,
        class: argument.class,
        dscp: argument.dscp,
        ecn: if argument.ecn { Ecn::Ect0 } else { Ecn::NotEct },
        rate: match argument.rate {
            OfferedRate::LinkShare(millionths) => FlowRate::LinkShare(millionths),
            OfferedRate::WireBitsPerSecond(bits) => FlowRate::WireBitsPerSecond(bits),
        },
        frame_len: argument.frame_bytes,
        vlan: argument.vlan,
        frames_max: argument.frames_max,
    }
}

fn host_failure(error: HostRunError, arguments: &HostRun) -> Failure {
    let exit = match error {
        HostRunError::Config(_) | HostRunError::FrameLen { .. } | HostRunError::Address(_) => Exit::Usage,
        HostRunError::Port(_)
        | HostRunError::Device { .. }
        | HostRunError::Mtu { .. }
        | HostRunError::System { .. }
        | HostRunError::ThreadDied { .. } => Exit::Environment,
    };
    let failure = match &error {
        HostRunError::Port(error) => port_failure(error),
        HostRunError::Mtu {
            dst_ip,
            frame_len,
            device,
            room,
            needed,
        } => Failure::new(
            exit,
            format!(
                "the flow to {dst_ip} has frames of up to {frame_len} bytes, and {device} carries {room}"
            ),
        )
        .fix(format!("shorten frame=, or: ip link set {device} mtu {needed}")),
        HostRunError::Device {
            source: net::Error::NoSuchLink { .. },
            ..
        } => Failure::new(exit, format!("no network interface '{}' here", arguments.dev))
            .fix("look at `ip link`, and check the namespace"),
        _ => Failure::new(exit, error.to_string()),
    };
    failure.at(format!("--dev {}", arguments.dev))
}

/// Builds the report. A received flow has all values. The sender does not know which frames arrived, so a
/// sent flow has only the number of sent frames. The run proves nothing if a sender sent no frame, or if no frame
/// arrived at a receiver.
fn build_host_report(summary: &HostSummary, arguments: &HostRun, steal: &CpuStealMeter) -> Report {
    let source = arguments
        .ip
        .first()
        .map_or_else(|| DEFAULT_ADDRESS.to_string(), ToString::to_string);
    let sent = summary.outcome.results.sent.iter().map(|flow| FlowReport {
        src: source.clone(),
        dst: flow.dst_ip.to_string(),
        class: flow.class,
        end: FlowEnd::Sender,
        sent_frames: flow.sent_frames,
        ..FlowReport::default()
    });
    let received = summary.received.iter().map(|flow| FlowReport {
        lossless: arguments.lossless,
        ..flow.clone()
    });
    let environment = Environment {
        steal_percent: steal.percent(),
        ..Environment::read()
    };
    let mut report = build_report(
        environment,
        0,
        Vec::new(),
        sent.chain(received).collect(),
        summary.taints.clone(),
    );
    let (results, queue_pairs) = (&summary.outcome.results, &summary.outcome.queue_pairs);
    report.host = Some(HostReport::new(&arguments.dev, queue_pairs, &results.nic));
    report.add_receiver(results, arguments.lossless);
    let (frames, bytes) = arrived(summary);
    let expectations = arguments.expect.iter();
    let expectations = expectations.map(|expected| expected.compare(&arguments.dev, frames, bytes));
    let traffic = Traffic {
        offered_frames: (!arguments.send.is_empty())
            .then(|| results.sent.iter().map(|flow| flow.sent_frames).sum()),
        arrived_frames: arguments.receive.then_some(frames),
        notes: Vec::new(),
    };
    // A flow that was requested and whose receiver does not answer is a result, not a fault of the machine.
    let unanswered: BTreeSet<IpAddr> = summary.unresolved.iter().copied().collect();
    report.failures.extend(unanswered.iter().map(|address| {
        let (what, why) = describe_unanswered(address);
        format!("{what}: {why}")
    }));
    report.judge(traffic, expectations.collect(), &ProtectedClasses::default());
    report
}

/// Returns the number of RoCE frames that arrived, from model hosts and from other senders, and the payload bytes
/// of the flows of model hosts.
fn arrived(summary: &HostSummary) -> (u64, u64) {
    let frames: u64 = summary.received.iter().map(|flow| flow.received_frames).sum();
    let foreign: u64 = summary
        .outcome
        .results
        .foreign
        .iter()
        .map(|flow| flow.frames)
        .sum();
    let bytes = summary.received.iter().map(|flow| flow.received_bytes).sum();
    (frames + foreign, bytes)
}
