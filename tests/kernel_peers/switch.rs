//! A switch in its own process.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use libtest_mimic::Failed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use xoff_control::{Client, ControlAddress};
use xoff_telemetry::SwitchReport;

use crate::support::{check, wait_for};

/// The configuration of a switch and the device of each port.
pub(crate) struct SwitchSpec {
    pub(crate) config: Value,
    pub(crate) ports: Vec<(&'static str, &'static str)>,
}

pub(crate) struct Switch {
    folder: tempfile::TempDir,
    child: Child,
    client: Client,
}

/// The results of a switch after its end.
pub(crate) struct SwitchResult {
    /// Cause of a disturbance that makes the run inconclusive.
    pub(crate) taint: Option<String>,
    pub(crate) report: SwitchReport,
    /// Text of standard error.
    pub(crate) stderr: String,
}

impl Switch {
    /// Starts the switch in the namespace of the calling thread and waits until its links are up.
    pub(crate) fn start(plan: &SwitchSpec) -> Result<Switch, Failed> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("config.json"), plan.config.to_string())?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
        command
            .current_dir(folder.path())
            .args(["switch", "run", "--config", "config.json", "--api", "api"])
            // One worker thread per switch: two switches and two hosts share two cores.
            .args(["--report", "report.json", "--workers", "1", "--pin", "none"]);
        for (port, device) in &plan.ports {
            command.args(["--port", &format!("{port}={device}")]);
        }
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(File::create(folder.path().join("stderr"))?)
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().ok_or("no standard output")?).read_line(&mut line)?;
        if !line.starts_with("ready") {
            let _ = child.kill();
            let _ = child.wait();
            let stderr = fs::read_to_string(folder.path().join("stderr"))?;
            return Err(format!("not ready: {line:?}, {stderr}").into());
        }
        let client = Client::connect(&ControlAddress::Path(folder.path().join("api")))
            .map_err(|failure| failure.to_string())?;
        let mut switch = Switch {
            folder,
            child,
            client,
        };
        wait_for("the links are up", || {
            let up = switch.report()?.ports.iter().filter(|port| port.up).count();
            Ok((up == plan.ports.len()).then_some(()))
        })?;
        Ok(switch)
    }

    /// Returns the counters of the running switch.
    pub(crate) fn report(&mut self) -> Result<SwitchReport, Failed> {
        let counters = self.client.counters().map_err(|failure| failure.to_string())?;
        Ok(counters.switch)
    }

    pub(crate) fn stop(mut self) -> Result<SwitchResult, Failed> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM)?;
        let code = self.child.wait()?.code();
        let stderr = fs::read_to_string(self.folder.path().join("stderr"))?;
        check(matches!(code, Some(0 | 5)), || {
            format!("exit code {code:?}: {stderr}")
        })?;
        let report: Value = serde_json::from_slice(&fs::read(self.folder.path().join("report.json"))?)?;
        let tainted = report["verdict"] == "tainted";
        Ok(SwitchResult {
            taint: tainted.then(|| report["taints"][0]["cause"].to_string()),
            report: serde_json::from_value(report["switches"][0].clone())?,
            stderr,
        })
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // A failed check leaves the process running. An error for an ended process is ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
