//! Nothing is left of a lab, however it ends: no process, no namespace, no link, no socket, no file; and what
//! it borrowed is as it was.
//!
//! All of it happens in a user namespace of the test's own. There the kernel counts network namespaces, dying
//! ones too, against a limit that is ours to set: which shows what no list of processes can.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use nix::sched::CloneFlags;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use xoff_lab::HostAttachment;
use xoff_ports::net::ethtool::{self, Offloads};
use xoff_ports::net::{self, LinkChange, Netns};
use xoff_ports::{Backend, Port, PortSpec};

/// What the issue allows from kill -9 to a clean machine.
const CLEAN_WITHIN: Duration = Duration::from_secs(2);
/// A loaded machine may take so long to start three processes.
const PATIENCE: Duration = Duration::from_secs(20);

type Test = fn(&Bench) -> Result<(), Failed>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // The limit of namespaces is one for all of them.
    arguments.test_threads = Some(1);
    let unprivileged = if arguments.list {
        Err("only listed".into())
    } else {
        run_without_root()
    };
    let refusal = net::enter_user_namespace(CloneFlags::CLONE_NEWNET)
        .err()
        .map(|error| error.to_string());
    let refusal = refusal.or_else(|| Netns::create().err().map(|error| error.to_string()));
    let tests: [(&str, Test); 9] = [
        (
            "the_count_of_namespaces_sees_one_that_is_held",
            the_count_sees_one_that_is_held,
        ),
        (
            "a_run_ends_by_itself_and_leaves_nothing",
            a_run_ends_by_itself_and_leaves_nothing,
        ),
        ("up_stays_and_down_removes", up_stays_and_down_removes),
        (
            "an_interrupt_stops_in_good_order",
            an_interrupt_stops_in_good_order,
        ),
        (
            "each_process_killed_alone_takes_the_others_along",
            each_process_killed_alone,
        ),
        (
            "twenty_times_all_killed_at_random_moments",
            twenty_times_all_killed,
        ),
        (
            "several_switches_leave_nothing_when_killed",
            several_switches_leave_nothing,
        ),
        ("borrowed_devices_are_given_back", borrowed_devices_are_given_back),
        ("refusals_leave_nothing", refusals_leave_nothing),
    ];
    let mut trials: Vec<Trial> = tests
        .into_iter()
        .map(|(name, test)| {
            let refusal = refusal.clone();
            Trial::ignorable_test(name, move || match refusal {
                Some(reason) => Ok(Completion::ignored_with(reason)),
                None => test(&Bench::new()?).map(|()| Completion::Completed),
            })
        })
        .collect();
    trials.push(Trial::ignorable_test(
        "a_lab_runs_without_root",
        move || match unprivileged {
            Ok(None) => Ok(Completion::Completed),
            Ok(Some(reason)) => Ok(Completion::ignored_with(reason)),
            Err(error) => Err(error.into()),
        },
    ));
    trials.push(Trial::ignorable_test(
        "a_tap_is_handed_over_to_its_host",
        move || match refusal {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => Netns::create()?.run(a_tap_is_handed_over)?,
        },
    ));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn check(condition: bool, what: impl Into<String>) -> Result<(), Failed> {
    if condition {
        Ok(())
    } else {
        Err(what.into().into())
    }
}

/// A folder, and a lab file with a name that nothing else on the machine has.
struct Bench {
    folder: tempfile::TempDir,
    name: String,
}

impl Bench {
    fn new() -> Result<Bench, Failed> {
        let bench = Bench {
            folder: tempfile::tempdir()?,
            name: format!("residue-{}", std::process::id()),
        };
        bench.write("60s", "")?;
        Ok(bench)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join(format!("{}.xoff.yml", self.name))
    }

    fn write(&self, duration: &str, more_links: &str) -> Result<(), Failed> {
        fs::write(self.file(), lab_file(&self.name, duration, more_links))?;
        Ok(())
    }

