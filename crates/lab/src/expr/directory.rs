//! What names mean: switches, ports, hosts, flows and jobs of a lab, and what is counted of each.
//!
//! Names are made of parts. The first part is a node, `flow` or `job`; the last one is a counter. A star stands for any letters within
//! a part.

use std::collections::HashMap;

use super::counters::{self, Counters};
use super::{Unknown, unit};

/// Most names that a message lists.
const LISTED: usize = 24;
/// In place of a flow or job: the words `flow` and `job` by themselves.
const ALL: usize = usize::MAX;
/// Classes, queues and groups of a port.
const CLASSES: u8 = 8;
/// Code points of DSCP.
const DSCPS: u8 = 64;

/// The things of a lab that have names.
#[derive(Clone, Debug)]
pub struct Directory {
    switches: Vec<(String, Vec<String>)>,
    hosts: Vec<String>,
    flows: Vec<(String, Vec<usize>)>,
    jobs: Vec<(String, Vec<usize>)>,
    links: Vec<String>,
    /// By name, so that no look-up goes through all.
    nodes: HashMap<String, Node>,
}

#[derive(Clone, Copy, Debug)]
enum Node {
    Switch(usize),
    Host(usize),
}

/// What a counter is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The run as a whole: `now_ns`.
    Run,
    /// All ports of a switch.
    Switch(usize),
    /// A link: place among the links.
    Link(usize),
    /// The pools of a switch, by themselves nothing.
    Pools(usize),
    /// A buffer pool of a switch. Which there are is known when the switch is configured, so any name is taken.
    Pool(usize, String),
    /// A port: switch and place in its ports.
    Port(usize, usize),
    /// A priority group of a port.
    Group(usize, usize, u8),
    /// A queue of a port.
    Queue(usize, usize, u8),
    /// Flow control of a class at a port.
    Pfc(usize, usize, u8),
    /// Drops at a port; the counter is the reason, [`DropReason::name`](xoff_dataplane::drops::DropReason::name).
    Drops(usize, usize),
    /// A host.
    Host(usize),
    /// Flow control of a class at a host.
    HostPfc(usize, u8),
    /// What arrived at a host with a DSCP.
    Arrivals(usize, u8),
    /// A group of flows, or a named send: place among the flows, and one sender or all.
    Flow(usize, Option<usize>),
    /// A job: place among the jobs, and one sender or all.
    Job(usize, Option<usize>),
}

/// What a name means.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// What it is of.
    pub subject: Subject,
    /// The counter, as the tables of `docs/script.md` have it.
    pub counter: &'static str,
    /// A value of the counter is divided by this to be in the unit of the name: 1000 where the counter is in
    /// nanoseconds and the name in microseconds.
    pub divisor: f64,
}

/// Where an event is looked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventPlace {
    /// The whole run, a switch, a port or a host.
    pub subject: Subject,
    /// The event, as the table of `docs/script.md` has it.
    pub event: &'static str,
}

/// What stands below a part: counters, and further parts.
struct Level {
    counters: Counters,
    below: Vec<(String, Subject)>,
}

impl Directory {
    /// Switches with their ports, hosts, groups of flows with the hosts that send in them, and jobs with theirs.
    pub fn new(
        switches: Vec<(String, Vec<String>)>,
        hosts: Vec<String>,
        flows: Vec<(String, Vec<usize>)>,
        jobs: Vec<(String, Vec<usize>)>,
    ) -> Directory {
        let named = switches
            .iter()
            .enumerate()
            .map(|(at, (name, _))| (name.clone(), Node::Switch(at)));
        let nodes = named
            .chain(
                hosts
                    .iter()
                    .enumerate()
                    .map(|(at, name)| (name.clone(), Node::Host(at))),
            )
            .collect();
        Directory {
            switches,
            hosts,
            flows,
            jobs,
            links: Vec::new(),
            nodes,
        }
    }

    /// With links, too.
    #[must_use]
    pub fn with_links(self, links: Vec<String>) -> Directory {
        Directory { links, ..self }
    }

