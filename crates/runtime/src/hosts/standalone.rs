//! One model host on any network device: a RoCE source and sink for a real switch, or for a lab of another tool.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thiserror::Error;
use xoff_units::LinkTiming;
use xoff_wire::{Ecn, VlanTag};

use super::{AttachedHost, HostOutcome, Progress, RunningHosts, RuntimeOptions, drain, spawn};
use crate::workers::clock::{ModelClock, monotonic_ns};
use crate::workers::{IdleMode, TaintLedger};
use xoff_host::{
    FlowConfig, FlowRate, Host, HostConfig, HostConfigError, NicConfig, ReceiveBuffer, ReceivedFlow,
};
use xoff_ports::net;
use xoff_ports::{Backend, MTU_MAX, OpenedPort, Port, PortError, PortSpec};
use xoff_telemetry::{FlowReport, Taint};

/// Address of a host that was told none.
pub const DEFAULT_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Where in its receive buffer a NIC sends XOFF and XON, in percent. Above XOFF there is room for what is on its way.
const XOFF_PERCENT: u32 = 50;
const XON_PERCENT: u32 = 25;
/// After the last arrival, nothing more is expected.
const QUIET: Duration = Duration::from_millis(200);
/// Longest wait for that.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Commands and ends of flows are looked for this often.
const STEP: Duration = Duration::from_millis(20);

/// What to run.
#[derive(Clone, Debug)]
pub struct HostRunSpec {
    /// The network device, in the network namespace of the calling thread.
    pub device: String,
    /// How to drive it.
    pub backend: Backend,
    /// Hardware address; `None`: the device's own.
    pub mac: Option<[u8; 6]>,
    /// Addresses, at most one of each family; without any, [`DEFAULT_ADDRESS`].
    pub addresses: Vec<IpAddr>,
    /// Model speed of the link in Mb/s.
    pub speed_mbps: u32,
    /// What to send; the host receives in any case.
    pub flows: Vec<SendSpec>,
    /// How long to send, or to receive for a host that only does that, in wall time; `None`: until stopped, or until every
    /// flow has sent its frames.
    pub duration: Option<Duration>,
    /// From the arrival of a pause to its effect in nanoseconds of model time; `None`: two quanta.
    pub response_ns: Option<u64>,
    /// The NIC honours PFC; otherwise it honours 802.3x pauses.
    pub pfc: bool,
    /// Size of a receive buffer in bytes that drains at the link's speed and sends PFC; `None`: takes everything at once.
    pub buffer_bytes: Option<u32>,
    /// Model time runs this many times slower than the wall.
    pub dilate: u32,
    /// What the thread does when there is nothing to do.
    pub idle: IdleMode,
    /// The core to run on.
    pub core: Option<usize>,
    /// What the thread may stall in wall time before the run is tainted.
    pub reaction_budget: Duration,
}

impl HostRunSpec {
    /// A host that receives on a device at 1 Gb/s until it is stopped.
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
pub struct SendSpec {
    /// Where to.
    pub dst_ip: IpAddr,
    /// The receiver's hardware address, or that of the way there; `None`: asked for by ARP or neighbour discovery.
    pub dst_mac: Option<[u8; 6]>,
    /// Queue of the NIC and PFC priority, 0 to 7.
    pub class: u8,
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// The most it sends.
    pub rate: FlowRate,
    /// Length of its frames without FCS, see [`FlowConfig::with_frame_len`].
    pub frame_len: u32,
    /// 802.1Q VLAN id; its priority is the class.
    pub vlan: Option<u16>,
    /// It ends after so many frames.
    pub frames_max: Option<u64>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct HostSummary {
    /// What the host counted, sent and received.
    pub outcome: HostOutcome,
    /// Flows of model hosts that arrived, as a report has them. A receiver does not know what was sent behind the last
    /// frame that arrived: `sent_frames` and `lost_frames` count up to that.
    pub received: Vec<FlowReport>,
    /// What was repaired on the device or should be known of it.
    pub notes: Vec<String>,
    /// Why the figures may not be believed; empty if they may.
    pub taints: Vec<Taint>,
    /// Destinations that never said their hardware address; nothing was sent to them.
    pub unresolved: Vec<IpAddr>,
    /// Whether it was stopped before its time.
    pub interrupted: bool,
}

/// Why a host did not run.
#[derive(Debug, Error)]
pub enum HostRunError {
    /// The device cannot be used.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The device cannot be looked at.
    #[error("cannot look at device {device}: {source}")]
    Device {
        /// Its name.
        device: String,
        /// Why.
        source: net::Error,
    },
    /// A flow or the NIC is told something impossible.
    #[error(transparent)]
    Config(#[from] HostConfigError),
    /// A frame length that no payload gives.
    #[error(
        "the flow to {dst_ip} cannot have frames of {frame_len} bytes: its headers and the stamp of each payload take \
         {shortest}, the longest payload makes {longest}, and the length is one of these plus a multiple of 4"
    )]
    FrameLen {
        /// Where it goes.
        dst_ip: IpAddr,
        /// Length asked for.
        frame_len: u32,
        /// Shortest possible.
        shortest: u32,
        /// Longest possible.
        longest: u32,
    },
    /// Frames longer than the device carries.
    #[error(
        "the flow to {dst_ip} has frames of up to {frame_len} bytes, and device {device} carries {room}; \
         shorten frame=, or: ip link set {device} mtu {needed}"
    )]
    Mtu {
        /// Where it goes.
        dst_ip: IpAddr,
        /// Length of its longest frames.
        frame_len: u32,
        /// The device.
        device: String,
        /// Longest frame of the device.
        room: u32,
        /// MTU that would do.
        needed: u32,
    },
    /// Two addresses of one family.
    #[error("a host has one address of each family, and {0} is the second of its")]
    Address(IpAddr),
    /// The kernel refuses memory or a thread.
    #[error("cannot start the host on {device}: {source}")]
    System {
        /// The device.
        device: String,
        /// Its error.
        source: std::io::Error,
    },
    /// The thread ended by itself.
    #[error("the host's thread on {device} died; this is a fault of xoff")]
    Died {
        /// The device.
        device: String,
    },
}

