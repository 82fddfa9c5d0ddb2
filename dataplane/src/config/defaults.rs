//! Constructors with default values. Programs and tests then change the fields that they need.

use xoff_units::{LinkTiming, Picos};

use super::{
    BalancingConfig, BridgingConfig, BufferProfile, BufferThreshold, ClassMaps, EcnMarkPoint, GlobalPause,
    PauseModel, PfcConfig, PoolConfig, PoolSide, PortConfig, QueueConfig, RoutingConfig, SchedulingMode,
    SwitchConfig, TrustMode, WatchdogConfig,
};
use crate::ids::{PRIORITIES, TRAFFIC_CLASSES};

impl SwitchConfig {
    /// Creates a transparent bridge with these ports, without buffer pools and profiles. Without pools and
    /// profiles, the switch drops all frames, so the caller must add them.
    ///
    /// The defaults are seed 1, cells of 256 bytes, no pipeline latency, and ECN marks at dequeue. MAC
    /// addresses age out after 600 s. The tables have space for 1024 MAC addresses and 16 384 frames. Load
    /// balancing, routing and the PFC watchdog are off.
    pub fn new(name: impl Into<String>, mac: [u8; 6], ports: Vec<PortConfig>) -> SwitchConfig {
        SwitchConfig {
            name: name.into(),
            mac,
            seed: 1,
            cell_bytes: 256,
            pipeline_latency: Picos::ZERO,
            mark_point: EcnMarkPoint::Dequeue,
            fdb_ageing: Picos::from_millis(600_000),
            fdb_entries_max: 1_024,
            frames_max: 16_384,
            ports,
            pools: Vec::new(),
            profiles: Vec::new(),
            port_profiles: Vec::new(),
            lags: Vec::new(),
            bridging: BridgingConfig::Transparent,
            routing: RoutingConfig::default(),
            balancing: BalancingConfig::default(),
            watchdog: WatchdogConfig::default(),
            trimming: None,
            lldp: None,
        }
    }
}

impl PortConfig {
    /// Creates a port that is administratively up and has an MTU of 9100 bytes, TPID 0x8100, the default maps
    /// and no PFC.
    ///
    /// All priority groups use buffer profile 0, which must belong to an ingress pool. All queues use buffer
    /// profile 1, which must belong to an egress pool.
    pub fn new(name: impl Into<String>, mac: [u8; 6], link: LinkTiming) -> PortConfig {
        PortConfig {
            name: name.into(),
            mac,
            admin_up: true,
            mtu: 9_100,
            link,
            tpid: 0x8100,
            classify: ClassMaps::default(),
            pfc: PfcConfig::default(),
            watchdog: None,
            tc_to_dscp: [None; TRAFFIC_CLASSES],
            pgs: [0; PRIORITIES],
            queues: [QueueConfig::new(1); PRIORITIES],
            shaper: None,
        }
    }
}

impl Default for ClassMaps {
    /// Trusts the DSCP and maps every frame to traffic class 0. Traffic classes *n* below 8 use queue *n* and
    /// priority group *n*. Traffic classes from 8 on use queue 0 and priority group 0.
    fn default() -> ClassMaps {
        let same_number = |n: usize| if n < PRIORITIES { n as u8 } else { 0 };
        ClassMaps {
            trust: TrustMode::Dscp,
            tc_to_queue: core::array::from_fn(same_number),
            tc_to_pg: core::array::from_fn(same_number),
            dot1p_to_tc: [0; PRIORITIES],
            dscp_to_tc: [0; 64],
        }
    }
}

impl Default for PfcConfig {
    /// Disables PFC and 802.3x PAUSE. If a priority is then enabled, its pauses last 65 535 quanta and are
    /// repeated every 100 us. Priority *n* belongs to queue *n* and priority group *n*.
    fn default() -> PfcConfig {
        let same_number = core::array::from_fn(|n| n as u8);
        PfcConfig {
            enabled: 0,
            asymmetric: false,
            pause_quanta: u16::MAX,
            refresh: Picos::from_micros(100),
            priority_to_queue: same_number,
            priority_to_pg: same_number,
            pauses: PauseModel::Timed,
            response_quanta: 0,
            global: GlobalPause::default(),
        }
    }
}

impl QueueConfig {
    /// Creates a queue with this buffer profile and DWRR weight 1, without a shaper and without WRED.
    /// `profile` is an index in [`SwitchConfig::profiles`].
    pub const fn new(profile: u16) -> QueueConfig {
        QueueConfig {
            profile,
            schedule: SchedulingMode::Dwrr { weight: 1 },
            shaper: None,
            wred: None,
        }
    }
}

impl PoolConfig {
    /// Creates a pool of `size_bytes` bytes without a shared headroom pool.
    pub fn new(name: impl Into<String>, side: PoolSide, size_bytes: u64) -> PoolConfig {
        PoolConfig {
            name: name.into(),
            side,
            size_bytes,
            xoff_bytes: 0,
        }
    }
}

impl BufferProfile {
    /// Creates a lossy profile without reserved bytes. `pool` is an index in [`SwitchConfig::pools`].
    pub fn new(name: impl Into<String>, pool: u16, threshold: BufferThreshold) -> BufferProfile {
        BufferProfile {
            name: name.into(),
            pool,
            size_bytes: 0,
            threshold,
            xoff_bytes: 0,
            xon_bytes: 0,
            xon_offset_bytes: 0,
            trim: false,
        }
    }
}
