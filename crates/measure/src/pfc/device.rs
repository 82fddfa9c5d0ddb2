//! A network device that sends and receives MAC control frames.

use std::io;
use std::os::fd::BorrowedFd;

use xoff_ports::net;
use xoff_ports::tester::{CapturedFrame, FrameListener, FrameSender, SendCounts};
use xoff_telemetry::count_noun;
use xoff_telemetry::failure::Failure;
use xoff_wire::ETHERTYPE_MAC_CONTROL;

/// Speed in Mb/s for devices that report none.
pub const DEFAULT_SPEED_MBPS: u32 = 1_000;

/// Properties of a network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceProperties {
    /// Name of the device.
    pub name: String,
    /// MAC address of the device.
    pub mac: [u8; 6],
    /// MTU of the device in bytes.
    pub mtu: u32,
    /// Speed in Mb/s that the device reports. `None` if it reports none.
    pub speed_mbps: Option<u32>,
}

/// A network device that is up.
#[derive(Debug)]
pub struct ControlDevice {
    /// Properties of the device.
    pub properties: DeviceProperties,
    sender: Option<FrameSender>,
    listener: Option<FrameListener>,
}

impl ControlDevice {
    /// Opens a device of the calling thread's namespace for sending.
    ///
    /// # Errors
    /// The device does not exist, is down, has no carrier, or belongs to a bridge, or the process lacks
    /// CAP_NET_RAW.
    pub fn open_sender(name: &str) -> Result<ControlDevice, Failure> {
        let properties = read_properties("--dev", name)?;
        let sender = FrameSender::open(name).map_err(|error| open_failure(name, &error))?;
        Ok(ControlDevice {
            properties,
            sender: Some(sender),
            listener: None,
        })
    }

    /// Opens a device of the calling thread's namespace for receiving. The device is promiscuous as long as it is
    /// open.
    ///
    /// # Errors
    /// Same as [`ControlDevice::open_sender`].
    pub fn open_receiver(name: &str) -> Result<ControlDevice, Failure> {
        let properties = read_properties("--dev", name)?;
        let listener =
            FrameListener::open(name, &mac_control_filter()).map_err(|error| open_failure(name, &error))?;
        Ok(ControlDevice {
            properties,
            sender: None,
            listener: Some(listener),
        })
    }

    /// Sends frames from the front of `frames`, see [`FrameSender::send`].
    ///
    /// # Errors
    /// The device was closed for sending, was removed or is down, or the frame is longer than its MTU permits.
    pub fn send(&mut self, frames: &[&[u8]]) -> Result<SendCounts, Failure> {
        let name = &self.properties.name;
        let Some(sender) = &mut self.sender else {
            return Err(
                Failure::environment("the device is not open for sending").at(format!("--dev {name}"))
            );
        };
        sender
            .send(frames)
            .map_err(|error| send_failure(&self.properties, &error))
    }

    /// Calls `handle` for each received MAC control frame, oldest first. Returns the number of frames.
    pub fn receive(&mut self, handle: impl FnMut(CapturedFrame<'_>)) -> usize {
        self.listener
            .as_mut()
            .map_or(0, |listener| listener.receive(handle))
    }

    /// Returns the number of MAC control frames that were lost since the last call, because the receive ring was
    /// full.
    pub fn take_lost_frames(&self) -> u64 {
        self.listener.as_ref().map_or(0, FrameListener::take_lost_frames)
    }

    /// Returns whether the device still exists in the namespace of the calling thread.
    pub fn exists(&self) -> bool {
        nix::net::if_::if_nametoindex(self.properties.name.as_str()).is_ok()
    }

    /// Returns the descriptor that becomes readable when frames arrive. `None` for a sender.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(FrameListener::fd)
    }
}

/// Returns the time of `CLOCK_MONOTONIC` in nanoseconds, the clock of captured frames.
pub(super) fn monotonic_ns() -> u64 {
    xoff_runtime::workers::clock::monotonic_ns()
}

