//! DRILL: compares a few random members with the members that were best for the previous packet, and selects
//! the member with the shortest wait.

use crate::balance::load::PortLoads;
use crate::balance::member_scores::MemberScores;
use crate::balance::random::RandomStream;
use crate::balance::{MemberChoice, Packet, PathChoice, Paths};
use crate::egress::FrameTable;
use xoff_units::Picos;

/// Largest number of random members for one packet.
const SAMPLES_MAX: usize = 32;

/// DRILL scheme. The load of a member is its wait ([`Paths::wait_ps`]): the queue length relative to the link
/// speed, including the frame on the link. Samples are drawn in proportion to the weights. If all weights are
/// equal, the samples are distinct.
#[derive(Debug)]
pub(crate) struct DrillScheme {
    samples: usize,
    memory: usize,
    /// Members that were best for the previous packet, best member first.
    remembered: Vec<u16>,
    /// The compared members with their costs. The vector has space for all of them from the start.
    candidates: Vec<(u64, u16)>,
}

impl DrillScheme {
    /// Creates the scheme. A number of samples below 1 is treated as 1.
    pub(super) fn new(samples: u8, memory: u8) -> DrillScheme {
        let (samples, memory) = (usize::from(samples.max(1)), usize::from(memory));
        DrillScheme {
            samples,
            memory,
            remembered: Vec::with_capacity(memory),
            candidates: Vec::with_capacity(samples + memory),
        }
    }

    /// Calls `take` for each randomly sampled member. If all members have the same probability, no member is
    /// sampled twice.
    #[inline]
    fn visit_sampled_members(samples: usize, paths: &mut Paths<'_>, mut visit: impl FnMut(u16, &Paths<'_>)) {
        let members = paths.usable().len();
        if samples >= members {
            for index in 0..members {
                visit(paths.usable()[index], paths);
            }
            return;
        }
        if !paths.has_equal_weights() {
            for _ in 0..samples {
                let member = paths.random_member();
                visit(member, paths);
            }
            return;
        }
        let mut drawn = [0usize; SAMPLES_MAX];
        for count in 0..samples.min(SAMPLES_MAX) {
            // An index among the remaining members. The earlier samples, in order, shift it upwards. The loop
            // has no branch that depends on the random numbers.
            let mut index = paths.random().next_below((members - count) as u32) as usize;
            for &before in &drawn[..count] {
                index += usize::from(index >= before);
            }
            drawn[count] = index;
            for place in (0..count).rev() {
                let (low, high) = (drawn[place], drawn[place + 1]);
                (drawn[place], drawn[place + 1]) = (low.min(high), low.max(high));
            }
            visit(paths.usable()[index], paths);
        }
    }

    /// Returns true for the configuration of the DRILL paper: two samples and one remembered member.
    #[inline]
    pub(crate) fn is_drill_2_1(&self) -> bool {
        self.samples == 2 && self.memory == 1
    }

    /// Fast version of [`PathChoice::choose`] for the configuration of the DRILL paper. All members must be
    /// usable and have one port. With the same random numbers, this function and [`PathChoice::choose`]
    /// select the same member. Returns `None` if the group has fewer than three members.
    #[inline]
    pub(crate) fn choose_drill_2_1(
        &mut self,
        now: Picos,
        scores: &MemberScores,
        loads: &PortLoads,
        frames: &FrameTable,
        random: &mut RandomStream,
    ) -> Option<u16> {
        let members = scores.entries.len() as u32;
        if members < 3 {
            return None;
        }
        let first = random.next_below(members);
        let second = random.next_below(members - 1);
        let second = second + u32::from(second >= first);
        let ranked = |member: u16, draw: u64| {
            scores.uniform_wait_ps(member, now, loads, frames) << 24 | draw << 16 | u64::from(member)
        };
        let drawn = ranked(first as u16, 0).min(ranked(second as u16, 1));
        let best = match self.remembered.first() {
            Some(remembered) => drawn.min(ranked(*remembered, 2)) as u16,
            None => drawn as u16,
        };
        self.remembered.clear();
        self.remembered.push(best);
        Some(best)
    }

    /// Selects a member if at most one member is remembered. No sorting is necessary.
    #[inline]
    fn choose_with_short_memory(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> u16 {
        // The cost, the number of the sample and the member share one value, so the minimum needs no branch.
        // The first sample wins among equal costs. This sample is random.
        let (mut best, mut draw) = (u64::MAX, 0);
        let mut consider = |member: u16, paths: &Paths<'_>| {
            best = best.min(packet_cost(packet, member, paths) << 24 | draw << 16 | u64::from(member));
            draw = (draw + 1).min(255);
        };
        DrillScheme::visit_sampled_members(self.samples, paths, &mut consider);
        if let Some(remembered) = self.remembered.first() {
            consider(*remembered, paths);
        }
        let best = best as u16;
        if self.memory > 0 {
            self.remembered.clear();
            self.remembered.push(best);
        }
        best
    }

    fn choose_with_long_memory(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> u16 {
        let candidates = &mut self.candidates;
        candidates.clear();
        let mut add = |member: u16, paths: &Paths<'_>| {
            if candidates.iter().all(|&(_, other)| other != member) {
                candidates.push((packet_cost(packet, member, paths), member));
            }
        };
        DrillScheme::visit_sampled_members(self.samples, paths, &mut add);
        for member in &self.remembered {
            add(*member, paths);
        }
        self.remembered.clear();
        for count in 0..self.memory.min(candidates.len()) {
            let rest = &mut candidates[count..];
            let least = (0..rest.len()).min_by_key(|&index| rest[index].0).unwrap_or(0);
            rest[..=least].rotate_right(1);
            self.remembered.push(rest[0].1);
        }
        candidates[0].1
    }
}

/// Returns the wait of a member as a number of 39 bits. Paused members have the highest costs.
#[inline]
fn packet_cost(packet: &Packet<'_>, member: u16, paths: &Paths<'_>) -> u64 {
    let held = u64::from(paths.is_paused(packet, member)) << 39;
    held + paths.scaled_wait_ps(packet, member).min((1 << 39) - 1)
}

impl PathChoice for DrillScheme {
    #[inline]
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> MemberChoice {
        MemberChoice::unchanged(match self.memory {
            0 | 1 => self.choose_with_short_memory(packet, paths),
            _ => self.choose_with_long_memory(packet, paths),
        })
    }

    fn members_changed(&mut self, _: &[Option<u16>], paths: &mut Paths<'_>) {
        self.remembered.clear();
        self.candidates.reserve(paths.usable().len());
    }
}
