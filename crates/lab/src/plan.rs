//! The plan of a lab: a checked lab file in which all names are resolved to indices and all defaults are set.
//!
//! The command line passes the plan to the processes of the lab as JSON.

mod config_layer;
mod names;
mod nic;
mod script;
mod transport;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub(crate) use config_layer::{COMPUTED_ROUTES, add_layers_of_step};
pub use config_layer::{ComputedLayer, ConfigLayer};
pub use nic::{DcbxPlan, EtsPlan, NicPlan};
pub use script::{
    ActionPlan, EgressBlockPlan, FaultPlan, FaultSelectorPlan, InjectPlan, LinkDirectionPlan, PausePlan,
    ScriptPlan, SendPlan, StepPlan, WorkloadTarget,
};
pub use transport::TransportPlan;

use xoff_telemetry::verdict::Expectation;
use xoff_workload::WorkloadSpec;

/// Largest number of hosts of a lab in virtual time.
pub const HOSTS_MAX: usize = 65_536;
/// Largest number of hosts of a lab in real time.
pub(crate) const HOSTS_MAX_REAL_TIME: usize = 4096;

/// The default port speed in Mb/s. This speed applies if neither the lab file nor the switch configuration
/// sets a speed.
pub const SPEED_MBPS_DEFAULT: u32 = 1000;
/// The default MTU of a link in bytes. It is large enough for RoCE packets with an RDMA MTU of 4096 bytes.
pub const MTU_DEFAULT: u32 = 9216;

/// The clock of a run: real time (`xoff lab run`) or virtual time (`xoff lab run --virtual`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeMode {
    /// Model time follows the wall clock, divided by the dilation. The lab uses namespaces and devices of
    /// the machine.
    RealTime,
    /// Events advance model time. All parts of the lab are models, see [`xoff_fabric`].
    Virtual,
}

/// All parts of a lab, as [`load_lab`](crate::load_lab) returns them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabPlan {
    /// The name of the lab. A user cannot run two labs with the same name.
    pub name: String,
    /// The switches, at least one: first those of the template, then those of the lab file in the order of
    /// the file.
    pub switches: Vec<SwitchPlan>,
    /// The hosts: first those of the template, then those of the lab file in the order of the file.
    pub hosts: Vec<HostPlan>,
    /// The links: first those of the template, then those of the lab file. A switch port has at most one
    /// link, and a host has exactly one link.
    pub links: Vec<LinkPlan>,
    /// The transports of jobs: named sets of options for queue pairs.
    /// [`JobSpec::transport`](xoff_workload::JobSpec::transport) is an index of this list.
    pub transports: Vec<TransportPlan>,
    /// Whether the lab announces each queue pair of a job to the switches, together with a path, before the
    /// first packet of the queue pair. Only in virtual time.
    #[serde(default)]
    pub announce: bool,
    /// The traffic of the hosts. If the lab file has no workload, the lists of flows and jobs are empty.
    pub workload: WorkloadPlan,
    /// The steps of the script. Empty without a script.
    pub script: ScriptPlan,
    /// Notes that are printed before a run. Each note names an input without effect, such as an unused column
    /// of a flow list.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The file of the lab. `None` if the lab was not read from a file.
    #[serde(default)]
    pub file: Option<LabFileOrigin>,
    /// The absolute path of the folder of the lab file, in which the commands of plain hosts run. The current folder
    /// if the lab was read from standard input. `None` if the current folder is unknown.
    #[serde(default)]
    pub folder: Option<OsString>,
}

/// The file from which a lab was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabFileOrigin {
    /// The path of the file as the user wrote it.
    pub path: String,
    /// The user who owns the file. The number comes from the open file, so that nobody can replace the file between
    /// this check and the read.
    pub owner_uid: u32,
}

