//! Link changes, and their effects on LAGs, router interfaces and next hops.

use super::Switch;
use crate::config::InterfaceAttachment;
use crate::drops::DropReason;
use crate::frame::FrameStore;
use crate::ids::{InterfaceId, LogicalPort, PRIORITIES, PortId, QueueId};
use crate::outputs::{DroppedFrame, Outputs, PuntReason, PuntedFrame};
use xoff_units::Picos;

impl Switch {
    /// Sets the link state of a port. If the link goes down, the frames that wait at the port are dropped.
    /// The state of LAGs, router interfaces and next hops is updated. If the state does not change,
    /// nothing happens.
    pub fn set_link<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        up: bool,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        if up {
            return self.set_links_up(now, &[port], store, outputs);
        }
        let state = &mut self.ports[port.index()];
        if state.link_up {
            state.link_up = false;
            state.up = false;
            self.flush_port(now, port, store, outputs);
            self.update_links(now, store, outputs);
        }
    }

    /// Sets the links of several ports up, such as all links of a fabric that starts. The result is that of
    /// [`Switch::set_link`] for each port, but LAGs, router interfaces and next hops are updated only once.
    pub fn set_links_up<S: FrameStore>(
        &mut self,
        now: Picos,
        ports: &[PortId],
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let mut changed = Vec::new();
        for &port in ports {
            let state = &mut self.ports[port.index()];
            if !state.link_up {
                state.link_up = true;
                state.up = state.admin_up;
                state.change_control_frames(|frames| frames.generator.announce_xoff());
                self.try_transmit(now, port, store, outputs);
                changed.push(port);
            }
        }
        if changed.is_empty() {
            return;
        }
        self.update_links(now, store, outputs);
        for port in changed {
            self.advertise_to_new_peer(now, port, store, outputs);
        }
    }

    pub(super) fn flush_port<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        self.end_storms_of_port(now, port, store, outputs);
        if self.balance.remote_mut().clear_port(port) {
            self.update_group_members();
        }
        self.ports[port.index()].release_pauses(now, true);
        self.apply_pause_changes(now, port, outputs);
        let state = &mut self.ports[port.index()];
        state.change_control_frames(|frames| frames.generator.discard_pending());
        state.scheduler.clear_deficits();
        state.backlogged_queues = 0;
        while let Some(frame) = state.change_control_frames(|frames| frames.queue.pop_front()) {
            store.release(frame);
        }
        for queue in 0..PRIORITIES {
            while let Some(frame) = self.remove_queue_head(QueueId::new(port, queue as u8)) {
                self.release_frame_cells(&frame, QueueId::new(port, queue as u8));
                store.release(frame.frame);
                self.ports[port.index()].count_trimmed_drop(&frame);
                self.ports[port.index()].count_drop(&DroppedFrame {
                    reason: DropReason::PortFlushed,
                    port,
                    tc: frame.tc,
                    mac_len: frame.mac_len(),
                    refusal: None,
                });
            }
        }
        self.resume_groups(now, store, outputs);
    }

    /// Updates LAGs, router interfaces, routes and load balancing after the state of a port, LAG or interface
    /// may have changed.
    pub(super) fn update_links<S: FrameStore>(&mut self, now: Picos, store: &mut S, outputs: &mut Outputs) {
        self.lags
            .update_active_members(|port| self.ports[port.index()].up);
        for index in 0..self.ports.len() {
            let port = PortId(index as u16);
            let logical = self.lags.logical_port(port);
            self.ports[index].lag_down = logical != LogicalPort(port.0) && !self.is_logical_port_up(logical);
        }
        self.was_up_at_last_update
            .resize(self.ports.len() + self.lags.count(), false);
        for index in 0..self.was_up_at_last_update.len() {
            let logical = LogicalPort(index as u16);
            let up = self.is_logical_port_up(logical);
            if core::mem::replace(&mut self.was_up_at_last_update[index], up) && !up {
                self.fdb.flush_port(logical);
            }
        }
        let mut changed = false;
        for index in 0..self.router.interfaces().len() {
            let up = self.is_attachment_up(self.router.interfaces()[index].attachment);
            if !self.router.set_interface_up(InterfaceId(index as u16), up) {
                continue;
            }
            changed = true;
            if !up {
                self.remove_neighbours(now, InterfaceId(index as u16), store, outputs);
            }
        }
        if changed {
            self.router.refresh_paths();
            self.update_group_members();
        }
        self.update_lag_members();
        self.advertise_path_changes(now, store, outputs);
        self.resolve_next_hops(now, store, outputs);
        if self.protocols_attached {
            outputs
                .punts
                .push(PuntedFrame::without_frame(PuntReason::LinkChange));
        }
    }

    /// Resolves the link addresses of all next hops on interfaces that are up, before the first packet
    /// needs them.
    pub(super) fn resolve_next_hops<S: FrameStore>(
        &mut self,
        now: Picos,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        for index in 0..self.router.interfaces().len() {
            if self.router.interfaces()[index].up {
                for hop in self.router.next_hop_neighbours_on(InterfaceId(index as u16)) {
                    self.router.neighbours.start_resolution(now, hop);
                }
            }
        }
        self.process_due_neighbours(now, store, outputs);
    }

    fn is_logical_port_up(&self, logical: LogicalPort) -> bool {
        match logical.index().checked_sub(self.ports.len()) {
            None => self.ports[logical.index()].up,
            Some(group) => self.lags.is_lag_up(group),
        }
    }

    fn is_attachment_up(&self, attachment: InterfaceAttachment) -> bool {
        match attachment {
            InterfaceAttachment::Port(port) => self.is_logical_port_up(LogicalPort(port)),
            InterfaceAttachment::Lag(lag) => self.lags.is_lag_up(usize::from(lag)),
            InterfaceAttachment::Vlan(vlan) => {
                let mut members = self.vlans.members(vlan).iter();
                members.any(|&member| self.is_logical_port_up(member))
            }
            InterfaceAttachment::Loopback => true,
        }
    }
}
