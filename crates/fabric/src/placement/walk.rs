//! The ways that routes leave to flows.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use xoff_dataplane::config::Attachment;
use xoff_dataplane::route::{FibEntry, NextHop};
use xoff_dataplane::{InterfaceId, PortId};

use super::PlannedFlow;
use crate::plan::{End, FabricPlan};

/// Where a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// At a switch.
    Switch(usize),
    /// Where there is nothing more to choose, or nothing known.
    Done,
}

/// One of the ways that a switch has for a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// The port that it leaves by, of a LAG the first.
    pub(super) port: PortId,
    /// The switch there.
    pub(super) next: usize,
    /// Speed of the link to it.
    pub(super) up_mbps: u64,
    /// Speed of its links on towards the destination.
    pub(super) down_mbps: u64,
}

impl Way {
    /// The slower of its two links.
    pub(super) fn speed(&self) -> u64 {
        self.up_mbps.min(self.down_mbps)
    }
}

/// Routes and links of a plan.
pub(super) struct Walk<'a> {
    plan: &'a FabricPlan,
    peers: BTreeMap<End, End>,
    meets: BTreeMap<(usize, IpAddr), usize>,
}

impl Walk<'_> {
    pub(super) fn new(plan: &FabricPlan) -> Walk<'_> {
        let both = |link: &crate::LinkPlan| [(link.ends[0], link.ends[1]), (link.ends[1], link.ends[0])];
        Walk {
            plan,
            peers: plan.links.iter().flat_map(both).collect(),
            meets: BTreeMap::new(),
        }
    }

    /// The switch that a flow's sender is connected to.
    pub(super) fn begin(&self, flow: &PlannedFlow) -> At {
        match self.peers.get(&End::Host(flow.from as u32)) {
            Some(End::Switch { switch, .. }) => At::Switch(*switch as usize),
            _ => At::Done,
        }
    }

    /// Goes on to the next switch that has a choice.
    pub(super) fn to_choice(&self, at: At, destination: IpAddr) -> At {
        let At::Switch(mut switch) = at else {
            return At::Done;
        };
        for _ in 0..self.plan.switches.len() {
            let hops = self.hops(switch, destination);
            let mut nexts: Vec<usize> = hops
                .iter()
                .filter_map(|hop| self.next(switch, *hop))
                .map(|(_, next)| next)
                .collect();
            if hops.len() > 1 && nexts.len() == hops.len() {
                return At::Switch(switch);
            }
            match nexts.pop() {
                Some(next) if hops.len() == 1 => switch = next,
                _ => return At::Done,
            }
        }
        At::Done
    }

    /// The ways that a switch has, by port.
    pub(super) fn ways(&self, switch: usize, destination: IpAddr) -> Vec<Way> {
        let way = |hop: NextHop| {
            let (port, next) = self.next(switch, hop)?;
            let beyond = self.hops(next, destination);
            let down_mbps = match beyond.is_empty() {
                // The destination is there.
                true => u64::MAX,
                false => beyond.iter().map(|hop| self.speed(next, *hop)).sum(),
            };
            Some(Way {
                port,
                next,
                up_mbps: self.speed(switch, hop),
                down_mbps,
            })
        };
        let mut ways: Vec<Way> = self
            .hops(switch, destination)
            .into_iter()
            .filter_map(way)
            .collect();
        ways.sort_by_key(|way| way.port);
        ways
    }

    /// The switch at which all ways from this one to a destination meet again; the last one, if nothing before.
    pub(super) fn meets(&mut self, switch: usize, destination: IpAddr) -> usize {
        if let Some(known) = self.meets.get(&(switch, destination)) {
            return *known;
        }
        let found = self.look_ahead(switch, destination);
        self.meets.insert((switch, destination), found);
        found
    }

    fn look_ahead(&self, switch: usize, destination: IpAddr) -> usize {
        let mut front = BTreeSet::from([switch]);
        for step in 0..self.plan.switches.len() {
            if let Some(only) = front.first().filter(|_| step > 0 && front.len() == 1) {
                return *only;
            }
            let beyond = |at: &usize| {
                let hops = self.hops(*at, destination).into_iter();
                let nexts: Vec<usize> = hops.filter_map(|hop| Some(self.next(*at, hop)?.1)).collect();
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

    /// The routers that a switch has for a destination; none where that is its own network, or unknown.
    fn hops(&self, switch: usize, destination: IpAddr) -> Vec<NextHop> {
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

    fn ports(&self, switch: usize, interface: InterfaceId) -> Vec<PortId> {
        let config = &self.plan.switches[switch];
        let interface = config.routing.interfaces.get(interface.index());
        match interface.map(|interface| interface.attachment) {
            Some(Attachment::Port(port)) => vec![PortId(port)],
            Some(Attachment::Lag(lag)) => {
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

    /// The port towards a router, and the switch that it is.
    fn next(&self, switch: usize, hop: NextHop) -> Option<(PortId, usize)> {
        let port = *self.ports(switch, hop.interface).first()?;
        let end = End::Switch {
            switch: switch as u32,
            port: port.0,
        };
        match self.peers.get(&end) {
            Some(End::Switch { switch, .. }) => Some((port, *switch as usize)),
            _ => None,
        }
    }

    /// Mb/s towards a router.
    fn speed(&self, switch: usize, hop: NextHop) -> u64 {
        let ports = &self.plan.switches[switch].ports;
        let of = |port: &PortId| {
            ports
                .get(port.index())
                .map_or(0, |port| u64::from(port.link.speed_mbps))
        };
        self.ports(switch, hop.interface).iter().map(of).sum()
    }
}
