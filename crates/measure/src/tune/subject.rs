//! What is tuned: a switch, one lossless class of it, and the buffer profile behind that class.

use serde_json::{Map, Value, json};
use xoff_dataplane::config::{
    BridgingConfig, BufferProfile, BufferThreshold, PoolConfig, PortConfig, RoutingConfig, SwitchConfig,
    TrustMode,
};
use xoff_dataplane::{LinkTiming, Picos};

use super::super::probe::reachable_classes;
use xoff_telemetry::failure::Failure;

/// A switch with a lossless class.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The switch, its ports one bridge and its watchdog off: nothing but the buffers decides.
    pub config: SwitchConfig,
    /// Ports that have the profile and the speed of the first such port, by index.
    pub ports: Vec<usize>,
    /// Traffic class of the frames.
    pub class: u8,
    /// DSCP, or 802.1p priority, that leads to the class.
    pub code: u8,
    /// A code that leads elsewhere, if there is one.
    pub other_code: u8,
    /// Frames carry their class in an 802.1Q tag.
    pub tagged: bool,
    /// Priority group of the class.
    pub pg: u8,
    /// Priority whose pauses stop it.
    pub priority: u8,
    /// Index of the profile.
    pub profile: usize,
    /// Index of its pool.
    pub pool: usize,
    /// Priority groups of all ports that use the profile.
    pub groups: u64,
}

/// Sizes of a lossless profile, in cells: what is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What the group may use after XOFF (`xoff`), at least 1.
    pub headroom: u32,
    /// What is the group's own before it shares (`size`, or what of it is not headroom).
    pub reserved: u32,
    /// Limit of shared use.
    pub threshold: BufferThreshold,
    /// `xon_offset`, in bytes.
    pub xon_offset_bytes: u64,
}

