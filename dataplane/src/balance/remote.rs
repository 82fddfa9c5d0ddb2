//! What neighbours have told of their ways: loads beyond the own links.
//!
//! A neighbour's *word* about a site has two parts, which are kept differently ([`xoff_wire::link_quality`] carries both):
//!
//! - its **load** is true for a while: it is forgotten when the time that came with it is over, and then the own link alone
//!   counts. A load of zero stands until something else is told, since a neighbour whose ways are idle falls silent;
//! - that there is **no way** stands until the opposite is told, or the link to the neighbour goes down. Members whose
//!   neighbour has said so carry nothing, as if their own link were down, unless that is true of all.
//!
//! So a lost message makes a choice worse for an interval or two, and breaks nothing.

use crate::config::AdvertiseConfig;
use crate::ids::PortId;
use xoff_units::Picos;
use xoff_wire::link_quality::{LinkQuality, PathLoad, SiteEntry};

/// A port with no row.
const NONE: u16 = u16::MAX;

/// A message whose number is less than so many behind is a late one; one further behind comes from a sender that has started anew.
const LATE_MAX: u32 = 8;

/// The place of a site among those of the current routes.
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

/// What a neighbour has told of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteWord {
    /// The site.
    pub site: u16,
    /// How busy its way is; `None`: not told, or too long ago.
    pub load: Option<PathLoad>,
    /// Mb/s of its way; 0: it has none.
    pub capacity_mbps: u32,
    /// When it was told.
    pub told_at: Picos,
}

#[derive(Clone, Copy, Debug)]
struct Word {
    load: PathLoad,
    /// The load counts before this time.
    until: Picos,
    /// `u32::MAX`: nothing was told yet.
    capacity_mbps: u32,
    told_at: Picos,
}

const UNSAID: Word = Word {
    load: PathLoad {
        load: 0,
        utilisation: 0,
    },
    until: Picos::ZERO,
    capacity_mbps: u32::MAX,
    told_at: Picos::ZERO,
};

impl Word {
    fn reaches(&self) -> bool {
        self.capacity_mbps != 0
    }
}

/// The words of all neighbours.
#[derive(Debug, Default)]
pub(crate) struct Remote {
    /// In order.
    sites: Vec<u16>,
    /// The row of each port.
    rows: Vec<u16>,
    /// Row after row, a word for each site.
    words: Vec<Word>,
    /// The number of the latest message, per row.
    heard: Vec<Option<u32>>,
    /// How many words say that there is no way.
    unreachable: usize,
}

impl Remote {
    /// These ports lead to switches that may tell something.
    pub(super) fn configure(&mut self, ports: usize, advertise: Option<&AdvertiseConfig>) {
        let mut rows = vec![NONE; ports];
        let mut count = 0;
        for port in advertise.map_or(&[][..], |config| &config.ports) {
            if let Some(row @ &mut NONE) = rows.get_mut(usize::from(*port)) {
                *row = count;
                count += 1;
            }
        }
        if rows != self.rows {
            self.rows = rows;
            self.heard = vec![None; usize::from(count)];
            self.words = vec![UNSAID; usize::from(count) * self.sites.len()];
            self.unreachable = 0;
        }
    }

    /// These are the sites of the routes, in order; words about those that stay are kept.
    pub(super) fn set_sites(&mut self, sites: Vec<u16>) {
        if sites == self.sites {
            return;
        }
        let before = core::mem::take(&mut self.words);
        let old = |row: usize, site: &u16| {
            let place = self.sites.binary_search(site).ok()?;
            before.get(row * self.sites.len() + place).copied()
        };
        let rows = 0..self.heard.len();
        let words = rows.flat_map(|row| sites.iter().map(move |site| old(row, site).unwrap_or(UNSAID)));
        self.words = words.collect();
        self.unreachable = self.words.iter().filter(|word| !word.reaches()).count();
        self.sites = sites;
    }

    /// The place of a site; `None`: nobody can say anything of it.
    pub(super) fn site(&self, site: u16) -> Option<SiteIndex> {
        let place = self.sites.binary_search(&site).ok()?;
        (!self.words.is_empty()).then(|| SiteIndex::new(place))
    }

