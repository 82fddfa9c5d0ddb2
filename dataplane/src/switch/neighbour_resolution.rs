//! Frames that wait for the link address of a neighbour, and the solicitations (ARP requests and IPv6
//! neighbour solicitations) that resolve this address.

use super::Switch;
use super::ingress::FrameContext;
use crate::drops::DropReason;
use crate::frame::FrameStore;
use crate::ids::InterfaceId;
use crate::outputs::{ForwardingResult, Outputs, PuntReason};
use crate::route::{HeldFrame, NeighbourAction, NeighbourId};
use xoff_units::Picos;

impl Switch {
    /// Holds a frame until the link address of its next hop is resolved, and starts the resolution. If too
    /// many frames wait, the frame is dropped.
    #[cold]
    pub(super) fn hold_for_neighbour<S: FrameStore>(
        &mut self,
        context: &mut FrameContext,
        neighbour: NeighbourId,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> ForwardingResult {
        let verdict = match self.router.neighbours.hold_frame(neighbour, context.held_frame()) {
            Ok(()) => ForwardingResult::Held,
            Err(_) => self.drop_and_report(context, DropReason::UnresolvedNextHop, store, outputs),
        };
        self.resolve_neighbour(context.now, neighbour, store, outputs);
        verdict
    }

    /// Starts the resolution of a neighbour, unless the resolution is already in progress.
    pub(super) fn resolve_neighbour<S: FrameStore>(
        &mut self,
        now: Picos,
        neighbour: NeighbourId,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        self.router.neighbours.start_resolution(now, neighbour);
        self.process_due_neighbours(now, store, outputs);
    }

    /// Handles the timers of neighbours that are due at `now`, and requests the next deadline.
    pub(super) fn process_due_neighbours<S: FrameStore>(
        &mut self,
        now: Picos,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        while let Some(due) = self.router.neighbours.next_action(now) {
            match due {
                NeighbourAction::Solicit(id) => self.send_solicitation(now, id, store, outputs),
                NeighbourAction::Failed(id) => {
                    self.drop_held_frames(now, id, DropReason::UnresolvedNextHop, store, outputs);
                    self.router.neighbours.reset(id);
                }
            }
        }
        let next = self.router.neighbours.next_deadline();
        self.timers.arm_neighbours(next, outputs);
    }

    /// Sends one solicitation for a neighbour. If no port or frame slot is available, nothing is sent, and
    /// the next timer of the neighbour tries again.
    fn send_solicitation<S: FrameStore>(
        &mut self,
        now: Picos,
        id: NeighbourId,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let (interface, target) = (
            self.router.neighbours.interface(id),
            self.router.neighbours.address(id),
        );
        let out = self.router.interface(interface);
        let known = self.router.neighbours.resolved_link(id).map(|known| known.mac);
        let Some(request) = out
            .build_address_resolution_request(target, known)
            .filter(|_| out.up)
        else {
            return;
        };
        let mac = out.mac_bytes;
        let Some(frame) = store.allocate(request.frame_len(None)) else {
            return;
        };
        request.emit(mac, None, store.prefix_mut(frame));
        if let Err(frame) = self.send_by_interface(now, interface, frame, store, outputs) {
            store.release(frame);
        }
    }

    /// Forwards the held frames of the neighbours that were just resolved (`self.found`).
    #[cold]
    pub(super) fn forward_held_frames<S: FrameStore>(
        &mut self,
        now: Picos,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        while let Some(id) = self.found.pop() {
            for _ in 0..self.router.neighbours.held_frames_of(id) {
                let Some(held) = self.router.neighbours.take_held_frame(id) else {
                    break;
                };
                self.resume_held_frame(now, &held, store, outputs);
            }
        }
        let next = self.router.neighbours.next_deadline();
        self.timers.arm_neighbours(next, outputs);
    }

    /// Routes a held frame again, because routes may have changed since its arrival.
    #[cold]
    fn resume_held_frame<S: FrameStore>(
        &mut self,
        now: Picos,
        held: &HeldFrame,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        match (held.from, held.interface) {
            (Some(from), Some(interface)) => {
                let mut context = self.context_of_held_frame(now, from, held);
                let decision = self.route_packet(&mut context, interface, store);
                self.execute_decision(&mut context, decision, store, outputs);
            }
            _ => {
                if let Err(frame) = self.originate_packet(now, held.interface, held.frame, store, outputs) {
                    store.release(frame);
                }
            }
        }
    }

    /// Drops the frames that wait for a neighbour.
    fn drop_held_frames<S: FrameStore>(
        &mut self,
        now: Picos,
        id: NeighbourId,
        reason: DropReason,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        while let Some(held) = self.router.neighbours.take_held_frame(id) {
            let Some(from) = held.from else {
                store.release(held.frame);
                continue;
            };
            let mut context = self.context_of_held_frame(now, from, &held);
            context.interface = held.interface;
            context.icmp_error = Some(PuntReason::HostUnreachable);
            self.drop_and_report(&context, reason, store, outputs);
        }
    }

    /// Removes the learnt neighbours of an interface that was removed or is down. Also drops the frames that
    /// wait for these neighbours.
    pub(super) fn remove_neighbours<S: FrameStore>(
        &mut self,
        now: Picos,
        interface: InterfaceId,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        for id in self.router.neighbours.dynamic_neighbours_on(interface) {
            self.drop_held_frames(now, id, DropReason::L3EgressLinkDown, store, outputs);
            self.router.neighbours.reset(id);
        }
    }
}
