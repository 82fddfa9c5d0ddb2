//! Converts the configuration to cells: the limits of priority groups, queues and pools.

use super::port::{NO_PORT_LIMIT, PortLimit};
use super::threshold::LimitRule;
use std::collections::BTreeMap;

use crate::config::{BufferProfile, BufferThreshold, PoolConfig, PortConfig, SwitchConfig};

/// Largest number of cells of a configured size, which is much more than any chip has. Products of a sum of
/// sizes and the largest factor therefore fit into 64 bits for every configuration.
const CELLS_MAX: u64 = 1 << 30;

/// Fraction bits of [`CellSize::reciprocal`].
const RECIPROCAL_BITS: u32 = 63;

/// The size of a buffer cell in bytes, and its reciprocal. The reciprocal converts lengths to cells without
/// a division.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellSize {
    bytes: u32,
    /// The reciprocal `ceil(2^63 / bytes)`. The quotient is exact for dividends below 2^33 and divisors below
    /// 2^30. The error of the reciprocal is below 1, so the product of this error and the dividend is below
    /// `2^63 / bytes`.
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

    /// Returns the number of cells of a frame of `mac_len` bytes: `ceil(mac_len / bytes)`.
    #[inline]
    pub(super) fn frame_cells(self, mac_len: u32) -> u32 {
        let dividend = u64::from(mac_len) + u64::from(self.bytes - 1);
        ((u128::from(dividend) * u128::from(self.reciprocal)) >> RECIPROCAL_BITS) as u32
    }

    /// Returns the number of complete cells in a configured size of `bytes` bytes. The result is at
    /// most [`CELLS_MAX`].
    pub(super) fn bytes_to_cells(self, bytes: u64) -> u32 {
        (bytes / u64::from(self.bytes)).min(CELLS_MAX) as u32
    }
}

/// The sizes of a pool in cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolLimits {
    /// Size of the shared space.
    pub(super) size: i64,
    /// Size of the shared headroom pool. `i64::MAX` if each priority group has its own headroom.
    pub(super) headroom: i64,
}

impl PoolLimits {
    /// The limits of a pool that is missing in the configuration. No cell fits into this pool.
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

/// The limits of a priority group or a queue, in cells. Queues do not use the fields for headroom and XON.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProfileLimits {
    /// Rule of the shared limit.
    pub(super) rule: LimitRule,
    /// Size of the reserved space.
    pub(super) reserved: u32,
    /// Size of the headroom.
    pub(super) headroom: u32,
    /// Total use at or below which the group leaves XOFF.
    pub(super) xon: u32,
    /// Distance in cells between the use at which a group pauses its peer (XOFF) and the lower use at which
    /// the peer may resume. 0: not used.
    pub(super) xon_offset: u32,
    /// Index of the pool in [`Mmu::pools`](super::Mmu).
    pub(super) pool: u16,
    /// Index in [`PortLimits::port_limits`], or [`NO_PORT_LIMIT`].
    pub(super) port_limit: u16,
    /// True if the profile has headroom or uses the HPCC rule. Lossless frames are never dropped at egress.
    pub(super) lossless: bool,
    /// True if the group can enter the XOFF state, in which it pauses its peer: it has headroom, uses the
    /// HPCC rule, or sends pause frames.
    pub(super) tracks_xoff: bool,
    /// True if the use of the group or queue has two limits only: its own limit and the size of the pool.
    /// False with a port limit or the HPCC rule.
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
        // If headroom is private, `size` contains the headroom.
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
            // With the HPCC rule, a group never loses a frame at egress, with or without headroom.
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

/// Smallest exponent (`dynamic_th`) of a port profile that never limits the port. The factor is 2^6 = 64.
const PORT_UNLIMITED_MIN: i8 = 6;

/// The limits of whole ports for their use of pools.
#[derive(Debug, Default)]
pub(super) struct PortLimits {
    pub(super) port_limits: Vec<PortLimit>,
    /// Index in `port_limits` for each pair of port and pool.
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

    /// Returns the index of the port limit for a group or queue of this port, or [`NO_PORT_LIMIT`].
    pub(super) fn port_limit_index(&self, port: usize, limits: &ProfileLimits) -> u16 {
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
