//! What all loads of the core have in common: ports, buffers, frames.

use std::net::Ipv4Addr;

use xoff_dataplane::config::{
    BalancingConfig, BridgingConfig, BufferProfile, BufferThreshold, ClassMaps, GlobalPause, MarkPoint,
    PauseModel, PfcConfig, PoolConfig, PoolSide, PortConfig, QueueConfig, RoutingConfig, SchedulingMode,
    SwitchConfig, TrustMode, WatchdogConfig, WredProfile,
};
use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::{Addresses, Aeth, BthFields, Extension, FlowHeaders, Opcode, Reth, RocePacket, Syndrome};

/// Frames per burst.
pub const BURST: usize = 32;
/// A message of 1 KiB: 1082 octets with Ethernet, IPv4, UDP, BTH, RETH and ICRC.
const PAYLOAD: usize = 1_008;

/// What differs between the flows' frames or is changed by forwarding: Ethernet, IPv4 and UDP headers.
pub(super) type Header = [u8; 42];

/// A frame of a queue pair, half of them of each of the two classes: WRITE ONLY, or an acknowledgement where the length leaves no
/// room for one. What is left of `frame_bytes` (62 or more) behind the packet is padding, as Ethernet has it.
pub(super) fn frame(
    frame_bytes: usize,
    from: [u8; 6],
    to: [u8; 6],
    src: Ipv4Addr,
    dst: Ipv4Addr,
    queue_pair: u32,
) -> Vec<u8> {
    frame_of(
        frame_bytes,
        from,
        to,
        src,
        dst,
        3 + (queue_pair / 4) as u8 % 2,
        queue_pair,
    )
}

/// As [`frame`], of any class.
pub(super) fn frame_of(
    frame_bytes: usize,
    from: [u8; 6],
    to: [u8; 6],
    src: Ipv4Addr,
    dst: Ipv4Addr,
    dscp: u8,
    queue_pair: u32,
) -> Vec<u8> {
    let mut path = FlowHeaders::new(from, to, Addresses::V4 { src, dst });
    path.dscp = dscp;
    path.udp_src_port = 0xc000 | (queue_pair.wrapping_mul(0x9e37_79b9) >> 18) as u16;
    let headers = |opcode, extensions| RocePacket {
        headers: &path,
        bth: BthFields::new(opcode, queue_pair, 0),
        extensions,
    };
    let reth = [Extension::Reth(Reth {
        virtual_address: 0x1000,
        rkey: 1,
        dma_len: frame_bytes as u32,
    })];
    let aeth = [Extension::Aeth(Aeth {
        syndrome: Syndrome::Ack { credits: 31 },
        msn: 0,
    })];
    let write = headers(Opcode::RcWriteOnly, &reth);
    let acknowledge = headers(Opcode::RcAcknowledge, &aeth);
    let packet = if frame_bytes < write.frame_len(4) {
        acknowledge
    } else {
        write
    };
    let payload = (frame_bytes - packet.frame_len(0)) & !3;
    let payload = if packet.bth.opcode == Opcode::RcAcknowledge {
        0
    } else {
        payload
    };
    let mut frame = vec![0; frame_bytes];
    packet
        .emit(&mut frame, payload, |bytes| bytes.fill(0x5a))
        .expect("a buffer of that length");
    frame
}

/// As the benches have had them from the start: 1082 octets, one UDP source port.
pub(super) fn roce_frame(
    from: [u8; 6],
    to: [u8; 6],
    src: Ipv4Addr,
    dst: Ipv4Addr,
    queue_pair: u32,
) -> Vec<u8> {
    roce(from, to, src, dst, 3 + (queue_pair / 4) as u8 % 2, queue_pair, 0)
}

pub(super) fn roce(
    from: [u8; 6],
    to: [u8; 6],
    src: Ipv4Addr,
    dst: Ipv4Addr,
    dscp: u8,
    queue_pair: u32,
    psn: u32,
) -> Vec<u8> {
    let mut path = FlowHeaders::new(from, to, Addresses::V4 { src, dst });
    path.dscp = dscp;
    let reth = Reth {
        virtual_address: 0x1000,
        rkey: 1,
        dma_len: PAYLOAD as u32,
    };
    let packet = RocePacket {
        headers: &path,
        bth: BthFields::new(Opcode::RcWriteOnly, queue_pair, psn),
        extensions: &[Extension::Reth(reth)],
    };
    let mut frame = vec![0; packet.frame_len(PAYLOAD)];
    packet
        .emit(&mut frame, PAYLOAD, |payload| payload.fill(0x5a))
        .expect("a buffer of that length");
    assert_eq!(frame.len(), 1_082);
    frame
}

