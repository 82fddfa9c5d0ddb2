//! VLAN membership: the VLAN of a received frame, the ports through which it may leave, and its tag
//! at egress.

use crate::config::{BridgingConfig, InterfaceAttachment, SwitchConfig, TaggingMode, VlanConfig};
use crate::ids::LogicalPort;
use xoff_wire::parse::VlanTag;
use xoff_wire::vlan::TPID_CTAG;

/// Change of a frame's outer VLAN tag at egress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VlanTagAction {
    /// The frame is not changed.
    Keep,
    /// The outer tag is removed.
    Pop,
    /// A tag with this TPID and this tag control information (TCI) is inserted.
    Push { tpid: u16, tci: u16 },
    /// The outer tag is replaced by a tag with these values.
    Rewrite { tpid: u16, tci: u16 },
}

/// VLANs of one port or LAG.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PortVlans {
    tpid: u16,
    /// VLAN of received frames without a tag. `None` if such frames are not accepted.
    untagged: Option<u16>,
    /// VLAN ids of the port and its tagging mode in each VLAN, sorted by id.
    memberships: Vec<(u16, TaggingMode)>,
}

/// VLAN membership of all ports and LAGs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VlanTable {
    /// True if no VLAN is configured. All ports that are not routed then form one bridge. This bridge ignores
    /// VLAN tags.
    transparent: bool,
    ports: Vec<PortVlans>,
    /// Ports and LAGs of each VLAN, sorted by VLAN id. The entry with id 0 contains the ports and LAGs of the
    /// transparent bridge.
    members: Vec<(u16, Vec<LogicalPort>)>,
}

impl VlanTable {
    /// Builds the table of a configuration.
    pub(crate) fn new(config: &SwitchConfig) -> VlanTable {
        let tpids = config.ports.iter().map(|port| port.tpid);
        let lag_tpids = config.lags.iter().map(|lag| match lag.members.first() {
            Some(&member) => config.ports[usize::from(member)].tpid,
            None => TPID_CTAG,
        });
        let ports = tpids.chain(lag_tpids).map(|tpid| PortVlans {
            tpid,
            ..PortVlans::default()
        });
        let mut table = VlanTable {
            transparent: config.bridging == BridgingConfig::Transparent,
            ports: ports.collect(),
            members: Vec::new(),
        };
        match &config.bridging {
            BridgingConfig::Transparent => table.members.push((0, transparent_bridge_ports(config))),
            BridgingConfig::Vlans(vlans) => table.add_vlans(vlans),
        }
        table
    }

    /// Returns whether at least one port or LAG belongs to a bridge.
    pub(crate) fn has_members(&self) -> bool {
        self.members.iter().any(|(_, ports)| !ports.is_empty())
    }

    /// Adds the members of VLANs.
    fn add_vlans(&mut self, vlans: &[VlanConfig]) {
        for vlan in vlans {
            for member in &vlan.members {
                let port = &mut self.ports[usize::from(member.port)];
                port.memberships.push((vlan.id, member.tagging));
                if member.tagging != TaggingMode::Tagged {
                    port.untagged = Some(vlan.id);
                }
            }
            let mut list: Vec<LogicalPort> = vlan.members.iter().map(|m| LogicalPort(m.port)).collect();
            list.sort_unstable();
            self.members.push((vlan.id, list));
        }
        self.ports
            .iter_mut()
            .for_each(|p| p.memberships.sort_unstable_by_key(|(id, _)| *id));
        self.members.sort_unstable_by_key(|(id, _)| *id);
    }

    /// Returns the VLAN of a frame that arrives on `port`. The result is 0 in the transparent bridge. Returns
    /// `None` if the port is not a member of the VLAN, or has no VLAN for untagged frames.
    #[inline]
    pub(crate) fn ingress_vlan(&self, port: LogicalPort, tag: Option<VlanTag>) -> Option<u16> {
        if self.transparent {
            return Some(0);
        }
        self.ports[port.index()].ingress_vlan(tag)
    }

    /// Returns true if the port treats this tag as a VLAN tag. This is the case if the port and the tag have
    /// the same TPID.
    #[inline]
    pub(crate) fn recognises_tag(&self, port: LogicalPort, tag: Option<VlanTag>) -> bool {
        tag.is_some_and(|tag| tag.tpid == self.ports[port.index()].tpid)
    }

    /// Returns true if a routed port accepts a frame with this tag. A routed port accepts frames without a
    /// VLAN: untagged and priority-tagged frames.
    #[inline]
    pub(crate) fn accepts_without_vlan(&self, port: LogicalPort, tag: Option<VlanTag>) -> bool {
        tag.is_none_or(|tag| tag.tpid == self.ports[port.index()].tpid && tag.vid() == 0)
    }

