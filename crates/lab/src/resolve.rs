//! Converts a lab file into a [`LabPlan`].
//!
//! The resolver looks up names, applies defaults and checks ranges. It collects all errors of a file and
//! returns them together.

mod balancing;
mod host_patterns;
mod jobs;
mod links;
mod loops;
mod node_kinds;
mod nodes;
mod routing;
mod script;
mod topology;
mod transports;
mod workload;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_saphyr::{Location, Spanned};

use super::plan::{LabPlan, ScriptPlan, TimeMode};
use super::problem::Problems;
use xoff_telemetry::{InputLimit, read_input_text};

/// Longest name of a lab or node in bytes. The name of a lab is part of a socket address, which has at most
/// 107 bytes.
const NAME_MAX: usize = 48;
/// Largest number of names that a message lists.
const LISTED_NAMES_MAX: usize = 16;

/// Reads a lab file and the files that it names, checks the lab file and returns its plan.
///
/// `time` selects real time or virtual time. Fields that work only in the other mode are errors. Switch
/// configurations are read here, but [`resolve_switch_setup`](crate::resolve_switch_setup) checks them.
///
/// # Errors
/// Returns all errors of the file together. Each error has a file, a line, the reason and a suggested fix. A
/// file that cannot be read or is not valid YAML gives a single error.
pub fn load_lab(path: &Path, time: TimeMode) -> Result<LabPlan, Problems> {
    let file = path.display().to_string();
    match read_input_text(path, InputLimit::LAB) {
        Ok(text) => parse_lab(&text, &file, path.parent().unwrap_or(Path::new("")), time),
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

/// Parses and checks the text of a lab file.
///
/// `file` is the name of the file in messages. Paths in the text are relative to `folder`. `time` has the
/// same meaning as in [`load_lab`].
///
/// # Errors
/// Returns the same errors as [`load_lab`].
pub fn parse_lab(text: &str, file: &str, folder: &Path, time: TimeMode) -> Result<LabPlan, Problems> {
    let mut resolver = LabResolver {
        file,
        folder,
        time,
        problems: Problems::default(),
        notes: Vec::new(),
        hosts: Vec::new(),
        models: Vec::new(),
        switches: Vec::new(),
        nodes: HashMap::new(),
        component_of_host: None,
    };
    let lab = match xoff_lab_file::parse_lab(text) {
        Ok(lab) => lab,
        Err(error) => {
            let location = error.location().unwrap_or(Location::UNKNOWN);
            let what = strip_location(&error.without_snippet().to_string());
            resolver.problems.push(file, location, what, "");
            return Err(resolver.problems);
        }
    };
    match resolver.resolve_lab(&lab) {
        Some(plan) if resolver.problems.0.is_empty() => Ok(plan),
        _ => Err(resolver.problems),
    }
}

/// Removes the line and column from a message of the YAML parser, because [`Problems`] prints
/// the location itself.
fn strip_location(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    match line.rfind(" at line ").or(line.rfind(" (line ")) {
        Some(location) => line[..location].to_owned(),
        None => line.to_owned(),
    }
}

/// The state of one conversion of a lab file.
struct LabResolver<'a> {
    file: &'a str,
    folder: &'a Path,
    time: TimeMode,
    problems: Problems,
    /// Remarks about fields of the lab file that have no effect.
    notes: Vec<String>,
    /// Names of the hosts, by host index of the plan.
    hosts: Vec<String>,
    /// Names of the switches, by switch index of the plan.
    switches: Vec<String>,
    /// Names of the model hosts, which send and receive flows.
    models: Vec<String>,
    /// Index of each node, by name.
    nodes: HashMap<String, NodeIndex>,
    /// The connected component (part of the topology) of each host, by host index. Two hosts can communicate
    /// only if they are in the same component. `None` if the lab has no computed routes.
    component_of_host: Option<Vec<usize>>,
}

/// The index of a switch or host in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeIndex {
    Switch(usize),
    Host(usize),
}

