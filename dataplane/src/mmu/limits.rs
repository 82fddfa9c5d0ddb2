//! Converts the configuration to cells: the limits of groups, queues and pools.

use super::port::{NO_PORT_LIMIT, PortLimit};
use super::threshold::LimitRule;
use std::collections::BTreeMap;

use crate::config::{BufferProfile, BufferThreshold, PoolConfig, PortConfig, SwitchConfig};

/// Sizes are limited to this number of cells, which is much more than any chip has. With this limit, sums of
/// sizes that are multiplied by the largest factor fit into 64 bits for every configuration.
const CELLS_MAX: u64 = 1 << 30;

/// Fraction bits of [`CellSize::reciprocal`].
const RECIPROCAL_BITS: u32 = 63;

/// The size of a buffer cell and its reciprocal. The reciprocal converts lengths to cells without a division.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellSize {
    bytes: u32,
    /// The reciprocal `ceil(2^63 / bytes)`. The quotient is exact for dividends below 2^33 and divisors below
    /// 2^30. The reason is that the error of the reciprocal is below one, and the product of this error and
    /// the dividend is below `2^63 / bytes`.
    reciprocal: u64,
}

impl CellSize {
    pub(super) fn new(bytes: u32) -> CellSize {
        let bytes = bytes.max(1);
        CellSize {
            bytes,
            reciprocal: (1_u64 << RECIPROCAL_BITS).div_ceil(u64::from(bytes)),
        }
    }

    /// Returns the number of cells of a frame: `ceil(mac_len / cell)`.
    #[inline]
    pub(super) fn frame_cells(self, mac_len: u32) -> u32 {
        let dividend = u64::from(mac_len) + u64::from(self.bytes - 1);
        ((u128::from(dividend) * u128::from(self.reciprocal)) >> RECIPROCAL_BITS) as u32
    }

    /// Returns the number of whole cells in a configured size of `bytes`. The result is
    /// at most [`CELLS_MAX`].
    pub(super) fn bytes_to_cells(self, bytes: u64) -> u32 {
        (bytes / u64::from(self.bytes)).min(CELLS_MAX) as u32
    }
}

/// The sizes of a pool in cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolLimits {
    /// Shared cells.
    pub(super) size: i64,
    /// Cells of the shared headroom pool. `i64::MAX` if headroom is private.
    pub(super) headroom: i64,
}

impl PoolLimits {
    /// A pool that is missing in the configuration. Nothing fits into it.
    pub(super) const NONE: PoolLimits = PoolLimits { size: 0, headroom: 0 };

    pub(super) fn new(pool: &PoolConfig, cell: CellSize) -> PoolLimits {
        let headroom = match pool.xoff_bytes {
            0 => i64::MAX,
            bytes => i64::from(cell.bytes_to_cells(bytes)),
        };
        PoolLimits {
            size: i64::from(cell.bytes_to_cells(pool.size_bytes)),
            headroom,
        }
    }
}

/// The limits of a priority group or a queue. The fields for headroom and XON are not used for queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProfileLimits {
    /// Threshold of the shared use.
    pub(super) rule: LimitRule,
    /// Reserved cells.
    pub(super) reserved: u32,
    /// Headroom cells.
    pub(super) headroom: u32,
    /// Total use at which the group leaves XOFF.
    pub(super) xon: u32,
    /// The group leaves XOFF this many cells below the XOFF point. 0: not used.
    pub(super) xon_offset: u32,
    /// Index of the pool.
    pub(super) pool: u16,
    /// Index of the port limit in that pool, or `NO_PORT_LIMIT`.
    pub(super) port_limit: u16,
    /// True if the profile has headroom.
    pub(super) lossless: bool,
    /// True if XOFF is signalled, or the group has headroom and XOFF is reported.
    pub(super) tracks_xoff: bool,
    /// True if no port limit and no simulator rule applies, so that only the own limit and the pool matter.
    pub(super) uses_common_rules: bool,
}

impl ProfileLimits {
    /// Returns the limits of a group or queue without a profile. These limits admit no frame. `pool` is the
    /// index of the empty pool.
    pub(super) const fn none(pool: u16) -> ProfileLimits {
        ProfileLimits {
            rule: LimitRule::Static { cells: 0 },
            reserved: 0,
            headroom: 0,
            xon: 0,
            xon_offset: 0,
            pool,
            port_limit: NO_PORT_LIMIT,
            lossless: false,
            tracks_xoff: false,
            uses_common_rules: false,
        }
    }

    /// Returns the same limits with a port limit of index `port_limit`, or `NO_PORT_LIMIT`.
    pub(super) fn with_port_limit(self, port_limit: u16) -> ProfileLimits {
        ProfileLimits {
            port_limit,
            uses_common_rules: port_limit == NO_PORT_LIMIT && !self.rule.is_hpcc(),
            ..self
        }
    }

