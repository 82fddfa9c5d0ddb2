//! Load balancing of packets. The switch passes the states of ports and links to the groups of next hops and
//! LAG ports, and the groups select a member for each packet.

use std::net::IpAddr;
use std::sync::Arc;

use super::Switch;
use super::acl;
use super::ingress::FrameContext;
use crate::balance::{
    AnnounceResult, FlowMove, GroupView, LookupContext, Member, MemberState, PathDecision,
    QueuePairAnnouncement, ReorderTracker, ReorderingView, queue_pair_key,
};
use crate::config::{InterfaceAttachment, PortBalancing, SwitchConfig};
use crate::frame::FrameStore;
use crate::ids::{GroupId, LogicalPort, NextHopId, PortId};
use crate::route::{Fib, FibEntry, NextHop};
use xoff_units::Picos;
use xoff_wire::parse::{ParsedHeaders, Payload};

/// Returns the properties of a packet that a scheme needs.
#[inline(always)]
fn lookup_context<'a>(context: &'a FrameContext, l3: &'a [u8]) -> LookupContext<'a> {
    LookupContext {
        now: context.now,
        mac_len: context.mac_len,
        tc: context.tc,
        parsed: context.parsed,
        l3,
    }
}

impl Switch {
    /// Selects the next hop of a packet from a load balancing group. Returns `None` if no next hop
    /// is reachable.
    pub(super) fn select_next_hop_in_group(
        &mut self,
        context: &FrameContext,
        group: GroupId,
        l3: &[u8],
    ) -> Option<NextHopId> {
        self.select_group_member(context.from, group, context.parsed, l3, || {
            lookup_context(context, l3)
        })
    }

