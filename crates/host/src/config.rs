//! What a model host is told to be.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use thiserror::Error;
use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::bth::{self, MASK_24};
use xoff_wire::vlan::TAG_LEN;
use xoff_wire::{ETHERNET_LEN, Ecn, IPV4_LEN, IPV6_LEN, UDP_LEN, VlanTag, icrc};

use super::stamp::STAMP_BYTES;

/// Most flows of one host.
pub const FLOWS_MAX: usize = 4096;
/// Largest payload of one frame: a jumbo frame less all headers.
pub const PATH_MTU_MAX: u16 = 8192;

/// A model host: its NIC, its addresses, what it sends.
#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// Name, for reports.
    pub name: String,
    /// MAC address.
    pub mac: [u8; 6],
    /// IPv4 address, which it answers ARP and echo requests for.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 address, which it answers neighbour solicitations and echo requests for.
    pub ipv6: Option<Ipv6Addr>,
    /// Routers, per address family: what is not in the host's own network goes there.
    pub gateways: Vec<Gateway>,
    /// 802.1Q tag of its own ARP and neighbour discovery; that of flows is theirs.
    pub vlan: Option<VlanTag>,
    /// The NIC.
    pub nic: NicConfig,
    /// What it sends.
    pub flows: Vec<FlowConfig>,
    /// Which run this is: written into each frame, so that frames of an earlier one that still drift about are
    /// recognised. Hosts of one run share it.
    pub token: u64,
    /// Whether frames of other tokens are counted as flows too (a receiver that stands alone cannot know its
    /// senders' tokens); otherwise they are counted as stale only.
    pub accept_any_token: bool,
    /// Seconds of wall time per second of model time, at least 1: latencies are measured on the wall clock.
    pub dilate: u32,
    /// The host says who it is (gratuitous ARP, unsolicited neighbour advertisement) this often, so that switches keep
    /// its address and do not flood what is sent to it. Zero: only at the start.
    pub announce_interval: Picos,
    /// Frames of queue pairs have a simulator's lengths instead of their own, to be held against it; in virtual time only.
    pub fixed_lengths: Option<FixedLengths>,
    /// Queue pairs that may send take turns in the order of their creation ([`Endpoint::take_turns`]), as in the ns-3 models.
    ///
    /// [`Endpoint::take_turns`]: xoff_rdma::Endpoint::take_turns
    pub take_turns: bool,
}

/// Lengths of a simulator's frames, as a socket would see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedLengths {
    /// Octets of a data frame beside its payload; at least 48, so that it is longer than our headers with 64 bytes of payload.
    pub header_bytes: u32,
    /// Octets of an acknowledgement or a CNP; at least 58, our headers of one over IPv4.
    pub ack_bytes: u32,
}

impl HostConfig {
    /// A host that sends nothing yet, with a NIC of Ethernet timing.
    pub fn new(name: impl Into<String>, mac: [u8; 6], link: LinkTiming) -> HostConfig {
        HostConfig {
            name: name.into(),
            mac,
            ipv4: None,
            ipv6: None,
            gateways: Vec::new(),
            vlan: None,
            nic: NicConfig::new(link),
            flows: Vec::new(),
            token: 0,
            accept_any_token: false,
            dilate: 1,
            announce_interval: Picos::from_millis(10_000),
            fixed_lengths: None,
            take_turns: false,
        }
    }
}

/// A router of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// The host's own network: what is in it is asked for directly.
    pub network: IpNet,
    /// The router's address in it.
    pub address: IpAddr,
}

impl HostConfig {
    /// Who is to be asked for on the way to `destination`: a router, or the destination itself.
    pub fn next_hop(&self, destination: IpAddr) -> IpAddr {
        let of_family = |gateway: &&Gateway| gateway.address.is_ipv4() == destination.is_ipv4();
        match self.gateways.iter().find(of_family) {
            Some(gateway) if !gateway.network.contains(&destination) => gateway.address,
            _ => destination,
        }
    }
}

