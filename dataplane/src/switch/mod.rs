//! The switch: ports, buffer, bridge and router, driven by received frames and expired deadlines.

mod acl;
mod address_learning;
mod admission;
mod advertising;
mod balancing;
mod control_frames;
mod egress_target;
mod fast_path;
mod flood;
mod ingress;
mod links;
mod mac_control;
mod mac_control_log;
mod mtu;
mod negotiation;
mod neighbour_resolution;
mod own_frames;
mod pauses;
mod port;
mod port_counters;
mod port_rules;
mod prefetching;
mod reading;
mod routing;
mod timers;
mod traffic_counters;
mod transmission;
mod trimming;
mod watchdog;

use std::fmt;
use std::sync::Arc;

pub use balancing::FlowAnnouncement;
pub use ingress::FLOOD_PREFIX_BYTES;
pub use mac_control_log::{CONTROL_RECORD_BYTES, CONTROL_RECORDS_MAX, ControlRecord};

use crate::balance::{LoadBalancer, ReorderTracker};
use crate::bridge::{Fdb, VlanTable};
use crate::config::{EcnMarkPoint, SwitchConfig};
use crate::egress::FrameTable;
use crate::frame::{FrameHandle, FrameStore};
use crate::ids::{PRIORITIES, PgId, PortId, QueueId};
use crate::lag::LagTable;
use crate::mmu::Mmu;
use crate::outputs::Outputs;
use crate::route::{Fib, NeighbourId, Router};
use balancing::new_reordering;
use control_frames::{CONTROL_FRAMES_MAX, ControlFrames};
use egress_target::EgressTarget;
use mac_control_log::ControlLog;
use port::Port;
use port_rules::DistinctPortRules;
use timers::Timers;
use trimming::TrimmingRules;
use watchdog::Watchdog;
use xoff_units::Picos;

/// A switch. The caller calls one method with the current model time, drains the [`Outputs`], and then calls
/// the next method. The time must not be earlier than the time of the previous call. Methods panic if the
/// switch has no port, queue, priority group or pool with the given index.
#[derive(Debug)]
#[repr(C, align(64))] // the fields that each frame uses come first
pub struct Switch {
    ports: Vec<Port>,
    pipeline_latency: Picos,
    /// Counters of packets that arrived out of order. `None` if the configuration does not enable
    /// these counters.
    reordering: Option<Box<ReorderTracker>>,
    /// The egress ports at which the latest received frame was marked CE.
    marked_on_arrival: Vec<PortId>,
    mmu: Mmu,
    frames: FrameTable,
    /// Reused buffer: priority groups that may resume after cells were released.
    resumed: Vec<PgId>,
    mark_point: EcnMarkPoint,
    router: Router,
    balance: LoadBalancer,
    name: String,
    port_names: Vec<String>,
    cell_bytes: u32,
    fdb: Fdb,
    vlans: VlanTable,
    timers: Timers,
    trimming: TrimmingRules,
    lags: LagTable,
    /// For each port and then each LAG: whether it was up at the last update of links.
    was_up_at_last_update: Vec<bool>,
    /// True if a CPU handles frames to the switch's own addresses. Otherwise these frames are dropped.
    cpu_attached: bool,
    /// True if the CPU receives frames to reserved group addresses. Otherwise these frames are dropped.
    protocols_attached: bool,
    control_log: ControlLog,
    watchdog: Watchdog,
    /// Reused buffer: egress targets of a flooded frame.
    targets: Vec<EgressTarget>,
    /// Reused buffer: neighbours that were just resolved, and whose held frames can be forwarded.
    found: Vec<NeighbourId>,
    /// Whether the memory of all tables is reserved ([`Switch::reserve_memory`]).
    reserves_memory: bool,
}

