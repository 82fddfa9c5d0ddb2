//! The reasons for which the switch drops frames.

macro_rules! drop_reasons {
    ($($variant:ident = $name:literal, $doc:literal;)*) => {
        /// Reason for which the switch drops a frame. If SAI has an in-drop reason or a statistic for the
        /// case, [`DropReason::name`] returns its SAI name. Other names are from sFlow (`discarded_packet`)
        /// or start with `XOFF_`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason { $(#[doc = $doc] $variant,)* }

        impl DropReason {
            /// All reasons, in the order of their discriminants.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant,)*];
            /// Number of reasons: the length of an array that is indexed by `reason as usize`.
            pub const COUNT: usize = Self::ALL.len();

            /// Returns the name of the reason in counters and reports, such as `EXCEEDS_L2_MTU`.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
            }

            /// Returns one sentence that explains the reason.
            pub const fn describe(self) -> &'static str {
                match self { $(DropReason::$variant => $doc,)* }
            }
        }
    };
}

drop_reasons! {
    SmacMulticast = "SMAC_MULTICAST", "The source MAC address is a group address.";
    SmacEqualsDmac = "SMAC_EQUALS_DMAC", "Source and destination MAC address are equal.";
    DmacReserved = "DMAC_RESERVED", "The destination is a reserved group address (01-80-C2-00-00-0x), which a bridge does not forward.";
    IngressVlanFilter = "INGRESS_VLAN_FILTER", "The ingress port is not a member of the frame's VLAN, or has no VLAN for untagged frames.";
    EgressVlanFilter = "EGRESS_VLAN_FILTER", "The egress port is no longer a member of the frame's VLAN.";
    L2LoopbackFilter = "L2_LOOPBACK_FILTER", "The destination is behind the ingress port, or no other port exists.";
    ExceedsL2Mtu = "EXCEEDS_L2_MTU", "The frame is longer than the MTU of the port.";
    PriorityGroupDropped = "INGRESS_PRIORITY_GROUP_DROPPED_PACKETS", "The priority group has no free cells: reserved, shared and headroom are full.";
    QueueDropped = "QUEUE_DROPPED_PACKETS", "The egress queue is at its limit.";
    TrimDropped = "QUEUE_DROPPED_TRIM_PACKETS", "The queue was full, and the queue for trimmed packets was full as well.";
    WredDropped = "QUEUE_WRED_DROPPED_PACKETS", "Early drop by WRED: the queue is long and the frame cannot be marked.";
    L3EgressLinkDown = "L3_EGRESS_LINK_DOWN", "The egress port is down.";
    ExceedsL3Mtu = "EXCEEDS_L3_MTU", "The packet is longer than the MTU of the egress interface. A switch does not fragment.";
    Ttl = "TTL", "The TTL or hop limit has expired, in a routing loop or by a traceroute.";
    NonRoutable = "NON_ROUTABLE", "The destination cannot be routed: broadcast, multicast without routing, reserved, or an IPv4-mapped IPv6 address.";
    NoL3Header = "NO_L3_HEADER", "The frame is addressed to the router and carries no IP packet.";
    IpHeaderError = "IP_HEADER_ERROR", "The IP header is malformed or its checksum is wrong.";
    UcDipMcDmac = "UC_DIP_MC_DMAC", "A packet to a unicast IP address has a broadcast or multicast MAC address.";
    McDmacMismatch = "MC_DMAC_MISMATCH", "A packet to a multicast IP address has a unicast MAC address.";
    SipEqualsDip = "SIP_EQUALS_DIP", "Source and destination IP address are equal.";
    SipUnspecified = "SIP_UNSPECIFIED", "The source IP address is unspecified (0/8, ::).";
    SipLoopback = "SIP_LOOPBACK", "The source IP address is a loopback address.";
    SipMulticast = "SIP_MC", "The source IP address is a multicast address.";
    SipClassE = "SIP_CLASS_E", "The source IP address is of class E (240/4).";
    SipBroadcast = "SIP_BC", "The source IP address is the broadcast address.";
    SipLinkLocal = "SIP_LINK_LOCAL", "The source IP address is link-local: the packet must stay on its link.";
    DipLoopback = "DIP_LOOPBACK", "The destination IP address is a loopback address.";
    DipLocal = "DIP_LOCAL", "The packet is addressed to the switch, and no CPU is attached.";
    DipLinkLocal = "DIP_LINK_LOCAL", "The destination IP address is link-local: the packet must stay on its link.";
    Lpm4Miss = "LPM4_MISS", "No IPv4 route matches the destination.";
    Lpm6Miss = "LPM6_MISS", "No IPv6 route matches the destination.";
    BlackholeRoute = "BLACKHOLE_ROUTE", "The route is a blackhole route.";
    UnresolvedNextHop = "UNRESOLVED_NEXT_HOP", "The next hop did not answer ARP or neighbour discovery, or too many frames wait for it.";
    NotToRouter = "XOFF_NOT_TO_ROUTER", "The frame arrived on a routed port and is addressed to another station.";
    CpuRate = "XOFF_CPU_RATE", "The rate of frames for the CPU port exceeds its limit.";
    NoBufferSpace = "no_buffer_space", "The host has no free frame slots. This is a limit of the program, not of the model.";
    PortDown = "XOFF_INGRESS_LINK_DOWN", "The ingress port is down.";
    PortFlushed = "XOFF_QUEUE_FLUSHED", "The frame waited at a port that went down.";
    WatchdogEgress = "XOFF_PFC_WD_TX", "The PFC watchdog drops the frames of the egress queue during a storm.";
    WatchdogIngress = "XOFF_PFC_WD_RX", "The PFC watchdog drops the frames received in the priority groups of a queue during a storm.";
    Truncated = "XOFF_TRUNCATED", "The frame is shorter than an Ethernet header.";
    Oversized = "XOFF_OVERSIZED", "The frame is longer than a frame slot: a coalesced frame (GSO/GRO), or a device MTU larger than the port's.";
    ChecksumUnfinished = "XOFF_CHECKSUM_UNFINISHED", "The checksum is missing because the sender relied on checksum offload. Turn offloads of the sender off.";
    MacControlUnknown = "XOFF_MAC_CONTROL_UNKNOWN", "The MAC control frame is malformed, or neither PAUSE nor PFC.";
    LinkQualityMalformed = "XOFF_LINK_QUALITY_MALFORMED", "The link quality message is malformed.";
    LinkQualityUnexpected = "XOFF_LINK_QUALITY_UNEXPECTED", "The port does not exchange link quality messages.";
    BackendRefused = "XOFF_BACKEND_REFUSED", "The device refused to send the frame.";
}
