//! Load balancing: how groups of next hops and LAGs choose among their members.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::AclTable;
use crate::balance::PathChoice;
use xoff_units::Picos;

/// Load balancing of a switch. The default is static hashing of the five-tuple everywhere, which costs nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BalancingConfig {
    /// What groups can be told to do; elsewhere a scheme is an index here.
    pub schemes: Vec<SchemeConfig>,
    /// Scheme of the groups of next hops and LAGs that neither their route, nor [`BalancingConfig::lags`], nor their members name
    /// one for; `None`: static hashing.
    pub default_scheme: Option<u16>,
    /// Scheme of each LAG ([`crate::config::SwitchConfig::lags`]); missing entries and `None`: that of its members, or the default.
    pub lags: Vec<Option<u16>>,
    /// What ports bring into groups; missing entries are [`PortBalancing::default`].
    pub ports: Vec<PortBalancing>,
    /// What next hops bring into groups (`ARS_NEXTHOPS`); those that are not here are as [`NextHopBalancing`] says for its fields.
    pub next_hops: Vec<NextHopBalancing>,
    /// How the load of ports is measured.
    pub load: LoadConfig,
    /// Packets that are hashed by the five-tuple whatever the scheme of their group: rules with `DISABLE_ARS_FORWARDING`.
    pub exempt: Vec<AclTable>,
    /// What this switch tells others of its links, if it does.
    pub advertise: Option<AdvertiseConfig>,
    /// Queue pairs whose reordering is counted as their packets arrive; 0: none is.
    pub reordering_flows: u32,
    /// Most moves of flows that are kept, with their reasons, for [`crate::Switch::moves`]; 0: they are only counted.
    pub moves_kept: u32,
}

/// Which fields of a packet tell flows apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashFields {
    /// Addresses, protocol, ports of UDP and TCP.
    #[default]
    FiveTuple,
    /// These, and the destination queue pair of RoCEv2 (E-ECMP): many queue pairs between two addresses spread even where
    /// their source ports do not differ.
    FiveTupleQp,
    /// The five-tuple such that both directions of a conversation have the same hash.
    Symmetric,
}

/// What a group does with its packets.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemeConfig {
    /// Name, for reports.
    pub name: String,
    /// Which packets belong together.
    pub hash: HashFields,
    /// How a member is chosen.
    pub kind: SchemeKind,
    /// Entries of a group's flow table, where the scheme has one: a power of two, 256 to 32 768 (Juniper: flowset size). Flows that
    /// share an entry share their path.
    pub flowset_entries: u32,
    /// Schemes that go by quality take alternate members (`NextHopBalancing::alternate`) when the best primary one is too bad: its band,
    /// counted from the best (0) to the worst (7), has reached this, and the best alternate one is better by more than
    /// [`SchemeConfig::alternate_cost`] bands (SAI `ARS_ATTR_PRIMARY_PATH_QUALITY_THRESHOLD`). 16, the default: never, as
    /// long as a primary one lives; 0: whenever it is better. Other schemes take them when no primary one lives.
    pub primary_threshold: u8,
    /// SAI `ARS_ATTR_ALTERNATE_PATH_COST`: bands.
    pub alternate_cost: u8,
}

impl SchemeConfig {
    /// A scheme with the defaults of its other fields: five-tuple, 256 entries, primary members always.
    pub fn new(name: &str, kind: SchemeKind) -> SchemeConfig {
        SchemeConfig {
            name: name.to_owned(),
            hash: HashFields::FiveTuple,
            kind,
            flowset_entries: 256,
            primary_threshold: 16,
            alternate_cost: 0,
        }
    }
}

impl SchemeConfig {
    /// Whether members with less load get more: what is told of a way is then its best member, not the mean.
    pub(crate) fn chooses_by_load(&self) -> bool {
        match &self.kind {
            SchemeKind::Flowlet { pick, .. }
            | SchemeKind::PerPacket { pick }
            | SchemeKind::Fixed { pick } => *pick != Pick::Random,
            SchemeKind::Drill { .. } => true,
            SchemeKind::Hash | SchemeKind::RoundRobin | SchemeKind::Cluster { .. } | SchemeKind::Own(_) => {
                false
            }
        }
    }
}

