//! The flow table of a group: the member of each flow, and the time of its latest packet.

use super::FlowTableUse;
use xoff_units::Picos;

/// Smallest number of entries of a flow table.
pub(super) const ENTRIES_MIN: u32 = 256;
/// Largest number of entries of a flow table.
pub(super) const ENTRIES_MAX: u32 = 32_768;

/// Number of low bits of an entry that contain the member. Member values from [`LOST`] on have
/// special meanings.
const MEMBER_BITS: u32 = 16;
/// This flag marks a flow whose member is not usable at present. If the member has not recovered when the
/// next packet of the flow arrives, the flow selects a new member.
pub(super) const LOST: u16 = 0x8000;
/// Value for a member that was removed and therefore has no index.
pub(super) const REMOVED: u16 = 0xfffe;
/// Value of an entry that was never used.
pub(super) const EMPTY: u16 = 0xffff;

/// Times are 48-bit numbers in units of 8 ps, so whole nanoseconds are exact. The numbers wrap around after
/// 37 minutes. A flow that was idle for a multiple of 37 minutes looks active and keeps its member. This
/// error is harmless.
const TIME_BITS: u32 = 64 - MEMBER_BITS;
/// Shift from picoseconds to the time unit of an entry.
const TIME_SHIFT: u32 = 3;

/// State of a flow in a flow table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowState {
    /// The table has no information about the flow.
    New,
    /// The flow is on this member and has been idle for this time.
    On(u16, Picos),
    /// The member of the flow is not usable. The index is `None` if the member was removed.
    Lost(Option<u16>),
}

/// A flow table that is indexed by the high bits of the flow hash. If several flows share an entry, they are
/// treated as one flow. The number of entries is a power of two, and each entry has 8 bytes.
#[derive(Debug)]
pub(super) struct DirectMappedFlowTable {
    /// Each entry contains a time and a member.
    entries: Box<[u64]>,
    /// Number of bits by which a hash is shifted right to give the index.
    shift: u32,
    /// Time of the latest look-up.
    latest: Picos,
}

/// Index of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotIndex(usize);

impl DirectMappedFlowTable {
    /// Creates an empty table. `entries` is rounded up to a power of two from 256 to 32768.
    pub(super) fn new(entries: u32) -> DirectMappedFlowTable {
        let entries = entries.clamp(ENTRIES_MIN, ENTRIES_MAX).next_power_of_two();
        DirectMappedFlowTable {
            entries: vec![u64::from(EMPTY); entries as usize].into_boxed_slice(),
            shift: 32 - entries.trailing_zeros(),
            latest: Picos::ZERO,
        }
    }

    /// Returns the entry and the state of the flow with this hash.
    #[inline]
    pub(super) fn look_up(&mut self, hash: u32, now: Picos) -> (SlotIndex, FlowState) {
        self.latest = now;
        let slot = (hash >> self.shift) as usize;
        let entry = self.entries[slot];
        (
            SlotIndex(slot),
            decode_flow_state(entry as u16, || entry_age(entry, now)),
        )
    }

    /// Stores that the flow is on `member`.
    #[inline]
    pub(super) fn store(&mut self, slot: SlotIndex, now: Picos, member: u16) {
        self.entries[slot.0] = (now.0 >> TIME_SHIFT) << MEMBER_BITS | u64::from(member & !LOST);
    }

    /// Applies new member indices. Flows on members for which `usable` is false are marked as lost.
    pub(super) fn renumber_members(&mut self, renumbered: &[Option<u16>], usable: impl Fn(u16) -> bool) {
        for entry in &mut self.entries {
            let old = *entry as u16;
            if old == EMPTY || old == REMOVED {
                continue;
            }
            *entry =
                *entry & !u64::from(u16::MAX) | u64::from(renumber_member_bits(old, renumbered, &usable));
        }
    }

    /// Returns the size of the table and the number of used entries. An entry is in use if its flow was idle
    /// for at most `idle` at the time of the latest look-up.
    pub(super) fn usage(&self, idle: Picos) -> FlowTableUse {
        let awake = |entry: &&u64| **entry as u16 != EMPTY && entry_age(**entry, self.latest) <= idle;
        FlowTableUse {
            flows: self.entries.iter().filter(awake).count() as u32,
            flows_max: self.entries.len() as u32,
            overflow_packets: 0,
        }
    }
}

