//! Address learning without a received frame: a caller passes the address of a station to the switch.

use super::Switch;
use crate::bridge::MacAddress;
use crate::ids::PortId;
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
}