/// How a group chooses a member.
#[derive(Clone, Debug, PartialEq)]
pub enum SchemeKind {
    /// By the hash alone, weighted, resilient where routing says so.
    Hash,
    /// A flow that has been silent for `idle` chooses anew, others stay (flowlet switching).
    Flowlet {
        /// Inactivity after which packets sent before have arrived whatever path they took; 0: every packet chooses.
        idle: Picos,
        /// By what.
        pick: Pick,
        /// Flows that may move although they were not silent; `None`: none does.
        rebalance: Option<Rebalance>,
    },
    /// Every packet chooses.
    PerPacket {
        /// By what.
        pick: Pick,
    },
    /// A flow chooses once, by quality, and stays until its member dies (Juniper: assigned flow).
    Fixed {
        /// By what.
        pick: Pick,
    },
    /// Packets take the members in turn, in proportion to weights.
    RoundRobin,
    /// Every packet takes the emptiest of some random members and of those that were the emptiest before (DRILL).
    Drill {
        /// Members drawn at random, `d`.
        samples: u8,
        /// Members remembered, `m`.
        memory: u8,
    },
    /// Queue pairs are learnt and spread evenly over the members, per destination site; see `balance/cluster.rs`.
    Cluster {
        /// Most queue pairs learnt; beyond, flows are hashed.
        flows_max: u32,
        /// A queue pair that has been silent for this long gives its place up.
        idle: Picos,
    },
    /// A scheme from outside; see [`crate::balance::PathChoice`].
    Own(OwnScheme),
}

/// By what a member is chosen among those that live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// At random, in proportion to weights.
    Random,
    /// At random among those of the best quality band of their own link.
    Quality,
    /// As [`Pick::Quality`], with the links beyond towards the packet's site weighed in as other switches tell (GLB).
    Global {
        /// Part of the other switches' word, in percent; the rest is the own link's.
        remote_percent: u8,
    },
    /// The least of the greater of own and remote utilisation (CONGA).
    PathLoad,
}

/// When a flow may move in the middle of a flowlet (Juniper: reactive path rebalancing).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebalance {
    /// Least number of quality bands to be gained, 1 to 7.
    pub quality_delta: u8,
    /// Chance that a packet that finds such a gain moves its flow, in units of 2^-32.
    pub probability: u32,
}

/// A port as member of groups (`ARS_INTERFACES`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortBalancing {
    /// Scheme of groups that lead over it, if their route names none.
    pub scheme: Option<u16>,
    /// Load is measured against this speed in Mb/s in place of the port's own; 0: its own.
    pub scale_mbps: u32,
    /// Its LAG uses it when primary members are worse (`ARS_PORTCHANNELS`).
    pub alternate_in_lag: bool,
}

/// A next hop as member of groups (`ARS_NEXTHOPS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHopBalancing {
    /// Its address.
    pub address: IpAddr,
    /// Scheme of its groups, before that of its port.
    pub scheme: Option<u16>,
    /// It is used when primary ones are worse.
    pub alternate: bool,
}

/// How the load of a port is measured (`ARS_PROFILE`, SAI `saiarsprofile.h`). Each measure is placed between its limits (0 to 1 000), the
/// weighted mean of the places is the port's load, and its band is 7 (best) to 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadConfig {
    /// Time between samples.
    pub interval: Picos,
    /// A sample changes the average by 2^-exponent of their difference (EWMA).
    pub exponent: u8,
    /// A sample below the average replaces it (SAI `PORT_LOAD_CURRENT`).
    pub instant_drop: bool,
    /// What was sent during an interval, average, in permille of what the port could have sent.
    pub past: Measure,
    /// What was queued, average, in permille of what the port sends in an interval.
    pub future: Measure,
    /// What is queued now, in the same unit.
    pub current: Measure,
}

/// One of the measures of a port's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Its weight relative to the others; 0: left out. If all are 0, every port is in the best band.
    pub weight: u32,
    /// Up to this it counts as nothing.
    pub min_permille: u32,
    /// From this on it counts in full.
    pub max_permille: u32,
}

impl Default for LoadConfig {
    /// SAI's: samples every 16 us, exponent 2, past and future load with equal weights. Limits as in Juniper's example, 20 and 80 %.
    fn default() -> LoadConfig {
        let measure = |weight| Measure {
            weight,
            min_permille: 200,
            max_permille: 800,
        };
        LoadConfig {
            interval: Picos::from_micros(16),
            exponent: 2,
            instant_drop: false,
            past: measure(16),
            future: measure(16),
            current: measure(0),
        }
    }
}

/// What a switch tells others of its links; see `balance/remote.rs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertiseConfig {
    /// Time between messages while traffic flows.
    pub interval: Picos,
    /// Ports towards other switches.
    pub ports: Vec<u16>,
    /// Loads are measured and told, beside which sites have no way.
    pub loads: bool,
}

/// A scheme from outside. Two are the same if they are clones of one.
#[derive(Clone)]
pub struct OwnScheme(Arc<dyn Fn() -> Box<dyn PathChoice> + Send + Sync>);

impl OwnScheme {
    /// `make` is called once for each group.
    pub fn new(make: impl Fn() -> Box<dyn PathChoice> + Send + Sync + 'static) -> OwnScheme {
        OwnScheme(Arc::new(make))
    }

    pub(crate) fn make(&self) -> Box<dyn PathChoice> {
        (self.0)()
    }
}

impl PartialEq for OwnScheme {
    fn eq(&self, other: &OwnScheme) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for OwnScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnScheme")
    }
}
