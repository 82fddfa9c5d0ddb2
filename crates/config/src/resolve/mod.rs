//! Converts a [`ConfigDb`] into the [`SwitchConfig`] of the data plane. This step resolves references, checks
//! rules about several fields, applies defaults and adds warnings.

mod acl;
mod addresses;
mod advice;
mod balancing;
mod buffer_model;
mod buffer_sides;
mod buffers;

mod buffer_profiles;
mod chip;
mod classes;
mod computed_routes;
mod context;
mod dcbx;
mod device_mtu;
mod dynamic;
mod flow_control;
mod hash_fields;
mod interfaces;
mod lags;
mod link_names;
mod lldp;
mod lldp_switches;
mod neighbours;
mod port_buffer_limits;
mod ports;
mod queues;
mod references;
mod routes;
mod routing;
mod template;
mod traditional_buffer_model;
mod trimming;
mod vlans;
mod watchdog;

use std::sync::Arc;

use xoff_dataplane::config::{EcnMarkPoint, SwitchConfig};
use xoff_dataplane::route::ROUTES_MAX;
use xoff_dataplane::route::Rib;
use xoff_units::Picos;

use self::buffers::ResolvedBuffers;
use self::context::ResolveContext;
use self::interfaces::InterfaceParents;
use super::db::ConfigDb;
use super::merge::merge_layers;
use super::pg_profile_lookup::PgProfileLookup;
use super::problem::{Problem, Problems};
use super::root_cause::{FoundErrors, RefusedObjects, remove_consequences};
use super::{invariants, read};

pub use computed_routes::ComputedRoutes;
pub use device_mtu::{DeviceDefaults, DeviceMtu, PORT_MTU_MAX, describe_lost_frames};
pub use flow_control::proposes_dilation;
pub use routes::StaticRoute;
pub use routing::hash_seed;
pub use template::SwitchTemplate;

const SWITCH: &str = "XOFF_SWITCH";
const LOCALHOST: &str = "localhost";

/// Default age in seconds after which the switch forgets a learned MAC address.
const FDB_AGEING_S: u64 = 600;
/// Default for the largest number of learned MAC addresses.
const FDB_ENTRIES: u64 = 65_536;
/// Limits of the computed number of frame slots. A frame slot needs 2 KiB of memory.
const FRAMES_RANGE: std::ops::RangeInclusive<u64> = 1_024..=131_072;

/// The kind of links that are attached to the ports of a switch ([`ResolveOptions::ports`]). The kind has an
/// effect on only one thing: the warnings about ports that are down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortAttachment {
    /// Devices that the command line names.
    #[default]
    CommandLine,
    /// Links of a lab.
    Lab,
    /// Frames of a capture. No warning is added, because the replay itself reports ports that are down.
    Capture,
    /// Ports of a running switch. No warning is added, because the user sets a port down on purpose.
    RunningSwitch,
}

impl PortAttachment {
    /// Returns the reason for which a port should be up, as text for a warning. Returns `None` if no warning
    /// is needed.
    fn describe_reason(self) -> Option<&'static str> {
        match self {
            PortAttachment::CommandLine => Some("named on the command line"),
            PortAttachment::Lab => Some("a link of the lab ends here"),
            PortAttachment::Capture | PortAttachment::RunningSwitch => None,
        }
    }
}

/// The value of [`ResolveOptions::port_source`] for commands with the option `--port`.
pub const PORT_OPTION: &str = "name it on the command line (--port)";
/// The value of [`ResolveOptions::port_source`] for the switches of a lab.
pub const PORT_LINK: &str = "connect it to a link of the lab";

