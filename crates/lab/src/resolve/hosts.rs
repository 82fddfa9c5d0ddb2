//! Patterns of hosts: `all`, `h3`, `h1..h8`, `*-g1`, and `!h3` for all but those.

use serde_saphyr::{Location, Spanned};

use super::super::file::OneOrMore;
use super::kinds::known;
use super::{NodeIndex, Resolver, listed};

/// What a pattern may look like, for messages.
const PATTERN: &str = "a host, `all`, a range h1..h8, a name with a star such as n1-* or *-g1, or one of those with ! before it";

impl Resolver<'_> {
    /// The model hosts that a list of patterns names, each once, in the list's order: those of a range in the range's, those of a
    /// star or `all` in the file's.
    pub(super) fn hosts_of(&mut self, list: &Spanned<OneOrMore>) -> Vec<u32> {
        let mut found: Vec<u32> = Vec::new();
        let mut seen = vec![false; self.hosts.len()];
        for pattern in &list.value.0 {
            let at = known(pattern.referenced, list.referenced);
            let (text, without) = match pattern.value.strip_prefix('!') {
                Some(text) => (text, true),
                None => (pattern.value.as_str(), false),
            };
            for host in self.matching(text, at) {
                match (without, std::mem::replace(&mut seen[host as usize], !without)) {
                    (false, false) => found.push(host),
                    (false, true) => self.twice(host, at),
                    (true, true) => found.retain(|other| *other != host),
                    (true, false) => {
                        let what = format!(
                            "{} is not among the hosts before \"{}\"",
                            self.hosts[host as usize], pattern.value
                        );
                        self.wrong(
                            at,
                            what,
                            "take the ! away, or name what it is to be taken from first",
                        );
                    }
                }
            }
        }
        found
    }

    fn twice(&mut self, host: u32, at: Location) {
        let what = format!("{} is named twice", self.hosts[host as usize]);
        self.wrong(at, what, "name each host once");
    }

    fn matching(&mut self, text: &str, at: Location) -> Vec<u32> {
        let found: Vec<u32> = if text == "all" {
            self.models_where(|_| true)
        } else if let Some((first, last)) = text.split_once("..") {
            return self.range(text, first, last, at);
        } else if let Some((head, tail)) = text.split_once('*') {
            let fits = |name: &str| {
                name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
            };
            self.models_where(fits)
        } else {
            return self
                .flow_end(text, at)
                .into_iter()
                .map(|host| host as u32)
                .collect();
        };
        if found.is_empty() {
            let what = format!("no model host is meant by \"{text}\"");
            self.wrong(
                at,
                what,
                format!("the model hosts are {}; write {PATTERN}", listed(&self.models)),
            );
        }
        found
    }

    fn models_where(&self, fits: impl Fn(&str) -> bool) -> Vec<u32> {
        let names = self.models.iter().filter(|name| fits(name));
        let index = |name: &String| match self.nodes.get(name) {
            Some(&NodeIndex::Host(host)) => Some(host as u32),
            _ => None,
        };
        names.filter_map(index).collect()
    }

    /// `h1..h8`, and `h8..h1` the other way round.
    fn range(&mut self, text: &str, first: &str, last: &str, at: Location) -> Vec<u32> {
        let number = |name: &str| {
            let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            let (prefix, number) = name.split_at(name.len() - digits);
            Some((prefix.to_owned(), number.parse::<u32>().ok()?))
        };
        let (Some((prefix, from)), Some((other, to))) = (number(first), number(last)) else {
            self.wrong(
                at,
                format!("\"{text}\" is no range of hosts"),
                format!("write {PATTERN}"),
            );
            return Vec::new();
        };
        if prefix != other || from.abs_diff(to) as usize >= self.hosts.len() {
            let what = format!("\"{text}\" is no range of hosts that there are");
            self.wrong(at, what, format!("the model hosts are {}", listed(&self.models)));
            return Vec::new();
        }
        let step = |n: u32| if from <= to { from + n } else { from - n };
        let names = (0..=from.abs_diff(to)).map(|n| format!("{prefix}{}", step(n)));
        let hosts: Vec<Option<usize>> = names.map(|name| self.flow_end(&name, at)).collect();
        hosts.into_iter().flatten().map(|host| host as u32).collect()
    }
}
