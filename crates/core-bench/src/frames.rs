//! RoCEv2 frames of the built-in workloads.

use std::net::Ipv4Addr;

use xoff_measure::frame_cost::roce_frame;
use xoff_wire::{Addresses, BthFields, Extension, FlowHeaders, Opcode, Reth, RocePacket};

/// Payload of an RDMA WRITE in bytes. With Ethernet, IPv4, UDP, BTH, RETH and ICRC, the frame has 1082 bytes.
const PAYLOAD_BYTES: usize = 1_008;

/// Returns the DSCP of a queue pair, 3 or 4. Half of the queue pairs use lossless priority 3, and the other
/// half use lossless priority 4.
fn dscp_of_queue_pair(queue_pair: u32) -> u8 {
    3 + (queue_pair / 4) as u8 % 2
}

/// Returns a frame of a queue pair, `frame_bytes` bytes long without FCS.
pub(crate) fn frame_of_queue_pair(
    frame_bytes: usize,
    source_mac: [u8; 6],
    destination_mac: [u8; 6],
    source: Ipv4Addr,
    destination: Ipv4Addr,
    queue_pair: u32,
) -> Vec<u8> {
    let dscp = dscp_of_queue_pair(queue_pair);
    roce_frame(
        frame_bytes,
        source_mac,
        destination_mac,
        source,
        destination,
        dscp,
        queue_pair,
    )
}

/// Returns the frame of an RDMA WRITE of a queue pair. The frame has 1082 bytes without FCS. All queue pairs
/// have the same UDP source port.
pub(crate) fn build_rdma_write_of_queue_pair(
    source_mac: [u8; 6],
    destination_mac: [u8; 6],
    source: Ipv4Addr,
    destination: Ipv4Addr,
    queue_pair: u32,
) -> Vec<u8> {
    let dscp = dscp_of_queue_pair(queue_pair);
    write_frame(
        source_mac,
        destination_mac,
        source,
        destination,
        dscp,
        queue_pair,
        0,
    )
}

/// Returns the frame of an RDMA WRITE with this DSCP and packet sequence number. The frame has 1082 bytes
/// without FCS.
pub(crate) fn write_frame(
    source_mac: [u8; 6],
    destination_mac: [u8; 6],
    source: Ipv4Addr,
    destination: Ipv4Addr,
    dscp: u8,
    queue_pair: u32,
    psn: u32,
) -> Vec<u8> {
    let addresses = Addresses::V4 {
        src: source,
        dst: destination,
    };
    let mut headers = FlowHeaders::new(source_mac, destination_mac, addresses);
    headers.dscp = dscp;
    let reth = Reth {
        virtual_address: 0x1000,
        rkey: 1,
        dma_len: PAYLOAD_BYTES as u32,
    };
    let packet = RocePacket {
        headers: &headers,
        bth: BthFields::new(Opcode::RcWriteOnly, queue_pair, psn),
        extensions: &[Extension::Reth(reth)],
    };
    let mut frame = vec![0; packet.frame_len(PAYLOAD_BYTES)];
    packet
        .emit(&mut frame, PAYLOAD_BYTES, |payload| payload.fill(0x5a))
        .expect("the buffer has the length of the frame");
    frame
}