/// Inputs of [`load`] and [`resolve`] that are not part of the configuration.
#[derive(Clone, Debug, Default)]
pub struct ResolveOptions {
    /// Names of the ports to which a device, a link of a lab or a capture is attached. These ports exist even
    /// without an entry in `PORT`. They are up unless `PORT.admin_status` sets them down.
    pub ports: Vec<String>,
    /// The kind of links that are attached to `ports`.
    pub attachment: PortAttachment,
    /// How the user can create a port without an entry in `PORT`, as a suggestion in errors, such as
    /// [`PORT_OPTION`]. `None` if only an entry in `PORT` creates a port.
    pub port_source: Option<&'static str>,
    /// Name of the switch if `DEVICE_METADATA|localhost hostname` is missing. `None` means `xoff`. In files
    /// of a VOQ chassis, only the configured `hostname` selects keys.
    pub hostname: Option<String>,
    /// Seed of all random decisions if `XOFF_SWITCH|localhost seed` is missing.
    pub seed: u64,
    /// The longest time for which the machine may stall xoff, as model time. The default interval between two XOFF
    /// frames depends on this time. A warning reports headroom that is too small for such a stall. In virtual time, the
    /// machine cannot stall xoff, and the value is the longest response of a neighbour to a pause, or zero.
    pub reaction_budget: Picos,
    /// Whether the switch runs in virtual time. Warnings then propose nothing that only affects real time.
    pub is_virtual: bool,
    /// MTU of the attached links in bytes, by the name of the port. A port uses the smaller value of
    /// `PORT.mtu` and this MTU. If the port is missing in the map, only `PORT.mtu` applies. Longer
    /// packets are dropped in both directions with the reason `EXCEEDS_L2_MTU`, or `EXCEEDS_L3_MTU` for
    /// routed packets.
    pub link_mtus: std::collections::BTreeMap<String, u32>,
    /// The location of the definition of each link of a lab, by the name of the port, for errors. Empty outside
    /// labs.
    pub link_locations: std::collections::BTreeMap<String, String>,
    /// The names of layers that are generated from the links of a lab. Their `PORT` entries are no port names that
    /// the user has written.
    pub generated_layers: &'static [String],
    /// Defaults that come from the network devices of the ports. Empty in labs, in virtual time and in
    /// replays.
    pub devices: DeviceDefaults,
    /// Names of the router interfaces of the running switch, in the order of their numbers. Interfaces that
    /// remain keep their numbers, if possible. Empty for a new switch.
    pub interfaces: Vec<String>,
    /// The lookup file of the SKU with the lossless profiles of the traditional buffer model
    /// (`pg_profile_lookup.ini`). `None`: no lossless profiles are generated in this model.
    pub pg_profiles: Option<Arc<PgProfileLookup>>,
    /// Name of the part that is read from a file with several ASICs, such as `asic0`. `None` for files that
    /// configure one ASIC.
    pub asic: Option<String>,
    /// Static routes in addition to those of the table `STATIC_ROUTE`. The caller guarantees that no table has
    /// routes, sites or weights for their prefixes.
    pub computed_routes: Option<Arc<ComputedRoutes>>,
}

/// A valid configuration for the data plane, with its warnings.
#[derive(Clone, Debug)]
pub struct ResolvedConfig {
    /// The configuration of the data plane.
    pub config: SwitchConfig,
    /// The sources of the routes in [`SwitchConfig::routing`]: interfaces and static routes. When a source
    /// changes, a running switch computes its routes again from all sources.
    pub rib: Rib,
    /// The static routes, sorted by prefix and distance.
    pub static_routes: Vec<StaticRoute>,
    /// Entries and fields that xoff has added to the configuration. In the dynamic buffer model, xoff computes
    /// buffer entries. In the traditional model, they come from [`ResolveOptions::pg_profiles`]. The field
    /// `PORT.mtu` comes from [`ResolveOptions::devices`]. Empty if nothing was added.
    pub generated: ConfigDb,
    /// Warnings, and notes about settings without an effect. Each text has one line.
    pub warnings: Vec<String>,
}

/// A configuration in two forms: the merged tables, and the resolved configuration for the data plane.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The merged tables of all layers.
    pub db: ConfigDb,
    /// The resolved configuration.
    pub resolved: ResolvedConfig,
}