/// Ports of 100 Gb/s; priorities 3 and 4 lossless with PFC, each queue of its own DWRR weight, ECN on both.
pub(super) fn config(ports: u16) -> SwitchConfig {
    let profile = |name: &str, pool, xoff_bytes| BufferProfile {
        name: name.into(),
        pool,
        size_bytes: 1_248,
        threshold: BufferThreshold::Dynamic(0),
        xoff_bytes,
        xon_bytes: 0,
        xon_offset_bytes: 2_496,
        trim: false,
    };
    let pool = |name: &str, side, xoff_bytes| PoolConfig {
        name: name.into(),
        side,
        size_bytes: 32 << 20,
        xoff_bytes,
    };
    SwitchConfig {
        name: "bench".into(),
        mac: [2; 6],
        seed: 1,
        cell_bytes: 208,
        pipeline_latency: Picos::ZERO,
        mark_point: MarkPoint::Dequeue,
        fdb_ageing: Picos::from_millis(600_000),
        fdb_entries_max: 4_096,
        frames_max: 4_096,
        ports: (0..ports).map(port).collect(),
        pools: vec![
            pool("ingress", PoolSide::Ingress, 4 << 20),
            pool("egress", PoolSide::Egress, 0),
        ],
        profiles: vec![profile("ingress", 0, 100 << 10), profile("egress", 1, 0)],
        port_profiles: Vec::new(),
        lags: Vec::new(),
        bridging: BridgingConfig::Transparent,
        routing: RoutingConfig::default(),
        balancing: BalancingConfig::default(),
        watchdog: WatchdogConfig::default(),
        trimming: None,
    }
}

pub(super) fn port(index: u16) -> PortConfig {
    let identity = |n: usize| n as u8 % 8;
    PortConfig {
        name: format!("Ethernet{index}"),
        mac: [2, 0, 0, 1, 0, index as u8],
        admin_up: true,
        mtu: 9_100,
        link: LinkTiming::ethernet(100_000),
        tpid: 0x8100,
        classify: ClassMaps {
            trust: TrustMode::Dscp,
            dscp_to_tc: std::array::from_fn(identity),
            dot1p_to_tc: std::array::from_fn(identity),
            tc_to_queue: std::array::from_fn(identity),
            tc_to_pg: std::array::from_fn(identity),
        },
        pfc: PfcConfig {
            enabled: 0b1_1000,
            asymmetric: false,
            pause_quanta: 0xffff,
            refresh: Picos::from_micros(200),
            priority_to_queue: std::array::from_fn(identity),
            priority_to_pg: std::array::from_fn(identity),
            pauses: PauseModel::Timed,
            response_quanta: 0,
            global: GlobalPause::default(),
        },
        watchdog: None,
        tc_to_dscp: [None; 16],
        pgs: [0; 8],
        queues: std::array::from_fn(|n| QueueConfig {
            profile: 1,
            schedule: SchedulingMode::Dwrr {
                weight: 14 + u8::from(n == 3),
            },
            shaper: None,
            wred: Some(WredProfile {
                min_bytes: 50_000,
                max_bytes: 500_000,
                max_probability: (1 << 32) / 20,
                ecn: true,
                drop: false,
            }),
        }),
        shaper: None,
    }
}

#[cfg(test)]
mod tests {
    use xoff_wire::parse::{Payload, parse};

    use super::*;

    #[test]
    fn frames_of_all_lengths_are_ip_of_a_lossless_class() {
        for len in [62, 64, 78, 512, 1_081, 1_082, 4_200, 9_000] {
            for queue_pair in [0, 4] {
                let bytes = frame(
                    len,
                    [2; 6],
                    [4; 6],
                    [10, 0, 0, 1].into(),
                    [10, 0, 0, 2].into(),
                    queue_pair,
                );
                let parsed = parse(&bytes);
                assert_eq!((bytes.len(), parsed.payload), (len, Payload::Ipv4));
                assert_eq!(parsed.dscp(), Some(3 + queue_pair as u8 / 4), "{len}");
                assert!(parsed.is_ecn_capable(), "{len}");
            }
        }
    }
}