/// The NIC of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct NicConfig {
    /// Speed and framing of its link.
    pub link: LinkTiming,
    /// Bit *n*: the NIC honours PFC of priority *n*.
    pub pfc_honoured: u8,
    /// The NIC honours 802.3x PAUSE frames, which stop all classes. A link has either PFC or 802.3x (IEEE 802.1Q 36.1.1), so
    /// this is for NICs with PFC off.
    pub pause_honoured: bool,
    /// From the arrival of a pause to its effect, in nanoseconds of model time (IEEE 802.3 31B.3.7 bounds it:
    /// 2 quanta at 1 Gb/s, 394 at 100 Gb/s). It delays the release as well, so a pause keeps its length.
    pub response_ns: u64,
    /// Share of each class in the link, relative to the other classes that have something to send, 1 to 100.
    pub weights: [u8; PRIORITIES],
    /// A receive side that is slower than the link; `None` takes frames in as they come.
    pub receive_buffer: Option<ReceiveBuffer>,
    /// A pause lasts until it is resumed, whatever its quanta: simulators have it so
    /// ([`PauseModel::UntilResumed`](xoff_dataplane::config::PauseModel)).
    pub pauses_until_resumed: bool,
}

impl NicConfig {
    /// Obeys pauses of all priorities within two quanta, shares the link evenly, receives at any speed.
    pub fn new(link: LinkTiming) -> NicConfig {
        NicConfig {
            link,
            pfc_honoured: 0xff,
            pause_honoured: false,
            response_ns: link.pause_duration(2).as_nanos(),
            weights: [1; PRIORITIES],
            receive_buffer: None,
            pauses_until_resumed: false,
        }
    }
}

/// A receive side that drains slower than the link fills it, and says so with PFC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveBuffer {
    /// Its size in bytes (of `mac_len`); what does not fit is dropped and counted as the NIC's loss.
    pub buffer_bytes: u32,
    /// How fast it drains, in bits of `mac_len` per second of model time, at least 1.
    pub drain_bps: u64,
    /// A class that holds this much sends XOFF. At most `buffer_bytes`.
    pub xoff_bytes: u32,
    /// A stopped class that has come down to this sends XON. Less than `xoff_bytes`.
    pub xon_bytes: u32,
    /// Bit *n*: priority *n* sends PFC.
    pub pfc_enabled: u8,
    /// Quanta in an XOFF frame, 1 to 65535; repeated at half that time.
    pub pause_quanta: u16,
    /// DSCP to class; untagged frames without IP are class 0.
    pub dscp_to_class: [u8; 64],
}

impl ReceiveBuffer {
    /// A buffer that drains at the speed of its link, sends PFC for all classes at these fill levels, and takes the
    /// class of a frame from the upper three bits of its DSCP.
    pub fn at_link_speed(
        buffer_bytes: u32,
        xoff_percent: u32,
        xon_percent: u32,
        link: &LinkTiming,
    ) -> ReceiveBuffer {
        let part = |percent: u32| (u64::from(buffer_bytes) * u64::from(percent) / 100) as u32;
        ReceiveBuffer {
            buffer_bytes,
            drain_bps: u64::from(link.speed_mbps) * 1_000_000,
            xoff_bytes: part(xoff_percent),
            xon_bytes: part(xon_percent),
            pfc_enabled: 0xff,
            pause_quanta: u16::MAX,
            dscp_to_class: std::array::from_fn(|dscp| (dscp / 8) as u8),
        }
    }
}

