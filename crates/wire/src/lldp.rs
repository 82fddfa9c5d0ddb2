//! LLDP (IEEE 802.1AB) with the DCBX TLVs of IEEE 802.1Qaz (IEEE 802.1Q-2018 annex D.2).
//!
//! [`Lldpdu`] is the contents of an LLDP frame: the mandatory TLVs, the basic management TLVs, the DCBX TLVs
//! ([`DcbxTlvs`]) and all other TLVs as bytes ([`RawTlv`]). [`Lldpdu::parse`] reads a frame, and
//! [`Lldpdu::to_frame`] writes one. The readers never panic.
//!
//! A received frame has three kinds of problems ([`TlvProblem`]), each with TLV, field, value and clause:
//!
//! - The frame is not valid as a whole, for example because a mandatory TLV is missing (IEEE 802.1AB 9.2.7.7.1).
//!   [`Lldpdu::parse`] returns the problem as its error.
//! - One optional TLV is malformed or contradicts itself. The receiver discards this TLV and uses the others.
//!   The problem is in [`ReceivedLldpdu::rejected`].
//! - A field has a value that the standard tells a receiver to ignore, such as a reserved bit. The problem is in
//!   [`ReceivedLldpdu::warnings`].
//!
//! [`write_tlvs`] writes any sequence of TLVs, so a test can also send malformed frames.
//! [`dcbx`](crate::dcbx) computes the operational configuration of a port from the TLVs of both sides.
//!
//! # Examples
//!
//! Write a frame that announces PFC on priority 3, and parse it:
//!
//! ```
//! use xoff_wire::lldp::{ChassisId, DcbxTlvs, Lldpdu, PfcConfiguration, PortId};
//!
//! let mut pdu = Lldpdu::new(ChassisId::mac([2, 0, 0, 0, 0, 1]), PortId::interface_name("Ethernet0"), 120);
//! pdu.dcbx.pfc = Some(PfcConfiguration {
//!     is_willing: false,
//!     can_bypass_macsec: false,
//!     capability: 8,
//!     enabled: 1 << 3,
//! });
//! let frame = pdu.to_frame([2, 0, 0, 0, 0, 1]).expect("all fields are in range");
//!
//! let received = Lldpdu::parse(&frame).expect("the frame is valid");
//! assert_eq!(received.pdu, pdu);
//! assert!(received.rejected.is_empty() && received.warnings.is_empty());
//! ```

mod application;
mod basic;
mod ets;
mod identifier;
mod parse;
mod pdu;
mod pfc;
mod problem;
mod tlv;

pub use application::{ApplicationEntry, ApplicationSelector};
pub use basic::{ManagementAddress, NetworkAddress, SystemCapabilities, capability};
pub use ets::{EtsConfiguration, EtsRecommendation, EtsTables, SelectionAlgorithm};
pub use identifier::{ChassisId, ChassisIdSubtype, PortId, PortIdSubtype};
pub use parse::ReceivedLldpdu;
pub use pdu::{DcbxTlvs, Lldpdu};
pub use pfc::PfcConfiguration;
pub use problem::TlvProblem;
pub use tlv::{RawTlv, TLV_LEN_MAX, kind, write_tlvs};

/// Ethertype of LLDP.
pub const ETHERTYPE: u16 = 0x88cc;
/// Destination address of LLDP frames: the group address of the nearest bridge (IEEE 802.1AB table 7-1). Bridges
/// do not forward it. DCBX uses this address only.
pub const DESTINATION: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];
/// Organisationally unique identifier of the TLVs of IEEE 802.1, which include the DCBX TLVs.
pub const OUI_IEEE_8021: [u8; 3] = [0x00, 0x80, 0xc2];

#[cfg(test)]
mod tests;
