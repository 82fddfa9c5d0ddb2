//! Address learning from an external source.

use super::Switch;
use crate::bridge::MacAddress;
use crate::ids::PortId;
use xoff_units::Picos;
use xoff_wire::parse::VlanTag;

impl Switch {
    /// Learns that `station` is at `port`, as if a frame from this station had arrived at the port. The VLAN
    /// is the VLAN of a frame with tag `tag` at port `seen_on`. Returns false if no such VLAN exists.
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
