//! The flow table of a group: when each flow was last seen, and on which member.

use super::TableUse;
use xoff_units::Picos;

/// Least and most entries of a table.
pub(super) const ENTRIES_MIN: u32 = 256;
pub(super) const ENTRIES_MAX: u32 = 32_768;

/// A member's place in an entry. Numbers from [`LOST`] on have a meaning of their own.
const MEMBER_BITS: u32 = 16;
/// Set beside a member that may not be used now: its flow chooses anew with its next packet, if it is not back by then.
pub(super) const LOST: u16 = 0x8000;
/// The member is lost and has no number any more.
pub(super) const GONE: u16 = 0xfffe;
/// No flow was ever here.
pub(super) const EMPTY: u16 = 0xffff;

/// Times are kept in units of 8 ps, whose 48 bits last for 37 minutes: whole nanoseconds are exact. A flow that was
/// silent for just as long, up to its idle time, counts as not silent: it keeps its member, which does no harm.
const TIME_BITS: u32 = 64 - MEMBER_BITS;
const TIME_SHIFT: u32 = 3;

/// What an entry says of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing.
    New,
    /// It is on this member, and was silent for so long.
    On(u16, Picos),
    /// It was on this member, if that is still there, which may not be used any more.
    Lost(Option<u16>),
}

/// A table indexed by the hashes of flows: those that share an entry are one flow to it. A power of two of entries, 8 octets each.
#[derive(Debug)]
pub(super) struct FlowSet {
    /// Time and member of each.
    entries: Box<[u64]>,
    /// Hashes are shifted by this: their high bits are the index.
    shift: u32,
    /// When a packet was last looked up.
    latest: Picos,
}

/// An index into the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot(usize);

impl FlowSet {
    /// Empty, with so many entries, brought to a power of two between 256 and 32 768.
    pub(super) fn new(entries: u32) -> FlowSet {
        let entries = entries.clamp(ENTRIES_MIN, ENTRIES_MAX).next_power_of_two();
        FlowSet {
            entries: vec![u64::from(EMPTY); entries as usize].into_boxed_slice(),
            shift: 32 - entries.trailing_zeros(),
            latest: Picos::ZERO,
        }
    }

    /// What is known of the flow with a hash.
    #[inline]
    pub(super) fn look(&mut self, hash: u32, now: Picos) -> (Slot, Known) {
        self.latest = now;
        let slot = (hash >> self.shift) as usize;
        let entry = self.entries[slot];
        (Slot(slot), known(entry as u16, || age(entry, now)))
    }

    /// The flow is on `member` now.
    #[inline]
    pub(super) fn enter(&mut self, slot: Slot, now: Picos, member: u16) {
        self.entries[slot.0] = (now.0 >> TIME_SHIFT) << MEMBER_BITS | u64::from(member & !LOST);
    }

    /// Follows new numbers of members; flows on those that are not `usable` have lost them.
    pub(super) fn renumber(&mut self, renumbered: &[Option<u16>], usable: impl Fn(u16) -> bool) {
        for entry in &mut self.entries {
            let old = *entry as u16;
            if old == EMPTY || old == GONE {
                continue;
            }
            *entry = *entry & !u64::from(u16::MAX) | u64::from(renumber(old, renumbered, &usable));
        }
    }

    /// Flows that were not silent for `idle` when the last packet was looked up.
    pub(super) fn in_use(&self, idle: Picos) -> TableUse {
        let awake = |entry: &&u64| **entry as u16 != EMPTY && age(**entry, self.latest) <= idle;
        TableUse {
            flows: self.entries.iter().filter(awake).count() as u32,
            flows_max: self.entries.len() as u32,
            overflow_packets: 0,
        }
    }
}

/// What the member's part of an entry says.
#[inline]
pub(super) fn known(member: u16, age: impl FnOnce() -> Picos) -> Known {
    match member {
        EMPTY => Known::New,
        GONE => Known::Lost(None),
        lost if lost & LOST != 0 => Known::Lost(Some(lost & !LOST)),
        _ => Known::On(member, age()),
    }
}

/// The same part, neither empty nor gone, when members have new numbers.
pub(super) fn renumber(old: u16, renumbered: &[Option<u16>], usable: impl Fn(u16) -> bool) -> u16 {
    match renumbered.get(usize::from(old & !LOST)).copied().flatten() {
        None => GONE,
        Some(member) if usable(member) => member,
        Some(member) => member | LOST,
    }
}

/// How long ago an entry was written.
#[inline]
fn age(entry: u64, now: Picos) -> Picos {
    let units = (now.0 >> TIME_SHIFT).wrapping_sub(entry >> MEMBER_BITS) & (u64::MAX >> (64 - TIME_BITS));
    Picos(units << TIME_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Picos = Picos::from_micros(100);

    #[test]
    fn entries_are_a_power_of_two_within_bounds() {
        let entries = |asked| FlowSet::new(asked).in_use(Picos::ZERO).flows_max;
        assert_eq!(
            [0, 1, 256, 257, 4_096, 32_768, u32::MAX].map(entries),
            [256, 256, 256, 512, 4_096, 32_768, 32_768]
        );
    }

    #[test]
    fn a_flow_is_remembered_with_its_age_to_the_nanosecond() {
        let mut flows = FlowSet::new(256);
        let (slot, known) = flows.look(7 << 24, NOW);
        assert_eq!(known, Known::New);
        flows.enter(slot, NOW, 3);
        let later = NOW + Picos::from_nanos(1);
        assert_eq!(flows.look(7 << 24, later).1, Known::On(3, Picos::from_nanos(1)));
        assert_eq!(flows.look(8 << 24, later).1, Known::New);
        assert_eq!(flows.in_use(Picos::ZERO).flows, 0);
        assert_eq!(flows.in_use(Picos::from_nanos(1)).flows, 1);
    }

    #[test]
    fn flows_share_an_entry_by_the_high_bits_of_their_hashes() {
        let mut flows = FlowSet::new(256);
        let (slot, _) = flows.look(7 << 24, NOW);
        flows.enter(slot, NOW, 3);
        assert_eq!(flows.look(7 << 24 | 0xff_ffff, NOW).1, Known::On(3, Picos::ZERO));
    }

    #[test]
    fn members_get_new_numbers_and_their_flows_follow() {
        let mut flows = FlowSet::new(256);
        for member in 0..3 {
            let (slot, _) = flows.look(u32::from(member) << 24, NOW);
            flows.enter(slot, NOW, member);
        }
        // Member 0 is not there any more, 1 is now 0, and 2 is now 1 but may not be used.
        flows.renumber(&[None, Some(0), Some(1)], |member| member != 1);
        let known = |flows: &mut FlowSet| [0, 1, 2].map(|flow| flows.look(flow << 24, NOW).1);
        let expected = [Known::Lost(None), Known::On(0, Picos::ZERO), Known::Lost(Some(1))];
        assert_eq!(known(&mut flows), expected);
        // Nobody has sent before it is back: nobody notices.
        flows.renumber(&[Some(0), Some(1)], |_| true);
        assert_eq!(known(&mut flows)[2], Known::On(1, Picos::ZERO));
    }

    #[test]
    fn times_go_round() {
        let mut flows = FlowSet::new(256);
        let late = Picos(u64::MAX - 5_000);
        let (slot, _) = flows.look(0, late);
        flows.enter(slot, late, 1);
        let Known::On(1, age) = flows.look(0, late + Picos(4_000)).1 else {
            panic!("it is known");
        };
        assert_eq!(age, Picos(4_000));
    }
}
