//! Negotiation of PFC and ETS between the two ends of a link: DCBX of IEEE 802.1Qaz (IEEE 802.1Q-2018 clause 38).
//!
//! [`DcbxPort`] is the state of one port. It does no I/O and has no clock: the caller passes received LLDP frames
//! and the time in nanoseconds, and reads the operational configuration ([`DcbxPort::operational`]) and the TLVs
//! to send ([`DcbxPort::tlvs_to_send`]).
//!
//! The rules of each attribute:
//!
//! - PFC is symmetric (38.4.2). If one end is willing, it uses the configuration of the other end. If both ends
//!   are willing, both use the configuration of the end with the lower MAC address. Otherwise each end uses
//!   its own configuration.
//! - ETS is asymmetric (38.4.1). A willing port uses the recommendation of its peer. Each direction is independent.
//! - Application priorities have no willing bit. Each end uses its own table, and differences are reported.
//!
//! A port uses its own configuration if it has no neighbour with DCBX or more than one, and for an attribute that
//! the neighbour does not send. A port does not adopt a configuration beyond its own capability, and no traffic classes
//! that split one of its queues. [`Operational::mismatches`] names every difference that remains.
//!
//! # Examples
//!
//! A willing port adopts the PFC configuration of its neighbour, until the information expires:
//!
//! ```
//! use xoff_wire::dcbx::{ConfigurationSource, DcbxConfiguration, DcbxPort};
//! use xoff_wire::lldp::{ChassisId, Lldpdu, PortId};
//!
//! let mut willing = DcbxConfiguration::default();
//! willing.pfc.is_willing = true;
//! let mut port = DcbxPort::new([2, 0, 0, 0, 0, 1], willing);
//!
//! let mut configuration = DcbxConfiguration::default();
//! configuration.pfc.enabled = 1 << 3;
//! let peer_mac = [2, 0, 0, 0, 0, 2];
//! let peer = DcbxPort::new(peer_mac, configuration);
//! let mut pdu = Lldpdu::new(ChassisId::mac(peer_mac), PortId::local("1"), 120);
//! pdu.dcbx = peer.tlvs_to_send();
//! let frame = pdu.to_frame(peer_mac).expect("the configuration is valid");
//!
//! port.receive(0, &Lldpdu::parse(&frame).expect("the frame is valid"));
//! let operational = port.operational();
//! assert_eq!((operational.pfc_enabled, operational.pfc_source), (1 << 3, ConfigurationSource::Peer));
//!
//! port.advance(port.next_expiry_ns().expect("the information expires"));
//! assert_eq!(port.operational().pfc_source, ConfigurationSource::Local);
//! ```

mod mismatch;
mod port;
mod resolve;

pub use mismatch::Mismatch;
pub use port::{DcbxPort, NeighbourState};
pub use resolve::{ConfigurationSource, DcbxConfiguration, Operational};

#[cfg(test)]
mod tests;
