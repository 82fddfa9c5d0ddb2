//! The names that a condition can contain: the counters of switches, ports, hosts, flows, jobs and links
//! of a lab.
//!
//! A name consists of parts that are separated by dots, for example `sw1.Ethernet0.tx_bytes`. The first part
//! is the name of a switch or host, or the word `flow`, `job` or `link`. The last part is a counter. A `*`
//! matches any characters within one part.

use std::collections::HashMap;

use super::counters::{self, CounterTable};
use super::{UnknownName, unit};

/// The maximum number of names in an error message.
const LISTED_NAMES_MAX: usize = 24;
/// The index in a [`CounterOwner`] that stands for the word `flow`, `job` or `link` alone. The next part of
/// the name selects a flow, job or link.
const NO_INDEX: usize = usize::MAX;
/// The number of PFC priorities, queues and priority groups of a port.
const PRIORITIES: u8 = 8;
/// The number of DSCP values.
const DSCPS: u8 = 64;

/// All names of a lab.
#[derive(Clone, Debug)]
pub struct NameDirectory {
    /// The name of each switch and of its ports.
    switches: Vec<(String, Vec<String>)>,
    hosts: Vec<String>,
    /// The name of each group of flows and the indices of its senders.
    flows: Vec<(String, Vec<usize>)>,
    /// The name of each job and the indices of its senders.
    jobs: Vec<(String, Vec<usize>)>,
    links: Vec<String>,
    /// The index of each switch and host by name.
    nodes: HashMap<String, NodeIndex>,
}

#[derive(Clone, Copy, Debug)]
enum NodeIndex {
    Switch(usize),
    Host(usize),
}

/// The object to which a counter or an event belongs. Switches, ports, hosts, flows, jobs and links are
/// stored as indices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CounterOwner {
    /// The whole run, such as for `now_ns`.
    Run,
    /// All ports of a switch.
    Switch(usize),
    /// A link.
    Link(usize),
    /// The prefix `SWITCH.pool` without a pool. It has no counters.
    Pools(usize),
    /// A buffer pool of a switch, by name. Any pool name is valid here, because the configuration that
    /// defines the pools is loaded later.
    Pool(usize, String),
    /// A port of a switch.
    Port(usize, usize),
    /// A priority group of a port.
    PriorityGroup(usize, usize, u8),
    /// An egress queue of a port.
    Queue(usize, usize, u8),
    /// PFC of one priority at a port.
    PortPfc(usize, usize, u8),
    /// The drops of a port. The counter is
    /// a reason, [`DropReason::name`](xoff_dataplane::drops::DropReason::name).
    Drops(usize, usize),
    /// A host.
    Host(usize),
    /// PFC of one priority at a host.
    HostPfc(usize, u8),
    /// The packets with one DSCP that arrived at a host.
    Arrivals(usize, u8),
    /// A flow group or a named `send` step. The second index selects one sender, and `None`
    /// means all senders.
    Flow(usize, Option<usize>),
    /// A job, and one sender or all senders.
    Job(usize, Option<usize>),
}

/// A counter that a name refers to.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterReference {
    /// The owner of the counter.
    pub owner: CounterOwner,
    /// The name of the counter in the tables of `docs/script.md`.
    pub counter: &'static str,
    /// The divisor that converts the value of the counter to the unit of the name. For example, the divisor
    /// is 1000 if the counter is in nanoseconds and the name ends in `_us`.
    pub divisor: f64,
}

/// An event that a name refers to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventReference {
    /// The object at which the event happens: the whole lab, a switch, a port or a host.
    pub owner: CounterOwner,
    /// The name of the event in the table of `docs/script.md`.
    pub event: &'static str,
}

/// The counters and the child objects of an owner.
struct NameLevel {
    counters: CounterTable,
    children: Vec<(String, CounterOwner)>,
}

impl NameDirectory {
    /// Creates a directory without links.
    ///
    /// `switches` contains the name of each switch and the names of its ports. `flows` and `jobs` contain the
    /// name of each flow or job, and the indices of its senders in `hosts`.
    pub fn new(
        switches: Vec<(String, Vec<String>)>,
        hosts: Vec<String>,
        flows: Vec<(String, Vec<usize>)>,
        jobs: Vec<(String, Vec<usize>)>,
    ) -> NameDirectory {
        let switch_nodes = switches
            .iter()
            .enumerate()
            .map(|(index, (name, _))| (name.clone(), NodeIndex::Switch(index)));
        let host_nodes = hosts
            .iter()
            .enumerate()
            .map(|(index, name)| (name.clone(), NodeIndex::Host(index)));
        let nodes = switch_nodes.chain(host_nodes).collect();
        NameDirectory {
            switches,
            hosts,
            flows,
            jobs,
            links: Vec::new(),
            nodes,
        }
    }