/// A flow: RDMA messages on one reliable connection, one way. Open loop: it does not wait for
/// acknowledgements and repeats nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowConfig {
    /// Its number in the run; receivers count by it. Unique among all senders of a token.
    pub id: u32,
    /// Transmit queue of the NIC, 0 to 7.
    pub class: u8,
    /// Where it goes. The source address is the host's of the same family.
    pub dst_ip: IpAddr,
    /// Its MAC address; `None` asks by ARP or neighbour discovery before sending.
    pub dst_mac: Option<[u8; 6]>,
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// ECN field of its frames.
    pub ecn: Ecn,
    /// 802.1Q tag.
    pub vlan: Option<VlanTag>,
    /// Hop limit, at least 1.
    pub ttl: u8,
    /// Own queue pair, 24 bits.
    pub src_qp: u32,
    /// The receiver's queue pair, 24 bits.
    pub dst_qp: u32,
    /// First packet sequence number, 24 bits.
    pub first_psn: u32,
    /// UDP source port; `None` derives it from the queue pairs as rdma-core does (`rdma_flow_label_to_udp_sport`).
    pub udp_source_port: Option<u16>,
    /// What its messages are.
    pub operation: Operation,
    /// Length of a message in bytes. Its last frame is shorter where this is no multiple of `path_mtu`, but not shorter
    /// than the stamp that each frame carries (40 bytes).
    pub message_bytes: u32,
    /// Payload of a full frame in bytes, 40 to 8192 (InfiniBand knows 256 to 4096).
    pub path_mtu: u16,
    /// The most it sends.
    pub rate: Rate,
    /// It starts this long after [`super::Host::start`] or [`super::Host::start_flow`].
    pub start: Picos,
    /// It ends after so many frames.
    pub frames_max: Option<u64>,
    /// [`super::Host::start`] passes over it: it waits for [`super::Host::start_flow`].
    pub waits: bool,
}

impl FlowConfig {
    /// DSCP 26, class 3, ECT(0), messages of 1 MiB in frames of 1082 bytes, at the link's whole rate.
    pub fn lossless(id: u32, dst_ip: IpAddr, dst_mac: Option<[u8; 6]>) -> FlowConfig {
        FlowConfig {
            id,
            class: 3,
            dst_ip,
            dst_mac,
            dscp: 26,
            ecn: Ecn::Ect0,
            vlan: None,
            ttl: 64,
            src_qp: (0x11 + 2 * id) & MASK_24,
            dst_qp: (0x12 + 2 * id) & MASK_24,
            first_psn: 0,
            udp_source_port: None,
            operation: Operation::Write,
            message_bytes: 1 << 20,
            path_mtu: 1024,
            rate: Rate::LINK,
            start: Picos::ZERO,
            frames_max: None,
            waits: false,
        }
    }

    /// The same in class 0 (DSCP 0, Not-ECT): what may be lost.
    pub fn lossy(id: u32, dst_ip: IpAddr, dst_mac: Option<[u8; 6]>) -> FlowConfig {
        FlowConfig {
            class: 0,
            dscp: 0,
            ecn: Ecn::NotEct,
            ..FlowConfig::lossless(id, dst_ip, dst_mac)
        }
    }

    /// Length of the headers and the ICRC of a middle frame.
    pub fn headers_len(&self) -> u32 {
        FlowConfig::headers_len_of(self.dst_ip.is_ipv6(), self.vlan.is_some())
    }

    /// Shortest and longest middle frame; between them, every fourth length is possible.
    pub fn frame_len_range(ipv6: bool, tagged: bool) -> (u32, u32) {
        let headers = FlowConfig::headers_len_of(ipv6, tagged);
        (headers + STAMP_BYTES as u32, headers + u32::from(PATH_MTU_MAX))
    }

    /// The path MTU whose middle frames are `frame_len` bytes long as a socket sees them; `None` if no payload
    /// of [`FlowConfig::path_mtu`]'s range gives that length.
    pub fn path_mtu_for(frame_len: u32, ipv6: bool, tagged: bool) -> Option<u16> {
        let payload = frame_len.checked_sub(FlowConfig::headers_len_of(ipv6, tagged))?;
        let fits =
            payload.is_multiple_of(4) && payload >= STAMP_BYTES as u32 && payload <= u32::from(PATH_MTU_MAX);
        fits.then_some(payload as u16)
    }

