//! Longest-prefix match: a multibit trie whose nodes have the width and the skip that their prefixes ask for.
//!
//! A look-up follows *slots* of 32 bits. A slot is a leaf (what was found), a *branch* (the next 1 to 16 bits of the
//! address index 2^width slots that lie together) or a *skip* (the next bits must be these, or the best shorter match
//! holds). Leaves are pushed: each slot knows the best match of its whole range, so nothing is ever looked up twice. The
//! width of a branch is in the slot that leads to it, so one branch costs one dependent load.
//!
//! How wide: a branch has at most 4 slots per prefix below it, the first one 64, never more than 2^16. All branches at one
//! depth may have 4 096 together even so: in a small table most look-ups then take the same few steps, whatever they look
//! for, and a processor that has to guess how many there will be guesses right. So 1 000 prefixes of 24 bits cost two or
//! three loads and at most 256 KiB, of which a flow touches two or three cache lines; and a table
//! of any shape stays near its prefixes in size. (LC-tries, Nilsson and Karlsson 1999, choose widths likewise; the
//! popcounts of a poptrie, Asai and Ohara 2015, would cost a dozen instructions each on the x86-64 baseline.)

use std::fmt;

/// Bits of a slot: leaf or not, branch or skip, width less one and first slot of a branch.
const NODE: u32 = 1 << 31;
const SKIP: u32 = 1 << 30;
const WIDTH_SHIFT: u32 = 26;
const WIDTH_MAX: u32 = 16;
const BASE: u32 = (1 << WIDTH_SHIFT) - 1;

/// Most slots of a trie.
const SLOTS_MAX: usize = BASE as usize + 1;
/// The largest leaf: what [`Trie::find`] can return.
pub(super) const LEAF_MAX: u32 = SKIP - 1;
/// Slots per prefix of the first branch and of the others, at most.
const FIRST_SLOTS: usize = 64;
const SLOTS: usize = 4;
/// Slots that the branches at one depth may have together even if those are more.
const FREE_SLOTS: usize = 4_096;

/// A prefix on its way into a trie: an address in words, the first bit highest, host bits zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix<const WORDS: usize> {
    pub(super) address: [u64; WORDS],
    pub(super) len: u32,
    pub(super) leaf: u32,
}

/// The trie would need more than [`SLOTS_MAX`] slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overfull;

/// Bits that all addresses below have in common, within one word of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Skip {
    /// The word without its last `shift` bits.
    bits: u64,
    next: u32,
    /// The leaf for an address with other bits.
    otherwise: u32,
    shift: u8,
    /// Bits of the address that are known behind the skip.
    depth: u8,
}

/// A trie over addresses of `WORDS` x 64 bits; shorter ones are put at the front. Leaf 0 means that nothing matches.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Trie<const WORDS: usize> {
    root: u32,
    slots: Vec<u32>,
    skips: Vec<Skip>,
    /// Slots per prefix of branches behind the first one.
    slots_per_prefix: usize,
}

impl<const WORDS: usize> Trie<WORDS> {
    /// `prefixes` in order of address, then length; none twice; leaves from 1 to [`LEAF_MAX`].
    pub(super) fn build(prefixes: &[Prefix<WORDS>]) -> Result<Trie<WORDS>, Overfull> {
        let mut trie = Trie {
            slots_per_prefix: SLOTS.max(FREE_SLOTS / prefixes.len().max(1)),
            ..Trie::default()
        };
        trie.root = trie.node(prefixes, 0, 0, FIRST_SLOTS)?;
        trie.slots.shrink_to_fit();
        trie.skips.shrink_to_fit();
        Ok(trie)
    }

    /// The leaf of the longest prefix that `address` is in; 0: of none.
    #[inline(always)]
    pub(super) fn find(&self, address: [u64; WORDS]) -> u32 {
        let mut slot = self.root;
        let mut depth = 0;
        while slot & NODE != 0 {
            if slot & SKIP == 0 {
                let width = (slot >> WIDTH_SHIFT & 15) + 1;
                let word = address[(depth / 64) as usize % WORDS];
                let index = (word << (depth % 64)) >> (64 - width);
                slot = self.slots[(slot & BASE) as usize + index as usize];
                depth += width;
            } else {
                let skip = &self.skips[(slot & LEAF_MAX) as usize];
                let word = address[(depth / 64) as usize % WORDS];
                if word >> skip.shift != skip.bits {
                    return skip.otherwise;
                }
                slot = skip.next;
                depth = u32::from(skip.depth);
            }
        }
        slot
    }

