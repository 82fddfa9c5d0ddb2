//! Builds the link quality messages that a switch sends to its neighbours.
//!
//! The switch advertises one entry for each *site* of its routes. A site consists of the destinations
//! behind one leaf ([`crate::route::RouteTag::site`]). The following rules define the load and the capacity
//! in the entry:
//!
//! - The **paths** to a site are the next hops of all routes with this site.
//! - The load of a path is the larger of two values: the load of the local link, and the load that the next
//!   switch advertises for the site. The result is the load of the busiest link of the path, across all
//!   tiers. If the next switch has advertised no load, this load counts as zero.
//! - The advertised load is the load of the **best** path if the groups of these routes select by load.
//!   Otherwise, the groups use a static hash, which cannot avoid busy paths. The advertised load is then the
//!   **mean** of all paths, weighted by capacity.
//! - The capacity of a path is the lower of the local link speed and the capacity that the next switch
//!   advertises. The advertised capacity is the sum over all paths. If two paths share a link beyond the next
//!   switch, the sum is too high.
//! - A path is ignored while its link is down, or while its next switch advertises that it has no path.
//!   Capacity 0 means that no path is left.
//! - A neighbour that is itself a next hop to a site receives no entry for the site. This neighbour is nearer
//!   to the site and sends no packets for the site to this switch.
//!
//! Because of the last rule, load messages travel along the routes, in the opposite direction of the packets.
//! Routes have no loops, so messages cannot loop.
//!
//! While at least one path is busy, the switch sends a message with the loads of its paths in every interval.
//! When all paths have become idle, the switch sends one more message and then stops. An idle switch
//! therefore has no pending timer.
//!
//! When a site becomes unreachable or reachable, the switch advertises the change immediately and again in
//! each of the next three intervals. The switch also advertises again that a site is unreachable when a
//! packet for the site arrives. If a site has never had a path, it is first advertised when such a packet
//! arrives. During a start, links come up one by one, and this rule avoids messages about them.
//!
//! Load messages use at most 1/64 of the bandwidth of a link. On slow links, the interval is therefore longer
//! than configured.

use super::config::{AdvertiseConfig, BalancerSetup};
use super::load::PortLoads;
use super::remote::{RemotePaths, SiteIndex, max_path_load};
use super::selection_input::MemberState;
use super::site_paths::{PathListId, SitePathCollector, SitePaths};
use crate::egress::FrameTable;
use crate::fib::{Fib, NextHop, RouteTarget};
use crate::ids::PortId;
use xoff_units::{LinkTiming, Picos};
use xoff_wire::link_quality::{self, LOAD_MAX, PathLoad, SiteEntry};

/// Number of messages that advertise a change of reachability.
const STATE_REPEATS: u8 = 4;
/// Time for which an advertised load is valid, in intervals.
const HOLD_INTERVALS: u64 = 4;
/// The transmission of messages uses at most this part of the time of a link: 1/64.
const LINK_TIME_DIVISOR: u64 = 64;

/// Reachability of a site, as the messages have advertised it so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdvertisedState {
    /// The site has never had a path and has never been advertised.
    NotAdvertised,
    Reachable,
    Unreachable,
}

/// A site, its paths and the advertised values.
#[derive(Clone, Debug)]
struct AdvertisedSite {
    site: u16,
    paths: PathListId,
    /// True if all groups of the routes to this site select by load.
    is_load_aware: bool,
    state: AdvertisedState,
    /// Number of messages that must still contain the change of reachability.
    repeats: u8,
    load: PathLoad,
    capacity_mbps: u32,
}

impl AdvertisedSite {
    fn new(site: u16) -> AdvertisedSite {
        AdvertisedSite {
            site,
            paths: SitePaths::EMPTY,
            is_load_aware: true,
            state: AdvertisedState::NotAdvertised,
            repeats: 0,
            load: PathLoad::default(),
            capacity_mbps: 0,
        }
    }

