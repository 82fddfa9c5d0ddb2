//! Opens a device with AF_XDP. If a requirement is not met, the error explains this requirement.

use std::io;
use std::sync::Arc;

use super::slot_set::SlotSet;
use super::transmitter::Transmitter;
use super::{ActiveSocket, LossCounters, XdpPort, bpf, reserved_slots, socket};
use crate::device_setup::{enable_inline_vlan_tags, set_up_device};
use crate::device_state::Device;
use crate::drop_counts::{DropCounts, KernelCounter};
use crate::net::ethtool;
use crate::packet_socket::{enable_promiscuous_mode, open_packet_socket};
use crate::{Arena, OpenedPort, Port, PortError, PortSpec, frame_len_max};

/// Names of drivers for which the kernel copies each sent frame. With these drivers, the slot of a frame is
/// free as soon as the frame is sent.
const COPYING_DRIVERS: [&str; 2] = ["veth", "tun"];
/// Capabilities for loading a program. The process needs them in the initial user namespace.
const CAPABILITIES: &str = "cap_bpf, cap_net_admin and cap_net_raw";

impl XdpPort {
    pub(crate) fn open(spec: &PortSpec) -> Result<OpenedPort, PortError> {
        let io = |action, error| PortError::io(spec, action, "cap_net_raw", error);
        // The privileges are checked first. Without them, each device setting would fail with its
        // own message.
        let promiscuous = open_packet_socket().map_err(|error| io("open a packet socket", error))?;
        let socket = socket::open_xdp_socket().map_err(|error| socket_error(spec, error))?;
        let program = bpf::PortProgram::load().map_err(|error| program_error(spec, error))?;
        let driver = ethtool::driver_name(&spec.device).map_err(|error| PortError::net(spec, error))?;
        check_single_queue(spec)?;
        let mut notes = Vec::new();
        let mut setup = set_up_device(spec, &mut notes)?;
        enable_inline_vlan_tags(spec, &mut setup, &mut notes);
        let mut device = Device::open(&spec.device).map_err(|error| io("find the device", error))?;
        enable_promiscuous_mode(&promiscuous, device.index())
            .map_err(|error| io("listen to all addresses", error))?;
        let link = program
            .attach(device.index())
            .map_err(|error| attach_error(spec, &driver, error))?;
        let dropped = device.dropped_frames();
        let xdp = XdpPort {
            spec: spec.clone(),
            active: None,
            link: Some(link),
            can_send_without_copy: COPYING_DRIVERS.contains(&driver.as_str()),
            device_mtu: device.mtu().map_err(|error| io("read the MTU", error))?,
            frame_len_max: frame_len_max(spec.mtu),
            drops: DropCounts::new(),
            losses: LossCounters {
                tx_dropped: KernelCounter::new(dropped.map(|dropped| dropped.tx)),
                rx_dropped: KernelCounter::new(dropped.map(|dropped| dropped.rx)),
                // A veth counts these frames as its own drops.
                socket: (driver != "veth").then(|| KernelCounter::new(Some(0))),
                missed: KernelCounter::new(None),
                invalid: KernelCounter::new(Some(0)),
            },
            has_warned: false,
            has_warned_of_truncated_tags: false,
            notes: Vec::new(),
            empty_reads: 0,
            program,
            socket: Some(socket),
            promiscuous,
            device,
            setup,
        };
        let port = Port::Xdp(Box::new(xdp));
        Ok(OpenedPort { port, notes })
    }

    /// Registers the small slots of an arena as the memory of the socket and creates the rings.
    pub(crate) fn attach(&mut self, arena: &Arc<Arena>) -> Result<(), PortError> {
        let Some(socket) = self.socket.as_ref().filter(|_| self.active.is_none()) else {
            return Ok(());
        };
        let io = |action, error| PortError::io(&self.spec, action, "cap_net_admin", error);
        socket::register_arena(socket, arena).map_err(|error| memory_error(&self.spec, error))?;
        let rings = socket::create_rings(socket).map_err(|error| io("make the rings", error))?;
        socket::bind_to_first_queue(socket, self.device.index())
            .map_err(|error| bind_error(&self.spec, error))?;
        let (small, _) = arena.slot_counts();
        self.active = Some(ActiveSocket {
            fill: rings.fill,
            receive: rings.receive,
            transmitter: Transmitter::new(
                rings.transmit,
                rings.completion,
                self.can_send_without_copy,
                small,
            ),
            posted: SlotSet::new(small),
            copy_slots: reserved_slots(self.spec.mtu) - socket::RECEIVE_ENTRIES as usize,
            is_socket_set: false,
            arena: Arc::clone(arena),
        });
        Ok(())
    }
}

