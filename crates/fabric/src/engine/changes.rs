//! What a script or a driver does to a fabric between two runs.

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{ApplyError, Handle, Outputs, Picos, PortId, Store, Switch};

use super::{Fabric, is_arrival, wire_of};
use crate::fault::Fault;
use crate::observer::Observer;
use crate::plan::End;
use crate::store::FabricStore;
use xoff_host::Host;
use xoff_rdma::Completion;

/// What a script or a driver does to a fabric between two runs.
impl Fabric {
    /// Brings a link up or down, by its index in the plan. What is on a link that goes down is lost.
    pub fn set_link(&mut self, link: usize, up: bool, observer: &mut impl Observer) {
        for index in [2 * link, 2 * link + 1] {
            let Some(wire) = self.wires.get_mut(index) else {
                return;
            };
            wire.up = up;
            if !up {
                self.clear_wire(index);
            }
        }
        observer.link_changed(self.now, link, up);
        for index in [2 * link, 2 * link + 1] {
            match self.wires[index].from {
                End::Switch { switch, port } => {
                    self.change_switch(switch as usize, observer, |switch, now, store, outputs| {
                        switch.set_link(now, PortId(port), up, store, outputs)
                    });
                }
                End::Host(host) => drop(self.serve_host(host as usize, false, observer)),
            }
        }
    }

    /// Takes all frames off a wire.
    fn clear_wire(&mut self, index: usize) {
        let (store, insertions) = (&self.store, self.insertions);
        let frames = self.pending.remove(|event| {
            is_arrival(event) && wire_of(event, insertions.is_some(), store) as usize == index
        });
        self.wires[index].clear(frames.len());
        for event in frames {
            self.store.release(Handle(event.what()));
        }
    }

    /// Changes a switch now, through one of its methods.
    pub fn change_switch<R>(
        &mut self,
        switch: usize,
        observer: &mut impl Observer,
        change: impl FnOnce(&mut Switch, Picos, &mut FabricStore, &mut Outputs) -> R,
    ) -> R {
        let node = &mut self.switches[switch];
        let result = change(&mut node.switch, self.now, &mut self.store, &mut self.outputs);
        self.drain(switch, observer);
        result
    }

    /// Gives a running switch another configuration; the speeds of its ports are those of their wires from then on.
    ///
    /// # Errors
    /// One that a running switch cannot take; then nothing has changed.
    pub fn configure_switch(
        &mut self,
        switch: usize,
        config: SwitchConfig,
        observer: &mut impl Observer,
    ) -> Result<(), ApplyError> {
        self.change_switch(switch, observer, |switch, now, store, outputs| {
            switch.apply(now, &config, store, outputs)
        })?;
        let node = &mut self.switches[switch];
        for (wire, port) in node.wires.iter().zip(&config.ports) {
            if let Some(wire) = self.wires.get_mut(*wire as usize) {
                wire.set_timing(port.link);
            }
        }
        node.config = config;
        node.cpu.reconfigure(&mut node.switch, &node.config.routing);
        Ok(())
    }

    /// Changes a host now, and lets it send what it then may.
    pub fn change_host<R>(
        &mut self,
        host: usize,
        observer: &mut impl Observer,
        change: impl FnOnce(&mut Host, Picos) -> R,
    ) -> R {
        let result = change(&mut self.hosts[host].host, self.now);
        self.serve_host(host, false, observer);
        result
    }

    /// Takes what the hosts have completed since the last call: in the order of hosts, and of each in its own order.
    pub fn take_completions(&mut self, mut take: impl FnMut(usize, Completion)) {
        for (index, node) in self.hosts.iter_mut().enumerate() {
            if node.host.has_completions() {
                node.host
                    .completions()
                    .for_each(|completion| take(index, completion));
            }
        }
    }

    /// Puts a frame on the wire out of `from` at once, as if a device there sent it beside its own traffic: pauses of a
    /// misbehaving peer, bad frames. False if there is no link or it is down.
    #[must_use = "false: the frame was not sent"]
    pub fn inject(&mut self, from: End, frame: &[u8], observer: &mut impl Observer) -> bool {
        let Some(index) = self.wire_from(from).filter(|index| self.wires[*index].up) else {
            return false;
        };
        let link = *self.wires[index].timing();
        let end = self.now + link.duration(link.wire_len(link.mac_len(frame.len() as u32)));
        let frame = self.store.insert(frame, frame.len() as u32);
        self.launch(index as u32, end, frame, observer);
        true
    }

    /// Adds a fault to the wire out of `from`; false if there is none.
    #[must_use = "false: there is no such wire"]
    pub fn add_fault(&mut self, from: End, fault: Fault) -> bool {
        let Some(index) = self.wire_from(from) else {
            return false;
        };
        let seed = self.seed ^ (index as u64) << 32;
        self.wires[index].faults.add(fault, seed);
        true
    }

    /// Takes the faults of the wire out of `from` away.
    pub fn clear_faults(&mut self, from: End) {
        if let Some(index) = self.wire_from(from) {
            self.wires[index].faults.clear();
        }
    }

    pub(super) fn wire_from(&self, from: End) -> Option<usize> {
        self.wires.iter().position(|wire| wire.from == from)
    }
}
