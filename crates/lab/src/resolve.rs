//! From a lab file to a plan: names resolved, defaults filled in, everything wrong told at once.

mod balancing;
mod hosts;
mod jobs;
mod kinds;
mod links;
mod nodes;
mod routing;
mod script;
mod topology;
mod transports;
mod workload;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_saphyr::{Location, Spanned};

use super::file::{LabFile, from_yaml};
use super::plan::{LabPlan, ScriptPlan, TimeMode};
use super::problem::Problems;

pub(super) use nodes::HOSTS_MAX;

/// Longest name of a lab or node: it becomes part of a socket's name, of which there are 107 bytes.
const NAME_MAX: usize = 48;
/// Most names that a message lists.
const NAMES_LISTED: usize = 16;

/// Reads a lab file, and the configurations that it names, and checks all of it. What virtual time alone can do is
/// an error in real time, and the reverse.
///
/// # Errors
/// Everything that is wrong with it, each with file, line, what is allowed and what to do.
pub fn load(path: &Path, time: TimeMode) -> Result<LabPlan, Problems> {
    let file = path.display().to_string();
    match fs::read_to_string(path) {
        Ok(text) => parse(&text, &file, path.parent().unwrap_or(Path::new("")), time),
        Err(error) => {
            let mut problems = Problems::default();
            let fix = "give the path of a lab file, such as testbeds/incast.xoff.yml";
            problems.push(
                &file,
                Location::UNKNOWN,
                format!("cannot read the lab file: {error}"),
                fix,
            );
            Err(problems)
        }
    }
}

/// Checks the text of a lab file. `file` is its name for messages; paths in it are relative to `folder`.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, file: &str, folder: &Path, time: TimeMode) -> Result<LabPlan, Problems> {
    let mut resolver = Resolver {
        file,
        folder,
        time,
        problems: Problems::default(),
        notes: Vec::new(),
        hosts: Vec::new(),
        models: Vec::new(),
        switches: Vec::new(),
        nodes: HashMap::new(),
        island: None,
    };
    let lab: LabFile = match from_yaml(text) {
        Ok(lab) => lab,
        Err(error) => {
            let at = error.location().unwrap_or(Location::UNKNOWN);
            let what = plain(&error.without_snippet().to_string());
            resolver.problems.push(file, at, what, "");
            return Err(resolver.problems);
        }
    };
    match resolver.lab(&lab) {
        Some(plan) if resolver.problems.0.is_empty() => Ok(plan),
        _ => Err(resolver.problems),
    }
}

/// The parser's message without its own place, which is ours to print.
fn plain(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    match line.rfind(" at line ").or(line.rfind(" (line ")) {
        Some(at) => line[..at].to_owned(),
        None => line.to_owned(),
    }
}

struct Resolver<'a> {
    file: &'a str,
    folder: &'a Path,
    time: TimeMode,
    problems: Problems,
    /// What the lab says and does not do.
    notes: Vec<String>,
    /// Names of nodes, by their index in the plan.
    hosts: Vec<String>,
    switches: Vec<String>,
    /// Names of those hosts that send and receive flows.
    models: Vec<String>,
    /// What a name of a node means.
    nodes: HashMap<String, NodeIndex>,
    /// Where routes are made, the part of the topology that each host is in: hosts of different ones cannot talk.
    island: Option<Vec<usize>>,
}

/// A node, by its place in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeIndex {
    Switch(usize),
    Host(usize),
}

impl Resolver<'_> {
    fn wrong(&mut self, at: Location, what: impl Into<String>, fix: impl Into<String>) {
        self.problems.push(self.file, at, what, fix);
    }

    /// A quantity in a field, or its default.
    fn quantity<T>(
        &mut self,
        text: Option<&Spanned<String>>,
        default: T,
        read: fn(&str) -> Option<T>,
        allowed: &str,
    ) -> T {
        let Some(text) = text else { return default };
        match read(&text.value) {
            Some(value) => value,
            None => {
                self.wrong(
                    text.referenced,
                    format!("\"{}\" is not allowed here", text.value),
                    format!("write {allowed}"),
                );
                default
            }
        }
    }

    /// A number in a field, or its default.
    fn number<T: Copy + PartialOrd + std::fmt::Display>(
        &mut self,
        value: Option<&Spanned<T>>,
        default: T,
        range: std::ops::RangeInclusive<T>,
    ) -> T {
        let Some(value) = value else { return default };
        if !range.contains(&value.value) {
            let fix = format!("write a number from {} to {}", range.start(), range.end());
            self.wrong(value.referenced, format!("{} is out of range", value.value), fix);
            return default;
        }
        value.value
    }

    fn name(&mut self, name: &Spanned<String>, of: &str) {
        let text = &name.value;
        let well_formed = text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.len() <= NAME_MAX
            && text
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_');
        if !well_formed {
            let fix =
                format!("use 1 to {NAME_MAX} letters, digits, '-' and '_', the first a letter or digit");
            self.wrong(
                name.referenced,
                format!("\"{text}\" cannot be the name of a {of}"),
                fix,
            );
        }
    }

    fn source(&self, at: Location) -> String {
        format!("{}:{}", self.file, at.line())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    fn lab(&mut self, lab: &LabFile) -> Option<LabPlan> {
        self.name(&lab.name, "lab");
        let topology = self.topology(&lab.topology)?;
        let (mut switches, mut hosts) = self.nodes(&topology.nodes);
        let links = self.links(&topology.links);
        self.one_link_each(&topology, &mut hosts);
        self.balancing(lab.topology.defaults.as_ref(), &topology.nodes, &mut switches);
        if let Some(overrides) = &topology.routes {
            self.routes(overrides, &topology.nodes, &mut switches, &mut hosts, &links);
        }
        self.unique_addresses(&hosts, &topology.nodes);
        let transports = self.transports(&lab.transports);
        let workload = self.workload(lab.workload.as_ref(), &links, &transports);
        let mut plan = LabPlan {
            name: lab.name.value.clone(),
            switches,
            hosts,
            links,
            transports,
            announce: self.announce(lab.load_balancing.as_ref()),
            workload,
            script: ScriptPlan::default(),
            notes: Vec::new(),
        };
        self.script(&lab.script, &mut plan);
        plan.notes = std::mem::take(&mut self.notes);
        Some(plan)
    }

    /// Says that something needs virtual time, unless it is virtual.
    fn only_virtual(&mut self, at: Location, what: impl Into<String>) {
        if self.time == TimeMode::RealTime {
            self.wrong(at, what, "that is for virtual time: add --virtual");
        }
    }

    /// The rule of `net`, told with the place in the file.
    fn device_name(&mut self, name: &str, at: Location) {
        if let Err(error) = xoff_ports::net::check_name(name) {
            self.wrong(at, error.to_string(), "");
        }
    }
}

/// Names for a message, not too many of them.
fn listed<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
    match names.len().checked_sub(NAMES_LISTED) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..NAMES_LISTED].join(", ")),
    }
}

#[cfg(test)]
mod tests;
