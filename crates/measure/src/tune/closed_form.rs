//! The headroom of a fixed phase, by arithmetic: what the search is held against.

use xoff_dataplane::{LinkTiming, Picos};

use super::pattern::Traffic;
use crate::tune::Subject;

/// Cells that a group takes after XOFF at worst, while nothing of it leaves.
///
/// The sender is never idle. XOFF is due when the last bit of a frame has come, which all but one of whose cells may already be
/// headroom. XOFF waits for the frame that the port has just begun; then it takes its own time, the cable, and the sender's response.
/// All frames that begin to leave the sender before that arrive and are headroom.
pub fn headroom_cells(subject: &Subject, traffic: &Traffic) -> u32 {
    let frame = traffic.frame_bytes.div_ceil(subject.config.cell_bytes);
    frame - 1 + frames_after_xoff(&subject.link(), traffic) * frame
}

/// Whole frames that come after the one that brought XOFF.
pub fn frames_after_xoff(link: &LinkTiming, traffic: &Traffic) -> u32 {
    let wire = |bytes: u32| link.duration(link.wire_len(bytes));
    let own = match traffic.own_frame_bytes {
        0 => Picos::ZERO,
        bytes => wire(bytes),
    };
    let window = [
        own,
        // XOFF has arrived with its last bit; the sender's next frame begins a gap after the one before.
        wire(64),
        traffic.delay,
        traffic.delay,
        Picos::from_nanos(traffic.response_ns),
    ];
    let window: u64 = window.iter().map(|span| span.0).sum();
    window
        .saturating_sub(2 * link.gap_duration().0)
        .div_ceil(wire(traffic.frame_bytes).0.max(1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand_at_100_gigabits() {
        // 9118-byte frame in the way: 731.04 ns; XOFF: 6.72; 40 m twice: 404.04; 2018 of response; two gaps of 0.96 less:
        // 3157.88 ns. Frames of 4202 bytes take 337.76 ns: 9.3, so that the tenth has begun.
        let traffic = Traffic {
            frame_bytes: 4_202,
            own_frame_bytes: 9_118,
            delay: Traffic::cable(40),
            response_ns: 2_018,
        };
        assert_eq!(frames_after_xoff(&LinkTiming::ethernet(100_000), &traffic), 10);
        let none_in_the_way = Traffic {
            own_frame_bytes: 0,
            ..traffic
        };
        assert_eq!(
            frames_after_xoff(&LinkTiming::ethernet(100_000), &none_in_the_way),
            8
        );
    }
}
