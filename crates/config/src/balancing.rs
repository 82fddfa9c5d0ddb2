//! Load-balancing schemes that there are without being configured, and their figures: one table for the configuration, labs and
//! documents (`docs/load-balancing.md` repeats it for readers).

use xoff_dataplane::config::{HashFields, Pick, Rebalance, SchemeConfig, SchemeKind};
use xoff_units::Picos;

/// A scheme by its name.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// The name in configurations, lab files and reports.
    pub name: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// The fields of `XOFF_LB_SCHEME` that it has.
    pub(crate) fields: &'static [&'static str],
    /// Packets of one flow may overtake each other whatever its pauses are.
    pub sprays: bool,
    /// It weighs what other switches tell of their links.
    pub listens: bool,
    make: fn() -> SchemeConfig,
}

impl BuiltIn {
    /// With the figures that it has where nothing is configured.
    pub fn config(&self) -> SchemeConfig {
        SchemeConfig {
            name: self.name.to_owned(),
            ..(self.make)()
        }
    }
}

/// Idle time of flowlets by quality: above half the round trip of a fabric of two tiers with full queues' worth of a few frames, and
/// within the 16 to 256 us that vendors document.
const FLOWLET_IDLE: Picos = Picos::from_micros(64);
/// Idle time of LetFlow and CONGA, as in ConWeave's simulator.
const PAPERS_IDLE: Picos = Picos::from_micros(100);
/// Entries of a group's flow table: Juniper's largest, shared by one group instead of 128.
const FLOWSET_ENTRIES: u32 = 4_096;
/// A queue pair that has been silent for this long may be forgotten.
const CLUSTER_IDLE: Picos = Picos::from_millis(100);
/// Queue pairs that a group of a cluster scheme knows.
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

/// Every built-in scheme, in the order in which documents list them.
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

/// The built-in scheme of this name.
pub fn built_in(name: &str) -> Option<&'static BuiltIn> {
    SCHEMES.iter().find(|scheme| scheme.name == name)
}

fn scheme(kind: SchemeKind) -> SchemeConfig {
    SchemeConfig {
        flowset_entries: FLOWSET_ENTRIES,
        ..SchemeConfig::new("", kind)
    }
}

fn hashing(hash: HashFields) -> SchemeConfig {
    SchemeConfig {
        hash,
        ..SchemeConfig::new("", SchemeKind::Hash)
    }
}

fn flowlet(idle: Picos, pick: Pick) -> SchemeConfig {
    scheme(SchemeKind::Flowlet {
        idle,
        pick,
        rebalance: None::<Rebalance>,
    })
}