    /// Computes the load and the capacity of a site (the destinations behind one leaf) from the paths to
    /// this site. Without `loads`, only the capacity is computed. Returns true if the site became reachable
    /// or unreachable.
    fn update_from_paths(
        &mut self,
        now: Picos,
        site_index: SiteIndex,
        paths: &SitePaths,
        loads: Option<&mut PortLoads>,
        frames: &FrameTable,
        remote: &RemotePaths,
    ) -> bool {
        let mut best = None;
        let (mut load, mut utilisation, mut capacity) = (0, 0, 0);
        let mut loads = loads;
        for site_path in paths.of_list(self.paths) {
            let ports = &site_path.member.ports;
            if !site_path.live || !remote.reaches(ports, site_index) {
                continue;
            }
            let beyond = remote.capacity_mbps(ports, site_index).unwrap_or(u32::MAX);
            let mbps = u64::from(site_path.member.speed_mbps.min(beyond).max(1));
            capacity += mbps;
            let Some(loads) = loads.as_deref_mut() else {
                continue;
            };
            let own = site_path.member.path_load(now, loads, frames);
            let path = max_path_load(own, remote.load(now, ports, site_index).unwrap_or_default());
            let rank = |path: PathLoad| (path.load, path.utilisation);
            if best.is_none_or(|best| rank(path) < rank(best)) {
                best = Some(path);
            }
            load += u64::from(path.load) * mbps;
            utilisation += u64::from(path.utilisation) * mbps;
        }
        let mean = |sum: u64| (sum / capacity.max(1)) as u16;
        self.load = match (capacity, best) {
            (0, _) => PathLoad {
                load: LOAD_MAX,
                utilisation: LOAD_MAX,
            },
            (_, Some(best)) if self.is_load_aware => best,
            _ => PathLoad {
                load: mean(load),
                utilisation: mean(utilisation),
            },
        };
        self.capacity_mbps = capacity.min(u64::from(u32::MAX - 1)) as u32;
        self.update_state()
    }

    /// Updates the reachability. Returns true if the change must be advertised.
    fn update_state(&mut self) -> bool {
        let current = match self.capacity_mbps {
            0 => AdvertisedState::Unreachable,
            _ => AdvertisedState::Reachable,
        };
        match (self.state, current) {
            (AdvertisedState::NotAdvertised, AdvertisedState::Reachable) => self.state = current,
            (AdvertisedState::NotAdvertised, _) => {}
            (state, current) if state != current => {
                (self.state, self.repeats) = (current, STATE_REPEATS);
                return true;
            }
            _ => {}
        }
        false
    }

    fn has_advertised_load(&self) -> bool {
        self.state == AdvertisedState::Reachable && self.load != PathLoad::default()
    }
}

/// Next action of the advertiser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AdvertiserAction {
    /// True if messages must be sent now.
    pub(crate) send: bool,
    /// Model time of the next check, or [`Picos::NEVER`].
    pub(crate) next: Picos,
}

/// The sender of link quality messages.
#[derive(Debug, Default)]
pub(crate) struct Advertiser {
    config: Option<AdvertiseConfig>,
    /// Timing of each port's link, for the transmission time of messages.
    links: Vec<LinkTiming>,
    interval: Picos,
    /// The sites, in the order of their numbers.
    sites: Vec<AdvertisedSite>,
    paths: SitePaths,
    /// True if at least one neighbour receives entries.
    has_receivers: bool,
    /// True if the last message stated that all paths are idle, or if no message was sent.
    advertised_idle: bool,
    /// True if loads are measured and no timer for them is pending.
    is_asleep: bool,
    last_sent: Option<Picos>,
    sequence: u32,
}

impl Advertiser {
    /// Applies a new configuration.
    pub(super) fn configure(&mut self, setup: &BalancerSetup<'_>) {
        self.config.clone_from(&setup.balancing.advertise);
        self.links = setup.links.clone();
        self.advertised_idle = true;
        self.update_interval();
    }