/// One switch of a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchPlan {
    /// The name of the switch.
    pub name: String,
    /// The configuration layers, possibly none. A later layer overrides fields of an earlier layer.
    pub config: Vec<ConfigLayer>,
    /// The ASIC to read from configuration files for several ASICs, such as `asic0`. With `None`, a file for
    /// several ASICs is an error. Files for a single ASIC ignore this field.
    #[serde(default)]
    pub asic: Option<String>,
    /// The lookup file of lossless profiles for SONiC's traditional buffer model. `None` if the lab file
    /// names none.
    #[serde(default)]
    pub pg_profiles: Option<PgProfilesPlan>,
}

/// A lookup file of lossless profiles (SONiC's `pg_profile_lookup.ini`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PgProfilesPlan {
    /// The path of the file, for use in messages.
    pub source: String,
    /// The text of the file. Its rows are checked later, with the configuration of the switch.
    pub text: String,
}

/// One host of a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostPlan {
    /// The name of the host.
    pub name: String,
    /// The name of its only interface, such as `eth0`.
    pub interface: String,
    /// The unicast MAC address.
    pub mac: [u8; 6],
    /// The unicast IPv4 address, unique in the lab.
    pub ipv4: Ipv4Addr,
    /// The unicast IPv6 address, unique in the lab.
    pub ipv6: Ipv6Addr,
    /// The length of the IPv4 prefix of the link, 1 to 32. A model host without a gateway treats all
    /// addresses as on-link.
    pub ipv4_prefix: u8,
    /// The length of the on-link IPv6 prefix, 1 to 128.
    pub ipv6_prefix: u8,
    /// The gateways of a model host, at most one for IPv4 and one for IPv6. Empty for a plain host, which has
    /// routes instead ([`PlainHostPlan::routes`]), and for a guest.
    pub gateways: Vec<IpAddr>,
    /// The MAC address of the IPv4 gateway, if the lab has computed routes. The host then needs no ARP for
    /// the gateway. `None` means that the host resolves the address by ARP.
    pub gateway_mac: Option<[u8; 6]>,
    /// The kind of the host, with its options.
    pub kind: HostKind,
    /// The options of the NIC of a model host. Plain hosts and guests ignore them.
    pub nic: NicPlan,
}

/// The kind of a host: how the host is implemented.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostKind {
    /// A model host: an RDMA host that xoff simulates. In real time, the host has its own network namespace.
    Model,
    /// A plain host: the network stack of the machine's kernel in its own namespace.
    Plain(PlainHostPlan),
    /// A QEMU guest, which is connected to a tap device.
    Vm(VmPlan),
}

/// The routes and commands of a plain host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlainHostPlan {
    /// The routes in addition to the routes of the host's link.
    pub routes: Vec<RoutePlan>,
    /// The commands of the host. `sh -c` runs them one after the other as soon as the lab is up.
    pub exec: Vec<String>,
}

/// A route of a plain host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutePlan {
    /// The network address of the destination prefix.
    pub destination: IpAddr,
    /// The length of the prefix, up to 32 for IPv4 and 128 for IPv6. A default route has length 0.
    pub prefix: u8,
    /// The next hop, which has the same address family as `destination` and is in the network of the host.
    pub gateway: IpAddr,
}

/// The options of a QEMU guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmPlan {
    /// The absolute path of the emulator, or a program name that is looked up in `PATH`.
    pub qemu: String,
    /// The absolute path of the kernel image.
    pub kernel: PathBuf,
    /// The absolute path of the initial RAM file system. `None` starts the guest without one.
    pub initrd: Option<PathBuf>,
    /// Arguments that are added to the kernel command line of the lab. May be empty.
    pub append: String,
    /// The memory size in MiB, 16 to 1 048 576.
    pub memory_mib: u32,
    /// The number of virtual CPUs, 1 to 255.
    pub cpus: u32,
    /// The QEMU accelerator, `kvm` or `tcg`. `None` means `kvm` if available, otherwise `tcg`.
    pub accel: Option<String>,
    /// Additional arguments at the end of the QEMU command line. May be empty.
    pub args: Vec<String>,
    /// The device between the guest and its switch port.
    #[serde(default)]
    pub attach: VmAttachment,
    /// The absolute path of the file for the console output. `None` writes no file.
    pub console: Option<PathBuf>,
    /// Where the lab file defines this object, as `FILE:LINE`, for use in messages.
    pub source: String,
}

