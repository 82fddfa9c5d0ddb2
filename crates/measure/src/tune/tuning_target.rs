//! The target of the tuning: a switch, one of its lossless classes, and the buffer profile of this class.

use serde_json::{Map, Value, json};
use xoff_dataplane::config::{
    BridgingConfig, BufferProfile, BufferThreshold, PoolConfig, PortConfig, RoutingConfig, SwitchConfig,
    TrustMode,
};
use xoff_dataplane::{LinkTiming, Picos};

use super::super::probe::reachable_classes;
use xoff_telemetry::failure::Failure;

/// A switch with a lossless traffic class. The search tunes the buffer profile of this class.
#[derive(Clone, Debug)]
pub struct TuningTarget {
    /// Configuration of the switch. Its ports form one bridge and its PFC watchdog is off, so that only the
    /// buffers cause drops.
    pub config: SwitchConfig,
    /// Ports with the same profile and speed as the first lossless port, as indices in
    /// [`SwitchConfig::ports`]. There are at least two.
    pub ports: Vec<usize>,
    /// Traffic class of the frames, 0 to 7.
    pub class: u8,
    /// DSCP (or 802.1p priority, if `tagged` is true) that selects the class.
    pub code: u8,
    /// DSCP (or 802.1p priority) of a second class, whose priority group differs from `pg`. If no such class
    /// exists, the value is equal to the field `code`.
    pub other_code: u8,
    /// True if frames carry their class in an 802.1Q tag.
    pub tagged: bool,
    /// Priority group of the class, 0 to 7.
    pub pg: u8,
    /// Priority of the PFC frames that pause the class, 0 to 7.
    pub priority: u8,
    /// Index of the class's buffer profile in [`SwitchConfig::profiles`].
    pub profile: usize,
    /// Index of the profile's pool in [`SwitchConfig::pools`].
    pub pool: usize,
    /// Number of priority groups that use the profile, over all ports of the switch.
    pub groups: u64,
}

/// The values of a lossless buffer profile that a search changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferCandidate {
    /// Headroom (`xoff`) in cells, at least 1.
    pub headroom: u32,
    /// Reserved space in cells: `size`, or the part of `size` that is not headroom.
    pub reserved: u32,
    /// Limit of the shared use (`dynamic_th` or `static_th`).
    pub threshold: BufferThreshold,
    /// The value of `xon_offset`, in bytes.
    pub xon_offset_bytes: u64,
}

impl TuningTarget {
    /// Selects the traffic class `class` of a switch, or its first lossless class if `class` is `None`.
    ///
    /// # Errors
    /// No port has a lossless class (or the given class as a lossless class), or only one port has the
    /// profile and the speed of this class.
    pub fn new(config: &SwitchConfig, class: Option<u8>) -> Result<TuningTarget, Failure> {
        let found = (0..config.ports.len()).find_map(|port| find_lossless_class(config, port, class));
        let Some(first) = found else {
            return Err(Failure::configuration(match class {
                Some(class) => format!("traffic class {class} is lossless on no port"),
                None => "no port has a lossless class".to_owned(),
            })
            .because("a lossless class needs a priority in pfc_enable, its priority group, and a buffer profile with xoff")
            .fix("check PORT_QOS_MAP pfc_enable, TC_TO_PRIORITY_GROUP_MAP and BUFFER_PG"));
        };
        let speed = config.ports[first.port].link.speed_mbps;
        let alike = |port: &usize| {
            config.ports[*port].link.speed_mbps == speed
                && find_lossless_class(config, *port, Some(first.class)).is_some_and(|of| {
                    (of.profile, of.pg, of.priority) == (first.profile, first.pg, first.priority)
                })
        };
        let ports: Vec<usize> = (0..config.ports.len()).filter(alike).collect();
        if ports.len() < 2 {
            let port = &config.ports[first.port].name;
            return Err(
                Failure::configuration(format!("only {port} has its lossless profile and speed"))
                    .fix("a pattern needs at least two such ports"),
            );
        }
        let users = |port: &PortConfig| {
            port.pgs
                .iter()
                .filter(|pg| usize::from(**pg) == first.profile)
                .count()
        };
        let port = &config.ports[first.port];
        let elsewhere = reachable_classes(port)
            .into_iter()
            .find(|(class, _)| port.classify.tc_to_pg[usize::from(*class)] != first.pg);
        Ok(TuningTarget {
            ports,
            class: first.class,
            code: first.code,
            other_code: elsewhere.map_or(first.code, |(_, code)| code),
            tagged: port.classify.trust == TrustMode::Pcp,
            pg: first.pg,
            priority: first.priority,
            profile: first.profile,
            pool: usize::from(config.profiles[first.profile].pool),
            groups: config.ports.iter().map(users).sum::<usize>() as u64,
            config: without_forwarding_functions(config),
        })
    }

