//! The switch configuration of the built-in workloads.

use xoff_dataplane::config::{
    BalancingConfig, BridgingConfig, BufferProfile, BufferThreshold, ClassMaps, GlobalPause, MarkPoint,
    PauseModel, PfcConfig, PoolConfig, PoolSide, PortConfig, QueueConfig, RoutingConfig, SchedulingMode,
    SwitchConfig, TrustMode, WatchdogConfig, WredProfile,
};
use xoff_dataplane::{LinkTiming, Picos};

/// Returns a configuration with `ports` ports of 100 Gb/s.
///
/// Priorities 3 and 4 are lossless with PFC. Every queue is scheduled by DWRR and marks with WRED and ECN.
pub(crate) fn switch_config(ports: u16) -> SwitchConfig {
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
        ports: (0..ports).map(port_config).collect(),
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

/// Returns the configuration of one port.
pub(crate) fn port_config(index: u16) -> PortConfig {
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
