//! Configuration of load balancing among next hops and LAG members.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::PathChoice;
use crate::acl_table::AclTable;
use xoff_units::{LinkTiming, Picos};

/// Load balancing of a switch. The default is static hashing of the five-tuple for all groups.
#[derive(Clone, Debug, Default, PartialEq)]
#[repr(C)] // the field that each frame uses comes first
pub struct BalancingConfig {
    /// ACL tables with exempt packets (rules with `DISABLE_ARS_FORWARDING`). For these packets, a static hash
    /// of the five-tuple selects the member, under every scheme.
    pub exempt: Vec<AclTable>,
    /// The configured load balancing schemes. Other fields refer to a scheme by its index in this list.
    pub schemes: Vec<SchemeConfig>,
    /// Default scheme of load balancing groups, as an index in `schemes`. The default applies if neither
    /// the route, nor the entry in [`BalancingConfig::lags`], nor a member names a scheme. `None` means
    /// static hashing.
    pub default_scheme: Option<u16>,
    /// Scheme of each LAG, as an index in `schemes`, in the order of [`crate::config::SwitchConfig::lags`]. A
    /// LAG without an entry, or with `None`, uses the scheme of its members, or the default scheme.
    pub lags: Vec<Option<u16>>,
    /// Settings of ports as group members, in the order of [`crate::config::SwitchConfig::ports`]. A port
    /// without an entry uses [`PortBalancing::default`].
    pub ports: Vec<PortBalancing>,
    /// Settings of next hops as group members (`ARS_NEXTHOPS`), in any order. A next hop without an entry has
    /// no scheme of its own and is a primary member.
    pub next_hops: Vec<NextHopBalancing>,
    /// Measurement of the load of ports.
    pub load: LoadConfig,
    /// Link quality messages to neighbouring switches. `None`: the switch neither sends nor accepts them.
    pub advertise: Option<AdvertiseConfig>,
    /// Largest number of queue pairs for which the switch counts packets that arrive out of order
    /// ([`crate::Switch::reordering`]). 0 disables the counters.
    pub reordering_flows: u32,
    /// Largest number of placements and moves of flows that are stored with their reasons
    /// ([`crate::Switch::flow_moves`]). With 0, they are counted but not stored.
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

/// The name, the flow hash and the rule with which a load balancing group distributes its packets.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemeConfig {
    /// Name of the scheme, for reports.
    pub name: String,
    /// The packet fields that identify a flow.
    pub hash: HashFields,
    /// The rule that selects a member.
    pub kind: SchemeKind,
    /// Number of entries in the flow table of a group, for schemes with a flow table. The number is a power
    /// of two from 256 to 32 768 (Juniper: flowset size). Flows that share an entry use the same path.
    pub flowset_entries: u32,
    /// Quality band from which a scheme may select alternate members ([`NextHopBalancing::alternate`]). In
    /// this field, bands are numbered from 0 (best) to 7 (worst). An alternate member is used under two
    /// conditions (SAI `ARS_ATTR_PRIMARY_PATH_QUALITY_THRESHOLD`):
    /// - All primary members are in this band or in a worse one.
    /// - The best alternate member is better by more than [`SchemeConfig::alternate_cost`] bands.
    ///
    /// With the default 16, alternate members are used only if each primary member is down or paused by its
    /// peer. With 0, alternate members are used whenever they are better. Schemes that do not compare
    /// qualities ignore this value and use alternate members only if no primary member is up.
    pub primary_threshold: u8,
    /// Number of quality bands (classes of path quality) by which an alternate member must be better than the
    /// best primary member (SAI `ARS_ATTR_ALTERNATE_PATH_COST`). The default is 0.
    pub alternate_cost: u8,
}

impl SchemeConfig {
    /// Creates a scheme with five-tuple hashing, 256 entries in flow tables, and a `primary_threshold` of 16.
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
    /// Returns true if the scheme gives members with less load more traffic. The switch then advertises the
    /// quality of its best member instead of the mean.
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

/// The rule with which a load balancing group selects a member.
#[derive(Clone, Debug, PartialEq)]
pub enum SchemeKind {
    /// The flow hash selects the member, in proportion to the weights. Hashing is resilient if
    /// [`RoutingConfig::resilient_buckets`](crate::config::RoutingConfig::resilient_buckets) is set.
    Hash,
    /// Flowlet switching: a flow selects a new member when it sends again after an idle time of at least
    /// `idle`. The packets between two such gaps are a flowlet and use the same member.
    Flowlet {
        /// Idle time between two flowlets. The time must be long enough for all earlier packets of the flow
        /// to arrive, on any path. With 0, every packet selects a new member.
        idle: Picos,
        /// Rule with which a flowlet selects its member.
        pick: MemberSelection,
        /// Rule with which a flow may move without an idle time. `None`: active flows stay.
        rebalance: Option<RebalanceRule>,
    },
    /// Every packet selects a member.
    PerPacket {
        /// Rule with which a packet selects its member.
        pick: MemberSelection,
    },
    /// A flow selects a member once and stays until the member fails (Juniper: assigned flow).
    Fixed {
        /// Rule with which a flow selects its member.
        pick: MemberSelection,
    },
    /// Packets use the members in turn, in proportion to the weights.
    RoundRobin,
    /// DRILL: for each packet, the switch compares the queues of a few random members and of a few remembered
    /// members, which were best for earlier packets. The packet uses the member with the shortest queue.
    Drill {
        /// Number of random members for each packet (`d` in DRILL), 1 to 32.
        samples: u8,
        /// Number of remembered members (`m` in DRILL), 0 to 32.
        memory: u8,
    },
    /// The switch learns RDMA queue pairs. For each destination site, it distributes the queue pairs evenly
    /// over the members. The file `balance/cluster.rs` describes the rules.
    Cluster {
        /// Largest number of learnt queue pairs. A hash selects the member of further queue pairs.
        flows_max: u32,
        /// Idle time after which a queue pair is forgotten.
        idle: Picos,
    },
    /// A scheme from outside xoff, which implements [`crate::balance::PathChoice`].
    Custom(CustomScheme),
}

/// The rule that selects one of the usable members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberSelection {
    /// At random, in proportion to the weights.
    Random,
    /// At random among the members whose own link has the best quality band.
    Quality,
    /// Like [`MemberSelection::Quality`], but the path quality that other switches advertise for the packet's
    /// site is also taken into account (global load balancing, GLB).
    Global {
        /// Weight of the advertised quality in percent, 0 to 100. The quality of the local link has the
        /// remaining weight.
        remote_percent: u8,
    },
    /// The member with the lowest path utilisation (CONGA). The path utilisation is the larger of the local
    /// and the advertised utilisation.
    PathLoad,
}

