//! The lab of a test, and the check that nothing of it is left.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use nix::unistd::Pid;
use xoff_ports::net::{self, Netns};

/// The longest time from the end of a lab, by `kill -9` too, to a clean machine.
const CLEAN_WITHIN: Duration = Duration::from_secs(2);
/// The longest time that a loaded machine needs to start or end the processes of a lab.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn check(condition: bool, what: impl Into<String>) -> Result<(), Failed> {
    if condition {
        Ok(())
    } else {
        Err(what.into().into())
    }
}

/// A folder with a lab file. The name of the lab is unique on the machine.
pub(crate) struct TestLab {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) name: String,
}

impl TestLab {
    pub(crate) fn new() -> Result<TestLab, Failed> {
        let lab = TestLab {
            folder: tempfile::tempdir()?,
            name: format!("residue-{}", std::process::id()),
        };
        lab.write_lab_file("60s", "")?;
        Ok(lab)
    }

    pub(crate) fn lab_file_path(&self) -> PathBuf {
        self.folder.path().join(format!("{}.xoff.yml", self.name))
    }

    pub(crate) fn write_lab_file(&self, duration: &str, more_links: &str) -> Result<(), Failed> {
        fs::write(
            self.lab_file_path(),
            lab_file_text(&self.name, duration, more_links),
        )?;
        Ok(())
    }

    /// Returns the command `xoff lab` with these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
        command.arg("lab").args(arguments).current_dir(self.folder.path());
        for variable in ["TMPDIR", "XDG_RUNTIME_DIR", "HOME"] {
            command.env(variable, self.folder.path());
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Starts `xoff lab run`.
    pub(crate) fn start_run(&self) -> Result<Child, Failed> {
        Ok(self
            .command(&["run", &self.lab_file_path().display().to_string()])
            .spawn()?)
    }

    /// Returns the running processes of the lab. Their command lines contain the name of the lab.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let pids = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let own = std::process::id() as i32;
        let with_line = pids.filter(|pid| *pid != own).filter_map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
        });
        with_line.filter(|(_, line)| line.contains(&self.name)).collect()
    }

    /// Returns a process of the lab whose command line contains `stage`.
    pub(crate) fn find_process(&self, stage: &str) -> Option<Pid> {
        self.processes()
            .into_iter()
            .find(|(_, line)| line.contains(stage))
            .map(|(pid, _)| Pid::from_raw(pid))
    }

    /// Runs `xoff lab up` and waits until the lab is up.
    pub(crate) fn bring_up(&self) -> Result<(), Failed> {
        let file = self.lab_file_path().display().to_string();
        let up = wait_for_exit(self.command(&["up", &file]).spawn()?)?;
        check(up.success(), "up")?;
        self.wait_until_up()
    }

    /// Runs `xoff lab down`.
    pub(crate) fn take_down(&self) -> Result<(), Failed> {
        let down = wait_for_exit(self.command(&["down", &self.name]).spawn()?)?;
        check(down.success(), "down")
    }

    /// Waits until the process of the switch runs and the ports to three hosts exist.
    pub(crate) fn wait_until_up(&self) -> Result<(), Failed> {
        wait_until(START_TIMEOUT, || {
            let switch = self
                .find_process("__lab-switch")
                .ok_or("the switch process does not exist")?;
            let table = fs::read_to_string(format!("/proc/{switch}/net/dev"))?;
            let ports = ["Ethernet0", "Ethernet4", "Ethernet8"];
            if ports.iter().all(|port| table.contains(port)) {
                Ok(())
            } else {
                Err("ports are missing".into())
            }
        })
    }

    /// Waits until nothing of the lab is left. Fails after [`CLEAN_WITHIN`].
    pub(crate) fn assert_clean(&self) -> Result<(), Failed> {
        wait_until(CLEAN_WITHIN, || {
            if let Some((pid, line)) = self.processes().first() {
                return Err(format!("process {pid} is left: {line}").into());
            }
            if let Some(line) = fs::read_to_string("/proc/net/unix")?
                .lines()
                .find(|line| line.contains("@xoff"))
            {
                return Err(format!("a socket is left: {line}").into());
            }
            let links = net::list_links()?;
            if let Some(link) = links
                .iter()
                .find(|link| !["lo", "ext0", "ext1"].contains(&link.name.as_str()))
            {
                return Err(format!("a link is left: {link:?}").into());
            }
            for entry in fs::read_dir(self.folder.path())?.flatten() {
                if entry.path() != self.lab_file_path() {
                    return Err(format!("a file is left: {}", entry.path().display()).into());
                }
            }
            only_own_namespace_exists()
        })
    }
}

/// Succeeds if no network namespace exists besides the one of the test.
///
/// The kernel refuses a namespace beyond the limit, and it counts namespaces that are still being removed.
/// With a limit of two, the creation of one namespace succeeds only if no other one is left.
pub(crate) fn only_own_namespace_exists() -> Result<(), Box<dyn Error>> {
    const LIMIT: &str = "/proc/sys/user/max_net_namespaces";
    fs::write(LIMIT, "2")?;
    let created = Netns::create();
    fs::write(LIMIT, "1000")?;
    match created {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("a network namespace is left: {error}").into()),
    }
}

/// Checks the method of [`only_own_namespace_exists`], on which the other tests depend.
pub(crate) fn the_namespace_limit_counts_open_namespaces(_: &TestLab) -> Result<(), Failed> {
    let open = Netns::create()?;
    check(only_own_namespace_exists().is_err(), "an open namespace counts")?;
    drop(open);
    wait_until(CLEAN_WITHIN, only_own_namespace_exists)
}

/// Waits until the condition succeeds. Fails with its last error after `timeout`.
pub(crate) fn wait_until(
    timeout: Duration,
    mut condition: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<(), Failed> {
    let start = Instant::now();
    loop {
        match condition() {
            Ok(()) => return Ok(()),
            Err(error) if start.elapsed() > timeout => {
                return Err(format!("{error}, {} ms later", start.elapsed().as_millis()).into());
            }
            Err(_) => sleep(Duration::from_millis(20)),
        }
    }
}

/// Waits for the end of a command. Kills the command after [`START_TIMEOUT`].
pub(crate) fn wait_for_exit(mut child: Child) -> Result<ExitStatus, Failed> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if start.elapsed() > START_TIMEOUT {
            let _ = child.kill();
            return Err("the command does not end".into());
        }
        sleep(Duration::from_millis(10));
    }
}

/// Returns a lab file with one switch, three model hosts and a plain host.
pub(crate) fn lab_file_text(name: &str, duration: &str, more_links: &str) -> String {
    format!(
        "name: {name}
topology:
  nodes:
    sw1: {{kind: switch}}
    h1: {{kind: model}}
    h2: {{kind: model}}
    h3: {{kind: model}}
    h4: {{kind: plain, exec: [\"sleep 1000 &\", \"sleep 1000\"]}}
  links:
    - endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]
    - endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"]
    - endpoints: [\"h3:eth0\", \"sw1:Ethernet8\"]
    - endpoints: [\"h4:eth0\", \"sw1:Ethernet16\"]
{more_links}
workload:
  duration: {duration}
  flows:
    - {{name: trickle, from: [h1, h2], to: h3, rate: 1m}}
"
    )
}
