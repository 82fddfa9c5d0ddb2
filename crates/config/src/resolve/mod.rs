//! From a [`ConfigDb`] to the data plane's [`SwitchConfig`]: references, rules between fields, defaults, advice.

mod acl;
mod addresses;
mod advice;
mod balancing;
mod buffers;
mod chip;
mod classes;
mod context;
mod dynamic;
mod flow_control;
mod interfaces;
mod lags;
mod neighbours;
mod port_profiles;
mod ports;
mod profiles;
mod queues;
mod references;
mod routes;
mod routing;
mod traditional;
mod trimming;
mod vlans;
mod watchdog;

use std::sync::Arc;

use xoff_dataplane::config::{MarkPoint, SwitchConfig};
use xoff_dataplane::route::Rib;
use xoff_units::Picos;

use self::buffers::Buffers;
use self::context::Context;
use self::interfaces::Ground;
use super::db::ConfigDb;
use super::follow_up::{Findings, Refused, without_follow_ups};
use super::merge::merge;
use super::pg_profiles::PgProfiles;
use super::problem::{Problem, Problems};
use super::{invariants, read};

pub use ports::PORTS_MAX;
pub use routes::StaticRoute;
pub use routing::hash_seed;

const SWITCH: &str = "XOFF_SWITCH";
const LOCALHOST: &str = "localhost";

const FDB_AGEING_S: u64 = 600;
const FDB_ENTRIES: u64 = 65_536;
/// Limits of the computed number of frames: a slot is 2 KiB of memory, and every frame takes an egress cell.
const FRAMES: std::ops::RangeInclusive<u64> = 1_024..=131_072;

/// What is attached to the ports of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attachment {
    /// Devices that the command line names.
    #[default]
    CommandLine,
    /// Links of a lab.
    Lab,
    /// Frames of a capture; the replay itself reports ports that are down.
    Capture,
}

impl Attachment {
    /// Why a port is expected to be up, for a warning.
    fn describe(self) -> Option<&'static str> {
        match self {
            Attachment::CommandLine => Some("named on the command line"),
            Attachment::Lab => Some("a link of the lab ends here"),
            Attachment::Capture => None,
        }
    }
}

/// What a configuration does not say and the caller knows.
#[derive(Clone, Debug, Default)]
pub struct Resolve {
    /// Ports that something is attached to: they exist, and are up unless the file says otherwise.
    pub ports: Vec<String>,
    /// What is attached to them.
    pub attachment: Attachment,
    /// Name of the switch, unless `DEVICE_METADATA|localhost hostname` gives one; `xoff` without either. Unlike a `hostname`,
    /// it does not select keys of a VOQ chassis.
    pub hostname: Option<String>,
    /// Seed of every random decision, unless `XOFF_SWITCH|localhost seed` says otherwise.
    pub seed: u64,
    /// What the host may stall, in model time; zero in virtual time. PFC is refreshed early enough to bridge
    /// it, and headroom is compared with it.
    pub reaction_budget: Picos,
    /// The longest that the links of ports carry, as MTU in bytes, by the name of the port. A port whose link carries less than its
    /// `PORT.mtu` has that MTU: what is longer is dropped with the reason `EXCEEDS_L2_MTU` (`EXCEEDS_L3_MTU` where it is routed), in
    /// either direction.
    pub link_mtus: std::collections::BTreeMap<String, u32>,
    /// Names of the router interfaces that a running switch has, by number: those that remain keep their numbers.
    pub interfaces: Vec<String>,
    /// The SKU's lookup file, from which the traditional buffer model takes lossless profiles.
    pub pg_profiles: Option<Arc<PgProfiles>>,
    /// The ASIC whose part is read of files that configure several, such as `asic0`.
    pub asic: Option<String>,
}

/// A configuration that can run.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// For the data plane.
    pub config: SwitchConfig,
    /// What offers the routes of [`SwitchConfig::routing`]: a running switch gets them as the generation after its own.
    pub rib: Rib,
    /// The static routes, by prefix and distance.
    pub static_routes: Vec<StaticRoute>,
    /// Entries and fields of buffers that are not written: those that the dynamic buffer model computed, or those that
    /// the traditional one took from [`Resolve::pg_profiles`].
    pub generated: ConfigDb,
    /// What has no effect, and what will probably not do what was meant; one line each.
    pub warnings: Vec<String>,
}

/// A configuration from text, as said and as resolved.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The layers merged, in canonical form.
    pub db: ConfigDb,
    /// What they mean.
    pub resolved: Resolved,
}

