//! Why frames are dropped.

macro_rules! drop_reasons {
    ($($variant:ident = $name:literal, $doc:literal;)*) => {
        /// Why a frame was dropped. Names are SAI's in-drop reasons and statistics where they exist, then sFlow's
        /// (`discarded_packet`), then ours (prefix `XOFF_`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason { $(#[doc = $doc] $variant,)* }

        impl DropReason {
            /// Every reason, in the order of their numbers.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant,)*];
            /// How many reasons there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The name in counters and reports.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
            }

            /// What it means, in a sentence.
            pub const fn describe(self) -> &'static str {
                match self { $(DropReason::$variant => $doc,)* }
            }
        }
    };
}

drop_reasons! {
    SmacMulticast = "SMAC_MULTICAST", "The source address is a group address.";
    SmacEqualsDmac = "SMAC_EQUALS_DMAC", "Source and destination address are equal.";
    DmacReserved = "DMAC_RESERVED", "The destination is a reserved group address (01-80-C2-00-00-0x) that a bridge keeps.";
    IngressVlanFilter = "INGRESS_VLAN_FILTER", "The port is no member of the frame's VLAN, or of any for an untagged frame.";
    EgressVlanFilter = "EGRESS_VLAN_FILTER", "The port behind the address is no longer in the frame's VLAN.";
    L2LoopbackFilter = "L2_LOOPBACK_FILTER", "The destination lies behind the port the frame came from, or there is no other port.";
    ExceedsL2Mtu = "EXCEEDS_L2_MTU", "The frame is longer than the port's MTU allows.";
    PriorityGroupDropped = "INGRESS_PRIORITY_GROUP_DROPPED_PACKETS", "No cells left in the priority group: reserved, shared and headroom are used up.";
    QueueDropped = "QUEUE_DROPPED_PACKETS", "The egress queue is at its limit.";
    TrimDropped = "QUEUE_DROPPED_TRIM_PACKETS", "The queue was full, and the queue for what is left of a trimmed packet too.";
    WredDropped = "QUEUE_WRED_DROPPED_PACKETS", "Early drop: the queue is long and the frame cannot be marked.";
    L3EgressLinkDown = "L3_EGRESS_LINK_DOWN", "The egress port is down.";
    ExceedsL3Mtu = "EXCEEDS_L3_MTU", "The packet is longer than the MTU of the interface it would leave by; a switch does not fragment.";
    Ttl = "TTL", "The time to live or hop limit has run out: the packet travelled in a loop, or asks who is here.";
    NonRoutable = "NON_ROUTABLE", "The destination is not to be forwarded to: broadcast, multicast without routing, reserved, or an IPv4-mapped IPv6 address.";
    NoL3Header = "NO_L3_HEADER", "A frame to the router that carries no IP.";
    IpHeaderError = "IP_HEADER_ERROR", "The IP header is malformed or its checksum wrong.";
    UcDipMcDmac = "UC_DIP_MC_DMAC", "A unicast packet in a broadcast or multicast frame.";
    McDmacMismatch = "MC_DMAC_MISMATCH", "A multicast packet in a unicast frame.";
    SipEqualsDip = "SIP_EQUALS_DIP", "Source and destination IP address are equal.";
    SipUnspecified = "SIP_UNSPECIFIED", "The source address is unspecified (0/8, ::).";
    SipLoopback = "SIP_LOOPBACK", "The source is a loopback address.";
    SipMulticast = "SIP_MC", "The source is a multicast address.";
    SipClassE = "SIP_CLASS_E", "The source address is of class E (240/4).";
    SipBroadcast = "SIP_BC", "The source is the broadcast address.";
    SipLinkLocal = "SIP_LINK_LOCAL", "A link-local source: the packet may not leave its link.";
    DipLoopback = "DIP_LOOPBACK", "The destination is a loopback address.";
    DipLocal = "DIP_LOCAL", "For the switch itself, and nothing there takes it.";
    DipLinkLocal = "DIP_LINK_LOCAL", "A link-local destination: the packet may not leave its link.";
    Lpm4Miss = "LPM4_MISS", "No IPv4 route.";
    Lpm6Miss = "LPM6_MISS", "No IPv6 route.";
    BlackholeRoute = "BLACKHOLE_ROUTE", "The route says: drop.";
    UnresolvedNextHop = "UNRESOLVED_NEXT_HOP", "The next hop does not answer ARP or neighbour discovery, or too many frames wait for it.";
    NotToRouter = "XOFF_NOT_TO_ROUTER", "A frame on a routed port whose destination is another station's address.";
    CpuRate = "XOFF_CPU_RATE", "More frames for the switch itself than it takes.";
    NoBufferSpace = "no_buffer_space", "The host ran out of frame slots: a limit of this program, not of the model.";
    PortDown = "XOFF_INGRESS_LINK_DOWN", "The ingress port is down.";
    PortFlushed = "XOFF_QUEUE_FLUSHED", "The frame waited on a port that went down.";
    WatchdogEgress = "XOFF_PFC_WD_TX", "The queue it was for is stormed: the PFC watchdog drops what waits in it and what comes for it.";
    WatchdogIngress = "XOFF_PFC_WD_RX", "The priority group it came in by belongs to a stormed queue of its port: the PFC watchdog drops what is received there.";
    Truncated = "XOFF_TRUNCATED", "Shorter than an Ethernet header.";
    Oversized = "XOFF_OVERSIZED", "Longer than any slot holds: a superframe, or a device whose MTU is larger than the port's.";
    ChecksumUnfinished = "XOFF_CHECKSUM_UNFINISHED", "The sender left the checksum to hardware that does not exist here (offloads of the far end are on).";
    MacControlUnknown = "XOFF_MAC_CONTROL_UNKNOWN", "A MAC control frame that is neither PAUSE nor PFC, or is malformed.";
    LinkQualityMalformed = "XOFF_LINK_QUALITY_MALFORMED", "A link quality message that cannot be read.";
    LinkQualityUnexpected = "XOFF_LINK_QUALITY_UNEXPECTED", "A link quality message on a port that exchanges none.";
    BackendRefused = "XOFF_BACKEND_REFUSED", "The device refused to send the frame.";
}
