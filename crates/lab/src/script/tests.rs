//! Names and their values, on a lab that has run.

use std::cell::OnceCell;
use std::path::Path;

use xoff_units::Picos;

use super::super::expr::{Occurrence, ValueSource};
use super::super::options::LabOptions;
use super::super::parse_lab;
use super::super::plan::TimeMode;
use super::run::Script;
use super::values::Reading;
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

/// The lab after a script.
fn run(script: &str) -> Script {
    let text = format!("{LAB}{script}");
    let plan = parse_lab(&text, "x.xoff.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let steps = plan.script.steps.clone();
    let mut script = Script::new(plan, LabOptions::default(), u64::MAX).expect("set up");
    for step in &steps {
        assert!(script.step(step).expect("a good step").is_ok());
    }
    script
}

fn reading(script: &Script) -> Reading<'_> {
    Reading {
        lab: &script.lab,
        names: &script.names,
        events: &script.events,
        base: &script.base,
        results: OnceCell::new(),
    }
}

fn value(script: &Script, path: &str) -> f64 {
    let value = reading(script).value(path).expect(path);
    value.unwrap_or_else(|| panic!("{path} has no value"))
}

#[test]
fn every_name_has_a_value_once_everything_has_happened() {
    let script = run("  - wait: 3ms\n");
    let reading = reading(&script);
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
        for name in reading.matching(pattern).expect(pattern) {
            let value = reading.value(&name).expect("a name of the lab");
            // A port that has sent nothing has no utilisation, a collective no flows, a list no iterations of a size.
            let may_miss = name.ends_with("tx_utilisation_percent")
                // Nothing measures quality.
                || name.ends_with(".lb_band")
                || name.ends_with(".lb_load_permille")
                // No packet of that DSCP has come.
                || name.contains(".dscp")
                || (name.starts_with("job.ring.")
                    && ["completion", "slowdown", "jain", "completed"]
                        .iter()
                        .any(|part| name.contains(part)))
                || (name.starts_with("job.list.") && name.ends_with("bus_bandwidth_bps"));
            assert!(value.is_some() || may_miss, "{name}");
            count += 1;
        }
    }
    assert!(count > 1_000, "{count}");
    for pool in ["ingress_lossless_pool", "egress_lossy_pool"] {
        for counter in ["current_cells", "watermark_cells", "headroom_current_cells"] {
            value(&script, &format!("sw1.pool.{pool}.{counter}"));
        }
    }
}

#[test]
fn values_are_those_of_the_switch_and_its_hosts() {
    let script = run("  - wait: 3ms\n");
    let sum = |pattern: &str| -> f64 {
        let names = reading(&script).matching(pattern).expect(pattern);
        names.iter().map(|name| value(&script, name)).sum()
    };
    assert_eq!(sum("sw1.*.rx_packets"), value(&script, "sw1.rx_packets"));
    assert_eq!(sum("sw1.*.queue*.packets"), value(&script, "sw1.tx_packets"));
    // Announcements of the hosts are frames too.
    assert_eq!(sum("h*.nic_tx_frames"), value(&script, "sw1.rx_packets"));
    let of_flows_and_queue_pairs = value(&script, "flow.open.sent_frames") + sum("h*.tx_packets");
    assert!(sum("h*.nic_tx_frames") >= of_flows_and_queue_pairs);
    assert_eq!(value(&script, "flow.open.lost_frames"), 0.0);
    assert_eq!(
        value(&script, "flow.open.h1.sent_frames") + value(&script, "flow.open.h2.sent_frames"),
        value(&script, "flow.open.sent_frames")
    );
    assert!(value(&script, "sw1.Ethernet0.pfc3.tx") > 0.0, "180 % of a link");
    assert_eq!(
        value(&script, "sw1.Ethernet0.pfc3.tx"),
        value(&script, "h1.pfc3.rx")
    );
    assert_eq!(value(&script, "job.list.received_bytes"), 131_072.0);
    assert_eq!(value(&script, "job.list.h1.received_bytes"), 65_536.0);
    assert_eq!(value(&script, "now_us"), 3_000.0);
    assert!(value(&script, "job.ring.bus_bandwidth_bps") > 1e9);
    let event = |path: &str, which| reading(&script).event(path, which).expect(path);
    let first = event("xoff", Occurrence::First).expect("there were pauses");
    assert!(0.0 < first && first < 200e6, "{first} ps");
    assert_eq!(event("timeout", Occurrence::First), None);
    assert!(
        event("ce", Occurrence::Last) < event("h4.ce", Occurrence::Last),
        "it arrives later"
    );
}