/// Traffic of one port, as input of a load measurement ([`Switch::port_load`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortTraffic {
    /// Bytes (`mac_len`) of all data frames that the port has sent since the creation of the switch,
    /// including the frame in transmission.
    pub tx_bytes: u64,
    /// Bytes (`mac_len`) of the frames that wait in the queues of the port.
    pub queued_bytes: u64,
}

/// Reason for which [`Switch::apply_config`] refuses a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The names of the ports or their order differ. A running switch cannot add, remove or rename ports.
    PortsDiffer,
    /// The cell size ([`SwitchConfig::cell_bytes`]) differs. A running switch cannot change the size of
    /// its cells.
    CellSizeDiffers,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ApplyError::PortsDiffer => {
                "ports cannot be added, removed or renamed while the switch runs; restart it with the new ports"
            }
            ApplyError::CellSizeDiffers => "the cell size cannot change while the switch runs; restart it",
        })
    }
}

impl std::error::Error for ApplyError {}

impl Switch {
    /// Creates a switch. All links are down until [`Switch::set_link`] is called. The tables grow with their use,
    /// unless [`Switch::reserve_memory`] is called.
    pub fn new(config: &SwitchConfig) -> Switch {
        let ports = config.ports.len();
        let mut rules = DistinctPortRules::default();
        let mut switch = Switch {
            name: config.name.clone(),
            ports: (0..ports)
                .map(|index| Port::new(config, index, &mut rules))
                .collect(),
            port_names: config.ports.iter().map(|p| p.name.clone()).collect(),
            mmu: Mmu::new(config),
            cell_bytes: config.cell_bytes,
            fdb: Fdb::new(config.fdb_entries_max, config.fdb_ageing),
            vlans: VlanTable::new(config),
            frames: FrameTable::new(config.frames_max, ports),
            timers: Timers::new(ports),
            mark_point: config.mark_point,
            trimming: TrimmingRules::new(config),
            pipeline_latency: config.pipeline_latency,
            lags: LagTable::new(config),
            was_up_at_last_update: vec![false; ports + config.lags.len()],
            router: Router::new(config),
            balance: LoadBalancer::new(&config.balancer_setup()),
            reordering: new_reordering(config),
            cpu_attached: false,
            protocols_attached: false,
            control_log: ControlLog::new(ports),
            watchdog: Watchdog::new(config),
            marked_on_arrival: Vec::with_capacity(ports + config.lags.len()),
            resumed: Vec::with_capacity(ports * PRIORITIES),
            targets: Vec::with_capacity(ports + config.lags.len()),
            found: Vec::with_capacity(4),
            reserves_memory: false,
        };
        switch.update_ingress_bindings();
        switch.update_lag_members();
        switch.install_fib(Arc::clone(&config.routing.fib));
        switch.start_watchdog(config);
        switch
    }

