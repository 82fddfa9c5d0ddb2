//! What a switch tells its neighbours of its ways to the sites of a fabric, and when.
//!
//! The rule, for each site that some route has ([`crate::route::RouteTag::site`]):
//!
//! - its **ways** are the next hops of all routes with that site;
//! - a way's load is the greater of the own link's and of what the next switch tells of that site: the busiest link on
//!   the path counts, over as many tiers as there are. A next switch that has told nothing counts as idle;
//! - the load told is that of the **best** way where the groups of these routes choose by load, and the **mean** by
//!   capacity where they do not look: a static hash cannot avoid the worse ones;
//! - capacities of ways are the lesser of the own link and what is told of beyond; told is their sum, which is more
//!   than can be used where two ways share a link further on. Ways whose link is down, and
//!   those whose next switch has said that it has none, do not count; none at all is told as capacity 0;
//! - a neighbour that is itself a way to a site is told nothing of it: it is nearer, and does not come here for it.
//!
//! The last point makes the words follow the routes, which have no loops; so have they.
//!
//! **When.** Loads are told every interval while some way is busy, once more when all have become idle, and then not at
//! all: an idle switch has no deadline out. That a way to a site has ended, or is there again, is told in the moment it happens,
//! and again three intervals long; and again when a packet comes that has no way. A site that never had a way is not
//! spoken of before such a packet comes, so that links that come up one after the other are no news.
//!
//! On slow links the interval is longer than configured: messages take at most a 64th of a link's time.

use super::load::Loads;
use super::paths::Member;
use super::remote::{Remote, SiteIndex, busier};
use super::table::Lead;
use crate::config::{AdvertiseConfig, SwitchConfig};
use crate::egress::FrameTable;
use crate::ids::PortId;
use crate::route::{Fib, NextHop, Target};
use xoff_units::{LinkTiming, Picos};
use xoff_wire::link_quality::{self, LOAD_MAX, PathLoad, SiteEntry};

/// How often the end of a way, or its return, is told.
const REPEATS: u8 = 4;
/// Loads hold for so many intervals.
const HOLD_INTERVALS: u64 = 4;
/// Messages take at most this part of a link's time.
const LINK_PART: u64 = 64;

/// A way to a site.
#[derive(Clone, Debug)]
struct Way {
    hop: NextHop,
    member: Member,
    live: bool,
}

/// What neighbours believe of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// Nothing was said, and there has never been a way.
    Nothing,
    Reachable,
    Unreachable,
}

/// A site, the ways there, and what is told of it.
#[derive(Clone, Debug)]
struct Site {
    site: u16,
    ways: Vec<Way>,
    /// The groups of its routes choose by load.
    informed: bool,
    said: Said,
    /// How often that is still to be said.
    repeats: u8,
    load: PathLoad,
    capacity_mbps: u32,
}

impl Site {
    fn new(site: u16) -> Site {
        Site {
            site,
            ways: Vec::new(),
            informed: true,
            said: Said::Nothing,
            repeats: 0,
            load: PathLoad::default(),
            capacity_mbps: 0,
        }
    }

    /// Follows its ways; whether a way has ended or is there again.
    fn look(
        &mut self,
        now: Picos,
        at: SiteIndex,
        loads: Option<&mut Loads>,
        frames: &FrameTable,
        remote: &Remote,
    ) -> bool {
        let mut best = None;
        let (mut load, mut utilisation, mut capacity) = (0, 0, 0);
        let mut loads = loads;
        for way in &self.ways {
            let ports = &way.member.ports;
            if !way.live || !remote.reaches(ports, at) {
                continue;
            }
            let beyond = remote.capacity_mbps(ports, at).unwrap_or(u32::MAX);
            let mbps = u64::from(way.member.speed_mbps.min(beyond).max(1));
            capacity += mbps;
            let Some(loads) = loads.as_deref_mut() else {
                continue;
            };
            let own = way.member.path_load(now, loads, frames);
            let path = busier(own, remote.load(now, ports, at).unwrap_or_default());
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
            (_, Some(best)) if self.informed => best,
            _ => PathLoad {
                load: mean(load),
                utilisation: mean(utilisation),
            },
        };
        self.capacity_mbps = capacity.min(u64::from(u32::MAX - 1)) as u32;
        self.judge()
    }

    fn judge(&mut self) -> bool {
        let is = match self.capacity_mbps {
            0 => Said::Unreachable,
            _ => Said::Reachable,
        };
        match (self.said, is) {
            (Said::Nothing, Said::Reachable) => self.said = is,
            (Said::Nothing, _) => {}
            (said, is) if said != is => {
                (self.said, self.repeats) = (is, REPEATS);
                return true;
            }
            _ => {}
        }
        false
    }

