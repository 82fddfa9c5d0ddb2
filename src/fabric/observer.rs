//! Who watches a fabric: event logs, recordings, series, scripts.

use xoff_dataplane::parse::{Payload, parse_prefix};
use xoff_dataplane::wire::{Bth, ROCE_UDP_PORT};
use xoff_dataplane::{Picos, PortId, Verdict};

use super::plan::End;

/// A frame as an observer sees it.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    /// Its first octets: all headers at least.
    pub prefix: &'a [u8],
    /// Its length as a socket sees it (no FCS).
    pub frame_len: u32,
    /// A link has damaged it: its ICRC is wrong.
    pub damaged: bool,
}

impl<'a> FrameView<'a> {
    /// The base transport header of a RoCEv2 packet.
    pub fn bth(&self) -> Option<Bth<&'a [u8]>> {
        let parsed = parse_prefix(self.prefix, self.frame_len as usize);
        let l3 = usize::from(parsed.l3_offset);
        let udp = match parsed.payload {
            Payload::Ipv4 => l3 + 20,
            Payload::Ipv6 => l3 + 40,
            _ => return None,
        };
        let port = self.prefix.get(udp + 2..udp + 4)?;
        (port == ROCE_UDP_PORT.to_be_bytes()).then_some(())?;
        Bth::new_checked(self.prefix.get(udp + 8..)?).ok()
    }
}

/// Hears what happens, in the order in which it happens. Everything is optional; what is not overridden costs nothing.
pub trait Observer {
    /// A frame begins to leave `from` at `at`; the link is occupied until `until`.
    #[inline]
    fn departed(&mut self, at: Picos, until: Picos, from: End, frame: FrameView<'_>) {
        let _ = (at, until, from, frame);
    }

    /// The last bit of a frame arrives at `to`, before anything is done with it.
    #[inline]
    fn arrived(&mut self, at: Picos, to: End, frame: FrameView<'_>) {
        let _ = (at, to, frame);
    }

    /// A switch has decided on an arrival.
    #[inline]
    fn decided(&mut self, at: Picos, switch: u32, port: PortId, verdict: &Verdict) {
        let _ = (at, switch, port, verdict);
    }

    /// A link lost or damaged a frame on its way from `from`.
    #[inline]
    fn struck(&mut self, at: Picos, from: End, frame: FrameView<'_>, lost: bool) {
        let _ = (at, from, frame, lost);
    }

    /// A link went up or down.
    #[inline]
    fn link_changed(&mut self, at: Picos, link: usize, up: bool) {
        let _ = (at, link, up);
    }
}

/// Nobody watches.
impl Observer for () {}