    /// Returns the ports and LAGs of a VLAN. The list is empty if the VLAN does not exist.
    pub(crate) fn members(&self, vlan: u16) -> &[LogicalPort] {
        match self.members.binary_search_by_key(&vlan, |(id, _)| *id) {
            Ok(found) => &self.members[found].1,
            Err(_) => &[],
        }
    }

    /// Returns how the tag of a frame of `vlan` must change. The frame arrived on `from` with `tag` and
    /// leaves through `to`. Returns `None` if `to` is not a member of the VLAN.
    #[inline]
    pub(crate) fn egress_tag_action(
        &self,
        from: LogicalPort,
        to: LogicalPort,
        vlan: u16,
        tag: Option<VlanTag>,
    ) -> Option<VlanTagAction> {
        if self.transparent {
            return Some(VlanTagAction::Keep);
        }
        self.ports[from.index()].tag_action_towards(&self.ports[to.index()], vlan, tag)
    }

    /// Returns how the tag of a routed packet must change. The packet arrived on `from` with `tag` and leaves
    /// through a routed port.
    #[inline]
    pub(crate) fn routed_port_egress(&self, from: LogicalPort, tag: Option<VlanTag>) -> VlanTagAction {
        match tag.filter(|tag| tag.tpid == self.ports[from.index()].tpid) {
            Some(_) => VlanTagAction::Pop,
            None => VlanTagAction::Keep,
        }
    }

    /// Returns how the tag of an untagged frame from the switch itself must change. The frame leaves through
    /// `to` in `vlan`. Returns `None` if `to` is not a member of the VLAN.
    pub(crate) fn originated_frame_egress(&self, to: LogicalPort, vlan: u16) -> Option<VlanTagAction> {
        self.egress_tag_action(to, to, vlan, None)
    }
}

/// Returns the ports of the transparent bridge: all LAGs and single ports that are not routed.
fn transparent_bridge_ports(config: &SwitchConfig) -> Vec<LogicalPort> {
    let ports = config.ports.len();
    let logical = |attachment: &InterfaceAttachment| match *attachment {
        InterfaceAttachment::Port(port) => Some(usize::from(port)),
        InterfaceAttachment::Lag(lag) => Some(ports + usize::from(lag)),
        InterfaceAttachment::Vlan(_) | InterfaceAttachment::Loopback => None,
    };
    let mut taken = vec![false; ports + config.lags.len()];
    let routed = config.routing.interfaces.iter();
    let aggregated = config.lags.iter().flat_map(|lag| &lag.members);
    routed
        .filter_map(|interface| logical(&interface.attachment))
        .chain(aggregated.map(|&port| usize::from(port)))
        .for_each(|index| taken[index] = true);
    let free = (0..taken.len()).filter(|&index| !taken[index]);
    free.map(|index| LogicalPort(index as u16)).collect()
}

impl PortVlans {
    /// Returns the VLAN of a received frame. Returns `None` if the port does not accept the frame.
    fn ingress_vlan(&self, tag: Option<VlanTag>) -> Option<u16> {
        match tag.filter(|t| t.tpid == self.tpid).map(VlanTag::vid) {
            None | Some(0) => self.untagged,
            Some(vid) => self.tagging_in_vlan(vid).map(|_| vid),
        }
    }

    /// Returns the change of the tag between this ingress port and the egress port `to`. Returns `None` if
    /// `to` is not a member of the VLAN.
    fn tag_action_towards(&self, to: &PortVlans, vlan: u16, tag: Option<VlanTag>) -> Option<VlanTagAction> {
        let tag = tag.filter(|t| t.tpid == self.tpid);
        let tagging = to.tagging_in_vlan(vlan)?;
        // The priority and the drop eligible indicator are kept. They are 0 for an untagged frame.
        let priority = tag.map_or(0, |t| t.tci & 0xf000);
        let wanted = match tagging {
            TaggingMode::Untagged => None,
            TaggingMode::Tagged => Some(VlanTag {
                tpid: to.tpid,
                tci: priority | vlan,
            }),
            TaggingMode::PriorityTagged => Some(VlanTag {
                tpid: to.tpid,
                tci: priority,
            }),
        };
        Some(match (tag, wanted) {
            (None, None) => VlanTagAction::Keep,
            (Some(_), None) => VlanTagAction::Pop,
            (None, Some(VlanTag { tpid, tci })) => VlanTagAction::Push { tpid, tci },
            (Some(old), Some(new)) if old == new => VlanTagAction::Keep,
            (Some(_), Some(VlanTag { tpid, tci })) => VlanTagAction::Rewrite { tpid, tci },
        })
    }

    /// Returns the tagging mode of the port in a VLAN. Returns `None` if the port is not a member.
    fn tagging_in_vlan(&self, vlan: u16) -> Option<TaggingMode> {
        let found = self.memberships.binary_search_by_key(&vlan, |(id, _)| *id).ok()?;
        Some(self.memberships[found].1)
    }
}