#[test]
fn cleared_counters_begin_at_zero_and_states_do_not() {
    // Conditions name what is to be relative.
    let names = "  - expect: sw1.Ethernet0.rx_packets >= 0 and flow.open.sent_frames >= 0 and sw1.Ethernet0.pfc3.paused_us >= 0us and job.list.posted_bytes >= 0B and h1.nic_tx_frames >= 0\n";
    let before = run(&format!("  - wait: 100us\n{names}"));
    let script = run(&format!("  - wait: 100us\n  - clear: counters\n{names}"));
    for path in [
        "sw1.Ethernet0.rx_packets",
        "flow.open.sent_frames",
        "h1.nic_tx_frames",
    ] {
        assert!(value(&before, path) > 100.0, "{path}");
        assert_eq!(value(&script, path), 0.0, "{path}");
    }
    assert_eq!(value(&script, "job.list.posted_bytes"), 131_072.0);
    assert_eq!(reading(&script).event("xoff", Occurrence::First), Ok(None));
    let later = run(&format!(
        "  - wait: 100us\n  - clear: counters\n  - wait: 50us\n{names}"
    ));
    let whole = run(&format!("  - wait: 150us\n{names}"));
    let path = "sw1.Ethernet0.rx_packets";
    assert_eq!(
        value(&later, path),
        value(&whole, path) - value(&before, path),
        "a clear is no step of its own"
    );
}

#[test]
fn steps_do_what_they_say() {
    let script = run(
        "  - at: 1us\n    block: {port: \"sw1:Ethernet12\", queue: 3}\n  - link: {on: \"h3:eth0\", up: false}\n  - wait: 20us\n",
    );
    assert_eq!(script.lab.elapsed(), Picos::from_micros(21));
    assert_eq!(value(&script, "sw1.Ethernet8.up"), 0.0);
    assert!(value(&script, "sw1.Ethernet12.queue3.current_cells") > 100.0);
    let sent = value(&script, "sw1.Ethernet12.queue3.packets");
    assert!(
        sent < 200.0,
        "{sent}: what left in the first microsecond and before"
    );
    let events = |path: &str| reading(&script).event(path, Occurrence::First).expect(path);
    assert_eq!(events("drop"), Some(1e6), "frames went with the link at 1 us");
}

/// A lab of two hosts, after a script.
fn run_pair(config: &str, script: &str) -> Script {
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
    let mut script = Script::new(plan, LabOptions::default(), u64::MAX).expect("set up");
    for step in &steps {
        assert!(script.step(step).expect("a good step").is_ok());
    }
    script
}

#[test]
fn injected_frames_of_any_length_arrive_and_count() {
    let frame = "frame: [\"02:58:4f:46:00:02\", \"02:58:4f:46:00:01\", \"88b5 0000\"]";
    // 60: the shortest; 1600: longer than any frame of a host without flows; 9230: the longest that the link carries.
    for size in [60, 1_600, 9_230] {
        let script = run_pair(
            "{PORT: {Ethernet0: {mtu: 9216}}}",
            &format!(
                "  - clear: counters\n  - inject: {{from: h1, frames: 5, size: {size}, {frame}}}\n  - wait: 100us\n  \
                 - expect: [sw1.Ethernet0.rx_packets == 5, h1.nic_tx_frames == 5, h1.nic_tx_bytes > 0B]\n"
            ),
        );
        let names = ["sw1.Ethernet0.rx_packets", "h1.nic_tx_frames"];
        assert_eq!(names.map(|name| value(&script, name)), [5.0; 2], "{size} bytes");
        assert_eq!(
            value(&script, "h1.nic_tx_bytes"),
            5.0 * f64::from(size.max(60) + 4)
        );
    }
}

#[test]
fn injected_frames_that_find_no_room_are_counted() {
    // A frame every nanosecond, and a link that takes 1.2 us for one.
    let script = run_pair(
        "{}",
        "  - clear: counters\n  - inject: {from: h1, frames: 200, every: 1ns, size: 1514, frame: \"0258 4f46 0002 0258 4f46 0001 88b5\"}\n  \
         - wait: 1ms\n  - expect: [h1.nic_tx_frames > 0, h1.nic_tx_dropped_frames > 0, sw1.Ethernet0.rx_packets > 0]\n",
    );
    let sent = value(&script, "h1.nic_tx_frames");
    assert_eq!(value(&script, "sw1.Ethernet0.rx_packets"), sent);
    assert_eq!(value(&script, "h1.nic_tx_dropped_frames"), 200.0 - sent);
    assert!((64.0..=66.0).contains(&sent), "{sent}: 64 wait for the link");
}

