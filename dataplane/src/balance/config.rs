//! Configuration of load balancing among next hops and LAG members.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::PathChoice;
use crate::acl_table::AclTable;
use xoff_units::{LinkTiming, Picos};

/// Load balancing of a switch. Default: static hashing of the five-tuple everywhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BalancingConfig {
    /// The configured load balancing schemes. Other fields refer to a scheme by its index in this list.
    pub schemes: Vec<SchemeConfig>,
    /// Default scheme of load balancing groups. The default applies if the route, the entry in
    /// [`BalancingConfig::lags`] and the members all name no scheme. `None` means static hashing.
    pub default_scheme: Option<u16>,
    /// Scheme of each LAG of [`crate::config::SwitchConfig::lags`]. A LAG without an entry uses the scheme of
    /// its members, or the default scheme.
    pub lags: Vec<Option<u16>>,
    /// Settings of ports as group members. A port without an entry uses [`PortBalancing::default`].
    pub ports: Vec<PortBalancing>,
    /// Settings of next hops as group members (`ARS_NEXTHOPS`). A next hop without an entry has no scheme and
    /// is a primary member.
    pub next_hops: Vec<NextHopBalancing>,
    /// How the load of ports is measured.
    pub load: LoadConfig,
    /// Packets that are hashed by the five-tuple under every scheme: ACL rules with `DISABLE_ARS_FORWARDING`.
    pub exempt: Vec<AclTable>,
    /// Link quality messages to neighbouring switches. `None`: the switch sends none.
    pub advertise: Option<AdvertiseConfig>,
    /// Largest number of queue pairs for which the switch counts packets that arrive out of order. 0 disables
    /// the counters.
    pub reordering_flows: u32,
    /// Largest number of flow moves that are stored with their reasons. With 0, the switch counts flow moves
    /// but stores none. See [`crate::Switch::flow_moves`].
    pub moves_kept: u32,
}

/// The packet fields that identify a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashFields {
    /// Addresses, protocol, and the ports of UDP and TCP.
    #[default]
    FiveTuple,
    /// The five-tuple and the destination queue pair of RoCEv2 (E-ECMP). Queue pairs between two addresses
    /// therefore use different members even if their UDP source ports are equal.
    FiveTupleQp,
    /// The five-tuple, with the same hash for both directions of a flow.
    Symmetric,
}

/// How a load balancing group distributes its packets.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemeConfig {
    /// Name, used in reports.
    pub name: String,
    /// The packet fields that identify a flow.
    pub hash: HashFields,
    /// How the scheme selects a member.
    pub kind: SchemeKind,
    /// Number of entries in the flow table of a group, for schemes with a flow table. The number is a power
    /// of two from 256 to 32 768 (Juniper: flowset size). Flows that share an entry use the same path.
    pub flowset_entries: u32,
    /// Quality band from which a scheme may select alternate members ([`NextHopBalancing::alternate`]). Bands
    /// are numbered from 0 (best) to 7 (worst). A scheme uses alternate members under two conditions: all
    /// primary members are in this band or a worse one, and the best alternate member is better by more than
    /// [`SchemeConfig::alternate_cost`] bands (SAI `ARS_ATTR_PRIMARY_PATH_QUALITY_THRESHOLD`).
    ///
    /// With the default 16, alternate members are used only if no primary member is up. With 0, alternate
    /// members are used whenever they are better. Schemes that do not compare qualities ignore this value and
    /// use alternate members only if no primary member is up.
    pub primary_threshold: u8,
    /// Number of bands by which an alternate member must be better (SAI `ARS_ATTR_ALTERNATE_PATH_COST`).
    pub alternate_cost: u8,
}

impl SchemeConfig {
    /// Creates a scheme with five-tuple hashing and 256 flow table entries. Alternate members are used only
    /// if no primary member is up.
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
    /// Returns true if members with less load get more traffic. The switch then advertises the quality of its
    /// best member instead of the mean.
    pub(crate) fn chooses_by_load(&self) -> bool {
        match &self.kind {
            SchemeKind::Flowlet { pick, .. }
            | SchemeKind::PerPacket { pick }
            | SchemeKind::Fixed { pick } => *pick != MemberSelection::Random,
            SchemeKind::Drill { .. } => true,
            SchemeKind::Hash
            | SchemeKind::RoundRobin
            | SchemeKind::Cluster { .. }
            | SchemeKind::Custom(_) => false,
        }
    }
}

/// How a load balancing group selects a member.
#[derive(Clone, Debug, PartialEq)]
pub enum SchemeKind {
    /// The flow hash selects the member, in proportion to the weights. Hashing is resilient if the routing
    /// configuration enables it.
    Hash,
    /// Flowlet switching: a flow selects a new member when it sends again after an idle time of at least
    /// `idle`. All other flows keep their members.
    Flowlet {
        /// Idle time after which all earlier packets of a flow have arrived, on any path. With 0, every
        /// packet selects a new member.
        idle: Picos,
        /// How a flowlet selects its member.
        pick: MemberSelection,
        /// When an active flow may move. `None`: active flows stay.
        rebalance: Option<RebalanceRule>,
    },
    /// Every packet selects a member.
    PerPacket {
        /// How a packet selects its member.
        pick: MemberSelection,
    },
    /// A flow selects a member once and stays until the member fails (Juniper: assigned flow).
    Fixed {
        /// How a flow selects its member.
        pick: MemberSelection,
    },
    /// Packets use the members in turn, in proportion to the weights.
    RoundRobin,
    /// DRILL: the switch compares the queues of a few random members and of the best members of earlier
    /// packets. Each packet uses the member with the shortest queue.
    Drill {
        /// Number of random members, `d`.
        samples: u8,
        /// Number of remembered members, `m`.
        memory: u8,
    },
    /// The switch learns queue pairs. For each destination site, it distributes the queue pairs evenly over
    /// the members. See `balance/cluster.rs`.
    Cluster {
        /// Largest number of learnt queue pairs. Further flows are hashed.
        flows_max: u32,
        /// Idle time after which a queue pair is forgotten.
        idle: Picos,
    },
    /// A scheme that the caller implements. See [`crate::balance::PathChoice`].
    Custom(CustomScheme),
}

