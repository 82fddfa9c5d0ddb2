//! A one-line description of a frame for traces, logs and test failures.

use core::fmt;

use super::{DisplayMac, Ipv4Packet, Ipv6Packet, LinkQuality, MacControl, RoceView, vlan};
use crate::parse::{Payload, parse};

/// Prints a frame in the style of tcpdump, for example with `format!("{}", FrameSummary(frame))`. Malformed
/// and truncated frames can be printed as well.
#[derive(Clone, Copy, Debug)]
pub struct FrameSummary<'a>(pub &'a [u8]);

impl fmt::Display for FrameSummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frame = self.0;
        let parsed = parse(frame);
        if parsed.payload == Payload::Truncated {
            return write!(f, "truncated, length {}", frame.len());
        }
        let [destination, source] = [0, 6].map(|at| DisplayMac(super::read_array(frame, at..at + 6)));
        write!(f, "{source} > {destination}")?;
        for tag in vlan::tags(frame) {
            write!(f, ", {tag}")?;
        }
        write!(f, ", ")?;
        let l3 = &frame[usize::from(parsed.l3_offset)..];
        match (parsed.payload, RoceView::new_checked(frame)) {
            (_, Ok(roce)) => write!(f, "{roce}"),
            (Payload::MacControl, _) => match MacControl::parse(frame) {
                Ok(control) => write!(f, "{control}"),
                Err(malformed) => write!(f, "{malformed}"),
            },
            (Payload::Ipv4, _) => {
                let ip = Ipv4Packet::new_unchecked(l3);
                write!(
                    f,
                    "IP {} > {}: {}",
                    ip.src_addr(),
                    ip.dst_addr(),
                    ip.next_header()
                )?;
                write!(f, ", tos {:#04x}, length {}", parsed.tos, ip.total_len())
            }
            (Payload::Ipv6, _) => {
                let ip = Ipv6Packet::new_unchecked(l3);
                write!(
                    f,
                    "IP6 {} > {}: {}",
                    ip.src_addr(),
                    ip.dst_addr(),
                    ip.next_header()
                )?;
                write!(f, ", tos {:#04x}, length {}", parsed.tos, ip.total_len())
            }
            (Payload::Other, _) if LinkQuality::is_link_quality(frame) => match LinkQuality::parse(frame) {
                Ok(message) => write!(f, "{message}"),
                Err(malformed) => write!(f, "{malformed}"),
            },
            (Payload::Other | Payload::Truncated, _) => {
                let at = usize::from(parsed.l3_offset);
                write!(
                    f,
                    "ethertype {:#06x}, length {}",
                    super::read_be16(frame, at - 2..at),
                    frame.len()
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pfc;

    #[test]
    fn summary_has_one_line_for_every_kind_of_frame() {
        let pfc = MacControl::Pfc(Pfc {
            enable: 8,
            quanta: [0, 0, 0, 100, 0, 0, 0, 0],
        });
        let mut frame = pfc.to_frame([2, 0, 0, 0, 0, 10]);
        let addresses = "02:00:00:00:00:0a > 01:80:c2:00:00:01";
        assert_eq!(
            FrameSummary(&frame).to_string(),
            format!("{addresses}, PFC xoff 3 quanta 100")
        );
        frame[12..16].copy_from_slice(&[0x81, 0, 0x60, 5]);
        frame[16..18].copy_from_slice(&[0x88, 0xcc]);
        assert_eq!(
            FrameSummary(&frame).to_string(),
            format!("{addresses}, vlan 5 p 3, ethertype 0x88cc, length 60")
        );
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..18].copy_from_slice(&[0x45, 0x20, 0, 46]);
        frame[23] = 17;
        assert_eq!(
            FrameSummary(&frame).to_string(),
            format!("{addresses}, IP 0.0.0.0 > 0.0.0.0: UDP, tos 0x20, length 46")
        );
        assert_eq!(FrameSummary(&frame[..13]).to_string(), "truncated, length 13");
    }
}
