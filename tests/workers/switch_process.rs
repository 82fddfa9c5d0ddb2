//! A switch in its own process with a veth at each port, and a sender and receiver at the far end
//! of each veth.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use libtest_mimic::Failed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use xoff_control::{Client, ControlAddress};
use xoff_ports::net::{Netns, add_veth, delete_link};
use xoff_telemetry::{PortReport, SwitchReport};

use crate::far_end::FarEnd;
use crate::support::{check, wait_for};

/// MTU of the veths. The MTU of the ports is 1500. The switch receives frames of lengths between the two and
/// must drop them.
const CABLE_MTU: u32 = 1600;

pub(crate) fn xoff_command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
}

/// Returns the name of port `n`.
pub(crate) fn port_name(n: usize) -> String {
    format!("Ethernet{}", 4 * n)
}

/// Creates the cable of port `n`: `v<n>` for the switch and `h<n>` for the test.
pub(crate) fn add_cable(n: usize) -> Result<FarEnd, Failed> {
    add_veth(&format!("v{n}"), &format!("h{n}"), None, CABLE_MTU)?;
    FarEnd::open(&Netns::current()?, &format!("h{n}"))
}

/// A switch and the far ends of its cables.
pub(crate) struct SwitchProcess {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) far_ends: Vec<FarEnd>,
    child: Child,
    client: Client,
}

/// Exit code and report of a switch.
pub(crate) struct SwitchResult {
    pub(crate) code: Option<i32>,
    pub(crate) report: Value,
}

impl SwitchProcess {
    /// Starts a switch with a cable at each of `ports` ports.
    pub(crate) fn start(config: &Value, ports: usize, options: &[&str]) -> Result<SwitchProcess, Failed> {
        let far_ends = (0..ports).map(add_cable).collect::<Result<_, _>>()?;
        SwitchProcess::start_on_cables(tempfile::tempdir()?, far_ends, config, ports, options)
    }

    /// Starts a switch on existing cables.
    pub(crate) fn start_on_cables(
        folder: tempfile::TempDir,
        far_ends: Vec<FarEnd>,
        config: &Value,
        ports: usize,
        options: &[&str],
    ) -> Result<SwitchProcess, Failed> {
        SwitchProcess::start_with_backend("auto", folder, far_ends, config, ports, options)
    }

    /// Starts a switch on existing cables with this port backend.
    pub(crate) fn start_with_backend(
        backend: &str,
        folder: tempfile::TempDir,
        far_ends: Vec<FarEnd>,
        config: &Value,
        ports: usize,
        options: &[&str],
    ) -> Result<SwitchProcess, Failed> {
        fs::write(folder.path().join("config.json"), config.to_string())?;
        let mut command = xoff_command();
        command
            .current_dir(folder.path())
            .args(["switch", "run", "--config", "config.json", "--api", "api"])
            .args(["--report", "report.json"])
            .args(options);
        for n in 0..ports {
            command.args(["--port", &format!("{}=v{n},backend={backend}", port_name(n))]);
        }
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(File::create(folder.path().join("stderr"))?)
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().ok_or("no standard output")?).read_line(&mut line)?;
        let stderr = folder.path().join("stderr");
        if !line.starts_with("ready") {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("not ready: {line:?}, {}", fs::read_to_string(stderr)?).into());
        }
        let client = Client::connect(&ControlAddress::Path(folder.path().join("api")))
            .map_err(|failure| failure.to_string())?;
        let mut switch_process = SwitchProcess {
            folder,
            far_ends,
            child,
            client,
        };
        let links = switch_process.far_ends.len();
        switch_process.wait_for_counters("the links are up", |switch| {
            switch.ports.iter().filter(|port| port.up).count() >= links
        })?;
        Ok(switch_process)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the text that the switch wrote to standard error.
    pub(crate) fn stderr(&self) -> Result<String, Failed> {
        Ok(fs::read_to_string(self.path("stderr"))?)
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Runs a command that connects to this switch.
    pub(crate) fn run_command(&self, words: &[&str]) -> Result<Output, Failed> {
        let mut command = xoff_command();
        command.current_dir(self.folder.path()).args(words);
        Ok(command.args(["--api", "api"]).output()?)
    }

    /// Returns the client of the control socket.
    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    pub(crate) fn counters(&mut self) -> Result<SwitchReport, Failed> {
        let counters = self.client.counters().map_err(|failure| failure.to_string())?;
        Ok(counters.switch)
    }

    /// Waits until the counters meet a condition. Meanwhile the test reads the small sockets of the far ends.
    pub(crate) fn wait_for_counters(
        &mut self,
        what: &str,
        mut is: impl FnMut(&SwitchReport) -> bool,
    ) -> Result<SwitchReport, Failed> {
        let mut last = None;
        wait_for(what, || {
            self.far_ends.iter_mut().try_for_each(FarEnd::read_socket)?;
            let counters = self.counters()?;
            let done = is(&counters);
            last = Some(counters.clone());
            Ok(done.then_some(counters))
        })
        .map_err(|failed| {
            let message = failed.message().unwrap_or_default();
            format!("{message}; the last counters: {last:?}").into()
        })
    }

    /// Removes the cable of port `n`.
    pub(crate) fn remove_cable(&mut self, n: usize) -> Result<(), Failed> {
        delete_link(&format!("v{n}"))?;
        // A socket reports once that its device is gone.
        let _ = self.far_ends[n].read_socket();
        Ok(())
    }

    /// Ends the switch with a signal.
    pub(crate) fn stop(&mut self, signal: Signal) -> Result<SwitchResult, Failed> {
        kill(self.pid(), signal)?;
        let code = self.child.wait()?.code();
        check(!self.path("api").exists(), || {
            "the control socket is still there".to_owned()
        })?;
        let report = serde_json::from_slice(&fs::read(self.path("report.json"))?)?;
        Ok(SwitchResult { code, report })
    }

    /// Kills the switch. Returns its folder and the far ends.
    pub(crate) fn kill(mut self) -> Result<(tempfile::TempDir, Vec<FarEnd>), Failed> {
        self.child.kill()?;
        self.child.wait()?;
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir()?);
        Ok((folder, std::mem::take(&mut self.far_ends)))
    }
}

impl Drop for SwitchProcess {
    fn drop(&mut self) {
        // A failed check leaves the process running. An error for an ended process is ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl SwitchResult {
    pub(crate) fn switch(&self) -> Result<SwitchReport, Failed> {
        Ok(serde_json::from_value(self.report["switches"][0].clone())?)
    }

    /// Checks the exit code: 0, or 5 if the run is tainted. The far ends of these tests do not stop when they are
    /// paused, so a run that drops frames of a lossless class ends with 1.
    pub(crate) fn check_exit_code(&self) -> Result<(), Failed> {
        let failures: Vec<String> = serde_json::from_value(self.report["failures"].clone())?;
        let has_lossless_drops = !failures.is_empty()
            && failures
                .iter()
                .all(|failure| failure.contains("of the lossless class"));
        let code = match self.report["verdict"].as_str() {
            Some("clean") => 0,
            Some("failed") if has_lossless_drops => 1,
            _ => 5,
        };
        check(self.code == Some(code), || {
            let (taints, failures) = (&self.report["taints"], &self.report["failures"]);
            format!("exit code {:?}, taints {taints}, failures {failures}", self.code)
        })
    }
}

/// Returns the frames of a traffic class that all ports dropped.
pub(crate) fn dropped_in_class(ports: &[PortReport], class: usize) -> u64 {
    let by_class = ports.iter().flat_map(|port| port.drops_by_class.values());
    by_class.map(|classes| classes[class]).sum()
}
