//! Source ports that change with each packet. Switches that hash the five-tuple (addresses, protocol and
//! ports) then spread the packets of a queue pair over all paths.

use serde::{Deserialize, Serialize};

/// Largest number of entropy values. UDP source ports of RoCEv2 are 0xc000 to 0xffff.
pub const ENTROPY_VALUES_MAX: u16 = 0x4000;

const PORT_FIRST: u16 = 0xc000;
const PORT_BITS_MASK: u16 = ENTROPY_VALUES_MAX - 1;

/// Distance between consecutive ports of a pool. The value is 2^14 divided by the golden ratio. It is odd, so
/// all ports of a pool differ.
const STRIDE: u16 = 10_125;

/// Entropy values of a queue pair, as in the packet spraying of Ultra Ethernet (RUD). An entropy value
/// changes the path of a packet. In RoCEv2, only the UDP source port can vary.
///
/// Each packet of a request or a READ response has a source port from a pool. Acknowledgements and CNPs have
/// the first port of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entropy {
    /// Number of source ports in the pool, 1 to [`ENTROPY_VALUES_MAX`]. Switches hash the ports to paths, so
    /// the load of the paths is not exactly equal. With four paths, the load of a path has a standard
    /// deviation of 2.7 % with 4 096 ports and 22 % with 64 ports.
    pub values: u16,
    /// Rule that selects the port of each packet.
    pub pick: EntropyPick,
}

/// Rule that selects the entropy value of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntropyPick {
    /// The values of the pool in turn.
    #[default]
    RoundRobin,
    /// A random value of the pool for each packet.
    Random,
}

/// Source ports of one queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourcePortPool {
    entropy: Entropy,
    first: u16,
    /// Number of packets so far.
    packets: u64,
    seed: u64,
}

impl SourcePortPool {
    /// Creates a pool. Its first port is `first`. Different seeds give different random orders.
    pub(super) fn new(entropy: Entropy, first: u16, seed: u64) -> SourcePortPool {
        let values = entropy.values.clamp(1, ENTROPY_VALUES_MAX);
        SourcePortPool {
            entropy: Entropy { values, ..entropy },
            first,
            packets: 0,
            seed,
        }
    }

    /// Returns the port of the next packet.
    #[inline]
    pub(super) fn next_port(&mut self) -> u16 {
        let values = u64::from(self.entropy.values);
        let index = match self.entropy.pick {
            EntropyPick::RoundRobin => self.packets % values,
            EntropyPick::Random => ((splitmix64(self.seed.wrapping_add(self.packets)) >> 32) * values) >> 32,
        };
        self.packets += 1;
        let offset = (index as u16).wrapping_mul(STRIDE);
        PORT_FIRST | self.first.wrapping_add(offset) & PORT_BITS_MASK
    }
}

/// Returns the SplitMix64 output (Steele, Lea and Flood 2014) at a given position of the sequence.
#[inline]
fn splitmix64(place: u64) -> u64 {
    let mut splitmix64 = place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    splitmix64 = (splitmix64 ^ splitmix64 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    splitmix64 = (splitmix64 ^ splitmix64 >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    splitmix64 ^ splitmix64 >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn ports(values: u16, pick: EntropyPick, first: u16, packets: usize) -> Vec<u16> {
        let mut ports = SourcePortPool::new(Entropy { values, pick }, first, u64::from(first));
        (0..packets).map(|_| ports.next_port()).collect()
    }

    #[test]
    fn round_robin_uses_all_ports_of_the_pool() {
        for values in [1, 2, 64, 1_000, ENTROPY_VALUES_MAX] {
            let ports = ports(values, EntropyPick::RoundRobin, 0xd123, 3 * usize::from(values));
            let (round, rest) = ports.split_at(usize::from(values));
            assert_eq!(round[0], 0xd123);
            assert_eq!(rest, [round, round].concat());
            let distinct: std::collections::BTreeSet<_> = round.iter().collect();
            assert_eq!(distinct.len(), usize::from(values));
            assert!(round.iter().all(|port| *port >= PORT_FIRST));
        }
    }

    #[test]
    fn random_ports_are_evenly_distributed_over_the_pool() {
        let pool: std::collections::BTreeSet<_> = ports(16, EntropyPick::RoundRobin, 0xffff, 16)
            .into_iter()
            .collect();
        let mut counts = BTreeMap::new();
        for port in ports(16, EntropyPick::Random, 0xffff, 16_000) {
            assert!(pool.contains(&port));
            *counts.entry(port).or_insert(0) += 1;
        }
        assert!(counts.len() == 16 && counts.values().all(|count| (880..=1_120).contains(count)));
        let other = ports(16, EntropyPick::Random, 0xfffe, 100);
        assert_ne!(ports(16, EntropyPick::Random, 0xffff, 100), other);
    }
}
