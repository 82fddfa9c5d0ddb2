//! A lab, checked and complete: every default is filled in, every name resolved.
//!
//! The plan is what the command line hands to the processes of the lab, so it can be written and read.

mod names;
mod script;
mod transport;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use script::{
    ActionPlan, BlockPlan, DirectionPlan, FaultPlan, InjectPlan, PausePlan, ScriptPlan, SelectorPlan,
    SendPlan, StepPlan, TargetPlan,
};
pub use transport::TransportPlan;

use xoff_workload::WorkloadSpec;

/// Port speed where neither the lab file nor the switch's configuration has one, in Mb/s.
pub const SPEED_MBPS_DEFAULT: u32 = 1000;
/// MTU of a link's veth where the lab file has none, in bytes: RoCE's 4096 and jumbo frames fit.
pub const MTU_DEFAULT: u32 = 9216;

/// What makes time go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeMode {
    /// The wall clock: namespaces, cables and kernels of this machine.
    RealTime,
    /// Events alone: everything is a model, see [`xoff_fabric`].
    Virtual,
}

/// A whole lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabPlan {
    /// Name of the lab, unique among the running labs of a user.
    pub name: String,
    /// Switches in the order of the file.
    pub switches: Vec<SwitchPlan>,
    /// Hosts in the order of the file.
    pub hosts: Vec<HostPlan>,
    /// Links. Every port of a switch is used at most once, every host has exactly one.
    pub links: Vec<LinkPlan>,
    /// How connections of jobs are set up: what [`JobSpec::transport`](xoff_workload::JobSpec::transport) counts.
    pub transports: Vec<TransportPlan>,
    /// The queue pairs of jobs are announced to the switches, each with its way, before they send.
    #[serde(default)]
    pub announce: bool,
    /// What the hosts send.
    pub workload: WorkloadPlan,
    /// What happens besides, and what must come of it; empty without a script.
    pub script: ScriptPlan,
    /// What the input says and the lab does not do, such as columns of a list of flows; printed before a run.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A switch of a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchPlan {
    /// Its name.
    pub name: String,
    /// Its configuration: layers, the later over the earlier, table by table, key by key, field by field.
    pub config: Vec<ConfigLayer>,
    /// The ASIC whose part is read of files that configure several, such as `asic0`.
    #[serde(default)]
    pub asic: Option<String>,
    /// The lookup file of lossless profiles, for the traditional buffer model.
    #[serde(default)]
    pub pg_profiles: Option<PgProfilesPlan>,
}

/// A lookup file of lossless profiles, `pg_profile_lookup.ini`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PgProfilesPlan {
    /// Its path, for messages.
    pub source: String,
    /// Its text.
    pub text: String,
}

/// One layer of a switch's configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ConfigLayer {
    /// The text of a `config_db.json`.
    Text {
        /// Where it came from, for messages: a path, or `FILE:LINE` of an inline mapping.
        source: String,
        /// JSON.
        text: String,
    },
    /// A built-in preset, made for the ports of the switch in this lab.
    Preset {
        /// Its name, such as `roce-lossless`.
        name: String,
        /// Where it is asked for, `FILE:LINE`.
        source: String,
    },
}

/// A host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostPlan {
    /// Its name.
    pub name: String,
    /// Its interface, as the links call it (`eth0`).
    pub interface: String,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Its IPv4 address.
    pub ipv4: Ipv4Addr,
    /// Its IPv6 address.
    pub ipv6: Ipv6Addr,
    /// Length of the prefix that its IPv4 link shares. A model host without a gateway has everything on its link.
    pub ipv4_prefix: u8,
    /// The same of IPv6.
    pub ipv6_prefix: u8,
    /// Routers of a model host, at most one for each family; those of a plain one are among its routes.
    pub gateways: Vec<IpAddr>,
    /// Hardware address of its IPv4 gateway, where the lab gave it one: it need not be asked for.
    pub gateway_mac: Option<[u8; 6]>,
    /// What it is.
    pub kind: HostKind,
    /// What is special about the NIC of a model host.
    pub nic: NicPlan,
}

/// What a host is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostKind {
    /// An RDMA host of ours, in a namespace of its own.
    Model,
    /// The kernel's own end of the cable, in a namespace of its own.
    Plain(PlainPlan),
    /// A guest in QEMU, on a tap in the lab's namespace.
    Vm(VmPlan),
}

/// A plain host: what its kernel is told, and what runs there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlainPlan {
    /// Routes beside those of its own link.
    pub routes: Vec<RoutePlan>,
    /// Commands for `sh -c`, run one after the other once the lab is up.
    pub exec: Vec<String>,
}

/// A route of a plain host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutePlan {
    /// Where it leads: an address of the prefix.
    pub destination: IpAddr,
    /// Length of the prefix; 0 is the default route.
    pub prefix: u8,
    /// The next hop, of the same family.
    pub gateway: IpAddr,
}

/// A guest in QEMU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmPlan {
    /// The emulator: a path, or a name in `PATH`.
    pub qemu: String,
    /// The kernel's file.
    pub kernel: PathBuf,
    /// The initial file system, if there is one.
    pub initrd: Option<PathBuf>,
    /// The kernel's command line, behind what the lab puts there.
    pub append: String,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Processors.
    pub cpus: u32,
    /// `kvm` or `tcg`; `None`: the former where it can be opened.
    pub accel: Option<String>,
    /// Further arguments of QEMU.
    pub args: Vec<String>,
    /// Where its console is written to.
    pub console: Option<PathBuf>,
    /// Where it is in the lab file, `FILE:LINE`, for messages.
    pub source: String,
}

