//! A model host on a network device of this machine. The host sends and receives RoCEv2 traffic, for example
//! to test a hardware switch or a virtual network that xoff did not create.

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
use crate::workers::{IdleMode, TaintLog};
use xoff_host::{
    FlowConfig, FlowRate, Host, HostConfig, HostConfigError, NicConfig, ReceiveBuffer, ReceivedFlow,
};
use xoff_ports::net;
use xoff_ports::{Backend, MTU_MAX, OpenedPort, Port, PortError, PortSpec};
use xoff_telemetry::{FlowEnd, FlowReport, Taint};

/// IP address of a host without a configured address.
pub const DEFAULT_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Fill level of the receive buffer at which the NIC sends XOFF, in percent of the buffer. The space above
/// this level is for frames in flight. At the level `XON_PERCENT`, the NIC sends XON.
const XOFF_PERCENT: u32 = 50;
const XON_PERCENT: u32 = 25;
/// Wall time without arrivals after which no more frames are expected.
const QUIET_TIME: Duration = Duration::from_millis(200);
/// Longest wait for such a time without arrivals, in model time.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Longest time that a host without a duration waits for the first answer of a destination.
const RESOLUTION_MAX: Duration = Duration::from_secs(10);
/// Wall time between two checks for a stop request and the end of the flows.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The settings of [`run_standalone`]: a model host on a network device of this machine.
#[derive(Clone, Debug)]
pub struct HostRunSpec {
    /// Name of the network device, in the network namespace of the calling thread.
    pub device: String,
    /// The backend with which the host uses the device.
    pub backend: Backend,
    /// MAC address of the host. `None` means the address of the device. If the device has no address, a
    /// locally administered address is used.
    pub mac: Option<[u8; 6]>,
    /// IP addresses of the host, at most one of each family. If the list is empty, the host
    /// uses [`DEFAULT_ADDRESS`].
    pub addresses: Vec<IpAddr>,
    /// Speed of the link in model time, in Mb/s, at most 1 600 000. 0 counts as 1.
    pub speed_mbps: u32,
    /// Flows to send. Without flows, the host only receives.
    pub flows: Vec<SendFlowSpec>,
    /// Wall time for which the host runs. `None` means that the host runs until a stop request. If all flows
    /// have a limit of frames, the run also ends when all frames are sent.
    pub duration: Option<Duration>,
    /// Time from the arrival of a pause to its effect, in nanoseconds of model time. `None` means two pause
    /// quanta of 512 bit times.
    pub response_ns: Option<u64>,
    /// Whether the host also waits for frames of other hosts. If false and there is no duration, the run ends if no
    /// destination answers for 10 s.
    pub awaits_frames: bool,
    /// Whether the NIC honours PFC. If false, the NIC honours 802.3x PAUSE instead.
    pub pfc: bool,
    /// Size of the receive buffer in bytes. The buffer drains at link speed. The NIC sends PFC frames for it:
    /// XOFF at 50 % of its size and XON at 25 %. `None` means that the host processes each frame at once.
    pub buffer_bytes: Option<u32>,
    /// Factor by which model time is slower than wall time. 0 counts as 1.
    pub dilate: u32,
    /// The way in which the thread of the host waits for work.
    pub idle: IdleMode,
    /// The core to which the thread is pinned. `None` means that the thread is not pinned.
    pub core: Option<usize>,
    /// Longest stall of the thread in wall time that does not taint the run. A tainted run proves nothing.
    pub reaction_budget: Duration,
}

impl HostRunSpec {
    /// Returns the settings of a host with a speed of 1 Gb/s on `device`. The host has no flows, honours PFC
    /// and runs until a stop request.
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
            awaits_frames: false,
            pfc: true,
            buffer_bytes: None,
            dilate: 1,
            idle: IdleMode::Adaptive,
            core: None,
            reaction_budget: Duration::from_millis(20),
        }
    }
}

