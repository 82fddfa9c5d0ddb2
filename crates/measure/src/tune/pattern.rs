//! What is sent: who to whom, in frames of which length, over which links.

use std::fmt;
use std::str::FromStr;

use xoff_dataplane::pfc::response_quanta_max;
use xoff_dataplane::{LinkTiming, Picos};

use xoff_host::FlowConfig;

/// Most senders of a pattern: so many ports a switch has with one receiver beside them.
pub const SENDERS_MAX: u16 = 511;
/// Longest cable, in metres.
pub const CABLE_MAX_M: u32 = 100_000;

/// A traffic pattern. All senders send frames of one length, back to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// To one receiver that takes what its link carries.
    Incast(u16),
    /// To one receiver that takes nothing any more: those behind it have paused it, as in a PFC storm.
    Standstill(u16),
}

impl Pattern {
    /// How many send.
    pub fn senders(self) -> usize {
        let (Pattern::Incast(senders) | Pattern::Standstill(senders)) = self;
        usize::from(senders)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Pattern::Incast(_) => "incast",
            Pattern::Standstill(_) => "standstill",
        };
        write!(f, "{name}:{}", self.senders())
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
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
            // An incast of one fills no buffer.
            "incast" if senders > 1 => Ok(Pattern::Incast(senders)),
            "incast" => Err(format!(
                "'{text}' is no incast: a single sender fills no buffer; write 2 or more"
            )),
            "standstill" => Ok(Pattern::Standstill(senders)),
            _ => Err(wrong()),
        }
    }
}

/// Frames and links of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Length of the lossless frames with FCS.
    pub frame_bytes: u32,
    /// Length of the frame that is in the way of XOFF, with FCS; 0: none ever is.
    pub own_frame_bytes: u32,
    /// One way along the cable of a port.
    pub delay: Picos,
    /// From the arrival of XOFF at a sender to its effect.
    pub response_ns: u64,
}

impl Traffic {
    /// One way along `metres` of cable at 198 000 km/s, as in SONiC's headroom formula.
    pub fn cable(metres: u32) -> Picos {
        Picos((u64::from(metres) * 1_000_000).div_ceil(198))
    }

    /// What a sender may take to obey at most: IEEE 802.3 annex 31B.3.7, in nanoseconds.
    pub fn response_ns(link: &LinkTiming) -> u64 {
        link.pause_duration(response_quanta_max(link.speed_mbps))
            .0
            .div_ceil(1_000)
    }

    /// The shortest frame of RoCEv2 over IPv4 that is at least so long, with FCS: payloads are padded to four bytes. `None`: there is none.
    pub fn possible_frame(bytes: u32, tagged: bool) -> Option<u32> {
        let (shortest, longest) = FlowConfig::frame_len_range(false, tagged);
        let (shortest, longest) = (shortest + 4, longest + 4);
        let rounded = shortest + bytes.saturating_sub(shortest).next_multiple_of(4);
        (bytes >= 64 && rounded <= longest).then_some(rounded)
    }

    /// The longest frame there can be.
    pub fn frame_max(tagged: bool) -> u32 {
        FlowConfig::frame_len_range(false, tagged).1 + 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read_as_they_are_written() {
        for text in ["incast:8", "standstill:1", "standstill:511"] {
            assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
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
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn frames_are_those_that_roce_has() {
        assert_eq!(Traffic::possible_frame(4_202, false), Some(4_202));
        assert_eq!(Traffic::possible_frame(4_200, false), Some(4_202));
        assert_eq!(Traffic::possible_frame(4_199, false), Some(4_202));
        assert_eq!(Traffic::possible_frame(64, false), Some(102));
        assert_eq!(Traffic::possible_frame(9_216, false), None);
        assert_eq!(
            Traffic::possible_frame(Traffic::frame_max(true), true),
            Some(Traffic::frame_max(true))
        );
    }

    #[test]
    fn light_in_a_cable() {
        assert_eq!(Traffic::cable(198), Picos::from_nanos(1_000));
        assert_eq!(Traffic::cable(0), Picos::ZERO);
        // 394 quanta of 512 bits at 100 Gb/s.
        assert_eq!(Traffic::response_ns(&LinkTiming::ethernet(100_000)), 2_018);
    }
}
