//! A QEMU guest on a stream port in a lossless overload: `testbeds/softroce/stream.xoff.yml`.
//!
//!     testbeds/softroce/build && cargo bench --bench stream_guest
//!
//! The bench passes if no lossless frame was lost, the counters of guest, switch and receiver agree, the switch has
//! stopped the stream of the guest, and the receiver got at least 0.9 of the rate at which it reads.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its results"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;
use serde_json::Value;
use xoff_testing::{BenchOutcome, finish_bench};

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");
const LAB: &str = "testbeds/softroce/stream.xoff.yml";
const CONSOLE: &str = "out/softroce/stream.console";
/// The rate at which h5 reads its receive buffer, in the lab file.
const DRAIN_BPS: f64 = 50e6;
/// The lossless priority.
const PRIORITY: usize = 3;
/// The ports of the guest and of h5 in the list of ports.
const GUEST_PORT: usize = 0;
const RECEIVER_PORT: usize = 4;

/// A guest on a stream, and three model hosts, overload a slow receiver.
#[derive(Debug, Parser)]
#[command(name = "stream_guest")]
struct Arguments {
    /// Smallest permitted ratio of the delivered rate and the rate at which the receiver reads.
    #[arg(long, default_value_t = 0.9)]
    ratio: f64,
    /// File for the report of the lab.
    #[arg(long)]
    report: Option<PathBuf>,
    /// Option that `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !arguments.bench {
        println!("stream_guest: skipped: it takes minutes; run it with `cargo bench --bench stream_guest`");
        return ExitCode::SUCCESS;
    }
    finish_bench(run(&arguments), &mut std::io::stdout(), &mut std::io::stderr())
}

fn run(arguments: &Arguments) -> Result<BenchOutcome, String> {
    let root = Path::new(REPOSITORY);
    let image = root.join("out/softroce/initramfs.cpio");
    if !image.is_file() {
        return Err(format!(
            "there is no {}; make it with `testbeds/softroce/build`",
            image.display()
        ));
    }
    let console = root.join(CONSOLE);
    let _ = std::fs::remove_file(&console);
    let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let own_report = folder.path().join("report.json");
    let report_path = arguments.report.as_deref().unwrap_or(&own_report);
    let status = Command::new(env!("CARGO_BIN_EXE_xoff"))
        .current_dir(root)
        .args(["lab", "run", LAB, "--report"])
        .arg(report_path)
        .status()
        .map_err(|error| format!("cannot start xoff: {error}"))?;
    let text = std::fs::read_to_string(report_path)
        .map_err(|error| format!("xoff ended with {status} and left no report: {error}"))?;
    let report: Value =
        serde_json::from_str(&text).map_err(|error| format!("the report of xoff: {error}"))?;
    let console = std::fs::read(&console).map_err(|error| format!("the console of the guest: {error}"))?;
    let guest = GuestCounters::read(&String::from_utf8_lossy(&console))
        .ok_or("the guest printed no result; look at the end of its console, out/softroce/stream.console")?;
    let (table, passes) = judge(&report, &guest, arguments.ratio);
    print!("{table}");
    // A stall of the machine can lose frames of the model hosts, so a tainted run proves nothing.
    Ok(match (report["verdict"].as_str(), passes) {
        (Some("tainted"), _) => BenchOutcome::Inconclusive,
        (_, true) => BenchOutcome::Pass,
        (_, false) => BenchOutcome::Fail,
    })
}

/// The counters that `udp-source` prints in the guest.
#[derive(Debug, PartialEq, Eq)]
struct GuestCounters {
    /// Packets of the packet generator.
    packets: u64,
    /// Packets that the network card has sent meanwhile.
    card: u64,
    dropped: u64,
    errors: u64,
}

impl GuestCounters {
    fn read(console: &str) -> Option<GuestCounters> {
        let line = console
            .lines()
            .find_map(|line| line.trim().strip_prefix("udp-source: "))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1)?.parse().ok()
        };
        Some(GuestCounters {
            packets: value("packets")?,
            card: value("card")?,
            dropped: value("dropped")?,
            errors: value("errors")?,
        })
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A figure, and whether it is as expected.
struct Figure {
    what: &'static str,
    value: u64,
    is_expected: bool,
}

impl Figure {
    fn new(what: &'static str, value: u64, is_expected: bool) -> Figure {
        Figure {
            what,
            value,
            is_expected,
        }
    }
}

