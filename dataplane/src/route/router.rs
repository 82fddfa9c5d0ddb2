//! Layer 3 of a switch: interfaces, the current generation of routes, the neighbours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;

use super::adjacency::Adjacency;
use super::limit::RateLimit;
use super::neighbour::{NeighbourId, Neighbours};
use super::paths::{PathTable, seeded};
use super::solicit::Question;
use super::{Entry, Fib, NextHop};
use crate::bridge::Mac;
use crate::config::{Attachment, InterfaceConfig, RoutingConfig, SwitchConfig};
use crate::ids::{GroupId, InterfaceId, LogicalPort, NextHopId};
use xoff_wire::rewrite::LinkAddresses;

/// Frames for the switch itself that it takes per second, and at once.
const CPU_FRAMES_PER_SECOND: u32 = 10_000;

/// Stations on link whose adjacencies are kept.
const ON_LINK: usize = 64;

/// A station on link, and what frames to it need.
#[derive(Clone, Copy, Debug)]
struct OnLink {
    of: (InterfaceId, u32),
    adjacency: Adjacency,
}

impl OnLink {
    const VOID: OnLink = OnLink {
        of: (InterfaceId(0), 0),
        adjacency: Adjacency::VOID,
    };
}

/// Where a station's adjacency is kept: by the product of its address with the golden ratio.
#[inline(always)]
fn on_link_place(address: u32) -> usize {
    (address.wrapping_mul(0x9e37_79b9) >> (u32::BITS - ON_LINK.ilog2())) as usize
}

/// A router interface at work.
#[derive(Debug)]
pub(crate) struct Interface {
    pub(crate) mac: Mac,
    /// The same as it lies in a frame.
    pub(crate) octets: [u8; 6],
    pub(crate) mtu: u32,
    pub(crate) attachment: Attachment,
    pub(crate) addresses: Vec<IpNet>,
    /// Something it stands on is up.
    pub(crate) up: bool,
}

impl Interface {
    fn new(config: &InterfaceConfig) -> Interface {
        Interface {
            mac: Mac::of_octets(config.mac),
            octets: config.mac,
            mtu: config.mtu,
            attachment: config.attachment,
            addresses: config.addresses.clone(),
            up: false,
        }
    }

    /// Whether an address is its own.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.addr() == address)
    }

    /// Whether another station's address belongs to one of its networks.
    pub(crate) fn on_link(&self, address: IpAddr) -> bool {
        let near = is_link_local(address) || self.addresses.iter().any(|own| own.contains(&address));
        near && !self.has(address)
    }

    /// How to ask for a station: from the address of its own network, or else from any of its family.
    pub(crate) fn question(&self, target: IpAddr) -> Option<Question> {
        let family = |own: &&IpNet| own.addr().is_ipv4() == target.is_ipv4();
        let near = self
            .addresses
            .iter()
            .filter(family)
            .find(|own| own.contains(&target));
        let source = near.or_else(|| self.addresses.iter().find(family))?.addr();
        match (source, target) {
            (IpAddr::V4(source), IpAddr::V4(target)) => Some(Question::Arp { source, target }),
            (IpAddr::V6(source), IpAddr::V6(target)) => Some(Question::Solicitation { source, target }),
            _ => None,
        }
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if Ipv6Addr::is_unicast_link_local(&v6))
}

/// What is found for a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    /// The switch itself.
    Local,
    /// A neighbour; `None`: the table of neighbours is full.
    Neighbour(InterfaceId, Option<NeighbourId>),
    /// Routers, and none can be reached now.
    Down,
    /// Nowhere.
    Blackhole,
}

#[derive(Debug)]
pub(crate) struct Router {
    interfaces: Vec<Interface>,
    by_logical: Vec<Option<InterfaceId>>,
    by_vlan: Vec<(u16, InterfaceId)>,
    pub(crate) fib: Arc<Fib>,
    paths: PathTable,
    resilient_buckets: Option<u16>,
    /// For each next hop of the FIB.
    hops: Vec<(InterfaceId, Option<NeighbourId>)>,
    /// For each of them, what is worked out when it is asked for.
    adjacencies: Vec<Adjacency>,
    /// Of stations that are no next hops of routes, by the hash of their addresses: the latest of each hash.
    on_link: Box<[OnLink; ON_LINK]>,
    pub(crate) neighbours: Neighbours,
    hash_seed: u64,
    pub(crate) icmp_limit: RateLimit,
    pub(crate) cpu_limit: RateLimit,
}

