//! Tests of guests. This program plays QEMU.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use serde_json::Value;

use super::*;

/// Number of frames that a guest on a stream sends.
const STREAM_FRAMES: u64 = 500;

/// Plays a guest: opens the network device of its arguments.
pub(crate) fn run_guest(words: &[&str]) -> ExitCode {
    let value = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).copied()
    };
    let option = |name: &str| {
        let mut parts = value("-netdev")?.split(',');
        parts.find_map(|part| part.strip_prefix(name))
    };
    println!("words: {}", value("-append").unwrap_or_default());
    match (option("ifname="), option("addr.path="), value("-kernel")) {
        (Some(tap), _, Some(kernel)) => run_guest_on_tap(tap, kernel),
        (None, Some(name), _) => exit_code_of(run_guest_on_stream(name)),
        _ => ExitCode::FAILURE,
    }
}

/// Sends broadcasts over the stream and waits for one from the other side.
fn run_guest_on_stream(name: &str) -> std::io::Result<()> {
    let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    let mut bytes = vec![0, 0, 0, 60];
    bytes.extend([0xff; 6]);
    bytes.extend([2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
    bytes.resize(64, 0);
    for _ in 0..STREAM_FRAMES {
        stream.write_all(&bytes)?;
    }
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    println!("a frame of {} bytes", u32::from_be_bytes(length));
    Ok(())
}

/// Follows the commands in files next to the kernel.
fn run_guest_on_tap(tap: &str, kernel: &str) -> ExitCode {
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

pub(crate) fn a_guest_that_ends_is_reported() -> Result<Completion, Failed> {
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
    for expected in ["xoff.name=g1", "xoff.ip=10.0.0.1/16", "xoff.mtu=1500", "mine"] {
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

pub(crate) fn a_guest_on_a_stream() -> Result<Completion, Failed> {
    let exe = std::env::current_exe()?.display().to_string();
    let lab = TestLab::new(
        "stream-test",
        &format!(
            "    g1: {{kind: vm, attach: stream, qemu: '{exe}', kernel: lab.xoff.yml, console: g1.console}}\n    \
             h2: {{kind: plain, exec: ['{exe} __neighbour 10.0.0.77 || true']}}\n"
        ),
        "    - endpoints: [\"g1:eth0\", \"sw1:Ethernet0\"]\n    - endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"]\n",
    )?;
    let output = lab
        .command(&["run", "lab.xoff.yml", "--report", "report.json"])
        .output()?;
    let text = output_text(&output);
    let console = fs::read_to_string(lab.folder.path().join("g1.console")).unwrap_or_default();
    // The host asks for the address of a neighbour.
    check(console.contains("a frame of "), || format!("{console}\n{text}"))?;
    let report: Value = serde_json::from_str(&fs::read_to_string(lab.folder.path().join("report.json"))?)?;
    let port = &report["switches"][0]["ports"][0];
    check_equal(port["device"].as_str(), Some("stream:@Ethernet0"), "the device")?;
    check_equal(
        port["rx_packets"].as_u64(),
        Some(STREAM_FRAMES),
        "frames of the guest",
    )?;
    check_equal(port["stream"]["connections"].as_u64(), Some(1), "connections")?;
    // Frames of the host can wait for the port when the guest ends.
    let is_expected = |reason: &String| reason.contains("LINK_DOWN") || reason.contains("FLUSHED");
    let drops = port["drops"].as_object().into_iter().flatten();
    let drops: Vec<&String> = drops
        .map(|(reason, _)| reason)
        .filter(|reason| !is_expected(reason))
        .collect();
    check_equal(drops, Vec::new(), "drops")?;
    Ok(Completion::Completed)
}

pub(crate) fn a_guest_that_cannot_start() -> Result<Completion, Failed> {
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
