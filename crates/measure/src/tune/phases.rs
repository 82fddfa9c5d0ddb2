//! Creates the phases that a configuration must pass without loss: worst cases and random cases. A phase is
//! one arrangement of start times and buffer use.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use xoff_units::Picos;

use super::phase_run::TrafficPhase;
use super::traffic_pattern::{TrafficParameters, TrafficPattern};
use super::tuning_target::TuningTarget;

/// Largest number of alignments of the frame that causes XOFF. An alignment is the part of this frame that is
/// stored in headroom. If the frame has more cells than this number, only some alignments at equal distances
/// are tested.
const ALIGNMENTS_MAX: u32 = 40;

/// Time between the transmission of the own frame and the start of the senders.
const SENDER_LEAD: Picos = Picos::from_micros(1);

/// Creates all phases of these patterns. XOFF must wait while the switch transmits the own frame, a frame
/// from the receiver to a sender. The time of the own frame is not set here
/// ([`set_xoff_delaying_frame_time`](super::set_xoff_delaying_frame_time) sets it). There are two
/// kinds of phases:
///
/// - Alignments: other users hold from 0 cells up to the cells of a frame, so the part of the frame that is
///   stored in headroom varies. All senders start at the same time, or at equal intervals within the time of
///   a frame. When XOFF is due, the switch has just started to send the own frame.
/// - Seeds: senders start at random times within the time of two frames, and other users hold a random number
///   of cells. When XOFF is due, the switch has just started to send the own frame, or has sent a random part
///   of this frame.
pub fn build_phases(
    subject: &TuningTarget,
    traffic: &TrafficParameters,
    patterns: &[TrafficPattern],
    seeds: &[u64],
) -> Vec<TrafficPhase> {
    let cells = traffic.frame_bytes.div_ceil(subject.config.cell_bytes);
    let link = subject.link_timing();
    let frame = link.duration(link.wire_len(traffic.frame_bytes));
    let step = cells.div_ceil(ALIGNMENTS_MAX).max(1);
    let own = (traffic.own_frame_bytes > 0).then_some(Picos::ZERO);
    let own_time = link.duration(link.wire_len(traffic.own_frame_bytes));
    // The own frame arrives before XOFF is due, even if XOFF is due immediately.
    let lead = own_time.0 + subject.config.pipeline_latency.0 + SENDER_LEAD.0;
    let mut phases = Vec::new();
    for &pattern in patterns {
        let senders = pattern.senders() as u64;
        for (turn, others_cells) in (0..cells).step_by(step as usize).enumerate() {
            let apart = if turn % 2 == 0 { 0 } else { frame.0 / senders };
            phases.push(TrafficPhase {
                number: phases.len(),
                pattern,
                begins: (0..senders).map(|sender| Picos(lead + sender * apart)).collect(),
                others_cells,
                own_frame_elapsed: own,
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
            phases.push(TrafficPhase {
                number: phases.len(),
                pattern,
                begins,
                others_cells,
                own_frame_elapsed: own.map(|_| gone),
                own_frame_at: None,
            });
        }
    }
    phases
}
