//! Tests of model hosts on real devices in network namespaces.
//!
//! The results do not depend on the speed of the machine. Losslessness is asserted only for runs without an
//! outside disturbance, and disturbed runs are repeated.

mod support;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;
use support::{NamedTest, check, check_equal, run_in_namespaces, wait_for};
use xoff_host::{FlowConfig, FlowRate, Host, HostConfig, ReceiveBuffer, flow_report};
use xoff_ports::net::{self, Netns};
use xoff_ports::{Backend, Port, PortSpec};
use xoff_runtime::hosts::standalone::{HostRunError, HostRunSpec, HostSummary, SendFlowSpec, run_standalone};
use xoff_runtime::hosts::{
    AttachedHost, HostRunResult, HostThreadOptions, RunningHosts, drain_hosts, spawn_hosts,
};
use xoff_runtime::workers::clock::{ModelClock, monotonic_ns};
use xoff_runtime::workers::{IdleMode, TaintLog};
use xoff_units::LinkTiming;
use xoff_wire::Ecn;

const TESTS: &[NamedTest] = &[
    (
        "two_connected_hosts_resolve_addresses_and_lose_no_frame",
        two_connected_hosts_resolve_addresses_and_lose_no_frame,
    ),
    (
        "a_slow_host_pauses_a_sender_and_no_frame_is_lost",
        a_slow_host_pauses_a_sender_and_no_frame_is_lost,
    ),
    ("several_hosts_share_a_thread", several_hosts_share_a_thread),
    (
        "a_removed_device_taints_and_ends_only_its_host",
        a_removed_device_taints_and_ends_only_its_host,
    ),
    (
        "invalid_runs_are_refused_with_a_hint",
        invalid_runs_are_refused_with_a_hint,
    ),
];

/// Maximum number of attempts of a disturbed run.
const ATTEMPTS: usize = 5;

fn main() -> ExitCode {
    run_in_namespaces(TESTS)
}

fn send_spec(frames: u64) -> SendFlowSpec {
    SendFlowSpec {
        dst_ip: [10, 0, 0, 2].into(),
        dst_mac: None,
        class: 3,
        dscp: 26,
        ecn: Ecn::Ect0,
        rate: FlowRate::LinkShare(400_000),
        frame_len: 1082,
        vlan: None,
        frames_max: Some(frames),
    }
}

/// Attaches one host with the address 10.0.0.`n` to `device` at `speed`.
fn attach_host(device: &str, n: u8, change: impl FnOnce(&mut HostConfig)) -> Result<AttachedHost, Failed> {
    let mut config = HostConfig::new(format!("h{n}"), [2, 0, 0, 0, 0, n], LinkTiming::ethernet(1_000));
    config.ipv4 = Some([10, 0, 0, n].into());
    config.token = 42;
    change(&mut config);
    let spec = PortSpec {
        name: device.into(),
        device: device.into(),
        backend: Backend::Auto,
        mtu: 9_000,
    };
    Ok(AttachedHost {
        host: Host::new(&config)?,
        port: Port::open(&spec)?.port,
    })
}

fn start_hosts(hosts: Vec<AttachedHost>, ledger: &TaintLog) -> Result<RunningHosts, Failed> {
    let options = HostThreadOptions {
        name: "hosts".into(),
        clock: ModelClock::new(monotonic_ns(), 1),
        core: None,
        idle: IdleMode::Adaptive,
        reaction_budget: Duration::from_millis(20),
        ledger: ledger.clone(),
    };
    Ok(spawn_hosts(hosts, options)?)
}

fn wait_for_hosts(running: Vec<RunningHosts>) -> Result<Vec<HostRunResult>, Failed> {
    let all: Vec<&RunningHosts> = running.iter().collect();
    drain_hosts(
        &all,
        Duration::from_millis(200),
        Duration::from_secs(5),
        &AtomicBool::new(false),
    );
    let outcomes = running
        .into_iter()
        .map(|hosts| hosts.stop().ok_or("a thread died"));
    Ok(outcomes
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .flatten()
        .collect())
}

/// Repeats a run with other device names until the machine did not disturb it.
fn repeat_until_undisturbed<T>(
    mut run: impl FnMut(usize) -> Result<(T, Vec<String>), Failed>,
) -> Result<T, Failed> {
    let mut causes = Vec::new();
    for attempt in 0..ATTEMPTS {
        let (result, taints) = run(attempt)?;
        if taints.is_empty() {
            return Ok(result);
        }
        causes = taints;
    }
    Err(format!("disturbed {ATTEMPTS} times, the last time by {causes:?}").into())
}

fn taint_causes(ledger: &TaintLog) -> Vec<String> {
    ledger.taints().into_iter().map(|taint| taint.cause).collect()
}

