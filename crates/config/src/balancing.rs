//! The built-in load-balancing schemes and their default parameters.
//!
//! `docs/load-balancing.md` describes these schemes for users.

use xoff_dataplane::config::{HashFields, MemberSelection, RebalanceRule, SchemeConfig, SchemeKind};
use xoff_units::Picos;

/// A load-balancing scheme that a configuration can use by its name, without an entry in `XOFF_LB_SCHEME`.
#[derive(Clone, Copy, Debug)]
pub struct BuiltInScheme {
    /// Name of the scheme in configurations, lab files and reports.
    pub name: &'static str,
    /// Description in one line, for lists of schemes.
    pub summary: &'static str,
    /// Names of the fields of `XOFF_LB_SCHEME` that this scheme reads.
    pub(crate) fields: &'static [&'static str],
    /// Whether two packets of one flow can take different paths, even if the flow does not pause
    /// between them.
    pub sprays_packets: bool,
    /// Whether the scheme uses the path load that other switches advertise.
    pub uses_remote_load: bool,
    /// Creates the configuration with default parameters and an empty name.
    create: fn() -> SchemeConfig,
}

impl BuiltInScheme {
    /// Returns the configuration of the scheme with default parameters and its own name.
    pub fn default_config(&self) -> SchemeConfig {
        SchemeConfig {
            name: self.name.to_owned(),
            ..(self.create)()
        }
    }
}

/// Default idle time of the flowlet schemes that select members by path quality. If a flow sends nothing for
/// this time, it may change its path. The value is longer than half the round-trip time of a two-tier fabric
/// with short queues. Vendors document values from 16 to 256 us.
const FLOWLET_IDLE_TIME: Picos = Picos::from_micros(64);
/// Default idle time of LetFlow and CONGA, as in the simulator of ConWeave.
const LETFLOW_IDLE_TIME: Picos = Picos::from_micros(100);
/// Default number of entries in the flow table of a group. This is the largest flow table that
/// Juniper documents.
const FLOWSET_ENTRIES: u32 = 4_096;
/// Default idle time after which a cluster scheme may remove a queue pair from its flow table.
const CLUSTER_IDLE_TIME: Picos = Picos::from_millis(100);
/// Default for the largest number of queue pairs in a group with a cluster scheme.
const CLUSTER_FLOWS_MAX: u32 = 131_072;

const HASH_FIELDS: &[&str] = &["hash_fields"];
const QUALITY_FIELDS: &[&str] = &["primary_threshold", "alternate_cost"];
const FLOWLET_FIELDS: &[&str] = &[
    "hash_fields",
    "idle_time",
    "flowset_size",
    "quality_delta",
    "probability",
    "primary_threshold",
    "alternate_cost",
];

