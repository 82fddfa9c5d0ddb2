//! The plan of a lab. A plan is a checked lab file in which all names are resolved and all defaults are set.
//!
//! The command line passes the plan to the processes of the lab as JSON.

mod names;
mod script;
mod transport;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use script::{
    ActionPlan, EgressBlockPlan, FaultPlan, FaultSelectorPlan, InjectPlan, LinkDirectionPlan, PausePlan,
    ScriptPlan, SendPlan, StepPlan, WorkloadTarget,
};
pub use transport::TransportPlan;

use xoff_workload::WorkloadSpec;

/// Largest number of hosts in one lab. The default address of a host contains a 16-bit host number.
pub(crate) const HOSTS_MAX: usize = 4096;

/// The default port speed in Mb/s. It applies if neither the lab file nor the switch configuration
/// sets a speed.
pub const SPEED_MBPS_DEFAULT: u32 = 1000;
/// The default MTU of a link in bytes. It is large enough for RoCE packets with an RDMA MTU of 4096 bytes.
pub const MTU_DEFAULT: u32 = 9216;

/// The mode of time in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeMode {
    /// Model time follows the wall clock. The lab uses namespaces and devices of the machine.
    RealTime,
    /// Events advance model time. All parts of the lab are models, see [`xoff_fabric`].
    Virtual,
}

/// All parts of a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabPlan {
    /// The name of the lab. A user cannot run two labs with the same name.
    pub name: String,
    /// The switches in the order of the lab file.
    pub switches: Vec<SwitchPlan>,
    /// The hosts in the order of the lab file.
    pub hosts: Vec<HostPlan>,
    /// The links. A switch port has at most one link, and a host has exactly one link.
    pub links: Vec<LinkPlan>,
    /// The transports of jobs. [`JobSpec::transport`](xoff_workload::JobSpec::transport) is an index
    /// of this list.
    pub transports: Vec<TransportPlan>,
    /// Whether the lab announces each queue pair of a job to the switches before its first packet, together
    /// with a path for the queue pair.
    #[serde(default)]
    pub announce: bool,
    /// The traffic of the hosts.
    pub workload: WorkloadPlan,
    /// The steps of the script. Empty without a script.
    pub script: ScriptPlan,
    /// Notes that are printed before a run. Each note names an input that has no effect, such as an unused
    /// column of a flow list.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One switch of a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchPlan {
    /// The name of the switch.
    pub name: String,
    /// The configuration layers. A later layer overrides fields of an earlier layer.
    pub config: Vec<ConfigLayer>,
    /// The ASIC to read from files with several ASICs, such as `asic0`.
    #[serde(default)]
    pub asic: Option<String>,
    /// The lookup file of lossless profiles for the traditional buffer model.
    #[serde(default)]
    pub pg_profiles: Option<PgProfilesPlan>,
}

/// A lookup file of lossless profiles, `pg_profile_lookup.ini`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PgProfilesPlan {
    /// The path of the file for messages.
    pub source: String,
    /// The text of the file.
    pub text: String,
}

/// One configuration layer of a switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ConfigLayer {
    /// The text of a `config_db.json`.
    Text {
        /// The source for messages: a path, or `FILE:LINE` of an inline mapping.
        source: String,
        /// The JSON text.
        text: String,
    },
    /// A built-in preset for the ports of the switch.
    Preset {
        /// The name of the preset, such as `roce-lossless`.
        name: String,
        /// The position of the preset in the lab file, `FILE:LINE`.
        source: String,
    },
}