fn two_connected_hosts_resolve_addresses_and_lose_no_frame() -> Result<(), Failed> {
    let (sender, receiver) = repeat_until_undisturbed(|attempt| {
        let far = Netns::create()?;
        let (near_dev, far_dev) = (format!("near{attempt}"), format!("far{attempt}"));
        net::add_veth(&near_dev, &far_dev, Some(&far), 1_500)?;
        let stop = AtomicBool::new(false);
        let receive = HostRunSpec {
            addresses: vec![[10, 0, 0, 2].into()],
            ..HostRunSpec::new(far_dev)
        };
        let mut send = HostRunSpec::new(near_dev);
        send.flows = vec![
            send_spec(3_000),
            SendFlowSpec {
                class: 0,
                dscp: 0,
                ..send_spec(500)
            },
        ];
        let run = |spec: &HostRunSpec, done: &AtomicBool| -> Result<HostSummary, HostRunError> {
            run_standalone(spec, done, |_| (), |_| ())
        };
        let (sent, received) = thread::scope(|scope| {
            let receiving = scope.spawn(|| far.run(|| run(&receive, &stop)));
            let sent = run(&send, &AtomicBool::new(false));
            stop.store(true, Ordering::Relaxed);
            (sent, receiving.join())
        });
        let (sent, received) = (sent?, received.map_err(|_| "the receiver panicked")???);
        let taints = sent
            .taints
            .iter()
            .chain(&received.taints)
            .map(|taint| taint.cause.clone())
            .collect();
        Ok(((sent, received), taints))
    })?;
    check(!sender.interrupted && !receiver.interrupted, || {
        "neither was to be interrupted".into()
    })?;
    check(sender.unresolved.is_empty(), || {
        format!("{:?} never answered ARP", sender.unresolved)
    })?;
    let sent: Vec<u64> = sender
        .outcome
        .results
        .sent
        .iter()
        .map(|flow| flow.sent_frames)
        .collect();
    check_equal(sent, vec![3_000, 500], "frames sent")?;
    let received: Vec<_> = receiver
        .received
        .iter()
        .map(|flow| (flow.class, flow.received_frames))
        .collect();
    check_equal(received, vec![(3, 3_000), (0, 500)], "frames received")?;
    for flow in &receiver.received {
        check_equal(
            (flow.lost_frames, flow.reordered_frames, flow.icrc_errors),
            (0, 0, 0),
            "loss, order, damage",
        )?;
        check_equal(flow.src.as_str(), "10.0.0.1", "the source's address")?;
        check(flow.latency_ns.p50 > 0 && flow.goodput_bps > 0, || {
            format!("nothing measured: {flow:?}")
        })?;
    }
    Ok(())
}

/// Host 2 drains at three tenths of the rate of host 1.
fn a_slow_host_pauses_a_sender_and_no_frame_is_lost() -> Result<(), Failed> {
    let outcomes = repeat_until_undisturbed(|attempt| {
        let (a, b) = (format!("a{attempt}"), format!("b{attempt}"));
        net::add_veth(&a, &b, None, 9_000)?;
        let ledger = TaintLog::new();
        let from = attach_host(&a, 1, |config| {
            config.flows = vec![FlowConfig::lossless(
                0,
                [10, 0, 0, 2].into(),
                Some([2, 0, 0, 0, 0, 2]),
            )];
        })?;
        let to = attach_host(&b, 2, |config| {
            // Headroom for 20 ms at 1 Gb/s beyond XOFF. Either thread may stall for that long.
            config.nic.receive_buffer = Some(ReceiveBuffer {
                drain_bps: 300_000_000,
                xoff_bytes: 200_000,
                xon_bytes: 100_000,
                ..ReceiveBuffer::at_link_speed(5_500_000, 50, 25, &LinkTiming::ethernet(1_000))
            });
        })?;
        let running = vec![start_hosts(vec![from], &ledger)?, start_hosts(vec![to], &ledger)?];
        running[0].start_sending();
        thread::sleep(Duration::from_millis(500));
        Ok((wait_for_hosts(running)?, taint_causes(&ledger)))
    })?;
    let (from, to) = (&outcomes[0].results, &outcomes[1].results);
    let report = flow_report("h1", "h2", true, &from.sent[0], to.received.first());
    check(report.sent_frames > 1_000, || {
        format!("hardly anything was sent: {report:?}")
    })?;
    check_equal(
        (report.lost_frames, report.reordered_frames, report.icrc_errors),
        (0, 0, 0),
        "loss, order, damage",
    )?;
    check_equal(
        to.nic.rx_dropped_frames,
        [0; 8],
        "frames that found the buffer full",
    )?;
    check(from.nic.pfc_rx[3] > 0 && from.nic.paused_ns[3] > 0, || {
        format!("never paused: {:?}", from.nic)
    })?;
    check_equal(from.nic.pfc_rx, to.nic.pfc_tx, "PFC frames received and sent")?;
    check_equal(
        from.nic.pfc_rx.iter().sum::<u64>(),
        from.nic.pfc_rx[3],
        "PFC of other classes",
    )
}

