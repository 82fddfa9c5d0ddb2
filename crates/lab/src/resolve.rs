//! Converts a lab file into a [`LabPlan`].
//!
//! The resolver looks up names, applies defaults and checks ranges. It collects all errors of a file and
//! returns them together.

mod balancing;
mod configurations;
mod host_patterns;
mod jobs;
mod links;
mod loops;
mod nics;
mod node_kinds;
mod nodes;
mod routing;
mod script;
mod topology;
mod transports;
mod workload;

pub(crate) use jobs::collective_kinds;
pub(crate) use workload::HEADER_BYTES_IPV4;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_saphyr::{Location, Spanned};
use xoff_lab_file::{LabFile, LeftOut, YamlError};

use super::load_options::LoadOptions;
use super::memory_need::{self, check_memory, estimate_topology};
use super::plan::{LabFileOrigin, LabPlan, ScriptPlan, TimeMode};
use super::problem::Problems;
use super::units;
use xoff_telemetry::failure::Failure;
use xoff_telemetry::{InputLimit, MemoryLimit, read_owned_input_text};

/// Longest name of a lab or node in bytes. The name of a lab is part of a socket address, which has at most
/// 107 bytes.
const NAME_MAX: usize = 48;

/// Reads a lab file and the files that it names, checks the lab file and returns its plan.
///
/// `options` selects real time or virtual time, and the memory that the lab may need. Fields that work only in the
/// other mode are errors. Switch configurations are read here, but
/// [`resolve_switch_setup`](crate::resolve_switch_setup) checks them.
///
/// # Errors
/// Returns all errors of the file together, in the order of their lines. Each error has a file, a line, the
/// reason and a suggested fix. A file that cannot be read or is not valid YAML gives a single error.
pub fn load_lab(path: &Path, options: impl Into<LoadOptions>) -> Result<LabPlan, Problems> {
    let options = options.into();
    let file = path.display().to_string();
    let folder = path.parent().unwrap_or(Path::new(""));
    match read_lab_text(path) {
        Ok(text) => parse_lab_text(&text, &file, folder, &options),
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

/// The text of a lab file and its owner.
#[derive(Clone, Debug)]
pub(crate) struct LabText {
    pub(crate) text: String,
    /// The user who owns the file. `None` if the text is not from a file.
    pub(crate) owner_uid: Option<u32>,
}

impl LabText {
    /// Returns a changed text of the same file.
    pub(crate) fn with_text(&self, text: String) -> LabText {
        LabText {
            text,
            owner_uid: self.owner_uid,
        }
    }
}

/// Reads the text of a lab file.
pub(crate) fn read_lab_text(path: &Path) -> std::io::Result<LabText> {
    let (text, owner_uid) = read_owned_input_text(path, InputLimit::LAB)?;
    Ok(LabText {
        text,
        owner_uid: Some(owner_uid),
    })
}

/// Parses and checks the text of a lab file like [`parse_lab`], and records the owner of the file.
pub(crate) fn parse_lab_text(
    text: &LabText,
    file: &str,
    folder: &Path,
    options: &LoadOptions,
) -> Result<LabPlan, Problems> {
    let mut plan = parse_lab(&text.text, file, folder, *options)?;
    plan.file = text.owner_uid.map(|owner_uid| LabFileOrigin {
        path: file.to_owned(),
        owner_uid,
    });
    Ok(plan)
}

/// Parses and checks the text of a lab file.
///
/// `file` is the name of the file in messages. Paths in the text are relative to `folder`. `options` have the
/// same meaning as in [`load_lab`].
///
/// # Errors
/// Returns the same errors as [`load_lab`].
pub fn parse_lab(
    text: &str,
    file: &str,
    folder: &Path,
    options: impl Into<LoadOptions>,
) -> Result<LabPlan, Problems> {
    let options = options.into();
    let mut resolver = LabResolver::new(file, folder, options);
    let lab = match xoff_lab_file::parse_lab(text) {
        Ok(lab) => Some(lab),
        Err(error) => resolver.report_form_errors(text, &error),
    };
    let plan = lab.and_then(|lab| resolver.resolve_lab(&lab));
    if let Some(plan) = plan.as_ref().filter(|_| resolver.problems.is_empty()) {
        resolver.report_failure(check_memory(plan, &options));
    }
    match plan {
        Some(plan) if resolver.problems.is_empty() => Ok(plan),
        _ => {
            resolver.problems.sort();
            Err(resolver.problems)
        }
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
    /// The memory that the lab may need.
    memory: MemoryLimit,
    problems: Problems,
    /// Remarks about fields of the lab file that have no effect.
    notes: Vec<String>,
    /// Names of the hosts, by host index of the plan.
    hosts: Vec<String>,
    /// Whether each host is a model host, by host index of the plan.
    is_model: Vec<bool>,
    /// Names of the switches, by switch index of the plan.
    switches: Vec<String>,
    /// Names of the model hosts, which send and receive flows.
    models: Vec<String>,
    /// Index of each node, by name.
    nodes: HashMap<String, NodeIndex>,
    /// The parts of the file that were left out because of their errors. Errors that are only consequences of
    /// the missing parts are not reported.
    left_out: LeftOut,
    /// The names of jobs, flows and `send` steps that the plan does not have because of their errors. Errors about
    /// these names in steps would be consequences.
    rejected_traffic: HashSet<String>,
    /// Whether nodes and links are unknown because the template has an error. Errors about unknown names of nodes
    /// would be consequences.
    is_topology_unknown: bool,
    /// The connected component (part of the topology) of each host, by host index. Two hosts can communicate
    /// only if they are in the same component. `None` if the lab has no computed routes.
    component_of_host: Option<Vec<usize>>,
    /// The number of values of script steps that were copied so far, as a measure of the work of `repeat`.
    expanded_values: usize,
    /// The length of the texts of these values in bytes.
    expanded_text_bytes: usize,
}

/// The index of a switch or host in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeIndex {
    Switch(usize),
    Host(usize),
}

impl<'a> LabResolver<'a> {
    fn new(file: &'a str, folder: &'a Path, options: impl Into<LoadOptions>) -> LabResolver<'a> {
        let LoadOptions { time, memory } = options.into();
        LabResolver {
            file,
            folder,
            time,
            memory,
            problems: Problems::default(),
            notes: Vec::new(),
            hosts: Vec::new(),
            is_model: Vec::new(),
            models: Vec::new(),
            switches: Vec::new(),
            nodes: HashMap::new(),
            left_out: LeftOut::default(),
            rejected_traffic: HashSet::new(),
            is_topology_unknown: false,
            component_of_host: None,
            expanded_values: 0,
            expanded_text_bytes: 0,
        }
    }

    /// Reports a failure that concerns the whole lab. Returns whether there was none.
    fn report_failure(&mut self, result: Result<(), Failure>) -> bool {
        let Err(failure) = result else { return true };
        let what = match failure.why {
            Some(why) => format!("{}: {why}", failure.what),
            None => failure.what,
        };
        self.report_problem(Location::UNKNOWN, what, failure.fix.unwrap_or_default());
        false
    }

    /// Reports all errors in the structure of the file. `first` is the error of the parser. Returns the parts
    /// of the lab without errors, so that their values are checked too. `None` if the file is not YAML or if
    /// too little is left.
    fn report_form_errors(&mut self, text: &str, first: &YamlError) -> Option<LabFile> {
        let checked = xoff_lab_file::check_lab(text).ok();
        let lab = match checked {
            Some(checked) if !checked.errors.is_empty() => {
                for error in checked.errors {
                    self.problems.push(self.file, error.at, error.what, error.fix);
                }
                self.left_out = checked.left_out;
                checked.value
            }
            _ => None,
        };
        if self.problems.is_empty() {
            let location = first.location().unwrap_or(Location::UNKNOWN);
            let what = strip_location(&first.without_snippet().to_string());
            self.problems.push(self.file, location, what, "");
        }
        lab
    }

    /// Returns the correction for an unknown name: the most similar name, or a list of the names. `what` is
    /// the plural of the named things. The text is empty if the error will not be printed, because a search
    /// for each of thousands of errors takes too long.
    fn suggest<'n>(
        &self,
        word: &str,
        names: impl IntoIterator<Item = &'n str> + Clone,
        what: &str,
    ) -> String {
        match self.problems.is_next_hidden() {
            true => String::new(),
            false => xoff_units::suggest(word, names, what),
        }
    }

    /// Returns names for a message. The text is empty if the error will not be printed.
    fn list_names<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> String {
        match self.problems.is_next_hidden() {
            true => String::new(),
            false => xoff_units::list_names(names),
        }
    }

    /// Returns whether a name is missing in the plan because of a reported error.
    fn is_rejected(&self, name: &str) -> bool {
        self.rejected_traffic.contains(name) || self.left_out.keys.contains(name)
    }

    /// Adds an error at `location`. `what` describes the error, and `fix` describes the correction.
    fn report_problem(&mut self, location: Location, what: impl Into<String>, fix: impl Into<String>) {
        self.problems.push(self.file, location, what, fix);
    }

    /// Parses the value of a field with `parse`. Returns `default` if the field is missing or invalid.
    ///
    /// An invalid text is reported together with `allowed`, a description of the valid texts with their range and
    /// unit. A number with a valid unit is reported as out of range, and other texts as not allowed.
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
                let (what, fix) = match units::explain_bits(&text.value, parse) {
                    Some(fix) => (
                        format!("\"{}\" is a number of bits, not of bytes", text.value),
                        fix,
                    ),
                    None if units::has_valid_form(&text.value, parse) => (
                        format!("{} is out of range", text.value.trim()),
                        format!("write {allowed}"),
                    ),
                    None => (
                        format!("\"{}\" is not allowed here", text.value),
                        format!("write {allowed}"),
                    ),
                };
                self.report_problem(text.referenced, what, fix);
                default
            }
        }
    }

    /// Returns the number in a field, or `default` if the field is missing. Reports an error if the number is
    /// outside `range`. `unit` is the plural of the counted things, or empty.
    fn number_in_range<T: Copy + PartialOrd + std::fmt::Display>(
        &mut self,
        value: Option<&Spanned<T>>,
        default: T,
        range: std::ops::RangeInclusive<T>,
        unit: &str,
    ) -> T {
        let Some(value) = value else { return default };
        if !range.contains(&value.value) {
            let of_unit = match unit {
                "" => String::new(),
                unit => format!(" of {unit}"),
            };
            let (least, most) = (range.start(), range.end());
            let fix = format!("write a whole number{of_unit} from {least} to {most}");
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
    fn resolve_lab(&mut self, lab: &LabFile) -> Option<LabPlan> {
        self.check_name(&lab.name, "lab");
        let Some(topology) = self.merge_template(&lab.topology) else {
            self.is_topology_unknown = true;
            self.check_without_topology(lab);
            return None;
        };
        let (mut switches, mut hosts) = self.resolve_nodes(&topology.nodes);
        let links = self.resolve_links(&topology.links);
        let has_all_ports = self.problems.is_empty();
        self.assign_host_links(&topology, &mut hosts);
        self.apply_load_balancing(lab.topology.defaults.as_ref(), &topology.nodes, &mut switches);
        let need = estimate_topology(switches.len(), hosts.len(), &links, topology.routes.is_some());
        if !self.report_failure(self.memory.check(memory_need::SUBJECT, &need)) {
            return None;
        }
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
            file: None,
            folder: std::path::absolute(self.folder.join("."))
                .ok()
                .map(PathBuf::into_os_string),
        };
        self.resolve_script(&lab.script, &mut plan);
        // Without other errors, the caller resolves the configurations.
        if !self.problems.is_empty() {
            self.report_configurations(&topology.nodes, &plan.switches, &plan.links, has_all_ports);
        }
        plan.notes = std::mem::take(&mut self.notes);
        Some(plan)
    }

    /// Reports the errors of a lab file whose template has an error, as far as they do not depend on the nodes and
    /// links of the template.
    fn check_without_topology(&mut self, lab: &LabFile) {
        for template in lab.topology.fabric.iter().flat_map(|fabric| &fabric.value.0) {
            self.check_template_quantities(&template.1);
        }
        self.report_configurations_without_links(&lab.topology.nodes.0);
        let transports = self.resolve_transports(&lab.transports);
        self.resolve_workload(lab.workload.as_ref(), &[], &transports);
    }

    /// Reports an error if the run is in real time, because the feature `what` works only in virtual time.
    fn require_virtual_time(&mut self, location: Location, what: impl Into<String>) {
        if self.time == TimeMode::RealTime {
            self.report_problem(
                location,
                what,
                "this needs virtual time: `xoff lab run FILE --virtual`",
            );
        }
    }

    /// Reports an error if the kernel would not accept `name` as the name of a network device.
    fn check_device_name(&mut self, name: &str, location: Location) {
        if let Err(error) = xoff_ports::net::check_name(name) {
            self.report_problem(location, error.to_string(), "");
        }
    }
}

#[cfg(test)]
mod tests;
