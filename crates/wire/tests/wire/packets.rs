//! Generators of random packets for property tests.

use core::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use xoff_wire::{
    Addresses, Aeth, AtomicEth, BthFields, Deth, Ecn, Extension, ExtensionKind, FlowHeaders, Opcode, Reth,
    RocePacket, Syndrome, VlanTag,
};

/// A packet together with the values that it borrows.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) headers: FlowHeaders,
    pub(crate) bth: BthFields,
    pub(crate) extensions: Vec<Extension>,
    pub(crate) payload: Vec<u8>,
}

impl Packet {
    pub(crate) fn frame(&self) -> Vec<u8> {
        let packet = RocePacket {
            headers: &self.headers,
            bth: self.bth,
            extensions: &self.extensions,
        };
        let mut frame = vec![0x55; packet.frame_len(self.payload.len())];
        let len = packet
            .emit(&mut frame, self.payload.len(), |room| {
                room.copy_from_slice(&self.payload)
            })
            .expect("a packet that can be built");
        assert_eq!(len, frame.len());
        frame
    }
}

fn addresses() -> impl Strategy<Value = Addresses> {
    prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(src, dst)| Addresses::V4 {
            src: Ipv4Addr::from(src),
            dst: Ipv4Addr::from(dst)
        }),
        any::<([u8; 16], [u8; 16])>().prop_map(|(src, dst)| Addresses::V6 {
            src: Ipv6Addr::from(src),
            dst: Ipv6Addr::from(dst)
        }),
    ]
}

fn tag() -> impl Strategy<Value = VlanTag> {
    (
        prop::sample::select(vec![0x8100, 0x88a8, 0x9100, 0x9200]),
        any::<u16>(),
    )
        .prop_map(|(tpid, tci)| VlanTag { tpid, tci })
}

pub(crate) fn headers() -> impl Strategy<Value = FlowHeaders> {
    (
        any::<([u8; 6], [u8; 6])>(),
        prop::option::of(tag()),
        addresses(),
        (0..64_u8, 0..4_u8, any::<u8>()),
        0..1_u32 << 20,
        any::<u16>(),
    )
        .prop_map(
            |(macs, tag, addresses, (dscp, ecn, hop_limit), flow_label, udp_src_port)| FlowHeaders {
                dst_mac: macs.0,
                src_mac: macs.1,
                tag,
                addresses,
                dscp,
                ecn: Ecn::from_tos(ecn),
                hop_limit,
                flow_label,
                udp_src_port,
            },
        )
}

/// Any opcode, including opcodes without a name.
fn opcode() -> impl Strategy<Value = Opcode> {
    prop_oneof![4 => prop::sample::select(Opcode::ALL), 1 => any::<u8>().prop_map(Opcode::from_u8)]
}

pub(crate) fn bth() -> impl Strategy<Value = BthFields> {
    (
        opcode(),
        any::<[bool; 5]>(),
        any::<u16>(),
        0..1_u32 << 24,
        0..1_u32 << 24,
    )
        .prop_map(
            |(opcode, [solicited, mig_req, fecn, becn, ack_req], p_key, dest_qp, psn)| BthFields {
                opcode,
                solicited,
                mig_req,
                p_key,
                fecn,
                becn,
                dest_qp,
                ack_req,
                psn,
            },
        )
}

pub(crate) fn extension(kind: ExtensionKind) -> impl Strategy<Value = Extension> {
    (any::<[u64; 3]>(), any::<u32>()).prop_map(move |([a, b, c], word)| match kind {
        ExtensionKind::Reth => Extension::Reth(Reth {
            virtual_address: a,
            rkey: word,
            dma_len: b as u32,
        }),
        ExtensionKind::Aeth => Extension::Aeth(Aeth {
            syndrome: Syndrome::from_u8(a as u8),
            msn: word & 0xff_ffff,
        }),
        ExtensionKind::ImmDt => Extension::ImmDt(word),
        ExtensionKind::Ieth => Extension::Ieth(word),
        ExtensionKind::AtomicEth => Extension::AtomicEth(AtomicEth {
            virtual_address: a,
            rkey: word,
            swap_or_add: b,
            compare: c,
        }),
        ExtensionKind::AtomicAckEth => Extension::AtomicAckEth(a),
        ExtensionKind::Deth => Extension::Deth(Deth {
            q_key: word,
            source_qp: a as u32 & 0xff_ffff,
        }),
        ExtensionKind::Rdeth => Extension::Rdeth(word & 0xff_ffff),
        ExtensionKind::Feth => Extension::Feth(word),
    })
}

pub(crate) fn packet() -> impl Strategy<Value = Packet> {
    (headers(), bth(), prop::collection::vec(any::<u8>(), 0..100)).prop_flat_map(|(headers, bth, payload)| {
        let extensions: Vec<_> = bth
            .opcode
            .extensions()
            .iter()
            .map(|&kind| extension(kind))
            .collect();
        extensions.prop_map(move |extensions| Packet {
            headers,
            bth,
            extensions,
            payload: payload.clone(),
        })
    })
}