/// Parses several layers, merges them in order, and resolves the result. A later layer overrides earlier
/// layers ([`merge_layers`]). Each layer is a pair: the name of the layer for messages, and the JSON text of
/// the layer.
///
/// # Errors
///
/// Returns the errors of all layers and of the merged configuration, so that a user can correct all of them
/// at once. An error that is only a consequence of a second error is left out. If a text cannot be parsed,
/// the merged configuration is not checked.
pub fn load(layers: &[(&str, &str)], options: &ResolveOptions) -> Result<LoadedConfig, Problems> {
    let read = read::parse_all_layers(layers, options.asic.as_deref());
    let db = merge_layers(&read.layers);
    let misspelt = link_names::find_misspelt_links(&read.layers, &db, options);
    // If a text could not be parsed at all, references to the entries of this text would cause
    // misleading errors.
    if read.problems.iter().any(|problem| problem.table.is_empty()) {
        return Err(Problems::new(read.problems));
    }
    match resolve_with_consequences(&db, options) {
        Ok(resolved) if read.problems.is_empty() && misspelt.is_empty() => Ok(LoadedConfig { resolved, db }),
        found => {
            let mut found = found.err().unwrap_or_default();
            found.values.extend(read.problems);
            found.values.extend(misspelt);
            Err(remove_consequences(&db, &read.refused, found))
        }
    }
}

/// Checks references and rules about several fields, applies defaults, and returns the configuration of the
/// data plane.
///
/// # Errors
///
/// Returns all invalid references, missing fields, contradictions and invalid port names. An error that is
/// only a consequence of a second error is left out.
pub fn resolve(db: &ConfigDb, options: &ResolveOptions) -> Result<ResolvedConfig, Problems> {
    resolve_with_consequences(db, options)
        .map_err(|found| remove_consequences(db, &RefusedObjects::default(), found))
}

/// Checks the number of routes before any route is resolved. Each interface address has at least one route.
pub(crate) fn check_route_count(db: &ConfigDb, routes_max: usize) -> Result<(), FoundErrors> {
    let addresses = ["INTERFACE", "PORTCHANNEL_INTERFACE", "VLAN_INTERFACE"]
        .into_iter()
        .flat_map(|table| db.keys(table))
        .filter(|key| key.contains('|'));
    let count = db.keys("STATIC_ROUTE").count() + addresses.count();
    if count <= routes_max {
        return Ok(());
    }
    let mut found = FoundErrors::default();
    found.values.push(Problem {
        table: "STATIC_ROUTE".to_owned(),
        why: format!(
            "static routes and interface addresses need {count} routes, and at most {routes_max} are possible"
        ),
        ..Problem::default()
    });
    Err(found)
}