    /// Returns the values of the configured profile. Sizes are rounded down to cells.
    pub fn configured_candidate(&self) -> BufferCandidate {
        let profile = self.profile();
        let reserved = match self.size_contains_headroom() {
            true => profile.size_bytes - profile.xoff_bytes,
            false => profile.size_bytes,
        };
        BufferCandidate {
            headroom: self.bytes_to_cells(profile.xoff_bytes),
            reserved: self.bytes_to_cells(reserved),
            threshold: profile.threshold,
            xon_offset_bytes: profile.xon_offset_bytes,
        }
    }

    /// Returns the configured buffer profile of the class.
    pub fn profile(&self) -> &BufferProfile {
        &self.config.profiles[self.profile]
    }

    /// Returns the timing of the link at the first of [`TuningTarget::ports`]. All these ports have the
    /// same speed.
    pub fn link_timing(&self) -> LinkTiming {
        self.config.ports[self.ports[0]].link
    }

    /// Returns the length of the longest frame of the ports in bytes: the sum of MTU, Ethernet header
    /// and FCS.
    pub fn frame_bytes_max(&self) -> u32 {
        self.config.ports[self.ports[0]].mtu + 18
    }

    /// Converts bytes to whole cells.
    fn bytes_to_cells(&self, bytes: u64) -> u32 {
        u32::try_from(bytes / u64::from(self.config.cell_bytes)).unwrap_or(u32::MAX)
    }

    /// Returns whether the `size` of the profile contains its headroom.
    fn size_contains_headroom(&self) -> bool {
        let profile = self.profile();
        self.pool().xoff_bytes == 0 && profile.size_bytes >= profile.xoff_bytes
    }

    fn pool(&self) -> &PoolConfig {
        &self.config.pools[self.pool]
    }

    /// Returns the profile of a candidate.
    fn profile_of(&self, candidate: &BufferCandidate) -> BufferProfile {
        let cell = u64::from(self.config.cell_bytes);
        let (headroom, reserved) = (
            u64::from(candidate.headroom) * cell,
            u64::from(candidate.reserved) * cell,
        );
        BufferProfile {
            xoff_bytes: headroom,
            size_bytes: if self.size_contains_headroom() {
                reserved + headroom
            } else {
                reserved
            },
            threshold: candidate.threshold,
            xon_offset_bytes: candidate.xon_offset_bytes,
            ..self.profile().clone()
        }
    }

    /// Returns the sum of the headroom of all priority groups of the pool, in bytes.
    fn total_headroom_bytes(&self, candidate: &BufferCandidate) -> u64 {
        let profiles = self.config.ports.iter().flat_map(|port| port.pgs);
        profiles
            .filter_map(|index| Some((usize::from(index), self.config.profiles.get(usize::from(index))?)))
            .filter(|(_, profile)| usize::from(profile.pool) == self.pool)
            .map(|(index, profile)| match index == self.profile {
                true => u64::from(candidate.headroom) * u64::from(self.config.cell_bytes),
                false => profile.xoff_bytes,
            })
            .sum()
    }

    /// Returns the size of the shared headroom pool for a candidate in bytes, or 0 without such a pool. The
    /// pool is reduced by the same factor as the sum of the headroom of all priority groups.
    fn headroom_pool_bytes(&self, candidate: &BufferCandidate) -> u64 {
        let (pool, before) = (
            self.pool().xoff_bytes,
            self.total_headroom_bytes(&self.configured_candidate()),
        );
        if pool == 0 {
            return 0;
        }
        let sum = self.total_headroom_bytes(candidate);
        if pool >= before {
            return sum;
        }
        let shared = (u128::from(sum) * u128::from(pool)).div_ceil(u128::from(before.max(1)));
        (shared as u64).max(u64::from(candidate.headroom) * u64::from(self.config.cell_bytes))
    }

    /// Returns the configuration of the switch with the values of a candidate. The shared pool is reduced by
    /// `others_cells` cells. These cells stand for the use of the pool by ports outside the test.
    pub fn config_with(&self, candidate: &BufferCandidate, others_cells: u32) -> SwitchConfig {
        let mut config = self.config.clone();
        config.profiles[self.profile] = self.profile_of(candidate);
        let pool = &mut config.pools[self.pool];
        pool.xoff_bytes = self.headroom_pool_bytes(candidate);
        let others = u64::from(others_cells) * u64::from(config.cell_bytes);
        pool.size_bytes = pool.size_bytes.saturating_sub(others);
        config
    }