/// A flow that a standalone host sends.
#[derive(Clone, Debug, PartialEq)]
pub struct SendFlowSpec {
    /// Destination IP address.
    pub dst_ip: IpAddr,
    /// MAC address of the receiver or the next hop. `None` means that the host resolves the address with ARP
    /// or neighbour discovery.
    pub dst_mac: Option<[u8; 6]>,
    /// Queue of the NIC, which is also the PFC priority, 0 to 7.
    pub class: u8,
    /// DSCP of the frames, 0 to 63.
    pub dscp: u8,
    /// ECN field of the frames.
    pub ecn: Ecn,
    /// Largest sending rate of the flow.
    pub rate: FlowRate,
    /// Length of a middle frame (neither first nor last of a message) in bytes without FCS, in steps of 4.
    /// The first frame of a message has 16 more bytes. For untagged IPv4, the length is 98 to 8250. IPv6 adds
    /// 20 to both limits, and a VLAN tag adds 4 ([`FlowConfig::frame_len_range`]). Any other length is the
    /// error [`HostRunError::FrameLen`].
    pub frame_len: u32,
    /// 802.1Q VLAN id of the frames, 0 to 4094. The priority of the VLAN tag is `class`. `None` means frames
    /// without a tag.
    pub vlan: Option<u16>,
    /// Number of frames after which the flow ends. `None` means no limit.
    pub frames_max: Option<u64>,
}

/// The result of [`run_standalone`]: the run of a model host on a network device of this machine.
#[derive(Clone, Debug)]
pub struct HostSummary {
    /// Results and counters of the host, and the losses of its device.
    pub outcome: HostRunResult,
    /// Received flows from remote model hosts, in the form of a report. The receiver cannot know about frames
    /// that were sent after the last received frame. `sent_frames` and `lost_frames` therefore do not include
    /// later frames.
    pub received: Vec<FlowReport>,
    /// Notes for the user about the device, such as notes about changed settings.
    pub notes: Vec<String>,
    /// The taints of the run, which are the reasons for which the run proves nothing. Empty for a clean run.
    pub taints: Vec<Taint>,
    /// Destination IP addresses whose MAC address stayed unknown. The list has one entry for each flow to
    /// such an address. The host sent no frames of these flows.
    pub unresolved: Vec<IpAddr>,
    /// Whether a stop request ended the run before its planned end. False if the run had no planned end.
    pub interrupted: bool,
}

/// The error of [`run_standalone`].
#[derive(Debug, Error)]
pub enum HostRunError {
    /// The device cannot be used as a port.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The kernel does not return the state of the device, for example because the device does not exist.
    #[error("cannot read device {device}: {source}")]
    Device {
        /// Name of the device.
        device: String,
        /// The error of the request.
        source: net::Error,
    },
    /// A flow or the NIC has a setting that is out of range.
    #[error(transparent)]
    Config(#[from] HostConfigError),
    /// No frame of a flow can have the requested length.
    #[error(
        "the flow to {dst_ip} cannot have frames of {frame_len} bytes: its headers and the time stamp of each payload take \
         {shortest}, the longest payload makes {longest}, and the length is one of these plus a multiple of 4"
    )]
    FrameLen {
        /// Destination address of the flow.
        dst_ip: IpAddr,
        /// The requested frame length in bytes.
        frame_len: u32,
        /// The shortest possible frame length in bytes.
        shortest: u32,
        /// The longest possible frame length in bytes.
        longest: u32,
    },
    /// The frames of a flow are longer than the device can carry.
    #[error(
        "the flow to {dst_ip} has frames of up to {frame_len} bytes, and device {device} carries {room}; \
         shorten frame=, or: ip link set {device} mtu {needed}"
    )]
    Mtu {
        /// Destination address of the flow.
        dst_ip: IpAddr,
        /// Length of the longest frames of the flow in bytes.
        frame_len: u32,
        /// Name of the device.
        device: String,
        /// Length of the longest frame that the device carries, in bytes.
        room: u32,
        /// The MTU of the device that would be sufficient, in bytes.
        needed: u32,
    },
    /// The host has two addresses of one family. The field is the second address.
    #[error("a host has one address of each family, and {0} is the second address of its family")]
    Address(IpAddr),
    /// The kernel refused memory or a thread.
    #[error("cannot start the host on {device}: {source}")]
    System {
        /// Name of the device.
        device: String,
        /// The error of the kernel.
        source: std::io::Error,
    },
    /// The thread of the host died, which is a defect of xoff.
    #[error("the host's thread on {device} died; this is a bug in xoff")]
    ThreadDied {
        /// Name of the device.
        device: String,
    },
}