    /// Name of a switch and of its ports, as in [`Subject::Switch`] and [`Subject::Port`].
    pub fn switch(&self, switch: usize) -> Option<(&str, &[String])> {
        self.switches
            .get(switch)
            .map(|(name, ports)| (name.as_str(), ports.as_slice()))
    }

    /// Name of the flow of [`Subject::Flow`].
    pub fn flow(&self, flow: usize) -> Option<&str> {
        self.flows.get(flow).map(|(name, _)| name.as_str())
    }

    /// What a name means.
    ///
    /// # Errors
    /// There is nothing of that name; the message says which part is wrong, and what there is instead.
    pub fn find(&self, path: &str) -> Result<Place, Unknown> {
        let parts: Vec<&str> = path.split('.').collect();
        let (last, inner) = parts.split_last().unwrap_or((&"", &[]));
        let subject = self.subject(path, inner)?;
        self.counter(subject.clone(), last).ok_or_else(|| {
            let Level { counters, below } = self.level(&subject);
            let names = counters.iter().map(|counter| counter.name.to_owned());
            unknown(
                path,
                last,
                inner,
                names.chain(below.into_iter().map(|(name, _)| format!("{name}..."))),
            )
        })
    }

    /// All names that a pattern means, in the order of the lab.
    ///
    /// # Errors
    /// There is none.
    pub fn matching(&self, pattern: &str) -> Result<Vec<String>, Unknown> {
        let parts: Vec<&str> = pattern.split('.').collect();
        let (last, inner) = parts.split_last().unwrap_or((&"", &[]));
        let mut found: Vec<(String, Subject)> = vec![(String::new(), Subject::Run)];
        for part in inner {
            let mut next = Vec::new();
            for (prefix, subject) in found {
                let below = self.below_matching(&subject, part);
                next.extend(
                    below
                        .into_iter()
                        .map(|(name, subject)| (format!("{prefix}{name}."), subject)),
                );
            }
            found = next;
        }
        let mut names = Vec::new();
        for (prefix, subject) in found {
            if last.contains('*') {
                let counters = counters_of(&subject)
                    .iter()
                    .filter(|counter| fits(last, counter.name));
                names.extend(counters.map(|counter| format!("{prefix}{}", counter.name)));
            } else if self.counter(subject, last).is_some() {
                names.push(format!("{prefix}{last}"));
            }
        }
        if names.is_empty() {
            let known = "no name has these parts; docs/script.md has all of them".to_owned();
            return Err(Unknown {
                name: pattern.to_owned(),
                known,
            });
        }
        Ok(names)
    }

    /// What the name of an event means: `ce` anywhere, `sw1.ce`, `sw1.Ethernet0.ce`, `h1.cnp`.
    ///
    /// # Errors
    /// There is no such event, or nothing of that name for it to happen to.
    pub fn find_event(&self, path: &str) -> Result<EventPlace, Unknown> {
        let parts: Vec<&str> = path.split('.').collect();
        let (last, inner) = parts.split_last().unwrap_or((&"", &[]));
        let Some(event) = counters::EVENTS.iter().find(|event| event.name == *last) else {
            return Err(unknown(
                path,
                last,
                inner,
                counters::EVENTS.iter().map(|event| event.name.to_owned()),
            ));
        };
        let subject = self.subject(path, inner)?;
        match subject {
            Subject::Run
            | Subject::Switch(_)
            | Subject::Port(..)
            | Subject::Host(_)
            | Subject::Arrivals(..) => Ok(EventPlace {
                subject,
                event: event.name,
            }),
            _ => Err(Unknown {
                name: path.to_owned(),
                known: "events happen in the whole lab, at a switch, at a port or at a host".to_owned(),
            }),
        }
    }