/// Conditions under which an active flow moves to another member (Juniper: reactive path rebalancing).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebalanceRule {
    /// Smallest improvement for which a flow moves, in quality bands, 1 to 7.
    pub quality_delta: u8,
    /// Probability that a packet moves its flow to the better member, in units of 2^-32. `u32::MAX` means
    /// about 100 %.
    pub probability: u32,
}

/// Settings of a port as a member of load balancing groups (`ARS_INTERFACES`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortBalancing {
    /// Scheme of the groups that use this port, as an index in [`BalancingConfig::schemes`]. The scheme of a
    /// route or LAG takes precedence. `None`: the port names no scheme.
    pub scheme: Option<u16>,
    /// Link speed in Mb/s that corresponds to a load of 100 %. 0 means the speed of the port.
    pub scale_mbps: u32,
    /// True if the port is an alternate member of its LAG (`ARS_PORTCHANNELS`).
    pub alternate_in_lag: bool,
}

/// Settings of a next hop as a member of load balancing groups (`ARS_NEXTHOPS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHopBalancing {
    /// IP address of the next hop.
    pub address: IpAddr,
    /// Scheme of the groups with this next hop, as an index in [`BalancingConfig::schemes`]. This scheme
    /// takes precedence over the scheme of the port. `None`: the scheme of the port applies.
    pub scheme: Option<u16>,
    /// True if the next hop is an alternate member, which schemes use only under the conditions
    /// of [`SchemeConfig::primary_threshold`].
    pub alternate: bool,
}

/// Measurement of the load of a port (`ARS_PROFILE`, SAI `saiarsprofile.h`). Each of three measures is mapped
/// to a value from 0 (at its lower limit) to 1000 (at its upper limit). The weighted mean of these values is
/// the load of the port. The load determines the quality band, from 7 (best) to 0 (worst).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadConfig {
    /// Time between samples. Values below 1 ns mean 1 ns.
    pub interval: Picos,
    /// Exponent of the moving average: a sample changes the average by 2^-exponent of the difference. Values
    /// above 15 mean 15.
    pub exponent: u8,
    /// True if a sample below the average replaces the average at once (SAI `PORT_LOAD_CURRENT`).
    pub instant_drop: bool,
    /// Measure 1: average of the bytes sent in an interval, in permille of the bytes that the port can send
    /// in this time.
    pub past: LoadMeasure,
    /// Measure 2: average of the queued bytes, in permille of the bytes that the port can send in
    /// an interval.
    pub future: LoadMeasure,
    /// Measure 3: bytes queued now, in permille of the bytes that the port can send in an interval.
    pub current: LoadMeasure,
}

/// Weight and limits of one measure of the load of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadMeasure {
    /// Weight of this measure relative to the two remaining measures. With weight 0, the measure is ignored.
    /// If all weights are 0, every port is in the best band.
    pub weight: u32,
    /// Lower limit in permille. Values up to this limit are mapped to 0.
    pub min_permille: u32,
    /// Upper limit in permille. Values from this limit on are mapped to 1000.
    pub max_permille: u32,
}

impl Default for LoadConfig {
    /// Returns the defaults of SAI: samples every 16 us, exponent 2, equal weights of past and future load.
    /// The limits are 20 % and 80 %, as in an example of Juniper.
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

/// Link quality messages that a switch sends to its neighbours. The file `balance/remote.rs` describes
/// these messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertiseConfig {
    /// Shortest time between two messages with loads, while traffic flows.
    pub interval: Picos,
    /// Indices of the ports that lead to other switches, in [`crate::config::SwitchConfig::ports`].
    pub ports: Vec<u16>,
    /// True if loads are measured and advertised. Even if false, the switch advertises when it loses all
    /// paths to a site (a destination leaf).
    pub loads: bool,
}

/// A scheme that is not part of xoff. Two values of this type are equal if they are clones of the same value.
#[derive(Clone)]
pub struct CustomScheme(Arc<dyn Fn() -> Box<dyn PathChoice> + Send + Sync>);

impl CustomScheme {
    /// Creates a scheme. `make` is called once for each load balancing group, to create the scheme object of
    /// the group.
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

/// The parts of a switch configuration that the load balancer needs.
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
