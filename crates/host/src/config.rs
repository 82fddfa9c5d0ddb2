//! Configuration of a model host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use thiserror::Error;
use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::bth::{self, MASK_24};
use xoff_wire::lldp::{EtsTables, SelectionAlgorithm};
use xoff_wire::lldp_port::LldpPortSettings;
use xoff_wire::vlan::TAG_LEN;
use xoff_wire::{Addresses, ETHERNET_LEN, Ecn, ICRC_LEN, IPV4_LEN, IPV6_LEN, UDP_LEN, VlanTag};

use super::stamp::STAMP_BYTES;

/// Largest number of open-loop flows of one host.
pub const FLOWS_MAX: usize = 4096;
/// Largest payload of one frame of a flow in bytes: a jumbo frame without its headers.
pub const PATH_MTU_MAX: u16 = 8192;

/// Configuration of a model host: NIC, addresses and flows.
#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// Name of the host in reports and messages.
    pub name: String,
    /// MAC address of the NIC, a unicast address.
    pub mac: [u8; 6],
    /// IPv4 address. The host answers ARP and echo requests for this address. `None`: the host does not
    /// use IPv4.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 address. The host answers neighbour solicitations and echo requests for this address. `None`: the
    /// host does not use IPv6.
    pub ipv6: Option<Ipv6Addr>,
    /// Gateways, at most one for IPv4 and one for IPv6. Packets to destinations outside the host's own
    /// networks are sent to the gateway.
    pub gateways: Vec<Gateway>,
    /// 802.1Q tag of ARP, neighbour discovery and queue pairs. `None`: these frames are untagged. Flows have
    /// their own tag.
    pub vlan: Option<VlanTag>,
    /// Link, pauses and classes of the NIC.
    pub nic: NicConfig,
    /// Open-loop flows that the host sends, at most [`FLOWS_MAX`].
    pub flows: Vec<FlowConfig>,
    /// Identifier of the run. The host writes it into each frame of its flows, so that a receiver can
    /// recognise frames of an earlier run. All hosts of a run have the same token.
    pub token: u64,
    /// If true, frames are counted for their flows even if their token differs from [`HostConfig::token`].
    /// A receiver that does not know its senders needs this setting. If false, such frames are counted only
    /// as stale.
    pub accept_any_token: bool,
    /// Dilation: wall time divided by model time, at least 1. The host measures latencies in wall time and
    /// divides them by this factor.
    pub dilate: u32,
    /// Interval of announcements (gratuitous ARP and unsolicited neighbour advertisements) in model time.
    /// Announcements keep the address of the host in the tables of switches. With 0, the host announces its
    /// addresses only twice, at the start.
    pub announce_interval: Picos,
    /// Frame lengths of a different simulator (ns-3), for comparisons in virtual time. `None`: frames have
    /// their real lengths.
    pub fixed_lengths: Option<FixedLengths>,
    /// If true, the host selects queue pairs round robin, as the ns-3 models
    /// do ([`Endpoint::enable_round_robin`]).
    ///
    /// [`Endpoint::enable_round_robin`]: xoff_rdma::Endpoint::enable_round_robin
    pub round_robin: bool,
    /// LLDP and DCBX. If the host is willing, it uses the PFC configuration of its peer instead of
    /// [`NicConfig::pfc_honoured`], and the ETS recommendation of its peer instead of [`NicConfig::ets`]. `None`: the
    /// host neither sends nor processes LLDP frames.
    pub lldp: Option<LldpPortSettings>,
}

/// Frame lengths of another simulator, without FCS. Telemetry is added to these lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedLengths {
    /// Length of a data frame without its payload in bytes, at least 48. With this minimum, a frame with 64
    /// bytes of payload is at least as long as its real headers.
    pub header_bytes: u32,
    /// Length of an acknowledgement or CNP in bytes, at least 58. This minimum is the length of the real
    /// headers over IPv4.
    pub ack_bytes: u32,
}

impl HostConfig {
    /// Creates the configuration of a host without IP addresses and flows. The NIC has the speed and framing
    /// of `link`.
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
            round_robin: false,
            lldp: None,
        }
    }
}

/// A gateway (router) to other networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Network of the host. The host resolves addresses in this network directly.
    pub network: IpNet,
    /// Address of the gateway in this network, not the address of the host.
    pub address: IpAddr,
}

