//! Traffic of the links of a fabric.

use xoff_dataplane::PortId;
use xoff_fabric::{Fabric, FabricPlan, LinkEnd};
use xoff_host::NicCounters;

/// Frames and bytes that one direction of a link has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkTraffic {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// Returns the traffic of both directions of each link since the creation of the fabric.
pub(super) fn traffic_of_links(fabric: &Fabric, plan: &FabricPlan) -> Vec<[LinkTraffic; 2]> {
    let sent = |end: LinkEnd| match end {
        LinkEnd::Switch { switch, port } => {
            let counters = fabric.port_counters(switch as usize, PortId(port));
            LinkTraffic {
                packets: counters.tx_packets,
                bytes: counters.tx_bytes,
            }
        }
        LinkEnd::Host(host) => LinkTraffic::of_nic(&fabric.nic_counters(host as usize)),
    };
    plan.links
        .iter()
        .map(|link| [sent(link.ends[0]), sent(link.ends[1])])
        .collect()
}

impl LinkTraffic {
    /// Returns the traffic that the NIC of a host has sent.
    pub(crate) fn of_nic(counters: &NicCounters) -> LinkTraffic {
        LinkTraffic {
            packets: counters.all_tx_frames(),
            bytes: counters.all_tx_bytes(),
        }
    }
}