/// Checks that a device exists in the calling thread's namespace, is up, has a carrier, and belongs to no bridge.
/// `option` is the option with its name.
///
/// # Errors
/// The device is not suitable for MAC control frames.
pub fn check_control_device(option: &str, name: &str) -> Result<(), Failure> {
    read_properties(option, name).map(drop)
}

fn read_properties(option: &str, name: &str) -> Result<DeviceProperties, Failure> {
    let location = format!("{option} {name}");
    let net_failure = |error: net::Error| match error {
        net::Error::BadName { .. } => Failure::usage(error.to_string()).at(location.clone()),
        net::Error::NoSuchLink { .. } => Failure::environment(format!("there is no network device {name}"))
            .at(location.clone())
            .because("the network namespace of this process has no device of this name")
            .fix("list the devices with `ip link`, and check the namespace"),
        _ => Failure::environment(error.to_string()).at(location.clone()),
    };
    let link = net::read_link(name).map_err(net_failure)?;
    if !link.is_ethernet {
        return Err(Failure::environment(format!("{name} is not an Ethernet device"))
            .at(location)
            .fix("name a veth, a tap or a network card: `ip -br link` lists the devices"));
    }
    if !link.up {
        return Err(Failure::environment(format!("the device {name} is down"))
            .at(location)
            .fix(format!("ip link set dev {name} up")));
    }
    if !link.carrier {
        let is_tap = link.kind.as_deref() == Some("tun");
        let (why, fix) = match is_tap {
            true => (
                "the device is a tap, and no program has opened it",
                "start the program that uses the tap, such as QEMU with `-netdev tap`",
            ),
            false => (
                "the device has no carrier: its far end is down or the cable is not connected",
                "set the far end up, or connect the cable",
            ),
        };
        return Err(Failure::environment(format!("the link of {name} is down"))
            .at(location)
            .because(why)
            .fix(fix));
    }
    if let Some(master) = &link.master {
        return Err(
            Failure::environment(format!("the device {name} belongs to {master}"))
                .at(location)
                .because(format!("{master} consumes MAC control frames"))
                .fix(format!("ip link set dev {name} nomaster")),
        );
    }
    Ok(DeviceProperties {
        name: name.to_owned(),
        mac: link.mac,
        mtu: link.mtu,
        speed_mbps: net::read_link_speed_mbps(name).map_err(net_failure)?,
    })
}

fn open_failure(name: &str, error: &io::Error) -> Failure {
    let failure = Failure::environment(format!("the device {name} cannot be opened"))
        .at(format!("--dev {name}"))
        .because(error);
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => failure.fix(
            "run as root, inside a user namespace (`unshare -Urn`), or after `setcap cap_net_raw+ep` on the program",
        ),
        _ => failure,
    }
}

fn send_failure(device: &DeviceProperties, error: &io::Error) -> Failure {
    let name = &device.name;
    let failure = Failure::environment(format!("the device {name} cannot send the frame"))
        .at(format!("--dev {name}"))
        .because(error);
    match error.raw_os_error() {
        Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
            failure.fix(format!("ip link set dev {name} up"))
        }
        Some(libc::EMSGSIZE) => failure.fix(format!(
            "send a frame of at most {}, or raise the MTU of the device",
            count_noun(u64::from(device.mtu) + 14, "byte")
        )),
        _ => failure,
    }
}

/// Returns a socket filter for frames with the ethertype of MAC control, also behind one VLAN tag in the bytes of
/// the frame.
fn mac_control_filter() -> [libc::sock_filter; 7] {
    const LOAD_H: u16 = 0x28;
    const JEQ: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ETHERTYPE: u32 = ETHERTYPE_MAC_CONTROL as u32;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    [
        step(LOAD_H, 0, 0, 12),
        step(JEQ, 3, 0, ETHERTYPE),
        step(JEQ, 0, 3, 0x8100),
        step(LOAD_H, 0, 0, 16),
        step(JEQ, 0, 1, ETHERTYPE),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ]
}