/// Returns an error if the device has several receive queues. A socket receives from only one queue, and
/// would miss all frames of the remaining queues.
fn check_single_queue(spec: &PortSpec) -> Result<(), PortError> {
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
        "it spreads received frames over {} queues, and a port uses one",
        channels.rx
    );
    Err(unsupported_error(spec, why, fix))
}

fn unsupported_error(spec: &PortSpec, why: impl Into<String>, fix: impl Into<String>) -> PortError {
    PortError::NoXdp {
        port: spec.name.clone(),
        device: spec.device.clone(),
        why: why.into(),
        fix: fix.into(),
    }
}

fn privilege_error(spec: &PortSpec) -> PortError {
    unsupported_error(
        spec,
        format!("not permitted; it needs {CAPABILITIES} outside of any user namespace"),
        "run as root",
    )
}

fn socket_error(spec: &PortSpec, error: io::Error) -> PortError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => privilege_error(spec),
        Some(libc::EAFNOSUPPORT) => unsupported_error(
            spec,
            "this kernel has no AF_XDP sockets",
            "use a kernel built with CONFIG_XDP_SOCKETS",
        ),
        _ => PortError::io(spec, "open an AF_XDP socket", "cap_net_raw", error),
    }
}

fn program_error(spec: &PortSpec, error: io::Error) -> PortError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => privilege_error(spec),
        Some(libc::ENOSYS) => unsupported_error(
            spec,
            "this kernel has no bpf(2)",
            "use a kernel built with CONFIG_BPF_SYSCALL",
        ),
        Some(libc::EINVAL) => unsupported_error(
            spec,
            "XDP of this kernel does not support frames in several buffers",
            "use Linux 6.6 or newer",
        ),
        _ => PortError::io(spec, "load an XDP program", "cap_bpf", error),
    }
}

/// Explains why a program cannot be attached. Different drivers use the same error number for different
/// reasons. The explanations here are for the veth driver (`drivers/net/veth.c`).
fn attach_error(spec: &PortSpec, driver: &str, error: io::Error) -> PortError {
    let device = &spec.device;
    let mtu_error = |why: &str| {
        unsupported_error(
            spec,
            format!("{why} for its driver '{driver}' (MTU {})", spec.mtu),
            format!("lower PORT|{}|mtu and the MTU of the device", spec.name),
        )
    };
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => privilege_error(spec),
        Some(libc::EBUSY | libc::EEXIST) => unsupported_error(
            spec,
            "another XDP program is attached to it",
            format!("stop the program that attached it, or run `ip link set dev {device} xdp off`"),
        ),
        Some(libc::EOPNOTSUPP) => unsupported_error(
            spec,
            format!("its driver '{driver}' has no native XDP"),
            "use another device",
        ),
        Some(libc::ERANGE) => mtu_error("frames are too long"),
        Some(libc::EINVAL | libc::E2BIG) if driver != "veth" => {
            mtu_error("native XDP was refused, most likely because frames are too long")
        }
        Some(libc::ENOSPC) => unsupported_error(
            spec,
            "its far end sends over more queues than it receives from",
            "run `ethtool -L PEER tx 1` for the far end, in its namespace",
        ),
        Some(libc::ENOTCONN) => unsupported_error(spec, "its far end is gone", "make the pair again"),
        _ => PortError::io(spec, "attach an XDP program", "cap_net_admin", error),
    }
}

fn memory_error(spec: &PortSpec, error: io::Error) -> PortError {
    match error.raw_os_error() {
        Some(libc::ENOBUFS) => unsupported_error(
            spec,
            "the memory for frames must be locked, and it is larger than the memory lock limit of this process",
            "raise `ulimit -l`, or run as root",
        ),
        _ => PortError::io(spec, "give memory to the AF_XDP socket", "cap_net_admin", error),
    }
}

fn bind_error(spec: &PortSpec, error: io::Error) -> PortError {
    match error.raw_os_error() {
        Some(libc::EBUSY) => unsupported_error(
            spec,
            "another AF_XDP socket uses its queue 0",
            "stop the program that uses it",
        ),
        Some(libc::EINVAL) => unsupported_error(
            spec,
            "AF_XDP of this kernel does not support frames in several buffers",
            "use Linux 6.6 or newer",
        ),
        _ => PortError::io(spec, "bind an AF_XDP socket", "cap_net_raw", error),
    }
}
