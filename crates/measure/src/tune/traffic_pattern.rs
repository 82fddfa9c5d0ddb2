//! Traffic patterns, and the frame lengths and link delays of their traffic.

use std::fmt;
use std::str::FromStr;

use xoff_dataplane::pfc::response_quanta_max;
use xoff_dataplane::{LinkTiming, Picos};

use xoff_host::FlowConfig;

/// Largest number of senders. A switch with 512 ports can connect this number of senders and one receiver.
pub const SENDERS_MAX: u16 = 511;
/// Longest permitted cable, in metres.
pub const CABLE_MAX_M: u32 = 100_000;

/// A traffic pattern. All senders send frames of one length back to back. Users write `incast:N`
/// or `standstill:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficPattern {
    /// The number of senders, 2 to [`SENDERS_MAX`]. All senders send to one receiver that receives at
    /// link speed.
    Incast(u16),
    /// The number of senders, 1 to [`SENDERS_MAX`]. The senders send to one receiver. The receiver pauses the
    /// switch all the time, as in a PFC storm.
    Standstill(u16),
}

impl TrafficPattern {
    /// Returns the number of senders of the pattern.
    pub fn senders(self) -> usize {
        let (TrafficPattern::Incast(senders) | TrafficPattern::Standstill(senders)) = self;
        usize::from(senders)
    }
}

impl fmt::Display for TrafficPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            TrafficPattern::Incast(_) => "incast",
            TrafficPattern::Standstill(_) => "standstill",
        };
        write!(f, "{name}:{}", self.senders())
    }
}

impl FromStr for TrafficPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<TrafficPattern, String> {
        let wrong = || {
            format!("'{text}' is no pattern: write incast:N or standstill:N with 1 to {SENDERS_MAX} senders")
        };
        let (name, senders) = text.split_once(':').ok_or_else(wrong)?;
        let senders = senders
            .parse()
            .ok()
            .filter(|senders| (1..=SENDERS_MAX).contains(senders))
            .ok_or_else(wrong)?;
        match name {
            // A single sender does not fill the buffer.
            "incast" if senders > 1 => Ok(TrafficPattern::Incast(senders)),
            "incast" => Err(format!(
                "'{text}' is no incast: a single sender fills no buffer; write 2 or more"
            )),
            "standstill" => Ok(TrafficPattern::Standstill(senders)),
            _ => Err(wrong()),
        }
    }
}

/// The frames and links of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficParameters {
    /// Length of the lossless frames in bytes, with FCS.
    pub frame_bytes: u32,
    /// Length of the own frame (the frame that delays XOFF) in bytes, with FCS. 0 means that no frame
    /// delays XOFF.
    pub own_frame_bytes: u32,
    /// One-way delay of the cable at each port.
    pub delay: Picos,
    /// Time from the arrival of XOFF at a sender to its effect, in nanoseconds.
    pub response_ns: u64,
}

impl TrafficParameters {
    /// Returns the one-way delay of a cable with a length in metres, at 198 000 km/s as in SONiC's
    /// headroom formula.
    pub fn cable_delay(metres: u32) -> Picos {
        Picos((u64::from(metres) * 1_000_000).div_ceil(198))
    }

    /// Returns the longest permitted response time of a sender in nanoseconds, rounded up (IEEE 802.3
    /// annex 31B.3.7).
    pub fn response_ns(link: &LinkTiming) -> u64 {
        link.pause_duration(response_quanta_max(link.speed_mbps))
            .0
            .div_ceil(1_000)
    }

    /// Rounds a frame length up to a possible length of a RoCEv2 frame over IPv4, with a payload that is
    /// padded to four bytes. Lengths are in bytes, with FCS. Returns `None` if `min_bytes` is below 64 or
    /// above the longest frame.
    pub fn valid_frame_bytes(min_bytes: u32, is_tagged: bool) -> Option<u32> {
        let (shortest, longest) = FlowConfig::frame_len_range(false, is_tagged);
        let (shortest, longest) = (shortest + 4, longest + 4);
        let rounded = shortest + min_bytes.saturating_sub(shortest).next_multiple_of(4);
        (min_bytes >= 64 && rounded <= longest).then_some(rounded)
    }

    /// Returns the length of the longest RoCEv2 frame over IPv4 in bytes, with FCS.
    pub fn frame_bytes_max(is_tagged: bool) -> u32 {
        FlowConfig::frame_len_range(false, is_tagged).1 + 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_parse_from_their_display_form() {
        for text in ["incast:8", "standstill:1", "standstill:511"] {
            assert_eq!(text.parse::<TrafficPattern>().unwrap().to_string(), text);
        }
        for text in [
            "incast",
            "incast:1",
            "incast:0",
            "standstill:0",
            "incast:512",
            "mesh:4",
            "incast:-1",
        ] {
            assert!(text.parse::<TrafficPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn frame_lengths_are_valid_for_rocev2() {
        assert_eq!(TrafficParameters::valid_frame_bytes(4_202, false), Some(4_202));
        assert_eq!(TrafficParameters::valid_frame_bytes(4_200, false), Some(4_202));
        assert_eq!(TrafficParameters::valid_frame_bytes(4_199, false), Some(4_202));
        assert_eq!(TrafficParameters::valid_frame_bytes(64, false), Some(102));
        assert_eq!(TrafficParameters::valid_frame_bytes(9_216, false), None);
        assert_eq!(
            TrafficParameters::valid_frame_bytes(TrafficParameters::frame_bytes_max(true), true),
            Some(TrafficParameters::frame_bytes_max(true))
        );
    }

    #[test]
    fn cable_delay_and_response_time() {
        assert_eq!(TrafficParameters::cable_delay(198), Picos::from_nanos(1_000));
        assert_eq!(TrafficParameters::cable_delay(0), Picos::ZERO);
        // 394 quanta of 512 bits at 100 Gb/s.
        assert_eq!(
            TrafficParameters::response_ns(&LinkTiming::ethernet(100_000)),
            2_018
        );
    }
}
