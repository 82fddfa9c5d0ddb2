//! Longest-prefix match: a multibit trie with variable widths and skips.
//!
//! A look-up follows *slots* of 32 bits. A slot is one of three kinds:
//!
//! - A *leaf* contains the result.
//! - A *branch* uses the next 1 to 16 bits of the address. These bits select one of 2^width
//!   consecutive slots.
//! - A *skip* compares the next bits of the address with a given value. If they differ, the best shorter
//!   match is the result.
//!
//! Leaves are pushed down: each slot contains the best match for its whole address range, so a look-up never
//! returns to an earlier slot. A slot that leads to a branch also contains the width of the branch. A branch
//! therefore costs one memory access that depends on the previous access.
//!
//! The width of a branch depends on the number of prefixes below it. A branch has at most 4 slots per prefix,
//! 64 in the first branch, and never more than 2^16 slots. For small tables, the limit is higher: all
//! branches of one depth together may always have 4096 slots. Most look-ups in a small table then take the
//! same number of steps, so the branch prediction of the processor is correct. A table of 1000 prefixes of 24
//! bits needs two or three memory accesses for a look-up, and at most 256 KiB. The memory of any table is
//! roughly proportional to the number of its prefixes.
//!
//! LC-tries (Nilsson and Karlsson 1999) select the width of a branch in a similar way. A poptrie (Asai and
//! Ohara 2015) counts set bits. On baseline x86-64, each count would need a dozen instructions.

use std::fmt;

/// Flag of a slot that leads to a branch or a skip.
const NODE_FLAG: u32 = 1 << 31;
/// Flag of a slot that is a skip and not a branch.
const SKIP_FLAG: u32 = 1 << 30;
/// Position of the branch width, minus one, in a slot.
const WIDTH_SHIFT: u32 = 26;
/// Largest width of a branch in bits.
const WIDTH_MAX: u32 = 16;
/// Mask of the index of a branch's first slot.
const BASE_MASK: u32 = (1 << WIDTH_SHIFT) - 1;

/// Largest number of slots of a trie.
const SLOTS_MAX: usize = BASE_MASK as usize + 1;
/// Largest leaf that [`LpmTrie::find`] can return.
pub(super) const LEAF_MAX: u32 = SKIP_FLAG - 1;
/// Largest number of slots per prefix in the first branch.
const FIRST_BRANCH_SLOTS_PER_PREFIX: usize = 64;
/// Largest number of slots per prefix in the other branches.
const SLOTS_PER_PREFIX: usize = 4;
/// Number of slots that all branches of one depth together may always have.
const MIN_SLOTS_PER_DEPTH: usize = 4_096;

/// A prefix to insert. The address consists of 64-bit words in network order. Its host bits are zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct TriePrefix<const WORDS: usize> {
    pub(super) address: [u64; WORDS],
    pub(super) len: u32,
    pub(super) leaf: u32,
}

/// Error: the trie would need more than [`SLOTS_MAX`] slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrieFull;

/// A skip: address bits that all prefixes below this slot have in common, within one word of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SkipNode {
    /// The common bits: the word of the address without its last `shift` bits.
    bits: u64,
    next: u32,
    /// Result for an address with other bits.
    default_leaf: u32,
    shift: u8,
    /// Number of address bits that are known after the skip.
    depth: u8,
}

/// A trie for addresses of `WORDS` x 64 bits. Shorter addresses are left-aligned. Leaf 0 means that no
/// prefix matches.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct LpmTrie<const WORDS: usize> {
    root: u32,
    slots: Vec<u32>,
    skips: Vec<SkipNode>,
    /// Largest number of slots per prefix in all branches except the first branch.
    slots_per_prefix: usize,
}

impl<const WORDS: usize> LpmTrie<WORDS> {
    /// Builds a trie. `prefixes` is sorted by address, then length, without duplicates. Leaves are in the
    /// range 1 to [`LEAF_MAX`].
    pub(super) fn build(prefixes: &[TriePrefix<WORDS>]) -> Result<LpmTrie<WORDS>, TrieFull> {
        let mut trie = LpmTrie {
            slots_per_prefix: SLOTS_PER_PREFIX.max(MIN_SLOTS_PER_DEPTH / prefixes.len().max(1)),
            ..LpmTrie::default()
        };
        trie.root = trie.build_slot(prefixes, 0, 0, FIRST_BRANCH_SLOTS_PER_PREFIX)?;
        trie.slots.shrink_to_fit();
        trie.skips.shrink_to_fit();
        Ok(trie)
    }

