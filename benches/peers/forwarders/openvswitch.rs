//! Open vSwitch as a learning switch, with its own database and daemon in the folder of the bench.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{RunningForwarder, kernel};
use crate::Failure;
use crate::bed::{FORWARDER_DEVICES, TestBed};
use crate::child::{Program, is_installed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Datapath {
    Packet,
    Xdp,
    Kernel,
}

pub(super) fn start(bed: &TestBed, datapath: Datapath) -> Result<RunningForwarder, Failure> {
    for program in ["ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl"] {
        if !is_installed(program) {
            return Err(format!(
                "{program} is not installed (`apt-get install openvswitch-switch`)"
            ));
        }
    }
    if datapath == Datapath::Kernel && !Path::new("/sys/module/openvswitch").exists() {
        return Err("the kernel has no Open vSwitch datapath (module openvswitch)".to_owned());
    }
    let home = bed.folder.path().join("ovs");
    // Remove the files of the previous run.
    let _ = std::fs::remove_dir_all(&home);
    std::fs::create_dir_all(&home).map_err(|error| format!("cannot make {}: {error}", home.display()))?;
    let database = home.join("conf.db");
    let schema = Path::new("/usr/share/openvswitch/vswitch.ovsschema");
    run(Command::new("ovsdb-tool")
        .arg("create")
        .args([&database, &PathBuf::from(schema)]))?;
    let socket = home.join("db.sock");
    let mut server = Program::start(
        "ovsdb-server",
        |command| {
            command
                .arg(&database)
                .arg(format!("--remote=punix:{}", socket.display()))
                .arg(format!("--unixctl={}", home.join("server.ctl").display()));
        },
        &home.join("server.txt"),
        bed.cores,
    )?;
    server.wait_until(|_| socket.exists())?;
    let control = format!("--db=unix:{}", socket.display());
    let vsctl = |words: &str| {
        let words = words.split_whitespace();
        run(Command::new("ovs-vsctl")
            .arg(&control)
            .args(["--timeout=10", "--no-wait"])
            .args(words))
    };
    vsctl(&format!(
        "set Open_vSwitch . other_config:pmd-cpu-mask={:x}",
        1u64 << bed.cores.forwarder
    ))?;
    let (kind, device_type) = match datapath {
        Datapath::Packet => ("netdev", "system"),
        Datapath::Xdp => ("netdev", "afxdp"),
        Datapath::Kernel => ("system", "system"),
    };
    vsctl(&format!("add-br ovs0 -- set bridge ovs0 datapath_type={kind}"))?;
    for device in FORWARDER_DEVICES {
        vsctl(&format!(
            "add-port ovs0 {device} -- set interface {device} type={device_type}"
        ))?;
        if datapath == Datapath::Kernel {
            kernel::receive_on(device, bed.cores.forwarder)?;
        }
    }
    let control_socket = home.join("switch.ctl");
    let mut switch = Program::start(
        "ovs-vswitchd",
        |command| {
            command
                .env("OVS_RUNDIR", &home)
                .arg(format!("unix:{}", socket.display()))
                .arg(format!("--unixctl={}", control_socket.display()));
        },
        &home.join("switch.txt"),
        bed.cores,
    )?;
    switch.wait_until(|_| control_socket.exists())?;
    // Without `--no-wait`, the command returns when the daemon has applied the change.
    run(Command::new("ovs-vsctl").arg(&control).args([
        "--timeout=10",
        "set",
        "bridge",
        "ovs0",
        "fail_mode=standalone",
    ]))?;
    for device in FORWARDER_DEVICES {
        let error = run(Command::new("ovs-vsctl").arg(&control).args([
            "--timeout=10",
            "get",
            "interface",
            device,
            "error",
        ]))?;
        if error.trim() != "[]" {
            return Err(format!(
                "{device} as a port of type {device_type}: {}",
                error.trim()
            ));
        }
    }
    Ok(RunningForwarder {
        parts: Some(kernel::KernelObjects::Device {
            _device: kernel::Device("ovs0"),
        }),
        in_kernel: datapath == Datapath::Kernel,
        ..RunningForwarder::programs(vec![switch, server])
    })
}

/// Runs a program to its end. Returns its output.
fn run(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("cannot run {name}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}
