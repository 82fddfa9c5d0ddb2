//! xoff with a typical configuration: classes, PFC, ECN and buffers of the preset `roce-lossless`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use xoff_config::build_preset;
use xoff_units::Picos;

use super::RunningForwarder;
use crate::Failure;
use crate::bed::{Cables, FORWARDER_DEVICES, TestBed};
use crate::child::Program;

/// Longest permitted stall of the machine (the default of `switch run`).
pub(crate) const REACTION_BUDGET: Picos = Picos::from_micros(20_000);
const PORTS: [&str; 2] = ["Ethernet0", "Ethernet4"];

/// Options of a switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switch<'a> {
    /// The xoff program.
    pub(crate) program: &'a Path,
    /// `packet` or `xdp`.
    pub(crate) backend: &'a str,
    /// `spin` or `adaptive`.
    pub(crate) idle: &'a str,
    /// The core of the switch's worker, and of each I/O worker. Empty: one worker, which the kernel places on
    /// the forwarder's core.
    pub(crate) cores: &'a [usize],
    /// Model speed of both ports in Mb/s.
    pub(crate) speed_mbps: u32,
    /// Has the priority group of the lossless class take some 15 KiB before it says XOFF,
    /// instead of megabytes.
    pub(crate) small_group: bool,
    /// Path of the control socket. `None`: no control API.
    pub(crate) control: Option<&'a Path>,
}

impl Switch<'_> {
    /// Returns options with a model speed at which no frame of a veth waits.
    pub(crate) fn fast<'a>(backend: &'a str, idle: &'a str) -> Switch<'a> {
        Switch {
            program: Path::new(env!("CARGO_BIN_EXE_xoff")),
            backend,
            idle,
            cores: &[],
            speed_mbps: 100_000,
            small_group: false,
            control: None,
        }
    }

    /// Starts the switch between the forwarder's devices.
    pub(crate) fn start(&self, bed: &TestBed, cables: &Cables<'_>) -> Result<RunningForwarder, Failure> {
        let config = bed.folder.path().join("config_db.json");
        let text = self.configuration(cables.mtu)?.to_string();
        std::fs::write(&config, text)
            .map_err(|error| format!("cannot write {}: {error}", config.display()))?;
        let report = report(bed);
        // Remove the report of the previous run.
        let _ = std::fs::remove_file(&report);
        let (workers, pin) = match self.cores {
            [] => (1, "none".to_owned()),
            cores => (cores.len(), list(cores)),
        };
        let change = |command: &mut Command| {
            command
                .args(["switch", "run", "--config"])
                .arg(&config)
                .args([
                    "--idle",
                    self.idle,
                    "--pin",
                    &pin,
                    "--workers",
                    &workers.to_string(),
                    "--report",
                ])
                .arg(&report);
            if let Some(socket) = self.control {
                command.arg("--api").arg(socket);
            }
            for (port, device) in PORTS.iter().zip(FORWARDER_DEVICES) {
                command.args(["--port", &format!("{port}={device},backend={}", self.backend)]);
            }
        };
        let output = bed.folder.path().join("xoff.txt");
        let allowed = match self.cores {
            [] => &[bed.cores.forwarder],
            cores => cores,
        };
        let mut program = Program::start_on(allowed, self.program, change, &output, bed.cores)?;
        program.wait_for("ready:")?;
        Ok(RunningForwarder::programs(vec![program]))
    }

    fn configuration(&self, mtu: u32) -> Result<Value, Failure> {
        let ports: Vec<(String, u32)> = PORTS
            .iter()
            .map(|name| ((*name).to_owned(), self.speed_mbps))
            .collect();
        let text = build_preset("roce-lossless", &ports, REACTION_BUDGET)
            .map_err(|error| error.to_string())?
            .to_json();
        let mut config: Value =
            serde_json::from_str(&text).map_err(|error| format!("the preset: {error}"))?;
        for port in PORTS {
            config["PORT"][port]["mtu"] = json!(mtu.to_string());
        }
        if self.small_group {
            config["BUFFER_POOL"]["ingress_lossless_pool"]["size"] = json!("1048576");
            let profile = format!("pg_lossless_{}_profile", self.speed_mbps);
            config["BUFFER_PROFILE"][&profile]["dynamic_th"] = json!("-6");
            config["BUFFER_PROFILE"][&profile]["xon_offset"] = json!("4096");
        }
        Ok(config)
    }
}

/// Returns the time in which the worker of a stopped switch was busy, from its report.
pub(crate) fn worker_busy_ns(bed: &TestBed) -> Result<u64, Failure> {
    let text =
        std::fs::read_to_string(report(bed)).map_err(|error| format!("xoff left no report: {error}"))?;
    let report: Value = serde_json::from_str(&text).map_err(|error| format!("xoff's report: {error}"))?;
    report["switches"][0]["worker_busy_ns"]
        .as_u64()
        .ok_or_else(|| "xoff's report does not say how long its worker was busy".to_owned())
}

/// Returns the path of the report that the switch writes at its end.
pub(crate) fn report(bed: &TestBed) -> PathBuf {
    bed.folder.path().join("report.json")
}

fn list(cores: &[usize]) -> String {
    let words: Vec<String> = cores.iter().map(usize::to_string).collect();
    words.join(",")
}
