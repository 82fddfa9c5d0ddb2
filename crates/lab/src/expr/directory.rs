//! The names that a condition of a script can contain: the counters of switches, ports, hosts, flows, jobs
//! and links.
//!
//! Dots separate the parts of a name, for example `sw1.Ethernet0.tx_bytes`. The first part is the name of a
//! switch or host, or the word `flow`, `job` or `link`. The last part is a counter. A `*` matches any
//! characters within one part.

use std::collections::HashMap;

use super::counters::{self, CounterTable};
use super::{UnknownName, unit};
use xoff_units::nearest_name;

/// The maximum number of names in an error message.
const LISTED_NAMES_MAX: usize = 24;
/// The index in a [`CounterOwner`] for the word `flow`, `job` or `link` alone. The next part of the name then
/// selects a flow, job or link.
const NO_INDEX: usize = usize::MAX;
/// The number of PFC priorities, queues and priority groups of a port.
const PRIORITIES: u8 = 8;
/// The number of DSCP values.
const DSCPS: u8 = 64;

/// The directory of all names of a lab.
#[derive(Clone, Debug)]
pub struct NameDirectory {
    /// The name of each switch and of its ports.
    switches: Vec<(String, Vec<String>)>,
    hosts: Vec<String>,
    /// The name of each open-loop flow or `send` step and the host indices of its senders.
    flows: Vec<(String, Vec<usize>)>,
    /// The name of each job and the host indices of its senders.
    jobs: Vec<(String, Vec<usize>)>,
    links: Vec<String>,
    /// The index of each switch and host by name.
    nodes: HashMap<String, NodeIndex>,
    flow_indices: HashMap<String, usize>,
    job_indices: HashMap<String, usize>,
    link_indices: HashMap<String, usize>,
}

#[derive(Clone, Copy, Debug)]
enum NodeIndex {
    Switch(usize),
    Host(usize),
}

/// The object to which a counter or an event belongs. The numbers are indices of the lists in
/// [`NameDirectory::new`] and [`NameDirectory::with_links`]. The number of a port is an index in the port
/// list of its switch. A flow, job or link can also have the index `usize::MAX`. This index selects no object
/// and has no counters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CounterOwner {
    /// The whole run, for counters such as `now_ns`.
    Run,
    /// A switch. Most counters are sums over its ports.
    Switch(usize),
    /// Both directions of a link.
    Link(usize),
    /// The prefix `SWITCH.pool` without the name of a pool. It has no counters.
    Pools(usize),
    /// A buffer pool of a switch, by name. Any pool name is valid here, because the configuration of the
    /// switch is loaded later.
    Pool(usize, String),
    /// A port: the switch and the port.
    Port(usize, usize),
    /// A priority group of a port: the switch, the port and the number of the group, 0 to 7.
    PriorityGroup(usize, usize, u8),
    /// An egress queue of a port: the switch, the port and the number of the queue, 0 to 7.
    Queue(usize, usize, u8),
    /// PFC of one priority at a port: the switch, the port and the priority, 0 to 7.
    PortPfc(usize, usize, u8),
    /// The drops of a port: the switch and the port. Each drop reason is a counter with the
    /// name [`DropReason::name`](xoff_dataplane::drops::DropReason::name).
    Drops(usize, usize),
    /// A host.
    Host(usize),
    /// PFC of one priority at a host: the host and the priority, 0 to 7.
    HostPfc(usize, u8),
    /// The packets with one DSCP that arrived at a host: the host and the DSCP, 0 to 63.
    Arrivals(usize, u8),
    /// An open-loop flow or a `send` step. The second value is the host index of one sender, and `None` means
    /// all senders.
    Flow(usize, Option<usize>),
    /// A job. The second value is the host index of one sender, and `None` means all senders.
    Job(usize, Option<usize>),
}

/// The counter to which a name refers.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterReference {
    /// The owner of the counter.
    pub owner: CounterOwner,
    /// The name of the counter in the tables of `docs/script.md`.
    pub counter: &'static str,
    /// The value of the counter divided by this number is in the unit of the name. Usually 1. If the counter
    /// is in nanoseconds and the name ends in `_us`, the number is 1000.
    pub divisor: f64,
}

/// The event to which a name refers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventReference {
    /// The object at which the event happens: the whole lab, a switch, a port, a host or one DSCP at a host.
    pub owner: CounterOwner,
    /// The name of the event in the table of `docs/script.md`.
    pub event: &'static str,
}

/// The counters and the child objects of an owner.
struct OwnedCountersAndChildren {
    counters: CounterTable,
    children: Vec<(String, CounterOwner)>,
}