/// One host of a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostPlan {
    /// The name of the host.
    pub name: String,
    /// The interface name in links, such as `eth0`.
    pub interface: String,
    /// The MAC address.
    pub mac: [u8; 6],
    /// The IPv4 address.
    pub ipv4: Ipv4Addr,
    /// The IPv6 address.
    pub ipv6: Ipv6Addr,
    /// The length of the IPv4 prefix of the link. A model host without a gateway treats all
    /// addresses as on-link.
    pub ipv4_prefix: u8,
    /// The length of the on-link IPv6 prefix.
    pub ipv6_prefix: u8,
    /// The gateways of a model host, at most one for IPv4 and one for IPv6. A plain host has routes instead
    /// of gateways.
    pub gateways: Vec<IpAddr>,
    /// The MAC address of the IPv4 gateway, if the lab knows the address. The host then needs no ARP
    /// for the gateway.
    pub gateway_mac: Option<[u8; 6]>,
    /// The implementation of the host.
    pub kind: HostKind,
    /// The options of the NIC of a model host.
    pub nic: NicPlan,
}

/// The implementation of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostKind {
    /// A model host: an RDMA host of xoff in its own namespace.
    Model,
    /// A plain host: the kernel of the machine in its own namespace.
    Plain(PlainPlan),
    /// A QEMU guest that is connected to a tap device in the namespace of the lab.
    Vm(VmPlan),
}

/// The routes and commands of a plain host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlainPlan {
    /// The routes in addition to the routes of its link.
    pub routes: Vec<RoutePlan>,
    /// The commands of the host, which `sh -c` runs one after the other as soon as the lab is up.
    pub exec: Vec<String>,
}

/// A route of a plain host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutePlan {
    /// An address of the destination prefix.
    pub destination: IpAddr,
    /// The length of the prefix. 0 is the default route.
    pub prefix: u8,
    /// The next hop in the same address family.
    pub gateway: IpAddr,
}

/// The options of a QEMU guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmPlan {
    /// The path of the emulator, or its name in `PATH`.
    pub qemu: String,
    /// The path of the kernel image.
    pub kernel: PathBuf,
    /// The path of the initial RAM file system, if set.
    pub initrd: Option<PathBuf>,
    /// Arguments that are added to the kernel command line of the lab.
    pub append: String,
    /// The memory size in MiB.
    pub memory_mib: u32,
    /// The number of virtual CPUs.
    pub cpus: u32,
    /// The accelerator, `kvm` or `tcg`. `None` means `kvm` if available, otherwise `tcg`.
    pub accel: Option<String>,
    /// Additional arguments of QEMU.
    pub args: Vec<String>,
    /// The path of the file for the console output, if set.
    pub console: Option<PathBuf>,
    /// The position in the lab file for messages, `FILE:LINE`.
    pub source: String,
}

/// The options of the NIC of a model host. `None` means the default of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicPlan {
    /// The time from the arrival of a pause frame until the NIC stops sending, in nanoseconds of model time.
    pub response_ns: Option<u64>,
    /// The size of the receive buffer in bytes. A host with this option receives more slowly than its link.
    pub buffer_bytes: Option<u32>,
    /// The rate at which the host reads its receive buffer, in bits per second of model time.
    pub drain_bps: Option<u64>,
    /// The priorities for which the NIC honours PFC, one bit for each priority.
    pub pfc_honoured: Option<u8>,
}

/// One link of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPlan {
    /// The name of the link, unique in the lab. The default contains both ends,
    /// for example `h1:eth0--sw1:Ethernet0`.
    pub name: String,
    /// The index of the switch in [`LabPlan::switches`].
    pub switch: usize,
    /// The name of the switch port, such as `Ethernet0`.
    pub port: String,
    /// The other end of the link.
    pub far: FarEnd,
    /// The speed in Mb/s, if the lab file sets the speed. `None` means the speed in the port configuration,
    /// or [`SPEED_MBPS_DEFAULT`].
    pub speed_mbps: Option<u32>,
    /// The propagation delay in nanoseconds of model time.
    pub delay_ns: u64,
    /// The MTU of the interfaces in bytes.
    pub mtu: u32,
    /// The position in the lab file for messages, `FILE:LINE`.
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
    /// An existing network device of the machine, which becomes the switch port.
    External(String),
}