/// How a scheme selects among the members that are up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberSelection {
    /// At random, in proportion to the weights.
    Random,
    /// At random among the members whose own link has the best quality band.
    Quality,
    /// Like [`MemberSelection::Quality`], but also uses the path quality that other switches advertise for
    /// the packet's site (GLB).
    Global {
        /// Weight of the advertised quality in percent. The quality of the local link has
        /// the remaining weight.
        remote_percent: u8,
    },
    /// Selects the member with the lowest path utilisation (CONGA). The path utilisation is the larger of the
    /// local and the advertised utilisation.
    PathLoad,
}

/// When an active flow may move to another member (Juniper: reactive path rebalancing).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebalanceRule {
    /// Smallest improvement in quality bands, 1 to 7.
    pub quality_delta: u8,
    /// Probability that a packet moves its flow to the better member, in units of 2^-32.
    pub probability: u32,
}

/// A port as a member of load balancing groups (`ARS_INTERFACES`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortBalancing {
    /// Scheme of the groups that use this port, if their route names none.
    pub scheme: Option<u16>,
    /// Link speed in Mb/s to which the load refers. 0 means the speed of the port.
    pub scale_mbps: u32,
    /// True if the port is an alternate member of its LAG (`ARS_PORTCHANNELS`).
    pub alternate_in_lag: bool,
}

/// A next hop as a member of load balancing groups (`ARS_NEXTHOPS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHopBalancing {
    /// IP address of the next hop.
    pub address: IpAddr,
    /// Scheme of its groups. It takes precedence over the scheme of the port.
    pub scheme: Option<u16>,
    /// True if the next hop is an alternate member.
    pub alternate: bool,
}

/// How the load of a port is measured (`ARS_PROFILE`, SAI `saiarsprofile.h`). Each measure is mapped to a
/// value from 0 (lower limit) to 1 000 (upper limit). The weighted mean of these values is the load of the
/// port. The load determines the quality band, from 7 (best) to 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadConfig {
    /// Time between samples.
    pub interval: Picos,
    /// Exponent of the moving average: a sample changes the average by 2^-exponent of the difference.
    pub exponent: u8,
    /// True if a sample below the average replaces the average (SAI `PORT_LOAD_CURRENT`).
    pub instant_drop: bool,
    /// Average of the bytes sent in an interval, in permille of the bytes that the port can send
    /// in this time.
    pub past: LoadMeasure,
    /// Average of the queued bytes, in permille of the bytes that the port can send in an interval.
    pub future: LoadMeasure,
    /// Bytes queued now, in permille of what the port can send in an interval.
    pub current: LoadMeasure,
}

/// Weight and limits of one measure of a port's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadMeasure {
    /// Weight of this measure relative to the other measures. With weight 0, the measure is ignored. If all
    /// weights are 0, every port is in the best band.
    pub weight: u32,
    /// Values up to this limit count as 0.
    pub min_permille: u32,
    /// Values from this limit on count as 1 000.
    pub max_permille: u32,
}

impl Default for LoadConfig {
    /// Returns SAI's defaults: samples every 16 us, exponent 2, equal weights of past and future load. The
    /// limits are 20 % and 80 % as in Juniper's example.
    fn default() -> LoadConfig {
        let measure = |weight| LoadMeasure {
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

/// Link quality messages that a switch sends to its neighbours. See `balance/remote.rs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertiseConfig {
    /// Time between messages while traffic flows.
    pub interval: Picos,
    /// Ports that lead to other switches.
    pub ports: Vec<u16>,
    /// True if loads are measured and advertised. Sites without a path are always advertised.
    pub loads: bool,
}

/// A scheme that the caller implements. Two values of this type are equal if one is a clone of the other.
#[derive(Clone)]
pub struct CustomScheme(Arc<dyn Fn() -> Box<dyn PathChoice> + Send + Sync>);

impl CustomScheme {
    /// Creates a scheme. `make` is called once for each load balancing group.
    pub fn new(make: impl Fn() -> Box<dyn PathChoice> + Send + Sync + 'static) -> CustomScheme {
        CustomScheme(Arc::new(make))
    }

    pub(crate) fn create(&self) -> Box<dyn PathChoice> {
        (self.0)()
    }
}

impl PartialEq for CustomScheme {
    fn eq(&self, other: &CustomScheme) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for CustomScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomScheme")
    }
}

/// The settings of a switch that its load balancer needs.
#[derive(Debug)]
pub(crate) struct BalancerSetup<'a> {
    pub(crate) balancing: &'a BalancingConfig,
    /// Seed of the random numbers of schemes.
    pub(crate) seed: u64,
    /// Seed of the hash that selects members.
    pub(crate) hash_seed: u64,
    /// Link of each port.
    pub(crate) links: Vec<LinkTiming>,
}
