//! The RoCEv2 frames that the loads send.

use std::net::Ipv4Addr;

use xoff_wire::{Addresses, Aeth, BthFields, Extension, FlowHeaders, Opcode, Reth, RocePacket, Syndrome};

/// Number of frames that a load sends in one burst.
pub const BURST_FRAMES: usize = 32;

/// The Ethernet, IPv4 and UDP headers of a frame. All remaining bytes of a frame are the same for all flows,
/// and do not change when the switch forwards the frame.
pub type FrameHeaders = [u8; 42];

/// Returns a RoCEv2 frame of `frame_bytes` bytes without FCS. `dscp` is 0 to 63. `queue_pair` is the
/// destination queue pair and determines the UDP source port.
///
/// The packet is an RDMA WRITE ONLY. If `frame_bytes` is too small for this packet, the packet is an
/// acknowledgement, and Ethernet padding fills the rest of the frame.
///
/// # Panics
/// `frame_bytes` is below 62.
pub fn roce_frame(
    frame_bytes: usize,
    source_mac: [u8; 6],
    destination_mac: [u8; 6],
    source: Ipv4Addr,
    destination: Ipv4Addr,
    dscp: u8,
    queue_pair: u32,
) -> Vec<u8> {
    let mut flow = FlowHeaders::new(
        source_mac,
        destination_mac,
        Addresses::V4 {
            src: source,
            dst: destination,
        },
    );
    flow.dscp = dscp;
    flow.udp_src_port = 0xc000 | (queue_pair.wrapping_mul(0x9e37_79b9) >> 18) as u16;
    let headers = |opcode, extensions| RocePacket {
        headers: &flow,
        bth: BthFields::new(opcode, queue_pair, 0),
        extensions,
    };
    let reth = [Extension::Reth(Reth {
        virtual_address: 0x1000,
        rkey: 1,
        dma_len: frame_bytes as u32,
    })];
    let aeth = [Extension::Aeth(Aeth {
        syndrome: Syndrome::Ack { credits: 31 },
        msn: 0,
    })];
    let write = headers(Opcode::RcWriteOnly, &reth);
    let acknowledge = headers(Opcode::RcAcknowledge, &aeth);
    let packet = if frame_bytes < write.frame_len(4) {
        acknowledge
    } else {
        write
    };
    let payload = (frame_bytes - packet.frame_len(0)) & !3;
    let payload = if packet.bth.opcode == Opcode::RcAcknowledge {
        0
    } else {
        payload
    };
    let mut frame = vec![0; frame_bytes];
    packet
        .emit(&mut frame, payload, |bytes| bytes.fill(0x5a))
        .expect("a buffer of that length");
    frame
}

#[cfg(test)]
mod tests {
    use xoff_wire::parse::{Payload, parse};

    use super::*;

    #[test]
    fn frames_of_every_length_are_ecn_capable_ipv4() {
        for frame_bytes in [62, 64, 78, 512, 1_081, 1_082, 4_200, 9_000] {
            for dscp in [3, 4] {
                let source = [10, 0, 0, 1].into();
                let destination = [10, 0, 0, 2].into();
                let bytes = roce_frame(frame_bytes, [2; 6], [4; 6], source, destination, dscp, 0);
                let parsed = parse(&bytes);
                assert_eq!((bytes.len(), parsed.payload), (frame_bytes, Payload::Ipv4));
                assert_eq!(parsed.dscp(), Some(dscp), "{frame_bytes}");
                assert!(parsed.is_ecn_capable(), "{frame_bytes}");
            }
        }
    }
}
