//! Tests of labs with plain hosts and guests: properties of the lab file, reachability, and the effect of a
//! host that fails. This program also plays the guests: it runs as QEMU when its arguments are those of QEMU.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test program prints its results"
)]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed};
use support::{CompletionTest, KernelFeatures, check, check_equal, run_serially, wait_for};
use xoff_ports::net::ethtool::{self, Offloads};
use xoff_ports::net::{delete_link, read_link};
use xoff_ports::{Backend, Port, PortSpec};

const TESTS: &[CompletionTest] = &[
    (
        "plain_hosts_follow_the_lab_file_and_reach_each_other",
        KernelFeatures::Netns,
        plain_hosts_follow_the_lab_file,
    ),
    (
        "lab_up_prints_the_notes_of_the_lab",
        KernelFeatures::Netns,
        lab_up_prints_the_notes,
    ),
    (
        "commands_of_a_lab_file_run_and_their_output_is_printed",
        KernelFeatures::Netns,
        commands_of_a_lab_file,
    ),
    (
        "processes_that_fail_are_in_the_report_and_fail_the_lab",
        KernelFeatures::Netns,
        processes_that_fail_are_in_the_report,
    ),
    (
        "commands_run_in_the_folder_of_the_lab_file",
        KernelFeatures::Netns,
        commands_run_in_the_folder_of_the_lab_file,
    ),
    (
        "a_killed_plain_host_fails_its_lab",
        KernelFeatures::Netns,
        a_killed_plain_host_fails_its_lab,
    ),
    (
        "a_guest_that_ends_is_reported_and_the_lab_continues",
        KernelFeatures::Tun,
        a_guest_that_ends_is_reported,
    ),
    (
        "a_guest_that_cannot_start_is_an_error",
        KernelFeatures::Tun,
        a_guest_that_cannot_start,
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if words.contains(&"-netdev") {
        return run_guest(&words);
    }
    match words.get(1..) {
        Some(["__serve", address]) => exit_code_of(serve_one_client(address)),
        Some(["__ask", address]) => exit_code_of(send_request(address)),
        Some(["__neighbour", address]) => exit_code_of(print_neighbour(address)),
        Some(["__facts"]) => exit_code_of(print_interface()),
        _ => run_serially(TESTS),
    }
}

fn exit_code_of(result: std::io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves one client.
fn serve_one_client(address: &str) -> std::io::Result<()> {
    let (mut client, _) = TcpListener::bind(address)?.accept()?;
    let mut question = [0; 4];
    client.read_exact(&mut question)?;
    client.write_all(b"pong")
}

/// Sends a request to a server. Waits for a server that has not started yet.
fn send_request(address: &str) -> std::io::Result<()> {
    let end = Instant::now() + support::PATIENCE;
    let mut server = loop {
        match TcpStream::connect(address) {
            Ok(server) => break server,
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    server.write_all(b"ping")?;
    let mut answer = String::new();
    server.read_to_string(&mut answer)?;
    println!("{answer}");
    Ok(())
}

/// Makes the kernel resolve an address and prints the result.
fn print_neighbour(address: &str) -> std::io::Result<()> {
    let end = Instant::now() + support::PATIENCE;
    while Instant::now() < end {
        UdpSocket::bind("0.0.0.0:0")?.send_to(b"?", (address, 9))?;
        let table = fs::read_to_string("/proc/self/net/arp")?;
        // Flag 2: the entry is complete.
        if let Some(line) = table
            .lines()
            .find(|line| line.starts_with(address) && line.contains(" 0x2 "))
        {
            println!("{line}");
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(std::io::ErrorKind::TimedOut.into())
}

/// Prints the properties of the host's interface.
fn print_interface() -> std::io::Result<()> {
    let facts = read_link("eth0").map_err(std::io::Error::other)?;
    let offloads = ethtool::offloads("eth0").map_err(std::io::Error::other)?;
    println!("mtu {} mac {:02x?} up {}", facts.mtu, facts.mac, facts.up);
    println!("offloads off: {}", offloads == Offloads::OFF);
    for interface in nix::ifaddrs::getifaddrs()?.filter(|entry| entry.interface_name == "eth0") {
        let address = interface.address.as_ref();
        let v4 = address
            .and_then(|address| address.as_sockaddr_in())
            .map(|v4| v4.ip().to_string());
        let v6 = address
            .and_then(|address| address.as_sockaddr_in6())
            .map(|v6| v6.ip().to_string());
        let mask = interface.netmask.map(|mask| mask.to_string()).unwrap_or_default();
        if let Some(ip) = v4.or(v6) {
            println!("address {ip} mask {mask}");
        }
    }
    print!("{}", fs::read_to_string("/proc/self/net/route")?);
    Ok(())
}

/// A lab in its own folder. Its processes end with the PID namespace of this process at the latest.
struct TestLab {
    folder: tempfile::TempDir,
    name: &'static str,
}

impl TestLab {
    fn new(name: &'static str, nodes: &str, links: &str) -> Result<TestLab, Failed> {
        let folder = tempfile::tempdir()?;
        let text =
            format!("name: {name}\ntopology:\n  nodes:\n    sw1: {{kind: switch}}\n{nodes}  links:\n{links}");
        fs::write(folder.path().join("lab.xoff.yml"), text)?;
        Ok(TestLab { folder, name })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
        command
            .arg("lab")
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    fn start_lab(&self) -> Result<(), Failed> {
        let output = self.command(&["up", "lab.xoff.yml"]).output()?;
        check(output.status.success(), || {
            format!("lab up: {}", output_text(&output))
        })
    }

    fn stop_lab(&self) -> Result<(), Failed> {
        let output = self.command(&["down", self.name]).output()?;
        check(output.status.success(), || {
            format!("lab down: {}", output_text(&output))
        })?;
        let title = format!("xoff lab {}", self.name);
        wait_for("the processes to go", || {
            Ok(processes_with_title(&title).is_empty().then_some(()))
        })
    }

    /// Runs this program in a host with arguments that select a helper function.
    fn run_in_host(&self, host: &str, words: &[&str]) -> Result<String, Failed> {
        let output = self.host_command(host, words)?.output()?;
        check(output.status.success(), || {
            format!("{words:?} in {host}: {}", output_text(&output))
        })?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn start_in_host(&self, host: &str, words: &[&str]) -> Result<Child, Failed> {
        Ok(self.host_command(host, words)?.spawn()?)
    }

    fn host_command(&self, host: &str, words: &[&str]) -> Result<Command, Failed> {
        let mut command = self.command(&["exec", self.name, host, "--"]);
        command.arg(std::env::current_exe()?).args(words);
        Ok(command)
    }
}

fn output_text(output: &Output) -> String {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    format!("{}\n{out}{err}", output.status)
}

/// Returns the processes whose command lines start with `title`.
fn processes_with_title(title: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.starts_with(title))
        .collect()
}

fn plain_hosts_follow_the_lab_file() -> Result<Completion, Failed> {
    let lab = TestLab::new(
        "plain-test",
        "    h1: {kind: plain}\n    h2: {kind: plain, ipv4: 10.0.0.2/24, ipv6: \"fd00::2/80\", mac: \"02:00:00:00:00:22\", \
         gateway: 10.0.0.1, routes: [10.9.0.0/16 via 10.0.0.3]}\n    h3: {kind: model}\n",
        "    - endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]\n    - {endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"], mtu: 1500}\n    \
         - endpoints: [\"h3:eth0\", \"sw1:Ethernet8\"]\n",
    )?;
    lab.start_lab()?;
    let (h1, h2) = (
        lab.run_in_host("h1", &["__facts"])?,
        lab.run_in_host("h2", &["__facts"])?,
    );
    for (facts, expected) in [
        (&h1, "mtu 9216 mac [02, 58, 4f, 46, 00, 01] up true"),
        (&h1, "offloads off: true"),
        (&h1, "address 10.0.0.1 mask 255.255.0.0"),
        (&h1, "address fd58:4f46::1 "),
        (&h2, "mtu 1500 mac [02, 00, 00, 00, 00, 22] up true"),
        (&h2, "offloads off: true"),
        (&h2, "address 10.0.0.2 mask 255.255.255.0"),
        (&h2, "address fd00::2 "),
        // Destination and gateway as the kernel prints them: in hexadecimal, lowest byte first.
        (&h2, "eth0\t00000000\t0100000A"),
        (&h2, "eth0\t0000090A\t0300000A"),
    ] {
        check(facts.contains(expected), || {
            format!("{expected:?} is not in:\n{facts}")
        })?;
    }
    let mut server = lab.start_in_host("h2", &["__serve", "10.0.0.2:7000"])?;
    check_equal(
        lab.run_in_host("h1", &["__ask", "10.0.0.2:7000"])?.trim(),
        "pong",
        "TCP from h1 to h2",
    )?;
    check(server.wait()?.success(), || "the server failed".to_owned())?;
    let model = lab.run_in_host("h1", &["__neighbour", "10.0.0.3"])?;
    check(model.contains("02:58:4f:46:00:03"), || {
        format!("the model host answers: {model}")
    })?;
    let unknown = lab.host_command("h3", &["__facts"])?.output()?;
    check_equal(unknown.status.code(), Some(2), "the exit code for a model host")?;
    check(output_text(&unknown).contains("h1, h2"), || output_text(&unknown))?;
    // Every process of a host ends with the lab.
    let mut left = lab.start_in_host("h1", &["__serve", "10.0.0.1:7001"])?;
    lab.stop_lab()?;
    check(!left.wait()?.success(), || {
        "the command outlived its host".to_owned()
    })?;
    Ok(Completion::Completed)
}

fn lab_up_prints_the_notes() -> Result<Completion, Failed> {
    let lab = TestLab::new(
        "notes-test",
        "    h1: {kind: model}\n    sw2: {kind: switch, config: {SYSLOG_SERVER: {\"10.0.0.9\": {}}}}\n",
        "    - endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]\n    - endpoints: [\"sw1:Ethernet4\", \"sw2:Ethernet0\"]\n",
    )?;
    let output = lab.command(&["up", "lab.xoff.yml"]).output()?;
    let text = output_text(&output);
    check(output.status.success(), || text.clone())?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    check(
        stderr
            .lines()
            .any(|line| line.starts_with("note: sw2: ") && line.contains("SYSLOG_SERVER")),
        || text.clone(),
    )?;
    lab.stop_lab()?;
    Ok(Completion::Completed)
}

fn commands_of_a_lab_file() -> Result<Completion, Failed> {
    let exe = std::env::current_exe()?.display().to_string();
    let nodes = format!(
        "    h1: {{kind: plain, exec: [\"'{exe}' __serve 10.0.0.1:7000\"]}}\n    \
         h2: {{kind: plain, exec: [\"'{exe}' __ask 10.0.0.1:7000\", \"sleep 1000 &\", \"echo last; exit 3\"]}}\n"
    );
    let links = "    - endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]\n    - endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"]\n";
    let lab = TestLab::new("exec-test", &nodes, links)?;
    // A lab without a workload ends with its commands.
    let output = lab.command(&["run", "lab.xoff.yml"]).output()?;
    let text = output_text(&output);
    check(matches!(output.status.code(), Some(1 | 5)), || text.clone())?;
    for expected in [
        "h2: pong\n",
        "h2: last\n",
        "h2: `echo last; exit 3` ended with exit status: 3",
    ] {
        check(text.contains(expected), || {
            format!("{expected:?} is not in:\n{text}")
        })?;
    }
    Ok(Completion::Completed)
}

/// Runs a lab whose hosts h1 and h2 run these commands. Returns its exit code, its output and its report.
fn run_commands(
    name: &'static str,
    commands: [&str; 2],
) -> Result<(Option<i32>, String, serde_json::Value), Failed> {
    let [first, second] = commands;
    let nodes =
        format!("    h1: {{kind: plain, exec: [{first}]}}\n    h2: {{kind: plain, exec: [{second}]}}\n");
    let links = "    - endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]\n    - endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"]\n";
    let lab = TestLab::new(name, &nodes, links)?;
    let file = lab.folder.path().join("lab.xoff.yml");
    let folder = lab.folder.path().display().to_string();
    fs::write(&file, fs::read_to_string(&file)?.replace("FOLDER", &folder))?;
    let output = lab
        .command(&["run", "lab.xoff.yml", "--report", "report.json"])
        .output()?;
    let report = serde_json::from_slice(&fs::read(lab.folder.path().join("report.json"))?)?;
    Ok((output.status.code(), output_text(&output), report))
}

fn processes_that_fail_are_in_the_report() -> Result<Completion, Failed> {
    let ended = |report: &serde_json::Value, node: &str, status: &str, effect: &str| {
        let processes = report["processes"].as_array().map_or(&[][..], Vec::as_slice);
        processes.iter().any(|process| {
            process["node"] == node
                && process["effect"] == effect
                && process["status"]
                    .as_str()
                    .is_some_and(|text| text.contains(status))
        })
    };
    for (name, commands, failing) in [
        ("signal-test", ["'kill -9 $$'", "true"], Some(("h1", "signal: 9"))),
        (
            "status-test",
            ["true", "'exit 7'"],
            Some(("h2", "exit status: 7")),
        ),
        // The shell ends, and its background process crashes later.
        (
            "background-test",
            ["\"sh -c 'sleep 0.1; kill -SEGV $$' &\", 'sleep 0.5'", "true"],
            Some(("h1", "signal: 11")),
        ),
        // A command stops the background process of an earlier one.
        (
            "stop-test",
            [
                "'sleep 1000 & echo $! > FOLDER/pid', 'kill $(cat FOLDER/pid); sleep 0.2'",
                "'exit 0'",
            ],
            None,
        ),
    ] {
        let (code, text, report) = run_commands(name, commands)?;
        let is_tainted = report["verdict"] == "tainted";
        match failing {
            Some((node, status)) => {
                check(is_tainted || code == Some(1), || format!("{name}: {text}"))?;
                check(ended(&report, node, status, "fails"), || {
                    format!("{name}: {report}")
                })?;
                check(report["failures"].to_string().contains(status), || text.clone())?;
            }
            None => {
                check(is_tainted || code == Some(0), || format!("{name}: {text}"))?;
                check_equal(report["failures"].clone(), serde_json::json!([]), name)?;
            }
        }
    }
    Ok(Completion::Completed)
}

/// A lab from standard input has the current folder.
fn commands_run_in_the_folder_of_the_lab_file() -> Result<Completion, Failed> {
    let nodes = "    h1: {kind: plain, exec: ['pwd -P > where; cp given copied', 'test -e copied']}\n";
    let links = "    - endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]\n";
    let lab = TestLab::new("folder-test", nodes, links)?;
    let folder = lab.folder.path().canonicalize()?;
    let parent = folder.parent().ok_or("no parent")?.to_path_buf();
    let name = folder.file_name().ok_or("no name")?;
    let relative = Path::new(name).join("lab.xoff.yml").display().to_string();
    let absolute = folder.join("lab.xoff.yml").display().to_string();
    fs::write(folder.join("given"), "x")?;
    for (file, current) in [
        ("lab.xoff.yml", folder.clone()),
        (relative.as_str(), parent),
        (absolute.as_str(), Path::new("/").to_path_buf()),
        ("-", folder.clone()),
    ] {
        let mut command = lab.command(&["run", file]);
        command
            .current_dir(current)
            .stdin(fs::File::open(folder.join("lab.xoff.yml"))?);
        let output = command.output()?;
        check(matches!(output.status.code(), Some(0 | 5)), || {
            format!("{file}: {}", output_text(&output))
        })?;
        let printed = fs::read_to_string(folder.join("where"))?;
        check_equal(printed.trim_end(), folder.display().to_string().as_str(), file)?;
        check(folder.join("copied").exists(), || {
            format!("{file}: nothing copied")
        })?;
        fs::remove_file(folder.join("where"))?;
        fs::remove_file(folder.join("copied"))?;
    }
    Ok(Completion::Completed)
}

fn a_killed_plain_host_fails_its_lab() -> Result<Completion, Failed> {
    let nodes =
        "    h1: {kind: plain}\n    h2: {kind: plain, exec: ['while [ ! -e go ]; do sleep 0.05; done']}\n";
    let links = "    - endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]\n    - endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"]\n";
    let lab = TestLab::new("kill-test", nodes, links)?;
    let text = fs::read_to_string(lab.folder.path().join("lab.xoff.yml"))?;
    let go = lab.folder.path().join("go").display().to_string();
    fs::write(
        lab.folder.path().join("lab.xoff.yml"),
        text.replace("-e go", &format!("-e {go}")),
    )?;
    let running = lab
        .command(&["run", "lab.xoff.yml", "--report", "report.json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let host = wait_for("the process of h1", || {
        Ok(process_id_with_title("xoff lab kill-test h1"))
    })?;
    // The process of h2 starts a command only when the lab is up.
    wait_for("the command of h2", || Ok(process_id_with_title("sleep 0.05")))?;
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(host),
        nix::sys::signal::Signal::SIGKILL,
    )?;
    wait_for("the end of h1", || {
        let line = fs::read(format!("/proc/{host}/cmdline")).unwrap_or_default();
        Ok(line.is_empty().then_some(()))
    })?;
    fs::write(&go, "")?;
    let output = running.wait_with_output()?;
    let text = output_text(&output);
    check(matches!(output.status.code(), Some(1 | 5)), || text.clone())?;
    check(
        text.contains("h1: the process `host` ended with signal: 9") || text.contains("tainted"),
        || text.clone(),
    )?;
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(lab.folder.path().join("report.json"))?)?;
    check_equal(
        report["processes"][0]["node"].as_str(),
        Some("h1"),
        "the process in the report",
    )?;
    Ok(Completion::Completed)
}

/// Returns the process ID of a process whose command line starts with `title`.
fn process_id_with_title(title: &str) -> Option<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.find(|id| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line)
            .replace('\0', " ")
            .starts_with(title)
    })
}

