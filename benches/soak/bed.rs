//! The test bed: a lab of three hosts and a switch. The headroom holds all frames that arrive within the
//! reaction budget of the machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Failure, Memory};

/// The port to the receiver.
pub(crate) const TO_RECEIVER: &str = "Ethernet8";
/// Headroom for 25 ms after XOFF, slightly more than the reaction budget of 20 ms, in bytes per Mb/s.
const HEADROOM_BYTES_PER_MBPS: u64 = 25_000 / 8;
/// Interval of memory samples.
const STEP: Duration = Duration::from_secs(1);
/// Additional time of a lab to start, drain and end.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The folder of the files of runs.
#[derive(Debug)]
pub(crate) struct TestBed {
    folder: TempDir,
    frame: u32,
}

/// The results of a run.
#[derive(Debug)]
pub(crate) struct SoakRun {
    /// `xoff.report/1`.
    pub(crate) report: Value,
    pub(crate) memory: Memory,
}

impl SoakRun {
    /// Returns true if a disturbance outside the model can have changed the result.
    pub(crate) fn is_tainted(&self) -> bool {
        self.report["verdict"] == "tainted" || self.report["verdict"] == "no-traffic"
    }

    /// Returns the report of the port to the receiver.
    pub(crate) fn to_receiver(&self) -> &Value {
        let ports = self.report["switches"][0]["ports"].as_array();
        ports
            .and_then(|ports| ports.iter().find(|port| port["name"] == TO_RECEIVER))
            .unwrap_or(&Value::Null)
    }

    /// Returns the share of the time in which the link to the receiver carried frames.
    pub(crate) fn utilisation(&self) -> f64 {
        self.to_receiver()["tx_utilisation"].as_f64().unwrap_or(0.0)
    }
}

impl TestBed {
    pub(crate) fn new(frame: u32) -> Result<TestBed, Failure> {
        let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
        Ok(TestBed { folder, frame })
    }

    /// Runs the lab for `time` at links of `speed` Mb/s.
    pub(crate) fn run(&self, speed: u32, time: Duration) -> Result<SoakRun, Failure> {
        let lab = self.folder.path().join("soak.xoff.yml");
        let report = self.folder.path().join("report.json");
        let _ = fs::remove_file(&report);
        // JSON is valid YAML.
        let text = description(speed, self.frame, time).to_string();
        fs::write(&lab, text).map_err(|error| format!("cannot write {}: {error}", lab.display()))?;
        let memory = watch(&lab, &report, time)?;
        let text = fs::read_to_string(&report).map_err(|error| {
            format!("the lab has left no report: {error}; run it by hand, `xoff doctor` says more")
        })?;
        let report = serde_json::from_str(&text).map_err(|error| format!("not a report: {error}"))?;
        Ok(SoakRun { report, memory })
    }
}

/// Starts the lab and samples its memory until it has ended.
fn watch(lab: &Path, report: &Path, time: Duration) -> Result<Memory, Failure> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
    command.args(["lab", "run"]).arg(lab).arg("--report").arg(report);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot start xoff: {error}"))?;
    let end = Instant::now() + time + TIMEOUT;
    let mut memory = Memory::default();
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < end => {
                memory.sample(child.id());
                thread::sleep(STEP);
            }
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err("the lab does not end".to_owned());
            }
            Ok(Some(status)) if matches!(status.code(), Some(0 | 1 | 5)) => return Ok(memory),
            Ok(Some(status)) => {
                let said = child.stderr.take().map(std::io::read_to_string);
                let said = said.and_then(Result::ok).unwrap_or_default();
                return Err(format!("the lab ended with {status}: {}", said.trim()));
            }
            Err(error) => return Err(format!("cannot wait for xoff: {error}")),
        }
    }
}

fn description(speed: u32, frame: u32, time: Duration) -> Value {
    let headroom = HEADROOM_BYTES_PER_MBPS * u64::from(speed);
    let base = concat!(env!("CARGO_MANIFEST_DIR"), "/testbeds/incast.config_db.json");
    let port = json!({"speed": speed.to_string()});
    let sizes = json!({
        "PORT": {"Ethernet0": port, "Ethernet4": port, "Ethernet8": port},
        "BUFFER_PROFILE": {"pg_lossless_1000_profile": {"xoff": headroom.to_string()}},
        "BUFFER_POOL": {
            "ingress_lossless_pool": {"xoff": (3 * headroom).to_string()},
            "egress_lossless_pool": {"size": u32::MAX.to_string()},
        },
    });
    let link = |n: u32| json!({"endpoints": [format!("h{n}:eth0"), format!("sw1:Ethernet{}", 4 * (n - 1))], "speed": format!("{speed}m")});
    json!({
        "name": "soak",
        "topology": {
            "nodes": {
                "sw1": {"kind": "switch", "config": [base, sizes]},
                "h1": {"kind": "model"}, "h2": {"kind": "model"}, "h3": {"kind": "model"},
            },
            "links": [link(1), link(2), link(3)],
        },
        "workload": {
            "duration": format!("{}ms", time.as_millis()),
            "flows": [{"name": "all", "from": ["h1", "h2"], "to": "h3", "rate": "100%", "dscp": 26, "lossless": true, "frame": frame}],
        },
    })
}