impl Router {
    /// All interfaces down.
    pub(crate) fn new(config: &SwitchConfig) -> Router {
        let routing = &config.routing;
        let mut router = Router {
            interfaces: Vec::new(),
            by_logical: Vec::new(),
            by_vlan: Vec::new(),
            fib: Arc::new(Fib::default()),
            paths: PathTable::new(&Fib::default(), None, |_| false),
            resilient_buckets: None,
            hops: Vec::new(),
            adjacencies: Vec::new(),
            on_link: Box::new([OnLink::VOID; ON_LINK]),
            neighbours: Neighbours::new(routing.neighbours_max, routing.hold_frames),
            hash_seed: 0,
            icmp_limit: RateLimit::new(0),
            cpu_limit: RateLimit::new(CPU_FRAMES_PER_SECOND),
        };
        router.configure(config);
        router
    }

    /// Interfaces that `config` changes, or that only the current configuration has: what is known behind them is void.
    pub(crate) fn changed_by(&self, config: &RoutingConfig) -> Vec<InterfaceId> {
        let same = |(index, old): &(usize, &Interface)| {
            let new = config.interfaces.get(*index);
            new.is_some_and(|new| new.attachment == old.attachment && new.addresses == old.addresses)
        };
        let all = self.interfaces.iter().enumerate();
        all.filter(|place| !same(place))
            .map(|(index, _)| InterfaceId(index as u16))
            .collect()
    }

    /// Takes a new configuration; routes are taken by [`Router::set_fib`].
    pub(crate) fn configure(&mut self, config: &SwitchConfig) {
        let routing = &config.routing;
        let was_up: Vec<bool> = self.interfaces.iter().map(|interface| interface.up).collect();
        self.interfaces = routing.interfaces.iter().map(Interface::new).collect();
        for (interface, up) in self.interfaces.iter_mut().zip(was_up) {
            interface.up = up;
        }
        self.by_logical = vec![None; config.ports.len() + config.lags.len()];
        self.by_vlan.clear();
        for (index, interface) in routing.interfaces.iter().enumerate() {
            let id = InterfaceId(index as u16);
            match interface.attachment {
                Attachment::Port(port) => self.by_logical[usize::from(port)] = Some(id),
                Attachment::Lag(lag) => self.by_logical[config.ports.len() + usize::from(lag)] = Some(id),
                Attachment::Vlan(vlan) => self.by_vlan.push((vlan, id)),
                Attachment::Loopback => {}
            }
        }
        self.by_vlan.sort_unstable();
        self.hash_seed = routing.hash_seed;
        self.icmp_limit = RateLimit::new(routing.icmp_errors_per_second);
        self.resilient_buckets = routing.resilient_buckets;
        self.neighbours
            .set_limits(routing.neighbours_max, routing.hold_frames);
        self.neighbours.untell_all();
        for told in &routing.neighbours {
            self.neighbours.tell(told.interface, told.address, told.mac);
        }
        self.neighbours.sweep();
        self.neighbours.changed();
    }

    /// Makes `fib` the current generation; returns the one before.
    pub(crate) fn set_fib(&mut self, fib: Arc<Fib>) -> Arc<Fib> {
        let old = core::mem::replace(&mut self.fib, fib);
        let (fib, interfaces) = (&self.fib, &self.interfaces);
        let live = |hop: NextHopId| up(interfaces, fib.next_hops()[hop.index()].interface);
        self.paths.succeed(&old, fib, self.resilient_buckets, live);
        self.neighbours.unpin_all();
        self.hops.clear();
        for hop in fib.next_hops() {
            let neighbour = self.neighbours.enter(hop.interface, hop.address);
            if let Some(id) = neighbour {
                self.neighbours.pin(id);
            }
            self.hops.push((hop.interface, neighbour));
        }
        self.adjacencies.clear();
        self.adjacencies.resize(self.hops.len(), Adjacency::VOID);
        self.neighbours.sweep();
        old
    }

    /// All interfaces.
    pub(crate) fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// What an interface stands on is up, or not; whether it was otherwise before.
    pub(crate) fn set_up(&mut self, id: InterfaceId, up: bool) -> bool {
        self.neighbours.changed();
        core::mem::replace(&mut self.interfaces[id.index()].up, up) != up
    }

    /// Some interface went up or down: chooses anew among the next hops that live.
    pub(crate) fn refresh_paths(&mut self) {
        let (fib, interfaces) = (&self.fib, &self.interfaces);
        let live = |hop: NextHopId| up(interfaces, fib.next_hops()[hop.index()].interface);
        self.paths.set_live(fib, live);
    }

    /// The next hops behind an interface.
    pub(crate) fn hops_behind(&self, interface: InterfaceId) -> Vec<NeighbourId> {
        let behind = self.hops.iter().filter(|(of, _)| *of == interface);
        behind.filter_map(|(_, neighbour)| *neighbour).collect()
    }

