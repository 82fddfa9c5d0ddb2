//! The built-in load-balancing schemes and their default parameters.
//!
//! The configuration and labs use this table. `docs/load-balancing.md` describes the same schemes for users.

use xoff_dataplane::config::{HashFields, Pick, Rebalance, SchemeConfig, SchemeKind};
use xoff_units::Picos;

/// A load-balancing scheme that needs no entry in the configuration.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Name of the scheme in configurations, lab files and reports.
    pub name: &'static str,
    /// Short description for lists of schemes.
    pub summary: &'static str,
    /// Fields of `XOFF_LB_SCHEME` that this scheme reads.
    pub(crate) fields: &'static [&'static str],
    /// Whether packets of one flow can take different paths without an idle time between them.
    pub sprays: bool,
    /// Whether the scheme uses the load that other switches advertise.
    pub listens: bool,
    /// Creates the configuration with default parameters and an empty name.
    make: fn() -> SchemeConfig,
}

impl BuiltIn {
    /// The scheme with its default parameters.
    pub fn config(&self) -> SchemeConfig {
        SchemeConfig {
            name: self.name.to_owned(),
            ..(self.make)()
        }
    }
}

/// Default idle time of quality-based flowlets. The value exceeds half the round-trip time of a two-tier
/// fabric with short queues. Vendors document values from 16 to 256 us.
const FLOWLET_IDLE: Picos = Picos::from_micros(64);
/// Default idle time of LetFlow and CONGA, as in the simulator of ConWeave.
const PAPERS_IDLE: Picos = Picos::from_micros(100);
/// Default size of the flow table of a group. This is the largest flow table that Juniper documents.
const FLOWSET_ENTRIES: u32 = 4_096;
/// Default idle time after which a group of a cluster scheme may forget a queue pair.
const CLUSTER_IDLE: Picos = Picos::from_millis(100);
/// Default number of queue pairs in a group of a cluster scheme.
const CLUSTER_FLOWS: u32 = 131_072;

const HASHED: &[&str] = &["hash_fields"];
const QUALITY: &[&str] = &["primary_threshold", "alternate_cost"];
const FLOWLETS: &[&str] = &[
    "hash_fields",
    "idle_time",
    "flowset_size",
    "quality_delta",
    "probability",
    "primary_threshold",
    "alternate_cost",
];

/// All built-in schemes, in the order of the documents.
pub const SCHEMES: &[BuiltIn] = &[
    BuiltIn {
        name: "ecmp",
        summary: "hash of the five-tuple",
        fields: HASHED,
        sprays: false,
        listens: false,
        make: || hashing(HashFields::FiveTuple),
    },
    BuiltIn {
        name: "ecmp-qp",
        summary: "hash of the five-tuple and the destination queue pair (E-ECMP)",
        fields: HASHED,
        sprays: false,
        listens: false,
        make: || hashing(HashFields::FiveTupleQp),
    },
    BuiltIn {
        name: "symmetric",
        summary: "hash of the five-tuple that is the same in both directions",
        fields: HASHED,
        sprays: false,
        listens: false,
        make: || hashing(HashFields::Symmetric),
    },
    BuiltIn {
        name: "flowlet",
        summary: "a flow that was silent takes a link of the best quality",
        fields: FLOWLETS,
        sprays: false,
        listens: false,
        make: || flowlet(FLOWLET_IDLE, Pick::Quality),
    },
    BuiltIn {
        name: "letflow",
        summary: "a flow that was silent takes a random link",
        fields: &["hash_fields", "idle_time", "flowset_size"],
        sprays: false,
        listens: false,
        make: || flowlet(PAPERS_IDLE, Pick::Random),
    },
    BuiltIn {
        name: "per-packet",
        summary: "each packet takes a link of the best quality",
        fields: QUALITY,
        sprays: true,
        listens: false,
        make: || scheme(SchemeKind::PerPacket { pick: Pick::Quality }),
    },
    BuiltIn {
        name: "fixed",
        summary: "a new flow takes a link of the best quality and stays there",
        fields: &[
            "hash_fields",
            "flowset_size",
            "primary_threshold",
            "alternate_cost",
        ],
        sprays: false,
        listens: false,
        make: || scheme(SchemeKind::Fixed { pick: Pick::Quality }),
    },
    BuiltIn {
        name: "round-robin",
        summary: "packets take the links in turn, by weight",
        fields: &[],
        sprays: true,
        listens: false,
        make: || scheme(SchemeKind::RoundRobin),
    },
    BuiltIn {
        name: "random",
        summary: "each packet takes a random link, by weight",
        fields: &[],
        sprays: true,
        listens: false,
        make: || scheme(SchemeKind::PerPacket { pick: Pick::Random }),
    },
    BuiltIn {
        name: "drill",
        summary: "each packet takes the emptiest of some random links and some remembered ones",
        fields: &["samples", "memory"],
        sprays: true,
        listens: false,
        make: || {
            scheme(SchemeKind::Drill {
                samples: 2,
                memory: 1,
            })
        },
    },
    BuiltIn {
        name: "conga",
        summary: "a flow that was silent takes the path whose busiest link is the least busy, as leaves and spines tell",
        fields: &["hash_fields", "idle_time", "flowset_size"],
        sprays: false,
        listens: true,
        make: || flowlet(PAPERS_IDLE, Pick::PathLoad),
    },
    BuiltIn {
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
        sprays: false,
        listens: true,
        make: || flowlet(FLOWLET_IDLE, Pick::Global { remote_percent: 50 }),
    },
    BuiltIn {
        name: "cluster",
        summary: "queue pairs are learnt and spread evenly, for each destination leaf",
        fields: &["hash_fields", "idle_time", "flows_max"],
        sprays: false,
        listens: false,
        make: || {
            scheme(SchemeKind::Cluster {
                flows_max: CLUSTER_FLOWS,
                idle: CLUSTER_IDLE,
            })
        },
    },
];

/// Returns the built-in scheme of this name.
pub fn built_in(name: &str) -> Option<&'static BuiltIn> {
    SCHEMES.iter().find(|scheme| scheme.name == name)
}

/// A scheme of this kind with the default size of the flow table.
fn scheme(kind: SchemeKind) -> SchemeConfig {
    SchemeConfig {
        flowset_entries: FLOWSET_ENTRIES,
        ..SchemeConfig::new("", kind)
    }
}

/// A static hash over these fields.
fn hashing(hash: HashFields) -> SchemeConfig {
    SchemeConfig {
        hash,
        ..SchemeConfig::new("", SchemeKind::Hash)
    }
}

/// A flowlet scheme that never moves a busy flow.
fn flowlet(idle: Picos, pick: Pick) -> SchemeConfig {
    scheme(SchemeKind::Flowlet {
        idle,
        pick,
        rebalance: None::<Rebalance>,
    })
}