/// All built-in schemes, in the order of `docs/load-balancing.md`.
pub const BUILT_IN_SCHEMES: &[BuiltInScheme] = &[
    BuiltInScheme {
        name: "ecmp",
        summary: "hash of the five-tuple",
        fields: HASH_FIELDS,
        sprays_packets: false,
        uses_remote_load: false,
        create: || hash_scheme(HashFields::FiveTuple),
    },
    BuiltInScheme {
        name: "ecmp-qp",
        summary: "hash of the five-tuple and the destination queue pair (E-ECMP)",
        fields: HASH_FIELDS,
        sprays_packets: false,
        uses_remote_load: false,
        create: || hash_scheme(HashFields::FiveTupleQp),
    },
    BuiltInScheme {
        name: "symmetric",
        summary: "hash of the five-tuple that is the same in both directions",
        fields: HASH_FIELDS,
        sprays_packets: false,
        uses_remote_load: false,
        create: || hash_scheme(HashFields::Symmetric),
    },
    BuiltInScheme {
        name: "flowlet",
        summary: "a flow that was silent takes a link of the best quality",
        fields: FLOWLET_FIELDS,
        sprays_packets: false,
        uses_remote_load: false,
        create: || flowlet_scheme(FLOWLET_IDLE_TIME, MemberSelection::Quality),
    },
    BuiltInScheme {
        name: "letflow",
        summary: "a flow that was silent takes a random link",
        fields: &["hash_fields", "idle_time", "flowset_size"],
        sprays_packets: false,
        uses_remote_load: false,
        create: || flowlet_scheme(LETFLOW_IDLE_TIME, MemberSelection::Random),
    },
    BuiltInScheme {
        name: "per-packet",
        summary: "each packet takes a link of the best quality",
        fields: QUALITY_FIELDS,
        sprays_packets: true,
        uses_remote_load: false,
        create: || {
            scheme_of_kind(SchemeKind::PerPacket {
                pick: MemberSelection::Quality,
            })
        },
    },
    BuiltInScheme {
        name: "fixed",
        summary: "a new flow takes a link of the best quality and stays there",
        fields: &[
            "hash_fields",
            "flowset_size",
            "primary_threshold",
            "alternate_cost",
        ],
        sprays_packets: false,
        uses_remote_load: false,
        create: || {
            scheme_of_kind(SchemeKind::Fixed {
                pick: MemberSelection::Quality,
            })
        },
    },
    BuiltInScheme {
        name: "round-robin",
        summary: "packets take the links in turn, by weight",
        fields: &[],
        sprays_packets: true,
        uses_remote_load: false,
        create: || scheme_of_kind(SchemeKind::RoundRobin),
    },
    BuiltInScheme {
        name: "random",
        summary: "each packet takes a random link, by weight",
        fields: &[],
        sprays_packets: true,
        uses_remote_load: false,
        create: || {
            scheme_of_kind(SchemeKind::PerPacket {
                pick: MemberSelection::Random,
            })
        },
    },
    BuiltInScheme {
        name: "drill",
        summary: "each packet takes the emptiest of some random links and some remembered ones",
        fields: &["samples", "memory"],
        sprays_packets: true,
        uses_remote_load: false,
        create: || {
            scheme_of_kind(SchemeKind::Drill {
                samples: 2,
                memory: 1,
            })
        },
    },
    BuiltInScheme {
        name: "conga",
        summary: "a flow that was silent takes the path whose busiest link is the least busy, as leaves and spines tell",
        fields: &["hash_fields", "idle_time", "flowset_size"],
        sprays_packets: false,
        uses_remote_load: true,
        create: || flowlet_scheme(LETFLOW_IDLE_TIME, MemberSelection::PathLoad),
    },
    BuiltInScheme {
        name: "global",
        summary: "as flowlet, by the own link and what the next switch tells of its links",
        fields: &[
            "hash_fields",
            "idle_time",
            "flowset_size",
            "quality_delta",
            "probability",
            "remote_weight",
            "primary_threshold",
            "alternate_cost",
        ],
        sprays_packets: false,
        uses_remote_load: true,
        create: || flowlet_scheme(FLOWLET_IDLE_TIME, MemberSelection::Global { remote_percent: 50 }),
    },
    BuiltInScheme {
        name: "cluster",
        summary: "queue pairs are learnt and spread evenly, for each destination leaf",
        fields: &["hash_fields", "idle_time", "flows_max"],
        sprays_packets: false,
        uses_remote_load: false,
        create: || {
            scheme_of_kind(SchemeKind::Cluster {
                flows_max: CLUSTER_FLOWS_MAX,
                idle: CLUSTER_IDLE_TIME,
            })
        },
    },
];

/// Returns the built-in scheme with this name. Returns `None` if no such scheme exists.
pub fn built_in_scheme(name: &str) -> Option<&'static BuiltInScheme> {
    BUILT_IN_SCHEMES.iter().find(|scheme| scheme.name == name)
}

/// Returns a scheme of this kind with the default size of the flow table.
fn scheme_of_kind(kind: SchemeKind) -> SchemeConfig {
    SchemeConfig {
        flowset_entries: FLOWSET_ENTRIES,
        ..SchemeConfig::new("", kind)
    }
}

/// Returns a static hash over these fields.
fn hash_scheme(hash: HashFields) -> SchemeConfig {
    SchemeConfig {
        hash,
        ..SchemeConfig::new("", SchemeKind::Hash)
    }
}

/// Returns a flowlet scheme that moves a flow only after the idle time.
fn flowlet_scheme(idle: Picos, pick: MemberSelection) -> SchemeConfig {
    scheme_of_kind(SchemeKind::Flowlet {
        idle,
        pick,
        rebalance: None::<RebalanceRule>,
    })
}