    fn command(&self, arguments: &[&str]) -> Command {
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

    fn run(&self) -> Result<Child, Failed> {
        Ok(self
            .command(&["run", &self.file().display().to_string()])
            .spawn()?)
    }

    /// Processes of the lab: their command lines all have its name. Without those already dead.
    fn processes(&self) -> Vec<(i32, String)> {
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

    fn process(&self, stage: &str) -> Option<Pid> {
        self.processes()
            .into_iter()
            .find(|(_, line)| line.contains(stage))
            .map(|(pid, _)| Pid::from_raw(pid))
    }

    /// Waits until the switch's process is there and its three hosts' namespaces with it.
    fn wait_until_up(&self) -> Result<(), Failed> {
        eventually(PATIENCE, || {
            let switch = self.process("__lab-switch").ok_or("there is no switch process")?;
            let table = fs::read_to_string(format!("/proc/{switch}/net/dev"))?;
            let ports = ["Ethernet0", "Ethernet4", "Ethernet8"];
            if ports.iter().all(|port| table.contains(port)) {
                Ok(())
            } else {
                Err("ports are missing".into())
            }
        })
    }

    /// Everything that could be left, within the time allowed.
    fn is_clean(&self) -> Result<(), Failed> {
        eventually(CLEAN_WITHIN, || {
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
                if entry.path() != self.file() {
                    return Err(format!("a file is left: {}", entry.path().display()).into());
                }
            }
            only_our_namespace()
        })
    }
}

/// The kernel refuses a namespace beyond the limit, and it counts those that are still being taken apart:
/// with a limit of ours and one more, making one succeeds only if ours is alone.
fn only_our_namespace() -> Result<(), Box<dyn Error>> {
    const LIMIT: &str = "/proc/sys/user/max_net_namespaces";
    fs::write(LIMIT, "2")?;
    let another = Netns::create();
    fs::write(LIMIT, "1000")?;
    match another {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("a network namespace is left: {error}").into()),
    }
}

/// Without this the tests below would prove nothing.
fn the_count_sees_one_that_is_held(_: &Bench) -> Result<(), Failed> {
    let held = Netns::create()?;
    check(only_our_namespace().is_err(), "a held namespace counts")?;
    drop(held);
    eventually(CLEAN_WITHIN, only_our_namespace)
}

fn eventually(
    patience: Duration,
    mut condition: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<(), Failed> {
    let start = Instant::now();
    loop {
        match condition() {
            Ok(()) => return Ok(()),
            Err(error) if start.elapsed() > patience => {
                return Err(format!("{error}, {} ms later", start.elapsed().as_millis()).into());
            }
            Err(_) => sleep(Duration::from_millis(20)),
        }
    }
}

fn finish(mut child: Child) -> Result<ExitStatus, Failed> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            return Err("the command does not end".into());
        }
        sleep(Duration::from_millis(10));
    }
}

fn lab_file(name: &str, duration: &str, more_links: &str) -> String {
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

fn a_run_ends_by_itself_and_leaves_nothing(bench: &Bench) -> Result<(), Failed> {
    bench.write("100ms", "")?;
    let status = finish(bench.run()?)?;
    check(
        matches!(status.code(), Some(0 | 5)),
        format!("clean or tainted, but {status}"),
    )?;
    bench.is_clean()
}

fn up_stays_and_down_removes(bench: &Bench) -> Result<(), Failed> {
    let file = bench.file().display().to_string();
    check(finish(bench.command(&["up", &file]).spawn()?)?.success(), "up")?;
    bench.wait_until_up()?;
    let listed = || -> Result<bool, Failed> {
        let output = bench.command(&["ls"]).stdout(Stdio::piped()).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).contains(&bench.name))
    };
    check(listed()?, "it is listed")?;
    let again = bench.command(&["up", &file]).stderr(Stdio::piped()).output()?;
    let text = String::from_utf8_lossy(&again.stderr).into_owned();
    check(
        again.status.code() == Some(3) && text.contains("already") && text.contains("lab down"),
        text,
    )?;
    bench.wait_until_up()?;
    check(
        finish(bench.command(&["down", &bench.name]).spawn()?)?.success(),
        "down",
    )?;
    bench.is_clean()?;
    check(!listed()?, "it is not listed any more")?;
    let down = finish(bench.command(&["down", &bench.name]).spawn()?)?;
    check(
        down.code() == Some(3),
        format!("there is nothing to take down: {down}"),
    )
}

fn an_interrupt_stops_in_good_order(bench: &Bench) -> Result<(), Failed> {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let child = bench.run()?;
        bench.wait_until_up()?;
        kill(Pid::from_raw(child.id() as i32), signal)?;
        let status = finish(child)?;
        check(status.code() == Some(130), format!("{signal}: {status}"))?;
        bench.is_clean()?;
    }
    Ok(())
}