    /// Makes `config` the current configuration. Queued frames stay in their queues, and their buffer use is
    /// compared with the new limits. Learnt addresses are kept unless the VLANs or the members of LAGs
    /// change. Table sizes and the seed do not change.
    ///
    /// # Errors
    /// Returns an error, and changes nothing, if the ports or the cell size in `config` differ from those of
    /// the running switch.
    pub fn apply_config<S: FrameStore>(
        &mut self,
        now: Picos,
        config: &SwitchConfig,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<(), ApplyError> {
        if !config.ports.iter().map(|p| &p.name).eq(&self.port_names) {
            return Err(ApplyError::PortsDiffer);
        }
        if config.cell_bytes != self.cell_bytes {
            return Err(ApplyError::CellSizeDiffers);
        }
        self.name.clone_from(&config.name);
        self.mark_point = config.mark_point;
        self.trimming = TrimmingRules::new(config);
        self.pipeline_latency = config.pipeline_latency;
        self.fdb.set_ageing(config.fdb_ageing);
        let vlans = VlanTable::new(config);
        if vlans != self.vlans || !self.lags.has_same_members(config) {
            self.vlans = vlans;
            self.fdb.flush_all();
            if self.reserves_memory {
                self.reserve_fdb();
            }
        }
        self.mmu.reconfigure(config, &mut self.resumed);
        self.update_storm_counts();
        let was_up: Vec<bool> = self.ports.iter().map(|port| port.up).collect();
        let mut rules = DistinctPortRules::default();
        for (state, port) in self.ports.iter_mut().zip(&config.ports) {
            state.configure(port, config.mark_point, &mut rules);
        }
        self.lags = LagTable::new(config);
        self.resume_groups(now, store, outputs);
        self.configure_watchdog(now, config, store, outputs);
        for (index, was_up) in was_up.iter().enumerate() {
            let port = PortId(index as u16);
            self.update_pauses(now, port, outputs);
            match (*was_up, self.ports[index].up) {
                (true, false) => self.flush_port(now, port, store, outputs),
                (false, true) => {
                    self.ports[index].change_control_frames(|frames| frames.generator.announce_xoff())
                }
                _ => {}
            }
            self.try_transmit(now, port, store, outputs);
        }
        for interface in self.router.changed_interfaces(&config.routing) {
            self.remove_neighbours(now, interface, store, outputs);
        }
        self.router.configure(config);
        self.update_ingress_bindings();
        self.balance.configure(&config.balancer_setup());
        self.configure_reordering(config);
        self.install_fib(Arc::clone(&config.routing.fib));
        self.update_links(now, store, outputs);
        for (index, was_up) in was_up.into_iter().enumerate() {
            if self.ports[index].up && !was_up {
                self.advertise_to_new_peer(now, PortId(index as u16), store, outputs);
            }
        }
        Ok(())
    }

    /// Reserves the memory of all tables, so that no frame causes an allocation. Switches that forward real frames need
    /// this. A fabric in virtual time has many switches, and most of their tables stay nearly empty.
    pub fn reserve_memory(&mut self) {
        self.reserves_memory = true;
        self.reserve_fdb();
        self.frames.reserve();
        self.router.reserve();
        for port in &mut self.ports {
            port.counters.drops.reserve();
            port.change_control_frames(ControlFrames::reserve_memory);
            port.receiver.reserve_memory();
            port.whole_port.reserve_memory();
            port.watchdog.reserve_storm_statistics(0);
        }
    }

    /// Reserves the memory for learnt addresses, unless all ports are routed.
    fn reserve_fdb(&mut self) {
        if self.vlans.has_members() {
            self.fdb.reserve();
        }
    }

    /// Updates the ingress binding of each port after LAGs or router interfaces have changed.
    fn update_ingress_bindings(&mut self) {
        for (index, port) in self.ports.iter_mut().enumerate() {
            let logical = self.lags.logical_port(PortId(index as u16));
            let interface = self.router.interface_of_port(logical);
            let with_mac = |interface| (interface, self.router.interface(interface).mac);
            port.bind_ingress(logical, interface.map(with_mac));
        }
    }

    /// Blocks (`enabled` false) or unblocks all queues of a port. A blocked port still sends MAC
    /// control frames.
    pub fn set_tx_enabled<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        enabled: bool,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        self.ports[port.index()].set_tx_enabled(enabled);
        self.try_transmit(now, port, store, outputs);
    }

    /// Blocks (`enabled` false) or unblocks one queue of a port. The remaining queues share the link as if
    /// the blocked queue were empty. [`Switch::set_tx_enabled`] blocks all queues of a port. A queue sends
    /// only if both methods permit it.
    pub fn set_queue_enabled<S: FrameStore>(
        &mut self,
        now: Picos,
        queue: QueueId,
        enabled: bool,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        self.ports[queue.port().index()].set_queue_enabled(queue.number(), enabled);
        self.try_transmit(now, queue.port(), store, outputs);
    }