/// Returns the counters of guest, switch and receiver. The network card of the guest also sends a few packets of the
/// kernel, such as neighbour discovery, in another class.
fn compare_counters(report: &Value, guest: &GuestCounters) -> Vec<Figure> {
    let ports = list(&report["switches"][0]["ports"]);
    let [from, to] = [GUEST_PORT, RECEIVER_PORT].map(|index| ports.get(index).unwrap_or(&Value::Null));
    let receiver = list(&report["receivers"])
        .iter()
        .find(|receiver| receiver["host"] == "h5");
    let at_receiver = ["roce_frames", "other_frames", "flooded_frames"]
        .map(|name| receiver.map_or(0, |receiver| number(&receiver["counters"][name])));
    let of_flows = |name: &str| {
        list(&report["flows"])
            .iter()
            .map(|flow| number(&flow[name]))
            .sum::<u64>()
    };
    let drops_of = |port: &Value| {
        let drops = port["drops"].as_object();
        drops.map_or(0, |drops| drops.values().map(number).sum::<u64>())
    };
    let drops = ports.iter().map(drops_of).sum();
    let lost_outside = ports.iter().map(|port| number(&port["host_lost"])).sum();
    let (received, lost) = (of_flows("received_frames"), of_flows("lost_frames"));
    let at_switch = number(&from["rx_class_packets"][PRIORITY]);
    let to_receiver = number(&to["tx_class_packets"][PRIORITY]);
    let all_to_receiver = number(&to["tx_packets"]);
    let all_at_receiver = at_receiver.iter().sum();
    let stream = &from["stream"];
    vec![
        Figure::new("packets that the guest sent", guest.packets, guest.packets > 0),
        Figure::new(
            "packets that its network card sent",
            guest.card,
            (guest.packets..=number(&from["rx_packets"])).contains(&guest.card),
        ),
        Figure::new(
            "packets that the guest dropped",
            guest.dropped,
            guest.dropped == 0,
        ),
        Figure::new("errors of its packet generator", guest.errors, guest.errors == 0),
        Figure::new(
            "class 3 of the guest at the switch",
            at_switch,
            at_switch == guest.packets,
        ),
        Figure::new("frames of the model hosts at h5", received, received > 0),
        Figure::new("frames of the model hosts lost", lost, lost == 0),
        Figure::new(
            "class 3 sent to h5",
            to_receiver,
            to_receiver == received + guest.packets,
        ),
        Figure::new(
            "all frames sent to h5",
            all_to_receiver,
            all_to_receiver >= to_receiver,
        ),
        Figure::new(
            "all frames at h5",
            all_at_receiver,
            all_at_receiver == all_to_receiver,
        ),
        Figure::new("frames dropped by the switch", drops, drops == 0),
        Figure::new("frames lost outside the switch", lost_outside, lost_outside == 0),
        Figure::new(
            "stops of the stream",
            number(&stream["stops"]),
            number(&stream["stops"]) > 0,
        ),
        Figure::new(
            "time of the stops in ms",
            number(&stream["stopped_ns"]) / 1_000_000,
            true,
        ),
    ]
}

/// Compares the counters and the rate. Returns a table and whether all conditions hold.
fn judge(report: &Value, guest: &GuestCounters, ratio_min: f64) -> (String, bool) {
    let mut text = String::new();
    let figures = compare_counters(report, guest);
    for figure in &figures {
        let verdict = if figure.is_expected { "ok" } else { "wrong" };
        let _ = writeln!(text, "{:36} {:>10}  {verdict}", figure.what, figure.value);
    }
    let to = &report["switches"][0]["ports"][RECEIVER_PORT];
    let span_s = number(&to["tx_span_ns"]) as f64 / 1e9;
    let delivered_bps = number(&to["tx_bytes"]) as f64 * 8.0 / span_s;
    let paused_percent = number(&to["paused_ns"][PRIORITY]) as f64 / 1e7 / span_s;
    let ratio = delivered_bps / DRAIN_BPS;
    let verdict = if ratio >= ratio_min { "ok" } else { "too low" };
    let _ = writeln!(
        text,
        "h5 paused its port for {paused_percent:.0} % of {span_s:.0} s, and got {:.2} Mb/s, {ratio:.3} of its rate  {verdict}",
        delivered_bps / 1e6
    );
    let holds = figures.iter().all(|figure| figure.is_expected) && ratio >= ratio_min;
    (text, holds)
}
