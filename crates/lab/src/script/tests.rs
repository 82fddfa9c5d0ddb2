//! Tests of the values of names in labs that have run.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use xoff_units::Picos;

use super::super::expr::{Occurrence, ValueSource};
use super::super::options::LabOptions;
use super::super::parse_lab;
use super::super::plan::TimeMode;
use super::run::{AbortReason, ScriptLimits, ScriptRun};
use super::values::VALUES_READ_MAX;
use xoff_telemetry::failure::Exit;

const LAB: &str = "
name: x
topology:
  fabric:
    star: {hosts: 4, speed: 100g, delay: 500ns, config: {preset: roce-lossless}}
workload:
  duration: 200us
  flows:
    - {name: open, from: [h1, h2], to: h4, rate: 90%, dscp: 26, ecn: true, frame: 1082}
  jobs:
    - {name: list, kind: incast, from: [h1, h3], to: h4, bytes: 64K}
    - {name: ring, kind: ring-allreduce, hosts: [h1, h2, h3], bytes: 64K, iterations: 2}
script:
";

fn without_limits() -> ScriptLimits {
    ScriptLimits {
        events_max: u64::MAX,
        stop: Arc::default(),
    }
}

/// Runs a script in the default lab.
fn run_script(script: &str) -> ScriptRun {
    let text = format!("{LAB}{script}");
    let plan = parse_lab(&text, "x.xoff.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let steps = plan.script.steps.clone();
    let mut script = ScriptRun::new(plan, LabOptions::default(), without_limits()).expect("set up");
    for step in &steps {
        assert!(script.run_step(step).expect("a good step").is_ok());
    }
    script
}

/// A few conditions can stand for millions of values. They would take minutes.
#[test]
fn a_script_that_reads_too_many_values_is_stopped() {
    let text =
        format!("{LAB}  - expect: flow.open.sent_frames >= 0\n  - wait: {{until: 1 > 2, at_most: 1ms}}\n");
    let plan = parse_lab(&text, "x.xoff.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let steps = plan.script.steps.clone();
    let mut script = ScriptRun::new(plan, LabOptions::default(), without_limits()).expect("set up");
    assert!(script.run_step(&steps[0]).expect("a good step").is_ok());
    assert_eq!(script.values_read.get(), 2, "a condition and its value");
    script.values_read.set(VALUES_READ_MAX - 1);
    for step in &steps {
        let end = script.run_step(step).expect("a good step");
        assert!(matches!(end, Err(AbortReason::ValueLimit)), "{end:?}");
    }
    assert_eq!(script.values().value("flow.open.sent_frames"), Ok(None));
}

fn value_of(script: &ScriptRun, path: &str) -> f64 {
    let value = script.values().value(path).expect(path);
    value.unwrap_or_else(|| panic!("{path} has no value"))
}

#[test]
fn every_name_has_a_value_after_the_run() {
    let script = run_script("  - wait: 3ms\n");
    let values = script.values();
    let mut count = 0;
    for pattern in [
        "now_ns",
        "deadlock",
        "*.*",
        "*.*.*",
        "*.*.*.*",
        "flow.*.*",
        "flow.*.*.*",
        "job.*.*",
        "job.*.*.*",
        "link.*.*",
    ] {
        for name in values.matching_names(pattern).expect(pattern) {
            let value = values.value(&name).expect("a name of the lab");
            // Ports without sent frames have no utilisation, collectives have no flows, and lists of messages
            // have no bus bandwidth.
            let may_be_missing = name.ends_with("tx_utilisation_percent")
                // No load-balancing scheme measures path quality.
                || name.ends_with(".lb_band")
                || name.ends_with(".lb_load_permille")
                // No packet with this DSCP has arrived.
                || name.contains(".dscp")
                || (name.starts_with("job.ring.")
                    && ["completion", "slowdown", "jain", "completed"]
                        .iter()
                        .any(|part| name.contains(part)))
                || (name.starts_with("job.list.") && name.ends_with("bus_bandwidth_bps"));
            assert!(value.is_some() || may_be_missing, "{name}");
            count += 1;
        }
    }
    assert!(count > 1_000, "{count}");
    for pool in ["ingress_lossless_pool", "egress_lossy_pool"] {
        for counter in ["current_cells", "watermark_cells", "headroom_current_cells"] {
            value_of(&script, &format!("sw1.pool.{pool}.{counter}"));
        }
    }
}

#[test]
fn values_of_switch_hosts_and_flows_are_consistent() {
    let script = run_script("  - wait: 3ms\n");
    let sum = |pattern: &str| -> f64 {
        let names = script.values().matching_names(pattern).expect(pattern);
        names.iter().map(|name| value_of(&script, name)).sum()
    };
    assert_eq!(sum("sw1.*.rx_packets"), value_of(&script, "sw1.rx_packets"));
    assert_eq!(sum("sw1.*.queue*.packets"), value_of(&script, "sw1.tx_packets"));
    // Frames for address resolution are counted too.
    assert_eq!(sum("h*.nic_tx_frames"), value_of(&script, "sw1.rx_packets"));
    let of_flows_and_queue_pairs = value_of(&script, "flow.open.sent_frames") + sum("h*.tx_packets");
    assert!(sum("h*.nic_tx_frames") >= of_flows_and_queue_pairs);
    assert_eq!(value_of(&script, "flow.open.lost_frames"), 0.0);
    assert_eq!(
        value_of(&script, "flow.open.h1.sent_frames") + value_of(&script, "flow.open.h2.sent_frames"),
        value_of(&script, "flow.open.sent_frames")
    );
    assert!(
        value_of(&script, "sw1.Ethernet0.pfc3.tx") > 0.0,
        "180 % of a link"
    );
    assert_eq!(
        value_of(&script, "sw1.Ethernet0.pfc3.tx"),
        value_of(&script, "h1.pfc3.rx")
    );
    assert_eq!(value_of(&script, "job.list.received_bytes"), 131_072.0);
    assert_eq!(value_of(&script, "job.list.h1.received_bytes"), 65_536.0);
    assert_eq!(value_of(&script, "now_us"), 3_000.0);
    assert!(value_of(&script, "job.ring.bus_bandwidth_bps") > 1e9);
    let event = |path: &str, occurrence| script.values().event_time_ps(path, occurrence).expect(path);
    let first = event("xoff", Occurrence::First).expect("there were pauses");
    assert!(0.0 < first && first < 200e6, "{first} ps");
    assert_eq!(event("timeout", Occurrence::First), None);
    assert!(
        event("ce", Occurrence::Last) < event("h4.ce", Occurrence::Last),
        "it arrives later"
    );
}

#[test]
fn clear_counters_sets_counters_to_zero_and_keeps_job_values() {
    // Only counters in conditions are cleared.
    let names = "  - expect: sw1.Ethernet0.rx_packets >= 0 and flow.open.sent_frames >= 0 and sw1.Ethernet0.pfc3.paused_us >= 0us and job.list.posted_bytes >= 0B and h1.nic_tx_frames >= 0\n";
    let before = run_script(&format!("  - wait: 100us\n{names}"));
    let script = run_script(&format!("  - wait: 100us\n  - clear: counters\n{names}"));
    for path in [
        "sw1.Ethernet0.rx_packets",
        "flow.open.sent_frames",
        "h1.nic_tx_frames",
    ] {
        assert!(value_of(&before, path) > 100.0, "{path}");
        assert_eq!(value_of(&script, path), 0.0, "{path}");
    }
    assert_eq!(value_of(&script, "job.list.posted_bytes"), 131_072.0);
    assert_eq!(script.values().event_time_ps("xoff", Occurrence::First), Ok(None));
    let later = run_script(&format!(
        "  - wait: 100us\n  - clear: counters\n  - wait: 50us\n{names}"
    ));
    let whole = run_script(&format!("  - wait: 150us\n{names}"));
    let path = "sw1.Ethernet0.rx_packets";
    assert_eq!(
        value_of(&later, path),
        value_of(&whole, path) - value_of(&before, path),
        "a cleared counter is relative to its value at the clear"
    );
}

#[test]
fn block_and_link_steps_change_the_lab() {
    let script = run_script(
        "  - at: 1us\n    block: {port: \"sw1:Ethernet12\", queue: 3}\n  - link: {on: \"h3:eth0\", up: false}\n  - wait: 20us\n",
    );
    assert_eq!(script.lab.elapsed(), Picos::from_micros(21));
    assert_eq!(value_of(&script, "sw1.Ethernet8.up"), 0.0);
    assert!(value_of(&script, "sw1.Ethernet12.queue3.current_cells") > 100.0);
    let sent = value_of(&script, "sw1.Ethernet12.queue3.packets");
    assert!(
        sent < 200.0,
        "{sent}: what left in the first microsecond and before"
    );
    let events = |path: &str| {
        script
            .values()
            .event_time_ps(path, Occurrence::First)
            .expect(path)
    };
    assert_eq!(events("drop"), Some(1e6), "frames went with the link at 1 us");
}

/// Runs a script in a lab of two hosts and one switch.
fn run_two_host_lab(config: &str, script: &str) -> ScriptRun {
    let text = format!(
        "
name: x
topology:
  nodes:
    sw1: {{kind: switch, config: {config}}}
    h1: {{kind: model}}
    h2: {{kind: model}}
  links:
    - {{endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"], speed: 10g}}
    - {{endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"], speed: 10g}}
script:
{script}"
    );
    let plan = parse_lab(&text, "x.xoff.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let steps = plan.script.steps.clone();
    let mut script = ScriptRun::new(plan, LabOptions::default(), without_limits()).expect("set up");
    for step in &steps {
        assert!(script.run_step(step).expect("a good step").is_ok());
    }
    script
}

#[test]
fn injected_frames_of_any_length_arrive_and_are_counted() {
    let frame = "frame: [\"02:58:4f:46:00:02\", \"02:58:4f:46:00:01\", \"88b5 0000\"]";
    // The minimum length, a length above the default of a host without flows, and the maximum length of the
    // link.
    for size in [60, 1_600, 9_230] {
        let script = run_two_host_lab(
            "{PORT: {Ethernet0: {mtu: 9216}}}",
            &format!(
                "  - clear: counters\n  - inject: {{from: h1, frames: 5, size: {size}, {frame}}}\n  - wait: 100us\n  \
                 - expect: [sw1.Ethernet0.rx_packets == 5, h1.nic_tx_frames == 5, h1.nic_tx_bytes > 0B]\n"
            ),
        );
        let names = ["sw1.Ethernet0.rx_packets", "h1.nic_tx_frames"];
        assert_eq!(
            names.map(|name| value_of(&script, name)),
            [5.0; 2],
            "{size} bytes"
        );
        assert_eq!(
            value_of(&script, "h1.nic_tx_bytes"),
            5.0 * f64::from(size.max(60) + 4)
        );
    }
}

#[test]
fn injected_frames_beyond_the_transmit_queue_are_counted_as_dropped() {
    // One frame each nanosecond, on a link that needs 1.2 us for each frame.
    let script = run_two_host_lab(
        "{}",
        "  - clear: counters\n  - inject: {from: h1, frames: 200, every: 1ns, size: 1514, frame: \"0258 4f46 0002 0258 4f46 0001 88b5\"}\n  \
         - wait: 1ms\n  - expect: [h1.nic_tx_frames > 0, h1.nic_tx_dropped_frames > 0, sw1.Ethernet0.rx_packets > 0]\n",
    );
    let sent = value_of(&script, "h1.nic_tx_frames");
    assert_eq!(value_of(&script, "sw1.Ethernet0.rx_packets"), sent);
    assert_eq!(value_of(&script, "h1.nic_tx_dropped_frames"), 200.0 - sent);
    assert!((64.0..=66.0).contains(&sent), "{sent}: 64 wait for the link");
}

#[test]
fn an_injected_pfc_frame_counts_as_a_pause() {
    let script = run_two_host_lab(
        "{preset: roce-lossless}",
        "  - clear: counters\n  - inject: {from: h2, frame: [\"01:80:c2:00:00:01\", \"00:00:00:00:00:00\", \"8808 0101\", \"0008\", \"0000 0000 0000 ffff\"]}\n  \
         - wait: 1us\n  - expect: [h2.nic_tx_frames == 0, h2.pfc3.tx == 1, sw1.Ethernet4.pfc3.rx == 1]\n",
    );
    assert_eq!(value_of(&script, "h2.nic_tx_frames"), 0.0);
    assert_eq!(value_of(&script, "h2.pfc3.tx"), 1.0);
    assert_eq!(value_of(&script, "sw1.Ethernet4.pfc3.rx"), 1.0);
}

/// Runs the script of a lab file.
fn run_lab(text: &str) -> ScriptRun {
    let plan = parse_lab(text, "x.xoff.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let steps = plan.script.steps.clone();
    let mut script = ScriptRun::new(plan, LabOptions::default(), without_limits()).expect("set up");
    for step in &steps {
        assert!(script.run_step(step).expect("a good step").is_ok());
    }
    script
}

#[test]
fn a_port_responds_to_pauses_after_its_response_time() {
    // 394 quanta at 100 Gb/s are 2017 ns. The port sends 16 frames of 1514 bytes in this time, with PFC and
    // with 802.3x.
    for (config, pause) in [
        ("{preset: roce-lossless}", "class: 3"),
        ("{XOFF_PORT: {Ethernet4: {flow_control: rx}}}", "global: true"),
    ] {
        let sent = |quanta: &str| {
            let script = run_lab(&format!(
                "
name: x
topology:
  nodes:
    sw1: {{kind: switch, config: [{config}, {{PORT: {{Ethernet4: {{pause_response_quanta: {quanta}}}}}}}]}}
    h1: {{kind: model}}
    h2: {{kind: model}}
  links:
    - {{endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"], speed: 100g, mtu: 1500}}
    - {{endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"], speed: 100g, mtu: 1500}}
script:
  - send: {{from: h1, to: h2, frames: 2000, size: 1514, dscp: 26}}
  - wait: 20us
  - clear: counters
  - pause: {{from: h2, {pause}, quanta: 65535}}
  - wait: 40us
  - expect: sw1.Ethernet4.tx_packets >= 0
"
            ));
            value_of(&script, "sw1.Ethernet4.tx_packets")
        };
        assert!(sent("0") <= 1.0, "{pause}");
        assert!((14.0..=18.0).contains(&sent("standard")), "{pause}");
        assert!((6.0..=10.0).contains(&sent("197")), "{pause}");
    }
}

#[test]
fn a_host_without_pfc_honours_802_3x() {
    // Two senders at full link rate, and a switch that sends 802.3x PAUSE only.
    let lab = |nic: &str| {
        run_lab(&format!(
            "
name: x
topology:
  nodes:
    sw1:
      kind: switch
      config:
        - {{preset: roce-lossless}}
        - {{PORT_QOS_MAP: {{Ethernet0: {{pfc_enable: \"\"}}, Ethernet4: {{pfc_enable: \"\"}}, Ethernet8: {{pfc_enable: \"\"}}}}}}
        - {{XOFF_PORT: {{Ethernet0: {{flow_control: both}}, Ethernet4: {{flow_control: both}}}}}}
    h1: {{kind: model{nic}}}
    h2: {{kind: model{nic}}}
    h3: {{kind: model}}
  links:
    - {{endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"], speed: 10g}}
    - {{endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"], speed: 10g}}
    - {{endpoints: [\"h3:eth0\", \"sw1:Ethernet8\"], speed: 10g}}
workload:
  duration: 3ms
  flows:
    - {{name: in, from: [h1, h2], to: h3, dscp: 26, lossless: true}}
script:
  - wait: 5ms
  - expect: flow.in.lost_frames >= 0
"
        ))
    };
    for nic in ["", ", nic: {pfc: []}"] {
        let script = lab(nic);
        assert!(value_of(&script, "sw1.Ethernet0.pause_tx_frames") > 0.0);
        assert_eq!(value_of(&script, "flow.in.lost_frames"), 0.0, "{nic}");
    }
    assert!(
        value_of(&lab(", nic: {pfc: [3]}"), "flow.in.lost_frames") > 0.0,
        "a NIC with PFC ignores 802.3x"
    );
}

#[test]
fn a_short_receive_queue_answers_rnr_naks() {
    let script = |transport: &str, until: &str| {
        run_lab(&format!(
            "
name: x
topology:
  fabric:
    star: {{hosts: 2, speed: 10g, config: {{preset: roce-lossless}}}}
transports:
  default: {{mtu: 1024, rnr_retry: 7{transport}}}
workload:
  jobs:
    - {{name: s, kind: flows, verb: send, flows: [{{from: h1, to: h2, bytes: 1K, count: 64}}]}}
script:
  - wait: {until}
  - expect: job.s.done >= 0
"
        ))
    };
    let rnr = |script: &ScriptRun| {
        (
            value_of(script, "h2.out_of_buffer"),
            value_of(script, "h1.rnr_nak_retry_err"),
        )
    };
    let unlimited = script("", "100ms");
    assert_eq!(
        (value_of(&unlimited, "job.s.done"), rnr(&unlimited)),
        (1.0, (0.0, 0.0))
    );
    // Timer code 0 is 655.36 ms (IBTA table 45).
    let slow = script(", receives: 4, rnr_timer: 0", "600ms");
    assert_eq!((value_of(&slow, "job.s.done"), rnr(&slow)), (0.0, (1.0, 1.0)));
    assert_eq!(value_of(&slow, "job.s.received_messages"), 4.0);
    // 60 more receive entries at 10 000 per second take 6 ms.
    let rate = ", receives: 4, receive_rate: 10000, rnr_timer: 1";
    assert_eq!(value_of(&script(rate, "5ms"), "job.s.done"), 0.0);
    assert_eq!(value_of(&script(rate, "8ms"), "job.s.done"), 1.0);
    // Receive entries that are replaced as fast as messages arrive are always available.
    let fast = script(", receives: 4, receive_rate: 10000000", "100ms");
    assert_eq!((value_of(&fast, "job.s.done"), rnr(&fast)), (1.0, (0.0, 0.0)));
}

#[test]
fn frames_above_the_mtu_of_a_link_are_dropped() {
    for config in [
        "{}",
        "{preset: roce-lossless}",
        "{PORT: {Ethernet0: {mtu: 9100}, Ethernet4: {mtu: 9100}}}",
    ] {
        let lost = |size: u32| {
            let script = run_lab(&format!(
                "
name: x
topology:
  nodes:
    sw1: {{kind: switch, config: {config}}}
    sw2: {{kind: switch, config: {config}}}
    h1: {{kind: model}}
    h2: {{kind: model}}
  links:
    - {{endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"], speed: 10g}}
    - {{endpoints: [\"sw1:Ethernet4\", \"sw2:Ethernet4\"], speed: 10g, mtu: 1000}}
    - {{endpoints: [\"h2:eth0\", \"sw2:Ethernet0\"], speed: 10g}}
workload:
  duration: 100us
  flows:
    - {{name: f, from: h1, to: h2, frame: {size}, dscp: 26, rate: 10%, lossless: true}}
script:
  - wait: 1ms
  - expect: [flow.f.lost_frames >= 0, sw1.Ethernet0.drops.EXCEEDS_L2_MTU >= 0]
"
            ));
            let ports = ["Ethernet0", "Ethernet4"];
            let drops = ports.map(|port| value_of(&script, &format!("sw1.{port}.drops.EXCEEDS_L2_MTU")));
            let drops: f64 = drops.iter().sum();
            (
                value_of(&script, "flow.f.lost_frames"),
                drops,
                script.lab.report().exit(),
            )
        };
        // Frames of 998 bytes and the first frames of 1014 bytes fit in the MTU with an Ethernet header of 14
        // bytes. Frames of 1082 bytes do not fit.
        assert_eq!(lost(998), (0.0, 0.0, Exit::Ok), "{config}");
        let (frames, drops, exit) = lost(1082);
        assert!(frames > 0.0, "{config}");
        assert_eq!((drops, exit), (frames, Exit::CheckFailed), "{config}");
    }
}

#[test]
fn damaged_roce_frames_fail_a_receiver_of_a_lossless_flow() {
    // An RC SEND from 10.0.0.3 to queue pair 0x11 with a wrong ICRC.
    let packet = "0800 4500002c 00004000 401126bd 0a000003 0a000002 c00012b7 00180000 0400ffff 00000011 00000000 deadbeef";
    let lab = |to: &str, lossless: bool| {
        run_lab(&format!(
            "
name: x
topology:
  nodes:
    sw1: {{kind: switch, config: {{preset: roce-lossless}}}}
    h1: {{kind: model}}
    h2: {{kind: model}}
    h3: {{kind: model}}
  links:
    - {{endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"], speed: 10g}}
    - {{endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"], speed: 10g}}
    - {{endpoints: [\"h3:eth0\", \"sw1:Ethernet8\"], speed: 10g}}
workload:
  duration: 100us
  flows:
    - {{name: f, from: h1, to: h2, dscp: 26, rate: 10%, lossless: {lossless}}}
script:
  - wait: 10us
  - inject: {{from: h3, frame: [\"{to}\", \"02584f460003\", \"{packet}\"]}}
  - wait: 1ms
"
        ))
        .lab
        .report()
    };
    let (h1, h2) = ("02584f460001", "02584f460002");
    let report = lab(h2, true);
    assert_eq!(report.exit(), Exit::CheckFailed, "{:?}", report.receivers);
    let named = |failure: &String| failure.contains("h2 received RoCE frames: 1 damaged (ICRC)");
    assert!(report.failures.iter().any(named), "{:?}", report.failures);
    assert_eq!(lab(h2, false).exit(), Exit::Ok);
    assert_eq!(lab(h1, true).exit(), Exit::Ok, "h1 expects nothing");
}

#[test]
fn an_interrupted_script_reports_where_it_ended() {
    let text = format!("{LAB}  - {{wait: 10us}}\n  - {{wait: 1ms}}\n");
    let plan = parse_lab(&text, "x.xoff.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let limits = without_limits();
    let mut script = ScriptRun::new(plan, LabOptions::default(), limits.clone()).expect("set up");
    let first = script.lab.plan.script.steps.remove(0);
    assert!(script.run_step(&first).expect("a good step").is_ok());
    limits.stop.store(true, Ordering::Relaxed);
    let (result, report) = script.run("x.xoff.yml").expect("a good script");
    let reason = result.aborted.as_deref().unwrap_or_default();
    assert!(reason.ends_with("interrupted at 10.0 us"), "{reason}");
    assert!(!result.has_passed());
    assert_eq!(report.failures, [reason]);
}
