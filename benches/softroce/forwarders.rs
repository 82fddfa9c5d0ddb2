//! The forwarder between the taps: a Linux bridge or xoff.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::Failure;
use crate::guest::command_ending_with_parent;

const TAPS: [&str; 2] = ["tap1", "tap2"];
/// An MTU above those of the guests, the same for both forwarders.
const TAP_MTU: &str = "9216";

/// Runs `ip`.
fn ip(arguments: &str) -> Result<String, Failure> {
    let output = Command::new("ip")
        .args(arguments.split_whitespace())
        .output()
        .map_err(|error| format!("cannot run ip: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "`ip {arguments}`: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// The taps of the guests, which QEMU has created.
#[derive(Debug)]
pub(crate) struct Taps(());

impl Taps {
    pub(crate) fn prepare() -> Result<Taps, Failure> {
        let end = Instant::now() + Duration::from_secs(20);
        for tap in TAPS {
            while ip(&format!("link show dev {tap}")).is_err() {
                if Instant::now() > end {
                    return Err(format!("QEMU does not make {tap}; is /dev/net/tun there?"));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            ip(&format!("link set dev {tap} mtu {TAP_MTU} up"))?;
        }
        // The fastest setting of the bridge: no netfilter.
        for file in ["iptables", "ip6tables", "arptables"] {
            let _ = std::fs::write(format!("/proc/sys/net/bridge/bridge-nf-call-{file}"), "0");
        }
        Ok(Taps(()))
    }

    /// Returns the frames that the kernel dropped on both taps in both directions.
    pub(crate) fn dropped(&self) -> Result<u64, Failure> {
        let mut sum = 0;
        for tap in TAPS {
            let text = ip(&format!("-json -statistics link show dev {tap}"))?;
            let link: Value = serde_json::from_str(&text).map_err(|error| format!("ip's JSON: {error}"))?;
            for direction in ["rx", "tx"] {
                sum += link[0]["stats64"][direction]["dropped"]
                    .as_u64()
                    .ok_or_else(|| format!("ip tells no drops of {tap}: {text}"))?;
            }
        }
        Ok(sum)
    }
}

/// A forwarder between the taps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Forwarder {
    Bridge,
    Xoff,
}

/// A running forwarder.
#[derive(Debug)]
pub(crate) enum RunningForwarder {
    Bridge,
    Xoff { child: Child, report: PathBuf },
}

impl Forwarder {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Forwarder::Bridge => "bridge",
            Forwarder::Xoff => "xoff",
        }
    }

    pub(crate) fn attach(
        self,
        folder: &Path,
        mtu: u32,
        more: &[String],
    ) -> Result<RunningForwarder, Failure> {
        match self {
            Forwarder::Bridge => {
                ip("link add br0 type bridge")?;
                for tap in TAPS {
                    ip(&format!("link set dev {tap} master br0"))?;
                }
                ip("link set dev br0 up")?;
                Ok(RunningForwarder::Bridge)
            }
            Forwarder::Xoff => start_xoff(folder, mtu, more),
        }
    }
}

fn start_xoff(folder: &Path, mtu: u32, more: &[String]) -> Result<RunningForwarder, Failure> {
    // The model speed is far above the speed of a guest, so that no burst of a message waits. The bridge has
    // no such limit. At 10 Gb/s, 64 KiB wait 53 us at ingress and again at egress.
    let port = json!({ "mtu": mtu.to_string(), "speed": "400000" });
    let config = folder.join("config_db.json");
    let text = json!({ "PORT": { "Ethernet0": port, "Ethernet4": port } }).to_string();
    std::fs::write(&config, text).map_err(|error| format!("cannot write {}: {error}", config.display()))?;
    let report = folder.join("report.json");
    let _ = std::fs::remove_file(&report);
    let mut command = command_ending_with_parent(env!("CARGO_BIN_EXE_xoff"));
    command
        .args(["switch", "run", "--config"])
        .arg(&config)
        .args(["--port", "Ethernet0=tap1", "--port", "Ethernet4=tap2", "--report"])
        .arg(&report)
        .args(more)
        .stdout(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot start xoff: {error}"))?;
    let mut first = String::new();
    if let Some(output) = child.stdout.take() {
        let mut output = BufReader::new(output);
        let _ = output.read_line(&mut first);
        // The report contains the output as well.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    }
    match first.starts_with("ready:") {
        true => Ok(RunningForwarder::Xoff { child, report }),
        false => Err(format!("xoff does not start: {first}")),
    }
}

impl RunningForwarder {
    /// Returns the processor time of xoff. The kernel does not count the processor time of a bridge.
    pub(crate) fn cpu_time(&self) -> Duration {
        let RunningForwarder::Xoff { child, .. } = self else {
            return Duration::ZERO;
        };
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        // After the name in parentheses, the state is field 3. User and system time are fields 14 and 15 in
        // hundredths of a second.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: u64 = fields
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<u64>().ok())
            .sum();
        Duration::from_millis(10 * ticks)
    }

    /// Stops the forwarder. Returns the problems of its run.
    pub(crate) fn detach(self) -> Result<Vec<String>, Failure> {
        match self {
            RunningForwarder::Bridge => ip("link del dev br0").map(|_| Vec::new()),
            RunningForwarder::Xoff { mut child, report } => {
                let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT);
                child
                    .wait()
                    .map_err(|error| format!("cannot wait for xoff: {error}"))?;
                let text = std::fs::read_to_string(&report)
                    .map_err(|error| format!("xoff left no report: {error}"))?;
                serde_json::from_str(&text)
                    .map(|report| complaints(&report))
                    .map_err(|error| format!("xoff's report: {error}"))
            }
        }
    }
}

fn complaints(report: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    if report["verdict"] != "clean" {
        let (taints, failures) = (&report["taints"], &report["failures"]);
        complaints.push(format!("verdict {}: {taints} {failures}", report["verdict"]));
    }
    for port in report["switches"][0]["ports"].as_array().into_iter().flatten() {
        let drops = &port["drops"];
        if drops.as_object().is_none_or(|drops| !drops.is_empty()) {
            complaints.push(format!("{} dropped {drops}", port["name"]));
        }
        if port["host_lost"] != 0 {
            complaints.push(format!(
                "the kernel lost {} frames of {}",
                port["host_lost"], port["name"]
            ));
        }
    }
    complaints
}
