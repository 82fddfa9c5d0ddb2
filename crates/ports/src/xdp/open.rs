//! What has to be so that a device can be driven through AF_XDP, and what is said where it is not.

use std::io;
use std::sync::Arc;

use super::slots::SlotSet;
use super::transmit::Transmitter;
use super::{Live, Losses, Xdp, bpf, slots_held, socket};
use crate::count::{DropCounts, Growing};
use crate::device::Device;
use crate::guard::{guard, inline_tags};
use crate::net::ethtool;
use crate::socket::{create as packet_socket, listen_to_all};
use crate::{Arena, Opened, Port, PortError, PortSpec, longest_frame};

/// Drivers to which the kernel passes frames copied, so that a slot is free as soon as it is sent.
const COPYING_DRIVERS: [&str; 2] = ["veth", "tun"];
/// What loading a program takes. It is asked for in the machine's first user namespace.
const CAPABILITY: &str = "cap_bpf, cap_net_admin and cap_net_raw";

impl Xdp {
    pub(crate) fn open(spec: &PortSpec) -> Result<Opened, PortError> {
        let io = |action, error| PortError::io(spec, action, "cap_net_raw", error);
        // First the privileges: without them every guard would complain, and none of it would help.
        let promiscuous = packet_socket().map_err(|error| io("open a packet socket", error))?;
        let socket = socket::create().map_err(|error| no_socket(spec, error))?;
        let program = bpf::Program::load().map_err(|error| no_program(spec, error))?;
        let driver = ethtool::driver(&spec.device).map_err(|error| PortError::net(spec, error))?;
        one_queue(spec)?;
        let mut notes = Vec::new();
        let guarded = guard(spec, &mut notes)?;
        inline_tags(spec, &mut notes);
        let mut device = Device::here(&spec.device).map_err(|error| io("find the device", error))?;
        listen_to_all(&promiscuous, device.index()).map_err(|error| io("listen to all addresses", error))?;
        let link = program
            .attach(device.index())
            .map_err(|error| not_attached(spec, &driver, error))?;
        let dropped = device.dropped();
        let xdp = Xdp {
            spec: spec.clone(),
            live: None,
            link: Some(link),
            direct: COPYING_DRIVERS.contains(&driver.as_str()),
            device_mtu: device.mtu().map_err(|error| io("read the MTU", error))?,
            longest: longest_frame(spec.mtu),
            drops: DropCounts::new(),
            losses: Losses {
                tx_dropped: Growing::new(dropped.map(|dropped| dropped.tx)),
                rx_dropped: Growing::new(dropped.map(|dropped| dropped.rx)),
                // A veth counts them as its own drops.
                socket: (driver != "veth").then(|| Growing::new(Some(0))),
                misses: Growing::new(None),
                invalid: Growing::new(Some(0)),
            },
            warned: false,
            told_of_cut_tags: false,
            notes: Vec::new(),
            empty_looks: 0,
            program,
            socket: Some(socket),
            promiscuous,
            device,
            guarded,
        };
        let port = Port::Xdp(Box::new(xdp));
        Ok(Opened { port, notes })
    }

    /// Makes the small slots of an arena the socket's memory.
    pub(crate) fn attach(&mut self, arena: &Arc<Arena>) -> Result<(), PortError> {
        let Some(socket) = self.socket.as_ref().filter(|_| self.live.is_none()) else {
            return Ok(());
        };
        let io = |action, error| PortError::io(&self.spec, action, "cap_net_admin", error);
        socket::register(socket, arena).map_err(|error| no_memory(&self.spec, error))?;
        let rings = socket::make_rings(socket).map_err(|error| io("make the rings", error))?;
        socket::bind(socket, self.device.index()).map_err(|error| not_bound(&self.spec, error))?;
        let (small, _) = arena.slots();
        self.live = Some(Live {
            fill: rings.fill,
            receive: rings.receive,
            transmitter: Transmitter::new(rings.transmit, rings.completion, self.direct, small),
            posted: SlotSet::new(small),
            chunks: slots_held(self.spec.mtu) - socket::RECEIVE_ENTRIES as usize,
            is_served: false,
            arena: Arc::clone(arena),
        });
        Ok(())
    }
}