    /// Like [`Switch::select_next_hop_in_group`], but for a packet that arrived at port `from`.
    /// `build_context` is called only if the scheme of the group needs more than the flow hash.
    #[inline(always)]
    pub(super) fn select_group_member<'a>(
        &mut self,
        from: PortId,
        group: GroupId,
        parsed: &ParsedHeaders,
        l3: &[u8],
        build_context: impl FnOnce() -> LookupContext<'a>,
    ) -> Option<NextHopId> {
        let hash = parsed.flow_hash;
        if self.is_exempt_from_load_balancing(from, parsed.payload, l3) {
            return self.router.select_by_hash(group, hash);
        }
        if self.balance.uses_five_tuple_hash(group) {
            return self.hashed_or_detour_next_hop(group, hash);
        }
        match self
            .balance
            .choose_next_hop(group, &build_context(), &self.frames)
        {
            PathDecision::Hash(hash) => self.hashed_or_detour_next_hop_uninlined(group, hash),
            PathDecision::Member(member) => Some(self.router.next_hop_of_member(group, member)),
            PathDecision::NoMember => None,
        }
    }

    #[inline(always)]
    fn hashed_or_detour_next_hop(&self, group: GroupId, hash: u32) -> Option<NextHopId> {
        let chosen = self.router.select_by_hash(group, hash)?;
        Some(self.balance.detour_next_hop(group, hash, chosen))
    }

    #[inline(never)]
    fn hashed_or_detour_next_hop_uninlined(&self, group: GroupId, hash: u32) -> Option<NextHopId> {
        self.hashed_or_detour_next_hop(group, hash)
    }

    /// Selects the port for a packet that leaves through the port or LAG `to`. Returns `None` if the LAG
    /// is down.
    #[inline(always)]
    pub(super) fn select_lag_port<S: FrameStore>(
        &mut self,
        context: &FrameContext,
        to: LogicalPort,
        store: &S,
    ) -> Option<PortId> {
        match self.lags.lag_index(to) {
            None => Some(PortId(to.0)),
            Some(lag) => self.select_lag_member(context, to, lag, store),
        }
    }

    #[inline(never)]
    fn select_lag_member<S: FrameStore>(
        &mut self,
        context: &FrameContext,
        to: LogicalPort,
        lag: usize,
        store: &S,
    ) -> Option<PortId> {
        let prefix = store.prefix(context.frame);
        let l3 = prefix.get(usize::from(context.parsed.l3_offset)..).unwrap_or(&[]);
        if self.is_exempt_from_load_balancing(context.from, context.parsed.payload, l3) {
            return self.lags.select_member(to, context.parsed.flow_hash);
        }
        let said = self
            .balance
            .choose_lag_member(lag, &lookup_context(context, l3), &self.frames);
        match said {
            PathDecision::Hash(hash) => self.lags.select_member(to, hash),
            PathDecision::Member(member) => self.lags.members(lag).get(usize::from(member)).copied(),
            PathDecision::NoMember => None,
        }
    }

    /// Returns true if an ACL rule excludes the packet from load balancing. A static hash of the flow then
    /// selects the member.
    #[inline]
    fn is_exempt_from_load_balancing(&self, from: PortId, payload: Payload, l3: &[u8]) -> bool {
        let tables = &self.balance.config().exempt;
        !tables.is_empty() && acl::is_exempt_packet(tables, from.0, l3, payload)
    }

    /// Makes `fib` the current generation for routing and load balancing. Returns the previous generation.
    pub(super) fn install_fib(&mut self, fib: Arc<Fib>) -> Arc<Fib> {
        let old = self.router.set_fib(fib);
        let leads: Vec<_> = self
            .router
            .fib
            .next_hops()
            .iter()
            .map(|hop| self.member_state(*hop))
            .collect();
        let hops = Arc::clone(&self.router.fib);
        let lead = |hop: NextHop| match hops.next_hops().binary_search(&hop) {
            Ok(at) => leads[at].clone(),
            Err(_) => unreachable!("groups have next hops of their generation"),
        };
        self.balance.set_fib(&old, &self.router.fib, &self.frames, lead);
        old
    }

    /// Updates which next hops can be used, after links or received advertisements have changed.
    pub(super) fn update_group_members(&mut self) {
        let router = &self.router;
        self.balance
            .update_live_members(&router.fib, &self.frames, |hop| router.is_next_hop_up(hop));
    }

    /// Updates the members of all LAGs, after LAGs or their links have changed.
    pub(super) fn update_lag_members(&mut self) {
        let alternate = |port: PortId| {
            let told = self.balance.config().ports.get(port.index());
            told.is_some_and(|told| told.alternate_in_lag)
        };
        let member = |lag: usize, port: PortId| {
            let mut lead = self.member_state_of_ports(&[port]);
            lead.live = self.lags.is_active(lag, port);
            lead.member.alternate = alternate(port);
            lead
        };
        let members = |lag: usize| {
            self.lags
                .members(lag)
                .iter()
                .map(|port| member(lag, *port))
                .collect()
        };
        let lags = (0..self.lags.count()).map(members).collect();
        self.balance.set_lags(lags, &self.frames);
    }

    /// Returns the state of a next hop as a group member: its ports, its speed, its scheme, and whether the
    /// next hop is up.
    fn member_state(&self, hop: NextHop) -> MemberState {
        let interface = self.router.interfaces().get(hop.interface.index());
        let ports = match interface.map(|interface| interface.attachment) {
            Some(InterfaceAttachment::Port(port)) => vec![PortId(port)],
            Some(InterfaceAttachment::Lag(lag)) => self.lags.members(usize::from(lag)).to_vec(),
            Some(InterfaceAttachment::Vlan(_) | InterfaceAttachment::Loopback) | None => Vec::new(),
        };
        let mut lead = self.member_state_of_ports(&ports);
        lead.live = self.router.is_next_hop_up(hop);
        let told = self
            .balance
            .config()
            .next_hops
            .iter()
            .find(|told| told.address == hop.address);
        if let Some(told) = told {
            lead.scheme = told.scheme.or(lead.scheme);
            lead.member.alternate = told.alternate;
        }
        lead
    }

    fn member_state_of_ports(&self, ports: &[PortId]) -> MemberState {
        let told = |port: &PortId| self.balance.config().ports.get(port.index()).copied();
        let first: PortBalancing = ports.first().and_then(told).unwrap_or_default();
        MemberState {
            member: Member {
                ports: ports.to_vec(),
                weight: 1,
                speed_mbps: ports
                    .iter()
                    .map(|port| self.ports[port.index()].link.timing().speed_mbps)
                    .sum(),
                alternate: false,
                eligible: true,
            },
            live: false,
            scheme: first.scheme,
        }
    }

    /// Returns all groups that have a load-balancing scheme other than a static hash. Groups of next hops
    /// come first, then LAGs. The quality of members is computed for the time `now`.
    pub fn balanced_groups(&self, now: Picos) -> Vec<GroupView<'_>> {
        self.balance.group_views(now, &self.frames)
    }

    /// Returns the counters of packets that arrived out of order: the total, and the counters of each stream
    /// in the table. A stream is the requests or the responses to one queue pair. Returns `None` if the
    /// configuration does not enable these counters
    /// ([`BalancingConfig::reordering_flows`](crate::config::BalancingConfig::reordering_flows) is 0).
    pub fn reordering(&self) -> Option<ReorderingView> {
        self.reordering.as_ref().map(|reordering| reordering.view())
    }

    /// Counts a received frame for the reordering counters, if they are enabled.
    #[inline(always)]
    pub(super) fn count_reordering<S: FrameStore>(&mut self, context: &FrameContext, store: &S) {
        if let Some(reordering) = &mut self.reordering {
            let prefix = store.prefix(context.frame);
            let l3 = prefix.get(usize::from(context.parsed.l3_offset)..);
            reordering.count_packet(context.now, context.parsed.payload, l3.unwrap_or(&[]));
        }
    }

    /// Applies a new configuration. The counts are kept if the maximum number of counted streams does
    /// not change.
    pub(super) fn configure_reordering(&mut self, config: &SwitchConfig) {
        let streams_max = self.reordering.as_ref().map_or(0, |known| known.streams_max());
        if streams_max != config.balancing.reordering_flows {
            self.reordering = new_reordering(config);
        }
    }

    /// Returns the latest placements and moves of flows, oldest first. The configuration limits their
    /// number ([`BalancingConfig::moves_kept`](crate::config::BalancingConfig::moves_kept)).
    pub fn flow_moves(&self) -> impl Iterator<Item = &FlowMove> {
        self.balance.moves()
    }
}