    /// Adds the names of the links.
    #[must_use]
    pub fn with_links(self, links: Vec<String>) -> NameDirectory {
        NameDirectory { links, ..self }
    }

    /// Returns the name of a switch and the names of its ports.
    pub fn switch_and_port_names(&self, switch: usize) -> Option<(&str, &[String])> {
        self.switches
            .get(switch)
            .map(|(name, ports)| (name.as_str(), ports.as_slice()))
    }

    /// Returns the name of a group of flows.
    pub fn flow_name(&self, flow: usize) -> Option<&str> {
        self.flows.get(flow).map(|(name, _)| name.as_str())
    }

    /// Finds the counter of a name.
    ///
    /// # Errors
    /// The name is unknown. The error contains the unknown part of the name and the valid names
    /// at this position.
    pub fn find_counter(&self, path: &str) -> Result<CounterReference, UnknownName> {
        let parts: Vec<&str> = path.split('.').collect();
        let (last, parents) = parts.split_last().unwrap_or((&"", &[]));
        let owner = self.find_owner(path, parents)?;
        self.counter_of(owner.clone(), last).ok_or_else(|| {
            let NameLevel { counters, children } = self.level_of(&owner);
            let counters = counters.iter().map(|counter| counter.name.to_owned());
            let children = children.into_iter().map(|(name, _)| format!("{name}..."));
            unknown_part(path, last, parents, counters.chain(children))
        })
    }

    /// Returns all names that match a pattern, in the order of the lab file.
    ///
    /// # Errors
    /// No name matches the pattern.
    pub fn matching_names(&self, pattern: &str) -> Result<Vec<String>, UnknownName> {
        let parts: Vec<&str> = pattern.split('.').collect();
        let (last, parents) = parts.split_last().unwrap_or((&"", &[]));
        let mut owners: Vec<(String, CounterOwner)> = vec![(String::new(), CounterOwner::Run)];
        for part in parents {
            let mut children = Vec::new();
            for (prefix, owner) in owners {
                let matching = self.matching_children(&owner, part).into_iter();
                children.extend(matching.map(|(name, child)| (format!("{prefix}{name}."), child)));
            }
            owners = children;
        }
        let mut names = Vec::new();
        for (prefix, owner) in owners {
            if last.contains('*') {
                let counters = counters_of(&owner)
                    .iter()
                    .filter(|counter| matches_pattern(last, counter.name));
                names.extend(counters.map(|counter| format!("{prefix}{}", counter.name)));
            } else if self.counter_of(owner, last).is_some() {
                names.push(format!("{prefix}{last}"));
            }
        }
        if names.is_empty() {
            let hint = "no name matches this pattern; docs/script.md lists all names".to_owned();
            return Err(UnknownName {
                name: pattern.to_owned(),
                hint,
            });
        }
        Ok(names)
    }

    /// Finds the event of a name. For example, `ce` is an ECN mark anywhere in the lab, `sw1.ce` a mark at a
    /// switch, and `sw1.Ethernet0.ce` a mark at a port.
    ///
    /// # Errors
    /// The event is unknown, the object in its prefix is unknown, or this kind of object has no events.
    pub fn find_event(&self, path: &str) -> Result<EventReference, UnknownName> {
        let parts: Vec<&str> = path.split('.').collect();
        let (last, parents) = parts.split_last().unwrap_or((&"", &[]));
        let Some(event) = counters::EVENTS.iter().find(|event| event.name == *last) else {
            let events = counters::EVENTS.iter().map(|event| event.name.to_owned());
            return Err(unknown_part(path, last, parents, events));
        };
        let owner = self.find_owner(path, parents)?;
        match owner {
            CounterOwner::Run
            | CounterOwner::Switch(_)
            | CounterOwner::Port(..)
            | CounterOwner::Host(_)
            | CounterOwner::Arrivals(..) => Ok(EventReference {
                owner,
                event: event.name,
            }),
            _ => Err(UnknownName {
                name: path.to_owned(),
                hint: "events happen in the whole lab, at a switch, at a port or at a host".to_owned(),
            }),
        }
    }

    fn find_owner(&self, path: &str, parts: &[&str]) -> Result<CounterOwner, UnknownName> {
        let mut owner = CounterOwner::Run;
        for (index, part) in parts.iter().enumerate() {
            owner = self.child_of(&owner, part).ok_or_else(|| {
                let children = self.level_of(&owner).children;
                let names = children.into_iter().map(|(name, _)| name);
                unknown_part(path, part, &parts[..index], names)
            })?;
        }
        Ok(owner)
    }