    /// Whether a port leads to a switch that may tell something.
    #[inline]
    pub(crate) fn listens(&self, port: PortId) -> bool {
        self.rows.get(port.index()).is_some_and(|row| *row != NONE)
    }

    /// Whether somebody has said of some site that there is no way.
    #[inline]
    pub(super) fn any_unreachable(&self) -> bool {
        self.unreachable > 0
    }

    /// Takes a message; whether a way has ended or is there again.
    pub(crate) fn hear(&mut self, now: Picos, port: PortId, message: &LinkQuality<'_>) -> bool {
        let Some(row) = self.row(port) else { return false };
        if let Some(last) = self.heard[row]
            && last.wrapping_sub(message.sequence) < LATE_MAX
        {
            return false;
        }
        self.heard[row] = Some(message.sequence);
        let until = now.saturating_add(Picos::from_micros(u64::from(message.hold_us)));
        let mut changed = false;
        for entry in message.entries() {
            changed |= self.enter(now, row, until, entry);
        }
        changed
    }

    fn enter(&mut self, now: Picos, row: usize, until: Picos, entry: SiteEntry) -> bool {
        let Ok(place) = self.sites.binary_search(&entry.site) else {
            return false;
        };
        let word = &mut self.words[row * self.sites.len() + place];
        let reached = word.reaches();
        *word = Word {
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
            told_at: now,
        };
        let reaches = word.reaches();
        self.unreachable = self.unreachable + usize::from(!reaches) - usize::from(!reached);
        reached != reaches
    }

    /// The link of a port went down: what was told there is void. Whether a way has been missing there.
    pub(crate) fn forget(&mut self, port: PortId) -> bool {
        let Some(row) = self.row(port) else { return false };
        self.heard[row] = None;
        let sites = self.sites.len();
        let mut missing = 0;
        for word in &mut self.words[row * sites..][..sites] {
            missing += usize::from(!word.reaches());
            *word = UNSAID;
        }
        self.unreachable -= missing;
        missing > 0
    }

    /// Whether a neighbour behind these ports has not said that it has no way to a site. It has not as long as it has not said so on one of them.
    #[inline]
    pub(super) fn reaches(&self, ports: &[PortId], site: SiteIndex) -> bool {
        !self.any_unreachable() || ports.is_empty() || self.of(ports, site).any(Word::reaches)
    }

    /// How busy the way of the neighbour behind these ports is; `None`: it is not known. Of the ports of a LAG, which all lead
    /// to the same neighbour, the busiest word counts.
    #[inline]
    pub(super) fn load(&self, now: Picos, ports: &[PortId], site: SiteIndex) -> Option<PathLoad> {
        let known = self.of(ports, site).filter(|word| now < word.until);
        known.map(|word| word.load).reduce(busier)
    }

    /// Mb/s of the way of the neighbour behind these ports, if it has told.
    pub(super) fn capacity_mbps(&self, ports: &[PortId], site: SiteIndex) -> Option<u32> {
        let told = self.of(ports, site).map(|word| word.capacity_mbps);
        told.filter(|capacity| *capacity != u32::MAX).max()
    }

    /// What has been told on a port, in the order of sites.
    pub(crate) fn words(&self, now: Picos, port: PortId) -> impl Iterator<Item = RemoteWord> {
        let sites = self.sites.len();
        let words = self
            .row(port)
            .map_or(&[][..], |row| &self.words[row * sites..][..sites]);
        let told = self.sites.iter().zip(words);
        told.filter(|(_, word)| word.capacity_mbps != u32::MAX)
            .map(move |(site, word)| RemoteWord {
                site: *site,
                load: (now < word.until).then_some(word.load),
                capacity_mbps: word.capacity_mbps,
                told_at: word.told_at,
            })
    }

    fn row(&self, port: PortId) -> Option<usize> {
        let row = *self.rows.get(port.index())?;
        (row != NONE).then_some(usize::from(row))
    }

    /// The words on these ports about a site; a port where nobody tells anything has one that says nothing.
    #[inline]
    fn of(&self, ports: &[PortId], site: SiteIndex) -> impl Iterator<Item = &Word> {
        ports.iter().map(move |port| match self.row(*port) {
            Some(row) => &self.words[row * self.sites.len() + site.index()],
            None => &UNSAID,
        })
    }
}