    fn is_busy(&self) -> bool {
        self.said == Said::Reachable && self.load != PathLoad::default()
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// Messages are to be sent now.
    pub(crate) send: bool,
    /// When to look again.
    pub(crate) next: Picos,
}

/// What a switch tells of its ways.
#[derive(Debug, Default)]
pub(crate) struct Advertiser {
    config: Option<AdvertiseConfig>,
    /// Ports by index: their links, for how long messages take.
    links: Vec<LinkTiming>,
    interval: Picos,
    /// In the order of their numbers.
    sites: Vec<Site>,
    /// Some neighbour is told something.
    tells: bool,
    /// Neighbours have been told that all ways are idle, or nothing.
    told_idle: bool,
    /// No deadline is out for loads.
    asleep: bool,
    last: Option<Picos>,
    sequence: u32,
}

impl Advertiser {
    /// Takes a new configuration.
    pub(super) fn configure(&mut self, config: &SwitchConfig) {
        self.config.clone_from(&config.balancing.advertise);
        self.links = config.ports.iter().map(|port| port.link).collect();
        self.told_idle = true;
        self.settle();
    }

    /// Routes have changed; the numbers of all sites, in order. Those that have no route any more are told as
    /// unreachable for one generation.
    pub(super) fn set_fib(&mut self, fib: &Fib, lead: impl Fn(NextHop) -> Lead) -> Vec<u16> {
        let mut before = core::mem::take(&mut self.sites);
        if self.config.is_none() {
            return Vec::new();
        }
        for (route, _) in fib.routes().filter(|(route, _)| route.tag.site != 0) {
            let Target::Via(paths) = &route.target else {
                continue;
            };
            let place = self
                .sites
                .binary_search_by_key(&route.tag.site, |known| known.site)
                .unwrap_or_else(|place| {
                    self.sites.insert(place, Site::new(route.tag.site));
                    place
                });
            let ways = &mut self.sites[place].ways;
            for path in paths {
                if ways.iter().all(|way| way.hop != path.next_hop) {
                    let Lead { member, live, .. } = lead(path.next_hop);
                    ways.push(Way {
                        hop: path.next_hop,
                        member,
                        live,
                    });
                }
            }
        }
        for mut old in before.drain(..) {
            match self.sites.binary_search_by_key(&old.site, |known| known.site) {
                Ok(place) => {
                    let site = &mut self.sites[place];
                    (site.said, site.repeats) = (old.said, old.repeats);
                    (site.load, site.capacity_mbps) = (old.load, old.capacity_mbps);
                }
                Err(place) if !old.ways.is_empty() => {
                    old.ways.clear();
                    self.sites.insert(place, old);
                }
                Err(_) => {}
            }
        }
        self.settle();
        self.sites.iter().map(|known| known.site).collect()
    }

    /// A group of the routes to a site chooses by load, or does not.
    pub(super) fn informs(&mut self, site: u16, informed: bool) {
        if let Ok(place) = self.sites.binary_search_by_key(&site, |known| known.site) {
            self.sites[place].informed &= informed;
        }
    }

    /// Whether a next hop lives and has not said that it has no way to a site.
    pub(super) fn reaches(&self, site: SiteIndex, hop: NextHop, remote: &Remote) -> bool {
        let ways = self.sites.get(site.index()).map_or(&[][..], |known| &known.ways);
        let way = ways.iter().find(|way| way.hop == hop);
        way.is_some_and(|way| way.live && remote.reaches(&way.member.ports, site))
    }

    /// Links have changed.
    pub(super) fn set_live(&mut self, live: impl Fn(NextHop) -> bool) {
        for way in self.sites.iter_mut().flat_map(|site| &mut site.ways) {
            way.live = live(way.hop);
        }
    }

    /// Works out whether anybody is told anything, and how often.
    fn settle(&mut self) {
        let ports = self.config.as_ref().map_or(&[][..], |config| &config.ports);
        self.tells = ports
            .iter()
            .any(|port| self.sites.iter().any(|site| tellable(site, PortId(*port))));
        let longest = link_quality::frame_len(self.sites.len()) as u32;
        let takes = |port: &u16| {
            let link = self.links.get(usize::from(*port))?;
            Some(link.duration(link.wire_len(link.mac_len(longest))).0)
        };
        let slowest = ports.iter().filter_map(takes).max().unwrap_or(0);
        let least = Picos(slowest.saturating_mul(LINK_PART)).max(Picos::from_micros(1));
        self.interval = match &self.config {
            Some(config) => config.interval.max(least),
            None => least,
        };
        self.asleep = self.measures();
    }