/// Runs a host on a device of the calling thread's network namespace. The run ends when its time is over,
/// when all its flows have sent their frames, or when `stop` is set. As soon as the host can receive, `ready`
/// is called once with the notes about the device. `progress` is called about 50 times per second.
///
/// # Errors
/// See [`HostRunError`]. An error of the device during the run is not returned as an `Err`.
/// [`HostRunResult::error`] contains this error.
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
    let ledger = TaintLog::new();
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

/// A locally administered MAC address, for devices without an address.
const DEFAULT_MAC: [u8; 6] = [0x02, 0x78, 0x6f, 0x66, 0x66, 0x01];

/// Waits for the end of the run. Returns whether a stop request ended the run before its planned end.
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
        if all_sent || is_without_receiver(spec, &current, elapsed) {
            return false;
        }
        let left = spec
            .duration
            .map_or(CHECK_INTERVAL, |duration| duration - elapsed);
        thread::sleep(left.min(CHECK_INTERVAL));
    }
}

/// Returns whether the run ends because no destination has answered a request for its MAC address. With a duration, the
/// run lasts this long.
fn is_without_receiver(spec: &HostRunSpec, progress: &HostProgress, elapsed: Duration) -> bool {
    let is_silent = progress.unresolved > 0 && progress.sent_frames == 0;
    is_silent
        && !spec.awaits_frames
        && spec.duration.is_none()
        && elapsed >= RESOLUTION_MAX.saturating_mul(spec.dilate)
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

/// Returns the configuration of a flow. The flow has the requested frame length and the number `id`.
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

/// Length of an Ethernet header in bytes. The MTU counts neither this header nor the 4 bytes of a VLAN tag.
const ETHERNET_LEN: u32 = 14;

/// Checks that the frames of all flows fit the MTU of the device, in bytes.
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

/// Returns a token (run identifier) that differs from the tokens of earlier runs. The token is computed from
/// the present time in nanoseconds and the process id.
fn create_unique_token() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64).rotate_left(16) ^ u64::from(std::process::id())
}

/// Converts the results of a received flow to the form of a report. `device` is the name of the
/// receiving device.
fn received_flow_report(flow: &ReceivedFlow, device: &str) -> FlowReport {
    FlowReport {
        src: flow.src_ip.to_string(),
        dst: device.to_owned(),
        class: flow.class,
        lossless: false,
        end: FlowEnd::Receiver,
        sent_frames: flow.expected_frames,
        received_frames: flow.received_frames,
        received_bytes: flow.payload_bytes,
        lost_frames: flow.missing_frames(),
        reordered_frames: flow.reordered_frames,
        ce_marked_frames: flow.ce_marked_frames,
        duplicate_frames: flow.duplicate_frames,
        icrc_errors: flow.icrc_errors,
        goodput_bps: flow.goodput_bps,
        latency_ns: flow.latency_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_an_end_ends_if_no_destination_answers() {
        let spec = HostRunSpec::new("eth0");
        let silent = HostProgress {
            unresolved: 1,
            ..HostProgress::default()
        };
        let seconds = Duration::from_secs;
        assert!(is_without_receiver(&spec, &silent, seconds(10)));
        assert!(
            !is_without_receiver(&spec, &silent, seconds(9)),
            "the receiver may start later"
        );
        let (awaiting, timed, slow) = (
            HostRunSpec {
                awaits_frames: true,
                ..spec.clone()
            },
            HostRunSpec {
                duration: Some(seconds(60)),
                ..spec.clone()
            },
            HostRunSpec {
                dilate: 2,
                ..spec.clone()
            },
        );
        for other in [awaiting, timed, slow] {
            assert!(!is_without_receiver(&other, &silent, seconds(10)), "{other:?}");
        }
        let sending = HostProgress {
            sent_frames: 1,
            ..silent
        };
        assert!(
            !is_without_receiver(&spec, &sending, seconds(60)),
            "another address answered"
        );
        assert!(!is_without_receiver(&spec, &HostProgress::default(), seconds(60)));
    }
}