impl Subject {
    /// The lossless class of a switch: the given one, or the first that is lossless on some port.
    ///
    /// # Errors
    /// No port has such a class, or only one has.
    pub fn new(config: &SwitchConfig, class: Option<u8>) -> Result<Subject, Failure> {
        let found = (0..config.ports.len()).find_map(|port| lossless(config, port, class));
        let Some(first) = found else {
            return Err(Failure::configuration(match class {
                Some(class) => format!("traffic class {class} is lossless on no port"),
                None => "no port has a lossless class".to_owned(),
            })
            .because("that takes a priority in pfc_enable, a group that it signals, and a profile with xoff for it")
            .fix("look at PORT_QOS_MAP pfc_enable, TC_TO_PRIORITY_GROUP_MAP and BUFFER_PG"));
        };
        let speed = config.ports[first.port].link.speed_mbps;
        let alike = |port: &usize| {
            config.ports[*port].link.speed_mbps == speed
                && lossless(config, *port, Some(first.class)).is_some_and(|of| {
                    (of.profile, of.pg, of.priority) == (first.profile, first.pg, first.priority)
                })
        };
        let ports: Vec<usize> = (0..config.ports.len()).filter(alike).collect();
        if ports.len() < 2 {
            let port = &config.ports[first.port].name;
            return Err(
                Failure::configuration(format!("only {port} has its lossless profile and speed"))
                    .fix("a pattern takes two such ports at least"),
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
        Ok(Subject {
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
            config: alone(config),
        })
    }

    /// The profile as it is configured.
    pub fn given(&self) -> Candidate {
        let profile = self.profile();
        let reserved = match self.private() {
            true => profile.size_bytes - profile.xoff_bytes,
            false => profile.size_bytes,
        };
        Candidate {
            headroom: self.cells(profile.xoff_bytes),
            reserved: self.cells(reserved),
            threshold: profile.threshold,
            xon_offset_bytes: profile.xon_offset_bytes,
        }
    }

    /// The profile.
    pub fn profile(&self) -> &BufferProfile {
        &self.config.profiles[self.profile]
    }

    /// Timing of the ports' links.
    pub fn link(&self) -> LinkTiming {
        self.config.ports[self.ports[0]].link
    }

    /// The largest frame that the ports send, with FCS: MTU, Ethernet header, FCS.
    pub fn frame_max(&self) -> u32 {
        self.config.ports[self.ports[0]].mtu + 18
    }

    /// Cells that so many bytes hold.
    fn cells(&self, bytes: u64) -> u32 {
        u32::try_from(bytes / u64::from(self.config.cell_bytes)).unwrap_or(u32::MAX)
    }

    /// Whether the profile's `size` contains its headroom.
    fn private(&self) -> bool {
        let profile = self.profile();
        self.pool().xoff_bytes == 0 && profile.size_bytes >= profile.xoff_bytes
    }

    fn pool(&self) -> &PoolConfig {
        &self.config.pools[self.pool]
    }

    /// The profile of a candidate.
    fn profile_of(&self, candidate: &Candidate) -> BufferProfile {
        let cell = u64::from(self.config.cell_bytes);
        let (headroom, reserved) = (
            u64::from(candidate.headroom) * cell,
            u64::from(candidate.reserved) * cell,
        );
        BufferProfile {
            xoff_bytes: headroom,
            size_bytes: if self.private() {
                reserved + headroom
            } else {
                reserved
            },
            threshold: candidate.threshold,
            xon_offset_bytes: candidate.xon_offset_bytes,
            ..self.profile().clone()
        }
    }

    /// Headroom that all groups of the pool may use together, in bytes.
    fn headroom_of_groups(&self, candidate: &Candidate) -> u64 {
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

    /// Size of the shared headroom pool with a candidate; 0: there is none. It is as far oversubscribed as it was.
    fn headroom_pool(&self, candidate: &Candidate) -> u64 {
        let (pool, before) = (self.pool().xoff_bytes, self.headroom_of_groups(&self.given()));
        if pool == 0 {
            return 0;
        }
        let sum = self.headroom_of_groups(candidate);
        if pool >= before {
            return sum;
        }
        let shared = (u128::from(sum) * u128::from(pool)).div_ceil(u128::from(before.max(1)));
        (shared as u64).max(u64::from(candidate.headroom) * u64::from(self.config.cell_bytes))
    }

    /// The switch with a candidate, and so many cells of its shared pool in use by others.
    pub fn with(&self, candidate: &Candidate, others_cells: u32) -> SwitchConfig {
        let mut config = self.config.clone();
        config.profiles[self.profile] = self.profile_of(candidate);
        let pool = &mut config.pools[self.pool];
        pool.xoff_bytes = self.headroom_pool(candidate);
        let others = u64::from(others_cells) * u64::from(config.cell_bytes);
        pool.size_bytes = pool.size_bytes.saturating_sub(others);
        config
    }

    /// What a candidate sets aside, in bytes.
    pub fn memory(&self, candidate: &Candidate) -> Memory {
        let cell = u64::from(self.config.cell_bytes);
        let headroom = match self.headroom_pool(candidate) {
            0 => self.headroom_of_groups(candidate),
            pool => pool,
        };
        Memory {
            group: u64::from(candidate.headroom) * cell,
            headroom,
            total: headroom + u64::from(candidate.reserved) * cell * self.groups + self.pool().size_bytes,
        }
    }

    /// The pool and the profile of a candidate as tables of config_db.json: a layer above what the switch has.
    pub fn fragment(&self, candidate: &Candidate) -> Value {
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
            // No configuration file can ask for this one.
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
            of_pool.insert("xoff".to_owned(), text(self.headroom_pool(candidate)));
        }
        json!({
            "BUFFER_POOL": { pool.name.as_str(): of_pool },
            "BUFFER_PROFILE": { profile.name.as_str(): fields },
        })
    }
}

/// Buffer that is set aside, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Headroom of one priority group.
    pub group: u64,
    /// Headroom of all groups of the pool: the headroom pool's size where there is one, else their sum.
    pub headroom: u64,
    /// That, what is reserved for the tuned profile's groups, and the pool's shared part.
    pub total: u64,
}

/// The lossless class of a port.
struct Lossless {
    port: usize,
    class: u8,
    code: u8,
    pg: u8,
    priority: u8,
    profile: usize,
}

fn lossless(config: &SwitchConfig, index: usize, wanted: Option<u8>) -> Option<Lossless> {
    let port = &config.ports[index];
    let of = |(class, code): (u8, u8)| {
        let pg = port.classify.tc_to_pg[usize::from(class)];
        let profile = usize::from(port.pgs[usize::from(pg)]);
        let has_headroom = config.profiles.get(profile)?.xoff_bytes >= u64::from(config.cell_bytes);
        let signals = |priority: &u8| {
            port.pfc.enabled & 1 << priority != 0 && port.pfc.priority_to_pg[usize::from(*priority)] == pg
        };
        let priority = (0..8).find(signals).filter(|_| has_headroom)?;
        Some(Lossless {
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

/// The configuration with nothing in it that could send a frame elsewhere or stop it.
fn alone(config: &SwitchConfig) -> SwitchConfig {
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