    /// Ethernet, tag, IP, UDP, base transport header, ICRC.
    fn headers_len_of(ipv6: bool, tagged: bool) -> u32 {
        let tag = if tagged { TAG_LEN } else { 0 };
        let ip = if ipv6 { IPV6_LEN } else { IPV4_LEN };
        (ETHERNET_LEN + tag + ip + UDP_LEN + bth::LEN + icrc::LEN) as u32
    }

    /// This flow in frames of `frame_len` bytes (98 to 8240 for untagged IPv4, in steps of 4; first frames of
    /// messages have 16 more), its messages cut to whole frames; `None` if no payload gives that length.
    pub fn with_frame_len(self, frame_len: u32) -> Option<FlowConfig> {
        let path_mtu = FlowConfig::path_mtu_for(frame_len, self.dst_ip.is_ipv6(), self.vlan.is_some())?;
        let frames = (self.message_bytes / u32::from(path_mtu)).max(1);
        Some(FlowConfig {
            path_mtu,
            message_bytes: frames * u32::from(path_mtu),
            ..self
        })
    }
}

/// What the messages of a flow are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    /// RDMA WRITE: the first frame of a message is 16 bytes longer (RETH).
    #[default]
    Write,
    /// SEND: all full frames are equally long.
    Send,
}

/// A sending rate. A cap, not a debt: what a pause or a busy link prevents is not made up for, beyond a few frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Share of the link's time, in millionths, 1 to 1 000 000.
    LinkShare(u32),
    /// Bits on the wire per second of model time, preamble and gap of each frame included; at least 1.
    WireBitsPerSecond(u64),
}

impl Rate {
    /// All that the link carries.
    pub const LINK: Rate = Rate::LinkShare(1_000_000);

    /// In bits on the wire per second on a link.
    pub fn bits_per_second(self, link: &LinkTiming) -> u64 {
        match self {
            Rate::LinkShare(millionths) => u64::from(link.speed_mbps) * u64::from(millionths),
            Rate::WireBitsPerSecond(bps) => bps,
        }
    }
}

/// A host configuration that cannot be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("host {host}: {field} is {value}, allowed is {allowed}")]
pub struct HostConfigError {
    /// Name of the host.
    pub host: String,
    /// Which field, with the flow's number.
    pub field: String,
    /// Its value.
    pub value: String,
    /// What it may be.
    pub allowed: &'static str,
}