/// The NIC of a host; `None` is the model's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicPlan {
    /// From the arrival of a pause to its effect, in nanoseconds of model time.
    pub response_ns: Option<u64>,
    /// Size of a receive buffer that drains slower than the link fills it, in bytes.
    pub buffer_bytes: Option<u32>,
    /// How fast that buffer drains, in bits per second of model time.
    pub drain_bps: Option<u64>,
    /// Priorities whose pauses the NIC obeys, one bit each.
    pub pfc_honoured: Option<u8>,
}

/// A link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPlan {
    /// Its name, unique in the lab: that of the file, or its ends as there, `h1:eth0--sw1:Ethernet0`.
    pub name: String,
    /// Index of the switch in [`LabPlan::switches`].
    pub switch: usize,
    /// Name of the port there, such as `Ethernet0`.
    pub port: String,
    /// What is at the other end.
    pub far: FarEnd,
    /// Speed in Mb/s, if the lab file says one. Otherwise the configuration of the port decides, and where
    /// that says nothing either, [`SPEED_MBPS_DEFAULT`].
    pub speed_mbps: Option<u32>,
    /// How long a bit is under way, in nanoseconds of model time.
    pub delay_ns: u64,
    /// MTU of the interfaces, in bytes.
    pub mtu: u32,
    /// Where the link is in the lab file, `FILE:LINE`, for messages.
    pub source: String,
}

/// The other end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FarEnd {
    /// A host: index in [`LabPlan::hosts`].
    Host(usize),
    /// A port of another switch.
    Switch {
        /// Index of the switch in [`LabPlan::switches`].
        switch: usize,
        /// Name of the port there.
        port: String,
    },
    /// An existing network device of this machine, which becomes the switch's port.
    External(String),
}

impl LinkPlan {
    /// The port of a switch that the link is in, if it is one of its ends.
    pub fn port_at(&self, of: usize) -> Option<&str> {
        match &self.far {
            _ if self.switch == of => Some(&self.port),
            FarEnd::Switch { switch, port } if *switch == of => Some(port),
            _ => None,
        }
    }
}

/// What is sent, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadPlan {
    /// Model time during which the flows send, in nanoseconds. Zero: no flow sends, and jobs run until they are done.
    pub duration_ns: u64,
    /// Model time allowed afterwards for what is still in the switch, in nanoseconds.
    pub drain_ns: u64,
    /// One flow per sender: open loop, at a rate, without acknowledgements.
    pub flows: Vec<FlowPlan>,
    /// Jobs: messages of queue pairs, closed loop.
    pub jobs: WorkloadSpec,
}

/// One flow, from one host to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowPlan {
    /// Name of its group in the file; several senders share it.
    pub name: String,
    /// The sender: index in [`LabPlan::hosts`].
    pub from: usize,
    /// The receiver: index in [`LabPlan::hosts`].
    pub to: usize,
    /// What it offers.
    pub rate: RatePlan,
    /// DSCP of its frames, 0 to 63.
    pub dscp: u8,
    /// ECN field of its frames: whether a switch may mark them.
    pub ecn_capable: bool,
    /// Transmit queue of the sender's NIC and priority whose pauses stop it, 0 to 7.
    pub class: u8,
    /// Whether the lab demands that none of it is lost.
    pub lossless: bool,
    /// Length of a full frame as a socket sees it (no FCS), in bytes.
    pub frame_len: u32,
    /// Length of an RDMA message, in bytes.
    pub message_bytes: u32,
    /// IP version of its frames.
    pub ip: IpVersion,
    /// Hop limit of its frames, at least 1.
    pub ttl: u8,
    /// It starts so long after the workload does, in nanoseconds of model time.
    pub start_ns: u64,
}

/// The rate a flow offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RatePlan {
    /// Share of the sender's link, in millionths, 1 to 1 000 000.
    LinkShare(u32),
    /// Bits on the wire per second of model time, preamble and gap included.
    WireBitsPerSecond(u64),
}

/// An IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl HostPlan {
    /// Whether it is an RDMA host of ours.
    pub fn is_model(&self) -> bool {
        self.kind == HostKind::Model
    }

    /// What it is told, if it is a plain host.
    pub fn plain(&self) -> Option<&PlainPlan> {
        match &self.kind {
            HostKind::Plain(plain) => Some(plain),
            _ => None,
        }
    }

    /// What it is made of, if it is a guest.
    pub fn vm(&self) -> Option<&VmPlan> {
        match &self.kind {
            HostKind::Vm(vm) => Some(vm),
            _ => None,
        }
    }

    /// The host's address of a version.
    pub fn address(&self, version: IpVersion) -> IpAddr {
        match version {
            IpVersion::V4 => self.ipv4.into(),
            IpVersion::V6 => self.ipv6.into(),
        }
    }
}

impl LabPlan {
    /// The cable of a host.
    pub fn link_of_host(&self, host: usize) -> Option<&LinkPlan> {
        self.links.iter().find(|link| link.far == FarEnd::Host(host))
    }

    /// Whether a host, by its index, receives a flow of the workload that is to arrive whole.
    pub fn expects_lossless(&self, host: usize) -> bool {
        let mut flows = self.workload.flows.iter();
        flows.any(|flow| flow.lossless && flow.to == host)
    }

    /// How many hosts are RDMA hosts of ours.
    pub fn model_hosts(&self) -> usize {
        self.hosts.iter().filter(|host| host.is_model()).count()
    }

    /// The devices of this machine that the lab borrows.
    pub fn external_devices(&self) -> impl Iterator<Item = &str> {
        self.links.iter().filter_map(|link| match &link.far {
            FarEnd::External(device) => Some(device.as_str()),
            FarEnd::Host(_) | FarEnd::Switch { .. } => None,
        })
    }
}
