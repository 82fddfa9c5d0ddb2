//! Address learning from an external source.

use super::Switch;
use crate::bridge::Mac;
use crate::ids::PortId;
use xoff_units::Picos;
use xoff_wire::parse::VlanTag;

impl Switch {
    /// Learns that `station` is at `port`, as if a frame from it had arrived there. The VLAN is the one of a
    /// frame with tag `tag` at port `seen_on`. Returns false if no such VLAN exists.
    pub fn learn(
        &mut self,
        now: Picos,
        station: [u8; 6],
        port: PortId,
        seen_on: PortId,
        tag: Option<VlanTag>,
    ) -> bool {
        let (port, seen_on) = (self.lags.logical(port), self.lags.logical(seen_on));
        let vlan = self.vlans.ingress(seen_on, tag);
        if let Some(vlan) = vlan {
            self.fdb.learn(now, vlan, Mac::of_octets(station), port);
        }
        vlan.is_some()
    }
}
