//! Switch configurations for buffer tests.
#![allow(dead_code, reason = "no test binary uses all items")]

pub(crate) mod reference;

use xoff_dataplane::config::{
    BalancingConfig, BridgingConfig, BufferProfile, BufferThreshold, ClassMaps, GlobalPause, MarkPoint,
    PauseModel, PfcConfig, PoolConfig, PoolSide, PortConfig, QueueConfig, RoutingConfig, SchedulingMode,
    SwitchConfig, TrustMode, WatchdogConfig,
};
use xoff_dataplane::{LinkTiming, Picos};

/// Creates a configuration with `ports` ports and no pools. All groups and queues have profile 0, and no port
/// sends PFC.
pub(crate) fn switch_config(ports: usize) -> SwitchConfig {
    SwitchConfig {
        name: "mmu".into(),
        mac: [2, 0, 0, 0, 0, 0],
        seed: 1,
        cell_bytes: 1,
        pipeline_latency: Picos::ZERO,
        mark_point: MarkPoint::Dequeue,
        fdb_ageing: Picos::ZERO,
        fdb_entries_max: 0,
        frames_max: 1 << 16,
        ports: (0..ports).map(port_config).collect(),
        pools: Vec::new(),
        profiles: Vec::new(),
        port_profiles: Vec::new(),
        lags: Vec::new(),
        bridging: BridgingConfig::Transparent,
        routing: RoutingConfig::default(),
        balancing: BalancingConfig::default(),
        watchdog: WatchdogConfig::default(),
        trimming: None,
    }
}

fn port_config(index: usize) -> PortConfig {
    PortConfig {
        name: format!("Ethernet{index}"),
        mac: [2, 0, 0, 0, 0, index as u8],
        admin_up: true,
        mtu: 9100,
        link: LinkTiming::ethernet(1_000),
        tpid: 0x8100,
        classify: ClassMaps {
            trust: TrustMode::Dscp,
            dscp_to_tc: [0; 64],
            dot1p_to_tc: [0; 8],
            tc_to_queue: [0; 16],
            tc_to_pg: [0; 16],
        },
        pfc: PfcConfig {
            enabled: 0,
            asymmetric: false,
            pause_quanta: 65_535,
            refresh: Picos::ZERO,
            priority_to_queue: [0, 1, 2, 3, 4, 5, 6, 7],
            priority_to_pg: [0, 1, 2, 3, 4, 5, 6, 7],
            pauses: PauseModel::Timed,
            response_quanta: 0,
            global: GlobalPause::default(),
        },
        watchdog: None,
        tc_to_dscp: [None; 16],
        pgs: [0; 8],
        queues: [QueueConfig {
            profile: 0,
            schedule: SchedulingMode::Strict,
            shaper: None,
            wred: None,
        }; 8],
        shaper: None,
    }
}

/// Creates a buffer pool.
pub(crate) fn pool_config(name: &str, side: PoolSide, size_bytes: u64, xoff_bytes: u64) -> PoolConfig {
    PoolConfig {
        name: name.into(),
        side,
        size_bytes,
        xoff_bytes,
    }
}

/// Creates a profile without reserved space, headroom and XON thresholds.
pub(crate) fn pool_profile(pool: u16, threshold: BufferThreshold) -> BufferProfile {
    BufferProfile {
        name: format!("pool {pool} {threshold:?}"),
        pool,
        size_bytes: 0,
        threshold,
        xoff_bytes: 0,
        xon_bytes: 0,
        xon_offset_bytes: 0,
        trim: false,
    }
}

/// Creates a configuration of two ports with cells of one byte, an ingress pool of 100 cells with
/// `headroom_pool`, and an egress pool of 100 cells. All groups have the profile `group`. All queues have 2
/// reserved cells and a dynamic threshold of 2^0.
pub(crate) fn two_port_config(headroom_pool: u64, group: BufferProfile) -> SwitchConfig {
    let mut config = switch_config(2);
    config.pools = vec![
        pool_config("ingress", PoolSide::Ingress, 100, headroom_pool),
        pool_config("egress", PoolSide::Egress, 100, 0),
    ];
    let queue = BufferProfile {
        size_bytes: 2,
        ..pool_profile(1, BufferThreshold::Dynamic(0))
    };
    config.profiles = vec![group, queue];
    for port in &mut config.ports {
        port.queues.iter_mut().for_each(|queue| queue.profile = 1);
    }
    config
}

/// Creates a lossless profile: reserve 5, threshold 2^0, headroom 10, XON 3 cells below the XOFF point.
pub(crate) fn lossless_profile() -> BufferProfile {
    BufferProfile {
        size_bytes: 5,
        xoff_bytes: 10,
        xon_offset_bytes: 3,
        trim: false,
        ..pool_profile(0, BufferThreshold::Dynamic(0))
    }
}
