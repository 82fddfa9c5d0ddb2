//! Cached adjacencies of stations on connected networks.

use ipnet::IpNet;

use super::adjacency::Adjacency;
use crate::ids::InterfaceId;

/// Smallest and largest number of cached adjacencies for stations on connected networks, both powers of two.
const ON_LINK_SLOTS: [usize; 2] = [64, 1024];

/// Cached adjacency of a station on a connected network.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnLinkAdjacency {
    pub(super) station: (InterfaceId, u32),
    pub(super) adjacency: Adjacency,
}

impl OnLinkAdjacency {
    const INVALID: OnLinkAdjacency = OnLinkAdjacency {
        station: (InterfaceId(0), 0),
        adjacency: Adjacency::INVALID,
    };
}

/// Cached adjacencies of stations that are not next hops of a route. Each hash value has one entry. The entry belongs
/// to the station with this hash that was used last.
#[derive(Debug)]
pub(super) struct OnLinkCache {
    /// A power of two of entries.
    pub(super) entries: Box<[OnLinkAdjacency]>,
    /// Number of bits of a product that are not part of a slot number.
    unused_bits: u32,
}

impl OnLinkCache {
    /// Creates a cache with twice as many entries as the connected networks have IPv4 addresses, within
    /// [`ON_LINK_SLOTS`].
    pub(super) fn new<'a>(networks: impl Iterator<Item = &'a IpNet>) -> OnLinkCache {
        let stations: u64 = networks
            .map(|network| match network {
                IpNet::V4(network) => 1 << (u32::BITS - u32::from(network.prefix_len())),
                IpNet::V6(_) => 0,
            })
            .sum();
        let [least, most] = ON_LINK_SLOTS;
        let slots = (2 * stations)
            .min(most as u64)
            .max(least as u64)
            .next_power_of_two();
        OnLinkCache {
            entries: vec![OnLinkAdjacency::INVALID; slots as usize].into(),
            unused_bits: u32::BITS - slots.ilog2(),
        }
    }

    /// Returns the slot of a station. The slot number consists of the high bits of a product: the address times the
    /// golden ratio.
    #[inline(always)]
    pub(super) fn slot(&self, address: u32) -> usize {
        (address.wrapping_mul(0x9e37_79b9) >> self.unused_bits) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a cache for these networks.
    fn cache(networks: &[&str]) -> OnLinkCache {
        let networks: Vec<IpNet> = networks.iter().map(|network| network.parse().unwrap()).collect();
        OnLinkCache::new(networks.iter())
    }

    #[test]
    fn the_cache_has_two_entries_for_each_address_within_its_limits() {
        for (networks, entries) in [
            (&[] as &[&str], 64),
            (&["10.0.0.1/24"], 512),
            (&["10.0.0.0/31", "10.0.0.2/31"], 64),
            (&["10.0.0.1/25", "10.0.1.1/26"], 512),
            (&["0.0.0.0/0", "10.0.0.0/8"], 1024),
            (&["fd00::1/64"], 64),
        ] {
            assert_eq!(cache(networks).entries.len(), entries, "{networks:?}");
        }
    }

    #[test]
    fn stations_of_a_network_have_few_slots_in_common() {
        let cache = cache(&["10.1.2.1/24"]);
        let slots: std::collections::HashSet<usize> =
            (0..256).map(|host| cache.slot(0x0a01_0200 + host)).collect();
        assert!(slots.len() >= 250, "{}", slots.len());
        assert!(slots.iter().all(|slot| *slot < cache.entries.len()));
    }
}
