//! The router of a switch: interfaces, the current routes and the neighbours.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;

use super::adjacency::Adjacency;
use super::neighbour::{NeighbourId, NeighbourTable};
use super::on_link_cache::{OnLinkAdjacency, OnLinkCache};
use super::path_table::PathTable;
use super::rate_limit::RateLimit;
use super::{Fib, FibEntry, NextHop};
use crate::balance::seeded_hash;
use crate::bridge::MacAddress;
use crate::config::{InterfaceAttachment, InterfaceConfig, RoutingConfig, SwitchConfig};
use crate::fib::FibLeaf;
use crate::ids::{GroupId, InterfaceId, LogicalPort, NextHopId};
use xoff_wire::NeighbourFrame;
use xoff_wire::rewrite::LinkAddresses;

/// Rate limit of frames to the CPU port, in frames per second. The largest burst is one second of this rate.
const CPU_FRAMES_PER_SECOND: u32 = 10_000;

/// State of a router interface.
#[derive(Debug)]
pub(crate) struct RouterInterface {
    pub(crate) mac: MacAddress,
    /// The MAC address as the bytes of a frame.
    pub(crate) mac_bytes: [u8; 6],
    pub(crate) mtu: u32,
    pub(crate) attachment: InterfaceAttachment,
    pub(crate) addresses: Vec<IpNet>,
    /// True if at least one port or LAG behind the interface is up.
    pub(crate) up: bool,
}

impl RouterInterface {
    fn new(config: &InterfaceConfig) -> RouterInterface {
        RouterInterface {
            mac: MacAddress::from_bytes(config.mac),
            mac_bytes: config.mac,
            mtu: config.mtu,
            attachment: config.attachment,
            addresses: config.addresses.clone(),
            up: false,
        }
    }

    /// Returns true if the interface owns this address.
    pub(crate) fn owns_address(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.addr() == address)
    }

    /// Returns true if the address belongs to a network of the interface or is link-local, and is not an
    /// address of the interface itself.
    pub(crate) fn is_on_link(&self, address: IpAddr) -> bool {
        let near = is_link_local(address) || self.addresses.iter().any(|own| own.contains(&address));
        near && !self.owns_address(address)
    }

    /// Builds the ARP request or neighbour solicitation for an address. The frame is sent to the link
    /// address `receiver`, or to all stations. If possible, the source address is in the same network.
    /// Otherwise, the source is any address of the same IP version. Returns `None` if the router has no
    /// address of this IP version.
    pub(crate) fn build_address_resolution_request(
        &self,
        target: IpAddr,
        receiver: Option<[u8; 6]>,
    ) -> Option<NeighbourFrame> {
        let family = |own: &&IpNet| own.addr().is_ipv4() == target.is_ipv4();
        let near = self
            .addresses
            .iter()
            .filter(family)
            .find(|own| own.contains(&target));
        let source = near.or_else(|| self.addresses.iter().find(family))?.addr();
        NeighbourFrame::request(source, target, receiver)
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if Ipv6Addr::is_unicast_link_local(&v6))
}

/// Where a packet with a given look-up result is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResolvedHop {
    /// To the switch itself.
    Local,
    /// To a neighbour on this interface. The neighbour is `None` if the neighbour table is full.
    Neighbour(InterfaceId, Option<NeighbourId>),
    /// To no next hop: none of the route's next hops is reachable at present.
    Down,
    /// To no destination, because the route is a blackhole route.
    Blackhole,
}

/// Layer-3 forwarding state of a switch.
#[derive(Debug)]
#[repr(C)] // the fields that each frame uses come first
pub(crate) struct Router {
    pub(crate) fib: Arc<Fib>,
    hash_seed: u64,
    on_link: OnLinkCache,
    /// Cached adjacency of each next hop.
    adjacencies: Vec<Adjacency>,
    paths: PathTable,
    interfaces: Vec<RouterInterface>,
    by_logical: Vec<Option<InterfaceId>>,
    by_vlan: Vec<(u16, InterfaceId)>,
    resilient_buckets: Option<u16>,
    /// Interface and neighbour of each next hop of the FIB. The neighbour is `None` if the neighbour table
    /// is full.
    hops: Vec<(InterfaceId, Option<NeighbourId>)>,
    pub(crate) neighbours: NeighbourTable,
    pub(crate) icmp_limit: RateLimit,
    pub(crate) cpu_limit: RateLimit,
}

