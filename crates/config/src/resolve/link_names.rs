//! Links of a lab whose port name is probably misspelt.
//!
//! Each link of a lab creates a port of the switch, also without an entry in `PORT`. A misspelt name would
//! therefore create a further port, and the settings of the correct name would have no effect.

use std::collections::BTreeSet;

use xoff_units::nearest_name;

use super::ResolveOptions;
use crate::Problem;
use crate::db::ConfigDb;

/// Returns an error for each link of a lab whose port has no entry in `PORT`, if `PORT` has a similar name that no
/// link uses. `layers` are the layers of which `db` consists.
pub(super) fn find_misspelt_links(
    layers: &[ConfigDb],
    db: &ConfigDb,
    options: &ResolveOptions,
) -> Vec<Problem> {
    if options.link_locations.is_empty() {
        return Vec::new();
    }
    let mut configured = BTreeSet::new();
    for layer in layers
        .iter()
        .filter(|layer| !options.generated_layers.iter().any(|name| name == layer.source()))
    {
        // A higher layer can remove an entry.
        configured.extend(layer.keys("PORT").filter(|port| db.entry("PORT", port).is_some()));
    }
    let unused: Vec<&str> = configured
        .iter()
        .copied()
        .filter(|port| !options.link_locations.contains_key(*port))
        .collect();
    let mut problems = Vec::new();
    if unused.is_empty() {
        return problems;
    }
    for (port, location) in &options.link_locations {
        if configured.contains(port.as_str()) {
            continue;
        }
        let Some(similar) = nearest_name(port, unused.iter().copied()) else {
            continue;
        };
        let why = format!(
            "the link of {location} ends at {port}, but PORT has no {port}, and no link uses {similar} of PORT"
        );
        let fix = format!("did you mean {similar}? Otherwise add {port} to PORT");
        problems.push(Problem::at_field("PORT", port, "", why).with_fix(fix));
    }
    problems
}