impl HostConfig {
    /// Returns the next hop for packets to `destination`: the gateway, or `destination` itself if this
    /// address is in the network of the host. The host needs the MAC address of the next hop.
    pub fn next_hop(&self, destination: IpAddr) -> IpAddr {
        let of_family = |gateway: &&Gateway| gateway.address.is_ipv4() == destination.is_ipv4();
        match self.gateways.iter().find(of_family) {
            Some(gateway) if !gateway.network.contains(&destination) => gateway.address,
            _ => destination,
        }
    }

    /// Returns the source and destination address of packets to `destination`. If the host has no address of
    /// this IP version, the source is the destination address.
    pub(super) fn addresses_to(&self, destination: IpAddr) -> Addresses {
        match destination {
            IpAddr::V4(dst) => Addresses::V4 {
                src: self.ipv4.unwrap_or(dst),
                dst,
            },
            IpAddr::V6(dst) => Addresses::V6 {
                src: self.ipv6.unwrap_or(dst),
                dst,
            },
        }
    }
}

/// Configuration of the NIC of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct NicConfig {
    /// Speed and framing of the link. The speed is 1 to 1 600 000 Mb/s.
    pub link: LinkTiming,
    /// Priorities for which the NIC honours PFC. Bit *n* is priority *n*.
    pub pfc_honoured: u8,
    /// True if the NIC honours 802.3x PAUSE frames, which pause all classes. A link uses either PFC or 802.3x
    /// (IEEE 802.1Q 36.1.1), so set this field only if `pfc_honoured` is 0.
    pub pause_honoured: bool,
    /// Time from the arrival of a pause frame to its effect, in nanoseconds of model time. IEEE 802.3 31B.3.7
    /// permits at most 2 quanta at 1 Gb/s and 394 quanta at 100 Gb/s. The end of a pause is delayed by the
    /// same time, so the length of the pause does not change.
    pub response_ns: u64,
    /// Weight of each class, 1 to 100. All classes with frames to send share the link in proportion to
    /// the weights.
    pub weights: [u8; PRIORITIES],
    /// Traffic classes of the priorities, with strict priority or a share of the link (ETS). The algorithms are strict
    /// priority and ETS. `None`: `weights` apply. A recommendation that the host adopts from its peer replaces both
    /// ([`HostConfig::lldp`]).
    pub ets: Option<EtsTables>,
    /// Receive buffer of a NIC that receives more slowly than the link. `None`: the NIC receives at
    /// link speed.
    pub receive_buffer: Option<ReceiveBuffer>,
    /// If true, a pause lasts until an XON frame arrives, independent of its quanta. Some simulators use this
    /// model ([`PauseModel::UntilResumed`](xoff_dataplane::config::PauseModel)).
    pub pauses_until_resumed: bool,
}

impl NicConfig {
    /// Creates a NIC that receives at link speed. The NIC honours PFC of all priorities, with a response time
    /// of two quanta. All classes have equal weights.
    pub fn new(link: LinkTiming) -> NicConfig {
        NicConfig {
            link,
            pfc_honoured: 0xff,
            pause_honoured: false,
            response_ns: link.pause_duration(2).as_nanos(),
            weights: [1; PRIORITIES],
            ets: None,
            receive_buffer: None,
            pauses_until_resumed: false,
        }
    }
}

/// A receive buffer that drains more slowly than the link fills it. When the buffer fills, the NIC sends
/// PFC frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveBuffer {
    /// Size of the buffer in bytes. A frame occupies its `mac_len` (length with padding and FCS). The NIC
    /// drops and counts frames that do not fit.
    pub buffer_bytes: u32,
    /// Drain rate in bits of `mac_len` per second of model time, at least 1.
    pub drain_bps: u64,
    /// Fill level of a class in bytes at which the NIC sends XOFF, at most `buffer_bytes`.
    pub xoff_bytes: u32,
    /// Fill level of a paused class in bytes at which the NIC sends XON, less than `xoff_bytes`.
    pub xon_bytes: u32,
    /// Priorities for which the NIC sends PFC. Bit *n* is priority *n*.
    pub pfc_enabled: u8,
    /// Number of quanta in an XOFF frame, 1 to 65535. The NIC repeats the frame after half of this
    /// pause time.
    pub pause_quanta: u16,
    /// Class of each DSCP, 0 to 7. A frame without an IP header has the class of its 802.1Q priority, or
    /// class 0 without a tag.
    pub dscp_to_class: [u8; 64],
}

