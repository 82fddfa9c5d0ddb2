//! VLAN membership: which VLAN a frame arrives in, which ports it may leave by, and with which tag.

use crate::config::{Attachment, Bridging, SwitchConfig, Tagging, VlanConfig};
use crate::ids::LogicalPort;
use xoff_wire::parse::VlanTag;
use xoff_wire::vlan::TPID_CTAG;

/// What happens to a frame's outer tag on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagEdit {
    /// It leaves as it came.
    Keep,
    /// The outer tag goes.
    Pop,
    /// A tag with this TPID and TCI comes in front.
    Push { tpid: u16, tci: u16 },
    /// The outer tag is overwritten.
    Rewrite { tpid: u16, tci: u16 },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PortVlans {
    tpid: u16,
    /// VLAN of untagged frames.
    untagged: Option<u16>,
    /// Membership by VLAN id, sorted.
    member_of: Vec<(u16, Tagging)>,
}

/// Membership of all ports and LAGs, or none where no VLAN is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VlanTable {
    /// No VLAN is configured: all that is not routed is one bridge, blind to tags.
    transparent: bool,
    ports: Vec<PortVlans>,
    /// Ports of each VLAN, sorted by VLAN id; with id 0 all ports of the transparent bridge.
    members: Vec<(u16, Vec<LogicalPort>)>,
}

impl VlanTable {
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
            transparent: config.bridging == Bridging::Transparent,
            ports: ports.collect(),
            members: Vec::new(),
        };
        match &config.bridging {
            Bridging::Transparent => table.members.push((0, bridged(config))),
            Bridging::Vlans(vlans) => table.enter(vlans),
        }
        table
    }

    fn enter(&mut self, vlans: &[VlanConfig]) {
        for vlan in vlans {
            for member in &vlan.members {
                let port = &mut self.ports[usize::from(member.port)];
                port.member_of.push((vlan.id, member.tagging));
                if member.tagging != Tagging::Tagged {
                    port.untagged = Some(vlan.id);
                }
            }
            let mut list: Vec<LogicalPort> = vlan.members.iter().map(|m| LogicalPort(m.port)).collect();
            list.sort_unstable();
            self.members.push((vlan.id, list));
        }
        self.ports
            .iter_mut()
            .for_each(|p| p.member_of.sort_unstable_by_key(|(id, _)| *id));
        self.members.sort_unstable_by_key(|(id, _)| *id);
    }

    /// The VLAN of a frame that arrives on `port`, 0 in the transparent bridge; `None` if the port is not in it.
    #[inline]
    pub(crate) fn ingress(&self, port: LogicalPort, tag: Option<VlanTag>) -> Option<u16> {
        if self.transparent {
            return Some(0);
        }
        self.ports[port.index()].ingress(tag)
    }

    /// Whether a tag is one to this port: of its TPID.
    #[inline]
    pub(crate) fn recognises(&self, port: LogicalPort, tag: Option<VlanTag>) -> bool {
        tag.is_some_and(|tag| tag.tpid == self.ports[port.index()].tpid)
    }

    /// Whether a frame on a port without VLANs is welcome: untagged, or with a tag that has only a priority.
    #[inline]
    pub(crate) fn untagged(&self, port: LogicalPort, tag: Option<VlanTag>) -> bool {
        tag.is_none_or(|tag| tag.tpid == self.ports[port.index()].tpid && tag.vid() == 0)
    }

    /// The ports of a VLAN.
    pub(crate) fn members(&self, vlan: u16) -> &[LogicalPort] {
        match self.members.binary_search_by_key(&vlan, |(id, _)| *id) {
            Ok(found) => &self.members[found].1,
            Err(_) => &[],
        }
    }

    /// How a frame of `vlan` that came in on `from` with `tag` leaves `to`; `None` if `to` is not in the VLAN.
    #[inline]
    pub(crate) fn egress(
        &self,
        from: LogicalPort,
        to: LogicalPort,
        vlan: u16,
        tag: Option<VlanTag>,
    ) -> Option<TagEdit> {
        if self.transparent {
            return Some(TagEdit::Keep);
        }
        self.ports[from.index()].edit_towards(&self.ports[to.index()], vlan, tag)
    }

    /// How a packet that came in on `from` with `tag` and is routed out of a port of its own, without any VLAN, leaves.
    #[inline]
    pub(crate) fn untagged_egress(&self, from: LogicalPort, tag: Option<VlanTag>) -> TagEdit {
        match tag.filter(|tag| tag.tpid == self.ports[from.index()].tpid) {
            Some(_) => TagEdit::Pop,
            None => TagEdit::Keep,
        }
    }

    /// How a frame of the switch's own, untagged so far, leaves `to` in `vlan`; `None` if `to` is not in the VLAN.
    pub(crate) fn own_egress(&self, to: LogicalPort, vlan: u16) -> Option<TagEdit> {
        self.egress(to, to, vlan, None)
    }
}

/// What the transparent bridge connects: ports and LAGs that are not routed, and no members of LAGs.
fn bridged(config: &SwitchConfig) -> Vec<LogicalPort> {
    let ports = config.ports.len();
    let logical = |attachment: &Attachment| match *attachment {
        Attachment::Port(port) => Some(usize::from(port)),
        Attachment::Lag(lag) => Some(ports + usize::from(lag)),
        Attachment::Vlan(_) | Attachment::Loopback => None,
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
    fn ingress(&self, tag: Option<VlanTag>) -> Option<u16> {
        match tag.filter(|t| t.tpid == self.tpid).map(VlanTag::vid) {
            None | Some(0) => self.untagged,
            Some(vid) => self.tagging(vid).map(|_| vid),
        }
    }

    fn edit_towards(&self, to: &PortVlans, vlan: u16, tag: Option<VlanTag>) -> Option<TagEdit> {
        let tag = tag.filter(|t| t.tpid == self.tpid);
        let tagging = to.tagging(vlan)?;
        // Priority and drop eligibility travel on; an untagged frame has none.
        let priority = tag.map_or(0, |t| t.tci & 0xf000);
        let wanted = match tagging {
            Tagging::Untagged => None,
            Tagging::Tagged => Some(VlanTag {
                tpid: to.tpid,
                tci: priority | vlan,
            }),
            Tagging::PriorityTagged => Some(VlanTag {
                tpid: to.tpid,
                tci: priority,
            }),
        };
        Some(match (tag, wanted) {
            (None, None) => TagEdit::Keep,
            (Some(_), None) => TagEdit::Pop,
            (None, Some(VlanTag { tpid, tci })) => TagEdit::Push { tpid, tci },
            (Some(old), Some(new)) if old == new => TagEdit::Keep,
            (Some(_), Some(VlanTag { tpid, tci })) => TagEdit::Rewrite { tpid, tci },
        })
    }

    fn tagging(&self, vlan: u16) -> Option<Tagging> {
        let found = self.member_of.binary_search_by_key(&vlan, |(id, _)| *id).ok()?;
        Some(self.member_of[found].1)
    }
}