/// The device between a guest and its switch port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VmAttachment {
    /// A tap. The kernel drops frames for which its queue has no room.
    #[default]
    Tap,
    /// A stream socket. While the switch pauses the guest, the frames wait in the guest.
    Stream,
}

/// One link of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPlan {
    /// The name of the link, unique in the lab. The default name contains both ends, for
    /// example `h1:eth0--sw1:Ethernet0`.
    pub name: String,
    /// The index in [`LabPlan::switches`] of the switch at the first end.
    pub switch: usize,
    /// The name of the port of this switch, such as `Ethernet0`.
    pub port: String,
    /// The other end of the link.
    pub far: FarEnd,
    /// The speed in the lab file in Mb/s, 10 to 1 600 000. If the lab file sets no speed, the value is
    /// `None`. The link then has the speed in the port configuration, or else [`SPEED_MBPS_DEFAULT`].
    pub speed_mbps: Option<u32>,
    /// The propagation delay of each direction in nanoseconds of model time.
    pub delay_ns: u64,
    /// The MTU of both interfaces in bytes, 68 to 65 535.
    pub mtu: u32,
    /// The smaller of [`LinkPlan::mtu`] and the MTU of the switch port in bytes, when the lab starts in real time. This
    /// is the MTU of the interface of a plain host or a guest: its kernel then sends no packet that is too long for the
    /// port. Equal to [`LinkPlan::mtu`] before the start of the lab.
    pub host_mtu: u32,
    /// The MTU of an external device in bytes when the lab starts. `None` for links without an external
    /// device, and before the start of the lab.
    pub device_mtu: Option<u32>,
    /// Where the lab file defines this object, as `FILE:LINE`, for use in messages.
    pub source: String,
}

/// The other end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FarEnd {
    /// A host, by its index in [`LabPlan::hosts`].
    Host(usize),
    /// A port of another switch.
    Switch {
        /// The index of the switch in [`LabPlan::switches`].
        switch: usize,
        /// The name of the port of that switch.
        port: String,
    },
    /// An existing network device of the machine, by its name. The device becomes the switch port. Only in
    /// real time.
    External(String),
}

impl LinkPlan {
    /// Returns the name of the port that connects the link to a switch. `switch_index` is an index of
    /// [`LabPlan::switches`]. Returns `None` if the switch is at neither end of the link.
    pub fn port_at_switch(&self, switch_index: usize) -> Option<&str> {
        match &self.far {
            _ if self.switch == switch_index => Some(&self.port),
            FarEnd::Switch { switch, port } if *switch == switch_index => Some(port),
            _ => None,
        }
    }
}

/// The workload of a lab: its open-loop flows and its jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadPlan {
    /// The time during which open-loop flows send, in nanoseconds of model time. The value is 0 if the
    /// workload consists of jobs only. Jobs run until they are finished.
    pub duration_ns: u64,
    /// The time after `duration_ns` for frames in flight to arrive, in nanoseconds of model time.
    pub drain_ns: u64,
    /// The open-loop flows, one for each sender. An open-loop flow sends at a constant rate and gets
    /// no acknowledgements.
    pub flows: Vec<FlowPlan>,
    /// The jobs, which send RDMA messages through queue pairs.
    pub jobs: WorkloadSpec,
}