    /// Applies new routes and returns the numbers of all sites in ascending order. A site without routes is
    /// advertised as unreachable until the routes change again.
    pub(super) fn set_fib(&mut self, fib: &Fib, state_of: impl Fn(NextHop) -> MemberState) -> Vec<u16> {
        let mut before = core::mem::take(&mut self.sites);
        if self.config.is_none() {
            return Vec::new();
        }
        let mut collector = SitePathCollector::new(fib);
        for (route, _) in fib.routes().filter(|(route, _)| route.tag.site != 0) {
            let RouteTarget::Via(paths) = &route.target else {
                continue;
            };
            let place = self
                .sites
                .binary_search_by_key(&route.tag.site, |known| known.site)
                .unwrap_or_else(|place| {
                    self.sites.insert(place, AdvertisedSite::new(route.tag.site));
                    place
                });
            let list = collector.list_of_route(paths);
            self.sites[place].paths = collector.union(self.sites[place].paths, list);
        }
        self.paths = collector.into_paths(state_of);
        for mut old in before.drain(..) {
            match self.sites.binary_search_by_key(&old.site, |known| known.site) {
                Ok(place) => {
                    let site = &mut self.sites[place];
                    (site.state, site.repeats) = (old.state, old.repeats);
                    (site.load, site.capacity_mbps) = (old.load, old.capacity_mbps);
                }
                Err(place) if old.paths != SitePaths::EMPTY => {
                    old.paths = SitePaths::EMPTY;
                    self.sites.insert(place, old);
                }
                Err(_) => {}
            }
        }
        self.update_interval();
        self.sites.iter().map(|known| known.site).collect()
    }

    /// Records whether a group of the routes to a site selects members by load. A site is load-aware if all
    /// groups of its routes select by load.
    pub(super) fn record_load_awareness(&mut self, site: u16, is_load_aware: bool) {
        if let Ok(place) = self.sites.binary_search_by_key(&site, |known| known.site) {
            self.sites[place].is_load_aware &= is_load_aware;
        }
    }

    /// Returns true if the link to a next hop is up and the next hop has not advertised that it cannot reach
    /// the site.
    pub(super) fn reaches(&self, site: SiteIndex, next_hop: NextHop, remote: &RemotePaths) -> bool {
        let list = self
            .sites
            .get(site.index())
            .map_or(SitePaths::EMPTY, |known| known.paths);
        let path = self.paths.of_list(list).find(|path| path.next_hop == next_hop);
        path.is_some_and(|path| path.live && remote.reaches(&path.member.ports, site))
    }

    /// Updates the link state of all paths.
    pub(super) fn update_live_paths(&mut self, live: impl Fn(NextHop) -> bool) {
        self.paths.update_live(live);
    }

    /// Computes the interval, and whether at least one neighbour receives messages.
    fn update_interval(&mut self) {
        let ports = self.config.as_ref().map_or(&[][..], |config| &config.ports);
        // Most sites of a large fabric share a few lists of paths.
        let mut path_lists: Vec<PathListId> = self.sites.iter().map(|site| site.paths).collect();
        path_lists.sort_unstable();
        path_lists.dedup();
        self.has_receivers = ports.iter().any(|port| {
            let mut path_lists = path_lists.iter();
            path_lists.any(|list| self.may_advertise(*list, PortId(*port)))
        });
        let longest = link_quality::frame_len(self.sites.len()) as u32;
        let transmission_time = |port: &u16| {
            let link = self.links.get(usize::from(*port))?;
            Some(link.duration(link.wire_len(link.mac_len(longest))).0)
        };
        let slowest = ports.iter().filter_map(transmission_time).max().unwrap_or(0);
        let least = Picos(slowest.saturating_mul(LINK_TIME_DIVISOR)).max(Picos::from_micros(1));
        self.interval = match &self.config {
            Some(config) => config.interval.max(least),
            None => least,
        };
        self.is_asleep = self.measures_load();
    }

    /// Returns true if the advertiser needs measured loads.
    pub(super) fn measures_load(&self) -> bool {
        self.has_receivers && self.config.as_ref().is_some_and(|config| config.loads)
    }

    /// Returns true if loads are advertised and no timer is pending. In this case, the next departure must
    /// wake the advertiser.
    #[inline]
    pub(crate) fn needs_load_timer_start(&self) -> bool {
        self.is_asleep
    }

    /// Starts the timer for loads because of new traffic. Returns the time of the next check.
    pub(crate) fn wake(&mut self, now: Picos) -> Picos {
        self.is_asleep = false;
        now.saturating_add(self.interval)
    }

    /// Advertises all unreachable sites (destination leaves) again after a link to a neighbour came up.
    /// Returns true if at least one site is unreachable.
    pub(crate) fn repeat_unreachable_sites(&mut self) -> bool {
        let missing = self
            .sites
            .iter_mut()
            .filter(|site| site.state == AdvertisedState::Unreachable);
        missing.map(|site| site.repeats = STATE_REPEATS).count() > 0
    }