    fn subject(&self, path: &str, parts: &[&str]) -> Result<Subject, Unknown> {
        let mut subject = Subject::Run;
        for (at, part) in parts.iter().enumerate() {
            subject = self.child(&subject, part).ok_or_else(|| {
                let below = self.level(&subject).below;
                unknown(path, part, &parts[..at], below.into_iter().map(|(name, _)| name))
            })?;
        }
        Ok(subject)
    }

    /// The counter of a subject, also in other units of time than its own.
    fn counter(&self, subject: Subject, name: &str) -> Option<Place> {
        let counters = counters_of(&subject);
        let place = |counter: &'static str, divisor| Place {
            subject,
            counter,
            divisor,
        };
        if let Some(counter) = counters.iter().find(|counter| counter.name == name) {
            return Some(place(counter.name, 1.0));
        }
        let (stem, _) = name.rsplit_once('_')?;
        let (scale, dimension) = unit::of_name(name);
        let counter = counters
            .iter()
            .find(|counter| counter.name.strip_suffix("_ns") == Some(stem))?;
        (dimension == unit::TIME).then(|| place(counter.name, scale / 1e3))
    }

    /// One step down, without making all the names that are there.
    fn child(&self, subject: &Subject, part: &str) -> Option<Subject> {
        match *subject {
            Subject::Run => match (part, self.nodes.get(part)) {
                ("flow", _) => Some(Subject::Flow(ALL, None)),
                ("job", _) => Some(Subject::Job(ALL, None)),
                ("link", _) => Some(Subject::Link(ALL)),
                (_, Some(Node::Switch(at))) => Some(Subject::Switch(*at)),
                (_, Some(Node::Host(at))) => Some(Subject::Host(*at)),
                _ => None,
            },
            Subject::Switch(switch) if part == "pool" => Some(Subject::Pools(switch)),
            Subject::Pools(switch) => Some(Subject::Pool(switch, part.to_owned())),
            Subject::Switch(switch) => {
                let ports = &self.switches.get(switch)?.1;
                ports
                    .iter()
                    .position(|port| port == part)
                    .map(|port| Subject::Port(switch, port))
            }
            _ => {
                let below = self.level(subject).below;
                below
                    .into_iter()
                    .find(|(name, _)| name == part)
                    .map(|(_, subject)| subject)
            }
        }
    }

    /// The parts below a subject that fit a pattern.
    fn below_matching(&self, subject: &Subject, part: &str) -> Vec<(String, Subject)> {
        if !part.contains('*') {
            return self
                .child(subject, part)
                .map(|child| (part.to_owned(), child))
                .into_iter()
                .collect();
        }
        let mut below = self.level(subject).below;
        // These words are written, not meant by a star.
        let is_word = |name: &str| *subject == Subject::Run && matches!(name, "flow" | "job" | "link");
        below.retain(|(name, _)| !is_word(name) && fits(part, name));
        below
    }

    /// A subject's counters, and all that is below it.
    fn level(&self, subject: &Subject) -> Level {
        let senders = |senders: &[usize], of: &dyn Fn(usize) -> Subject| -> Vec<(String, Subject)> {
            senders
                .iter()
                .map(|host| (self.hosts[*host].clone(), of(*host)))
                .collect()
        };
        let up_to = |count: u8, name: &str, of: &dyn Fn(u8) -> Subject| -> Vec<(String, Subject)> {
            (0..count).map(|n| (format!("{name}{n}"), of(n))).collect()
        };
        let numbered = |name: &str, of: &dyn Fn(u8) -> Subject| up_to(CLASSES, name, of);
        let below = match *subject {
            Subject::Run => {
                let switches = self.switches.iter().enumerate();
                let switches = switches.map(|(at, (name, _))| (name.clone(), Subject::Switch(at)));
                let hosts = self
                    .hosts
                    .iter()
                    .enumerate()
                    .map(|(at, name)| (name.clone(), Subject::Host(at)));
                let flows = ("flow".to_owned(), Subject::Flow(ALL, None));
                let jobs = ("job".to_owned(), Subject::Job(ALL, None));
                let links = ("link".to_owned(), Subject::Link(ALL));
                switches.chain(hosts).chain([flows, jobs, links]).collect()
            }
            Subject::Switch(switch) => {
                let ports = self.switches[switch].1.iter().enumerate();
                ports
                    .map(|(at, port)| (port.clone(), Subject::Port(switch, at)))
                    .collect()
            }
            Subject::Port(switch, port) => {
                let mut below = numbered("pg", &|class| Subject::Group(switch, port, class));
                below.extend(numbered("queue", &|class| Subject::Queue(switch, port, class)));
                below.extend(numbered("pfc", &|class| Subject::Pfc(switch, port, class)));
                below.push(("drops".to_owned(), Subject::Drops(switch, port)));
                below
            }
            Subject::Host(host) => {
                let mut below = numbered("pfc", &|class| Subject::HostPfc(host, class));
                below.extend(up_to(DSCPS, "dscp", &|dscp| Subject::Arrivals(host, dscp)));
                below
            }
            Subject::Link(ALL) => {
                let links = self.links.iter().enumerate();
                links
                    .map(|(at, name)| (name.clone(), Subject::Link(at)))
                    .collect()
            }
            Subject::Flow(ALL, _) => {
                let flows = self.flows.iter().enumerate();
                flows
                    .map(|(at, (name, _))| (name.clone(), Subject::Flow(at, None)))
                    .collect()
            }
            Subject::Job(ALL, _) => {
                let jobs = self.jobs.iter().enumerate();
                jobs.map(|(at, (name, _))| (name.clone(), Subject::Job(at, None)))
                    .collect()
            }
            Subject::Flow(flow, None) => {
                senders(&self.flows[flow].1, &|host| Subject::Flow(flow, Some(host)))
            }
            Subject::Job(job, None) => senders(&self.jobs[job].1, &|host| Subject::Job(job, Some(host))),
            _ => Vec::new(),
        };
        Level {
            counters: counters_of(subject),
            below,
        }
    }
}