/// Creates the reordering counters, if the configuration counts reordering.
pub(super) fn new_reordering(config: &SwitchConfig) -> Option<Box<ReorderTracker>> {
    let flows = config.balancing.reordering_flows;
    (flows > 0).then(|| Box::new(ReorderTracker::new(flows)))
}

/// Announcement of a flow to an RDMA queue pair, made before the first packet of the
/// flow ([`Switch::announce_flow`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowAnnouncement {
    /// IP address of the sender.
    pub source: IpAddr,
    /// IP address of the receiver, which has the destination queue pair.
    pub destination: IpAddr,
    /// Number of the destination queue pair (QP), 24 bits.
    pub destination_qp: u32,
    /// True if the flow will carry data. False for acknowledgements and small requests, which cause
    /// little load.
    pub data: bool,
    /// The egress port of the flow. If the value is `None` or a port outside the group, the switch selects
    /// the port.
    pub via: Option<PortId>,
}

impl Switch {
    /// Places a flow on a path before its first packet, if the route to its destination uses cluster load
    /// balancing ([`crate::config::SchemeKind::Cluster`]). Otherwise, the result is
    /// [`AnnounceResult::NotSupported`]. The placement remains until [`Switch::withdraw_flow`], even if the
    /// flow is idle for a long time. The flow stays on port `via` while the port is up. A flow that already
    /// sends keeps its present placement.
    pub fn announce_flow(&mut self, now: Picos, flow: &FlowAnnouncement) -> AnnounceResult {
        let key = queue_pair_key(flow.source, flow.destination, flow.destination_qp);
        match (key, self.router.fib.lookup(flow.destination)) {
            (Some(key), Some(FibEntry::Group(group))) => {
                let announced = QueuePairAnnouncement {
                    key,
                    heavy: flow.data,
                    via: flow.via,
                };
                self.balance.announce_flow(group, now, &announced, &self.frames)
            }
            _ => AnnounceResult::NotSupported,
        }
    }

    /// Removes the placement of a flow that has ended. Returns false if the switch does not know the flow.
    pub fn withdraw_flow(&mut self, source: IpAddr, destination: IpAddr, destination_qp: u32) -> bool {
        queue_pair_key(source, destination, destination_qp).is_some_and(|key| self.balance.withdraw_flow(key))
    }
}