impl HostConfig {
    /// Checks every range that the host relies on.
    pub fn check(&self) -> Result<(), HostConfigError> {
        let rule = |ok: bool, field: String, value: String, allowed: &'static str| {
            let host = self.name.clone();
            if ok {
                Ok(())
            } else {
                Err(HostConfigError {
                    host,
                    field,
                    value,
                    allowed,
                })
            }
        };
        let nic = &self.nic;
        rule(
            (1..=1_600_000).contains(&nic.link.speed_mbps),
            "speed".into(),
            format!("{} Mb/s", nic.link.speed_mbps),
            "1 to 1600000",
        )?;
        rule(
            nic.link.rounding_ps > 0,
            "rounding".into(),
            "0".into(),
            "1 ps or more",
        )?;
        rule(
            nic.weights.iter().all(|w| (1..=100).contains(w)),
            "weights".into(),
            format!("{:?}", nic.weights),
            "1 to 100 each",
        )?;
        rule(
            self.dilate >= 1,
            "dilate".into(),
            self.dilate.to_string(),
            "1 or more",
        )?;
        rule(
            self.mac[0] & 1 == 0,
            "mac".into(),
            format!("{:02x?}", self.mac),
            "a unicast address",
        )?;
        rule(
            self.flows.len() <= FLOWS_MAX,
            "flows".into(),
            self.flows.len().to_string(),
            "at most 4096",
        )?;
        if let Some(buffer) = &nic.receive_buffer {
            let levels = format!(
                "{} / {} / {}",
                buffer.xon_bytes, buffer.xoff_bytes, buffer.buffer_bytes
            );
            let ordered = buffer.xon_bytes < buffer.xoff_bytes && buffer.xoff_bytes <= buffer.buffer_bytes;
            rule(
                ordered,
                "receive buffer xon / xoff / size".into(),
                levels,
                "xon < xoff <= size",
            )?;
            rule(
                buffer.drain_bps > 0,
                "receive buffer drain".into(),
                "0".into(),
                "1 bit/s or more",
            )?;
            rule(
                buffer.pause_quanta > 0,
                "receive buffer pause quanta".into(),
                "0".into(),
                "1 to 65535",
            )?;
            rule(
                buffer.dscp_to_class.iter().all(|c| *c < 8),
                "receive buffer dscp_to_class".into(),
                "8 or more".into(),
                "0 to 7",
            )?;
        }
        for gateway in &self.gateways {
            let own = match gateway.address {
                IpAddr::V4(_) => self.ipv4.map(IpAddr::V4),
                IpAddr::V6(_) => self.ipv6.map(IpAddr::V6),
            };
            let near = own.is_some_and(|own| gateway.network.contains(&own) && own != gateway.address);
            rule(
                near && gateway.network.contains(&gateway.address),
                "gateway".into(),
                gateway.address.to_string(),
                "another address of the host's own network",
            )?;
        }
        self.flows
            .iter()
            .try_for_each(|flow| self.check_flow(flow, &rule))
    }

    fn check_flow(
        &self,
        flow: &FlowConfig,
        rule: &impl Fn(bool, String, String, &'static str) -> Result<(), HostConfigError>,
    ) -> Result<(), HostConfigError> {
        let name = |field: &str| format!("flow {} {field}", flow.id);
        let own = match flow.dst_ip {
            IpAddr::V4(_) => self.ipv4.is_some(),
            IpAddr::V6(_) => self.ipv6.is_some(),
        };
        rule(
            own,
            name("destination"),
            flow.dst_ip.to_string(),
            "an address of a family that the host has one of",
        )?;
        rule(flow.class < 8, name("class"), flow.class.to_string(), "0 to 7")?;
        rule(flow.dscp < 64, name("dscp"), flow.dscp.to_string(), "0 to 63")?;
        rule(flow.ttl > 0, name("ttl"), "0".into(), "1 to 255")?;
        for (field, value) in [
            ("src_qp", flow.src_qp),
            ("dst_qp", flow.dst_qp),
            ("first_psn", flow.first_psn),
        ] {
            rule(value <= MASK_24, name(field), value.to_string(), "0 to 16777215")?;
        }
        let tag_ok = flow.vlan.is_none_or(|tag| tag.vid() < 4095);
        rule(tag_ok, name("vlan"), format!("{:?}", flow.vlan), "vid 0 to 4094")?;
        let stamp = STAMP_BYTES as u32;
        let mtu = u32::from(flow.path_mtu);
        let mtu_ok = mtu >= stamp && flow.path_mtu <= PATH_MTU_MAX;
        rule(mtu_ok, name("path MTU"), mtu.to_string(), "40 to 8192")?;
        let tail = flow.message_bytes % mtu;
        let message_ok =
            flow.message_bytes >= stamp && flow.message_bytes <= 1 << 31 && (tail == 0 || tail >= stamp);
        rule(
            message_ok,
            name("message length"),
            flow.message_bytes.to_string(),
            "40 to 2^31, last frame 40 or more",
        )?;
        let rate_ok = match flow.rate {
            Rate::LinkShare(millionths) => (1..=1_000_000).contains(&millionths),
            Rate::WireBitsPerSecond(bps) => bps > 0,
        };
        rule(
            rate_ok,
            name("rate"),
            format!("{:?}", flow.rate),
            "above 0, at most the link",
        )
    }
}
