//! Stores the link quality messages of neighbours: the loads and the reachability of paths beyond the
//! local links.
//!
//! An entry of a message ([`xoff_wire::link_quality`]) has two parts, which are valid for different times:
//!
//! - The **load** is valid for the time that the message states. After this time, the switch uses only the
//!   load of the local link. A load of zero is valid until the next message, because a neighbour with idle
//!   paths sends no messages.
//! - **No path** is valid until the neighbour advertises a path again, or until the link to the neighbour
//!   goes down. Members behind such a neighbour carry no traffic. If all members of a group are behind such
//!   neighbours, the group still uses them.
//!
//! If a message is lost, the switch therefore selects worse members for one or two intervals. The loss has no
//! further effect.

use crate::balance::config::AdvertiseConfig;
use crate::ids::PortId;
use xoff_units::Picos;
use xoff_wire::link_quality::{LinkQuality, PathLoad, SiteEntry};

/// Row number of a port that receives no messages.
const NO_ROW: u16 = u16::MAX;

/// If the sequence number of a message is behind the latest number by less than this distance, the message
/// has arrived late. A larger distance means that the sender has restarted.
const LATE_SEQUENCE_MAX: u32 = 8;

/// Index of a site among the sites of the current routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SiteIndex(u16);

impl SiteIndex {
    pub(super) fn new(index: usize) -> SiteIndex {
        SiteIndex(index as u16)
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The state of a site that the neighbour at a port has advertised ([`Switch::remote_advertisements`]).
///
/// [`Switch::remote_advertisements`]: crate::Switch::remote_advertisements
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAdvertisement {
    /// Number of the site ([`RouteTag::site`](crate::route::RouteTag::site)).
    pub site: u16,
    /// Load of the neighbour's path to the site (a destination leaf). `None` if no load was advertised or the
    /// load has expired.
    pub load: Option<PathLoad>,
    /// Capacity of the neighbour's paths to the site (a destination leaf) in Mb/s. 0 means that the neighbour
    /// has no path.
    pub capacity_mbps: u32,
    /// Model time at which the latest message with this site arrived.
    pub received_at: Picos,
}

/// The advertised state of one site on one port.
#[derive(Clone, Copy, Debug)]
struct RemotePathState {
    load: PathLoad,
    /// End of validity of the load.
    until: Picos,
    /// Capacity of the neighbour's paths. `u32::MAX` means that nothing was advertised.
    capacity_mbps: u32,
    received_at: Picos,
}

const NOT_ADVERTISED: RemotePathState = RemotePathState {
    load: PathLoad {
        load: 0,
        utilisation: 0,
    },
    until: Picos::ZERO,
    capacity_mbps: u32::MAX,
    received_at: Picos::ZERO,
};

impl RemotePathState {
    fn reaches(&self) -> bool {
        self.capacity_mbps != 0
    }
}

/// The states that all neighbours have advertised.
#[derive(Debug, Default)]
pub(crate) struct RemotePaths {
    /// Site numbers in ascending order.
    sites: Vec<u16>,
    /// Row number of each port, or [`NO_ROW`].
    rows: Vec<u16>,
    /// The states of each row, in the order of `sites`. Empty until the first message arrives at the port.
    paths: Vec<Box<[RemotePathState]>>,
    /// Sequence number of the latest message of each row.
    last_sequences: Vec<Option<u32>>,
    /// Number of states that say that no path exists.
    unreachable: usize,
}

impl RemotePaths {
    /// Sets the ports that may receive messages.
    pub(super) fn configure(&mut self, ports: usize, advertise: Option<&AdvertiseConfig>) {
        let mut rows = vec![NO_ROW; ports];
        let mut count = 0;
        for port in advertise.map_or(&[][..], |config| &config.ports) {
            if let Some(row @ &mut NO_ROW) = rows.get_mut(usize::from(*port)) {
                *row = count;
                count += 1;
            }
        }
        if rows != self.rows {
            self.rows = rows;
            self.last_sequences = vec![None; usize::from(count)];
            self.paths = vec![Box::default(); usize::from(count)];
            self.unreachable = 0;
        }
    }

    /// Sets the site numbers (destination leaves) of the routes, in ascending order. Sites that existed
    /// before keep their state.
    pub(super) fn set_sites(&mut self, sites: Vec<u16>) {
        if sites == self.sites {
            return;
        }
        for row in self.paths.iter_mut().filter(|row| !row.is_empty()) {
            let old = |site: &u16| row.get(self.sites.binary_search(site).ok()?).copied();
            *row = sites
                .iter()
                .map(|site| old(site).unwrap_or(NOT_ADVERTISED))
                .collect();
        }
        let states = self.paths.iter().flatten();
        self.unreachable = states.filter(|path| !path.reaches()).count();
        self.sites = sites;
    }

    /// Returns the index of a site in the list of sites (destination leaves). Returns `None` if no neighbour
    /// can advertise the site.
    pub(super) fn site_index(&self, site: u16) -> Option<SiteIndex> {
        let index = self.sites.binary_search(&site).ok()?;
        (!self.paths.is_empty()).then_some(SiteIndex::new(index))
    }

    /// Returns true if link quality messages are expected on a port.
    #[inline]
    pub(crate) fn accepts_messages(&self, port: PortId) -> bool {
        self.rows.get(port.index()).is_some_and(|row| *row != NO_ROW)
    }

    /// Returns true if a neighbour has advertised that it has no path to a site.
    #[inline]
    pub(super) fn any_unreachable(&self) -> bool {
        self.unreachable > 0
    }

    /// Stores a received message. Returns true if the reachability of a site has changed.
    pub(crate) fn receive(&mut self, now: Picos, port: PortId, message: &LinkQuality<'_>) -> bool {
        let Some(row) = self.row_of_port(port) else {
            return false;
        };
        if let Some(last) = self.last_sequences[row]
            && last.wrapping_sub(message.sequence) < LATE_SEQUENCE_MAX
        {
            return false;
        }
        self.last_sequences[row] = Some(message.sequence);
        let until = now.saturating_add(Picos::from_micros(u64::from(message.hold_us)));
        let mut changed = false;
        for entry in message.entries() {
            changed |= self.store_entry(now, row, until, entry);
        }
        changed
    }

    /// Stores one entry of a link quality message: the state of one site (destination leaf). Returns true if
    /// the reachability of the site changed.
    fn store_entry(&mut self, now: Picos, row: usize, until: Picos, entry: SiteEntry) -> bool {
        let Ok(index) = self.sites.binary_search(&entry.site) else {
            return false;
        };
        let states = &mut self.paths[row];
        if states.is_empty() {
            *states = vec![NOT_ADVERTISED; self.sites.len()].into();
        }
        let path = &mut states[index];
        let reached = path.reaches();
        *path = RemotePathState {
            load: entry.load.unwrap_or_default(),
            until: match entry.load {
                None => Picos::ZERO,
                Some(PathLoad {
                    load: 0,
                    utilisation: 0,
                }) => Picos::NEVER,
                Some(_) => until,
            },
            capacity_mbps: entry.capacity_mbps.min(u32::MAX - 1),
            received_at: now,
        };
        let reaches = path.reaches();
        self.unreachable = self.unreachable + usize::from(!reaches) - usize::from(!reached);
        reached != reaches
    }

    /// Removes the states of a port whose link went down. Returns true if the neighbour at this port had
    /// advertised at least one site (destination leaf) as unreachable.
    pub(crate) fn clear_port(&mut self, port: PortId) -> bool {
        let Some(row) = self.row_of_port(port) else {
            return false;
        };
        self.last_sequences[row] = None;
        let states = core::mem::take(&mut self.paths[row]);
        let missing = states.iter().filter(|path| !path.reaches()).count();
        self.unreachable -= missing;
        missing > 0
    }

    /// Returns false if the neighbour has advertised on all of these ports that it cannot reach the site.
    /// Otherwise, returns true.
    #[inline]
    pub(super) fn reaches(&self, ports: &[PortId], site: SiteIndex) -> bool {
        !self.any_unreachable()
            || ports.is_empty()
            || self.paths_on(ports, site).any(RemotePathState::reaches)
    }

    /// Returns the load of the neighbour's path to a site. Returns `None` if the load is not known. If
    /// `ports` are the ports of a LAG, all of them lead to the same neighbour, and the result is the
    /// highest load.
    #[inline]
    pub(super) fn load(&self, now: Picos, ports: &[PortId], site: SiteIndex) -> Option<PathLoad> {
        let known = self.paths_on(ports, site).filter(|path| now < path.until);
        known.map(|path| path.load).reduce(max_path_load)
    }

    /// Returns the capacity of the neighbour's paths to a site in Mb/s. Returns `None` if the neighbour has
    /// not advertised a capacity.
    pub(super) fn capacity_mbps(&self, ports: &[PortId], site: SiteIndex) -> Option<u32> {
        let told = self.paths_on(ports, site).map(|path| path.capacity_mbps);
        told.filter(|capacity| *capacity != u32::MAX).max()
    }

    /// Returns the states that were advertised on a port, in the order of sites.
    pub(crate) fn advertisements(
        &self,
        now: Picos,
        port: PortId,
    ) -> impl Iterator<Item = RemoteAdvertisement> {
        let paths = self.row_of_port(port).map_or(&[][..], |row| &self.paths[row]);
        let told = self.sites.iter().zip(paths);
        told.filter(|(_, path)| path.capacity_mbps != u32::MAX)
            .map(move |(site, path)| RemoteAdvertisement {
                site: *site,
                load: (now < path.until).then_some(path.load),
                capacity_mbps: path.capacity_mbps,
                received_at: path.received_at,
            })
    }

    /// Returns the row of a port. Returns `None` if the port receives no messages.
    fn row_of_port(&self, port: PortId) -> Option<usize> {
        let row = *self.rows.get(port.index())?;
        (row != NO_ROW).then_some(usize::from(row))
    }

    /// Returns the states of these ports for a site. A port without messages has the
    /// state [`NOT_ADVERTISED`].
    #[inline]
    fn paths_on(&self, ports: &[PortId], site: SiteIndex) -> impl Iterator<Item = &RemotePathState> {
        ports.iter().map(move |port| match self.row_of_port(*port) {
            Some(row) => self.paths[row].get(site.index()).unwrap_or(&NOT_ADVERTISED),
            None => &NOT_ADVERTISED,
        })
    }
}

/// Returns the load of two paths in series: the larger value of each field.
#[inline]
pub(super) fn max_path_load(a: PathLoad, b: PathLoad) -> PathLoad {
    PathLoad {
        load: a.load.max(b.load),
        utilisation: a.utilisation.max(b.utilisation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_wire::link_quality;

    const PORT: PortId = PortId(1);

    fn remote_paths() -> RemotePaths {
        let mut remote = RemotePaths::default();
        let advertise = AdvertiseConfig {
            interval: Picos::from_micros(50),
            ports: vec![1, 3],
            loads: true,
        };
        remote.configure(4, Some(&advertise));
        remote.set_sites(vec![2, 5]);
        remote
    }

    fn receive_entries(
        remote: &mut RemotePaths,
        at: u64,
        sequence: u32,
        entries: &[(u16, Option<u16>, u32)],
    ) -> bool {
        let entry = |&(site, load, capacity_mbps): &(u16, Option<u16>, u32)| SiteEntry {
            site,
            load: load.map(|load| PathLoad {
                load,
                utilisation: load,
            }),
            capacity_mbps,
        };
        let mut frame = vec![0; link_quality::frame_len(entries.len())];
        link_quality::emit(&mut frame, [2; 6], sequence, 200, entries.iter().map(entry));
        let message = LinkQuality::parse(&frame).unwrap();
        remote.receive(Picos::from_micros(at), PORT, &message)
    }

    fn load_at(remote: &RemotePaths, at: u64, site: u16) -> Option<u16> {
        let site = remote.site_index(site).unwrap();
        remote
            .load(Picos::from_micros(at), &[PORT], site)
            .map(|path| path.load)
    }

    #[test]
    fn loads_expire_unless_they_are_zero() {
        let mut remote = remote_paths();
        assert_eq!(load_at(&remote, 0, 2), None);
        assert!(!receive_entries(
            &mut remote,
            100,
            1,
            &[(2, Some(700), 10), (5, Some(0), 10)]
        ));
        assert_eq!(
            (load_at(&remote, 299, 2), load_at(&remote, 300, 2)),
            (Some(700), None)
        );
        assert_eq!(load_at(&remote, 1_000_000, 5), Some(0));
        receive_entries(&mut remote, 400, 2, &[(2, None, 10)]);
        assert_eq!(load_at(&remote, 400, 2), None, "not measured");
    }

    #[test]
    fn an_unreachable_site_stays_unreachable_until_a_message_or_link_down() {
        let mut remote = remote_paths();
        let site = remote.site_index(2).unwrap();
        assert!(receive_entries(&mut remote, 0, 1, &[(2, None, 0)]));
        assert!(
            !receive_entries(&mut remote, 1, 2, &[(2, None, 0)]),
            "nothing new"
        );
        assert!(!remote.reaches(&[PORT], site) && remote.any_unreachable());
        assert!(remote.reaches(&[PortId(3)], site) && remote.reaches(&[PORT, PortId(3)], site));
        assert!(receive_entries(&mut remote, 2, 3, &[(2, None, 40_000)]));
        assert!(remote.reaches(&[PORT], site) && !remote.any_unreachable());
        assert_eq!(remote.capacity_mbps(&[PORT], site), Some(40_000));
        receive_entries(&mut remote, 3, 4, &[(2, None, 0)]);
        assert!(remote.clear_port(PORT) && remote.reaches(&[PORT], site));
        assert_eq!(remote.capacity_mbps(&[PORT], site), None);
        assert!(receive_entries(&mut remote, 4, 1, &[(2, None, 0)]), "a new start");
    }

    #[test]
    fn late_messages_are_ignored_and_restarts_are_accepted() {
        let mut remote = remote_paths();
        receive_entries(&mut remote, 0, 100, &[(2, Some(700), 10)]);
        receive_entries(&mut remote, 1, 100, &[(2, Some(1), 10)]);
        receive_entries(&mut remote, 1, 99, &[(2, Some(1), 10)]);
        assert_eq!(load_at(&remote, 1, 2), Some(700));
        receive_entries(&mut remote, 1, 0, &[(2, Some(1), 10)]);
        assert_eq!(load_at(&remote, 1, 2), Some(1), "a new start");
        receive_entries(&mut remote, 1, u32::MAX, &[(2, Some(2), 10)]);
        assert_eq!(load_at(&remote, 1, 2), Some(1), "just before the turn");
    }

    #[test]
    fn advertised_state_is_kept_for_remaining_sites() {
        let mut remote = remote_paths();
        receive_entries(
            &mut remote,
            0,
            1,
            &[(2, Some(700), 10), (5, None, 0), (9, Some(5), 10)],
        );
        assert!(remote.site_index(9).is_none(), "no route leads there");
        remote.set_sites(vec![1, 5, 9]);
        assert!(!remote.reaches(&[PORT], remote.site_index(5).unwrap()));
        assert_eq!(load_at(&remote, 0, 9), None);
        let paths: Vec<_> = remote.advertisements(Picos::ZERO, PORT).collect();
        assert_eq!((paths.len(), paths[0].site, paths[0].capacity_mbps), (1, 5, 0));
        remote.set_sites(vec![1]);
        assert!(!remote.any_unreachable());
    }
}
