//! A switch in a process of its own, with a veth at each port and a sender and receiver at each veth's far end.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use libtest_mimic::Failed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use xoff_ports::net::{Netns, add_veth, delete_link};
use xoff_runtime::control::{Client, ControlAddress};
use xoff_telemetry::{PortReport, SwitchReport};

use crate::far::Far;
use crate::support::{check, wait_for};

/// MTU of the veths. The ports' is 1500: what lies between reaches the switch, which has to refuse it.
const CABLE_MTU: u32 = 1600;

pub(crate) fn xoff() -> Command {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
}

/// The name of port `n`.
pub(crate) fn port(n: usize) -> String {
    format!("Ethernet{}", 4 * n)
}

/// Puts the cable of port `n` in place: `v<n>` for the switch, `h<n>` for the test.
pub(crate) fn plug(n: usize) -> Result<Far, Failed> {
    add_veth(&format!("v{n}"), &format!("h{n}"), None, CABLE_MTU)?;
    Far::open(&Netns::current()?, &format!("h{n}"))
}

/// A switch and the far ends of its cables.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) fars: Vec<Far>,
    child: Child,
    client: Client,
}

/// How a switch ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) report: Value,
}

impl Bench {
    /// A switch with a cable at each of `ports` ports.
    pub(crate) fn start(config: &Value, ports: usize, options: &[&str]) -> Result<Bench, Failed> {
        let fars = (0..ports).map(plug).collect::<Result<_, _>>()?;
        Bench::with(tempfile::tempdir()?, fars, config, ports, options)
    }

    /// A switch on whatever cables are there.
    pub(crate) fn with(
        folder: tempfile::TempDir,
        fars: Vec<Far>,
        config: &Value,
        ports: usize,
        options: &[&str],
    ) -> Result<Bench, Failed> {
        Bench::driven_by("auto", folder, fars, config, ports, options)
    }

    /// As [`Bench::with`], its ports with this backend.
    pub(crate) fn driven_by(
        backend: &str,
        folder: tempfile::TempDir,
        fars: Vec<Far>,
        config: &Value,
        ports: usize,
        options: &[&str],
    ) -> Result<Bench, Failed> {
        fs::write(folder.path().join("config.json"), config.to_string())?;
        let mut command = xoff();
        command
            .current_dir(folder.path())
            .args(["switch", "run", "--config", "config.json", "--api", "api"])
            .args(["--report", "report.json"])
            .args(options);
        for n in 0..ports {
            command.args(["--port", &format!("{}=v{n},backend={backend}", port(n))]);
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
        let mut bench = Bench {
            folder,
            fars,
            child,
            client,
        };
        let links = bench.fars.len();
        bench.wait("the links are up", |switch| {
            switch.ports.iter().filter(|port| port.up).count() == links
        })?;
        Ok(bench)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What it has said on standard error.
    pub(crate) fn stderr(&self) -> Result<String, Failed> {
        Ok(fs::read_to_string(self.path("stderr"))?)
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Runs a command that speaks to this switch.
    pub(crate) fn ask(&self, words: &[&str]) -> Result<Output, Failed> {
        let mut command = xoff();
        command.current_dir(self.folder.path()).args(words);
        Ok(command.args(["--api", "api"]).output()?)
    }

    /// Its control socket.
    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    pub(crate) fn counters(&mut self) -> Result<SwitchReport, Failed> {
        let counters = self.client.counters().map_err(|failure| failure.to_string())?;
        Ok(counters.switch)
    }

    /// Waits until the counters say so; meanwhile what comes is taken from the far ends' sockets, which hold little.
    pub(crate) fn wait(
        &mut self,
        what: &str,
        mut is: impl FnMut(&SwitchReport) -> bool,
    ) -> Result<SwitchReport, Failed> {
        let mut last = None;
        wait_for(what, || {
            self.fars.iter_mut().try_for_each(Far::collect)?;
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

    /// Takes the cable of port `n` away.
    pub(crate) fn unplug(&mut self, n: usize) -> Result<(), Failed> {
        delete_link(&format!("v{n}"))?;
        // A socket says once that its device is gone.
        let _ = self.fars[n].collect();
        Ok(())
    }

    /// Ends it with a signal.
    pub(crate) fn end(&mut self, signal: Signal) -> Result<Ended, Failed> {
        kill(self.pid(), signal)?;
        let code = self.child.wait()?.code();
        check(!self.path("api").exists(), || {
            "the control socket is still there".to_owned()
        })?;
        let report = serde_json::from_slice(&fs::read(self.path("report.json"))?)?;
        Ok(Ended { code, report })
    }

    /// Kills it, and gives back what it leaves.
    pub(crate) fn kill(mut self) -> Result<(tempfile::TempDir, Vec<Far>), Failed> {
        self.child.kill()?;
        self.child.wait()?;
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir()?);
        Ok((folder, std::mem::take(&mut self.fars)))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // After a failed check; a process that has ended already is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    pub(crate) fn switch(&self) -> Result<SwitchReport, Failed> {
        Ok(serde_json::from_value(self.report["switches"][0].clone())?)
    }

    /// It ended in good order: code 0, or 5 if the run is tainted.
    pub(crate) fn in_order(&self) -> Result<(), Failed> {
        let code = if self.report["verdict"] == "clean" { 0 } else { 5 };
        check(self.code == Some(code), || {
            format!("exit code {:?}, taints {}", self.code, self.report["taints"])
        })
    }
}

/// Frames of a switch dropped for a reason, by traffic class, all ports together.
pub(crate) fn drops(ports: &[PortReport], class: usize) -> u64 {
    let by_class = ports.iter().flat_map(|port| port.drops_by_class.values());
    by_class.map(|classes| classes[class]).sum()
}