    /// Returns the leaf of the longest prefix that contains `address`, or 0.
    #[inline(always)]
    pub(super) fn find(&self, address: [u64; WORDS]) -> u32 {
        let mut slot = self.root;
        let mut depth = 0;
        while slot & NODE_FLAG != 0 {
            if slot & SKIP_FLAG == 0 {
                let width = (slot >> WIDTH_SHIFT & 15) + 1;
                let word = address[(depth / 64) as usize % WORDS];
                let index = (word << (depth % 64)) >> (64 - width);
                slot = self.slots[(slot & BASE_MASK) as usize + index as usize];
                depth += width;
            } else {
                let skip = &self.skips[(slot & LEAF_MAX) as usize];
                let word = address[(depth / 64) as usize % WORDS];
                if word >> skip.shift != skip.bits {
                    return skip.default_leaf;
                }
                slot = skip.next;
                depth = u32::from(skip.depth);
            }
        }
        slot
    }

    /// Returns the memory of the trie in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&self.slots[..]) + size_of_val(&self.skips[..])
    }

    /// Builds the slot for all addresses that start with the same `depth` bits. `prefixes` contains all
    /// prefixes that start with these bits and are at least `depth` bits long. `default_leaf` is the leaf of
    /// the longest prefix that is shorter.
    fn build_slot(
        &mut self,
        mut prefixes: &[TriePrefix<WORDS>],
        depth: u32,
        mut default_leaf: u32,
        slots_per_prefix: usize,
    ) -> Result<u32, TrieFull> {
        if let Some((first, rest)) = prefixes.split_first()
            && first.len == depth
        {
            default_leaf = first.leaf;
            prefixes = rest;
        }
        let (Some(first), Some(last)) = (prefixes.first(), prefixes.last()) else {
            return Ok(default_leaf);
        };
        // If a prefix is shorter than the common bits, it is the first prefix, because its host bits
        // are zero.
        let word_end = (depth / 64 + 1) * 64;
        let common = common_prefix_bits(&first.address, &last.address)
            .min(first.len)
            .min(word_end);
        if common > depth {
            return self.build_skip(prefixes, depth, common, default_leaf, slots_per_prefix);
        }
        let longest = prefixes.iter().map(|prefix| prefix.len).max().unwrap_or(depth);
        let width = (prefixes.len() * slots_per_prefix)
            .ilog2()
            .min(WIDTH_MAX)
            .min(longest - depth)
            .min(word_end - depth);
        self.build_branch(prefixes, depth, width, default_leaf)
    }

    /// Builds a skip over the common bits.
    fn build_skip(
        &mut self,
        prefixes: &[TriePrefix<WORDS>],
        depth: u32,
        end: u32,
        default_leaf: u32,
        slots_per_prefix: usize,
    ) -> Result<u32, TrieFull> {
        let shift = (depth / 64 + 1) * 64 - end;
        let index = self.skips.len();
        self.skips.push(SkipNode {
            bits: prefixes[0].address[(depth / 64) as usize] >> shift,
            next: 0,
            default_leaf,
            shift: shift as u8,
            depth: end as u8,
        });
        self.skips[index].next = self.build_slot(prefixes, end, default_leaf, slots_per_prefix)?;
        if index > LEAF_MAX as usize {
            return Err(TrieFull);
        }
        Ok(NODE_FLAG | SKIP_FLAG | index as u32)
    }

    /// Builds a branch and the slots below it.
    fn build_branch(
        &mut self,
        mut prefixes: &[TriePrefix<WORDS>],
        depth: u32,
        width: u32,
        default_leaf: u32,
    ) -> Result<u32, TrieFull> {
        let base = self.slots.len();
        let slots = 1_usize << width;
        if base + slots > SLOTS_MAX {
            return Err(TrieFull);
        }
        self.slots.resize(base + slots, default_leaf);
        let end = depth + width;
        let slot_of = |prefix: &TriePrefix<WORDS>| {
            let word = prefix.address[(depth / 64) as usize];
            base + ((word << (depth % 64)) >> (64 - width)) as usize
        };
        // A prefix precedes the prefixes that it contains, so longer prefixes overwrite shorter prefixes.
        while let Some((first, rest)) = prefixes.split_first() {
            let slot = slot_of(first);
            if first.len <= end {
                self.slots[slot..slot + (1 << (end - first.len))].fill(first.leaf);
                prefixes = rest;
            } else {
                let below = prefixes.partition_point(|prefix| slot_of(prefix) == slot);
                let (inside, after) = prefixes.split_at(below);
                self.slots[slot] = self.build_slot(inside, end, self.slots[slot], self.slots_per_prefix)?;
                prefixes = after;
            }
        }
        Ok(NODE_FLAG | (width - 1) << WIDTH_SHIFT | base as u32)
    }
}

