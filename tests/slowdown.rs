//! Comparisons of the slowdown reference with virtual time: a message without other traffic takes exactly its
//! least time, and no message takes less.

use std::fmt::Write as _;
use std::path::Path;

use xoff_lab::plan::TimeMode;
use xoff_lab::{LabOptions, VirtualLab, parse_lab};
use xoff_units::Picos;
use xoff_workload::FlowResult;

/// Runs a lab to its end. Returns all its messages.
fn run_lab(text: &str) -> Vec<FlowResult> {
    let plan = parse_lab(text, "test.xoff.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    let lab = VirtualLab::new(plan, LabOptions::default());
    let mut lab = lab.unwrap_or_else(|failure| panic!("{failure}\n{text}"));
    lab.start(&mut ())
        .unwrap_or_else(|failure| panic!("{failure}\n{text}"));
    lab.run(Picos::from_millis(10_000), true, &mut ());
    lab.job_results().flows
}

/// Asserts that every message of a lab without other traffic takes its least time within half a percent.
fn assert_least_times(text: &str) {
    let flows = run_lab(text);
    assert!(!flows.is_empty(), "{text}");
    for flow in flows {
        let slowdown = flow
            .slowdown
            .unwrap_or_else(|| panic!("{flow:?} did not complete\n{text}"));
        assert!(
            (1.0..=1.005).contains(&slowdown),
            "slowdown {slowdown} of {flow:?}\n{text}"
        );
    }
}

/// A fixed sequence of random numbers.
struct RandomSource(u64);

impl RandomSource {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn choose<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

const SPEEDS: [&str; 7] = ["10g", "25g", "40g", "100g", "200g", "400g", "800g"];
const MTUS: [u64; 5] = [256, 1000, 1024, 4096, 1500];

/// Returns jobs of one message each, 20 ms apart, each with its own transport `(qps, out_of_order)`.
fn single_message_jobs(
    random: &mut RandomSource,
    (from, to): (&str, &str),
    qps: &[u64],
    options: &str,
) -> String {
    let (mut transports, mut jobs) = (String::new(), String::new());
    for (n, verb) in ["write", "send", "read", "uc-write", "ud-send", "write"]
        .iter()
        .enumerate()
    {
        let (service, verb) = verb.split_once('-').unwrap_or(("rc", verb));
        let mtu = random.choose(&MTUS);
        let sizes = [
            1,
            63,
            mtu - 1,
            mtu,
            mtu + 1,
            2 * mtu,
            5 * mtu + 40,
            100_003,
            1_000_000,
            3_000_000,
        ];
        let bytes = if service == "ud" {
            random.below(mtu)
        } else {
            random.choose(&sizes)
        };
        let qps = if service == "ud" { 1 } else { random.choose(qps) };
        let options = if service == "rc" { options } else { "" };
        let _ = writeln!(
            transports,
            "  t{n}: {{mtu: {mtu}, transport: {service}, congestion: none, qps: {qps}, spread: split{options}}}"
        );
        let _ = writeln!(
            jobs,
            "    - {{name: j{n}, kind: flows, verb: {verb}, transport: t{n}, start: {}ms, flows: [{{from: {from}, to: {to}, bytes: {bytes}}}]}}",
            20 * n
        );
    }
    format!("transports:\n{transports}workload:\n  jobs:\n{jobs}")
}

#[test]
fn a_single_message_over_links_of_different_speeds_takes_its_least_time() {
    let mut random = RandomSource(7);
    for round in 0..40 {
        let switches = 1 + random.below(4);
        let (mut nodes, mut links) = (String::new(), String::new());
        for n in 0..=switches {
            let end = |n: u64, port: &str| match n {
                0 => "h1:eth0".to_owned(),
                n if n > switches => "h2:eth0".to_owned(),
                n => format!("s{n}:{port}"),
            };
            let _ = writeln!(
                links,
                "    - {{endpoints: [\"{}\", \"{}\"], speed: {}, delay: {}ns}}",
                end(n, "Ethernet4"),
                end(n + 1, "Ethernet0"),
                random.choose(&SPEEDS),
                random.below(3_000)
            );
        }
        for n in 1..=switches {
            let latency = random.choose(&[0, 0, 350, 1_001]);
            let _ = writeln!(
                nodes,
                "    s{n}: {{kind: switch, config: [{{preset: roce-lossless}}, {{XOFF_SWITCH: {{localhost: {{pipeline_latency: {latency}}}}}}}]}}"
            );
        }
        let routes = random.choose(&["auto", "none"]);
        let workload = single_message_jobs(&mut random, ("h1", "h2"), &[1, 1, 2, 5], "");
        assert_least_times(&format!(
            "name: chain{round}\ntopology:\n  routes: {routes}\n  nodes:\n{nodes}    h1: {{kind: model}}\n    h2: {{kind: model}}\n  links:\n{links}{workload}"
        ));
    }
}

/// The calculation for 100 Gb/s, two links of 1 us and packets of 1000 bytes, which occupy 1082 bytes of the
/// link and the first one 1098. A short last packet waits at the switch behind the full packet before it.
#[test]
fn the_least_time_over_one_switch_equals_the_calculation() {
    for (bytes, ideal_ns) in [
        (500, 2_093),
        (4_040, 2_443),
        (8_043, 2_789),
        (100_000, 10_743),
        (1_000_000, 88_647),
    ] {
        let flows = run_lab(&format!(
            "name: alone\ntopology: {{fabric: {{star: {{hosts: 2, speed: 100g, delay: 1us, config: {{preset: roce-lossless}}}}}}}}\n\
             transports: {{default: {{mtu: 1000}}}}\nworkload: {{jobs: [{{name: f, kind: flows, flows: [{{from: h1, to: h2, bytes: {bytes}}}]}}]}}\n"
        ));
        let figures: Vec<_> = flows.iter().map(|flow| (flow.ideal_ns, flow.slowdown)).collect();
        assert_eq!(figures, [(Some(ideal_ns), Some(1.0))], "{bytes}");
    }
}

/// The hash places a queue pair on one of several equal paths.
#[test]
fn a_single_queue_pair_in_a_fabric_takes_the_least_time_of_one_path() {
    let mut random = RandomSource(11);
    for (template, to) in [
        ("leaf-spine: {leaves: 2, spines: 3, hosts: 2", "h4"),
        ("leaf-spine: {leaves: 2, spines: 2, uplinks: 2, hosts: 2", "h3"),
        ("fat-tree: {k: 4", "h16"),
        ("fat-tree: {k: 4", "h4"),
        ("rail: {nodes: 2, gpus: 2, spines: 2", "n2-g2"),
        ("dumbbell: {left: 2, right: 2, uplinks: 2", "h3"),
        ("star: {hosts: 3", "h2"),
    ] {
        let from = if to.starts_with('n') { "n1-g1" } else { "h1" };
        let (speed, uplink) = (random.choose(&SPEEDS), random.choose(&SPEEDS));
        let (delay, uplink_delay) = (random.below(2_000), random.below(2_000));
        let uplinks = match template.starts_with("star") {
            true => String::new(),
            false => format!(", uplink_speed: {uplink}, uplink_delay: {uplink_delay}ns"),
        };
        let workload = single_message_jobs(&mut random, (from, to), &[1], "");
        assert_least_times(&format!(
            "name: fabric\ntopology:\n  fabric:\n    {template}, speed: {speed}, delay: {delay}ns{uplinks}, config: {{preset: roce-lossless}}}}\n{workload}"
        ));
    }
}

/// Packets alternate over equal paths, which are faster or slower than the links of the hosts together. A
/// short last packet may overtake longer ones.
#[test]
fn a_single_sprayed_message_takes_the_least_time_of_all_paths() {
    let mut random = RandomSource(13);
    for round in 0..60 {
        let (template, to) = match random.below(5) {
            0 | 1 => {
                let spines = 2 + random.below(7);
                (
                    format!("leaf-spine: {{leaves: 2, spines: {spines}, hosts: 2"),
                    "h3",
                )
            }
            2 => (
                format!("dumbbell: {{left: 2, right: 2, uplinks: {}", 2 + random.below(4)),
                "h3",
            ),
            3 => ("fat-tree: {k: 4".to_owned(), "h16"),
            _ => ("fat-tree: {k: 6".to_owned(), "h4"),
        };
        let (speed, uplink) = (random.choose(&SPEEDS), random.choose(&SPEEDS));
        let (delay, uplink_delay) = (random.below(2_000), random.below(2_000));
        let options = ", out_of_order: 10ms, reorder_window_packets: 65536";
        let workload = single_message_jobs(&mut random, ("h1", to), &[1], options);
        // Unreliable queue pairs discard packets after a gap.
        let workload = workload.replace("transport: uc", "transport: rc, out_of_order: 10ms");
        assert_least_times(&format!(
            "name: spray{round}\ntopology:\n  defaults: {{load_balancing: round-robin}}\n  fabric:\n    {template}, speed: {speed}, uplink_speed: {uplink}, delay: {delay}ns, uplink_delay: {uplink_delay}ns, config: {{preset: roce-lossless}}}}\n{workload}"
        ));
    }
}

/// A work request has at most 2^31 bytes, so these messages need two of them.
#[test]
fn a_message_of_more_than_two_gib_takes_its_least_time() {
    for verb in ["write", "read"] {
        assert_least_times(&format!(
            "name: long\ntopology:\n  fabric:\n    leaf-spine: {{leaves: 1, spines: 1, hosts: 2, speed: 400g, config: {{preset: roce-lossless}}}}\n\
             transports:\n  default: {{mtu: 8192, ack_every: 64}}\n\
             workload:\n  jobs:\n    - {{name: in, kind: incast, from: [h1], to: h2, bytes: 2147483649, verb: {verb}}}\n"
        ));
    }
}

#[test]
fn no_message_is_faster_than_its_least_time() {
    let mut random = RandomSource(17);
    for congestion in ["none", "dcqcn", "dcqcn-nic", "dctcp", "timely", "swift", "hpcc"] {
        for balancing in ["ecmp", "round-robin", "flowlet", "drill"] {
            let (spread, qps) = (random.choose(&["split", "round-robin"]), random.choose(&[1, 3]));
            let (speed, uplink) = (random.choose(&["25g", "100g"]), random.choose(&["25g", "100g"]));
            let verb = random.choose(&["write", "send", "read"]);
            let flows = run_lab(&format!(
                "name: shared\ntopology:\n  defaults: {{load_balancing: {balancing}}}\n  fabric:\n    leaf-spine: {{leaves: 2, spines: 2, hosts: 3, speed: {speed}, uplink_speed: {uplink}, delay: 500ns, config: {{preset: roce-lossless}}}}\n\
                 transports:\n  default: {{mtu: 1000, congestion: {congestion}, qps: {qps}, spread: {spread}, out_of_order: 100us}}\n\
                 workload:\n  jobs:\n    - {{name: in, kind: incast, from: [h1, h2, h4], to: h3, bytes: 40003, verb: {verb}}}\n    - {{name: p, kind: permutation, hosts: all, bytes: 7777}}\n    \
                 - {{name: r, kind: poisson, from: all, to: all, sizes: 3k, load: 60%, flows_max: 100}}\n"
            ));
            for flow in flows {
                let slowdown = flow.slowdown.unwrap_or(1.0);
                assert!(
                    slowdown >= 1.0,
                    "{congestion}, {balancing}, {verb}: {slowdown} of {flow:?}"
                );
            }
        }
    }
}
