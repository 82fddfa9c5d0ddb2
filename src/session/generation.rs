//! The configuration in force, as it was said and as it is.

use std::collections::HashMap;
use std::time::Instant;

use ipnet::IpNet;
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::route::{Fib, Target};

use crate::config::{ConfigDb, StaticRoute};

/// A configuration in force.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) db: ConfigDb,
    pub(super) config: SwitchConfig,
    pub(super) static_routes: Vec<StaticRoute>,
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
        }
    }

    /// The generation after this one: routes that remain as they are keep their age.
    pub(super) fn followed_by(
        &self,
        db: ConfigDb,
        config: SwitchConfig,
        static_routes: Vec<StaticRoute>,
    ) -> Generation {
        let now = Instant::now();
        let before: HashMap<IpNet, &Target> = targets(&self.config.routing.fib).collect();
        let since = |(prefix, target): (IpNet, &Target)| {
            let same = before.get(&prefix) == Some(&target);
            (prefix, self.installed_at(prefix).filter(|_| same).unwrap_or(now))
        };
        Generation {
            installed: targets(&config.routing.fib).map(since).collect(),
            db,
            config,
            static_routes,
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

fn targets(fib: &Fib) -> impl Iterator<Item = (IpNet, &Target)> {
    fib.routes().map(|(route, _)| (route.prefix, &route.target))
}