impl<const WORDS: usize> fmt::Debug for LpmTrie<WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LpmTrie")
            .field("slots", &self.slots.len())
            .field("skips", &self.skips.len())
            .finish_non_exhaustive()
    }
}

/// Returns the number of equal leading bits of two addresses.
fn common_prefix_bits<const WORDS: usize>(a: &[u64; WORDS], b: &[u64; WORDS]) -> u32 {
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

    fn ipv4_prefix(address: u32, len: u32, leaf: u32) -> TriePrefix<1> {
        TriePrefix {
            address: [u64::from(address) << 32],
            len,
            leaf,
        }
    }

    fn find_ipv4(trie: &LpmTrie<1>, address: u32) -> u32 {
        trie.find([u64::from(address) << 32])
    }

    #[test]
    fn an_empty_trie_finds_nothing() {
        assert_eq!(LpmTrie::<1>::default().find([7]), 0);
        assert_eq!(LpmTrie::<2>::build(&[]).unwrap().find([7, 7]), 0);
    }

    #[test]
    fn a_single_prefix_is_one_skip() {
        let trie = LpmTrie::build(&[ipv4_prefix(0x0a00_0000, 8, 3)]).unwrap();
        assert_eq!((trie.slots.len(), trie.skips.len()), (0, 1));
        assert_eq!(
            [0x09ff_ffff, 0x0a00_0000, 0x0aff_ffff, 0x0b00_0000].map(|a| find_ipv4(&trie, a)),
            [0, 3, 3, 0]
        );
    }

    #[test]
    fn longer_prefixes_override_the_prefixes_that_contain_them() {
        let nested: Vec<_> = [0, 1, 8, 16, 24, 31, 32]
            .map(|len| ipv4_prefix(0x0a00_0000 & (u64::MAX << (32 - len)) as u32, len, len + 1))
            .into();
        let trie = LpmTrie::build(&nested).unwrap();
        for (address, len) in [
            (0x0a00_0000, 32),
            (0x0a00_0001, 31),
            (0x0a00_0002, 24),
            (0x0a00_0100, 16),
            (0x0a01_0000, 8),
            (0x0b00_0000, 1),
            (0x8000_0000, 0),
        ] {
            assert_eq!(find_ipv4(&trie, address), len + 1, "{address:08x}");
        }
    }

    #[test]
    fn a_skip_over_two_words_is_two_skips() {
        let address = [0x2001_0db8_0000_0001, 0x0000_0000_0000_0042];
        let trie = LpmTrie::build(&[TriePrefix {
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

    /// Builds the routing table of a leaf switch. The table contains routes to the host networks, to the
    /// switch's own addresses in these networks, to all remaining leaves, and to the links to the spines.
    #[test]
    fn a_small_table_needs_two_skips_and_three_branches() {
        let hosts = (0..4).flat_map(|n| {
            [
                ipv4_prefix(0x0a00_0000 | n << 1, 31, n + 1),
                ipv4_prefix(0x0a00_0000 | n << 1, 32, n + 11),
            ]
        });
        let leaves = (1..4).map(|n| ipv4_prefix(0x0a00_0000 | n << 8, 24, n + 21));
        let links = (0..4).map(|n| ipv4_prefix(0xac10_0000 | n << 1, 31, n + 31));
        let prefixes: Vec<_> = hosts.chain(leaves).chain(links).collect();
        let trie = LpmTrie::build(&prefixes).unwrap();
        // One branch for the first bits. Each of its two blocks has a skip and a branch to the last bit.
        assert_eq!((trie.slots.len(), trie.skips.len()), (512 + 1_024 + 4, 2));
        assert_eq!(find_ipv4(&trie, 0x0a00_0001), 1);
        assert_eq!(find_ipv4(&trie, 0x0a00_0002), 12);
        assert_eq!(find_ipv4(&trie, 0x0a00_0301), 24);
        assert_eq!(find_ipv4(&trie, 0xac10_0007), 34);
        assert_eq!(find_ipv4(&trie, 0x0a00_0400), 0);
    }

    #[test]
    fn a_thousand_adjacent_networks_are_one_skip_and_one_branch() {
        let networks: Vec<_> = (0..1_000)
            .map(|n| ipv4_prefix(0x0a00_0000 | n << 8, 24, n + 1))
            .collect();
        let trie = LpmTrie::build(&networks).unwrap();
        assert_eq!((trie.slots.len(), trie.skips.len()), (1_024, 1));
        assert!((0..1_000).all(|n| find_ipv4(&trie, 0x0a00_0007 | n << 8) == n + 1));
    }
}