impl Router {
    /// Creates a router. All interfaces are down.
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
            on_link: OnLinkCache::new([].iter()),
            neighbours: NeighbourTable::new(routing.neighbours_max, routing.hold_frames),
            hash_seed: 0,
            icmp_limit: RateLimit::new(0),
            cpu_limit: RateLimit::new(CPU_FRAMES_PER_SECOND),
        };
        router.configure(config);
        router
    }

    /// Reserves the memory of all neighbours.
    pub(crate) fn reserve(&mut self) {
        self.neighbours.reserve();
    }

    /// Returns the interfaces that `config` changes or removes. Their neighbours are no longer valid.
    pub(crate) fn changed_interfaces(&self, config: &RoutingConfig) -> Vec<InterfaceId> {
        let same = |(index, old): &(usize, &RouterInterface)| {
            let new = config.interfaces.get(*index);
            new.is_some_and(|new| new.attachment == old.attachment && new.addresses == old.addresses)
        };
        let all = self.interfaces.iter().enumerate();
        all.filter(|slot| !same(slot))
            .map(|(index, _)| InterfaceId(index as u16))
            .collect()
    }

    /// Applies a new configuration, except routes, which [`Router::set_fib`] applies.
    pub(crate) fn configure(&mut self, config: &SwitchConfig) {
        let routing = &config.routing;
        let was_up: Vec<bool> = self.interfaces.iter().map(|interface| interface.up).collect();
        self.interfaces = routing.interfaces.iter().map(RouterInterface::new).collect();
        for (interface, up) in self.interfaces.iter_mut().zip(was_up) {
            interface.up = up;
        }
        let networks = self.interfaces.iter().flat_map(|interface| &interface.addresses);
        self.on_link = OnLinkCache::new(networks);
        self.by_logical = vec![None; config.ports.len() + config.lags.len()];
        self.by_vlan.clear();
        for (index, interface) in routing.interfaces.iter().enumerate() {
            let id = InterfaceId(index as u16);
            match interface.attachment {
                InterfaceAttachment::Port(port) => self.by_logical[usize::from(port)] = Some(id),
                InterfaceAttachment::Lag(lag) => {
                    self.by_logical[config.ports.len() + usize::from(lag)] = Some(id)
                }
                InterfaceAttachment::Vlan(vlan) => self.by_vlan.push((vlan, id)),
                InterfaceAttachment::Loopback => {}
            }
        }
        self.by_vlan.sort_unstable();
        self.hash_seed = routing.hash_seed;
        self.icmp_limit = RateLimit::new(routing.icmp_errors_per_second);
        self.resilient_buckets = routing.resilient_buckets;
        self.neighbours
            .set_limits(routing.neighbours_max, routing.hold_frames);
        self.neighbours.clear_static();
        for neighbour_config in &routing.neighbours {
            self.neighbours.set_static(
                neighbour_config.interface,
                neighbour_config.address,
                neighbour_config.mac,
            );
        }
        self.neighbours.remove_unused();
        self.neighbours.record_change();
    }

    /// Replaces the generation of routes. Returns the previous generation.
    pub(crate) fn set_fib(&mut self, fib: Arc<Fib>) -> Arc<Fib> {
        let old = core::mem::replace(&mut self.fib, fib);
        let (fib, interfaces) = (&self.fib, &self.interfaces);
        let live = |hop: NextHopId| is_interface_up(interfaces, fib.next_hops()[hop.index()].interface);
        self.paths.switch_to_fib(&old, fib, self.resilient_buckets, live);
        self.neighbours.unpin_all();
        self.hops.clear();
        for hop in fib.next_hops() {
            let neighbour = self.neighbours.find_or_add(hop.interface, hop.address);
            if let Some(id) = neighbour {
                self.neighbours.pin(id);
            }
            self.hops.push((hop.interface, neighbour));
        }
        self.adjacencies.clear();
        self.adjacencies.resize(self.hops.len(), Adjacency::INVALID);
        self.neighbours.remove_unused();
        old
    }

    /// Returns all interfaces.
    pub(crate) fn interfaces(&self) -> &[RouterInterface] {
        &self.interfaces
    }

    /// Sets the state of an interface. Returns true if the state changed.
    pub(crate) fn set_interface_up(&mut self, id: InterfaceId, up: bool) -> bool {
        self.neighbours.record_change();
        core::mem::replace(&mut self.interfaces[id.index()].up, up) != up
    }

    /// Distributes the hash buckets (ranges of the flow hash) over the usable next hops again, after the
    /// state of an interface has changed.
    pub(crate) fn refresh_paths(&mut self) {
        let (fib, interfaces) = (&self.fib, &self.interfaces);
        let live = |hop: NextHopId| is_interface_up(interfaces, fib.next_hops()[hop.index()].interface);
        self.paths.set_live(fib, live);
    }

    /// Returns the neighbours on an interface that are next hops of routes.
    pub(crate) fn next_hop_neighbours_on(&self, interface: InterfaceId) -> Vec<NeighbourId> {
        let behind = self.hops.iter().filter(|(of, _)| *of == interface);
        behind.filter_map(|(_, neighbour)| *neighbour).collect()
    }

    /// Returns the router interface of a port or LAG. Returns `None` if the port or LAG is not routed.
    #[inline]
    pub(crate) fn interface_of_port(&self, logical: LogicalPort) -> Option<InterfaceId> {
        self.by_logical[logical.index()]
    }

    /// Returns the router interface of a VLAN. Returns `None` if the VLAN has no router interface.
    #[inline]
    pub(crate) fn interface_of_vlan(&self, vlan: u16) -> Option<InterfaceId> {
        if self.by_vlan.is_empty() {
            return None;
        }
        let found = self.by_vlan.binary_search_by_key(&vlan, |(id, _)| *id).ok()?;
        Some(self.by_vlan[found].1)
    }

    /// Returns the interface with this id.
    #[inline]
    pub(crate) fn interface(&self, id: InterfaceId) -> &RouterInterface {
        &self.interfaces[id.index()]
    }

    /// Returns the next hop of a packet with the look-up result `entry`.
    #[inline]
    pub(crate) fn resolve_hop(
        &mut self,
        entry: FibEntry,
        destination: IpAddr,
        flow_hash: u32,
    ) -> ResolvedHop {
        let next_hop = match entry {
            FibEntry::NextHop(id) => Some(id),
            FibEntry::Group(group) => self.select_by_hash(group, flow_hash),
            FibEntry::Connected(interface) => {
                let known = self.neighbours.find(interface, destination);
                let neighbour = known.or_else(|| self.neighbours.find_or_add(interface, destination));
                return ResolvedHop::Neighbour(interface, neighbour);
            }
            FibEntry::Local => return ResolvedHop::Local,
            FibEntry::Blackhole => return ResolvedHop::Blackhole,
        };
        match next_hop {
            Some(id) => {
                let (interface, neighbour) = self.neighbour_of_next_hop(id);
                ResolvedHop::Neighbour(interface, neighbour)
            }
            None => ResolvedHop::Down,
        }
    }

    /// Selects a next hop of a group by the flow hash. Returns `None` if no next hop is reachable.
    #[inline(always)]
    pub(crate) fn select_by_hash(&self, group: GroupId, flow_hash: u32) -> Option<NextHopId> {
        self.paths.select(group, seeded_hash(flow_hash, self.hash_seed))
    }

    /// Returns the next hop with index `member` in a group. A load-balancing scheme has selected this member.
    #[inline(always)]
    pub(crate) fn next_hop_of_member(&self, group: GroupId, member: u16) -> NextHopId {
        self.fib.groups()[group.index()].members[usize::from(member)].0
    }

    /// Returns the interface and the neighbour of a next hop. The neighbour is `None` if the neighbour table
    /// is full.
    #[inline(always)]
    pub(crate) fn neighbour_of_next_hop(&self, id: NextHopId) -> (InterfaceId, Option<NeighbourId>) {
        self.hops[id.index()]
    }

    /// Returns the adjacency of a next hop. If the next hop is not resolved, the MTU of the adjacency is 0.
    #[inline(always)]
    pub(crate) fn adjacency(&mut self, id: NextHopId) -> &Adjacency {
        if self.adjacencies[id.index()].valid_for != self.neighbours.changes() {
            self.update_adjacency(id);
        }
        &self.adjacencies[id.index()]
    }

    #[inline(never)]
    fn update_adjacency(&mut self, id: NextHopId) {
        self.adjacencies[id.index()] = self.compute_adjacency(self.neighbour_of_next_hop(id));
    }

    /// Returns the adjacency of a station on a connected IPv4 network. If the station is not resolved, the
    /// MTU of the adjacency is 0.
    #[inline(always)]
    pub(crate) fn on_link_adjacency(&mut self, interface: InterfaceId, address: u32) -> &Adjacency {
        let slot = self.on_link.slot(address);
        let known = &self.on_link.entries[slot];
        if known.station != (interface, address) || known.adjacency.valid_for != self.neighbours.changes() {
            self.update_on_link_adjacency(slot, interface, address);
        }
        &self.on_link.entries[slot].adjacency
    }

    /// Returns the egress port of a packet with this route, if the port is cached. The result is a guess: the cache can
    /// be outdated.
    #[inline]
    pub(crate) fn cached_port(&self, route: FibLeaf, destination: u32, flow_hash: u32) -> Option<u16> {
        let hop = match route.group() {
            Some(group) => self.select_by_hash(group, flow_hash),
            None => route.next_hop(),
        };
        let adjacency = match hop {
            Some(hop) => self.adjacencies.get(hop.index())?,
            None => {
                let _interface = route.connected()?;
                &self.on_link.entries[self.on_link.slot(destination)].adjacency
            }
        };
        Some(adjacency.port)
    }

    #[inline(never)]
    fn update_on_link_adjacency(&mut self, slot: usize, interface: InterfaceId, address: u32) {
        let neighbour = self
            .neighbours
            .find(interface, Ipv4Addr::from_bits(address).into());
        self.on_link.entries[slot] = OnLinkAdjacency {
            station: (interface, address),
            adjacency: self.compute_adjacency((interface, neighbour)),
        };
    }

    /// Computes the adjacency of a neighbour.
    fn compute_adjacency(&self, (interface, neighbour): (InterfaceId, Option<NeighbourId>)) -> Adjacency {
        let valid_for = self.neighbours.changes();
        let out = self.interface(interface);
        let known = neighbour.and_then(|neighbour| self.neighbours.resolved_link(neighbour));
        match (out.attachment, known) {
            (InterfaceAttachment::Port(port), Some(known)) if out.up => Adjacency {
                addresses: LinkAddresses::new(known.mac, out.mac_bytes),
                valid_for,
                mtu: out.mtu,
                port,
            },
            _ => Adjacency {
                valid_for,
                ..Adjacency::INVALID
            },
        }
    }

    /// Returns true if the interface of a next hop is up.
    pub(crate) fn is_next_hop_up(&self, hop: NextHop) -> bool {
        is_interface_up(&self.interfaces, hop.interface)
    }
}

fn is_interface_up(interfaces: &[RouterInterface], id: InterfaceId) -> bool {
    interfaces.get(id.index()).is_some_and(|interface| interface.up)
}
