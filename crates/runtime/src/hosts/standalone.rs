//! A model host on any network device. It sends and receives RoCEv2 traffic, for example to test a hardware
//! switch or the lab of another tool.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thiserror::Error;
use xoff_units::LinkTiming;
use xoff_wire::{Ecn, VlanTag};

use super::{
    AttachedHost, HostProgress, HostRunResult, HostThreadOptions, RunningHosts, drain_hosts, spawn_hosts,
};
use crate::workers::clock::{ModelClock, monotonic_ns};
use crate::workers::{IdleMode, TaintLedger};
use xoff_host::{
    FlowConfig, FlowRate, Host, HostConfig, HostConfigError, NicConfig, ReceiveBuffer, ReceivedFlow,
};
use xoff_ports::net;
use xoff_ports::{Backend, MTU_MAX, OpenedPort, Port, PortError, PortSpec};
use xoff_telemetry::{FlowReport, Taint};

/// Address of a host without a configured address.
pub const DEFAULT_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Fill level of the receive buffer at which the NIC sends XOFF, in percent. The space above this level is
/// for frames in flight. `XON_PERCENT` is the level for XON.
const XOFF_PERCENT: u32 = 50;
const XON_PERCENT: u32 = 25;
/// Time without arrivals after which no more frames are expected.
const QUIET_TIME: Duration = Duration::from_millis(200);
/// Longest wait for such a time without arrivals.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Time between two checks for a stop request and the end of the flows.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Specification of a standalone host.
#[derive(Clone, Debug)]
pub struct HostRunSpec {
    /// The network device in the network namespace of the calling thread.
    pub device: String,
    /// The port backend.
    pub backend: Backend,
    /// MAC address. `None` is the address of the device.
    pub mac: Option<[u8; 6]>,
    /// IP addresses, at most one of each family. The default is [`DEFAULT_ADDRESS`].
    pub addresses: Vec<IpAddr>,
    /// Model speed of the link in Mb/s.
    pub speed_mbps: u32,
    /// Flows to send. The host always receives.
    pub flows: Vec<SendFlowSpec>,
    /// Wall time for which the host runs. A host with flows sends, and a host without flows only receives.
    /// With `None`, the host runs until a stop request, or until every flow has sent its frames.
    pub duration: Option<Duration>,
    /// Response time of the NIC to a pause in nanoseconds of model time. `None` means two quanta.
    pub response_ns: Option<u64>,
    /// Whether the NIC honours PFC. Otherwise it honours 802.3x pauses.
    pub pfc: bool,
    /// Size in bytes of a receive buffer that drains at link speed and sends PFC frames. `None` means that
    /// the host processes each frame at once.
    pub buffer_bytes: Option<u32>,
    /// Factor by which model time is slower than wall time.
    pub dilate: u32,
    /// How the thread waits for work.
    pub idle: IdleMode,
    /// The core to which the thread is pinned.
    pub core: Option<usize>,
    /// Longest stall of the thread in wall time that does not taint the run.
    pub reaction_budget: Duration,
}

impl HostRunSpec {
    /// Returns the specification of a host with a speed of 1 Gb/s. The host only receives, until
    /// a stop request.
    pub fn new(device: impl Into<String>) -> HostRunSpec {
        HostRunSpec {
            device: device.into(),
            backend: Backend::Auto,
            mac: None,
            addresses: Vec::new(),
            speed_mbps: 1_000,
            flows: Vec::new(),
            duration: None,
            response_ns: None,
            pfc: true,
            buffer_bytes: None,
            dilate: 1,
            idle: IdleMode::Adaptive,
            core: None,
            reaction_budget: Duration::from_millis(20),
        }
    }
}

