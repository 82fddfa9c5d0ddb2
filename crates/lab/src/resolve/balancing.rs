//! `load_balancing` of the whole lab and of its nodes.

use serde_saphyr::Spanned;

use super::super::balancing;
use super::super::file::{Defaults, LoadBalancing, Node};
use super::super::plan::SwitchPlan;
use super::{Resolver, listed};

impl Resolver<'_> {
    /// Puts the schemes that the file names into the configurations of the switches.
    pub(super) fn balancing(
        &mut self,
        defaults: Option<&Defaults>,
        nodes: &[(Spanned<String>, Node)],
        switches: &mut [SwitchPlan],
    ) {
        let default = defaults.and_then(|defaults| defaults.load_balancing.as_ref());
        for switch in switches.iter_mut() {
            let node = nodes.iter().find(|(name, _)| name.value == switch.name);
            let own = node.and_then(|(_, node)| node.load_balancing.as_ref());
            if let Some(scheme) = default
                && self.knows(switch, scheme)
            {
                let layer = balancing::layer(&scheme.value, self.source(scheme.referenced));
                switch.config.insert(0, layer);
            }
            if let Some(scheme) = own
                && self.knows(switch, scheme)
            {
                let layer = balancing::layer(&scheme.value, self.source(scheme.referenced));
                switch.config.push(layer);
            }
        }
        balancing::advertise_where_heard(switches, "load_balancing");
    }

    /// Whether the lab announces its jobs' queue pairs to the switches.
    pub(super) fn announce(&mut self, said: Option<&LoadBalancing>) -> bool {
        let Some(announce) = said.and_then(|said| said.announce.as_ref()) else {
            return false;
        };
        if announce.value {
            self.only_virtual(
                announce.referenced,
                "load_balancing.announce is about queue pairs of jobs",
            );
        }
        announce.value
    }

    fn knows(&mut self, switch: &SwitchPlan, scheme: &Spanned<String>) -> bool {
        let known = balancing::knows(switch, &scheme.value);
        if !known {
            let what = format!(
                "switch {} has no load-balancing scheme \"{}\"",
                switch.name, scheme.value
            );
            let fix = format!("there are {}", listed(&balancing::names(switch)));
            self.wrong(scheme.referenced, what, fix);
        }
        known
    }
}
