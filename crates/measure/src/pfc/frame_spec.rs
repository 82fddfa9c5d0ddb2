//! Builds MAC control frames of any form.

use xoff_wire::mac_control::{DESTINATION, FRAME_LEN, OPCODE_PAUSE, OPCODE_PFC};
use xoff_wire::{ETHERNET_LEN, ETHERTYPE_MAC_CONTROL, Pfc, VlanTag};

/// Length of the longest frame in bytes, without FCS.
pub const FRAME_LEN_MAX: usize = 9_216;

/// The bytes of a MAC control frame after the opcode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameParameters {
    /// Parameters of a PFC frame.
    Pfc {
        /// Class-enable vector. Bit *n* enables `quanta[n]`. The high byte is reserved and should be 0.
        enable: u16,
        /// Pause time of each class in quanta.
        quanta: [u16; 8],
    },
    /// Parameter of an 802.3x PAUSE frame.
    Pause {
        /// Pause time in quanta.
        quanta: u16,
    },
    /// Any bytes.
    Bytes(Vec<u8>),
}

/// A MAC control frame to send. Each field can have any value, so the frame can be malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlFrameSpec {
    /// Destination address, 01:80:c2:00:00:01 in a valid frame.
    pub destination: [u8; 6],
    /// Source address: the MAC address of the sending port.
    pub source: [u8; 6],
    /// VLAN tag. A valid frame has none.
    pub tag: Option<VlanTag>,
    /// Ethertype, 0x8808 in a valid frame.
    pub ethertype: u16,
    /// Opcode: 0x0101 for PFC, 0x0001 for PAUSE.
    pub opcode: u16,
    /// The bytes after the opcode.
    pub parameters: FrameParameters,
    /// Length of the frame in bytes, without FCS, 14 to [`FRAME_LEN_MAX`]. A shorter frame is padded, and a
    /// longer one is cut. A valid frame has 60 bytes.
    pub frame_len: usize,
    /// Value of the padding bytes, 0 in a valid frame.
    pub padding: u8,
}

impl ControlFrameSpec {
    /// Returns a valid PFC frame.
    pub fn pfc(source: [u8; 6], pfc: Pfc) -> ControlFrameSpec {
        let parameters = FrameParameters::Pfc {
            enable: u16::from(pfc.enable),
            quanta: pfc.quanta,
        };
        ControlFrameSpec::valid(source, OPCODE_PFC, parameters)
    }

    /// Returns a valid PAUSE frame.
    pub fn pause(source: [u8; 6], quanta: u16) -> ControlFrameSpec {
        ControlFrameSpec::valid(source, OPCODE_PAUSE, FrameParameters::Pause { quanta })
    }

    fn valid(source: [u8; 6], opcode: u16, parameters: FrameParameters) -> ControlFrameSpec {
        ControlFrameSpec {
            destination: DESTINATION,
            source,
            tag: None,
            ethertype: ETHERTYPE_MAC_CONTROL,
            opcode,
            parameters,
            frame_len: FRAME_LEN,
            padding: 0,
        }
    }

    /// Returns the same frame with all pause times 0, which ends the pauses.
    #[must_use]
    pub fn resume(&self) -> ControlFrameSpec {
        let parameters = match self.parameters {
            FrameParameters::Pfc { enable, .. } => FrameParameters::Pfc {
                enable,
                quanta: [0; 8],
            },
            FrameParameters::Pause { .. } => FrameParameters::Pause { quanta: 0 },
            FrameParameters::Bytes(ref bytes) => FrameParameters::Bytes(bytes.clone()),
        };
        ControlFrameSpec {
            parameters,
            ..self.clone()
        }
    }

    /// Returns the bytes of the frame without FCS.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.frame_len.max(FRAME_LEN));
        bytes.extend_from_slice(&self.destination);
        bytes.extend_from_slice(&self.source);
        if let Some(tag) = self.tag {
            bytes.extend_from_slice(&tag.tpid.to_be_bytes());
            bytes.extend_from_slice(&tag.tci.to_be_bytes());
        }
        bytes.extend_from_slice(&self.ethertype.to_be_bytes());
        bytes.extend_from_slice(&self.opcode.to_be_bytes());
        match &self.parameters {
            FrameParameters::Pfc { enable, quanta } => {
                bytes.extend_from_slice(&enable.to_be_bytes());
                bytes.extend(quanta.iter().flat_map(|quanta| quanta.to_be_bytes()));
            }
            FrameParameters::Pause { quanta } => bytes.extend_from_slice(&quanta.to_be_bytes()),
            FrameParameters::Bytes(parameters) => bytes.extend_from_slice(parameters),
        }
        bytes.resize(self.frame_len.clamp(ETHERNET_LEN, FRAME_LEN_MAX), self.padding);
        bytes
    }
}
