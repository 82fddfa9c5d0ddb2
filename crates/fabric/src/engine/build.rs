//! Builds a fabric from its plan.

use std::sync::Arc;

use xoff_dataplane::{LinkRate, Outputs, Picos, PortId, Switch};

use super::layout::{Layout, NodeIndex};
use super::mail::Outbox;
use super::running::LOOKAHEAD_MIN;
use super::shard::{HostNode, Receiver, Shard, ShardCounters, SwitchNode};
use super::{Fabric, HOST_FLAG, HOSTS_MAX, NO_LINK, SWITCHES_MAX, TIMER_BITS};
use crate::in_flight::{FramesInFlight, SliceSizes};
use crate::link_direction::LinkDirection;
use crate::observation::EventRecords;
use crate::observer::{HostEventCounts, ObservedEvents};
use crate::partitions::Partitions;
use crate::pending::PendingEvents;
use crate::plan::{FabricPlan, LinkEnd, LinkPlan, PlanError};
use crate::store::FabricStore;
use xoff_driver::CpuPort;
use xoff_driver::journal::Journal;
use xoff_host::Host;

impl Fabric {
    /// Builds a fabric at time 0 with all links up. `seed` is the seed of random faults. Switches have their
    /// own seeds in their configurations. One thread processes the fabric.
    ///
    /// # Errors
    /// Returns an error in these cases:
    ///
    /// - A link end does not exist or is used twice.
    /// - The plan has too many switches, hosts, links or ports.
    /// - The configuration of a host is invalid.
    pub fn new(plan: FabricPlan, seed: u64) -> Result<Fabric, PlanError> {
        Fabric::with_threads(plan, seed, 1)
    }

    /// Builds a fabric like [`Fabric::new`] that `threads` threads process. Each thread gets at least one switch, so
    /// there can be fewer threads ([`Fabric::thread_count`]). A fabric with link delays below 100 ns between switches
    /// has one thread. The number of threads does not change any result.
    ///
    /// # Errors
    /// See [`Fabric::new`].
    pub fn with_threads(plan: FabricPlan, seed: u64, threads: usize) -> Result<Fabric, PlanError> {
        check_counts(&plan)?;
        let lookahead = lookahead(&plan);
        let is_partitioned = lookahead >= LOOKAHEAD_MIN;
        let mut layout = Layout::new(&plan, if is_partitioned { threads } else { 1 });
        let frame_time = shortest_frame_time(&plan);
        let mut shards = new_shards(&plan, &layout, frame_time, lookahead)?;
        let slices = SliceSizes::new(frame_time, shards[0].pending.window_max());
        let interval = shards[0].pending.interval();
        let mut receivers = Vec::with_capacity(2 * plan.links.len());
        for link in &plan.links {
            add_link(link, &mut layout, &mut shards, &mut receivers)?;
        }
        let receivers: Arc<[Receiver]> = receivers.into();
        for shard in &mut shards {
            shard.receivers = Arc::clone(&receivers);
            if !is_partitioned {
                shard.pending.use_one_order();
            }
        }
        let mut fabric = Fabric {
            now: Picos::ZERO,
            layout,
            in_flight: FramesInFlight::new(slices),
            shards,
            receivers,
            is_partitioned,
            hosts_linked: plan.links.iter().any(is_between_hosts),
            events_max: u64::MAX,
            step_end: u64::MAX,
            events_per_window_max: events_per_window_max(&plan, frame_time, interval),
            frame_memory_max_bytes: u64::MAX,
            limits_checked_until: Picos::ZERO,
            windows: 0,
            joint_windows: 0,
            joint_records: EventRecords::default(),
            record_order: Vec::new(),
            thread_start: None,
            skipped: Default::default(),
            seed,
        };
        fabric.set_all_links_up();
        Ok(fabric)
    }