/// A flow to send.
#[derive(Clone, Debug, PartialEq)]
pub struct SendFlowSpec {
    /// Destination address.
    pub dst_ip: IpAddr,
    /// MAC address of the receiver or of the next hop. With `None`, the host resolves the address by ARP or
    /// neighbour discovery.
    pub dst_mac: Option<[u8; 6]>,
    /// Queue of the NIC and PFC priority, 0 to 7.
    pub class: u8,
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// Largest rate of the flow.
    pub rate: FlowRate,
    /// Frame length without FCS, see [`FlowConfig::with_frame_len`].
    pub frame_len: u32,
    /// 802.1Q VLAN id. The priority of the tag is the class.
    pub vlan: Option<u16>,
    /// Number of frames after which the flow ends.
    pub frames_max: Option<u64>,
}

/// Result of a standalone host.
#[derive(Clone, Debug)]
pub struct HostSummary {
    /// Results of the host.
    pub outcome: HostRunResult,
    /// Received flows of other model hosts, in the form of a report. The receiver does not know about frames
    /// after the last received frame, so `sent_frames` and `lost_frames` do not include them.
    pub received: Vec<FlowReport>,
    /// Notes about the device, such as settings that were repaired.
    pub notes: Vec<String>,
    /// The taints of the run. Empty for a clean run.
    pub taints: Vec<Taint>,
    /// Destinations whose MAC address stayed unknown. The host sent no frames to them.
    pub unresolved: Vec<IpAddr>,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
}

/// Error of a standalone host.
#[derive(Debug, Error)]
pub enum HostRunError {
    /// The device cannot be used.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The device cannot be queried.
    #[error("cannot read device {device}: {source}")]
    Device {
        /// Name of the device.
        device: String,
        /// The error.
        source: net::Error,
    },
    /// A flow or the NIC has an impossible setting.
    #[error(transparent)]
    Config(#[from] HostConfigError),
    /// No payload gives this frame length.
    #[error(
        "the flow to {dst_ip} cannot have frames of {frame_len} bytes: its headers and the time stamp of each payload take \
         {shortest}, the longest payload makes {longest}, and the length is one of these plus a multiple of 4"
    )]
    FrameLen {
        /// Destination of the flow.
        dst_ip: IpAddr,
        /// The requested length.
        frame_len: u32,
        /// The shortest possible length.
        shortest: u32,
        /// The longest possible length.
        longest: u32,
    },
    /// The frames of a flow are longer than the device can carry.
    #[error(
        "the flow to {dst_ip} has frames of up to {frame_len} bytes, and device {device} carries {room}; \
         shorten frame=, or: ip link set {device} mtu {needed}"
    )]
    Mtu {
        /// Destination of the flow.
        dst_ip: IpAddr,
        /// Length of the longest frames of the flow.
        frame_len: u32,
        /// The device.
        device: String,
        /// Longest frame that the device carries.
        room: u32,
        /// The MTU that would be sufficient.
        needed: u32,
    },
    /// The specification has two addresses of one family.
    #[error("a host has one address of each family, and {0} is the second address of its family")]
    Address(IpAddr),
    /// The kernel refuses memory or a thread.
    #[error("cannot start the host on {device}: {source}")]
    System {
        /// The device.
        device: String,
        /// The error of the kernel.
        source: std::io::Error,
    },
    /// The thread of the host died.
    #[error("the host's thread on {device} died; this is a bug in xoff")]
    ThreadDied {
        /// The device.
        device: String,
    },
}

