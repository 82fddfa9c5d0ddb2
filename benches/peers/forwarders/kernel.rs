//! Forwarders in the kernel. By default, the kernel forwards on the sender's core. The bench makes it use the
//! forwarder's core.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use xoff_ports::net::delete_link;
use xoff_ports::tester::XdpForwarder;

use super::RunningForwarder;
use crate::Failure;
use crate::bed::{Cables, FORWARDER_DEVICES, TestBed, pin_process, set_link_up, write};

const BRIDGE: &str = "br0";

/// Kernel objects of a forwarder. Dropping the value removes them.
#[derive(Debug)]
pub(crate) enum KernelObjects {
    Device { _device: Device },
    Redirects { _redirects: XdpForwarder },
}

/// A device that is removed when the value is dropped: a bridge, or the tap of Open vSwitch.
#[derive(Debug)]
pub(crate) struct Device(pub(super) &'static str);

impl Drop for Device {
    fn drop(&mut self) {
        // The namespace ends with this process in any case.
        let _ = delete_link(self.0);
    }
}

/// Runs `ip`.
fn ip(words: &[&str]) -> Result<(), Failure> {
    let output = Command::new("ip")
        .args(words)
        .output()
        .map_err(|error| format!("cannot run ip: {error} (`apt-get install iproute2`)"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "`ip {}`: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// Starts a bridge with its fastest settings: no netfilter and no spanning tree.
pub(super) fn bridge(bed: &TestBed) -> Result<RunningForwarder, Failure> {
    ip(&[
        "link",
        "add",
        BRIDGE,
        "type",
        "bridge",
        "stp_state",
        "0",
        "mcast_snooping",
        "0",
    ])?;
    let bridge = Device(BRIDGE);
    for file in ["iptables", "ip6tables", "arptables"] {
        // Without this file, the bridge does not call netfilter.
        let _ = write(format!("/proc/sys/net/bridge/bridge-nf-call-{file}"), "0");
    }
    for device in FORWARDER_DEVICES {
        ip(&["link", "set", "dev", device, "master", BRIDGE])?;
        receive_on(device, bed.cores.forwarder)?;
    }
    set_link_up(BRIDGE)?;
    Ok(RunningForwarder::kernel(KernelObjects::Device {
        _device: bridge,
    }))
}

/// Makes a core process the frames of a device (receive packet steering).
pub(super) fn receive_on(device: &str, core: usize) -> Result<(), Failure> {
    // The file contains words of 32 CPUs, the highest first.
    let mut words = vec![format!("{:08x}", 1u32 << (core % 32))];
    words.extend((0..core / 32).map(|_| "00000000".to_owned()));
    write(
        format!("/sys/class/net/{device}/queues/rx-0/rps_cpus"),
        &words.join(","),
    )
}

/// Attaches a redirecting XDP program to each device. The kernel runs each program in its own thread on the
/// forwarder's core.
pub(super) fn redirect(bed: &TestBed, cables: &Cables<'_>) -> Result<RunningForwarder, Failure> {
    cables.poll_at_tester()?;
    let redirects = XdpForwarder::between(FORWARDER_DEVICES).map_err(|error| {
        format!("XDP programs cannot be attached: {error}; it takes root outside of any user namespace")
    })?;
    for device in FORWARDER_DEVICES {
        write(format!("/sys/class/net/{device}/threaded"), "1")?;
        pin_process(thread_of(device)?, &[bed.cores.forwarder])?;
    }
    Ok(RunningForwarder::kernel(KernelObjects::Redirects {
        _redirects: redirects,
    }))
}

/// Returns the kernel thread that polls a device.
fn thread_of(device: &str) -> Result<Pid, Failure> {
    let wanted = format!("napi/{device}-");
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        let processes = fs::read_dir("/proc").map_err(|error| format!("cannot read /proc: {error}"))?;
        for process in processes.flatten() {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            if name.starts_with(&wanted)
                && let Ok(pid) = process.file_name().to_string_lossy().parse()
            {
                return Ok(Pid::from_raw(pid));
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(format!(
        "no kernel thread {wanted}N is to be seen, so it cannot be bound to a core"
    ))
}
