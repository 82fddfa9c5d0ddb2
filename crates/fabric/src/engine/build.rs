//! A fabric from its plan.

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{Line, Outputs, Picos, Switch};

use super::{Fabric, HOST, HOSTS_MAX, HostNode, NO_WIRE, SWITCHES_MAX, SwitchNode, TIMER_BITS};
use crate::parts::Parts;
use crate::pending::Pending;
use crate::plan::{End, FabricPlan, LinkPlan, PlanError};
use crate::store::FabricStore;
use crate::wire::Wire;
use xoff_driver::CpuPort;
use xoff_driver::journal::Journal;
use xoff_host::Host;

impl Fabric {
    /// A fabric at time zero, every link up. `seed` is for faults that draw; switches have seeds of their own.
    ///
    /// # Errors
    /// An end of a link that is not there or used twice, too many of something, a host that cannot be.
    pub fn new(plan: FabricPlan, seed: u64) -> Result<Fabric, PlanError> {
        check_counts(&plan)?;
        let links = plan.links.len();
        let parts = Parts::new(plan.hosts.len());
        let pending = Pending::new(parts.groups() + plan.switches.len(), shortest_frame(&plan));
        let mut fabric = Fabric {
            now: Picos::ZERO,
            store: FabricStore::new(pending.window_max()),
            pending,
            parts,
            lookahead: lookahead(&plan),
            hosts_linked: plan.links.iter().any(is_between_hosts),
            switches: Vec::with_capacity(plan.switches.len()),
            hosts: Vec::with_capacity(plan.hosts.len()),
            wires: Vec::with_capacity(2 * links),
            outputs: Outputs::with_capacity(64),
            buffer: Vec::new(),
            events: 0,
            events_max: u64::MAX,
            frame_hops: 0,
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
                wire: NO_WIRE,
                armed: Picos::NEVER,
                busy: false,
                timer_armed: Picos::NEVER,
            });
        }
        for link in &plan.links {
            fabric.add_link(&link.name, link.ends, link.delay)?;
        }
        for link in 0..links {
            fabric.set_link(link, true, &mut ());
        }
        Ok(fabric)
    }

    fn add_switch(&mut self, config: SwitchConfig) {
        let mut node = SwitchNode {
            switch: Switch::new(&config),
            cpu: CpuPort::default(),
            journal: Journal::default(),
            wires: vec![NO_WIRE; config.ports.len()],
            config,
        };
        node.cpu.reconfigure(&mut node.switch, &node.config.routing);
        self.switches.push(node);
    }

    fn add_link(&mut self, name: &str, ends: [End; 2], delay: Picos) -> Result<(), PlanError> {
        for (direction, (from, to)) in [(ends[0], ends[1]), (ends[1], ends[0])].into_iter().enumerate() {
            let index = self.wires.len() as u32;
            let no_such_end = || PlanError::NoSuchEnd {
                link: name.to_owned(),
                end: from,
            };
            let (wire, timing) = match from {
                End::Switch { switch, port } => {
                    let node = self.switches.get_mut(switch as usize).ok_or_else(no_such_end)?;
                    let config = node.config.ports.get(usize::from(port)).ok_or_else(no_such_end)?;
                    (&mut node.wires[usize::from(port)], config.link)
                }
                End::Host(host) => {
                    let node = self.hosts.get_mut(host as usize).ok_or_else(no_such_end)?;
                    (&mut node.wire, *node.host.link())
                }
            };
            if *wire != NO_WIRE {
                return Err(PlanError::EndInUse {
                    link: name.to_owned(),
                    end: from,
                });
            }
            *wire = index;
            debug_assert_eq!(index as usize % 2, direction);
            let to_part = self.parts.of(to);
            self.wires.push(Wire::new(from, to, to_part, delay, timing));
        }
        Ok(())
    }
}

/// Whether a link leads from a host to another.
fn is_between_hosts(link: &LinkPlan) -> bool {
    link.ends.iter().all(|end| matches!(end, End::Host(_)))
}

/// How long any frame takes from one part to another at least, all hosts being one: the shortest delay of a link between two.
fn lookahead(plan: &FabricPlan) -> Picos {
    let parts = Parts::new(plan.hosts.len());
    let between = plan.links.iter().filter(|link| {
        let [one, other] = link.ends.map(|end| parts.of(end));
        one != other && !is_between_hosts(link)
    });
    between.map(|link| link.delay).min().unwrap_or(Picos::NEVER)
}

/// What the shortest frame takes on the fastest link.
fn shortest_frame(plan: &FabricPlan) -> Picos {
    let ports = plan.switches.iter().flat_map(|switch| &switch.ports);
    let of_ports = ports.map(|port| port.link);
    let links = of_ports.chain(plan.hosts.iter().map(|host| host.nic.link));
    let shortest = links.map(|link| Line::new(link).occupied(link.mac_len(0))).min();
    shortest.unwrap_or(Picos::from_nanos(1))
}

fn check_counts(plan: &FabricPlan) -> Result<(), PlanError> {
    let ports_max = plan.switches.iter().map(|s| s.ports.len()).max().unwrap_or(0);
    for (what, count, max) in [
        ("switches", plan.switches.len(), SWITCHES_MAX),
        ("hosts", plan.hosts.len(), HOSTS_MAX),
        ("links", plan.links.len(), HOST as usize / 2),
        // Four timers a port, and two of the switch itself.
        ("ports at one switch", ports_max, (1 << TIMER_BITS) / 4 - 1),
    ] {
        if count > max {
            return Err(PlanError::TooMany { what, count, max });
        }
    }
    Ok(())
}
