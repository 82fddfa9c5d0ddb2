//! DRILL: the least loaded of a few members drawn at random and of those that were the least loaded the last time.

use crate::balance::board::Board;
use crate::balance::load::Loads;
use crate::balance::random::Random;
use crate::balance::{Choice, Packet, PathChoice, Paths};
use crate::egress::FrameTable;
use xoff_units::Picos;

/// Most members that are drawn for a packet; more are as good as all.
const SAMPLES_MAX: usize = 32;

/// What counts is the wait ([`Paths::wait_ps`]): queue lengths, relative to the links' speed, with what is on the link. Members are drawn in proportion to their
/// weights; where these are equal, different ones.
#[derive(Debug)]
pub(crate) struct Drill {
    samples: usize,
    memory: usize,
    /// The best of the last time, the best first.
    remembered: Vec<u16>,
    /// Members that were compared, with their costs: room for all is there from the start.
    candidates: Vec<(u64, u16)>,
}

impl Drill {
    /// At least one is drawn.
    pub(super) fn new(samples: u8, memory: u8) -> Drill {
        let (samples, memory) = (usize::from(samples.max(1)), usize::from(memory));
        Drill {
            samples,
            memory,
            remembered: Vec::with_capacity(memory),
            candidates: Vec::with_capacity(samples + memory),
        }
    }

    /// Hands members that are drawn to `take`: without putting them back where all have the same chance.
    #[inline]
    fn draw(samples: usize, paths: &mut Paths<'_>, mut take: impl FnMut(u16, &Paths<'_>)) {
        let members = paths.usable().len();
        if samples >= members {
            for index in 0..members {
                take(paths.usable()[index], paths);
            }
            return;
        }
        if !paths.is_even() {
            for _ in 0..samples {
                let member = paths.at_random();
                take(member, paths);
            }
            return;
        }
        let mut drawn = [0usize; SAMPLES_MAX];
        for count in 0..samples.min(SAMPLES_MAX) {
            // A place among those that are left: those drawn, in order, push it on. Draws cannot be foreseen, so no branch hangs on them.
            let mut index = paths.random().below((members - count) as u32) as usize;
            for &before in &drawn[..count] {
                index += usize::from(index >= before);
            }
            drawn[count] = index;
            for place in (0..count).rev() {
                let (low, high) = (drawn[place], drawn[place + 1]);
                (drawn[place], drawn[place + 1]) = (low.min(high), low.max(high));
            }
            take(paths.usable()[index], paths);
        }
    }

    /// Whether it is as DRILL is meant: two are drawn, and one is remembered.
    #[inline]
    pub(crate) fn is_simple(&self) -> bool {
        self.samples == 2 && self.memory == 1
    }

    /// The choice where [`Drill::is_simple`], all members may be chosen, and the wait of each is that of one port: that of [`PathChoice::choose`] by the
    /// same random numbers. `None`: there are not three.
    #[inline]
    pub(crate) fn choose_of_three(
        &mut self,
        now: Picos,
        board: &Board,
        loads: &Loads,
        frames: &FrameTable,
        random: &mut Random,
    ) -> Option<u16> {
        let members = board.standing.len() as u32;
        if members < 3 {
            return None;
        }
        let first = random.below(members);
        let second = random.below(members - 1);
        let second = second + u32::from(second >= first);
        let ranked = |member: u16, draw: u64| {
            board.plain_wait_ps(member, now, loads, frames) << 24 | draw << 16 | u64::from(member)
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

    /// With one remembered, or none: nothing is to be put in order.
    #[inline]
    fn choose_one(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> u16 {
        // With the number of its draw and its own: the least is found without a branch, and of several that are equal it is the one that
        // was drawn first, which is a random one.
        let (mut best, mut draw) = (u64::MAX, 0);
        let mut consider = |member: u16, paths: &Paths<'_>| {
            best = best.min(cost(packet, member, paths) << 24 | draw << 16 | u64::from(member));
            draw = (draw + 1).min(255);
        };
        Drill::draw(self.samples, paths, &mut consider);
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

    fn choose_of_many(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> u16 {
        let candidates = &mut self.candidates;
        candidates.clear();
        let mut add = |member: u16, paths: &Paths<'_>| {
            if candidates.iter().all(|&(_, other)| other != member) {
                candidates.push((cost(packet, member, paths), member));
            }
        };
        Drill::draw(self.samples, paths, &mut add);
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

/// A member's wait, in 39 bits; those whose link is held come last.
#[inline]
fn cost(packet: &Packet<'_>, member: u16, paths: &Paths<'_>) -> u64 {
    let held = u64::from(paths.is_held(packet, member)) << 39;
    held + paths.stretched_wait_ps(packet, member).min((1 << 39) - 1)
}

impl PathChoice for Drill {
    #[inline]
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> Choice {
        Choice::stay(match self.memory {
            0 | 1 => self.choose_one(packet, paths),
            _ => self.choose_of_many(packet, paths),
        })
    }

    fn members_changed(&mut self, _: &[Option<u16>], paths: &mut Paths<'_>) {
        self.remembered.clear();
        self.candidates.reserve(paths.usable().len());
    }
}