    fn set_all_links_up(&mut self) {
        let mut ports_of_switches = vec![Vec::new(); self.layout.switches.len()];
        for direction in self.shards.iter_mut().flat_map(|shard| &mut shard.directions) {
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
        for host in 0..self.layout.hosts.len() {
            self.change_host(host, &mut (), |_, _| ());
        }
    }
}

/// Creates the shards of a fabric with their switches and hosts, without links.
fn new_shards(
    plan: &FabricPlan,
    layout: &Layout,
    frame_time: Picos,
    lookahead: Picos,
) -> Result<Vec<Shard>, PlanError> {
    let count_in = |nodes: &[NodeIndex], shard: usize| {
        let of_shard = nodes.iter().filter(|node| node.shard as usize == shard);
        of_shard.count()
    };
    let new_shard = |shard: usize| {
        let hosts = count_in(&layout.hosts, shard);
        let switches = count_in(&layout.switches, shard);
        let partitions = Partitions::new(hosts);
        let pending = PendingEvents::new(partitions.host_group_count() + switches, frame_time, lookahead);
        Shard {
            number: shard as u32,
            now: Picos::ZERO,
            store: FabricStore::new(SliceSizes::new(frame_time, pending.window_max())),
            pending,
            partitions,
            receivers: Arc::new([]),
            switches: Vec::with_capacity(switches),
            inner_switches: layout.inner_switches[shard],
            hosts: Vec::with_capacity(hosts),
            completing_hosts: Vec::new(),
            directions: Vec::new(),
            outputs: Outputs::with_capacity(64),
            buffer: Vec::new(),
            counters: ShardCounters::default(),
            observed: ObservedEvents::NONE,
            records: EventRecords::default(),
            outboxes: (0..layout.shard_count).map(|_| Outbox::default()).collect(),
            inboxes: (0..layout.shard_count).map(|_| Vec::new()).collect(),
            first_mail: Picos::NEVER,
            due_partitions: Vec::new(),
            added_partitions: Vec::new(),
            insertions: None,
        }
    };
    let mut shards: Vec<Shard> = (0..layout.shard_count).map(new_shard).collect();
    let mut order: Vec<usize> = (0..plan.switches.len()).collect();
    order.sort_by_key(|number| layout.switches[*number].local);
    for number in order {
        let (config, position) = (&plan.switches[number], layout.switches[number]);
        let mut node = SwitchNode {
            switch: Switch::new(config),
            cpu: CpuPort::default(),
            journal: Journal::default(),
            number: number as u32,
            directions: vec![NO_LINK; config.ports.len()],
            config: Arc::clone(config),
        };
        node.cpu.reconfigure(&mut node.switch, &node.config.routing);
        node.cpu.attach_lldp(&mut node.switch, node.config.lldp.as_ref());
        shards[position.shard as usize].switches.push(node);
    }
    for ((number, config), position) in plan.hosts.iter().enumerate().zip(&layout.hosts) {
        shards[position.shard as usize].hosts.push(HostNode {
            host: Host::new(config)?,
            number: number as u32,
            direction: NO_LINK,
            armed: Picos::NEVER,
            pending_at: [Picos::NEVER; 2],
            busy: false,
            timer_armed: Picos::NEVER,
            is_completing: false,
            reported_counts: HostEventCounts::default(),
        });
    }
    Ok(shards)
}

/// Adds both directions of a link.
fn add_link(
    link: &LinkPlan,
    layout: &mut Layout,
    shards: &mut [Shard],
    receivers: &mut Vec<Receiver>,
) -> Result<(), PlanError> {
    for (from, to) in [(link.ends[0], link.ends[1]), (link.ends[1], link.ends[0])] {
        let no_such_end = |end| PlanError::NoSuchEnd {
            link: link.name.clone(),
            end,
        };
        let number = receivers.len() as u32;
        let NodeIndex { shard, local } = layout.node(from).ok_or_else(|| no_such_end(from))?;
        let receiver = receiver(layout, shards, to).ok_or_else(|| no_such_end(to))?;
        let shard_number = shard;
        let shard = &mut shards[shard as usize];
        let new_direction = shard.directions.len() as u32;
        let (direction, timing) = match from {
            LinkEnd::Switch { port, .. } => {
                let node = &mut shard.switches[local as usize];
                let config = node
                    .config
                    .ports
                    .get(usize::from(port))
                    .ok_or_else(|| no_such_end(from))?;
                (&mut node.directions[usize::from(port)], config.link)
            }
            LinkEnd::Host(_) => {
                let node = &mut shard.hosts[local as usize];
                (&mut node.direction, *node.host.link())
            }
        };
        if *direction != NO_LINK {
            return Err(PlanError::EndInUse {
                link: link.name.clone(),
                end: from,
            });
        }
        *direction = new_direction;
        let to = (receiver.shard, receiver.partition);
        shard
            .directions
            .push(LinkDirection::new(number, from, to, link.delay, timing));
        layout.directions.push(NodeIndex {
            shard: shard_number,
            local: new_direction,
        });
        receivers.push(receiver);
    }
    Ok(())
}

/// Returns the receiving end of a link direction. Returns `None` if its node does not exist.
fn receiver(layout: &Layout, shards: &[Shard], to: LinkEnd) -> Option<Receiver> {
    let NodeIndex { shard, local } = layout.node(to)?;
    let to = match to {
        LinkEnd::Switch { port, .. } => LinkEnd::Switch { switch: local, port },
        LinkEnd::Host(_) => LinkEnd::Host(local),
    };
    let partition = shards[shard as usize].partitions.partition_of(to) as u32;
    Some(Receiver { to, shard, partition })
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

/// Returns a number that the events of a window of all shards do not reach. Each frame on a link causes two events: the
/// end of its transmission and its arrival. The timers of a node have a few events for each microsecond, and timers of
/// ports are at the ends of frames and pauses.
fn events_per_window_max(plan: &FabricPlan, frame_time: Picos, interval: Picos) -> u64 {
    let frames = interval.0 / frame_time.0.max(1) + 2;
    let directions = 2 * plan.links.len() as u64;
    let nodes = (plan.hosts.len() + plan.switches.len()) as u64;
    let timers = 64 * (nodes + directions);
    directions
        .saturating_mul(frames)
        .saturating_mul(2)
        .saturating_add(timers)
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
