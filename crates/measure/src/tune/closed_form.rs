//! Calculates the headroom of the worst case with a formula. The report compares the result of the search
//! with this value.

use xoff_dataplane::{LinkTiming, Picos};

use super::traffic_pattern::TrafficParameters;
use crate::tune::TuningTarget;

/// Returns the largest number of headroom cells that a priority group can use if none of its frames leaves
/// the switch.
///
/// The formula assumes that the sender is never idle. The last bit of a frame causes XOFF. In the worst case,
/// all cells of this frame except one use headroom. XOFF waits while the port sends a frame that it has just
/// started (the own frame). Then the XOFF frame is transmitted, passes the cable, and takes effect after the
/// response time of the sender. All frames that the sender starts before this time use headroom.
pub fn headroom_cells(subject: &TuningTarget, traffic: &TrafficParameters) -> u32 {
    let frame = traffic.frame_bytes.div_ceil(subject.config.cell_bytes);
    frame - 1 + frames_after_xoff(&subject.link_timing(), traffic) * frame
}

/// Returns the largest number of frames that arrive after the frame that caused XOFF.
pub fn frames_after_xoff(link: &LinkTiming, traffic: &TrafficParameters) -> u32 {
    let wire = |bytes: u32| link.duration(link.wire_len(bytes));
    let own = match traffic.own_frame_bytes {
        0 => Picos::ZERO,
        bytes => wire(bytes),
    };
    let window = [
        own,
        // XOFF takes effect after its last bit. The next frame of the sender starts a gap after the
        // previous one.
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
    fn hand_calculated_values_at_100_gbps() {
        // A frame of 9118 bytes takes 731.04 ns, XOFF 6.72 ns, twice 40 m of cable 404.04 ns and
        // the response 2018 ns. Without two gaps of 0.96 ns, the sum is 3157.88 ns. A frame of 4202
        // bytes takes 337.76 ns, so 9.3 frames fit and the tenth has started.
        let traffic = TrafficParameters {
            frame_bytes: 4_202,
            own_frame_bytes: 9_118,
            delay: TrafficParameters::cable_delay(40),
            response_ns: 2_018,
        };
        assert_eq!(frames_after_xoff(&LinkTiming::ethernet(100_000), &traffic), 10);
        let none_in_the_way = TrafficParameters {
            own_frame_bytes: 0,
            ..traffic
        };
        assert_eq!(
            frames_after_xoff(&LinkTiming::ethernet(100_000), &none_in_the_way),
            8
        );
    }
}