fn counters_of(subject: &Subject) -> Counters {
    match *subject {
        Subject::Run => counters::RUN,
        Subject::Switch(_) => counters::SWITCH,
        Subject::Port(..) => counters::PORT,
        Subject::Group(..) => counters::GROUP,
        Subject::Queue(..) => counters::QUEUE,
        Subject::Pfc(..) => counters::PFC,
        Subject::Drops(..) => counters::DROPS,
        Subject::Host(_) => counters::HOST,
        Subject::HostPfc(..) => counters::HOST_PFC,
        Subject::Arrivals(..) => counters::ARRIVALS,
        // Words by themselves.
        Subject::Flow(ALL, _) | Subject::Job(ALL, _) | Subject::Link(ALL) | Subject::Pools(_) => &[],
        Subject::Link(_) => counters::LINK,
        Subject::Pool(..) => counters::POOL,
        Subject::Flow(..) => counters::FLOW,
        Subject::Job(_, None) => counters::JOB,
        Subject::Job(_, Some(_)) => counters::JOB_SENDER,
    }
}

fn unknown(path: &str, part: &str, before: &[&str], names: impl Iterator<Item = String>) -> Unknown {
    let place = match before {
        [] => "the lab".to_owned(),
        before => before.join("."),
    };
    let names: Vec<String> = names.collect();
    let nearest = names
        .iter()
        .find(|name| strsim::damerau_levenshtein(name, part) <= 2);
    let known = match nearest {
        Some(name) => format!("{place} has no \"{part}\"; did you mean {name}?"),
        None if names.len() > LISTED => {
            format!(
                "{place} has no \"{part}\"; it has {} and {} more (docs/script.md)",
                names[..LISTED].join(", "),
                names.len() - LISTED
            )
        }
        None if names.is_empty() => format!("{place} has no parts below, only counters"),
        None => format!("{place} has no \"{part}\"; it has {}", names.join(", ")),
    };
    Unknown {
        name: path.to_owned(),
        known,
    }
}

/// Whether a name fits a pattern with stars.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