impl LinkPlan {
    /// Returns the name of the port that connects the link to a switch. Returns `None` if the switch is not
    /// at an end of the link.
    pub fn port_at_switch(&self, switch_index: usize) -> Option<&str> {
        match &self.far {
            _ if self.switch == switch_index => Some(&self.port),
            FarEnd::Switch { switch, port } if *switch == switch_index => Some(port),
            _ => None,
        }
    }
}

/// The traffic of a lab and its duration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadPlan {
    /// The time during which open-loop flows send, in nanoseconds of model time. With 0, the workload
    /// consists of jobs only, which run until they are finished.
    pub duration_ns: u64,
    /// The time after the duration for frames in flight, in nanoseconds of model time.
    pub drain_ns: u64,
    /// The open-loop flows, one for each sender. They send at a constant rate without acknowledgements.
    pub flows: Vec<FlowPlan>,
    /// The jobs, which send RDMA messages through queue pairs.
    pub jobs: WorkloadSpec,
}

/// One open-loop flow from one host to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowPlan {
    /// The name of the flow group. All senders of the group share the name.
    pub name: String,
    /// The index of the sender in [`LabPlan::hosts`].
    pub from: usize,
    /// The index of the receiver in [`LabPlan::hosts`].
    pub to: usize,
    /// The offered rate.
    pub rate: RatePlan,
    /// The DSCP of the frames, 0 to 63.
    pub dscp: u8,
    /// Whether the frames are ECN-capable, so switches may mark them.
    pub ecn_capable: bool,
    /// The class of the frames, 0 to 7. The class is the transmit queue of the sender and also the PFC
    /// priority that pauses this queue.
    pub class: u8,
    /// Whether a lost frame makes the run fail.
    pub lossless: bool,
    /// The length of a full frame without FCS, in bytes.
    pub frame_len: u32,
    /// The length of an RDMA message in bytes.
    pub message_bytes: u32,
    /// The IP version of the frames.
    pub ip: IpVersion,
    /// The TTL or hop limit of the frames, at least 1.
    pub ttl: u8,
    /// The start time after the start of the workload, in nanoseconds of model time.
    pub start_ns: u64,
}

/// The offered rate of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RatePlan {
    /// A share of the sender's link speed. The value 1 000 000 is the full link speed.
    LinkShare(u32),
    /// Bits per second of model time, with preamble and interframe gap.
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

    /// Returns the options of a plain host.
    pub fn as_plain(&self) -> Option<&PlainPlan> {
        match &self.kind {
            HostKind::Plain(plain) => Some(plain),
            _ => None,
        }
    }

    /// Returns the options of a QEMU guest.
    pub fn as_vm(&self) -> Option<&VmPlan> {
        match &self.kind {
            HostKind::Vm(vm) => Some(vm),
            _ => None,
        }
    }

    /// Returns the address of the host for an IP version.
    pub fn address(&self, version: IpVersion) -> IpAddr {
        match version {
            IpVersion::V4 => self.ipv4.into(),
            IpVersion::V6 => self.ipv6.into(),
        }
    }
}

impl LabPlan {
    /// Returns the link of a host.
    pub fn link_of_host(&self, host: usize) -> Option<&LinkPlan> {
        self.links.iter().find(|link| link.far == FarEnd::Host(host))
    }

    /// Returns whether a host receives a lossless flow of the workload.
    pub fn expects_lossless(&self, host: usize) -> bool {
        let mut flows = self.workload.flows.iter();
        flows.any(|flow| flow.lossless && flow.to == host)
    }

    /// Returns the number of model hosts.
    pub fn model_host_count(&self) -> usize {
        self.hosts.iter().filter(|host| host.is_model()).count()
    }

    /// Returns the existing devices of the machine that the lab uses.
    pub fn external_devices(&self) -> impl Iterator<Item = &str> {
        self.links.iter().filter_map(|link| match &link.far {
            FarEnd::External(device) => Some(device.as_str()),
            FarEnd::Host(_) | FarEnd::Switch { .. } => None,
        })
    }
}
