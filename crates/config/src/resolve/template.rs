//! Resolves many switches that differ only in their addresses, neighbours and routes.

use super::context::ResolveContext;
use super::interfaces::InterfaceParents;
use super::{LOCALHOST, LoadedConfig, ResolveOptions, SWITCH, balancing, ports, routing};
use crate::db::ConfigDb;
use crate::natural::NaturalName;
use crate::read;
use xoff_dataplane::config::SwitchConfig;

/// Tables that a switch takes from its own text as a whole.
const OWN_TABLES: [&str; 2] = ["INTERFACE", "NEIGH"];
/// Fields that a switch takes from its own text: the table, the key and the field.
const OWN_FIELDS: [(&str, &str, &str); 2] = [
    ("DEVICE_METADATA", LOCALHOST, "mac"),
    ("XOFF_LB", "global", "advertise_ports"),
];

/// The resolved configuration of one switch, from which similar switches are resolved. Only layer 3 and load
/// balancing are resolved again, so a switch costs a small part of a complete resolution.
///
/// Switches are similar if they have the same ports and the same merged tables, except for the tables
/// `INTERFACE`, `NEIGH` and `PORT`, and the fields `DEVICE_METADATA|localhost mac` and
/// `XOFF_LB|global advertise_ports`. The resolved values of `PORT` must be the same.
#[derive(Clone, Debug)]
pub struct SwitchTemplate {
    db: ConfigDb,
    config: SwitchConfig,
}

impl SwitchTemplate {
    /// Creates a template from a switch. Returns `None` if the configuration of the switch has warnings, because
    /// the warnings of a similar switch would differ. Also returns `None` if LLDP is on, because LLDP frames contain
    /// the addresses of the switch.
    pub fn new(loaded: &LoadedConfig) -> Option<SwitchTemplate> {
        let is_simple = loaded.resolved.warnings.is_empty() && loaded.resolved.config.lldp.is_none();
        is_simple.then(|| SwitchTemplate {
            db: loaded.db.clone(),
            config: loaded.resolved.config.clone(),
        })
    }

    /// Resolves a similar switch. `text` is the layer of the switch with its own tables and fields. `options` has
    /// the name, the seed and the computed routes of the switch. Returns `None` if the configuration has an error
    /// or a warning: then it must be resolved by [`load`](super::load).
    pub fn resolve(&mut self, text: &str, options: &ResolveOptions) -> Option<SwitchConfig> {
        let mut own = read::parse_all_layers(&[("", text)], None);
        let own = own.layers.pop().filter(|_| own.problems.is_empty())?;
        self.replace_own_parts(own);
        let mut context = ResolveContext::new(&self.db, options);
        let mut config = self.config.clone();
        let seed = context.number(SWITCH, LOCALHOST, "seed").unwrap_or(options.seed);
        let mac = ports::base_mac(&context);
        let balancing = balancing::resolve_balancing(&mut context, &config.lags);
        let parents = InterfaceParents {
            mac,
            ports: &config.ports,
            lags: &config.lags,
            bridging: &config.bridging,
        };
        let routing = routing::resolve_routing(&mut context, &parents, &balancing, seed);
        let name = context.hostname().to_owned();
        for (index, port) in config.ports.iter_mut().enumerate() {
            port.mac = ports::port_mac(mac, index);
        }
        let (warnings, found) = context.into_results();
        (warnings.is_empty() && found.is_empty()).then(|| SwitchConfig {
            name,
            mac,
            seed,
            routing: routing.config,
            balancing: balancing.config,
            ..config
        })
    }

    /// Replaces the tables and fields of the previous switch by those of a similar switch.
    fn replace_own_parts(&mut self, mut own: ConfigDb) {
        for table in OWN_TABLES {
            let name = &table as &dyn NaturalName;
            match own.tables.remove(name) {
                Some(entries) => self.db.tables.insert(table.into(), entries),
                None => self.db.tables.remove(name),
            };
        }
        for (table, key, field) in OWN_FIELDS {
            match own.get(table, key, field) {
                Some(value) => self.db.insert(table, key, field, &value),
                None => self.db.remove_field(table, key, field),
            }
        }
    }
}