/// The greater of each of two ways' loads: that of both, one behind the other.
#[inline]
pub(super) fn busier(a: PathLoad, b: PathLoad) -> PathLoad {
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

    fn remote() -> Remote {
        let mut remote = Remote::default();
        let advertise = AdvertiseConfig {
            interval: Picos::from_micros(50),
            ports: vec![1, 3],
            loads: true,
        };
        remote.configure(4, Some(&advertise));
        remote.set_sites(vec![2, 5]);
        remote
    }

    fn say(remote: &mut Remote, at: u64, sequence: u32, entries: &[(u16, Option<u16>, u32)]) -> bool {
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
        remote.hear(Picos::from_micros(at), PORT, &message)
    }

    fn load(remote: &Remote, at: u64, site: u16) -> Option<u16> {
        let site = remote.site(site).unwrap();
        remote
            .load(Picos::from_micros(at), &[PORT], site)
            .map(|path| path.load)
    }

    #[test]
    fn loads_are_forgotten_and_idle_ways_are_not() {
        let mut remote = remote();
        assert_eq!(load(&remote, 0, 2), None);
        assert!(!say(&mut remote, 100, 1, &[(2, Some(700), 10), (5, Some(0), 10)]));
        assert_eq!((load(&remote, 299, 2), load(&remote, 300, 2)), (Some(700), None));
        assert_eq!(load(&remote, 1_000_000, 5), Some(0));
        say(&mut remote, 400, 2, &[(2, None, 10)]);
        assert_eq!(load(&remote, 400, 2), None, "not measured");
    }

    #[test]
    fn a_missing_way_stands_until_it_is_back_or_the_link_goes_down() {
        let mut remote = remote();
        let site = remote.site(2).unwrap();
        assert!(say(&mut remote, 0, 1, &[(2, None, 0)]));
        assert!(!say(&mut remote, 1, 2, &[(2, None, 0)]), "nothing new");
        assert!(!remote.reaches(&[PORT], site) && remote.any_unreachable());
        assert!(remote.reaches(&[PortId(3)], site) && remote.reaches(&[PORT, PortId(3)], site));
        assert!(say(&mut remote, 2, 3, &[(2, None, 40_000)]));
        assert!(remote.reaches(&[PORT], site) && !remote.any_unreachable());
        assert_eq!(remote.capacity_mbps(&[PORT], site), Some(40_000));
        say(&mut remote, 3, 4, &[(2, None, 0)]);
        assert!(remote.forget(PORT) && remote.reaches(&[PORT], site));
        assert_eq!(remote.capacity_mbps(&[PORT], site), None);
        assert!(say(&mut remote, 4, 1, &[(2, None, 0)]), "a new start");
    }

    #[test]
    fn late_messages_are_ignored_and_new_starts_are_not() {
        let mut remote = remote();
        say(&mut remote, 0, 100, &[(2, Some(700), 10)]);
        say(&mut remote, 1, 100, &[(2, Some(1), 10)]);
        say(&mut remote, 1, 99, &[(2, Some(1), 10)]);
        assert_eq!(load(&remote, 1, 2), Some(700));
        say(&mut remote, 1, 0, &[(2, Some(1), 10)]);
        assert_eq!(load(&remote, 1, 2), Some(1), "a new start");
        say(&mut remote, 1, u32::MAX, &[(2, Some(2), 10)]);
        assert_eq!(load(&remote, 1, 2), Some(1), "just before the turn");
    }

    #[test]
    fn words_stay_with_their_sites() {
        let mut remote = remote();
        say(
            &mut remote,
            0,
            1,
            &[(2, Some(700), 10), (5, None, 0), (9, Some(5), 10)],
        );
        assert!(remote.site(9).is_none(), "no route leads there");
        remote.set_sites(vec![1, 5, 9]);
        assert!(!remote.reaches(&[PORT], remote.site(5).unwrap()));
        assert_eq!(load(&remote, 0, 9), None);
        let words: Vec<_> = remote.words(Picos::ZERO, PORT).collect();
        assert_eq!((words.len(), words[0].site, words[0].capacity_mbps), (1, 5, 0));
        remote.set_sites(vec![1]);
        assert!(!remote.any_unreachable());
    }
}
