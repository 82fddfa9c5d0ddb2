//! Switch configurations for buffer tests.
#![allow(dead_code, reason = "no test binary uses all items")]

pub(crate) mod reference;

use xoff_dataplane::LinkTiming;
use xoff_dataplane::config::{
    BufferProfile, BufferThreshold, PoolConfig, PoolSide, PortConfig, QueueConfig, SwitchConfig,
};

/// Creates a configuration with `ports` ports and no pools. All groups and queues have profile 0, and no port
/// sends PFC.
pub(crate) fn switch_config(ports: usize) -> SwitchConfig {
    let mut config = SwitchConfig::new("mmu", [2, 0, 0, 0, 0, 0], (0..ports).map(port_config).collect());
    config.cell_bytes = 1;
    config.frames_max = 1 << 16;
    config
}

fn port_config(index: usize) -> PortConfig {
    let mac = [2, 0, 0, 0, 0, index as u8];
    PortConfig {
        queues: [QueueConfig::new(0); 8],
        ..PortConfig::new(format!("Ethernet{index}"), mac, LinkTiming::ethernet(1_000))
    }
}

/// Creates a buffer pool.
pub(crate) fn pool_config(name: &str, side: PoolSide, size_bytes: u64, xoff_bytes: u64) -> PoolConfig {
    PoolConfig {
        xoff_bytes,
        ..PoolConfig::new(name, side, size_bytes)
    }
}

/// Creates a profile without reserved space, headroom and XON thresholds.
pub(crate) fn pool_profile(pool: u16, threshold: BufferThreshold) -> BufferProfile {
    BufferProfile::new(format!("pool {pool} {threshold:?}"), pool, threshold)
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