/// Runs a host on a device of the calling thread's network namespace. The run ends when its time is over,
/// when its flows have sent their frames, or when `stop` is set. As soon as the host can receive, `ready` is
/// called with notes about the device. `progress` is called during the run.
///
/// # Errors
/// See [`HostRunError`]. An error of the device during the run is part of the summary.
pub fn run_standalone(
    spec: &HostRunSpec,
    stop: &AtomicBool,
    ready: impl FnOnce(&[String]),
    mut progress: impl FnMut(&HostProgress),
) -> Result<HostSummary, HostRunError> {
    let facts = net::read_link(&spec.device).map_err(|source| HostRunError::Device {
        device: spec.device.clone(),
        source,
    })?;
    let mac = spec.mac.unwrap_or(if facts.mac == [0; 6] {
        DEFAULT_MAC
    } else {
        facts.mac
    });
    let config = host_config(spec, mac)?;
    check_mtu(&config, &spec.device, facts.mtu)?;
    let host = Host::new(&config)?;
    let port_spec = PortSpec {
        name: spec.device.clone(),
        device: spec.device.clone(),
        backend: spec.backend,
        mtu: facts.mtu.clamp(68, MTU_MAX),
    };
    let OpenedPort { port, notes } = Port::open(&port_spec)?;
    let ledger = TaintLedger::new();
    let options = HostThreadOptions {
        name: "xoff-host".to_owned(),
        clock: ModelClock::new(monotonic_ns(), spec.dilate),
        core: spec.core,
        idle: spec.idle,
        reaction_budget: spec.reaction_budget,
        ledger: ledger.clone(),
    };
    let system = |source| HostRunError::System {
        device: spec.device.clone(),
        source,
    };
    let running = spawn_hosts(vec![AttachedHost { host, port }], options).map_err(system)?;
    ready(&notes);
    running.start_sending();
    let interrupted = wait_for_end(spec, &running, stop, &mut progress);
    drain_hosts(
        &[&running],
        QUIET_TIME,
        DRAIN_MAX.saturating_mul(spec.dilate),
        &AtomicBool::new(false),
    );
    let outcome = running.stop().and_then(|mut results| results.pop());
    let outcome = outcome.ok_or_else(|| HostRunError::ThreadDied {
        device: spec.device.clone(),
    })?;
    let unresolved = outcome
        .results
        .sent
        .iter()
        .filter(|flow| !flow.resolved)
        .map(|flow| flow.dst_ip)
        .collect();
    Ok(HostSummary {
        received: outcome
            .results
            .received
            .iter()
            .map(|flow| received_flow_report(flow, &spec.device))
            .collect(),
        outcome,
        notes,
        taints: ledger.taints(),
        unresolved,
        interrupted,
    })
}

/// A locally administered MAC address for devices without an address.
const DEFAULT_MAC: [u8; 6] = [0x02, 0x78, 0x6f, 0x66, 0x66, 0x01];

/// Waits for the end of the run. Returns whether the run was stopped before its end.
fn wait_for_end(
    spec: &HostRunSpec,
    running: &RunningHosts,
    stop: &AtomicBool,
    progress: &mut impl FnMut(&HostProgress),
) -> bool {
    let begun_ns = monotonic_ns();
    let has_end = !spec.flows.is_empty() && spec.flows.iter().all(|flow| flow.frames_max.is_some());
    loop {
        if stop.load(Ordering::Relaxed) {
            return spec.duration.is_some() || has_end;
        }
        let elapsed = Duration::from_nanos(monotonic_ns() - begun_ns);
        if spec.duration.is_some_and(|duration| elapsed >= duration) || running.is_dead() {
            return false;
        }
        let current = running.progress();
        progress(&current);
        let all_sent = has_end && !current.is_sending && elapsed > CHECK_INTERVAL;
        if all_sent {
            return false;
        }
        let left = spec
            .duration
            .map_or(CHECK_INTERVAL, |duration| duration - elapsed);
        thread::sleep(left.min(CHECK_INTERVAL));
    }
}

/// Returns the configuration of the model host.
fn host_config(spec: &HostRunSpec, mac: [u8; 6]) -> Result<HostConfig, HostRunError> {
    let link = LinkTiming::ethernet(spec.speed_mbps.max(1));
    let mut config = HostConfig::new(spec.device.clone(), mac, link);
    config.nic = nic_config(spec, link);
    config.dilate = spec.dilate.max(1);
    config.token = create_unique_token();
    config.accept_any_token = true;
    config.vlan = spec
        .flows
        .iter()
        .find_map(|flow| flow.vlan)
        .map(|vid| VlanTag::dot1q(0, vid));
    for address in &spec.addresses {
        let second = match address {
            IpAddr::V4(ip) => config.ipv4.replace(*ip).is_some(),
            IpAddr::V6(ip) => config.ipv6.replace(*ip).is_some(),
        };
        if second {
            return Err(HostRunError::Address(*address));
        }
    }
    if spec.addresses.is_empty() {
        config.ipv4 = Some(DEFAULT_ADDRESS);
    }
    config.flows = (0..)
        .zip(&spec.flows)
        .map(|(id, flow)| flow_config(id, flow))
        .collect::<Result<_, _>>()?;
    Ok(config)
}

