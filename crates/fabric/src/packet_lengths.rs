//! Lengths of RoCEv2 packets on links.

use std::net::Ipv4Addr;

use xoff_wire::{Addresses, BthFields, FlowHeaders, Opcode, RocePacket};

use xoff_rdma::TelemetryFormat;

/// Lengths of RoCEv2 packets over IPv4 without a VLAN tag. The default has no telemetry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketLengths {
    /// Bytes of in-band telemetry in each data packet and in each acknowledgement.
    telemetry_bytes: u32,
}

impl PacketLengths {
    /// Creates the packet lengths for a telemetry format. `None`: packets have no telemetry.
    pub fn new(telemetry: Option<TelemetryFormat>) -> PacketLengths {
        PacketLengths {
            telemetry_bytes: telemetry.map_or(0, |format| u32::from(format.bytes)),
        }
    }

    /// Returns the length of a packet in bytes, as an Ethernet frame without FCS.
    ///
    /// The length includes the Ethernet, IPv4 and UDP headers, the BTH, the extension headers of
    /// `opcode`, the payload with padding, and the ICRC. Acknowledgements, and packets with payload,
    /// also include the telemetry. Use [`mac_len`](xoff_units::LinkTiming::mac_len) and
    /// [`wire_len`](xoff_units::LinkTiming::wire_len) to compute the bytes that the packet occupies on
    /// a link.
    pub fn frame_len(self, opcode: Opcode, payload_len: u32) -> u32 {
        let addresses = Addresses::V4 {
            src: Ipv4Addr::UNSPECIFIED,
            dst: Ipv4Addr::UNSPECIFIED,
        };
        let packet = RocePacket {
            headers: &FlowHeaders::new([0; 6], [0; 6], addresses),
            bth: BthFields::new(opcode, 0, 0),
            extensions: &[],
        };
        let has_telemetry = payload_len > 0 || opcode == Opcode::RcAcknowledge;
        let telemetry_bytes = if has_telemetry { self.telemetry_bytes } else { 0 };
        packet.frame_len(payload_len as usize) as u32 + telemetry_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_pad_and_telemetry_count() {
        let plain = PacketLengths::default();
        assert_eq!(plain.frame_len(Opcode::RcWriteMiddle, 1_000), 1_058);
        assert_eq!(plain.frame_len(Opcode::RcWriteOnly, 1_001), 1_058 + 16 + 4);
        assert_eq!(plain.frame_len(Opcode::RcAcknowledge, 0), 62);
        let hpcc = PacketLengths::new(Some(TelemetryFormat::default()));
        assert_eq!(hpcc.frame_len(Opcode::RcWriteMiddle, 1_000), 1_100);
        assert_eq!(hpcc.frame_len(Opcode::RcAcknowledge, 0), 104);
        assert_eq!(hpcc.frame_len(Opcode::RcReadRequest, 0), 74);
    }
}