impl ReceiveBuffer {
    /// Creates a buffer that drains at the speed of its link. `xoff_percent` and `xon_percent` are the fill
    /// levels of a class in percent of `buffer_bytes`. The NIC sends PFC for all classes. The class of a
    /// frame is the upper three bits of its DSCP.
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

/// An open-loop flow: RDMA messages in one direction of a reliable connection (RC). The sender does not wait
/// for acknowledgements and does not retransmit.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowConfig {
    /// Number of the flow, unique among all senders with the same token.
    pub id: u32,
    /// Class (transmit queue) of the NIC, 0 to 7.
    pub class: u8,
    /// Destination address. The source address is the host address of the same IP version, which must exist.
    pub dst_ip: IpAddr,
    /// MAC address of the destination or gateway. `None`: the host resolves the address by ARP or neighbour
    /// discovery before it sends.
    pub dst_mac: Option<[u8; 6]>,
    /// DSCP of the frames, 0 to 63.
    pub dscp: u8,
    /// ECN field of the frames. Switches mark frames only if the field is not [`Ecn::NotEct`].
    pub ecn: Ecn,
    /// 802.1Q tag of the frames, with a VLAN ID of 0 to 4094. `None`: the frames are untagged.
    pub vlan: Option<VlanTag>,
    /// Hop limit (IPv4 TTL) of the frames, 1 to 255.
    pub ttl: u8,
    /// Number of the source queue pair, 24 bits.
    pub src_qp: u32,
    /// Number of the destination queue pair, 24 bits.
    pub dst_qp: u32,
    /// Packet sequence number (PSN) of the first frame, 24 bits.
    pub first_psn: u32,
    /// UDP source port. `None`: the port is computed from the queue pair numbers as in
    /// rdma-core (`rdma_flow_label_to_udp_sport`).
    pub udp_source_port: Option<u16>,
    /// Operation of the messages, RDMA WRITE or SEND.
    pub operation: FlowOperation,
    /// Length of a message in bytes, 40 to 2^31. If the length is not a multiple of `path_mtu`, the last
    /// frame is shorter. The last frame must also have at least the 40 bytes of the stamp.
    pub message_bytes: u32,
    /// Payload of a full frame in bytes, 40 to 8192. InfiniBand permits values from 256 to 4096.
    pub path_mtu: u16,
    /// Highest sending rate of the flow.
    pub rate: FlowRate,
    /// Start time, counted from [`super::Host::start`] or [`super::Host::start_flow`].
    pub start: Picos,
    /// Number of frames after which the flow ends. `None`: the flow does not end.
    pub frames_max: Option<u64>,
    /// If true, only [`super::Host::start_flow`] starts this flow. [`super::Host::start`] does not.
    pub waits: bool,
}

impl FlowConfig {
    /// Creates a flow with DSCP 26, class 3 and ECT(0). The flow sends at link rate. Each message is an RDMA
    /// WRITE of 1 MiB in frames of 1082 bytes, without FCS. The first frame has 16 more bytes.
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
            operation: FlowOperation::Write,
            message_bytes: 1 << 20,
            path_mtu: 1024,
            rate: FlowRate::LINK,
            start: Picos::ZERO,
            frames_max: None,
            waits: false,
        }
    }

    /// Creates a flow of class 0 with DSCP 0 and Not-ECT, for lossy traffic.
    pub fn lossy(id: u32, dst_ip: IpAddr, dst_mac: Option<[u8; 6]>) -> FlowConfig {
        FlowConfig {
            class: 0,
            dscp: 0,
            ecn: Ecn::NotEct,
            ..FlowConfig::lossless(id, dst_ip, dst_mac)
        }
    }

    /// Returns the length of the headers and the ICRC in bytes. These are all headers of a middle frame
    /// (neither first nor last of a message).
    pub fn headers_len(&self) -> u32 {
        FlowConfig::headers_len_of(self.dst_ip.is_ipv6(), self.vlan.is_some())
    }

    /// Returns the shortest and the longest permitted length of a middle frame (neither first nor last of a
    /// message), in bytes without FCS. Lengths between these limits are possible in steps of 4 bytes. For
    /// untagged IPv4, the limits are 98 and 8250 bytes.
    pub fn frame_len_range(ipv6: bool, tagged: bool) -> (u32, u32) {
        let headers = FlowConfig::headers_len_of(ipv6, tagged);
        (headers + STAMP_BYTES as u32, headers + u32::from(PATH_MTU_MAX))
    }

    /// Returns the path MTU for a given frame length. With this path MTU, middle frames (neither first nor
    /// last of a message) have `frame_len` bytes without FCS. Returns `None` if no payload in the range of
    /// [`FlowConfig::path_mtu`] gives this length.
    pub fn path_mtu_for(frame_len: u32, ipv6: bool, tagged: bool) -> Option<u16> {
        let payload = frame_len.checked_sub(FlowConfig::headers_len_of(ipv6, tagged))?;
        let fits =
            payload.is_multiple_of(4) && payload >= STAMP_BYTES as u32 && payload <= u32::from(PATH_MTU_MAX);
        fits.then_some(payload as u16)
    }

    /// Returns the length of Ethernet, tag, IP, UDP, BTH and ICRC in bytes.
    fn headers_len_of(ipv6: bool, tagged: bool) -> u32 {
        let tag = if tagged { TAG_LEN } else { 0 };
        let ip = if ipv6 { IPV6_LEN } else { IPV4_LEN };
        (ETHERNET_LEN + tag + ip + UDP_LEN + bth::LEN + ICRC_LEN) as u32
    }

    /// Returns this flow with frames of `frame_len` bytes without FCS. The first frame of a WRITE has 16 more
    /// bytes. The message length is rounded down to full frames, to at least one frame.
    ///
    /// For untagged IPv4, `frame_len` is 98 to 8250 in steps of 4. IPv6 adds 20 to both limits, and a VLAN
    /// tag adds 4 ([`FlowConfig::frame_len_range`]). Returns `None` for any other length.
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

