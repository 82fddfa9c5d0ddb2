//! Tests of labs with plain hosts and guests: properties of the lab file, reachability, and the effect of a
//! host that fails. This program also plays the guests: it runs as QEMU when its arguments are those of QEMU.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test program prints its results"
)]

mod guests;
mod processes;
#[path = "../support/mod.rs"]
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
        processes::commands_of_a_lab_file,
    ),
    (
        "processes_that_fail_are_in_the_report_and_fail_the_lab",
        KernelFeatures::Netns,
        processes::processes_that_fail_are_in_the_report,
    ),
    (
        "commands_run_in_the_folder_of_the_lab_file",
        KernelFeatures::Netns,
        processes::commands_run_in_the_folder_of_the_lab_file,
    ),
    (
        "a_killed_plain_host_fails_its_lab",
        KernelFeatures::Netns,
        processes::a_killed_plain_host_fails_its_lab,
    ),
    (
        "a_guest_that_ends_is_reported_and_the_lab_continues",
        KernelFeatures::Tun,
        guests::a_guest_that_ends_is_reported,
    ),
    (
        "a_guest_on_a_stream_needs_no_tap",
        KernelFeatures::Netns,
        guests::a_guest_on_a_stream,
    ),
    (
        "a_guest_that_cannot_start_is_an_error",
        KernelFeatures::Tun,
        guests::a_guest_that_cannot_start,
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if words.contains(&"-netdev") {
        return guests::run_guest(&words);
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

/// Length of a request in bytes: several segments of the longest MTU, so that TCP sends segments of full length.
const QUESTION_BYTES: usize = 256 << 10;

/// Serves one client: reads its request and answers.
fn serve_one_client(address: &str) -> std::io::Result<()> {
    let (mut client, _) = TcpListener::bind(address)?.accept()?;
    let mut question = vec![0; QUESTION_BYTES];
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
    server.write_all(&[b'?'; QUESTION_BYTES])?;
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
         gateway: 10.0.0.1, routes: [10.9.0.0/16 via 10.0.0.3]}\n    h3: {kind: model}\n    \
         sw2: {kind: switch, config: {PORT: {Ethernet0: {mtu: \"9100\"}}}}\n    h4: {kind: plain}\n",
        "    - endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]\n    - {endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"], mtu: 1400}\n    \
         - endpoints: [\"h3:eth0\", \"sw1:Ethernet8\"]\n    - endpoints: [\"h4:eth0\", \"sw2:Ethernet0\"]\n",
    )?;
    lab.start_lab()?;
    let (h1, h2, h4) = (
        lab.run_in_host("h1", &["__facts"])?,
        lab.run_in_host("h2", &["__facts"])?,
        lab.run_in_host("h4", &["__facts"])?,
    );
    for (facts, expected) in [
        // The MTU of a switch port without `PORT.mtu` is 1500.
        (&h1, "mtu 1500 mac [02, 58, 4f, 46, 00, 01] up true"),
        (&h1, "offloads off: true"),
        (&h1, "address 10.0.0.1 mask 255.255.0.0"),
        (&h1, "address fd58:4f46::1 "),
        (&h2, "mtu 1400 mac [02, 00, 00, 00, 00, 22] up true"),
        (&h4, "mtu 9100 mac [02, 58, 4f, 46, 00, 04] up true"),
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
        "full segments by TCP from h1 to h2",
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
