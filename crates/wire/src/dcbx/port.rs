//! The neighbours of a port and the lifetime of their information.

use super::mismatch::Mismatch;
use super::resolve::{DcbxConfiguration, Operational, Peer};
use crate::lldp::{ChassisId, DcbxTlvs, EtsRecommendation, PortId, ReceivedLldpdu};

/// Largest number of neighbours with DCBX that a port remembers. Two neighbours already disable the negotiation.
const NEIGHBOURS_MAX: usize = 16;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The number of neighbours with DCBX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// No neighbour sends DCBX TLVs.
    None,
    /// One neighbour sends DCBX TLVs. The negotiation is active.
    One,
    /// Several neighbours send DCBX TLVs. The negotiation is inactive.
    Several,
}

/// The DCBX information of a neighbour.
#[derive(Clone, Debug)]
struct Neighbour {
    chassis_id: ChassisId,
    port_id: PortId,
    mac: [u8; 6],
    tlvs: DcbxTlvs,
    expiry_ns: u64,
}

/// The DCBX state of a port.
#[derive(Clone, Debug)]
pub struct DcbxPort {
    mac: [u8; 6],
    configuration: DcbxConfiguration,
    neighbours: Vec<Neighbour>,
}

impl DcbxPort {
    /// Returns a port without neighbours. `mac` is the MAC address of the port.
    pub fn new(mac: [u8; 6], configuration: DcbxConfiguration) -> DcbxPort {
        DcbxPort {
            mac,
            configuration,
            neighbours: Vec::new(),
        }
    }

    /// Returns the configuration of the port by its administrator.
    pub fn configuration(&self) -> &DcbxConfiguration {
        &self.configuration
    }

    /// Changes the configuration of the port by its administrator.
    pub fn set_configuration(&mut self, configuration: DcbxConfiguration) {
        self.configuration = configuration;
    }

    /// Processes a received LLDP frame. `now_ns` is the current time in nanoseconds.
    ///
    /// The TLVs of the frame replace the earlier TLVs of the same neighbour. A rejected DCBX TLV has the effect
    /// of a missing TLV: the port uses its own configuration of the attribute. A frame without DCBX TLVs and a
    /// shutdown LLDPDU remove the neighbour.
    pub fn receive(&mut self, now_ns: u64, received: &ReceivedLldpdu) {
        self.advance(now_ns);
        let pdu = &received.pdu;
        let is_same = |neighbour: &Neighbour| {
            (&neighbour.chassis_id, &neighbour.port_id) == (&pdu.chassis_id, &pdu.port_id)
        };
        self.neighbours.retain(|neighbour| !is_same(neighbour));
        if pdu.is_shutdown() || pdu.dcbx.is_empty() || self.neighbours.len() == NEIGHBOURS_MAX {
            return;
        }
        self.neighbours.push(Neighbour {
            chassis_id: pdu.chassis_id.clone(),
            port_id: pdu.port_id.clone(),
            mac: received.source,
            tlvs: pdu.dcbx.clone(),
            expiry_ns: now_ns.saturating_add(u64::from(pdu.ttl_s) * NANOS_PER_SECOND),
        });
    }

    /// Removes the neighbours whose time to live has expired at `now_ns`.
    pub fn advance(&mut self, now_ns: u64) {
        self.neighbours.retain(|neighbour| neighbour.expiry_ns > now_ns);
    }

    /// Removes all neighbours. The caller does this when the link goes down.
    pub fn remove_neighbours(&mut self) {
        self.neighbours.clear();
    }

    /// Returns the time in nanoseconds when the information of a neighbour expires next.
    pub fn next_expiry_ns(&self) -> Option<u64> {
        self.neighbours.iter().map(|neighbour| neighbour.expiry_ns).min()
    }

    /// Returns the number of neighbours with DCBX.
    pub fn neighbour_state(&self) -> NeighbourState {
        match self.neighbours.len() {
            0 => NeighbourState::None,
            1 => NeighbourState::One,
            _ => NeighbourState::Several,
        }
    }

    /// Returns the configuration that the port uses, and its differences from the neighbour.
    pub fn operational(&self) -> Operational {
        match self.neighbours.as_slice() {
            [] => Operational::local(&self.configuration),
            [Neighbour { mac, tlvs, .. }] => {
                Operational::with_peer(self.mac, &self.configuration, Peer { mac: *mac, tlvs })
            }
            several => Operational {
                mismatches: vec![Mismatch::SeveralNeighbours(several.len())],
                ..Operational::local(&self.configuration)
            },
        }
    }

    /// Returns the TLVs that the port sends: the operational configuration, with the willing bits, capabilities,
    /// recommendation and application priorities of the administrator.
    pub fn tlvs_to_send(&self) -> DcbxTlvs {
        let operational = self.operational();
        let DcbxConfiguration {
            mut pfc,
            mut ets,
            ets_recommendation,
            applications,
            queue_of_priority: _,
        } = self.configuration.clone();
        pfc.enabled = operational.pfc_enabled;
        ets.tables = operational.ets;
        DcbxTlvs {
            ets_configuration: Some(ets),
            ets_recommendation: ets_recommendation.map(|tables| EtsRecommendation { tables }),
            pfc: Some(pfc),
            applications: (!applications.is_empty()).then_some(applications),
        }
    }
}