    /// Octets that the trie occupies.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.slots[..]) + size_of_val(&self.skips[..])
    }

    /// A slot for the addresses that share their first `depth` bits. `prefixes` are those among them, at least `depth`
    /// long; `otherwise` is the leaf of the longest shorter one.
    fn node(
        &mut self,
        mut prefixes: &[Prefix<WORDS>],
        depth: u32,
        mut otherwise: u32,
        slots_per_prefix: usize,
    ) -> Result<u32, Overfull> {
        if let Some((first, rest)) = prefixes.split_first()
            && first.len == depth
        {
            otherwise = first.leaf;
            prefixes = rest;
        }
        let (Some(first), Some(last)) = (prefixes.first(), prefixes.last()) else {
            return Ok(otherwise);
        };
        // The first one is the shortest of all if any is shorter than what they have in common: it has zeros there.
        let word_end = (depth / 64 + 1) * 64;
        let common = common_bits(&first.address, &last.address)
            .min(first.len)
            .min(word_end);
        if common > depth {
            return self.skip(prefixes, depth, common, otherwise, slots_per_prefix);
        }
        let longest = prefixes.iter().map(|prefix| prefix.len).max().unwrap_or(depth);
        let width = (prefixes.len() * slots_per_prefix)
            .ilog2()
            .min(WIDTH_MAX)
            .min(longest - depth)
            .min(word_end - depth);
        self.branch(prefixes, depth, width, otherwise)
    }

    fn skip(
        &mut self,
        prefixes: &[Prefix<WORDS>],
        depth: u32,
        to: u32,
        otherwise: u32,
        slots_per_prefix: usize,
    ) -> Result<u32, Overfull> {
        let shift = (depth / 64 + 1) * 64 - to;
        let index = self.skips.len();
        self.skips.push(Skip {
            bits: prefixes[0].address[(depth / 64) as usize] >> shift,
            next: 0,
            otherwise,
            shift: shift as u8,
            depth: to as u8,
        });
        self.skips[index].next = self.node(prefixes, to, otherwise, slots_per_prefix)?;
        if index > LEAF_MAX as usize {
            return Err(Overfull);
        }
        Ok(NODE | SKIP | index as u32)
    }

    fn branch(
        &mut self,
        mut prefixes: &[Prefix<WORDS>],
        depth: u32,
        width: u32,
        otherwise: u32,
    ) -> Result<u32, Overfull> {
        let base = self.slots.len();
        let slots = 1_usize << width;
        if base + slots > SLOTS_MAX {
            return Err(Overfull);
        }
        self.slots.resize(base + slots, otherwise);
        let end = depth + width;
        let slot_of = |prefix: &Prefix<WORDS>| {
            let word = prefix.address[(depth / 64) as usize];
            base + ((word << (depth % 64)) >> (64 - width)) as usize
        };
        // In this order a prefix comes before those that it contains, so what is longer overwrites what is shorter.
        while let Some((first, rest)) = prefixes.split_first() {
            let slot = slot_of(first);
            if first.len <= end {
                self.slots[slot..slot + (1 << (end - first.len))].fill(first.leaf);
                prefixes = rest;
            } else {
                let below = prefixes.partition_point(|prefix| slot_of(prefix) == slot);
                let (inside, after) = prefixes.split_at(below);
                self.slots[slot] = self.node(inside, end, self.slots[slot], self.slots_per_prefix)?;
                prefixes = after;
            }
        }
        Ok(NODE | (width - 1) << WIDTH_SHIFT | base as u32)
    }
}

impl<const WORDS: usize> fmt::Debug for Trie<WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trie")
            .field("slots", &self.slots.len())
            .field("skips", &self.skips.len())
            .finish_non_exhaustive()
    }
}

