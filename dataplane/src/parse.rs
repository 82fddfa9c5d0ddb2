//! What follows from the bytes of a frame alone. I/O workers do this; no configuration is read.

/// The outermost VLAN tag of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Tag protocol id: 0x8100, 0x88A8, 0x9100 or 0x9200.
    pub tpid: u16,
    /// Priority (3 bits), drop eligibility (1), VLAN id (12).
    pub tci: u16,
}

impl Tag {
    /// VLAN id, 0 for a priority tag.
    pub const fn vid(self) -> u16 {
        self.tci & 0x0fff
    }
    /// 802.1p priority.
    pub const fn pcp(self) -> u8 {
        (self.tci >> 13) as u8
    }
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// IPv4 with a whole, well-formed header.
    Ipv4,
    /// IPv6 with a whole fixed header.
    Ipv6,
    /// MAC control (ethertype 0x8808), always untagged.
    MacControl,
    /// Anything else, malformed IP included.
    Other,
    /// Shorter than an Ethernet header: no address can be read.
    Truncated,
}

/// What the headers of a frame say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// What the frame carries.
    pub payload: Payload,
    /// Outermost tag.
    pub tag: Option<Tag>,
    /// Offset of the header behind the Ethernet header and its tags (at most two).
    pub l3_offset: u8,
    /// Traffic class octet of IP: DSCP (6 bits), ECN (2); 0 for others.
    pub tos: u8,
    /// Hash of addresses, protocol and ports (of addresses alone for fragments and others); the same on every machine.
    pub flow_hash: u32,
}

impl Parsed {
    /// DSCP, if the frame is IP.
    pub const fn dscp(&self) -> Option<u8> {
        match self.payload {
            Payload::Ipv4 | Payload::Ipv6 => Some(self.tos >> 2),
            _ => None,
        }
    }
    /// Whether the frame may be marked CE: ECT(0), ECT(1) or CE already.
    pub const fn ecn_capable(&self) -> bool {
        matches!(self.payload, Payload::Ipv4 | Payload::Ipv6) && self.tos & 3 != 0
    }
}

/// Reads the headers of a frame (no FCS). Never fails: what cannot be read is [`Payload::Other`] or
/// [`Payload::Truncated`].
pub fn parse(frame: &[u8]) -> Parsed {
    let _ = frame;
    Parsed {
        payload: Payload::Truncated,
        tag: None,
        l3_offset: 0,
        tos: 0,
        flow_hash: 0,
    }
}