/// Plays a guest: opens the tap of its arguments and follows the commands in files next to its kernel.
fn run_guest(words: &[&str]) -> ExitCode {
    let value = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).copied()
    };
    let tap = value("-netdev").and_then(|text| text.split(',').find_map(|part| part.strip_prefix("ifname=")));
    let (Some(tap), Some(kernel)) = (tap, value("-kernel")) else {
        return ExitCode::FAILURE;
    };
    println!("words: {}", value("-append").unwrap_or_default());
    let spec = PortSpec {
        name: tap.to_owned(),
        device: tap.to_owned(),
        backend: Backend::Tap,
        mtu: 1500,
    };
    let opened = match Port::open(&spec) {
        Ok(opened) => opened,
        Err(error) => {
            println!("no tap: {error}");
            return ExitCode::FAILURE;
        }
    };
    let asked = |what: &str| Path::new(&format!("{kernel}.{what}")).exists();
    for _ in 0..2000 {
        if asked("die") {
            println!("last words");
            return ExitCode::from(3);
        }
        if asked("vanish") {
            let gone = delete_link(tap).is_ok();
            println!("the tap is gone: {gone}");
            std::thread::sleep(Duration::from_millis(500));
            drop(opened);
            return ExitCode::SUCCESS;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    ExitCode::FAILURE
}

fn a_guest_that_ends_is_reported() -> Result<Completion, Failed> {
    let exe = std::env::current_exe()?.display().to_string();
    let guest = |name: &str| {
        format!(
            "    {name}: {{kind: vm, qemu: '{exe}', kernel: k{name}, append: mine, console: {name}.console}}\n"
        )
    };
    let lab = TestLab::new(
        "guest-test",
        &[guest("g1"), guest("g2")].concat(),
        "    - {endpoints: [\"g1:eth0\", \"sw1:Ethernet0\"], mtu: 4200}\n    - endpoints: [\"g2:eth0\", \"sw1:Ethernet4\"]\n",
    )?;
    let file = |name: &str| lab.folder.path().join(name);
    for kernel in ["kg1", "kg2"] {
        fs::write(file(kernel), "no kernel")?;
    }
    let mut running = lab
        .command(&["run", "lab.xoff.yml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let console = |name: &str| fs::read_to_string(file(&format!("{name}.console"))).unwrap_or_default();
    wait_for("both guests to speak", || {
        Ok(["g1", "g2"]
            .iter()
            .all(|name| console(name).contains("words:"))
            .then_some(()))
    })?;
    let words = console("g1");
    for expected in ["xoff.name=g1", "xoff.ip=10.0.0.1/16", "xoff.mtu=4200", "mine"] {
        check(words.contains(expected), || {
            format!("{expected:?} is not in {words}")
        })?;
    }
    // The guest must be up, because a guest that ends during the start is an error.
    std::thread::sleep(Duration::from_millis(500));
    fs::write(file("kg1.die"), "")?;
    wait_for("the end of g1", || {
        Ok(console("g1")
            .contains("its emulator ended with exit status: 3")
            .then_some(()))
    })?;
    check(running.try_wait()?.is_none(), || {
        "the lab ended with its guest".to_owned()
    })?;
    fs::write(file("kg2.vanish"), "")?;
    let output = running.wait_with_output()?;
    let text = output_text(&output);
    check(matches!(output.status.code(), Some(1 | 5)), || text.clone())?;
    for expected in [
        "error: the virtual machine g1 is down: its emulator ended with exit status: 3",
        "last words",
        "note: the virtual machine g2 is down",
        "the tap is gone: true",
        "Ethernet4",
    ] {
        check(text.contains(expected), || {
            format!("{expected:?} is not in:\n{text}")
        })?;
    }
    Ok(Completion::Completed)
}

fn a_guest_that_cannot_start() -> Result<Completion, Failed> {
    let links = "    - endpoints: [\"g1:eth0\", \"sw1:Ethernet0\"]\n";
    for (qemu, expected) in [
        ("no-such-emulator", "apt-get install qemu-system-x86"),
        (
            "/bin/false",
            "the virtual machine g1 is down: its emulator ended with exit status: 1",
        ),
    ] {
        let nodes = format!("    g1: {{kind: vm, qemu: {qemu}, kernel: lab.xoff.yml}}\n");
        let lab = TestLab::new("no-guest-test", &nodes, links)?;
        let output = lab.command(&["run", "lab.xoff.yml"]).output()?;
        check_equal(output.status.code(), Some(3), qemu)?;
        check(output_text(&output).contains(expected), || {
            format!("{expected:?} is not in:\n{}", output_text(&output))
        })?;
    }
    Ok(Completion::Completed)
}
