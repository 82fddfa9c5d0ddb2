//! Address learning without a received frame, and reports of addresses that move between ports too often.

use super::Switch;
use crate::bridge::{FrequentMove, MacAddress};
use crate::ids::{LogicalPort, PortId};
use crate::outputs::{Outputs, SwitchEvent, SwitchEventKind};
use xoff_units::Picos;
use xoff_wire::parse::VlanTag;

impl Switch {
    /// Learns that `station` is behind `port`, as if a frame from this station had arrived at the port. The
    /// VLAN is the VLAN that a frame with the tag `tag` gets at port `seen_on`. Returns false, and learns
    /// nothing, if port `seen_on` accepts no such frame.
    pub fn learn_address(
        &mut self,
        now: Picos,
        station: [u8; 6],
        port: PortId,
        seen_on: PortId,
        tag: Option<VlanTag>,
    ) -> bool {
        let (port, seen_on) = (self.lags.logical_port(port), self.lags.logical_port(seen_on));
        let vlan = self.vlans.ingress_vlan(seen_on, tag);
        if let Some(vlan) = vlan {
            self.fdb.learn(now, vlan, MacAddress::from_bytes(station), port);
        }
        vlan.is_some()
    }

    /// Adds an event for an address that moves too often. The present frame of the address arrived on `port`.
    #[cold]
    pub(super) fn report_frequent_move(
        &self,
        now: Picos,
        port: PortId,
        moved: &FrequentMove,
        outputs: &mut Outputs,
    ) {
        let kind = SwitchEventKind::MacMoves {
            address: moved.address.to_bytes(),
            vlan: moved.vlan,
            ports: [self.first_port_of(moved.from), port],
        };
        outputs.events.push(SwitchEvent { at: now, kind });
    }

    /// Returns the port of a logical port: the port itself, or the first member of a LAG.
    fn first_port_of(&self, logical: LogicalPort) -> PortId {
        let members = self.lags.lag_index(logical).map(|lag| self.lags.members(lag));
        let first = members.and_then(|members| members.first().copied());
        first.unwrap_or(PortId(logical.0))
    }
}