/// A socket hears one queue; frames of the others would go past it.
fn one_queue(spec: &PortSpec) -> Result<(), PortError> {
    let channels = ethtool::channels(&spec.device).map_err(|error| PortError::net(spec, error))?;
    let Some(channels) = channels.filter(|channels| channels.rx > 1) else {
        return Ok(());
    };
    let device = &spec.device;
    let fix = match channels.combined {
        0 => format!("run `ethtool -L {device} rx 1 tx 1`"),
        _ => format!("run `ethtool -L {device} combined 1`"),
    };
    let why = format!(
        "it spreads received frames over {} queues, and a port takes one",
        channels.rx
    );
    Err(no_xdp(spec, why, fix))
}

fn no_xdp(spec: &PortSpec, why: impl Into<String>, fix: impl Into<String>) -> PortError {
    PortError::NoXdp {
        port: spec.name.clone(),
        device: spec.device.clone(),
        why: why.into(),
        fix: fix.into(),
    }
}

fn no_privilege(spec: &PortSpec) -> PortError {
    no_xdp(
        spec,
        format!("not permitted; it takes {CAPABILITY} outside of any user namespace"),
        "run as root",
    )
}

fn no_socket(spec: &PortSpec, error: io::Error) -> PortError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => no_privilege(spec),
        Some(libc::EAFNOSUPPORT) => no_xdp(
            spec,
            "this kernel has no AF_XDP sockets",
            "take one built with CONFIG_XDP_SOCKETS",
        ),
        _ => PortError::io(spec, "open an AF_XDP socket", "cap_net_raw", error),
    }
}

fn no_program(spec: &PortSpec, error: io::Error) -> PortError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => no_privilege(spec),
        Some(libc::ENOSYS) => no_xdp(
            spec,
            "this kernel has no bpf(2)",
            "take one built with CONFIG_BPF_SYSCALL",
        ),
        Some(libc::EINVAL) => no_xdp(
            spec,
            "this kernel's XDP takes no frames of several buffers",
            "take Linux 6.6 or newer",
        ),
        _ => PortError::io(spec, "load an XDP program", "cap_bpf", error),
    }
}

/// The reasons are the drivers'; those of veth are known (`drivers/net/veth.c`).
fn not_attached(spec: &PortSpec, driver: &str, error: io::Error) -> PortError {
    let device = &spec.device;
    let lower = |why: &str| {
        no_xdp(
            spec,
            format!("{why} for its driver '{driver}' (MTU {})", spec.mtu),
            format!("lower PORT|{}|mtu and the device's", spec.name),
        )
    };
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => no_privilege(spec),
        Some(libc::EBUSY | libc::EEXIST) => no_xdp(
            spec,
            "another XDP program is attached to it",
            format!("stop the program that attached it, or run `ip link set dev {device} xdp off`"),
        ),
        Some(libc::EOPNOTSUPP) => no_xdp(
            spec,
            format!("its driver '{driver}' has no native XDP"),
            "take another device",
        ),
        Some(libc::ERANGE) => lower("frames are too long"),
        Some(libc::EINVAL | libc::E2BIG) if driver != "veth" => {
            lower("native XDP was refused, most likely frames are too long")
        }
        Some(libc::ENOSPC) => no_xdp(
            spec,
            "its far end sends over more queues than it receives from",
            "run `ethtool -L PEER tx 1` for the far end, in its namespace",
        ),
        Some(libc::ENOTCONN) => no_xdp(spec, "its far end is gone", "make the pair again"),
        _ => PortError::io(spec, "attach an XDP program", "cap_net_admin", error),
    }
}

fn no_memory(spec: &PortSpec, error: io::Error) -> PortError {
    match error.raw_os_error() {
        Some(libc::ENOBUFS) => no_xdp(
            spec,
            "the memory for frames would have to be locked, and is more than this process may lock",
            "raise `ulimit -l`, or run as root",
        ),
        _ => PortError::io(spec, "give memory to the AF_XDP socket", "cap_net_admin", error),
    }
}

fn not_bound(spec: &PortSpec, error: io::Error) -> PortError {
    match error.raw_os_error() {
        Some(libc::EBUSY) => no_xdp(
            spec,
            "another AF_XDP socket has its queue 0",
            "stop the program that has it",
        ),
        Some(libc::EINVAL) => no_xdp(
            spec,
            "this kernel's AF_XDP takes no frames of several buffers",
            "take Linux 6.6 or newer",
        ),
        _ => PortError::io(spec, "bind an AF_XDP socket", "cap_net_raw", error),
    }
}
