//! Changes of a fabric between two runs, made by a script or a driver.

use std::sync::Arc;

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{ApplyError, FrameHandle, FrameStore, Outputs, Picos, PortId, Switch};

use super::completions::take_completions;
use super::layout::NodeIndex;
use super::shard::{direction_of, is_arrival};
use super::{Fabric, NO_LINK};
use crate::fault::Fault;
use crate::observer::Observer;
use crate::plan::LinkEnd;
use crate::store::FabricStore;
use xoff_host::Host;
use xoff_rdma::Completion;

/// Changes between two runs.
impl Fabric {
    /// Removes all pending events and releases their memory. The state and all results stay, but the fabric cannot run
    /// any further. A report that is built afterwards can use the memory.
    pub fn discard_events(&mut self) {
        for shard in &mut self.shards {
            shard.pending.discard_all();
        }
    }

    /// Sets a link up or down. `link` is an index in [`FabricPlan::links`](crate::FabricPlan::links). An
    /// index out of range has no effect. If a link goes down, the frames on the link are lost.
    pub fn set_link(&mut self, link: usize, up: bool, observer: &mut dyn Observer) {
        for number in [2 * link, 2 * link + 1] {
            let Some(position) = self.layout.directions.get(number).copied() else {
                return;
            };
            self.shards[position.shard as usize].directions[position.local as usize].up = up;
            if !up {
                self.clear_direction(number, position);
            }
        }
        observer.link_changed(self.now, link, up);
        for number in [2 * link, 2 * link + 1] {
            let NodeIndex { shard, local } = self.layout.directions[number];
            match self.shards[shard as usize].directions[local as usize].from {
                LinkEnd::Switch { switch, port } => {
                    self.change_switch(switch as usize, observer, |switch, now, store, outputs| {
                        switch.set_link(now, PortId(port), up, store, outputs)
                    });
                }
                LinkEnd::Host(host) => {
                    self.change_host(host as usize, observer, |host, now| host.set_lldp_link(now, up))
                }
            }
        }
    }

    /// Removes all frames from a link direction.
    fn clear_direction(&mut self, number: usize, position: NodeIndex) {
        let receiver = self.receivers[number];
        let shard = &mut self.shards[receiver.shard as usize];
        let (store, is_ordered_by_insertion) = (&shard.store, shard.insertions.is_some());
        let frames = shard.pending.remove(receiver.partition as usize, |event| {
            is_arrival(event) && direction_of(event, is_ordered_by_insertion, store) as usize == number
        });
        for event in &frames {
            shard.store.release(FrameHandle(event.payload()));
        }
        self.shards[position.shard as usize].directions[position.local as usize].clear(frames.len());
    }

    /// Changes a switch at the current time: calls `change` with the switch, the time, the frame store and
    /// the outputs, and returns its result. `switch` is an index in
    /// [`FabricPlan::switches`](crate::FabricPlan::switches). Afterwards the fabric processes the outputs,
    /// such as departing frames, and `observer` sees these events.
    ///
    /// # Panics
    /// `switch` is out of range.
    pub fn change_switch<R>(
        &mut self,
        switch: usize,
        observer: &mut dyn Observer,
        change: impl FnOnce(&mut Switch, Picos, &mut FabricStore, &mut Outputs) -> R,
    ) -> R {
        self.observe_for(observer);
        let NodeIndex { shard, local } = self.layout.switches[switch];
        let shard = &mut self.shards[shard as usize];
        let node = &mut shard.switches[local as usize];
        let result = change(&mut node.switch, shard.now, &mut shard.store, &mut shard.outputs);
        shard.process_outputs(local as usize, observer);
        self.take_all_mail();
        result
    }