    /// Advertises all unreachable sites again after a packet arrived for a destination without a path.
    /// Returns the time of the next message, or [`Picos::NEVER`] if no neighbour receives messages.
    pub(crate) fn handle_packet_without_path(&mut self, now: Picos) -> Picos {
        let mut any = false;
        for site in self.sites.iter_mut().filter(|site| site.capacity_mbps == 0) {
            site.state = AdvertisedState::Unreachable;
            site.repeats = site.repeats.max(1);
            any = true;
        }
        match (any && self.has_receivers, self.last_sent) {
            (false, _) => Picos::NEVER,
            (true, None) => now,
            (true, Some(last_sent)) => now.max(last_sent.saturating_add(self.interval)),
        }
    }

    /// Updates all sites. Returns true if a change of reachability must be advertised immediately.
    pub(super) fn update_sites(
        &mut self,
        now: Picos,
        loads: &mut PortLoads,
        frames: &FrameTable,
        remote: &RemotePaths,
    ) -> bool {
        let measures = self.measures_load();
        let mut state_changed = false;
        for (index, site) in self.sites.iter_mut().enumerate() {
            let loads = measures.then_some(&mut *loads);
            let index = SiteIndex::new(index);
            state_changed |= site.update_from_paths(now, index, &self.paths, loads, frames, remote);
        }
        state_changed && self.has_receivers
    }

    /// Returns the next action. The caller calls this function when the timer expires, or when the
    /// reachability has changed (`state_changed`). The caller must update all sites before this call.
    pub(crate) fn next_action(&mut self, now: Picos, state_changed: bool) -> AdvertiserAction {
        let nothing = AdvertiserAction {
            send: false,
            next: Picos::NEVER,
        };
        if !self.has_receivers {
            return nothing;
        }
        let next = now.saturating_add(self.interval);
        if let (false, Some(last_sent)) = (state_changed, self.last_sent)
            && now < last_sent.saturating_add(self.interval)
        {
            let next = last_sent.saturating_add(self.interval);
            return AdvertiserAction { send: false, next };
        }
        let measures = self.measures_load();
        let busy = measures && self.sites.iter().any(AdvertisedSite::has_advertised_load);
        let has_repeats = self.sites.iter().any(|site| site.repeats > 0);
        let send = has_repeats || busy || (measures && !self.advertised_idle);
        if send {
            self.last_sent = Some(now);
            self.advertised_idle = !busy;
        }
        let again = busy || self.sites.iter().any(|site| site.repeats > 1);
        self.is_asleep = measures && !again;
        AdvertiserAction {
            send,
            next: if again { next } else { Picos::NEVER },
        }
    }

    /// Records that messages were sent to all ports.
    pub(crate) fn record_sent(&mut self) {
        for site in &mut self.sites {
            site.repeats = site.repeats.saturating_sub(1);
        }
    }

    /// Returns the ports that may send messages.
    pub(crate) fn ports(&self) -> &[u16] {
        self.config.as_ref().map_or(&[], |config| &config.ports)
    }

    /// Returns the entries of the next message at a port.
    pub(crate) fn entries(&self, port: PortId) -> impl Iterator<Item = SiteEntry> {
        let measures = self.measures_load();
        let told = move |site: &&AdvertisedSite| {
            let state_changed = site.repeats > 0 || site.state == AdvertisedState::Unreachable;
            self.may_advertise(site.paths, port)
                && (state_changed || (measures && site.state == AdvertisedState::Reachable))
        };
        self.sites.iter().filter(told).map(move |site| SiteEntry {
            site: site.site,
            load: measures.then_some(site.load),
            capacity_mbps: site.capacity_mbps,
        })
    }

    /// Returns the sequence number of the next message.
    pub(crate) fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// Returns the time for which advertised loads are valid, in microseconds.
    pub(crate) fn hold_us(&self) -> u32 {
        let hold = self.interval.0.saturating_mul(HOLD_INTERVALS).div_ceil(1_000_000);
        hold.min(u64::from(u32::MAX)) as u32
    }

    /// Returns true if the neighbour behind a port may use this switch to reach the sites with these paths.
    fn may_advertise(&self, paths: PathListId, port: PortId) -> bool {
        let mut paths = self.paths.of_list(paths);
        paths.all(|path| !path.member.ports.contains(&port))
    }
}