fn each_process_killed_alone(bench: &Bench) -> Result<(), Failed> {
    for stage in ["command line", "__lab-launch", "__lab-init", "__lab-switch"] {
        let child = bench.run()?;
        bench.wait_until_up()?;
        let victim = match stage {
            "command line" => Pid::from_raw(child.id() as i32),
            _ => bench
                .process(stage)
                .ok_or_else(|| format!("{stage} is not there"))?,
        };
        kill(victim, Signal::SIGKILL)?;
        let status = finish(child)?;
        bench
            .is_clean()
            .map_err(|failed| format!("{stage}: {}", failed.message().unwrap_or_default()))?;
        let expected = if stage == "command line" { None } else { Some(3) };
        check(status.code() == expected, format!("{stage}: {status}"))?;
    }
    Ok(())
}

/// Links between switches are memory of one process, which goes with it.
fn several_switches_leave_nothing(bench: &Bench) -> Result<(), Failed> {
    let name = &bench.name;
    fs::write(
        bench.file(),
        format!(
            "name: {name}
topology: {{fabric: {{leaf-spine: {{leaves: 2, spines: 2, hosts: 1, speed: 100m, config: {{preset: roce-lossless}}}}}}}}
workload: {{jobs: [{{name: long, kind: permutation, hosts: all, bytes: 1G}}]}}
"
        ),
    )?;
    for stage in ["__lab-init", "__lab-switch", "all"] {
        let child = bench.run()?;
        eventually(PATIENCE, || {
            let switch = bench
                .process("__lab-switch")
                .ok_or("there is no switch process")?;
            // The switch, its keepers and tellers and the hosts: the lab is being played.
            match fs::read_dir(format!("/proc/{switch}/task"))?.count() {
                10.. => Ok(()),
                _ => Err("the switches do not run yet".into()),
            }
        })?;
        let victims: Vec<Pid> = match stage {
            "all" => bench
                .processes()
                .into_iter()
                .map(|(pid, _)| Pid::from_raw(pid))
                .collect(),
            one => bench.process(one).into_iter().collect(),
        };
        for victim in victims {
            // It may have died of another's death.
            let _ = kill(victim, Signal::SIGKILL);
        }
        finish(child)?;
        bench
            .is_clean()
            .map_err(|failed| format!("{stage}: {}", failed.message().unwrap_or_default()))?;
    }
    Ok(())
}

fn twenty_times_all_killed(bench: &Bench) -> Result<(), Failed> {
    // Any sequence will do; a fixed one makes a failure a little less of a surprise.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..20 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Half of the kills hit the start, where things are half made.
        let delay_us = if round % 2 == 0 {
            state % 60_000
        } else {
            state % 400_000
        };
        let mut child = bench.run()?;
        sleep(Duration::from_micros(delay_us));
        for (pid, _) in bench.processes() {
            // It may have died of another's death.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        child.wait()?;
        let told = |failed: Failed| {
            format!(
                "round {round}, after {delay_us} us: {}",
                failed.message().unwrap_or_default()
            )
        };
        bench.is_clean().map_err(told)?;
    }
    Ok(())
}

fn borrowed_devices_are_given_back(bench: &Bench) -> Result<(), Failed> {
    net::add_veth("ext0", "ext1", None, 9216)?;
    let loud = Offloads {
        tx_csum: true,
        sg: true,
        tso: true,
        gso: true,
        ..Offloads::OFF
    };
    ethtool::set_offloads("ext0", &loud)?;
    ethtool::set_offloads(
        "ext1",
        &Offloads {
            gro: true,
            ..Offloads::OFF
        },
    )?;
    net::set_link(
        "ext0",
        &LinkChange {
            up: Some(false),
            ..LinkChange::default()
        },
    )?;
    let state = || -> net::Result<_> {
        Ok((
            ethtool::features("ext0")?,
            ethtool::features("ext1")?,
            net::read_link("ext0")?.up,
        ))
    };
    let before = state()?;
    bench.write("60s", "    - endpoints: [\"sw1:Ethernet12\", external: ext0]")?;
    for stage in [
        "interrupt",
        "command line",
        "__lab-launch",
        "__lab-init",
        "__lab-switch",
    ] {
        let child = bench.run()?;
        bench.wait_until_up()?;
        check(net::read_link("ext0")?.up, "the port is up")?;
        for device in ["ext0", "ext1"] {
            check(
                ethtool::offloads(device)? == Offloads::OFF,
                format!("{device}: offloads are off"),
            )?;
        }
        let command_line = Pid::from_raw(child.id() as i32);
        match stage {
            "interrupt" => kill(command_line, Signal::SIGINT)?,
            "command line" => kill(command_line, Signal::SIGKILL)?,
            _ => kill(bench.process(stage).ok_or("it is not there")?, Signal::SIGKILL)?,
        }
        finish(child)?;
        bench.is_clean()?;
        check(
            state()? == before,
            format!("{stage}: {:?} is not {before:?}", state()?),
        )?;
    }
    net::delete_link("ext0")?;
    Ok(())
}

