//! The switch configuration of the built-in workloads.

use xoff_dataplane::config::{
    BufferProfile, BufferThreshold, PoolConfig, PoolSide, PortConfig, QueueConfig, SchedulingMode,
    SwitchConfig, WredProfile,
};
use xoff_dataplane::{LinkTiming, Picos};

/// Returns a configuration with `ports` ports of 100 Gb/s.
///
/// Priorities 3 and 4 are lossless with PFC. DWRR schedules every queue, and WRED marks frames with ECN.
pub(crate) fn switch_config(ports: u16) -> SwitchConfig {
    let profile = |name: &str, pool, xoff_bytes| BufferProfile {
        size_bytes: 1_248,
        xoff_bytes,
        xon_offset_bytes: 2_496,
        ..BufferProfile::new(name, pool, BufferThreshold::Dynamic(0))
    };
    let pool = |name: &str, side, xoff_bytes| PoolConfig {
        xoff_bytes,
        ..PoolConfig::new(name, side, 32 << 20)
    };
    let mut config = SwitchConfig::new("bench", [2; 6], (0..ports).map(port_config).collect());
    config.cell_bytes = 208;
    config.fdb_entries_max = 4_096;
    config.frames_max = 4_096;
    config.pools = vec![
        pool("ingress", PoolSide::Ingress, 4 << 20),
        pool("egress", PoolSide::Egress, 0),
    ];
    config.profiles = vec![profile("ingress", 0, 100 << 10), profile("egress", 1, 0)];
    config
}

/// Returns the configuration of one port.
pub(crate) fn port_config(index: u16) -> PortConfig {
    let class_of = |n: usize| n as u8 % 8;
    let mac = [2, 0, 0, 1, 0, index as u8];
    let mut port = PortConfig::new(format!("Ethernet{index}"), mac, LinkTiming::ethernet(100_000));
    port.classify.dscp_to_tc = std::array::from_fn(class_of);
    port.classify.dot1p_to_tc = std::array::from_fn(class_of);
    port.classify.tc_to_queue = std::array::from_fn(class_of);
    port.classify.tc_to_pg = std::array::from_fn(class_of);
    port.pfc.enabled = 0b1_1000;
    port.pfc.refresh = Picos::from_micros(200);
    port.queues = std::array::from_fn(|n| QueueConfig {
        schedule: SchedulingMode::Dwrr {
            weight: 14 + u8::from(n == 3),
        },
        wred: Some(WredProfile {
            min_bytes: 50_000,
            max_bytes: 500_000,
            max_probability: (1 << 32) / 20,
            ecn: true,
            drop: false,
        }),
        ..QueueConfig::new(1)
    });
    port
}
