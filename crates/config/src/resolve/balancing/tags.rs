//! Tags of routes by prefix: the scheme (`XOFF_LB_GROUP`) and the site (`XOFF_LB_SITE`) of a route. The entry
//! with the longest prefix that contains the route applies.

use std::collections::BTreeMap;

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
    schemes: BTreeMap<IpNet, u16>,
    /// Schemes of routes without a matching prefix: first for IPv4, then for IPv6.
    families: [Option<u16>; 2],
    sites: BTreeMap<IpNet, u16>,
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
            schemes: by_scheme,
            families: [None; 2],
            sites,
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
        self.sites.clear();
    }

    /// Returns the tag (load-balancing scheme and site) of routes to a prefix. A site is the number of the
    /// destination leaf. The site 0 means that no site is configured.
    pub(super) fn tag_of(&self, prefix: IpNet) -> RouteTag {
        RouteTag {
            site: find_longest_prefix(&self.sites, prefix).unwrap_or(0),
            scheme: find_longest_prefix(&self.schemes, prefix)
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

/// Returns the value of the longest prefix that contains `prefix`. Returns `None` if no entry
/// contains `prefix`.
fn find_longest_prefix(entries: &BTreeMap<IpNet, u16>, prefix: IpNet) -> Option<u16> {
    if entries.is_empty() {
        return None;
    }
    let mut within = Some(prefix);
    while let Some(net) = within {
        if let Some(value) = entries.get(&net) {
            return Some(*value);
        }
        within = net.supernet();
    }
    None
}