fn refusals_leave_nothing(bench: &Bench) -> Result<(), Failed> {
    let refused = |arguments: &[&str], code: i32, parts: &[&str]| -> Result<(), Failed> {
        let output = bench.command(arguments).stderr(Stdio::piped()).output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        check(
            output.status.code() == Some(code),
            format!("{arguments:?}: {}\n{text}", output.status),
        )?;
        check(
            parts.iter().all(|part| text.contains(part)),
            format!("{arguments:?}: {parts:?} in\n{text}"),
        )?;
        bench.is_clean()
    };
    let file = bench.file().display().to_string();
    refused(&["run", "missing.xoff.yml"], 4, &["missing.xoff.yml"])?;
    bench.write("60", "")?;
    refused(&["run", &file], 4, &[":16:", "\"60\"", "20s"])?;
    bench.write("60s", "    - endpoints: [\"sw1:Ethernet12\", external: nothere]")?;
    refused(&["run", &file], 3, &["nothere", "ip link"])?;
    refused(&["up", &file], 3, &["nothere", "ip link"])
}

fn a_tap_is_handed_over() -> Result<Completion, Failed> {
    let text = lab_file("tap", "1s", "");
    let plan = xoff_lab::parse_lab(
        &text,
        "tap.xoff.yml",
        std::path::Path::new(""),
        xoff_lab::plan::TimeMode::RealTime,
    )?;
    let spec = PortSpec {
        name: "Ethernet0".into(),
        device: "Ethernet0".into(),
        backend: Backend::Tap,
        mtu: 9216,
    };
    let mut opened = match Port::open(&spec) {
        Ok(opened) => opened,
        Err(error) => return Ok(Completion::ignored_with(error)),
    };
    let host = HostAttachment {
        netns: Netns::create()?,
        interface: "eth0".into(),
    };
    xoff_lab::move_tap_to_host("Ethernet0", &plan.links[0], &plan.hosts[0], &host)?;
    check(net::read_link("Ethernet0").is_err(), "it is not here any more")?;
    let facts = host.netns.run(|| net::read_link("eth0"))??;
    check(
        facts.up && facts.mtu == plan.links[0].mtu && facts.mac == plan.hosts[0].mac,
        format!("{facts:?}"),
    )?;
    check(opened.port.is_link_up(), "the switch's end still sees its link")?;
    drop(opened);
    check(
        host.netns.run(|| net::read_link("eth0"))?.is_err(),
        "it goes with the switch's descriptor",
    )?;
    Ok(Completion::Completed)
}

/// Runs a short lab as someone who is not root, before this process becomes root of its own namespace.
/// `Ok(Some(reason))` where the machine does not allow it.
fn run_without_root() -> Result<Option<String>, String> {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    /// The user that owns nothing, on every Linux.
    const NOBODY: u32 = 65_534;
    let told = |error: std::io::Error| error.to_string();
    let folder = tempfile::tempdir().map_err(told)?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).map_err(told)?;
    let name = format!("rootless-{}", std::process::id());
    let file = folder.path().join("rootless.xoff.yml");
    fs::write(&file, lab_file(&name, "100ms", "")).map_err(told)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
    command
        .args(["lab", "run"])
        .arg(&file)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            return Ok(Some(format!(
                "another user cannot execute {}: {error}",
                env!("CARGO_BIN_EXE_xoff")
            )));
        }
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0 | 5) => Ok(None),
        Some(3) if text.contains("without being root") => Ok(Some(text)),
        _ => Err(format!("{}: {text}", output.status)),
    }
}