    fn new(profile: &BufferProfile, config: &SwitchConfig, cell: CellSize) -> ProfileLimits {
        let Some(pool) = config.pools.get(usize::from(profile.pool)) else {
            return ProfileLimits::none(config.pools.len() as u16);
        };
        let rule = LimitRule::new(profile.threshold, |bytes| cell.bytes_to_cells(bytes));
        // Private headroom form: `size` contains the headroom.
        let contains_headroom =
            !rule.is_hpcc() && pool.xoff_bytes == 0 && profile.size_bytes >= profile.xoff_bytes;
        let reserved_bytes = if contains_headroom {
            profile.size_bytes - profile.xoff_bytes
        } else {
            profile.size_bytes
        };
        ProfileLimits {
            rule,
            reserved: cell.bytes_to_cells(reserved_bytes),
            headroom: cell.bytes_to_cells(profile.xoff_bytes),
            xon: cell.bytes_to_cells(profile.xon_bytes),
            xon_offset: cell.bytes_to_cells(profile.xon_offset_bytes),
            pool: profile.pool,
            port_limit: NO_PORT_LIMIT,
            // A group of the simulator never loses a frame at egress, with or without headroom.
            lossless: profile.xoff_bytes > 0 || rule.is_hpcc(),
            tracks_xoff: profile.xoff_bytes > 0 || rule.is_hpcc(),
            uses_common_rules: !rule.is_hpcc(),
        }
    }

    /// Returns the limits of priority group `number` of `port`.
    pub(super) fn group_limits(
        port: &PortConfig,
        number: u8,
        config: &SwitchConfig,
        cell: CellSize,
    ) -> ProfileLimits {
        let mut limits = ProfileLimits::for_profile(port.pgs[usize::from(number)], config, cell);
        limits.tracks_xoff |= port.pfc.signals_priority_group(number);
        limits
    }

    /// Returns the limits of queue `number` of `port`.
    pub(super) fn queue_limits(
        port: &PortConfig,
        number: u8,
        config: &SwitchConfig,
        cell: CellSize,
    ) -> ProfileLimits {
        let mut limits = ProfileLimits::for_profile(port.queues[usize::from(number)].profile, config, cell);
        if limits.rule.is_hpcc() {
            limits.rule = LimitRule::Static { cells: u32::MAX };
        }
        limits
    }

    fn for_profile(profile: u16, config: &SwitchConfig, cell: CellSize) -> ProfileLimits {
        match config.profiles.get(usize::from(profile)) {
            Some(profile) => ProfileLimits::new(profile, config, cell),
            None => ProfileLimits::none(config.pools.len() as u16),
        }
    }
}

/// Smallest `dynamic_th` of a port that never limits: alpha 64.
const PORT_UNLIMITED_MIN: i8 = 6;

/// The port limits, and an index of them by port and pool.
#[derive(Debug, Default)]
pub(super) struct PortLimits {
    pub(super) port_limits: Vec<PortLimit>,
    /// Index into `port_limits` by port and pool.
    index: BTreeMap<(u16, u16), u16>,
}

impl PortLimits {
    pub(super) fn new(config: &SwitchConfig, cell: CellSize) -> PortLimits {
        let mut port_limits = PortLimits::default();
        for entry in &config.port_profiles {
            let Some(profile) = config.profiles.get(usize::from(entry.profile)) else {
                continue;
            };
            let limited = match profile.threshold {
                BufferThreshold::Dynamic(n) => n < PORT_UNLIMITED_MIN,
                BufferThreshold::Static(bytes) => bytes > 0,
                BufferThreshold::Hpcc { .. } => false,
            };
            if limited && port_limits.port_limits.len() < usize::from(NO_PORT_LIMIT) {
                let rule = LimitRule::new(profile.threshold, |bytes| cell.bytes_to_cells(bytes));
                port_limits
                    .index
                    .insert((entry.port, profile.pool), port_limits.port_limits.len() as u16);
                port_limits.port_limits.push(PortLimit { rule, used: 0 });
            }
        }
        port_limits
    }

    /// Returns the index of the port limit for a user of this port.
    pub(super) fn index_for(&self, port: usize, limits: &ProfileLimits) -> u16 {
        let key = (port as u16, limits.pool);
        match self.index.get(&key) {
            Some(port_limit) if !limits.rule.is_hpcc() => *port_limit,
            _ => NO_PORT_LIMIT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_cells_round_up() {
        let lengths = (0..20_000).chain([65_535, 1 << 24, u32::MAX - 1, u32::MAX]);
        let sizes = [
            1, 2, 3, 7, 64, 96, 127, 128, 144, 192, 208, 254, 256, 384, 4096, 16_383, 16_384,
        ];
        for len in lengths {
            for bytes in sizes {
                assert_eq!(
                    CellSize::new(bytes).frame_cells(len),
                    len.div_ceil(bytes),
                    "{len} / {bytes}"
                );
            }
        }
    }

    #[test]
    fn sizes_are_rounded_down_to_whole_cells() {
        let cell = CellSize::new(208);
        assert_eq!(
            cell.bytes_to_cells(33_329_088 / 4),
            40_059,
            "Tomahawk 2, one pipe"
        );
        assert_eq!(cell.bytes_to_cells(207), 0);
        assert_eq!(u64::from(cell.bytes_to_cells(u64::MAX)), CELLS_MAX);
    }
}