    /// The interface that a port or LAG is.
    #[inline]
    pub(crate) fn of_logical(&self, logical: LogicalPort) -> Option<InterfaceId> {
        self.by_logical[logical.index()]
    }

    /// The interface of a VLAN.
    #[inline]
    pub(crate) fn of_vlan(&self, vlan: u16) -> Option<InterfaceId> {
        if self.by_vlan.is_empty() {
            return None;
        }
        let found = self.by_vlan.binary_search_by_key(&vlan, |(id, _)| *id).ok()?;
        Some(self.by_vlan[found].1)
    }

    #[inline]
    pub(crate) fn interface(&self, id: InterfaceId) -> &Interface {
        &self.interfaces[id.index()]
    }

    /// Who is next on the way that `entry` says.
    #[inline]
    pub(crate) fn hop(&mut self, entry: Entry, destination: IpAddr, flow_hash: u32) -> Hop {
        let next_hop = match entry {
            Entry::NextHop(id) => Some(id),
            Entry::Group(group) => self.by_hash(group, flow_hash),
            Entry::Connected(interface) => {
                let known = self.neighbours.find(interface, destination);
                let neighbour = known.or_else(|| self.neighbours.enter(interface, destination));
                return Hop::Neighbour(interface, neighbour);
            }
            Entry::Local => return Hop::Local,
            Entry::Blackhole => return Hop::Blackhole,
        };
        match next_hop {
            Some(id) => {
                let (interface, neighbour) = self.via(id);
                Hop::Neighbour(interface, neighbour)
            }
            None => Hop::Down,
        }
    }

    /// The next hop of a group by the hash of a flow; `None`: none can be reached now.
    #[inline(always)]
    pub(crate) fn by_hash(&self, group: GroupId, flow_hash: u32) -> Option<NextHopId> {
        self.paths.select(group, seeded(flow_hash, self.hash_seed))
    }

    /// The next hop of a group whose member was chosen elsewhere.
    #[inline(always)]
    pub(crate) fn member(&self, group: GroupId, member: u16) -> NextHopId {
        self.fib.groups()[group.index()].members[usize::from(member)].0
    }

    /// Who a next hop is; no neighbour: their table is full.
    #[inline(always)]
    pub(crate) fn via(&self, id: NextHopId) -> (InterfaceId, Option<NeighbourId>) {
        self.hops[id.index()]
    }

    /// What a frame needs that goes to a next hop.
    #[inline(always)]
    pub(crate) fn adjacency(&mut self, id: NextHopId) -> &Adjacency {
        if self.adjacencies[id.index()].as_of != self.neighbours.changes() {
            self.work_out_adjacency(id);
        }
        &self.adjacencies[id.index()]
    }

    #[inline(never)]
    fn work_out_adjacency(&mut self, id: NextHopId) {
        self.adjacencies[id.index()] = self.adjacency_now(self.via(id));
    }

    /// What a frame needs that goes to a station of a network that an interface is in.
    #[inline(always)]
    pub(crate) fn adjacency_on(&mut self, interface: InterfaceId, address: u32) -> &Adjacency {
        let place = on_link_place(address);
        let known = &self.on_link[place];
        if known.of != (interface, address) || known.adjacency.as_of != self.neighbours.changes() {
            self.work_out_on_link(place, interface, address);
        }
        &self.on_link[place].adjacency
    }

    #[inline(never)]
    fn work_out_on_link(&mut self, place: usize, interface: InterfaceId, address: u32) {
        let neighbour = self
            .neighbours
            .find(interface, Ipv4Addr::from_bits(address).into());
        self.on_link[place] = OnLink {
            of: (interface, address),
            adjacency: self.adjacency_now((interface, neighbour)),
        };
    }

    fn adjacency_now(&self, (interface, neighbour): (InterfaceId, Option<NeighbourId>)) -> Adjacency {
        let as_of = self.neighbours.changes();
        let out = self.interface(interface);
        let known = neighbour.and_then(|neighbour| self.neighbours.resolved(neighbour));
        match (out.attachment, known) {
            (Attachment::Port(port), Some(known)) if out.up => Adjacency {
                addresses: LinkAddresses::new(known.mac, out.octets),
                as_of,
                mtu: out.mtu,
                port,
            },
            _ => Adjacency {
                as_of,
                ..Adjacency::VOID
            },
        }
    }

    /// Whether the interface of a next hop is up.
    pub(crate) fn lives(&self, hop: NextHop) -> bool {
        up(&self.interfaces, hop.interface)
    }
}

fn up(interfaces: &[Interface], id: InterfaceId) -> bool {
    interfaces.get(id.index()).is_some_and(|interface| interface.up)
}