    /// Returns the counter of an object by name. A counter in nanoseconds, such as `paused_ns`, can also be
    /// read in another unit, such as `paused_us`.
    fn counter_of(&self, owner: CounterOwner, name: &str) -> Option<CounterReference> {
        let counters = counters_of(&owner);
        let reference = |counter: &'static str, divisor| CounterReference {
            owner,
            counter,
            divisor,
        };
        if let Some(counter) = counters.iter().find(|counter| counter.name == name) {
            return Some(reference(counter.name, 1.0));
        }
        let (stem, _) = name.rsplit_once('_')?;
        let (scale, dimension) = unit::name_unit(name);
        let counter = counters
            .iter()
            .find(|counter| counter.name.strip_suffix("_ns") == Some(stem))?;
        (dimension == unit::TIME).then(|| reference(counter.name, scale / 1e3))
    }

    /// Returns a child object by name. Switches and hosts are found through a map, because a lab can have
    /// thousands of them.
    fn child_of(&self, owner: &CounterOwner, part: &str) -> Option<CounterOwner> {
        match *owner {
            CounterOwner::Run => match (part, self.nodes.get(part)) {
                ("flow", _) => Some(CounterOwner::Flow(NO_INDEX, None)),
                ("job", _) => Some(CounterOwner::Job(NO_INDEX, None)),
                ("link", _) => Some(CounterOwner::Link(NO_INDEX)),
                (_, Some(NodeIndex::Switch(index))) => Some(CounterOwner::Switch(*index)),
                (_, Some(NodeIndex::Host(index))) => Some(CounterOwner::Host(*index)),
                _ => None,
            },
            CounterOwner::Switch(switch) if part == "pool" => Some(CounterOwner::Pools(switch)),
            CounterOwner::Pools(switch) => Some(CounterOwner::Pool(switch, part.to_owned())),
            CounterOwner::Switch(switch) => {
                let ports = &self.switches.get(switch)?.1;
                ports
                    .iter()
                    .position(|port| port == part)
                    .map(|port| CounterOwner::Port(switch, port))
            }
            _ => {
                let children = self.level_of(owner).children;
                children
                    .into_iter()
                    .find(|(name, _)| name == part)
                    .map(|(_, child)| child)
            }
        }
    }

    /// Returns the children of an owner that match one part of a pattern.
    fn matching_children(&self, owner: &CounterOwner, part: &str) -> Vec<(String, CounterOwner)> {
        if !part.contains('*') {
            let child = self.child_of(owner, part);
            return child.map(|child| (part.to_owned(), child)).into_iter().collect();
        }
        let mut children = self.level_of(owner).children;
        // A star matches nodes, but not the words `flow`, `job` and `link`.
        let is_word = |name: &str| *owner == CounterOwner::Run && matches!(name, "flow" | "job" | "link");
        children.retain(|(name, _)| !is_word(name) && matches_pattern(part, name));
        children
    }

    /// Returns the counters and all children of an owner.
    fn level_of(&self, owner: &CounterOwner) -> NameLevel {
        type Children = Vec<(String, CounterOwner)>;
        let senders = |senders: &[usize], new_owner: &dyn Fn(usize) -> CounterOwner| -> Children {
            senders
                .iter()
                .map(|host| (self.hosts[*host].clone(), new_owner(*host)))
                .collect()
        };
        let numbered = |count: u8, name: &str, new_owner: &dyn Fn(u8) -> CounterOwner| -> Children {
            (0..count).map(|n| (format!("{name}{n}"), new_owner(n))).collect()
        };
        let children = match *owner {
            CounterOwner::Run => {
                let switches = self.switches.iter().enumerate();
                let switches = switches.map(|(index, (name, _))| (name.clone(), CounterOwner::Switch(index)));
                let hosts = self.hosts.iter().enumerate();
                let hosts = hosts.map(|(index, name)| (name.clone(), CounterOwner::Host(index)));
                let flows = ("flow".to_owned(), CounterOwner::Flow(NO_INDEX, None));
                let jobs = ("job".to_owned(), CounterOwner::Job(NO_INDEX, None));
                let links = ("link".to_owned(), CounterOwner::Link(NO_INDEX));
                switches.chain(hosts).chain([flows, jobs, links]).collect()
            }
            CounterOwner::Switch(switch) => {
                let ports = self.switches[switch].1.iter().enumerate();
                ports
                    .map(|(index, port)| (port.clone(), CounterOwner::Port(switch, index)))
                    .collect()
            }
            CounterOwner::Port(switch, port) => {
                let mut children = numbered(PRIORITIES, "pg", &|n| {
                    CounterOwner::PriorityGroup(switch, port, n)
                });
                children.extend(numbered(PRIORITIES, "queue", &|n| {
                    CounterOwner::Queue(switch, port, n)
                }));
                children.extend(numbered(PRIORITIES, "pfc", &|n| {
                    CounterOwner::PortPfc(switch, port, n)
                }));
                children.push(("drops".to_owned(), CounterOwner::Drops(switch, port)));
                children
            }
            CounterOwner::Host(host) => {
                let mut children = numbered(PRIORITIES, "pfc", &|n| CounterOwner::HostPfc(host, n));
                children.extend(numbered(DSCPS, "dscp", &|n| CounterOwner::Arrivals(host, n)));
                children
            }
            CounterOwner::Link(NO_INDEX) => {
                let links = self.links.iter().enumerate();
                links
                    .map(|(index, name)| (name.clone(), CounterOwner::Link(index)))
                    .collect()
            }
            CounterOwner::Flow(NO_INDEX, _) => {
                let flows = self.flows.iter().enumerate();
                flows
                    .map(|(index, (name, _))| (name.clone(), CounterOwner::Flow(index, None)))
                    .collect()
            }
            CounterOwner::Job(NO_INDEX, _) => {
                let jobs = self.jobs.iter().enumerate();
                jobs.map(|(index, (name, _))| (name.clone(), CounterOwner::Job(index, None)))
                    .collect()
            }
            CounterOwner::Flow(flow, None) => {
                senders(&self.flows[flow].1, &|host| CounterOwner::Flow(flow, Some(host)))
            }
            CounterOwner::Job(job, None) => {
                senders(&self.jobs[job].1, &|host| CounterOwner::Job(job, Some(host)))
            }
            _ => Vec::new(),
        };
        NameLevel {
            counters: counters_of(owner),
            children,
        }
    }
}

