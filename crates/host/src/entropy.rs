//! Source ports that change from packet to packet, so that switches which hash the five-tuple spread a queue pair over all paths.

use serde::{Deserialize, Serialize};

/// Most values of a pool: UDP source ports of RoCEv2 are 0xc000 to 0xffff.
pub const ENTROPY_VALUES_MAX: u16 = 0x4000;

const PORT_FIRST: u16 = 0xc000;
const PORT_BITS_MASK: u16 = ENTROPY_VALUES_MAX - 1;

/// Neighbouring values of a pool lie far apart: odd, so that all of a pool differ; the golden ratio of 2^14.
const STRIDE: u16 = 10_125;

/// Entropy values of a queue pair, as Ultra Ethernet's packet spraying has them (RUD), in the only field of RoCEv2 that is free for them: each packet of requests
/// and READ responses has a UDP source port out of a pool. Acknowledgements and CNPs keep the queue pair's own, the first of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entropy {
    /// Source ports in the pool, 1 to [`ENTROPY_VALUES_MAX`]. By a hash they lie on paths as by lot: of four paths, each
    /// has its quarter give or take 2.7 % with 4 096 values, 22 % with 64 (one standard deviation).
    pub values: u16,
    /// Which one a packet gets.
    pub pick: EntropyPick,
}

/// Which value of its pool a packet gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntropyPick {
    /// One after the other.
    #[default]
    RoundRobin,
    /// At random.
    Random,
}

/// The ports of one queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourcePorts {
    entropy: Entropy,
    first: u16,
    /// Packets so far.
    packets: u64,
    seed: u64,
}

impl SourcePorts {
    /// A pool that begins with `first`; queue pairs with different seeds draw differently.
    pub(super) fn new(entropy: Entropy, first: u16, seed: u64) -> SourcePorts {
        let values = entropy.values.clamp(1, ENTROPY_VALUES_MAX);
        SourcePorts {
            entropy: Entropy { values, ..entropy },
            first,
            packets: 0,
            seed,
        }
    }

    /// The port of the next packet.
    #[inline]
    pub(super) fn next(&mut self) -> u16 {
        let values = u64::from(self.entropy.values);
        let index = match self.entropy.pick {
            EntropyPick::RoundRobin => self.packets % values,
            EntropyPick::Random => ((mixed(self.seed.wrapping_add(self.packets)) >> 32) * values) >> 32,
        };
        self.packets += 1;
        let offset = (index as u16).wrapping_mul(STRIDE);
        PORT_FIRST | self.first.wrapping_add(offset) & PORT_BITS_MASK
    }
}

/// The output function of splitmix64 (Steele, Lea and Flood 2014) at a place of its sequence.
#[inline]
fn mixed(place: u64) -> u64 {
    let mut mixed = place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn ports(values: u16, pick: EntropyPick, first: u16, packets: usize) -> Vec<u16> {
        let mut ports = SourcePorts::new(Entropy { values, pick }, first, u64::from(first));
        (0..packets).map(|_| ports.next()).collect()
    }

    #[test]
    fn a_pool_has_so_many_ports_from_the_first_on_and_goes_round() {
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
    fn drawn_ports_are_those_of_the_same_pool_and_even() {
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
