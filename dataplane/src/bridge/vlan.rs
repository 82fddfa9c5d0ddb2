//! VLAN membership: which VLAN a frame arrives in, which ports it may leave by, and with which tag.

use crate::config::{Bridging, SwitchConfig, Tagging, VlanConfig};
use crate::ids::PortId;
use crate::parse::Tag;

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

/// Membership of all ports, or none where no VLAN is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VlanTable {
    /// `None`: one transparent bridge.
    ports: Option<Vec<PortVlans>>,
    /// Ports of each VLAN, sorted by VLAN id; with id 0 all ports of the transparent bridge.
    members: Vec<(u16, Vec<PortId>)>,
}

impl VlanTable {
    pub(crate) fn new(config: &SwitchConfig) -> VlanTable {
        match &config.bridging {
            Bridging::Transparent => {
                let all = (0..config.ports.len() as u16).map(PortId).collect();
                VlanTable {
                    ports: None,
                    members: vec![(0, all)],
                }
            }
            Bridging::Vlans(vlans) => VlanTable::aware(config, vlans),
        }
    }

    fn aware(config: &SwitchConfig, vlans: &[VlanConfig]) -> VlanTable {
        let mut ports: Vec<PortVlans> = config
            .ports
            .iter()
            .map(|p| PortVlans {
                tpid: p.tpid,
                ..PortVlans::default()
            })
            .collect();
        let mut members = Vec::with_capacity(vlans.len());
        for vlan in vlans {
            for member in &vlan.members {
                let port = &mut ports[usize::from(member.port)];
                port.member_of.push((vlan.id, member.tagging));
                if member.tagging != Tagging::Tagged {
                    port.untagged = Some(vlan.id);
                }
            }
            let mut list: Vec<PortId> = vlan.members.iter().map(|m| PortId(m.port)).collect();
            list.sort_unstable();
            members.push((vlan.id, list));
        }
        ports
            .iter_mut()
            .for_each(|p| p.member_of.sort_unstable_by_key(|(id, _)| *id));
        members.sort_unstable_by_key(|(id, _)| *id);
        VlanTable {
            ports: Some(ports),
            members,
        }
    }

    /// The VLAN of a frame that arrives on `port`, 0 in the transparent bridge; `None` if the port is not in it.
    #[inline]
    pub(crate) fn ingress(&self, port: PortId, tag: Option<Tag>) -> Option<u16> {
        match &self.ports {
            None => Some(0),
            Some(ports) => ports[port.index()].ingress(tag),
        }
    }

    /// The ports of a VLAN.
    pub(crate) fn members(&self, vlan: u16) -> &[PortId] {
        match self.members.binary_search_by_key(&vlan, |(id, _)| *id) {
            Ok(found) => &self.members[found].1,
            Err(_) => &[],
        }
    }

    /// How a frame of `vlan` that came in on `from` with `tag` leaves `to`; `None` if `to` is not in the VLAN.
    #[inline]
    pub(crate) fn egress(&self, from: PortId, to: PortId, vlan: u16, tag: Option<Tag>) -> Option<TagEdit> {
        match &self.ports {
            None => Some(TagEdit::Keep),
            Some(ports) => ports[from.index()].edit_towards(&ports[to.index()], vlan, tag),
        }
    }
}

impl PortVlans {
    fn ingress(&self, tag: Option<Tag>) -> Option<u16> {
        match tag.filter(|t| t.tpid == self.tpid).map(Tag::vid) {
            None | Some(0) => self.untagged,
            Some(vid) => self.tagging(vid).map(|_| vid),
        }
    }

    fn edit_towards(&self, to: &PortVlans, vlan: u16, tag: Option<Tag>) -> Option<TagEdit> {
        let tag = tag.filter(|t| t.tpid == self.tpid);
        let tagging = to.tagging(vlan)?;
        // Priority and drop eligibility travel on; an untagged frame has none.
        let priority = tag.map_or(0, |t| t.tci & 0xf000);
        let wanted = match tagging {
            Tagging::Untagged => None,
            Tagging::Tagged => Some(Tag {
                tpid: to.tpid,
                tci: priority | vlan,
            }),
            Tagging::PriorityTagged => Some(Tag {
                tpid: to.tpid,
                tci: priority,
            }),
        };
        Some(match (tag, wanted) {
            (None, None) => TagEdit::Keep,
            (Some(_), None) => TagEdit::Pop,
            (None, Some(Tag { tpid, tci })) => TagEdit::Push { tpid, tci },
            (Some(old), Some(new)) if old == new => TagEdit::Keep,
            (Some(_), Some(Tag { tpid, tci })) => TagEdit::Rewrite { tpid, tci },
        })
    }

    fn tagging(&self, vlan: u16) -> Option<Tagging> {
        let found = self.member_of.binary_search_by_key(&vlan, |(id, _)| *id).ok()?;
        Some(self.member_of[found].1)
    }
}
