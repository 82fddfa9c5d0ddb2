//! The configuration in force, as it was said and as it is.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use serde_json::Value;
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::route::{Fib, RouteTarget};

use xoff_config::{ConfigDb, StaticRoute};

/// The tables of `show buffer configuration`.
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

/// A configuration in force.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) db: ConfigDb,
    pub(super) config: SwitchConfig,
    pub(super) static_routes: Vec<StaticRoute>,
    /// What was computed for it.
    pub(super) generated: ConfigDb,
    /// Since when each route is what it is.
    installed: HashMap<IpNet, Instant>,
}

impl Generation {
    /// The first generation of a switch.
    pub(super) fn first(db: ConfigDb, config: SwitchConfig, static_routes: Vec<StaticRoute>) -> Generation {
        let now = Instant::now();
        let routes = config.routing.fib.routes();
        Generation {
            installed: routes.map(|(route, _)| (route.prefix, now)).collect(),
            db,
            config,
            static_routes,
            generated: ConfigDb::default(),
        }
    }

    /// With what was computed for it.
    pub(super) fn generating(self, generated: ConfigDb) -> Generation {
        Generation { generated, ..self }
    }

    /// What was written and what was computed, as one configuration.
    pub(super) fn shown(&self) -> ConfigDb {
        let mut shown = self.db.clone();
        shown.add_missing_fields(&self.generated);
        shown
    }

    /// The tables that concern buffers: as written, or as they are in force, with the profiles that groups got.
    pub(super) fn buffers(&self, running: bool) -> Value {
        let mut db = if running { self.shown() } else { self.db.clone() };
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

    /// The names of the profiles that the entries of a table got.
    fn profiles_in_use(&self, table: &str) -> Vec<(String, String)> {
        let of_entry = |key: &str| {
            let (port, numbers) = key.split_once('|')?;
            let port = self.config.ports.iter().find(|of| of.name == port)?;
            let first = usize::from(numbers.as_bytes().first()?.checked_sub(b'0')?);
            let profile = self.config.profiles.get(usize::from(*port.pgs.get(first)?));
            Some((
                key.to_owned(),
                profile.map_or_else(|| "NULL".to_owned(), |profile| profile.name.clone()),
            ))
        };
        self.db.keys(table).filter_map(of_entry).collect()
    }

    /// How long a period of the periodic watermarks lasts.
    pub(super) fn watermark_interval(&self) -> Duration {
        let written = self.db.get("WATERMARK_TABLE", "TELEMETRY_INTERVAL", "interval");
        let seconds = written.and_then(|text| text.parse().ok());
        seconds.map_or(super::watermarks::INTERVAL, Duration::from_secs)
    }

    /// The generation after this one: routes that remain as they are keep their age.
    pub(super) fn followed_by(
        &self,
        db: ConfigDb,
        config: SwitchConfig,
        static_routes: Vec<StaticRoute>,
    ) -> Generation {
        let now = Instant::now();
        let before: HashMap<IpNet, &RouteTarget> = targets(&self.config.routing.fib).collect();
        let since = |(prefix, target): (IpNet, &RouteTarget)| {
            let same = before.get(&prefix) == Some(&target);
            (prefix, self.installed_at(prefix).filter(|_| same).unwrap_or(now))
        };
        Generation {
            installed: targets(&config.routing.fib).map(since).collect(),
            db,
            config,
            static_routes,
            generated: ConfigDb::default(),
        }
    }

    /// Since when the route to a prefix is what it is; `None` if it is not used.
    pub(super) fn installed_at(&self, prefix: IpNet) -> Option<Instant> {
        self.installed.get(&prefix).copied()
    }

    /// The names of the router interfaces, by number.
    pub(super) fn interfaces(&self) -> Vec<String> {
        let interfaces = self.config.routing.interfaces.iter();
        interfaces.map(|interface| interface.name.clone()).collect()
    }
}

fn targets(fib: &Fib) -> impl Iterator<Item = (IpNet, &RouteTarget)> {
    fib.routes().map(|(route, _)| (route.prefix, &route.target))
}