/// Resolves a configuration like [`resolve`]. In addition, returns errors that are only consequences of a
/// second error.
fn resolve_with_consequences(db: &ConfigDb, options: &ResolveOptions) -> Result<ResolvedConfig, FoundErrors> {
    let computed = options
        .computed_routes
        .as_ref()
        .map_or(0, |computed| computed.routes.len());
    check_route_count(db, ROUTES_MAX.saturating_sub(computed))?;
    let mut completion_context = ResolveContext::new(db, options);
    let completed = match buffer_model::is_dynamic_model_selected(db) {
        true => Some(dynamic::complete_buffers(&mut completion_context)),
        false => traditional_buffer_model::complete_buffers(&mut completion_context),
    };
    let mut context = ResolveContext::new(completed.as_ref().map_or(db, |(completed, _)| completed), options);
    context.take_results_of(completion_context);
    check_selected_asic(&mut context);
    references::check_entries(&mut context);
    let mut buffers = ResolvedBuffers::resolve(&mut context);
    let mut ports = ports::resolve_ports(&mut context, &mut buffers);
    queues::resolve_queues(&mut context, &mut ports);
    dcbx::apply_ets_defaults(&mut context, &mut ports);
    flow_control::resolve_flow_control(&mut context, &mut ports);
    let watchdog = watchdog::resolve_watchdog(&mut context, &mut ports);
    let lags = lags::resolve_lags(&mut context, &mut ports);
    device_mtu::check_mtus(&mut context, &ports);
    let bridging = vlans::resolve_bridging(&mut context, &ports, &lags);
    let port_profiles = port_buffer_limits::resolve_port_profiles(&mut context, &buffers);
    let seed = context.number(SWITCH, LOCALHOST, "seed").unwrap_or(options.seed);
    let parents = InterfaceParents {
        mac: ports::base_mac(&context),
        ports: &ports,
        lags: &lags,
        bridging: &bridging,
    };
    let balancing = balancing::resolve_balancing(&mut context, &lags);
    let routing = routing::resolve_routing(&mut context, &parents, &balancing, seed);
    let lldp_parents = lldp::LldpParents {
        ports: &ports,
        bridging: &bridging,
        routing: &routing.config,
    };
    let lldp = lldp::resolve_lldp(&mut context, &lldp_parents);
    let trimming = trimming::resolve_trimming(&mut context, &ports, &buffers.profiles);
    let frames = context
        .number(SWITCH, LOCALHOST, "frames")
        .unwrap_or_else(|| buffers.default_frame_slot_count());
    let config = SwitchConfig {
        name: context.hostname().to_owned(),
        mac: ports::base_mac(&context),
        seed,
        cell_bytes: context
            .number(SWITCH, LOCALHOST, "cell_size")
            .unwrap_or_else(|| chip::default_cell_bytes(&context)) as u32,
        pipeline_latency: Picos::from_nanos(
            context.number(SWITCH, LOCALHOST, "pipeline_latency").unwrap_or(0),
        ),
        mark_point: match context.text(SWITCH, LOCALHOST, "mark_point") {
            Some("enqueue") => EcnMarkPoint::Enqueue,
            _ => EcnMarkPoint::Dequeue,
        },
        fdb_ageing: match context
            .number(SWITCH, LOCALHOST, "fdb_ageing")
            .unwrap_or(FDB_AGEING_S)
        {
            0 => Picos::NEVER,
            seconds => Picos::from_millis(seconds.saturating_mul(1_000)),
        },
        fdb_entries_max: context
            .number(SWITCH, LOCALHOST, "fdb_entries")
            .unwrap_or(FDB_ENTRIES) as usize,
        frames_max: frames as usize,
        ports,
        pools: buffers.pools,
        profiles: buffers.profiles,
        port_profiles,
        lags,
        bridging,
        routing: routing.config,
        balancing: balancing.config,
        watchdog,
        trimming,
        lldp,
    };
    chip::note_chip_constants(&mut context);
    advice::add_warnings(&mut context, &config);
    let (warnings, found) = context.into_results();
    if !found.is_empty() {
        return Err(found);
    }
    debug_assert_eq!(invariants::find_violation(&config), None);
    let mut generated = completed.map(|(_, added)| added).unwrap_or_default();
    device_mtu::add_default_mtus(db, options, &config.ports, &mut generated);
    Ok(ResolvedConfig {
        config,
        rib: routing.rib,
        static_routes: routing.static_routes,
        generated,
        warnings,
    })
}

/// Checks that the selected ASIC is the ASIC of the configuration, if the file has no parts for
/// several ASICs.
fn check_selected_asic(context: &mut ResolveContext<'_>) {
    let Some(asic) = context
        .options
        .asic
        .as_deref()
        .filter(|_| !context.db.is_asic_part)
    else {
        return;
    };
    match context.text("DEVICE_METADATA", LOCALHOST, "asic_name") {
        Some(own) if own == asic => {}
        Some(own) => {
            let why = format!("the configuration belongs to {own}, but {asic} is selected");
            let problem = Problem::at_field("DEVICE_METADATA", LOCALHOST, "asic_name", why).with_value(own);
            context.report_entry_contradiction(problem.with_fix(format!("select {own}, or no ASIC")));
        }
        None => context.warn_entry(
            "DEVICE_METADATA",
            LOCALHOST,
            format!("the selection of {asic} has no effect: the device does not have several ASICs"),
        ),
    }
}

pub(super) use advice::bytes_in_time_span;