    /// Applies a new configuration to a running switch. `switch` is an index in
    /// [`FabricPlan::switches`](crate::FabricPlan::switches). Each link direction gets the speed of its
    /// sending port. Queued frames stay in their queues.
    ///
    /// # Errors
    /// Returns an error if a running switch cannot accept the configuration, for example with other ports. In
    /// this case, nothing has changed.
    ///
    /// # Panics
    /// `switch` is out of range.
    pub fn configure_switch(
        &mut self,
        switch: usize,
        config: Arc<SwitchConfig>,
        observer: &mut dyn Observer,
    ) -> Result<(), ApplyError> {
        self.change_switch(switch, observer, |switch, now, store, outputs| {
            switch.apply_config(now, &config, store, outputs)
        })?;
        let NodeIndex { shard, local } = self.layout.switches[switch];
        let shard = &mut self.shards[shard as usize];
        let node = &mut shard.switches[local as usize];
        for (direction, port) in node.directions.iter().zip(&config.ports) {
            if let Some(direction) = shard.directions.get_mut(*direction as usize) {
                direction.set_timing(port.link);
            }
        }
        node.config = config;
        node.cpu.reconfigure(&mut node.switch, &node.config.routing);
        node.cpu.configure_lldp(
            shard.now,
            node.config.lldp.as_ref(),
            &mut node.switch,
            &mut shard.store,
            &mut shard.outputs,
        );
        shard.process_outputs(local as usize, observer);
        self.take_all_mail();
        Ok(())
    }

    /// Changes a host at the current time: calls `change` with the host and the time, and returns its result.
    /// `host` is an index in [`FabricPlan::hosts`](crate::FabricPlan::hosts). Afterwards the host sends the
    /// packets that it may send now, and `observer` sees these events.
    ///
    /// # Panics
    /// `host` is out of range.
    pub fn change_host<R>(
        &mut self,
        host: usize,
        observer: &mut dyn Observer,
        change: impl FnOnce(&mut Host, Picos) -> R,
    ) -> R {
        self.observe_for(observer);
        let NodeIndex { shard, local } = self.layout.hosts[host];
        let result = self.shards[shard as usize].change_host(local as usize, observer, change);
        self.take_all_mail();
        result
    }

    /// Calls `take` for each completion since the previous call of this method. The arguments are the index
    /// of the host in [`FabricPlan::hosts`](crate::FabricPlan::hosts) and the completion. Completions are
    /// ordered by host index. The completions of one host are ordered by time.
    pub fn take_completions(&mut self, take: impl FnMut(usize, Completion)) {
        take_completions(&mut self.shards, take);
    }

    /// Sends a frame from a link end immediately, in addition to the traffic of the device at this end.
    /// `frame` has no FCS. Scripts use this method to send pauses of a faulty peer and malformed frames.
    /// Returns `false` if the link does not exist or is down.
    #[must_use = "false: the frame was not sent"]
    pub fn inject(&mut self, from: LinkEnd, frame: &[u8], observer: &mut dyn Observer) -> bool {
        let Some(NodeIndex { shard, local }) = self.direction_from(from) else {
            return false;
        };
        self.observe_for(observer);
        let shard = &mut self.shards[shard as usize];
        let direction = &shard.directions[local as usize];
        if !direction.up {
            return false;
        }
        let link = *direction.timing();
        let end = shard.now + link.duration(link.wire_len(link.mac_len(frame.len() as u32)));
        let frame = shard.store.insert(frame, frame.len() as u32);
        shard.start_transmission(local, end, frame, observer);
        self.take_all_mail();
        true
    }

    /// Adds a fault to the link direction that starts at `from`. Returns `false` if `from` has no link.
    #[must_use = "false: there is no such direction"]
    pub fn add_fault(&mut self, from: LinkEnd, fault: Fault) -> bool {
        let Some(NodeIndex { shard, local }) = self.direction_from(from) else {
            return false;
        };
        let direction = &mut self.shards[shard as usize].directions[local as usize];
        let seed = self.seed ^ u64::from(direction.number) << 32;
        direction.faults.add(fault, seed);
        true
    }

    /// Removes all faults of the link direction that starts at `from`.
    pub fn clear_faults(&mut self, from: LinkEnd) {
        if let Some(NodeIndex { shard, local }) = self.direction_from(from) {
            self.shards[shard as usize].directions[local as usize]
                .faults
                .clear();
        }
    }

    /// Returns the position of the link direction that starts at `from`. Returns `None` if `from` has no link.
    pub(super) fn direction_from(&self, from: LinkEnd) -> Option<NodeIndex> {
        let NodeIndex { shard, local } = self.layout.node(from)?;
        let of_shard = &self.shards[shard as usize];
        let direction = match from {
            LinkEnd::Switch { port, .. } => {
                let node = &of_shard.switches[local as usize];
                *node.directions.get(usize::from(port))?
            }
            LinkEnd::Host(_) => of_shard.hosts[local as usize].direction,
        };
        (direction != NO_LINK).then_some(NodeIndex {
            shard,
            local: direction,
        })
    }
}
