//! The current configuration of a switch. This struct contains the tables as written and the resolved values.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use serde_json::Value;
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::route::{Fib, RouteTarget};

use xoff_config::{ConfigDb, StaticRoute};

/// The tables that `show buffer configuration` prints.
const BUFFER_TABLES: &[&str] = &[
    "BUFFER_POOL",
    "BUFFER_PROFILE",
    "BUFFER_PG",
    "BUFFER_QUEUE",
    "BUFFER_PORT_INGRESS_PROFILE_LIST",
    "BUFFER_PORT_EGRESS_PROFILE_LIST",
    "CABLE_LENGTH",
    "DEFAULT_LOSSLESS_BUFFER_PARAMETER",
    "LOSSLESS_TRAFFIC_PATTERN",
];

/// A generation of the configuration. Each applied change creates the next generation.
#[derive(Debug)]
pub(super) struct ConfigGeneration {
    /// Number of the generation, from 1.
    pub(super) number: u64,
    pub(super) db: ConfigDb,
    pub(super) config: SwitchConfig,
    pub(super) static_routes: Vec<StaticRoute>,
    /// Fields that were computed for the configuration.
    pub(super) generated: ConfigDb,
    /// The time at which each prefix got its present target, such as its next hops.
    installation_times: HashMap<IpNet, Instant>,
}

impl ConfigGeneration {
    /// Creates the first generation of a switch.
    pub(super) fn initial(
        db: ConfigDb,
        config: SwitchConfig,
        static_routes: Vec<StaticRoute>,
    ) -> ConfigGeneration {
        let now = Instant::now();
        let routes = config.routing.fib.routes();
        ConfigGeneration {
            number: 1,
            installation_times: routes.map(|(route, _)| (route.prefix, now)).collect(),
            db,
            config,
            static_routes,
            generated: ConfigDb::default(),
        }
    }

    /// Sets the fields that were computed for the configuration.
    pub(super) fn with_generated_fields(self, generated: ConfigDb) -> ConfigGeneration {
        ConfigGeneration { generated, ..self }
    }

    /// Returns one configuration with the written fields and the computed fields.
    pub(super) fn complete_db(&self) -> ConfigDb {
        let mut complete_db = self.db.clone();
        complete_db.add_missing_fields(&self.generated);
        complete_db
    }

    /// Returns the buffer tables. With `running`, the tables include computed fields and, for each priority
    /// group, the profile in use.
    pub(super) fn buffer_tables(&self, running: bool) -> Value {
        let mut db = if running {
            self.complete_db()
        } else {
            self.db.clone()
        };
        if running {
            for (key, profile) in self.profiles_in_use("BUFFER_PG") {
                db.insert("BUFFER_PG", &key, "profile", &profile);
            }
        }
        let mut tables = db.to_value();
        if let Value::Object(tables) = &mut tables {
            tables.retain(|name, _| BUFFER_TABLES.contains(&name.as_str()));
        }
        tables
    }

    /// Returns the keys of a table. Each key comes with the name of the profile that its entry uses,
    /// or `NULL`.
    fn profiles_in_use(&self, table: &str) -> Vec<(String, String)> {
        let profile_of_entry = |key: &str| {
            let (port, numbers) = key.split_once('|')?;
            let port = self
                .config
                .ports
                .iter()
                .find(|candidate| candidate.name == port)?;
            let first_group = usize::from(numbers.as_bytes().first()?.checked_sub(b'0')?);
            let profile = self.config.profiles.get(usize::from(*port.pgs.get(first_group)?));
            Some((
                key.to_owned(),
                profile.map_or_else(|| "NULL".to_owned(), |profile| profile.name.clone()),
            ))
        };
        self.db.keys(table).filter_map(profile_of_entry).collect()
    }

    /// Returns the telemetry interval, which is the period of the periodic watermarks. Default: 120 s.
    pub(super) fn watermark_interval(&self) -> Duration {
        let written = self.db.get("WATERMARK_TABLE", "TELEMETRY_INTERVAL", "interval");
        let seconds = written.and_then(|text| text.parse().ok());
        seconds.map_or(super::watermarks::DEFAULT_PERIOD, Duration::from_secs)
    }

    /// Creates the next generation. A route with an unchanged target keeps its age.
    pub(super) fn next_generation(
        &self,
        db: ConfigDb,
        config: SwitchConfig,
        static_routes: Vec<StaticRoute>,
    ) -> ConfigGeneration {
        let now = Instant::now();
        let old_targets: HashMap<IpNet, &RouteTarget> = route_targets(&self.config.routing.fib).collect();
        let installation_time = |(prefix, target): (IpNet, &RouteTarget)| {
            let is_unchanged = old_targets.get(&prefix) == Some(&target);
            (
                prefix,
                self.installed_at(prefix).filter(|_| is_unchanged).unwrap_or(now),
            )
        };
        ConfigGeneration {
            number: self.number + 1,
            installation_times: route_targets(&config.routing.fib)
                .map(installation_time)
                .collect(),
            db,
            config,
            static_routes,
            generated: ConfigDb::default(),
        }
    }

    /// Returns the time at which the route to a prefix got its present target. Returns `None` if no route to
    /// the prefix is in use.
    pub(super) fn installed_at(&self, prefix: IpNet) -> Option<Instant> {
        self.installation_times.get(&prefix).copied()
    }

    /// Returns the names of the router interfaces, by interface number.
    pub(super) fn interface_names(&self) -> Vec<String> {
        let interfaces = self.config.routing.interfaces.iter();
        interfaces.map(|interface| interface.name.clone()).collect()
    }
}

fn route_targets(fib: &Fib) -> impl Iterator<Item = (IpNet, &RouteTarget)> {
    fib.routes().map(|(route, _)| (route.prefix, &route.target))
}