/// Operation of the messages of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowOperation {
    /// RDMA WRITE. The first frame of a message has 16 more bytes for the RETH.
    #[default]
    Write,
    /// SEND. All full frames have the same length.
    Send,
}

/// The highest sending rate of a flow. After a pause or a busy link, a flow catches up at most four frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowRate {
    /// Share of the link capacity in millionths, 1 to 1 000 000.
    LinkShare(u32),
    /// Rate in bits per second of model time, at least 1. The preamble and gap of each frame are included.
    WireBitsPerSecond(u64),
}

impl FlowRate {
    /// The full capacity of the link.
    pub const LINK: FlowRate = FlowRate::LinkShare(1_000_000);

    /// Returns the rate on a link in bits per second of model time, including preambles and gaps.
    pub fn bits_per_second(self, link: &LinkTiming) -> u64 {
        match self {
            FlowRate::LinkShare(millionths) => u64::from(link.speed_mbps) * u64::from(millionths),
            FlowRate::WireBitsPerSecond(bps) => bps,
        }
    }
}

/// Reason why [`HostConfig::check`] rejected a configuration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("host {host}: {field} is {value}, allowed is {allowed}")]
pub struct HostConfigError {
    /// Name of the host.
    pub host: String,
    /// Name of the field with the invalid value. For a field of a flow, the name includes the flow number,
    /// such as `flow 3 dscp`.
    pub field: String,
    /// The invalid value as text.
    pub value: String,
    /// The allowed values as text.
    pub allowed: &'static str,
}

/// Returns whether a NIC can have these traffic classes.
fn is_valid_ets(tables: &EtsTables) -> bool {
    let is_ets = |class: &usize| tables.algorithm[*class] == SelectionAlgorithm::Ets;
    let is_supported =
        |class: &usize| is_ets(class) || tables.algorithm[*class] == SelectionAlgorithm::StrictPriority;
    let shares = (0..PRIORITIES)
        .filter(is_ets)
        .map(|class| u32::from(tables.bandwidth_percent[class]));
    let has_shares = (0..PRIORITIES).any(|class| is_ets(&class));
    tables
        .traffic_class
        .iter()
        .all(|class| usize::from(*class) < PRIORITIES)
        && (0..PRIORITIES).all(|class| is_supported(&class))
        && (!has_shares || shares.sum::<u32>() == 100)
}

impl HostConfig {
    /// Checks the range of every field.
    ///
    /// # Errors
    /// Returns the first field with a value that is not allowed. A gateway must be in the network of the
    /// host. A flow needs a host address of the same IP version.
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
            (10..=1_600_000).contains(&nic.link.speed_mbps),
            "speed".into(),
            format!("{} Mb/s", nic.link.speed_mbps),
            "10 to 1600000",
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
            nic.ets.as_ref().is_none_or(is_valid_ets),
            "ets".into(),
            format!("{:?}", nic.ets),
            "traffic classes 0 to 7 with strict priority or ETS; the shares of the ETS classes have the sum 100",
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
            FlowRate::LinkShare(millionths) => (1..=1_000_000).contains(&millionths),
            FlowRate::WireBitsPerSecond(bps) => bps > 0,
        };
        rule(
            rate_ok,
            name("rate"),
            format!("{:?}", flow.rate),
            "above 0, at most the link",
        )
    }
}
