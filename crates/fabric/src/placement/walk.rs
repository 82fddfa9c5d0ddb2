//! Follows the next hops of flows by the routes of a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use xoff_dataplane::config::InterfaceAttachment;
use xoff_dataplane::route::{FibEntry, NextHop};
use xoff_dataplane::{InterfaceId, PortId};

use super::PlannedFlow;
use crate::plan::{FabricPlan, LinkEnd};

/// Location of a flow during the placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowLocation {
    /// The flow is at the switch with this index.
    Switch(usize),
    /// The path has no further choice, or the route is unknown.
    Done,
}

/// A candidate next hop of a flow at a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Egress port. For a LAG, this is the first member port.
    pub(super) port: PortId,
    /// Index of the next switch.
    pub(super) next: usize,
    /// Speed of the link to the next switch in Mb/s.
    pub(super) up_mbps: u64,
    /// Speed of the links from the next switch towards the destination in Mb/s. If the destination is
    /// directly connected to the next switch, the value is [`u64::MAX`].
    pub(super) down_mbps: u64,
}

impl Candidate {
    /// Returns the lower of the two speeds.
    pub(super) fn speed(&self) -> u64 {
        self.up_mbps.min(self.down_mbps)
    }
}

/// Routes and links of a plan, and the meeting switches that are already known.
pub(super) struct RouteTracer<'a> {
    plan: &'a FabricPlan,
    peers: BTreeMap<LinkEnd, LinkEnd>,
    meets: BTreeMap<(usize, IpAddr), usize>,
}

impl RouteTracer<'_> {
    pub(super) fn new(plan: &FabricPlan) -> RouteTracer<'_> {
        let both = |link: &crate::LinkPlan| [(link.ends[0], link.ends[1]), (link.ends[1], link.ends[0])];
        RouteTracer {
            plan,
            peers: plan.links.iter().flat_map(both).collect(),
            meets: BTreeMap::new(),
        }
    }

    /// Returns the switch of the sending host, or `Done` if the host has no switch.
    pub(super) fn first_switch(&self, flow: &PlannedFlow) -> FlowLocation {
        match self.peers.get(&LinkEnd::Host(flow.from as u32)) {
            Some(LinkEnd::Switch { switch, .. }) => FlowLocation::Switch(*switch as usize),
            _ => FlowLocation::Done,
        }
    }

    /// Follows the route to the next switch with several next hops. Returns `Done` if no switch with several
    /// next hops follows.
    pub(super) fn next_choice(&self, at: FlowLocation, destination: IpAddr) -> FlowLocation {
        let FlowLocation::Switch(mut switch) = at else {
            return FlowLocation::Done;
        };
        for _ in 0..self.plan.switches.len() {
            let hops = self.next_hops_to(switch, destination);
            let mut nexts: Vec<usize> = hops
                .iter()
                .filter_map(|hop| self.next_switch(switch, *hop))
                .map(|(_, next)| next)
                .collect();
            if hops.len() > 1 && nexts.len() == hops.len() {
                return FlowLocation::Switch(switch);
            }
            match nexts.pop() {
                Some(next) if hops.len() == 1 => switch = next,
                _ => return FlowLocation::Done,
            }
        }
        FlowLocation::Done
    }

    /// Returns the candidate next hops of a switch, sorted by port. Next hops that are not switches are
    /// left out.
    pub(super) fn candidates(&self, switch: usize, destination: IpAddr) -> Vec<Candidate> {
        let candidate = |hop: NextHop| {
            let (port, next) = self.next_switch(switch, hop)?;
            let beyond = self.next_hops_to(next, destination);
            let down_mbps = match beyond.is_empty() {
                // The destination is connected to this switch.
                true => u64::MAX,
                false => beyond.iter().map(|hop| self.speed_mbps(next, *hop)).sum(),
            };
            Some(Candidate {
                port,
                next,
                up_mbps: self.speed_mbps(switch, hop),
                down_mbps,
            })
        };
        let mut candidates: Vec<Candidate> = self
            .next_hops_to(switch, destination)
            .into_iter()
            .filter_map(candidate)
            .collect();
        candidates.sort_by_key(|candidate| candidate.port);
        candidates
    }

    /// Returns the switch at which all paths from `switch` to the destination meet again. If the paths do not
    /// meet again, returns the last switch of one path.
    pub(super) fn path_merge_switch(&mut self, switch: usize, destination: IpAddr) -> usize {
        if let Some(known) = self.meets.get(&(switch, destination)) {
            return *known;
        }
        let found = self.find_path_merge_switch(switch, destination);
        self.meets.insert((switch, destination), found);
        found
    }

    fn find_path_merge_switch(&self, switch: usize, destination: IpAddr) -> usize {
        let mut front = BTreeSet::from([switch]);
        for step in 0..self.plan.switches.len() {
            if let Some(only) = front.first().filter(|_| step > 0 && front.len() == 1) {
                return *only;
            }
            let beyond = |at: &usize| {
                let hops = self.next_hops_to(*at, destination).into_iter();
                let nexts: Vec<usize> = hops
                    .filter_map(|hop| Some(self.next_switch(*at, hop)?.1))
                    .collect();
                nexts
            };
            let next: BTreeSet<usize> = front.iter().flat_map(beyond).collect();
            if next.is_empty() {
                break;
            }
            front = next;
        }
        front.first().copied().unwrap_or(switch)
    }

    /// Returns the next hops of a switch for a destination. The list is empty if the destination is in a
    /// connected network or has no route.
    fn next_hops_to(&self, switch: usize, destination: IpAddr) -> Vec<NextHop> {
        let fib = &self.plan.switches[switch].routing.fib;
        let hop = |id: xoff_dataplane::NextHopId| fib.next_hops()[id.index()];
        match fib.lookup(destination) {
            Some(FibEntry::NextHop(id)) => vec![hop(id)],
            Some(FibEntry::Group(group)) => {
                let members = fib.groups()[group.index()].members.iter();
                members.map(|(id, _)| hop(*id)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn ports_of_interface(&self, switch: usize, interface: InterfaceId) -> Vec<PortId> {
        let config = &self.plan.switches[switch];
        let interface = config.routing.interfaces.get(interface.index());
        match interface.map(|interface| interface.attachment) {
            Some(InterfaceAttachment::Port(port)) => vec![PortId(port)],
            Some(InterfaceAttachment::Lag(lag)) => {
                let members = config
                    .lags
                    .get(usize::from(lag))
                    .map(|lag| lag.members.as_slice());
                members
                    .unwrap_or_default()
                    .iter()
                    .map(|port| PortId(*port))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the port to a next hop and the switch at the other end. Returns `None` if no switch is
    /// connected there.
    fn next_switch(&self, switch: usize, hop: NextHop) -> Option<(PortId, usize)> {
        let port = *self.ports_of_interface(switch, hop.interface).first()?;
        let end = LinkEnd::Switch {
            switch: switch as u32,
            port: port.0,
        };
        match self.peers.get(&end) {
            Some(LinkEnd::Switch { switch, .. }) => Some((port, *switch as usize)),
            _ => None,
        }
    }

    /// Returns the speed towards a next hop in Mb/s. For a LAG, this is the sum of the member ports.
    fn speed_mbps(&self, switch: usize, hop: NextHop) -> u64 {
        let ports = &self.plan.switches[switch].ports;
        let of = |port: &PortId| {
            ports
                .get(port.index())
                .map_or(0, |port| u64::from(port.link.speed_mbps))
        };
        self.ports_of_interface(switch, hop.interface)
            .iter()
            .map(of)
            .sum()
    }
}