/// Decodes the member bits of an entry. `age` returns the idle time of the flow.
#[inline]
pub(super) fn decode_flow_state(member: u16, age: impl FnOnce() -> Picos) -> FlowState {
    match member {
        EMPTY => FlowState::New,
        REMOVED => FlowState::Lost(None),
        lost if lost & LOST != 0 => FlowState::Lost(Some(lost & !LOST)),
        _ => FlowState::On(member, age()),
    }
}

/// Returns the member bits of an entry after the members received new indices. `old` is neither
/// [`EMPTY`] nor [`REMOVED`].
pub(super) fn renumber_member_bits(
    old: u16,
    renumbered: &[Option<u16>],
    usable: impl Fn(u16) -> bool,
) -> u16 {
    match renumbered.get(usize::from(old & !LOST)).copied().flatten() {
        None => REMOVED,
        Some(member) if usable(member) => member,
        Some(member) => member | LOST,
    }
}

/// Returns the time since an entry was written.
#[inline]
fn entry_age(entry: u64, now: Picos) -> Picos {
    let units = (now.0 >> TIME_SHIFT).wrapping_sub(entry >> MEMBER_BITS) & (u64::MAX >> (64 - TIME_BITS));
    Picos(units << TIME_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Picos = Picos::from_micros(100);

    #[test]
    fn entries_are_a_power_of_two_within_bounds() {
        let entries = |lookup| DirectMappedFlowTable::new(lookup).usage(Picos::ZERO).flows_max;
        assert_eq!(
            [0, 1, 256, 257, 4_096, 32_768, u32::MAX].map(entries),
            [256, 256, 256, 512, 4_096, 32_768, 32_768]
        );
    }

    #[test]
    fn the_idle_time_of_a_flow_is_exact_to_the_nanosecond() {
        let mut flows = DirectMappedFlowTable::new(256);
        let (slot, known) = flows.look_up(7 << 24, NOW);
        assert_eq!(known, FlowState::New);
        flows.store(slot, NOW, 3);
        let later = NOW + Picos::from_nanos(1);
        assert_eq!(
            flows.look_up(7 << 24, later).1,
            FlowState::On(3, Picos::from_nanos(1))
        );
        assert_eq!(flows.look_up(8 << 24, later).1, FlowState::New);
        assert_eq!(flows.usage(Picos::ZERO).flows, 0);
        assert_eq!(flows.usage(Picos::from_nanos(1)).flows, 1);
    }

    #[test]
    fn flows_share_an_entry_by_the_high_bits_of_their_hashes() {
        let mut flows = DirectMappedFlowTable::new(256);
        let (slot, _) = flows.look_up(7 << 24, NOW);
        flows.store(slot, NOW, 3);
        assert_eq!(
            flows.look_up(7 << 24 | 0xff_ffff, NOW).1,
            FlowState::On(3, Picos::ZERO)
        );
    }

    #[test]
    fn flows_follow_their_members_to_new_indices() {
        let mut flows = DirectMappedFlowTable::new(256);
        for member in 0..3 {
            let (slot, _) = flows.look_up(u32::from(member) << 24, NOW);
            flows.store(slot, NOW, member);
        }
        // Member 0 was removed, member 1 is now 0, and member 2 is now 1 and not usable.
        flows.renumber_members(&[None, Some(0), Some(1)], |member| member != 1);
        let known =
            |flows: &mut DirectMappedFlowTable| [0, 1, 2].map(|flow| flows.look_up(flow << 24, NOW).1);
        let expected = [
            FlowState::Lost(None),
            FlowState::On(0, Picos::ZERO),
            FlowState::Lost(Some(1)),
        ];
        assert_eq!(known(&mut flows), expected);
        // The flow sent nothing before the member recovered, so the loss has no effect.
        flows.renumber_members(&[Some(0), Some(1)], |_| true);
        assert_eq!(known(&mut flows)[2], FlowState::On(1, Picos::ZERO));
    }

    #[test]
    fn idle_times_are_right_when_times_wrap_around() {
        let mut flows = DirectMappedFlowTable::new(256);
        let late = Picos(u64::MAX - 5_000);
        let (slot, _) = flows.look_up(0, late);
        flows.store(slot, late, 1);
        let FlowState::On(1, age) = flows.look_up(0, late + Picos(4_000)).1 else {
            panic!("it is known");
        };
        assert_eq!(age, Picos(4_000));
    }
}
