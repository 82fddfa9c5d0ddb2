//! DRILL: the least loaded of a few members drawn at random and of those that were the least loaded the last time.

use crate::balance::{Choice, Packet, PathChoice, Paths};

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
    /// Members to be compared, with their waits: room for all is there from the start.
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

    #[inline]
    fn add(&mut self, packet: &Packet<'_>, member: u16, paths: &mut Paths<'_>) {
        if self.candidates.iter().all(|&(_, other)| other != member) {
            let held = u64::from(paths.is_held(packet, member)) << 62;
            let wait = paths.stretched_wait_ps(packet, member);
            self.candidates.push((held + wait, member));
        }
    }

    /// Draws members: without putting them back where all have the same chance.
    #[inline]
    fn draw(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) {
        let members = paths.usable().len();
        if self.samples >= members {
            for index in 0..members {
                let member = paths.usable()[index];
                self.add(packet, member, paths);
            }
            return;
        }
        if !paths.is_even() {
            for _ in 0..self.samples {
                let member = paths.at_random();
                self.add(packet, member, paths);
            }
            return;
        }
        let mut drawn = [0usize; SAMPLES_MAX];
        for count in 0..self.samples.min(SAMPLES_MAX) {
            // A place among those that are left: those drawn, in order, push it on.
            let mut index = paths.random().below((members - count) as u32) as usize;
            let before = drawn[..count].iter().take_while(|&&other| {
                let pushed = index >= other;
                index += usize::from(pushed);
                pushed
            });
            let place = before.count();
            drawn.copy_within(place..count, place + 1);
            drawn[place] = index;
            let member = paths.usable()[index];
            self.add(packet, member, paths);
        }
    }
}

impl PathChoice for Drill {
    #[inline]
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> Choice {
        self.candidates.clear();
        self.draw(packet, paths);
        for index in 0..self.remembered.len() {
            self.add(packet, self.remembered[index], paths);
        }
        self.remembered.clear();
        for count in 0..self.memory.max(1).min(self.candidates.len()) {
            // Of several that are equal the one that was drawn first, which is a random one.
            let rest = &mut self.candidates[count..];
            let least = (0..rest.len()).min_by_key(|&index| rest[index].0).unwrap_or(0);
            rest[..=least].rotate_right(1);
            if count < self.memory {
                self.remembered.push(rest[0].1);
            }
        }
        let best = self.candidates[0].1;
        Choice::stay(best)
    }

    fn members_changed(&mut self, _: &[Option<u16>], paths: &mut Paths<'_>) {
        self.remembered.clear();
        self.candidates.reserve(paths.usable().len());
    }
}