/// One open-loop flow from one host to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowPlan {
    /// The name of the flow in the lab file. All senders of this flow share the name.
    pub name: String,
    /// The index of the sender in [`LabPlan::hosts`], a model host.
    pub from: usize,
    /// The index of the receiver in [`LabPlan::hosts`], another model host.
    pub to: usize,
    /// The rate at which the sender offers frames.
    pub rate: OfferedRate,
    /// The DSCP of the frames, 0 to 63.
    pub dscp: u8,
    /// Whether the frames are ECN-capable (ECT(0)), so that switches can mark them CE.
    pub ecn_capable: bool,
    /// The class of the frames, 0 to 7: the transmit queue of the sender and the PFC priority that pauses
    /// this queue.
    pub class: u8,
    /// Whether lost, reordered and damaged frames are failures of the run.
    pub lossless: bool,
    /// The length of a full frame in bytes, without FCS. Headers and ICRC take 58 bytes for IPv4 and 78 bytes
    /// for IPv6. The rest is payload: 40 to 8192 bytes, a multiple of 4.
    pub frame_len: u32,
    /// The length of an RDMA message in bytes, 40 to 2^31. The last frame of a message has at least 40 bytes
    /// of payload.
    pub message_bytes: u32,
    /// The IP version of the frames.
    pub ip: IpVersion,
    /// The TTL (IPv4) or hop limit (IPv6) of the frames, 1 to 255.
    pub ttl: u8,
    /// The time between the start of the workload and the start of this flow, in nanoseconds of model time.
    pub start_ns: u64,
    /// The frames that must arrive at the receiver. May be empty.
    #[serde(default)]
    pub expect: Vec<Expectation>,
}

/// The offered rate of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OfferedRate {
    /// A share of the sender's link speed, in millionths, 1 to 1 000 000. The value 1 000 000 is the full
    /// link speed.
    LinkShare(u32),
    /// Bits per second of model time, with preamble and interframe gap, 1 to 1.6 * 10^12.
    WireBitsPerSecond(u64),
}

/// The version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IpVersion {
    /// IP version 4.
    V4,
    /// IP version 6.
    V6,
}

impl HostPlan {
    /// Returns whether the host is a model host.
    pub fn is_model(&self) -> bool {
        self.kind == HostKind::Model
    }

    /// Returns the options of a plain host. Returns `None` for other kinds of hosts.
    pub fn as_plain(&self) -> Option<&PlainHostPlan> {
        match &self.kind {
            HostKind::Plain(plain) => Some(plain),
            _ => None,
        }
    }

    /// Returns the options of a QEMU guest. Returns `None` for other kinds of hosts.
    pub fn as_vm(&self) -> Option<&VmPlan> {
        match &self.kind {
            HostKind::Vm(vm) => Some(vm),
            _ => None,
        }
    }

    /// Returns the IPv4 or IPv6 address of the host.
    pub fn address(&self, version: IpVersion) -> IpAddr {
        match version {
            IpVersion::V4 => self.ipv4.into(),
            IpVersion::V6 => self.ipv6.into(),
        }
    }
}

impl LabPlan {
    /// Returns the link of a host. `host` is an index of [`LabPlan::hosts`]. Returns `None` if no link has
    /// this host. In a resolved plan, each host has a link.
    pub fn link_of_host(&self, host: usize) -> Option<&LinkPlan> {
        self.links.iter().find(|link| link.far == FarEnd::Host(host))
    }

    /// Returns whether a host receives at least one lossless flow of the workload. `host` is an index of
    /// [`LabPlan::hosts`]. Jobs and `send` steps do not count.
    pub fn expects_lossless(&self, host: usize) -> bool {
        let mut flows = self.workload.flows.iter();
        flows.any(|flow| flow.lossless && flow.to == host)
    }

    /// Returns the number of model hosts.
    pub fn model_host_count(&self) -> usize {
        self.hosts.iter().filter(|host| host.is_model()).count()
    }

    /// Returns the names of the machine's network devices that the lab uses as switch ports, in the order of
    /// the links.
    pub fn external_devices(&self) -> impl Iterator<Item = &str> {
        self.links.iter().filter_map(|link| match &link.far {
            FarEnd::External(device) => Some(device.as_str()),
            FarEnd::Host(_) | FarEnd::Switch { .. } => None,
        })
    }

    /// Reads the MTUs of all external devices in the network namespace of the calling thread.
    ///
    /// # Errors
    /// Fails if the kernel refuses to read an MTU. A device that does not exist is no error.
    pub(crate) fn read_device_mtus(&mut self) -> std::io::Result<()> {
        for link in &mut self.links {
            if let FarEnd::External(device) = &link.far {
                link.device_mtu = xoff_ports::read_device_mtu(device)?;
            }
        }
        Ok(())
    }
}
