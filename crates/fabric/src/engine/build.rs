//! Builds a fabric from its plan.

use std::sync::Arc;

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{LinkRate, Outputs, Picos, PortId, Switch};

use super::{Fabric, HOST_FLAG, HOSTS_MAX, HostNode, NO_LINK, SWITCHES_MAX, SwitchNode, TIMER_BITS};
use crate::link_direction::LinkDirection;
use crate::partitions::Partitions;
use crate::pending::PendingEvents;
use crate::plan::{FabricPlan, LinkEnd, LinkPlan, PlanError};
use crate::store::FabricStore;
use xoff_driver::CpuPort;
use xoff_driver::journal::Journal;
use xoff_host::Host;

impl Fabric {
    /// Builds a fabric at time 0 with all links up. `seed` is the seed of random faults. Switches have their
    /// own seeds in their configurations.
    ///
    /// # Errors
    /// Returns an error in these cases:
    ///
    /// - A link end does not exist or is used twice.
    /// - The plan has too many switches, hosts, links or ports.
    /// - The configuration of a host is invalid.
    pub fn new(plan: FabricPlan, seed: u64) -> Result<Fabric, PlanError> {
        check_counts(&plan)?;
        let links = plan.links.len();
        let partitions = Partitions::new(plan.hosts.len());
        let lookahead = lookahead(&plan);
        let pending = PendingEvents::new(
            partitions.host_group_count() + plan.switches.len(),
            shortest_frame_time(&plan),
            lookahead,
        );
        let mut fabric = Fabric {
            now: Picos::ZERO,
            store: FabricStore::new(pending.window_max()),
            pending,
            partitions,
            lookahead,
            hosts_linked: plan.links.iter().any(is_between_hosts),
            switches: Vec::with_capacity(plan.switches.len()),
            hosts: Vec::with_capacity(plan.hosts.len()),
            completing_hosts: Vec::new(),
            directions: Vec::with_capacity(2 * links),
            outputs: Outputs::with_capacity(64),
            buffer: Vec::new(),
            events: 0,
            events_max: u64::MAX,
            events_checked_until: Picos::ZERO,
            due_partitions: Vec::new(),
            windows: 0,
            joint_windows: 0,
            frame_hops: 0,
            delivered_payload_bytes: 0,
            moves: 0,
            seed,
            insertions: None,
        };
        for config in plan.switches {
            fabric.add_switch(config);
        }
        for config in &plan.hosts {
            let host = Host::new(config)?;
            fabric.hosts.push(HostNode {
                host,
                direction: NO_LINK,
                armed: Picos::NEVER,
                busy: false,
                timer_armed: Picos::NEVER,
                is_completing: false,
            });
        }
        for link in &plan.links {
            fabric.add_link(&link.name, link.ends, link.delay)?;
        }
        fabric.set_all_links_up();
        Ok(fabric)
    }

    fn set_all_links_up(&mut self) {
        let mut ports_of_switches = vec![Vec::new(); self.switches.len()];
        for direction in &mut self.directions {
            direction.up = true;
            if let LinkEnd::Switch { switch, port } = direction.from {
                ports_of_switches[switch as usize].push(PortId(port));
            }
        }
        for (switch, ports) in ports_of_switches.iter().enumerate() {
            self.change_switch(switch, &mut (), |switch, now, store, outputs| {
                switch.set_links_up(now, ports, store, outputs)
            });
        }
        for host in 0..self.hosts.len() {
            let has_completions = self.serve_host(host, false, &mut ());
            self.record_completing(host, has_completions);
        }
    }

    fn add_switch(&mut self, config: Arc<SwitchConfig>) {
        let mut node = SwitchNode {
            switch: Switch::new(&config),
            cpu: CpuPort::default(),
            journal: Journal::default(),
            directions: vec![NO_LINK; config.ports.len()],
            config,
        };
        node.cpu.reconfigure(&mut node.switch, &node.config.routing);
        self.switches.push(node);
    }

    fn add_link(&mut self, name: &str, ends: [LinkEnd; 2], delay: Picos) -> Result<(), PlanError> {
        for (side, (from, to)) in [(ends[0], ends[1]), (ends[1], ends[0])].into_iter().enumerate() {
            let index = self.directions.len() as u32;
            let no_such_end = || PlanError::NoSuchEnd {
                link: name.to_owned(),
                end: from,
            };
            let (direction, timing) = match from {
                LinkEnd::Switch { switch, port } => {
                    let node = self.switches.get_mut(switch as usize).ok_or_else(no_such_end)?;
                    let config = node.config.ports.get(usize::from(port)).ok_or_else(no_such_end)?;
                    (&mut node.directions[usize::from(port)], config.link)
                }
                LinkEnd::Host(host) => {
                    let node = self.hosts.get_mut(host as usize).ok_or_else(no_such_end)?;
                    (&mut node.direction, *node.host.link())
                }
            };
            if *direction != NO_LINK {
                return Err(PlanError::EndInUse {
                    link: name.to_owned(),
                    end: from,
                });
            }
            *direction = index;
            debug_assert_eq!(index as usize % 2, side);
            let to_partition = self.partitions.partition_of(to);
            self.directions
                .push(LinkDirection::new(from, to, to_partition, delay, timing));
        }
        Ok(())
    }
}

/// Returns whether a link connects two hosts.
fn is_between_hosts(link: &LinkPlan) -> bool {
    link.ends.iter().all(|end| matches!(end, LinkEnd::Host(_)))
}

/// Returns the shortest delay of a link between two partitions. All hosts count as one partition here.
/// Returns [`Picos::NEVER`] if no link connects two partitions.
fn lookahead(plan: &FabricPlan) -> Picos {
    let partitions = Partitions::new(plan.hosts.len());
    let between = plan.links.iter().filter(|link| {
        let [one, other] = link.ends.map(|end| partitions.partition_of(end));
        one != other && !is_between_hosts(link)
    });
    between.map(|link| link.delay).min().unwrap_or(Picos::NEVER)
}

/// Returns the time that a frame of minimum length occupies the fastest link.
fn shortest_frame_time(plan: &FabricPlan) -> Picos {
    let ports = plan.switches.iter().flat_map(|switch| &switch.ports);
    let of_ports = ports.map(|port| port.link);
    let links = of_ports.chain(plan.hosts.iter().map(|host| host.nic.link));
    let shortest = links
        .map(|link| LinkRate::new(link).transmission_time(link.mac_len(0)))
        .min();
    shortest.unwrap_or(Picos::from_nanos(1))
}

fn check_counts(plan: &FabricPlan) -> Result<(), PlanError> {
    let ports_max = plan.switches.iter().map(|s| s.ports.len()).max().unwrap_or(0);
    for (what, count, max) in [
        ("switches", plan.switches.len(), SWITCHES_MAX),
        ("hosts", plan.hosts.len(), HOSTS_MAX),
        ("links", plan.links.len(), HOST_FLAG as usize / 2),
        // Four timers for each port, and two for the switch.
        ("ports at one switch", ports_max, (1 << TIMER_BITS) / 4 - 1),
    ] {
        if count > max {
            return Err(PlanError::TooMany { what, count, max });
        }
    }
    Ok(())
}