impl LabResolver<'_> {
    /// Adds an error at `location`. `what` describes the error, and `fix` describes the correction.
    fn report_problem(&mut self, location: Location, what: impl Into<String>, fix: impl Into<String>) {
        self.problems.push(self.file, location, what, fix);
    }

    /// Parses the value of a field with `parse`. Returns `default` if the field is missing or invalid.
    ///
    /// An invalid text is reported together with `allowed`, a description of the valid texts.
    fn parse_quantity<T>(
        &mut self,
        text: Option<&Spanned<String>>,
        default: T,
        parse: fn(&str) -> Option<T>,
        allowed: &str,
    ) -> T {
        let Some(text) = text else { return default };
        match parse(&text.value) {
            Some(value) => value,
            None => {
                self.report_problem(
                    text.referenced,
                    format!("\"{}\" is not allowed here", text.value),
                    format!("write {allowed}"),
                );
                default
            }
        }
    }

    /// Returns the number in a field, or `default` if the field is missing. Reports an error if the number is
    /// outside `range`.
    fn number_in_range<T: Copy + PartialOrd + std::fmt::Display>(
        &mut self,
        value: Option<&Spanned<T>>,
        default: T,
        range: std::ops::RangeInclusive<T>,
    ) -> T {
        let Some(value) = value else { return default };
        if !range.contains(&value.value) {
            let fix = format!("write a number from {} to {}", range.start(), range.end());
            self.report_problem(value.referenced, format!("{} is out of range", value.value), fix);
            return default;
        }
        value.value
    }

    /// Reports an error if a name is empty, too long or has invalid characters. `object` is the named thing:
    /// a lab, node, link, job or flow.
    fn check_name(&mut self, name: &Spanned<String>, object: &str) {
        let text = &name.value;
        let well_formed = text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.len() <= NAME_MAX
            && text
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_');
        if !well_formed {
            let fix =
                format!("use 1 to {NAME_MAX} letters, digits, '-' and '_', the first a letter or digit");
            self.report_problem(
                name.referenced,
                format!("\"{text}\" cannot be the name of a {object}"),
                fix,
            );
        }
    }

    /// Formats a location as `file:line`, for sources in the plan.
    fn file_and_line(&self, location: Location) -> String {
        format!("{}:{}", self.file, location.line())
    }

    /// Resolves a path that the lab file contains. Relative paths start at the folder of the lab file.
    fn resolve_path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// Resolves all sections of a lab file. `None` if the topology template is invalid.
    fn resolve_lab(&mut self, lab: &xoff_lab_file::LabFile) -> Option<LabPlan> {
        self.check_name(&lab.name, "lab");
        let topology = self.merge_template(&lab.topology)?;
        let (mut switches, mut hosts) = self.resolve_nodes(&topology.nodes);
        let links = self.resolve_links(&topology.links);
        self.assign_host_links(&topology, &mut hosts);
        self.apply_load_balancing(lab.topology.defaults.as_ref(), &topology.nodes, &mut switches);
        match &topology.routes {
            Some(overrides) => {
                self.resolve_routes(overrides, &topology.nodes, &mut switches, &mut hosts, &links)
            }
            None => self.resolve_loop(&topology, &mut switches, &mut hosts, &links),
        }
        self.check_unique_addresses(&hosts, &topology.nodes);
        let transports = self.resolve_transports(&lab.transports);
        let workload = self.resolve_workload(lab.workload.as_ref(), &links, &transports);
        let mut plan = LabPlan {
            name: lab.name.value.clone(),
            switches,
            hosts,
            links,
            transports,
            announce: self.announces_queue_pairs(lab.load_balancing.as_ref()),
            workload,
            script: ScriptPlan::default(),
            notes: Vec::new(),
        };
        self.resolve_script(&lab.script, &mut plan);
        plan.notes = std::mem::take(&mut self.notes);
        Some(plan)
    }

    /// Reports an error if the run is in real time, because the feature `what` works only in virtual time.
    fn require_virtual_time(&mut self, location: Location, what: impl Into<String>) {
        if self.time == TimeMode::RealTime {
            self.report_problem(location, what, "this needs virtual time: add --virtual");
        }
    }

    /// Reports an error if the kernel would not accept `name` as the name of a network device.
    fn check_device_name(&mut self, name: &str, location: Location) {
        if let Err(error) = xoff_ports::net::check_name(name) {
            self.report_problem(location, error.to_string(), "");
        }
    }
}

/// Joins names for a message. Names beyond [`LISTED_NAMES_MAX`] are counted, not listed.
fn join_names<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
    match names.len().checked_sub(LISTED_NAMES_MAX) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..LISTED_NAMES_MAX].join(", ")),
    }
}

#[cfg(test)]
mod tests;