#[test]
fn an_injected_pfc_frame_counts_as_a_pause() {
    let script = run_pair(
        "{preset: roce-lossless}",
        "  - clear: counters\n  - inject: {from: h2, frame: [\"01:80:c2:00:00:01\", \"00:00:00:00:00:00\", \"8808 0101\", \"0008\", \"0000 0000 0000 ffff\"]}\n  \
         - wait: 1us\n  - expect: [h2.nic_tx_frames == 0, h2.pfc3.tx == 1, sw1.Ethernet4.pfc3.rx == 1]\n",
    );
    assert_eq!(value(&script, "h2.nic_tx_frames"), 0.0);
    assert_eq!(value(&script, "h2.pfc3.tx"), 1.0);
    assert_eq!(value(&script, "sw1.Ethernet4.pfc3.rx"), 1.0);
}

/// A lab, after its script.
fn run_lab(text: &str) -> Script {
    let plan = parse_lab(text, "x.xoff.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let steps = plan.script.steps.clone();
    let mut script = Script::new(plan, LabOptions::default(), u64::MAX).expect("set up");
    for step in &steps {
        assert!(script.step(step).expect("a good step").is_ok());
    }
    script
}

#[test]
fn a_port_responds_to_pauses_after_its_response_time() {
    // 394 quanta at 100 Gb/s are 2017 ns: 16 frames of 1514 bytes leave meanwhile, of PFC and of 802.3x alike.
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
            value(&script, "sw1.Ethernet4.tx_packets")
        };
        assert!(sent("0") <= 1.0, "{pause}");
        assert!((14.0..=18.0).contains(&sent("standard")), "{pause}");
        assert!((6.0..=10.0).contains(&sent("197")), "{pause}");
    }
}

#[test]
fn a_host_without_pfc_honours_802_3x() {
    // Two senders at the full rate of a link each, and a switch that knows 802.3x alone.
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
        assert!(value(&script, "sw1.Ethernet0.pause_tx_frames") > 0.0);
        assert_eq!(value(&script, "flow.in.lost_frames"), 0.0, "{nic}");
    }
    assert!(
        value(&lab(", nic: {pfc: [3]}"), "flow.in.lost_frames") > 0.0,
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
    let rnr = |script: &Script| {
        (
            value(script, "h2.out_of_buffer"),
            value(script, "h1.rnr_nak_retry_err"),
        )
    };
    let unlimited = script("", "100ms");
    assert_eq!(
        (value(&unlimited, "job.s.done"), rnr(&unlimited)),
        (1.0, (0.0, 0.0))
    );
    // Timer code 0 is 655.36 ms (IBTA table 45).
    let slow = script(", receives: 4, rnr_timer: 0", "600ms");
    assert_eq!((value(&slow, "job.s.done"), rnr(&slow)), (0.0, (1.0, 1.0)));
    assert_eq!(value(&slow, "job.s.received_messages"), 4.0);
    // 60 further entries at 10 000 a second: 6 ms.
    let rate = ", receives: 4, receive_rate: 10000, rnr_timer: 1";
    assert_eq!(value(&script(rate, "5ms"), "job.s.done"), 0.0);
    assert_eq!(value(&script(rate, "8ms"), "job.s.done"), 1.0);
    // Entries that come back as fast as messages do are never missed.
    let fast = script(", receives: 4, receive_rate: 10000000", "100ms");
    assert_eq!((value(&fast, "job.s.done"), rnr(&fast)), (1.0, (0.0, 0.0)));
}

#[test]
fn the_mtu_of_any_link_bounds_what_passes_it() {
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
            let drops = ports.map(|port| value(&script, &format!("sw1.{port}.drops.EXCEEDS_L2_MTU")));
            let drops: f64 = drops.iter().sum();
            (
                value(&script, "flow.f.lost_frames"),
                drops,
                script.lab.report().exit(),
            )
        };
        // 998 and its first frames of 1014 bytes fit with their Ethernet header of 14; 1082 do not.
        assert_eq!(lost(998), (0.0, 0.0, Exit::Ok), "{config}");
        let (frames, drops, exit) = lost(1082);
        assert!(frames > 0.0, "{config}");
        assert_eq!((drops, exit), (frames, Exit::CheckFailed), "{config}");
    }
}

#[test]
fn damaged_roce_frames_fail_a_receiver_of_a_lossless_flow() {
    // An RC SEND for queue pair 0x11 from 10.0.0.3, whose ICRC is wrong.
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
