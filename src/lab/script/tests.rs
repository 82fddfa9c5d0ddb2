//! Names and their values, on a lab that has run.

use std::cell::OnceCell;
use std::path::Path;

use xoff_dataplane::Picos;

use super::super::expr::{Values, Which};
use super::super::options::LabOptions;
use super::super::parse;
use super::super::plan::TimeMode;
use super::run::Script;
use super::values::Reading;

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
    let plan = parse(&text, "x.xoff.yml", Path::new(""), TimeMode::Virtual)
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
    let first = event("xoff", Which::First).expect("there were pauses");
    assert!(0.0 < first && first < 200e6, "{first} ps");
    assert_eq!(event("timeout", Which::First), None);
    assert!(
        event("ce", Which::Last) < event("h4.ce", Which::Last),
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
    assert_eq!(reading(&script).event("xoff", Which::First), Ok(None));
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
    let events = |path: &str| reading(&script).event(path, Which::First).expect(path);
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
    let plan = parse(&text, "x.xoff.yml", Path::new(""), TimeMode::Virtual)
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
                 - expect: [sw1.Ethernet0.rx_packets == 5, h1.nic_tx_frames == 5]\n"
            ),
        );
        let names = ["sw1.Ethernet0.rx_packets", "h1.nic_tx_frames"];
        assert_eq!(names.map(|name| value(&script, name)), [5.0; 2], "{size} bytes");
        assert_eq!(value(&script, "h1.nic_tx_bytes"), 5.0 * f64::from(size.max(60) + 4));
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
