//! Resolves patterns of host names, such as `all`, `h3`, `h1..h8` and `*-g1`. The pattern `!h3` removes the
//! host `h3` from the hosts that earlier patterns selected.

use serde_saphyr::{Location, Spanned};

use super::node_kinds::entry_location;
use super::{LabResolver, NodeIndex};
use xoff_lab_file::OneOrMore;
use xoff_units::count_noun;

/// The format of a pattern, for messages.
const PATTERN_FORMAT: &str = "a host, `all`, a range h1..h8, a name with a star such as n1-* or *-g1, or one of these patterns after a !";

impl LabResolver<'_> {
    /// Returns the indices of the model hosts that a list of patterns selects, each host once.
    ///
    /// The hosts are in the order of the patterns. Hosts of a range such as `h8..h1` are in the order of the
    /// range. Hosts of `all` and of patterns with `*` are in the order of the lab file.
    pub(super) fn resolve_host_patterns(&mut self, list: &Spanned<OneOrMore>) -> Vec<u32> {
        let mut found: Vec<u32> = Vec::new();
        let mut seen = vec![false; self.hosts.len()];
        let mut is_excluded = false;
        for pattern in &list.value.0 {
            let location = entry_location(pattern.referenced, list.referenced);
            let (text, is_exclusion) = match pattern.value.strip_prefix('!') {
                Some(text) => (text, true),
                None => (pattern.value.as_str(), false),
            };
            for host in self.match_host_pattern(text, location) {
                match (
                    is_exclusion,
                    std::mem::replace(&mut seen[host as usize], !is_exclusion),
                ) {
                    (false, false) => found.push(host),
                    (false, true) => self.report_duplicate_host(host, location),
                    // The host is removed after all hosts of the pattern.
                    (true, true) => is_excluded = true,
                    (true, false) => {
                        let what = format!(
                            "{} is not among the hosts before \"{}\"",
                            self.hosts[host as usize], pattern.value
                        );
                        self.report_problem(
                            location,
                            what,
                            "remove the !, or write the hosts to exclude from before it",
                        );
                    }
                }
            }
            if std::mem::take(&mut is_excluded) {
                found.retain(|host| seen[*host as usize]);
            }
        }
        found
    }

    /// Reports a host that a list names twice.
    fn report_duplicate_host(&mut self, host: u32, location: Location) {
        let what = format!("{} is named twice", self.hosts[host as usize]);
        self.report_problem(location, what, "name each host once");
    }

    /// Returns the hosts that one pattern selects. Reports a pattern without a match.
    fn match_host_pattern(&mut self, text: &str, location: Location) -> Vec<u32> {
        let found: Vec<u32> = if text == "all" {
            self.filter_model_hosts(|_| true)
        } else if let Some((first, last)) = text.split_once("..") {
            return self.expand_host_range(text, first, last, location);
        } else if let Some((head, tail)) = text.split_once('*') {
            let fits = |name: &str| {
                name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
            };
            self.filter_model_hosts(fits)
        } else {
            return self
                .find_host_or_word(text, &["all"], location)
                .into_iter()
                .map(|host| host as u32)
                .collect();
        };
        if found.is_empty() && !self.is_topology_unknown && self.left_out.keys.is_empty() {
            let what = format!("no model host matches \"{text}\"");
            self.report_problem(
                location,
                what,
                format!(
                    "the model hosts are {}; write {PATTERN_FORMAT}",
                    self.list_names(self.models.iter().map(String::as_str))
                ),
            );
        }
        found
    }

    /// Returns all model hosts with a name that `predicate` accepts, in the order of the lab file.
    fn filter_model_hosts(&self, predicate: impl Fn(&str) -> bool) -> Vec<u32> {
        let names = self.models.iter().filter(|name| predicate(name));
        let index = |name: &String| match self.nodes.get(name) {
            Some(&NodeIndex::Host(host)) => Some(host as u32),
            _ => None,
        };
        names.filter_map(index).collect()
    }

    /// Returns the hosts of a range such as `h1..h8`. For the range `h8..h1`, the order is reversed.
    fn expand_host_range(&mut self, text: &str, first: &str, last: &str, location: Location) -> Vec<u32> {
        let number = |name: &str| {
            let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            let (prefix, number) = name.split_at(name.len() - digits);
            Some((prefix.to_owned(), number.parse::<u32>().ok()?))
        };
        let (Some((prefix, from)), Some((other, to))) = (number(first), number(last)) else {
            self.report_problem(
                location,
                format!("\"{text}\" is not a range of hosts"),
                format!("write {PATTERN_FORMAT}"),
            );
            return Vec::new();
        };
        if self.is_topology_unknown {
            return Vec::new();
        }
        if prefix != other || from.abs_diff(to) as usize >= self.hosts.len() {
            let what = format!("\"{text}\" is not a range of existing hosts");
            self.report_problem(
                location,
                what,
                format!(
                    "the model hosts are {}",
                    self.list_names(self.models.iter().map(String::as_str))
                ),
            );
            return Vec::new();
        }
        let step = |n: u32| if from <= to { from + n } else { from - n };
        let names: Vec<String> = (0..=from.abs_diff(to))
            .map(|n| format!("{prefix}{}", step(n)))
            .collect();
        let is_unknown =
            |name: &&String| !self.nodes.contains_key(*name) && !self.left_out.keys.contains(*name);
        let unknown: Vec<&str> = names.iter().filter(is_unknown).map(String::as_str).collect();
        if !unknown.is_empty() {
            let what = format!(
                "\"{text}\" names {} that the lab does not have: {}",
                count_noun(unknown.len() as u64, "host"),
                self.list_names(unknown.iter().copied())
            );
            let models = self.list_names(self.models.iter().map(String::as_str));
            self.report_problem(location, what, format!("the model hosts are {models}"));
            return Vec::new();
        }
        let hosts: Vec<Option<usize>> = names
            .iter()
            .map(|name| self.find_model_host(name, location))
            .collect();
        hosts.into_iter().flatten().map(|host| host as u32).collect()
    }
}

/// Returns whether a pattern is the name of one host.
pub(super) fn is_host_name(pattern: &str) -> bool {
    pattern != "all" && !pattern.contains("..") && !pattern.contains(['*', '!'])
}