/// Reads layers of `(source, text)`, merges them, later over earlier, and resolves the result.
///
/// # Errors
/// Every problem of every layer and of their union, so that one round of corrections is enough.
pub fn load(layers: &[(&str, &str)], how: &Resolve) -> Result<Loaded, Problems> {
    let read = read::read(layers, how.asic.as_deref());
    let db = merge(&read.layers);
    // Where a text could not be read at all, everything that refers to it is missing.
    if read.problems.iter().any(|problem| problem.table.is_empty()) {
        return Err(Problems::new(read.problems));
    }
    match find(&db, how) {
        Ok(resolved) if read.problems.is_empty() => Ok(Loaded { resolved, db }),
        found => {
            let mut found = found.err().unwrap_or_default();
            found.values.extend(read.problems);
            Err(without_follow_ups(&db, &read.refused, found))
        }
    }
}

/// Checks what concerns several fields, fills in defaults and builds what the data plane needs.
///
/// # Errors
/// References to nothing, missing fields, contradictions, unusable port names: all of them.
pub fn resolve(db: &ConfigDb, how: &Resolve) -> Result<Resolved, Problems> {
    find(db, how).map_err(|found| without_follow_ups(db, &Refused::default(), found))
}

/// As [`resolve`], with every problem that is found, those that follow from others too.
fn find(db: &ConfigDb, how: &Resolve) -> Result<Resolved, Findings> {
    let mut before = Context::new(db, how);
    let completed = match dynamic::is_on(db) {
        true => Some(dynamic::complete(&mut before)),
        false => traditional::complete(&mut before),
    };
    let mut context = Context::new(completed.as_ref().map_or(db, |(completed, _)| completed), how);
    context.absorb(before);
    selected_asic(&mut context);
    references::check(&mut context);
    let mut buffers = Buffers::resolve(&mut context);
    let mut ports = ports::resolve(&mut context, &mut buffers);
    queues::resolve(&mut context, &mut ports);
    flow_control::resolve(&mut context, &mut ports);
    let watchdog = watchdog::resolve(&mut context, &mut ports);
    let lags = lags::resolve(&mut context, &mut ports);
    let bridging = vlans::resolve(&mut context, &ports, &lags);
    let port_profiles = port_profiles::resolve(&mut context, &buffers);
    let seed = context.number(SWITCH, LOCALHOST, "seed").unwrap_or(how.seed);
    let ground = Ground {
        mac: ports::base_mac(&context),
        ports: &ports,
        lags: &lags,
        bridging: &bridging,
    };
    let balancing = balancing::resolve(&mut context, &lags);
    let routing = routing::resolve(&mut context, &ground, &balancing, seed);
    let trimming = trimming::resolve(&mut context, &ports, &buffers.profiles);
    let frames = context
        .number(SWITCH, LOCALHOST, "frames")
        .unwrap_or_else(|| buffers.egress_cells());
    let config = SwitchConfig {
        name: context.hostname().to_owned(),
        mac: ports::base_mac(&context),
        seed,
        cell_bytes: context
            .number(SWITCH, LOCALHOST, "cell_size")
            .unwrap_or_else(|| chip::cell_bytes(&context)) as u32,
        pipeline_latency: Picos::from_nanos(
            context.number(SWITCH, LOCALHOST, "pipeline_latency").unwrap_or(0),
        ),
        mark_point: match context.text(SWITCH, LOCALHOST, "mark_point") {
            Some("enqueue") => MarkPoint::Enqueue,
            _ => MarkPoint::Dequeue,
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
    };
    chip::note_constants(&mut context);
    advice::advise(&mut context, &config);
    let (warnings, found) = context.finish();
    if !found.is_empty() {
        return Err(found);
    }
    debug_assert_eq!(invariants::broken(&config), None);
    Ok(Resolved {
        config,
        rib: routing.rib,
        static_routes: routing.static_routes,
        generated: completed.map(|(_, added)| added).unwrap_or_default(),
        warnings,
    })
}
/// Whether the selected ASIC is the one that the configuration is for.
fn selected_asic(context: &mut Context<'_>) {
    let Some(asic) = context.how.asic.as_deref().filter(|_| !context.db.is_asic_part) else {
        return;
    };
    match context.text("DEVICE_METADATA", LOCALHOST, "asic_name") {
        Some(own) if own == asic => {}
        Some(own) => {
            let why = format!("the configuration is that of {own}, and {asic} is selected");
            let problem = Problem::at("DEVICE_METADATA", LOCALHOST, "asic_name", why).value(own);
            context.problem(problem.fix(format!("select {own}, or no ASIC")));
        }
        None => context.warn_entry(
            "DEVICE_METADATA",
            LOCALHOST,
            format!("the selection of {asic} has no effect: the configuration is not that of a device with several ASICs"),
        ),
    }
}

pub(super) use advice::bytes_during;