    /// Whether it needs loads to be measured.
    pub(super) fn measures(&self) -> bool {
        self.tells && self.config.as_ref().is_some_and(|config| config.loads)
    }

    /// Whether a departure is to wake it: loads are told, and no deadline is out.
    #[inline]
    pub(crate) fn sleeps(&self) -> bool {
        self.asleep
    }

    /// Traffic flows; when to look at loads.
    pub(crate) fn wake(&mut self, now: Picos) -> Picos {
        self.asleep = false;
        now.saturating_add(self.interval)
    }

    /// The link to some neighbour has come up: it is told which sites have no way.
    pub(crate) fn greet(&mut self) -> bool {
        let missing = self
            .sites
            .iter_mut()
            .filter(|site| site.said == Said::Unreachable);
        missing.map(|site| site.repeats = REPEATS).count() > 0
    }

    /// A packet has come that had no way; when to tell that, if there is anybody to be told.
    pub(crate) fn had_no_way(&mut self, now: Picos) -> Picos {
        let mut any = false;
        for site in self.sites.iter_mut().filter(|site| site.capacity_mbps == 0) {
            site.said = Said::Unreachable;
            site.repeats = site.repeats.max(1);
            any = true;
        }
        match (any && self.tells, self.last) {
            (false, _) => Picos::NEVER,
            (true, None) => now,
            (true, Some(last)) => now.max(last.saturating_add(self.interval)),
        }
    }

    /// Looks at all ways; whether one has ended or is there again, which is to be told at once.
    pub(super) fn look(
        &mut self,
        now: Picos,
        loads: &mut Loads,
        frames: &FrameTable,
        remote: &Remote,
    ) -> bool {
        let measures = self.measures();
        let mut news = false;
        for (index, site) in self.sites.iter_mut().enumerate() {
            let loads = measures.then_some(&mut *loads);
            news |= site.look(now, SiteIndex::new(index), loads, frames, remote);
        }
        news && self.tells
    }

    /// Its deadline has come, or there is `news`; all ways have just been looked at.
    pub(crate) fn due(&mut self, now: Picos, news: bool) -> Due {
        let nothing = Due {
            send: false,
            next: Picos::NEVER,
        };
        if !self.tells {
            return nothing;
        }
        let next = now.saturating_add(self.interval);
        if let (false, Some(last)) = (news, self.last)
            && now < last.saturating_add(self.interval)
        {
            let next = last.saturating_add(self.interval);
            return Due { send: false, next };
        }
        let measures = self.measures();
        let busy = measures && self.sites.iter().any(Site::is_busy);
        let owes = self.sites.iter().any(|site| site.repeats > 0);
        let send = owes || busy || (measures && !self.told_idle);
        if send {
            self.last = Some(now);
            self.told_idle = !busy;
        }
        let again = busy || self.sites.iter().any(|site| site.repeats > 1);
        self.asleep = measures && !again;
        Due {
            send,
            next: if again { next } else { Picos::NEVER },
        }
    }

    /// Messages have been sent.
    pub(crate) fn sent(&mut self) {
        for site in &mut self.sites {
            site.repeats = site.repeats.saturating_sub(1);
        }
    }

    /// The ports on which something may be told.
    pub(crate) fn ports(&self) -> &[u16] {
        self.config.as_ref().map_or(&[], |config| &config.ports)
    }

    /// What is to be told on a port now.
    pub(crate) fn entries(&self, port: PortId) -> impl Iterator<Item = SiteEntry> {
        let measures = self.measures();
        let told = move |site: &&Site| {
            let news = site.repeats > 0 || site.said == Said::Unreachable;
            tellable(site, port) && (news || (measures && site.said == Said::Reachable))
        };
        self.sites.iter().filter(told).map(move |site| SiteEntry {
            site: site.site,
            load: measures.then_some(site.load),
            capacity_mbps: site.capacity_mbps,
        })
    }

    /// The number of the next message.
    pub(crate) fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// How long loads hold, in microseconds.
    pub(crate) fn hold_us(&self) -> u32 {
        let hold = self.interval.0.saturating_mul(HOLD_INTERVALS).div_ceil(1_000_000);
        hold.min(u64::from(u32::MAX)) as u32
    }
}

/// Whether the neighbour behind a port may come here on its way to a site.
fn tellable(site: &Site, port: PortId) -> bool {
    site.ways.iter().all(|way| !way.member.ports.contains(&port))
}
