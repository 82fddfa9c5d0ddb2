//! Tests of borrowed devices, refused labs and taps.

use std::process::Stdio;

use libtest_mimic::{Completion, Failed};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use xoff_lab::HostAttachment;
use xoff_ports::net::ethtool::{self, Offloads};
use xoff_ports::net::{self, LinkChange, Netns};
use xoff_ports::{Backend, Port, PortSpec};

use crate::test_lab::{TestLab, check, lab_file_text, wait_for_exit};

pub(crate) fn borrowed_devices_get_their_state_back(lab: &TestLab) -> Result<(), Failed> {
    net::add_veth("ext0", "ext1", None, 9216)?;
    let with_offloads = Offloads {
        tx_csum: true,
        sg: true,
        tso: true,
        gso: true,
        ..Offloads::OFF
    };
    ethtool::set_offloads("ext0", &with_offloads)?;
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
    lab.write_lab_file("60s", "    - endpoints: [\"sw1:Ethernet12\", external: ext0]")?;
    for stage in [
        "interrupt",
        "command line",
        "__lab-launch",
        "__lab-init",
        "__lab-switch",
    ] {
        let child = lab.start_run()?;
        lab.wait_until_up()?;
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
            _ => kill(
                lab.find_process(stage).ok_or("it does not exist")?,
                Signal::SIGKILL,
            )?,
        }
        wait_for_exit(child)?;
        lab.assert_clean()?;
        check(
            state()? == before,
            format!("{stage}: {:?} is not {before:?}", state()?),
        )?;
    }
    net::delete_link("ext0")?;
    Ok(())
}

/// The lab of docs/lab.md, with the device that its commands create. The device has a smaller MTU than the
/// preset.
pub(crate) fn the_example_of_an_external_device_works(lab: &TestLab) -> Result<(), Failed> {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/testbeds/external.xoff.yml");
    let text = std::fs::read_to_string(example)?.replace("name: external", &format!("name: {}", lab.name));
    std::fs::write(lab.lab_file_path(), text)?;
    let file = lab.lab_file_path().display().to_string();
    let device = Netns::create()?;
    net::add_veth("dut-sw", "eth0", Some(&device), 1500)?;
    device.run(|| net::add_address("eth0", "10.0.0.2".parse().expect("an address"), 24))??;
    let up = lab.command(&["up", &file]).stderr(Stdio::piped()).output()?;
    check(
        up.status.success(),
        format!("{}\n{}", up.status, String::from_utf8_lossy(&up.stderr)),
    )?;
    let mut show = std::process::Command::new(env!("CARGO_BIN_EXE_xoff"));
    let status = show
        .args(["show", "interfaces", "status", "--lab", &lab.name])
        .output()?;
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    let row = status.lines().find(|line| line.contains("Ethernet4"));
    let mtu = row.and_then(|row| row.split_whitespace().nth(3));
    check(
        mtu == Some("1500"),
        format!("the MTU of the device is missing in\n{status}"),
    )?;
    // The kernel of the plain host resolves the address of the device through the switch.
    let connect =
        "exec 3<>/dev/udp/10.0.0.2/9 && echo x >&3 && sleep 0.5 && grep -q '10.0.0.2 .* 0x2 ' /proc/net/arp";
    let reached = lab
        .command(&["exec", &lab.name, "h1", "--", "bash", "-c", connect])
        .output()?;
    lab.command(&["down", &lab.name]).output()?;
    net::delete_link("dut-sw")?;
    drop(device);
    check(reached.status.success(), "the device does not answer the host")?;
    lab.assert_clean()
}

pub(crate) fn refused_labs_leave_nothing(lab: &TestLab) -> Result<(), Failed> {
    let refused = |arguments: &[&str], code: i32, parts: &[&str]| -> Result<(), Failed> {
        let output = lab.command(arguments).stderr(Stdio::piped()).output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        check(
            output.status.code() == Some(code),
            format!("{arguments:?}: {}\n{text}", output.status),
        )?;
        check(
            parts.iter().all(|part| text.contains(part)),
            format!("{arguments:?}: {parts:?} in\n{text}"),
        )?;
        lab.assert_clean()
    };
    let file = lab.lab_file_path().display().to_string();
    refused(&["run", "missing.xoff.yml"], 4, &["missing.xoff.yml"])?;
    lab.write_lab_file("60", "")?;
    refused(&["run", &file], 4, &[":16:", "\"60\"", "20s"])?;
    lab.write_lab_file("60s", "    - endpoints: [\"sw1:Ethernet12\", external: nothere]")?;
    refused(&["run", &file], 3, &["nothere", "ip link"])?;
    refused(&["up", &file], 3, &["nothere", "ip link"])
}

pub(crate) fn a_tap_is_moved_to_its_host() -> Result<Completion, Failed> {
    let text = lab_file_text("tap", "1s", "");
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
    check(
        net::read_link("Ethernet0").is_err(),
        "the tap is still in the namespace of the switch",
    )?;
    let facts = host.netns.run(|| net::read_link("eth0"))??;
    check(
        facts.up && facts.mtu == plan.links[0].mtu && facts.mac == plan.hosts[0].mac,
        format!("{facts:?}"),
    )?;
    check(opened.port.is_link_up(), "the port of the switch has no link")?;
    drop(opened);
    check(
        host.netns.run(|| net::read_link("eth0"))?.is_err(),
        "the tap exists after its descriptor was closed",
    )?;
    Ok(Completion::Completed)
}
