//! Loops within one bridge or VLAN: a lab with such a loop gets computed routes, or is refused.

use serde_saphyr::Location;
use xoff_units::Picos;

use super::super::bridge_loops::{BridgeLoop, find_bridge_loop, has_cycle};
use super::super::config::{SimilarSwitches, SwitchSetup, links_of_switches};
use super::super::plan::{HostPlan, LinkPlan, SwitchPlan};
use super::LabResolver;
use super::topology::MergedTopology;
use xoff_telemetry::failure::Failure;

/// Largest number of links of a loop that a message names.
const LINKS_NAMED_MAX: usize = 8;

/// Corrections of a loop other than computed routes.
const OTHER_FIXES: &str = "join parallel links to a LAG, shut down a port of the loop, or write `allow_loop: true` under `topology`";

impl LabResolver<'_> {
    /// Searches the lab, which has no computed routes, for a loop within one bridge or VLAN. If the lab has a
    /// loop, the lab gets computed routes and a note. If routes are not possible or the lab file refuses them,
    /// an error names the loop.
    pub(super) fn resolve_loop(
        &mut self,
        topology: &MergedTopology,
        switches: &mut Vec<SwitchPlan>,
        hosts: &mut Vec<HostPlan>,
        links: &[LinkPlan],
    ) {
        if topology.allows_loop || !self.problems.is_empty() || !has_cycle(switches.len(), links) {
            return;
        }
        // An invalid configuration is reported when the lab starts.
        let Ok(setups) = resolve_setups(switches, links) else {
            return;
        };
        let Some(found) = find_loop(&setups, links) else {
            return;
        };
        let description = describe_loop(&found, switches, links);
        if let Some(location) = topology.no_routes {
            let what = format!("{description}, and `routes: none` keeps it");
            self.report_problem(location, what, format!("write `routes: auto`, {OTHER_FIXES}"));
            return;
        }
        match self.try_computed_routes(topology, switches.clone(), hosts.clone(), links) {
            Ok((routed_switches, routed_hosts)) => {
                (*switches, *hosts) = (routed_switches, routed_hosts);
                self.notes.push(format!(
                    "{description}; the lab uses `routes: auto` instead of bridges"
                ));
            }
            Err(reason) => {
                // Without errors, the plan and the lab file have the same links.
                let closing_link = found.links.last().and_then(|link| topology.links.get(*link));
                let location = closing_link.map_or(Location::UNKNOWN, |link| link.referenced);
                let what = format!("{description}, and `routes: auto` is not possible: {reason}");
                self.report_problem(location, what, OTHER_FIXES);
            }
        }
    }

    /// Adds computed routes to the switches and hosts. Returns the reason if this is not possible.
    fn try_computed_routes(
        &mut self,
        topology: &MergedTopology,
        mut switches: Vec<SwitchPlan>,
        mut hosts: Vec<HostPlan>,
        links: &[LinkPlan],
    ) -> Result<(Vec<SwitchPlan>, Vec<HostPlan>), String> {
        self.resolve_routes(&[], &topology.nodes, &mut switches, &mut hosts, links);
        let problems = std::mem::take(&mut self.problems);
        let result = match problems.iter().next() {
            Some(problem) => Err(problem.what.clone()),
            None => match resolve_setups(&switches, links) {
                Err(failure) => Err(first_reason(&failure)),
                Ok(setups) if find_loop(&setups, links).is_some() => {
                    Err("the configuration of the switches keeps the loop".to_owned())
                }
                Ok(_) => Ok((switches, hosts)),
            },
        };
        if result.is_err() {
            self.component_of_host = None;
        }
        result
    }
}

/// Resolves the configurations of all switches. Times and seeds do not matter for loops.
fn resolve_setups(switches: &[SwitchPlan], links: &[LinkPlan]) -> Result<Vec<SwitchSetup>, Failure> {
    let own_links = links_of_switches(switches.len(), links);
    let mut similar = SimilarSwitches::default();
    let switches = switches.iter().zip(&own_links).enumerate();
    switches
        .map(|(index, (switch, own_links))| {
            similar
                .resolve(switch, index, (links, own_links), 0, Picos::ZERO)
                .map_err(|error| error.into_failure(&switch.name))
        })
        .collect()
}

fn find_loop(setups: &[SwitchSetup], links: &[LinkPlan]) -> Option<BridgeLoop> {
    let configs: Vec<_> = setups.iter().map(|setup| &setup.loaded.resolved.config).collect();
    find_bridge_loop(&configs, links)
}

/// Describes a loop: its switches and links, and its VLAN.
fn describe_loop(found: &BridgeLoop, switches: &[SwitchPlan], links: &[LinkPlan]) -> String {
    let bridge = match found.vlan {
        Some(vlan) => format!("within Vlan{vlan}"),
        None => "within one bridge".to_owned(),
    };
    let first = found.switches.first();
    let names: Vec<&str> = found
        .switches
        .iter()
        .chain(first)
        .take(LINKS_NAMED_MAX + 1)
        .map(|switch| switches[*switch].name.as_str())
        .collect();
    let link_names: Vec<&str> = found
        .links
        .iter()
        .take(LINKS_NAMED_MAX)
        .map(|link| links[*link].name.as_str())
        .collect();
    let more = match found.links.len().saturating_sub(LINKS_NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "the links form a loop {bridge}: {}{} over {}{more}",
        names.join(" - "),
        if more.is_empty() { "" } else { " ..." },
        link_names.join(", ")
    )
}

/// Returns the first reason of a failure in one line.
fn first_reason(failure: &Failure) -> String {
    let why = failure.why.as_deref().unwrap_or(&failure.what);
    why.lines().next().unwrap_or_default().trim().to_owned()
}