/// Returns the configuration of the NIC.
fn nic_config(spec: &HostRunSpec, link: LinkTiming) -> NicConfig {
    let mut nic = NicConfig::new(link);
    if !spec.pfc {
        nic.pfc_honoured = 0;
        nic.pause_honoured = true;
    }
    if let Some(response_ns) = spec.response_ns {
        nic.response_ns = response_ns;
    }
    nic.receive_buffer = spec
        .buffer_bytes
        .map(|buffer_bytes| ReceiveBuffer::at_link_speed(buffer_bytes, XOFF_PERCENT, XON_PERCENT, &link));
    nic
}

/// Returns the configuration of a flow with the requested frame length.
fn flow_config(id: u32, flow: &SendFlowSpec) -> Result<FlowConfig, HostRunError> {
    let mut config = FlowConfig::lossless(id, flow.dst_ip, flow.dst_mac);
    config.class = flow.class;
    config.dscp = flow.dscp;
    config.ecn = flow.ecn;
    config.rate = flow.rate;
    config.frames_max = flow.frames_max;
    config.vlan = flow.vlan.map(|vid| VlanTag::dot1q(flow.class, vid));
    let (shortest, longest) = FlowConfig::frame_len_range(flow.dst_ip.is_ipv6(), flow.vlan.is_some());
    let refused = HostRunError::FrameLen {
        dst_ip: flow.dst_ip,
        frame_len: flow.frame_len,
        shortest,
        longest,
    };
    config.with_frame_len(flow.frame_len).ok_or(refused)
}

/// Length of an Ethernet header in bytes. An MTU includes neither this header nor the 4 bytes of a VLAN tag.
const ETHERNET_LEN: u32 = 14;

/// Checks that the frames of all flows fit the MTU of the device.
fn check_mtu(config: &HostConfig, device: &str, mtu: u32) -> Result<(), HostRunError> {
    for flow in &config.flows {
        let headers = flow.headers_len();
        // First frames carry an RDMA extended transport header of 16 bytes.
        let frame_len = headers + u32::from(flow.path_mtu) + 16;
        let tag = if flow.vlan.is_some() { 4 } else { 0 };
        let room = mtu + ETHERNET_LEN + tag;
        if frame_len > room {
            let needed = frame_len - ETHERNET_LEN - tag;
            let device = device.to_owned();
            return Err(HostRunError::Mtu {
                dst_ip: flow.dst_ip,
                frame_len,
                device,
                room,
                needed,
            });
        }
    }
    Ok(())
}

/// Returns a token that differs from the tokens of earlier runs. The token is computed from the time in
/// nanoseconds and the process id.
fn create_unique_token() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64).rotate_left(16) ^ u64::from(std::process::id())
}

/// Converts a received flow to the form of a report.
fn received_flow_report(flow: &ReceivedFlow, device: &str) -> FlowReport {
    FlowReport {
        src: flow.src_ip.to_string(),
        dst: device.to_owned(),
        class: flow.class,
        lossless: false,
        sent_frames: flow.expected_frames,
        received_frames: flow.received_frames,
        lost_frames: flow.missing_frames(),
        reordered_frames: flow.reordered_frames,
        ce_marked_frames: flow.ce_marked_frames,
        duplicate_frames: flow.duplicate_frames,
        icrc_errors: flow.icrc_errors,
        goodput_bps: flow.goodput_bps,
        latency_ns: flow.latency_ns,
    }
}
