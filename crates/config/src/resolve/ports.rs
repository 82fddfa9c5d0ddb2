//! Ports: names, links, MAC addresses, and the maps and profiles that are bound to a port.

use xoff_dataplane::config::{GlobalPause, PauseModel, PfcConfig, PortConfig, QueueConfig, SchedulingMode};
use xoff_dataplane::ids::{PRIORITIES, TRAFFIC_CLASSES};
use xoff_dataplane::{LinkTiming, Picos};

use super::buffers::ResolvedBuffers;
use super::context::ResolveContext;
use super::{LOCALHOST, classes};
use crate::schema;

/// Default speed of a port in Mb/s. Two CPU cores can forward this speed in real time.
const SPEED_MBPS_DEFAULT: u64 = 1_000;
const MTU_DEFAULT: u32 = 1_500;
const TPID_DEFAULT: u16 = 0x8100;

/// Returns the MAC address of the switch: `DEVICE_METADATA|localhost mac`, or a locally administered address
/// that is derived from the host name.
pub(super) fn base_mac(context: &ResolveContext<'_>) -> [u8; 6] {
    let written = context
        .text("DEVICE_METADATA", LOCALHOST, "mac")
        .and_then(schema::parse_mac);
    written.unwrap_or_else(|| {
        let [_, _, _, _, a, b, c, d] = fnv1a_hash(context.hostname().as_bytes()).to_be_bytes();
        [0x02, a, b, c, d, 0]
    })
}

/// Returns the 64-bit FNV-1a hash of a text. Addresses and seeds are derived from this hash. The hash
/// function must therefore never change, so that they are the same on all machines and in all versions.
pub(super) fn fnv1a_hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns the MAC address of port `index`: the base address plus `index` + 1. Only the lower three
/// bytes change.
pub(super) fn port_mac(base: [u8; 6], index: usize) -> [u8; 6] {
    let [a, b, c, d, e, f] = base;
    let low = u32::from_be_bytes([0, d, e, f]).wrapping_add(1 + index as u32);
    let [_, d, e, f] = low.to_be_bytes();
    [a, b, c, d, e, f]
}

/// Resolves all ports with default schedulers and without flow control. Later steps set these.
pub(super) fn resolve_ports(
    context: &mut ResolveContext<'_>,
    buffers: &mut ResolvedBuffers,
) -> Vec<PortConfig> {
    let base = base_mac(context);
    let names = context.ports.clone();
    let mut ports = Vec::with_capacity(names.len());
    for (index, name) in names.into_iter().enumerate() {
        let admin_up = !is_admin_down(context, &name);
        if !admin_up
            && context.is_attached(&name)
            && let Some(attachment) = context.options.attachment.describe_reason()
        {
            context.warn_port(&name, format!("{attachment}, but admin_status in PORT is down"));
        }
        let tpid = context.text("PORT", &name, "tpid").and_then(schema::parse_tpid);
        let mut queues = [QueueConfig {
            profile: 0,
            schedule: SchedulingMode::Dwrr { weight: 1 },
            shaper: None,
            wred: None,
        }; PRIORITIES];
        for (queue, profile) in queues.iter_mut().zip(buffers.queue_profiles(index)) {
            queue.profile = profile;
        }
        ports.push(PortConfig {
            mac: port_mac(base, index),
            admin_up,
            mtu: link_limited_mtu_bytes(context, &name),
            link: resolve_link_timing(context, &name),
            tpid: tpid.unwrap_or(TPID_DEFAULT),
            classify: classes::resolve_class_maps(context, &name),
            pfc: pfc_disabled(),
            watchdog: None,
            tc_to_dscp: read_tc_to_dscp_map(context, &name),
            pgs: buffers.group_profiles(index),
            queues,
            shaper: None,
            name,
        });
    }
    ports
}

/// Returns whether a port is administratively down. Without `admin_status`, attached ports are up and all
/// other ports are down.
pub(super) fn is_admin_down(context: &ResolveContext<'_>, port: &str) -> bool {
    match context.text("PORT", port, "admin_status") {
        Some(status) => status != "up",
        None => !context.is_attached(port),
    }
}

/// Returns the configured speed of a port in Mb/s, or the default 1000.
pub(super) fn speed_mbps(context: &ResolveContext<'_>, port: &str) -> u32 {
    context
        .number("PORT", port, "speed")
        .unwrap_or(SPEED_MBPS_DEFAULT) as u32
}

/// Returns the configured MTU of a port in bytes. The default is the MTU of its device, or 1500 if the MTU of
/// the device is unknown.
pub(super) fn mtu_bytes(context: &ResolveContext<'_>, port: &str) -> u32 {
    let written = context.number("PORT", port, "mtu").map(|mtu| mtu as u32);
    written
        .or_else(|| context.options.devices.default_mtu(port))
        .unwrap_or(MTU_DEFAULT)
}

/// Returns the smaller value of the MTU of a port and the MTU of its link, in bytes.
fn link_limited_mtu_bytes(context: &ResolveContext<'_>, port: &str) -> u32 {
    let link = context.options.link_mtus.get(port).copied().unwrap_or(u32::MAX);
    mtu_bytes(context, port).min(link)
}

/// Resolves the link timing of a port from its speed and `XOFF_PORT`.
fn resolve_link_timing(context: &ResolveContext<'_>, port: &str) -> LinkTiming {
    let ethernet = LinkTiming::ethernet(speed_mbps(context, port));
    let ours = |field: &str, default: u32| {
        context
            .number("XOFF_PORT", port, field)
            .map_or(default, |number| number as u32)
    };
    LinkTiming {
        overhead_bytes: ours("overhead_bytes", ethernet.overhead_bytes),
        gap_bytes: ethernet
            .gap_bytes
            .min(ours("overhead_bytes", ethernet.overhead_bytes)),
        fcs_bytes: ours("fcs_bytes", ethernet.fcs_bytes),
        min_frame_bytes: ours("min_frame_bytes", ethernet.min_frame_bytes),
        rounding_ps: ours("rounding_ps", ethernet.rounding_ps),
        as_ns3: false,
        ..ethernet
    }
}

/// Reads the `TC_TO_DSCP_MAP` of a port: the DSCP for each traffic class. A DSCP is `None` if the map has no
/// entry for the traffic class.
fn read_tc_to_dscp_map(context: &ResolveContext<'_>, port: &str) -> [Option<u8>; TRAFFIC_CLASSES] {
    let map = context.text("PORT_QOS_MAP", port, "tc_to_dscp_map");
    std::array::from_fn(|tc| {
        let dscp = context.number("TC_TO_DSCP_MAP", map?, &tc.to_string())?;
        Some(dscp as u8)
    })
}

/// Returns flow control without lossless priorities.
fn pfc_disabled() -> PfcConfig {
    let identity = std::array::from_fn(|n| n as u8);
    PfcConfig {
        enabled: 0,
        asymmetric: false,
        pause_quanta: u16::MAX,
        refresh: Picos::NEVER,
        priority_to_queue: identity,
        priority_to_pg: identity,
        pauses: PauseModel::Timed,
        response_quanta: 0,
        global: GlobalPause::default(),
    }
}
