//! The phases that a configuration has to pass: what decides how much headroom is needed, at its worst and at random.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use xoff_units::Picos;

use super::pattern::{Pattern, Traffic};
use super::rig::Phase;
use super::subject::Subject;

/// Most alignments of the frame that brings XOFF to the limit; frames of more cells are looked at in as many steps.
const ALIGNMENTS_MAX: u32 = 40;

/// Senders begin so much later than the frame in the way of XOFF takes.
const LEAD: Picos = Picos::from_micros(1);

/// All phases of these patterns, the frame in the way of XOFF not placed yet.
///
/// - Alignments: how many cells of the frame that brings XOFF are headroom already hangs on what others hold of the pool: each number of
///   cells from 0 to a frame's. All senders begin at once, or evenly apart within a frame; the frame in the way has just begun.
/// - Seeds: senders begin anywhere within two frames of each other, others hold any number of cells up to a frame's, and the frame in
///   the way has just begun, or is somewhere on its way out.
pub fn phases(subject: &Subject, traffic: &Traffic, patterns: &[Pattern], seeds: &[u64]) -> Vec<Phase> {
    let cells = traffic.frame_bytes.div_ceil(subject.config.cell_bytes);
    let link = subject.link();
    let frame = link.duration(link.wire_len(traffic.frame_bytes));
    let step = cells.div_ceil(ALIGNMENTS_MAX).max(1);
    let own = (traffic.own_frame_bytes > 0).then_some(Picos::ZERO);
    let own_time = link.duration(link.wire_len(traffic.own_frame_bytes));
    // However soon XOFF is due, the frame in its way has come before.
    let lead = own_time.0 + subject.config.pipeline_latency.0 + LEAD.0;
    let mut phases = Vec::new();
    for &pattern in patterns {
        let senders = pattern.senders() as u64;
        for (turn, others_cells) in (0..cells).step_by(step as usize).enumerate() {
            let apart = if turn % 2 == 0 { 0 } else { frame.0 / senders };
            phases.push(Phase {
                number: phases.len(),
                pattern,
                begins: (0..senders).map(|sender| Picos(lead + sender * apart)).collect(),
                others_cells,
                own_frame_gone: own,
                own_frame_at: None,
            });
        }
        for &seed in seeds {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut below = |bound: u64| random.next_u64() % bound.max(1);
            let begins = (0..senders).map(|_| Picos(lead + below(2 * frame.0))).collect();
            let others_cells = below(u64::from(cells)) as u32;
            let gone = match below(2) {
                0 => Picos::ZERO,
                _ => Picos(below(own_time.0)),
            };
            phases.push(Phase {
                number: phases.len(),
                pattern,
                begins,
                others_cells,
                own_frame_gone: own.map(|_| gone),
                own_frame_at: None,
            });
        }
    }
    phases
}
