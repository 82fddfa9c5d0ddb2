//! Tags of routes by prefix: the scheme (`XOFF_LB_GROUP`) and the site (`XOFF_LB_SITE`) of a route. The entry
//! with the longest prefix that contains the route applies.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use xoff_dataplane::route::RouteTag;

use super::super::context::ResolveContext;
use super::schemes::SchemeList;
use crate::problem::Problem;
use crate::schema;

const GROUP: &str = "XOFF_LB_GROUP";
const SITE: &str = "XOFF_LB_SITE";

/// Load-balancing schemes and sites of routes by prefix. A scheme is stored as an index in the list of used
/// schemes. A site is the number of a destination leaf.
pub(super) struct RouteTags {
    schemes: PrefixTable,
    /// Schemes of routes without a matching prefix: first for IPv4, then for IPv6.
    families: [Option<u16>; 2],
    sites: PrefixTable,
}

impl RouteTags {
    /// Reads `XOFF_LB_GROUP` and `XOFF_LB_SITE`.
    pub(super) fn from_config(context: &mut ResolveContext<'_>, schemes: &mut SchemeList) -> RouteTags {
        let scheme = |context: &ResolveContext<'_>, key: &str| {
            schemes.index_of_name(context.text(GROUP, key, "scheme")?)
        };
        let computed = context.options.computed_routes.clone();
        let by_scheme = read_prefix_table(context, GROUP, scheme);
        let site = |context: &ResolveContext<'_>, key: &str| Some(context.number(SITE, key, "site")? as u16);
        let mut sites = read_prefix_table(context, SITE, site);
        if let Some(computed) = computed {
            let computed = computed.sites.iter();
            sites.extend(computed.map(|(network, site)| (IpNet::V4(*network), *site)));
        }
        RouteTags {
            schemes: PrefixTable::new(by_scheme),
            families: [None; 2],
            sites: PrefixTable::new(sites),
        }
    }

    /// Selects the static hash for routes without a matching prefix. The first value of `hashed` is for IPv4,
    /// and the second value is for IPv6.
    pub(super) fn set_static_hash_by_ip_version(&mut self, hashed: [bool; 2], schemes: &mut SchemeList) {
        self.families = hashed.map(|hashed| {
            hashed
                .then(|| schemes.index_of_name(super::DEFAULT_SCHEME))
                .flatten()
        });
    }

    /// Removes all sites.
    pub(super) fn forget_sites(&mut self) {
        self.sites = PrefixTable::default();
    }

    /// Returns the tag (load-balancing scheme and site) of routes to a prefix. A site is the number of the
    /// destination leaf. The site 0 means that no site is configured.
    pub(super) fn tag_of(&self, prefix: IpNet) -> RouteTag {
        RouteTag {
            site: self.sites.find_longest(prefix).unwrap_or(0),
            scheme: self
                .schemes
                .find_longest(prefix)
                .or(self.families[usize::from(prefix.addr().is_ipv6())]),
        }
    }
}

/// Reads the entries of a table with prefixes as keys. `value` reads the value of an entry. Prefixes with
/// host bits and duplicate prefixes are errors.
fn read_prefix_table<T>(
    context: &mut ResolveContext<'_>,
    table: &'static str,
    mut value: impl FnMut(&ResolveContext<'_>, &str) -> Option<T>,
) -> BTreeMap<IpNet, T> {
    let mut all = BTreeMap::new();
    for key in context.db.keys(table) {
        let Some(prefix) = schema::parse_prefix(key) else {
            continue;
        };
        if prefix != prefix.trunc() {
            let why = format!(
                "{prefix} has bits set beyond its prefix length of {}",
                prefix.prefix_len()
            );
            let problem =
                Problem::at_field(table, key, "", why).with_fix(format!("write {}", prefix.trunc()));
            context.report_error_within_entry(problem);
            continue;
        }
        let Some(value) = value(context, key) else {
            continue;
        };
        if all.insert(prefix, value).is_some() {
            let why = format!("another entry has the prefix {prefix}");
            context.report_entry_contradiction(
                Problem::at_field(table, key, "", why).with_fix("remove one of them"),
            );
        }
    }
    all
}

/// Values by prefix.
#[derive(Debug, Default)]
struct PrefixTable {
    values: BTreeMap<IpNet, u16>,
    /// The prefix lengths that occur, the longest first. The first list is for IPv4, and the second one for IPv6. A
    /// large fabric looks up many thousands of routes, and nearly all of its entries have the same length.
    lengths: [Vec<u8>; 2],
}

impl PrefixTable {
    /// Creates a table from entries without host bits.
    fn new(values: BTreeMap<IpNet, u16>) -> PrefixTable {
        let lengths = [false, true].map(|is_ipv6| {
            let of_version = values.keys().filter(|prefix| prefix.addr().is_ipv6() == is_ipv6);
            let lengths: BTreeSet<u8> = of_version.map(IpNet::prefix_len).collect();
            lengths.into_iter().rev().collect()
        });
        PrefixTable { values, lengths }
    }

    /// Returns the value of the longest prefix that contains `prefix`. Returns `None` if no entry
    /// contains `prefix`.
    fn find_longest(&self, prefix: IpNet) -> Option<u16> {
        let lengths = &self.lengths[usize::from(prefix.addr().is_ipv6())];
        let shorter = lengths.iter().filter(|length| **length <= prefix.prefix_len());
        shorter
            .filter_map(|length| IpNet::new(prefix.addr(), *length).ok())
            .find_map(|containing| self.values.get(&containing.trunc()).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use xoff_testing::random_generator;

    /// Compares the table with a search through all entries.
    #[test]
    fn the_longest_containing_prefix_is_found() {
        let mut below = random_generator(33);
        for round in 0..200 {
            // Addresses with few different bits, so that prefixes contain each other.
            let mut random_prefix = |round: u64| {
                let bits = below(16) as u32;
                let (address, length) = match round.is_multiple_of(2) {
                    true => (IpAddr::V4(Ipv4Addr::from_bits(bits << 28)), below(7) as u8),
                    false => (
                        IpAddr::V6(Ipv6Addr::from_bits(u128::from(bits) << 124)),
                        below(7) as u8,
                    ),
                };
                IpNet::new(address, length).expect("a valid length").trunc()
            };
            let entries: BTreeMap<IpNet, u16> = (0..1 + round % 12)
                .map(|value| (random_prefix(round + value), value as u16))
                .collect();
            let table = PrefixTable::new(entries.clone());
            for index in 0..40 {
                let prefix = random_prefix(index);
                let containing = entries.iter().filter(|(entry, _)| entry.contains(&prefix));
                let longest = containing.max_by_key(|(entry, _)| entry.prefix_len());
                assert_eq!(
                    table.find_longest(prefix),
                    longest.map(|(_, value)| *value),
                    "{prefix} in {entries:?}"
                );
            }
        }
        assert_eq!(PrefixTable::default().find_longest(IpNet::default()), None);
    }
}