/// How many leading bits two addresses share.
fn common_bits<const WORDS: usize>(a: &[u64; WORDS], b: &[u64; WORDS]) -> u32 {
    let mut common = 0;
    for (a, b) in a.iter().zip(b) {
        let same = (a ^ b).leading_zeros();
        common += same;
        if same < 64 {
            break;
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(address: u32, len: u32, leaf: u32) -> Prefix<1> {
        Prefix {
            address: [u64::from(address) << 32],
            len,
            leaf,
        }
    }

    fn find(trie: &Trie<1>, address: u32) -> u32 {
        trie.find([u64::from(address) << 32])
    }

    #[test]
    fn an_empty_trie_finds_nothing() {
        assert_eq!(Trie::<1>::default().find([7]), 0);
        assert_eq!(Trie::<2>::build(&[]).unwrap().find([7, 7]), 0);
    }

    #[test]
    fn a_single_prefix_is_one_skip() {
        let trie = Trie::build(&[v4(0x0a00_0000, 8, 3)]).unwrap();
        assert_eq!((trie.slots.len(), trie.skips.len()), (0, 1));
        assert_eq!(
            [0x09ff_ffff, 0x0a00_0000, 0x0aff_ffff, 0x0b00_0000].map(|a| find(&trie, a)),
            [0, 3, 3, 0]
        );
    }

    #[test]
    fn nested_prefixes_override_what_contains_them() {
        let nested: Vec<_> = [0, 1, 8, 16, 24, 31, 32]
            .map(|len| v4(0x0a00_0000 & (u64::MAX << (32 - len)) as u32, len, len + 1))
            .into();
        let trie = Trie::build(&nested).unwrap();
        for (address, len) in [
            (0x0a00_0000, 32),
            (0x0a00_0001, 31),
            (0x0a00_0002, 24),
            (0x0a00_0100, 16),
            (0x0a01_0000, 8),
            (0x0b00_0000, 1),
            (0x8000_0000, 0),
        ] {
            assert_eq!(find(&trie, address), len + 1, "{address:08x}");
        }
    }

    #[test]
    fn a_skip_over_both_words_of_an_address_is_two() {
        let address = [0x2001_0db8_0000_0001, 0x0000_0000_0000_0042];
        let trie = Trie::build(&[Prefix {
            address,
            len: 128,
            leaf: 9,
        }])
        .unwrap();
        assert_eq!(trie.skips.len(), 2);
        assert_eq!(trie.find(address), 9);
        assert_eq!(trie.find([address[0], 0x43]), 0);
        assert_eq!(trie.find([address[0] ^ 1, address[1]]), 0);
    }

    /// The table of a leaf: its hosts' networks and its own addresses there, other leaves, links to spines.
    #[test]
    fn a_small_table_has_one_depth() {
        let hosts = (0..4).flat_map(|n| {
            [
                v4(0x0a00_0000 | n << 1, 31, n + 1),
                v4(0x0a00_0000 | n << 1, 32, n + 11),
            ]
        });
        let leaves = (1..4).map(|n| v4(0x0a00_0000 | n << 8, 24, n + 21));
        let links = (0..4).map(|n| v4(0xac10_0000 | n << 1, 31, n + 31));
        let prefixes: Vec<_> = hosts.chain(leaves).chain(links).collect();
        let trie = Trie::build(&prefixes).unwrap();
        // One branch for the first bits, and for each block that they lead to a skip and a branch down to the last bit.
        assert_eq!((trie.slots.len(), trie.skips.len()), (512 + 1_024 + 4, 2));
        assert_eq!(find(&trie, 0x0a00_0001), 1);
        assert_eq!(find(&trie, 0x0a00_0002), 12);
        assert_eq!(find(&trie, 0x0a00_0301), 24);
        assert_eq!(find(&trie, 0xac10_0007), 34);
        assert_eq!(find(&trie, 0x0a00_0400), 0);
    }

    #[test]
    fn a_thousand_networks_of_one_block_are_one_skip_and_one_branch() {
        let networks: Vec<_> = (0..1_000).map(|n| v4(0x0a00_0000 | n << 8, 24, n + 1)).collect();
        let trie = Trie::build(&networks).unwrap();
        assert_eq!((trie.slots.len(), trie.skips.len()), (1_024, 1));
        assert!((0..1_000).all(|n| find(&trie, 0x0a00_0007 | n << 8) == n + 1));
    }
}