/// Runs a host on a device of the calling thread's network namespace until its time is over, its flows have sent
/// their frames, or `stop` is set. `ready` is called once it receives and announces itself, with notes on
/// the device; `progress` now and then.
///
/// # Errors
/// See [`HostRunError`]. A device that fails later ends up in the summary.
pub fn run_standalone(
    spec: &HostRunSpec,
    stop: &AtomicBool,
    ready: impl FnOnce(&[String]),
    mut progress: impl FnMut(&Progress),
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
    let options = RuntimeOptions {
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
    let running = spawn(vec![AttachedHost { host, port }], options).map_err(system)?;
    ready(&notes);
    running.start_sending();
    let interrupted = wait(spec, &running, stop, &mut progress);
    drain(
        &[&running],
        QUIET,
        DRAIN_MAX.saturating_mul(spec.dilate),
        &AtomicBool::new(false),
    );
    let outcome = running.stop().and_then(|mut outcomes| outcomes.pop());
    let outcome = outcome.ok_or_else(|| HostRunError::Died {
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
            .map(|flow| received_report(flow, &spec.device))
            .collect(),
        outcome,
        notes,
        taints: ledger.taints(),
        unresolved,
        interrupted,
    })
}

/// A locally administered address, for devices that have none.
const DEFAULT_MAC: [u8; 6] = [0x02, 0x78, 0x6f, 0x66, 0x66, 0x01];

/// Waits for the end; true if it was a stop before the time.
fn wait(
    spec: &HostRunSpec,
    running: &RunningHosts,
    stop: &AtomicBool,
    progress: &mut impl FnMut(&Progress),
) -> bool {
    let begun_ns = monotonic_ns();
    let ends = !spec.flows.is_empty() && spec.flows.iter().all(|flow| flow.frames_max.is_some());
    loop {
        if stop.load(Ordering::Relaxed) {
            return spec.duration.is_some() || ends;
        }
        let elapsed = Duration::from_nanos(monotonic_ns() - begun_ns);
        if spec.duration.is_some_and(|duration| elapsed >= duration) || running.is_dead() {
            return false;
        }
        let at = running.progress();
        progress(&at);
        let all_sent = ends && !at.is_sending && elapsed > STEP;
        if all_sent {
            return false;
        }
        let left = spec.duration.map_or(STEP, |duration| duration - elapsed);
        thread::sleep(left.min(STEP));
    }
}

fn host_config(spec: &HostRunSpec, mac: [u8; 6]) -> Result<HostConfig, HostRunError> {
    let link = LinkTiming::ethernet(spec.speed_mbps.max(1));
    let mut config = HostConfig::new(spec.device.clone(), mac, link);
    config.nic = nic_config(spec, link);
    config.dilate = spec.dilate.max(1);
    config.token = fresh_token();
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

fn flow_config(id: u32, flow: &SendSpec) -> Result<FlowConfig, HostRunError> {
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

/// Octets of an Ethernet header, which an MTU does not count. (A VLAN tag comes on top of both.)
const ETHERNET_LEN: u32 = 14;

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

/// A token that no earlier run had: the time, in nanoseconds, and the process.
fn fresh_token() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64).rotate_left(16) ^ u64::from(std::process::id())
}

fn received_report(flow: &ReceivedFlow, device: &str) -> FlowReport {
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