impl NameDirectory {
    /// Creates a directory. [`NameDirectory::with_links`] adds the names of links.
    ///
    /// `switches` contains the name of each switch and the names of its ports. `flows` and `jobs` contain the
    /// name of each flow or job, and the indices of its senders in `hosts`. A `send` step is a flow here.
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
            flow_indices: indices_by_name(flows.iter().map(|(name, _)| name)),
            job_indices: indices_by_name(jobs.iter().map(|(name, _)| name)),
            link_indices: HashMap::new(),
            switches,
            hosts,
            flows,
            jobs,
            links: Vec::new(),
            nodes,
        }
    }

    /// Sets the names of the links, in the order of their indices. Earlier names of links are replaced.
    #[must_use]
    pub fn with_links(self, links: Vec<String>) -> NameDirectory {
        NameDirectory {
            link_indices: indices_by_name(links.iter()),
            links,
            ..self
        }
    }

    /// Returns the name of the switch with this index and the names of its ports, in the order of their
    /// indices. Returns `None` if no switch has this index.
    pub fn switch_and_port_names(&self, switch: usize) -> Option<(&str, &[String])> {
        self.switches
            .get(switch)
            .map(|(name, ports)| (name.as_str(), ports.as_slice()))
    }

    /// Returns the name of the flow or `send` step with this index. Returns `None` if the index is not in the
    /// list of flows.
    pub fn flow_name(&self, flow: usize) -> Option<&str> {
        self.flows.get(flow).map(|(name, _)| name.as_str())
    }

    /// Finds the counter with a full name, such as `sw1.Ethernet0.tx_bytes`. A name with `*` is unknown here.
    ///
    /// # Errors
    /// Returns an error if the name is unknown. The hint of the error contains the unknown part, and a
    /// similar name or the valid names at this position.
    pub fn find_counter(&self, path: &str) -> Result<CounterReference, UnknownName> {
        let parts: Vec<&str> = path.split('.').collect();
        let (last, parents) = parts.split_last().unwrap_or((&"", &[]));
        let owner = self.find_owner(path, parents)?;
        self.counter_of(owner.clone(), last).ok_or_else(|| {
            let OwnedCountersAndChildren { counters, children } = self.level_of(&owner);
            let counters = counters.iter().map(|counter| counter.name.to_owned());
            let children = children.into_iter().map(|(name, _)| format!("{name}..."));
            unknown_part(path, last, parents, counters.chain(children))
        })
    }

    /// Returns all counter names that match a pattern with `*`, in the order of the lab file. A pattern
    /// matches neither event names nor the words `flow`, `job` and `link`.
    ///
    /// # Errors
    /// Returns an error if no name matches the pattern.
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

    /// Finds the event with a name. For example, `ce` means an ECN mark anywhere in the lab, `sw1.ce` a mark
    /// at a switch, and `sw1.Ethernet0.ce` a mark at a port.
    ///
    /// # Errors
    /// Returns an error if the event or the object in its prefix is unknown, or if this kind of object has
    /// no events.
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

    /// Returns the counter of an object by name. A counter in nanoseconds, such as `paused_ns`, is also found
    /// with another unit of time, such as `paused_us`.
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
        let (scale, dimension) = unit::unit_of_name(name);
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
            CounterOwner::Flow(NO_INDEX, _) => {
                let index = self.flow_indices.get(part);
                index.map(|index| CounterOwner::Flow(*index, None))
            }
            CounterOwner::Job(NO_INDEX, _) => {
                let index = self.job_indices.get(part);
                index.map(|index| CounterOwner::Job(*index, None))
            }
            CounterOwner::Link(NO_INDEX) => self
                .link_indices
                .get(part)
                .map(|index| CounterOwner::Link(*index)),
            CounterOwner::Flow(flow, None) => {
                let host = self.find_sender(&self.flows.get(flow)?.1, part)?;
                Some(CounterOwner::Flow(flow, Some(host)))
            }
            CounterOwner::Job(job, None) => {
                let host = self.find_sender(&self.jobs.get(job)?.1, part)?;
                Some(CounterOwner::Job(job, Some(host)))
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

    /// Returns the index of the host with this name if the host is one of `senders`.
    fn find_sender(&self, senders: &[usize], name: &str) -> Option<usize> {
        match self.nodes.get(name) {
            Some(NodeIndex::Host(host)) if senders.contains(host) => Some(*host),
            _ => None,
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
    fn level_of(&self, owner: &CounterOwner) -> OwnedCountersAndChildren {
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
        OwnedCountersAndChildren {
            counters: counters_of(owner),
            children,
        }
    }
}

/// Returns the index of each name. Of several equal names, the first applies.
fn indices_by_name<'a>(names: impl Iterator<Item = &'a String>) -> HashMap<String, usize> {
    let mut indices = HashMap::new();
    for (index, name) in names.enumerate() {
        indices.entry(name.clone()).or_insert(index);
    }
    indices
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

/// Returns the error for `part`, a part of a name. The caller has found that `part` is not one of the valid
/// names in `names`. The error suggests a similar name or lists the valid names.
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
    let similar = nearest_name(part, names.iter().map(String::as_str));
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