fn counters_of(owner: &CounterOwner) -> CounterTable {
    match *owner {
        CounterOwner::Run => counters::RUN_COUNTERS,
        CounterOwner::Switch(_) => counters::SWITCH_COUNTERS,
        CounterOwner::Port(..) => counters::PORT_COUNTERS,
        CounterOwner::PriorityGroup(..) => counters::PRIORITY_GROUP_COUNTERS,
        CounterOwner::Queue(..) => counters::QUEUE_COUNTERS,
        CounterOwner::PortPfc(..) => counters::PORT_PFC_COUNTERS,
        CounterOwner::Drops(..) => counters::DROP_COUNTERS,
        CounterOwner::Host(_) => counters::HOST_COUNTERS,
        CounterOwner::HostPfc(..) => counters::HOST_PFC_COUNTERS,
        CounterOwner::Arrivals(..) => counters::ARRIVAL_COUNTERS,
        // Prefixes without a flow, job, link or pool.
        CounterOwner::Flow(NO_INDEX, _)
        | CounterOwner::Job(NO_INDEX, _)
        | CounterOwner::Link(NO_INDEX)
        | CounterOwner::Pools(_) => &[],
        CounterOwner::Link(_) => counters::LINK_COUNTERS,
        CounterOwner::Pool(..) => counters::POOL_COUNTERS,
        CounterOwner::Flow(..) => counters::FLOW_COUNTERS,
        CounterOwner::Job(_, None) => counters::JOB_COUNTERS,
        CounterOwner::Job(_, Some(_)) => counters::JOB_SENDER_COUNTERS,
    }
}

/// Returns the error for a part of a name that is not one of `names`. The error suggests a similar name or
/// lists the valid names.
fn unknown_part(
    path: &str,
    part: &str,
    parents: &[&str],
    names: impl Iterator<Item = String>,
) -> UnknownName {
    let parent = match parents {
        [] => "the lab".to_owned(),
        parents => parents.join("."),
    };
    let names: Vec<String> = names.collect();
    let similar = names
        .iter()
        .find(|name| strsim::damerau_levenshtein(name, part) <= 2);
    let hint = match similar {
        Some(name) => format!("{parent} has no \"{part}\"; did you mean {name}?"),
        None if names.len() > LISTED_NAMES_MAX => {
            format!(
                "{parent} has no \"{part}\"; it has {} and {} more (docs/script.md)",
                names[..LISTED_NAMES_MAX].join(", "),
                names.len() - LISTED_NAMES_MAX
            )
        }
        None if names.is_empty() => format!("{parent} has no parts below, only counters"),
        None => format!("{parent} has no \"{part}\"; it has {}", names.join(", ")),
    };
    UnknownName {
        name: path.to_owned(),
        hint,
    }
}

/// Returns whether a name matches a pattern with stars.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(start) => rest = &rest[start + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
