//! Changes of a fabric between two runs, made by a script or a driver.

use std::sync::Arc;

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{ApplyError, FrameHandle, FrameStore, Outputs, Picos, PortId, Switch};

use super::{Fabric, NO_LINK, direction_of, is_arrival};
use crate::fault::Fault;
use crate::observer::Observer;
use crate::plan::LinkEnd;
use crate::store::FabricStore;
use xoff_host::Host;
use xoff_rdma::Completion;

/// Changes between two runs.
impl Fabric {
    /// Sets a link up or down. `link` is an index in [`FabricPlan::links`](crate::FabricPlan::links). An
    /// index out of range has no effect. If a link goes down, the frames on the link are lost.
    pub fn set_link(&mut self, link: usize, up: bool, observer: &mut impl Observer) {
        for index in [2 * link, 2 * link + 1] {
            let Some(direction) = self.directions.get_mut(index) else {
                return;
            };
            direction.up = up;
            if !up {
                self.clear_direction(index);
            }
        }
        observer.link_changed(self.now, link, up);
        for index in [2 * link, 2 * link + 1] {
            match self.directions[index].from {
                LinkEnd::Switch { switch, port } => {
                    self.change_switch(switch as usize, observer, |switch, now, store, outputs| {
                        switch.set_link(now, PortId(port), up, store, outputs)
                    });
                }
                LinkEnd::Host(host) => {
                    let has_completions = self.serve_host(host as usize, false, observer);
                    self.record_completing(host as usize, has_completions);
                }
            }
        }
    }

    /// Removes all frames from a link direction.
    fn clear_direction(&mut self, index: usize) {
        let (store, insertions) = (&self.store, self.insertions);
        let partition = self.directions[index].to_partition as usize;
        let frames = self.pending.remove(partition, |event| {
            is_arrival(event) && direction_of(event, insertions.is_some(), store) as usize == index
        });
        self.directions[index].clear(frames.len());
        for event in frames {
            self.store.release(FrameHandle(event.payload()));
        }
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
        observer: &mut impl Observer,
        change: impl FnOnce(&mut Switch, Picos, &mut FabricStore, &mut Outputs) -> R,
    ) -> R {
        let node = &mut self.switches[switch];
        let result = change(&mut node.switch, self.now, &mut self.store, &mut self.outputs);
        self.process_outputs(switch, observer);
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
        observer: &mut impl Observer,
    ) -> Result<(), ApplyError> {
        self.change_switch(switch, observer, |switch, now, store, outputs| {
            switch.apply_config(now, &config, store, outputs)
        })?;
        let node = &mut self.switches[switch];
        for (direction, port) in node.directions.iter().zip(&config.ports) {
            if let Some(direction) = self.directions.get_mut(*direction as usize) {
                direction.set_timing(port.link);
            }
        }
        node.config = config;
        node.cpu.reconfigure(&mut node.switch, &node.config.routing);
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
        observer: &mut impl Observer,
        change: impl FnOnce(&mut Host, Picos) -> R,
    ) -> R {
        let result = change(&mut self.hosts[host].host, self.now);
        let has_completions = self.serve_host(host, false, observer);
        self.record_completing(host, has_completions);
        result
    }

    /// Calls `take` for each completion since the previous call of this method. The arguments are the index
    /// of the host in [`FabricPlan::hosts`](crate::FabricPlan::hosts) and the completion. Completions are
    /// ordered by host index. The completions of one host are ordered by time.
    pub fn take_completions(&mut self, mut take: impl FnMut(usize, Completion)) {
        self.completing_hosts.sort_unstable();
        for host in self.completing_hosts.drain(..) {
            let node = &mut self.hosts[host as usize];
            node.is_completing = false;
            node.host
                .completions()
                .for_each(|completion| take(host as usize, completion));
        }
    }

    /// Sends a frame from a link end immediately, in addition to the traffic of the device at this end.
    /// `frame` has no FCS. Scripts use this method to send pauses of a faulty peer and malformed frames.
    /// Returns `false` if the link does not exist or is down.
    #[must_use = "false: the frame was not sent"]
    pub fn inject(&mut self, from: LinkEnd, frame: &[u8], observer: &mut impl Observer) -> bool {
        let Some(index) = self
            .direction_from(from)
            .filter(|index| self.directions[*index].up)
        else {
            return false;
        };
        let link = *self.directions[index].timing();
        let end = self.now + link.duration(link.wire_len(link.mac_len(frame.len() as u32)));
        let frame = self.store.insert(frame, frame.len() as u32);
        self.start_transmission(index as u32, end, frame, observer);
        true
    }

    /// Adds a fault to the link direction that starts at `from`. Returns `false` if `from` has no link.
    #[must_use = "false: there is no such direction"]
    pub fn add_fault(&mut self, from: LinkEnd, fault: Fault) -> bool {
        let Some(index) = self.direction_from(from) else {
            return false;
        };
        let seed = self.seed ^ (index as u64) << 32;
        self.directions[index].faults.add(fault, seed);
        true
    }

    /// Removes all faults of the link direction that starts at `from`.
    pub fn clear_faults(&mut self, from: LinkEnd) {
        if let Some(index) = self.direction_from(from) {
            self.directions[index].faults.clear();
        }
    }

    pub(super) fn direction_from(&self, from: LinkEnd) -> Option<usize> {
        let direction = match from {
            LinkEnd::Switch { switch, port } => {
                let node = self.switches.get(switch as usize)?;
                *node.directions.get(usize::from(port))?
            }
            LinkEnd::Host(host) => self.hosts.get(host as usize)?.direction,
        };
        (direction != NO_LINK).then_some(direction as usize)
    }
}
