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
    WredDropped = "QUEUE_WRED_DROPPED_PACKETS", "Early drop: the queue is long and the frame cannot be marked.";
    L3EgressLinkDown = "L3_EGRESS_LINK_DOWN", "The egress port is down.";
    NoBufferSpace = "no_buffer_space", "The host ran out of frame slots: a limit of this program, not of the model.";
    PortDown = "XOFF_INGRESS_LINK_DOWN", "The ingress port is down.";
    PortFlushed = "XOFF_QUEUE_FLUSHED", "The frame waited on a port that went down.";
    Truncated = "XOFF_TRUNCATED", "Shorter than an Ethernet header.";
    Oversized = "XOFF_OVERSIZED", "Longer than any slot holds: a superframe, or a device whose MTU is larger than the port's.";
    ChecksumUnfinished = "XOFF_CHECKSUM_UNFINISHED", "The sender left the checksum to hardware that does not exist here (offloads of the far end are on).";
    MacControlUnknown = "XOFF_MAC_CONTROL_UNKNOWN", "A MAC control frame that is neither PAUSE nor PFC, or is malformed.";
    BackendRefused = "XOFF_BACKEND_REFUSED", "The device refused to send the frame.";
}