    /// Sends a MAC control frame unchanged, ahead of all queues. If the link is busy, the frame waits.
    ///
    /// # Errors
    /// Returns the frame if the port is down or 64 control frames already wait at the port.
    pub fn send_mac_control<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        frame: FrameHandle,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Result<(), FrameHandle> {
        let state = &mut self.ports[port.index()];
        if !state.up || state.control_frames().queue.len() >= CONTROL_FRAMES_MAX {
            return Err(frame);
        }
        state.change_control_frames(|frames| frames.queue.push_back(frame));
        state.counters.injected_control_frames += 1;
        self.try_transmit_control(now, port, store, outputs);
        Ok(())
    }

    /// Restarts the measurement of utilisation and transmit deficit on all ports. Call this method after an
    /// initial phase, such as neighbour resolution. All remaining counters keep their values.
    pub fn restart_utilisation(&mut self) {
        for port in &mut self.ports {
            port.restart_utilisation();
        }
    }

    /// Keeps the link of a port idle from `from` to `until`. A late driver calls this method if the
    /// port has missed too many transmissions to send them later. If frames wait, the time is added
    /// to [`Switch::total_transmit_delay`].
    pub fn keep_link_idle(&mut self, port: PortId, from: Picos, until: Picos) {
        let state = &mut self.ports[port.index()];
        if state.has_frames_to_send() {
            state.tx_deficit_ps += until.since(from.max(state.free_at)).0;
        }
        state.free_at = state.free_at.max(until);
    }

    /// Selects when a link becomes free. If `by_deadline` is true, the link is free when the driver passes
    /// its transmit deadline to [`Switch::expire`]. If false (the default), the link is free when the time of
    /// this deadline is reached. The results differ for a frame that arrives at exactly this time. A driver
    /// that reproduces the event order of a simulator uses true.
    pub fn set_links_free_by_deadline(&mut self, by_deadline: bool) {
        for port in &mut self.ports {
            port.frees_by_deadline = by_deadline;
            if !by_deadline && port.free_at == Picos::NEVER {
                port.free_at = port.occupied_until;
            }
        }
    }

    /// Starts or stops the recording of received MAC control frames at a port. By default, no port records.
    pub fn set_mac_control_recording(&mut self, port: PortId, enabled: bool) {
        self.control_log.set_recording(port, enabled);
    }

    /// Returns the recorded MAC control frames, oldest first, at most [`CONTROL_RECORDS_MAX`].
    pub fn mac_control_records(&self) -> impl Iterator<Item = &ControlRecord> {
        self.control_log.records()
    }

    /// Sets whether a CPU handles frames to the switch's own addresses and sends ICMP errors. Without a CPU
    /// (the default), the switch drops these frames.
    pub fn set_cpu_attached(&mut self, attached: bool) {
        self.cpu_attached = attached;
    }

    /// Sets whether a CPU handles frames to reserved group addresses, such as LLDP and LACP. Without a CPU
    /// (the default), the switch drops these frames. With a CPU, the switch also reports changes of the links
    /// ([`PuntReason::LinkChange`](crate::PuntReason::LinkChange)).
    pub fn set_protocols_attached(&mut self, attached: bool) {
        self.protocols_attached = attached;
    }

    /// Requests an entry in [`Outputs::punts`] at the time `at`, with the reason
    /// [`PuntReason::Timer`](crate::PuntReason::Timer). An earlier request that is still pending remains.
    pub fn request_cpu_timer(&mut self, at: Picos, outputs: &mut Outputs) {
        if at != Picos::NEVER {
            self.timers.arm_cpu(at, outputs);
        }
    }

    /// Makes `fib` the current version (generation) of the routes. Returns the previous version, so that the
    /// caller can free the memory of that version outside the worker thread.
    pub fn set_fib<S: FrameStore>(
        &mut self,
        now: Picos,
        fib: Arc<Fib>,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> Arc<Fib> {
        let old = self.install_fib(fib);
        self.advertise_path_changes(now, store, outputs);
        self.resolve_next_hops(now, store, outputs);
        old
    }
}