    /// Returns the buffer memory that a candidate occupies.
    pub fn memory_of(&self, candidate: &BufferCandidate) -> BufferMemory {
        let cell = u64::from(self.config.cell_bytes);
        let headroom = match self.headroom_pool_bytes(candidate) {
            0 => self.total_headroom_bytes(candidate),
            pool => pool,
        };
        BufferMemory {
            group: u64::from(candidate.headroom) * cell,
            headroom,
            total: headroom + u64::from(candidate.reserved) * cell * self.groups + self.pool().size_bytes,
        }
    }

    /// Returns the tables `BUFFER_POOL` and `BUFFER_PROFILE` of config_db.json with the values of a
    /// candidate. The tables are a layer over the configuration.
    pub fn config_layer(&self, candidate: &BufferCandidate) -> Value {
        let (profile, pool) = (self.profile_of(candidate), self.pool());
        let text = |bytes: u64| Value::String(bytes.to_string());
        let mut fields = Map::new();
        fields.insert("pool".to_owned(), json!(pool.name));
        fields.insert("size".to_owned(), text(profile.size_bytes));
        fields.insert("xoff".to_owned(), text(profile.xoff_bytes));
        let mode = match profile.threshold {
            BufferThreshold::Dynamic(n) => {
                fields.insert("dynamic_th".to_owned(), json!(n.to_string()));
                "dynamic"
            }
            BufferThreshold::Static(bytes) => {
                fields.insert("static_th".to_owned(), text(bytes));
                "static"
            }
            // A configuration file cannot contain this rule.
            BufferThreshold::Hpcc { .. } => "dynamic",
        };
        for (name, bytes) in [
            ("xon", profile.xon_bytes),
            ("xon_offset", profile.xon_offset_bytes),
        ] {
            if bytes > 0 {
                fields.insert(name.to_owned(), text(bytes));
            }
        }
        let mut of_pool = Map::new();
        of_pool.insert("type".to_owned(), json!("ingress"));
        of_pool.insert("mode".to_owned(), json!(mode));
        of_pool.insert("size".to_owned(), text(pool.size_bytes));
        if pool.xoff_bytes > 0 {
            of_pool.insert("xoff".to_owned(), text(self.headroom_pool_bytes(candidate)));
        }
        json!({
            "BUFFER_POOL": { pool.name.as_str(): of_pool },
            "BUFFER_PROFILE": { profile.name.as_str(): fields },
        })
    }
}

/// The buffer memory that a candidate occupies, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferMemory {
    /// Headroom of one priority group.
    pub group: u64,
    /// Headroom of all priority groups of the pool. With a shared headroom pool, this is the size of that
    /// pool. Otherwise, it is the sum of the private headroom.
    pub headroom: u64,
    /// Sum of three sizes: `headroom`, the reserved space of the groups with the profile, and the shared part
    /// of the pool.
    pub total: u64,
}

/// The lossless class of a port.
struct LosslessClass {
    port: usize,
    class: u8,
    code: u8,
    pg: u8,
    priority: u8,
    profile: usize,
}

fn find_lossless_class(config: &SwitchConfig, index: usize, wanted: Option<u8>) -> Option<LosslessClass> {
    let port = &config.ports[index];
    let of = |(class, code): (u8, u8)| {
        let pg = port.classify.tc_to_pg[usize::from(class)];
        let profile = usize::from(port.pgs[usize::from(pg)]);
        let has_headroom = config.profiles.get(profile)?.xoff_bytes >= u64::from(config.cell_bytes);
        let signals = |priority: &u8| {
            port.pfc.enabled & 1 << priority != 0 && port.pfc.priority_to_pg[usize::from(*priority)] == pg
        };
        let priority = (0..8).find(signals).filter(|_| has_headroom)?;
        Some(LosslessClass {
            port: index,
            class,
            code,
            pg,
            priority,
            profile,
        })
    };
    reachable_classes(port)
        .into_iter()
        .filter(|(class, _)| wanted.is_none_or(|wanted| wanted == *class))
        .find_map(of)
}

/// Returns the configuration without functions that forward frames elsewhere or stop them.
fn without_forwarding_functions(config: &SwitchConfig) -> SwitchConfig {
    let mut alone = SwitchConfig {
        fdb_ageing: Picos::NEVER,
        frames_max: config.frames_max.max(1 << 20),
        lags: Vec::new(),
        bridging: BridgingConfig::Transparent,
        routing: RoutingConfig::default(),
        ..config.clone()
    };
    for port in &mut alone.ports {
        port.admin_up = true;
        port.watchdog = None;
    }
    alone
}