fn several_hosts_share_a_thread() -> Result<(), Failed> {
    let outcomes = repeat_until_undisturbed(|attempt| {
        let ledger = TaintLog::new();
        let mut hosts = Vec::new();
        for pair in 0..3_u8 {
            let (a, b) = (format!("a{attempt}{pair}"), format!("b{attempt}{pair}"));
            net::add_veth(&a, &b, None, 9_000)?;
            let (from, to) = (10 + pair, 20 + pair);
            hosts.push(attach_host(&a, from, |config| {
                let mut flow = FlowConfig::lossless(pair.into(), [10, 0, 0, to].into(), None);
                (flow.rate, flow.frames_max) = (FlowRate::LinkShare(200_000), Some(1_000));
                config.flows = vec![
                    flow.with_frame_len(2_106)
                        .unwrap_or_else(|| unreachable!("in range")),
                ];
            })?);
            hosts.push(attach_host(&b, to, |_| ())?);
        }
        let running = start_hosts(hosts, &ledger)?;
        running.start_sending();
        wait_for("every flow is sent", || {
            let progress = running.progress();
            Ok((progress.sent_frames == 3_000 && !progress.is_sending).then_some(()))
        })?;
        Ok((wait_for_hosts(vec![running])?, taint_causes(&ledger)))
    })?;
    for pair in outcomes.chunks(2) {
        let (from, to) = (&pair[0].results, &pair[1].results);
        check_equal(to.received.len(), 1, "flows received")?;
        check_equal(
            to.received[0].received_frames,
            from.sent[0].sent_frames,
            "frames received",
        )?;
        check_equal(to.received[0].reordered_frames, 0, "frames reordered")?;
    }
    Ok(())
}

fn a_removed_device_taints_and_ends_only_its_host() -> Result<(), Failed> {
    net::add_veth("gone0", "gone1", None, 9_000)?;
    net::add_veth("stay0", "stay1", None, 9_000)?;
    let ledger = TaintLog::new();
    let flow = || FlowConfig::lossless(0, [10, 0, 0, 9].into(), Some([2, 0, 0, 0, 0, 9]));
    let gone = attach_host("gone0", 1, |config| config.flows = vec![flow()])?;
    let stay = attach_host("stay0", 2, |config| config.flows = vec![flow()])?;
    let running = start_hosts(vec![gone, stay], &ledger)?;
    running.start_sending();
    wait_for("both send", || {
        Ok((running.progress().sent_frames > 100).then_some(()))
    })?;
    net::delete_link("gone0")?;
    wait_for("the loss of the device is noted", || {
        Ok(taint_causes(&ledger)
            .iter()
            .any(|cause| cause.contains("gone0"))
            .then_some(()))
    })?;
    let before = running.progress().sent_frames;
    wait_for("the other host goes on", || {
        Ok((running.progress().sent_frames > before + 100).then_some(()))
    })?;
    let outcomes = wait_for_hosts(vec![running])?;
    check(outcomes[0].error.is_some() && outcomes[1].error.is_none(), || {
        format!("{outcomes:?}")
    })
}

fn invalid_runs_are_refused_with_a_hint() -> Result<(), Failed> {
    net::add_veth("dev0", "dev1", None, 1_200)?;
    let refused = |change: &dyn Fn(&mut HostRunSpec)| -> Result<String, Failed> {
        let mut spec = HostRunSpec::new("dev0");
        spec.flows = vec![send_spec(1)];
        change(&mut spec);
        match run_standalone(&spec, &AtomicBool::new(true), |_| (), |_| ()) {
            Ok(_) => Err("a run that cannot be was accepted".into()),
            Err(error) => Ok(error.to_string()),
        }
    };
    type Change = &'static dyn Fn(&mut HostRunSpec);
    let cases: [(Change, &[&str]); 5] = [
        (
            &|spec| spec.device = "nowhere".into(),
            &["nowhere", "no network interface", "ip link"],
        ),
        (
            &|spec| spec.flows[0].frame_len = 2_106,
            &["10.0.0.2", "dev0", "ip link set dev0 mtu 2108"],
        ),
        (
            &|spec| spec.flows[0].frame_len = 1_083,
            &["10.0.0.2", "1083", "multiple of 4"],
        ),
        (
            &|spec| spec.addresses = vec![[10, 0, 0, 1].into(), [10, 0, 0, 3].into()],
            &["10.0.0.3", "one address of each"],
        ),
        (&|spec| spec.flows[0].class = 9, &["dev0", "class is 9", "0 to 7"]),
    ];
    for (change, words) in cases {
        let message = refused(change)?;
        check(words.iter().all(|word| message.contains(word)), || {
            format!("'{message}' lacks one of {words:?}")
        })?;
    }
    Ok(())
}
