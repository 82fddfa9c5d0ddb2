//! Repeated floods of random frames next to a lossless flow, with real frames.
//!
//!     cargo bench --bench flood
//!     cargo bench --bench flood -- --repetitions 200 --seconds 2
//!
//! A lab has two model hosts and a plain host at one switch. One model host sends a lossless flow to the other one.
//! The plain host sends random frames as fast as its device takes them. In each repetition, every lost frame of the
//! flow must be in a drop counter with a reason, or the run must be tainted. The bench fails otherwise.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a bench")]

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::{Value, json};
use xoff_ports::tester::{FrameSender, SEND_BURST_FRAMES};
use xoff_testing::{BenchOutcome, finish_bench};

/// First argument of this program as the sender of the flood: the device and the duration in milliseconds follow.
const FLOOD_ARGUMENT: &str = "__flood";
/// DSCP and class of the flow.
const VICTIM_DSCP: u8 = 26;
const VICTIM_CLASS: usize = 3;
/// Number of different random frames of a flood.
const FRAME_COUNT: usize = 1024;
/// Lengths of the random frames in bytes, without FCS.
const FRAME_LEN: (u64, u64) = (60, 1_514);

/// Floods of random frames next to a lossless flow.
#[derive(Debug, Parser)]
#[command(name = "flood")]
struct Arguments {
    /// Number of labs, one after the other.
    #[arg(long, default_value_t = 20)]
    repetitions: u32,
    /// Duration of the flow and of the flood in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Seed of the random frames. Repetition n uses the seed plus n.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Option that `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The result of a repetition.
struct FloodResult {
    verdict: String,
    sent: u64,
    lost: u64,
    /// Drops of the class of the flow at the switch and at the receiver, with their reasons.
    drops: Vec<(String, u64)>,
    taints: Vec<String>,
    /// Frames that the switch received from the plain host.
    flood_frames: u64,
}

impl FloodResult {
    /// Returns whether each lost frame is counted, or the run is tainted.
    fn is_explained(&self) -> bool {
        let counted: u64 = self.drops.iter().map(|(_, count)| count).sum();
        self.verdict == "tainted" || self.lost <= counted
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if let [_, argument, device, milliseconds, seed] = words.as_slice()
        && argument == FLOOD_ARGUMENT
    {
        return match send_flood(device, milliseconds, seed) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("flood: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let arguments = Arguments::parse();
    if !arguments.bench {
        println!("flood: skipped: it takes minutes; run it with `cargo bench --bench flood`");
        return ExitCode::SUCCESS;
    }
    let outcome = run(&arguments).map(BenchOutcome::from);
    finish_bench(outcome, &mut std::io::stdout(), &mut std::io::stderr())
}

fn run(arguments: &Arguments) -> Result<bool, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let duration = Duration::try_from_secs_f64(arguments.seconds).map_err(|error| error.to_string())?;
    let (mut lossy, mut tainted, mut unexplained) = (0, 0, 0);
    for number in 0..arguments.repetitions {
        let seed = arguments.seed.wrapping_add(number.into());
        let result = run_lab(folder.path(), duration, seed)?;
        lossy += u32::from(result.lost > 0);
        tainted += u32::from(result.verdict == "tainted");
        unexplained += u32::from(!result.is_explained());
        println!(
            "{:3}: {}, {} frames sent, {} lost, {} flood frames, drops {:?}, taints {:?}{}",
            number + 1,
            result.verdict,
            result.sent,
            result.lost,
            result.flood_frames,
            result.drops,
            result.taints,
            if result.is_explained() {
                ""
            } else {
                ": NOT EXPLAINED"
            }
        );
    }
    println!(
        "{} repetitions: {lossy} with lost frames of the flow, {tainted} tainted, {unexplained} not explained",
        arguments.repetitions
    );
    Ok(unexplained == 0)
}

/// Runs the lab once and reads its report.
fn run_lab(folder: &Path, duration: Duration, seed: u64) -> Result<FloodResult, String> {
    let (lab, report) = (folder.join("flood.xoff.yml"), folder.join("report.json"));
    let _ = fs::remove_file(&report);
    let text = lab_text(duration, seed)?;
    fs::write(&lab, text).map_err(|error| format!("cannot write {}: {error}", lab.display()))?;
    let output = Command::new(env!("CARGO_BIN_EXE_xoff"))
        .args(["lab", "run"])
        .arg(&lab)
        .arg("--report")
        .arg(&report)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start xoff: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !matches!(output.status.code(), Some(0 | 1 | 5)) {
        return Err(format!("the lab ended with {}: {}", output.status, said.trim()));
    }
    let text = fs::read_to_string(&report).map_err(|error| format!("no report: {error}: {}", said.trim()))?;
    let report: Value = serde_json::from_str(&text).map_err(|error| format!("not a report: {error}"))?;
    read_result(&report, output.status.code())
}

fn read_result(report: &Value, code: Option<i32>) -> Result<FloodResult, String> {
    let flow = &report["flows"][0];
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let mut drops = Vec::new();
    let ports = report["switches"][0]["ports"].as_array().ok_or("no ports")?;
    for port in ports {
        let reasons = port["drops_by_class"].as_object().into_iter().flatten();
        for (reason, classes) in reasons {
            let frames = count(&classes[VICTIM_CLASS]);
            if frames > 0 {
                drops.push((
                    format!("{} {reason}", port["name"].as_str().unwrap_or("?")),
                    frames,
                ));
            }
        }
    }
    for receiver in report["receivers"].as_array().into_iter().flatten() {
        let frames = count(&receiver["counters"]["nic_dropped_frames"]);
        if frames > 0 {
            drops.push(("nic_dropped_frames".to_owned(), frames));
        }
    }
    let verdict = report["verdict"].as_str().ok_or("no verdict")?.to_owned();
    if (verdict == "tainted") != (code == Some(5)) {
        return Err(format!("the verdict is {verdict}, and the exit code is {code:?}"));
    }
    let taints = report["taints"].as_array().into_iter().flatten();
    let taints = taints.filter_map(|taint| taint["cause"].as_str().map(str::to_owned));
    Ok(FloodResult {
        verdict,
        sent: count(&flow["sent_frames"]),
        lost: count(&flow["lost_frames"]),
        drops,
        taints: taints.collect(),
        flood_frames: count(&ports[1]["rx_packets"]),
    })
}

/// Returns the lab file. The flood begins with the lab and ends with the flow.
fn lab_text(duration: Duration, seed: u64) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let flood = format!(
        "'{}' {FLOOD_ARGUMENT} eth0 {} {seed}",
        program.display(),
        duration.as_millis()
    );
    // JSON is valid YAML.
    let lab = json!({
        "name": format!("flood-{}", std::process::id()),
        "topology": {
            "nodes": {
                "sw1": {"kind": "switch", "config": {"preset": "roce-lossless"}},
                "h1": {"kind": "model"},
                "h2": {"kind": "plain", "exec": [flood]},
                "h3": {"kind": "model"},
            },
            "links": [
                {"endpoints": ["h1:eth0", "sw1:Ethernet0"], "speed": "1g"},
                {"endpoints": ["h2:eth0", "sw1:Ethernet4"], "speed": "1g"},
                {"endpoints": ["h3:eth0", "sw1:Ethernet8"], "speed": "1g"},
            ],
        },
        "workload": {
            "duration": format!("{}ms", duration.as_millis()),
            "flows": [{
                "name": "victim", "from": "h1", "to": "h3", "rate": "200m", "dscp": VICTIM_DSCP, "lossless": true,
            }],
        },
    });
    Ok(lab.to_string())
}

/// Sends random frames through `device` as fast as it takes them.
fn send_flood(device: &str, milliseconds: &str, seed: &str) -> Result<(), String> {
    let milliseconds: u64 = milliseconds.parse().map_err(|_| "not a number".to_owned())?;
    let mut random = SplitMix(seed.parse().map_err(|_| "not a number".to_owned())?);
    let frames: Vec<Vec<u8>> = (0..FRAME_COUNT).map(|_| random_frame(&mut random)).collect();
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let mut sender = FrameSender::open(device).map_err(|error| error.to_string())?;
    let end = Instant::now() + Duration::from_millis(milliseconds);
    while Instant::now() < end {
        for burst in frames.chunks(SEND_BURST_FRAMES) {
            // A full device loses frames of the flood, which is not the subject of this bench.
            sender.send(burst).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Returns a frame with random addresses, a random or common type, and random content. Its source is a unicast
/// address, and its destination is not the receiver of the flow.
fn random_frame(random: &mut SplitMix) -> Vec<u8> {
    let len = FRAME_LEN.0 + random.next() % (FRAME_LEN.1 - FRAME_LEN.0 + 1);
    let mut frame: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
    // Locally administered addresses that no host of a lab has.
    frame[0..2].copy_from_slice(&[0x06, 0x01]);
    frame[6..8].copy_from_slice(&[0x06, 0x02]);
    let types: [[u8; 2]; 4] = [
        [0x08, 0x00],
        [0x86, 0xdd],
        [0x81, 0x00],
        [random.next() as u8, 0x99],
    ];
    frame[12..14].copy_from_slice(&types[(random.next() % 4) as usize]);
    frame
}

/// The generator splitmix64.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
