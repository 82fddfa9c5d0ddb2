//! Transmission: moves frames from the queues to the link.

use super::Switch;
use super::port::Port;
use super::timers::{self, Owner, TimerKind, Timers};
use crate::balance::LoadBalancer;
use crate::config::MarkPoint;
use crate::egress::{Choice, FrameTable, QueuedFrame, SharedCharges};
use crate::frame::{Handle, Store};
use crate::ids::{PRIORITIES, PgId, PortId, QueueId, TimerId};
use crate::mmu::Mmu;
use crate::outputs::{Outputs, Transmit};
use crate::pfc::bits;
use xoff_units::Picos;
use xoff_wire::mac_control;
use xoff_wire::parse::Payload;
use xoff_wire::rewrite;

/// Delay before a pause frame is tried again for which no frame slot was free.
const NO_SLOT_RETRY: Picos = Picos::from_micros(10);

impl Switch {
    /// Handles an expired deadline. `now` may be later than the requested time. The delay counts as transmit
    /// deficit if a frame could have left in that time.
    #[inline(never)] // one body for every driver, with the whole of a departure in it
    pub fn expire<S: Store>(&mut self, now: Picos, timer: TimerId, store: &mut S, outputs: &mut Outputs) {
        let port = timers::transmitter(timer);
        let Some((index, mut sender)) = port.and_then(|index| Some((index, self.sender(index)?))) else {
            return self.expire_other(now, timer, store, outputs);
        };
        let state = &mut *sender.state;
        let (port, due) = (PortId(index as u16), state.transmit_due);
        if due > now {
            return; // overtaken
        }
        state.transmit_due = Picos::NEVER;
        if state.free_at == Picos::NEVER {
            let until = state.occupied_until;
            if until > now {
                // An earlier deadline was requested for another reason, such as a shaper.
                return state.arm_transmit(port, until, outputs);
            }
            state.free_at = until;
        }
        if state.awaits_link(now, port, outputs) {
            return;
        }
        if state.owes_control() {
            return self.serve(now, port, due, store, outputs);
        }
        sender.send_queued(now, port, due, store, outputs);
        if !self.resumed.is_empty() {
            self.resume_groups(now, store, outputs);
        }
    }

    /// Handles an expired deadline that does not belong to transmissions.
    #[inline(never)]
    fn expire_other<S: Store>(&mut self, now: Picos, timer: TimerId, store: &mut S, outputs: &mut Outputs) {
        let (port, kind) = match self.timers.fire(now, timer) {
            None => return, // overtaken
            Some(Owner::Port(port, kind)) => (port, kind),
            Some(Owner::Neighbours) => return self.ask_neighbours(now, store, outputs),
            Some(Owner::Watchdog) => return self.poll_watchdog(now, store, outputs),
            Some(Owner::LinkQuality) => return self.advertise(now, store, outputs),
        };
        let state = &mut self.ports[port.index()];
        match kind {
            TimerKind::PauseExpiry => {
                state.receiver.expire(now);
                state.whole_port.expire(now);
                let next = state.next_pause_change();
                self.timers.arm(port, TimerKind::PauseExpiry, next, outputs);
                let resumed = self.pauses_changed(now, port, outputs);
                if resumed {
                    self.kick(now, port, store, outputs);
                }
            }
            TimerKind::PauseRefresh => {
                state.generator.refresh_due(now);
                let next = state.generator.refresh_at();
                self.timers.arm(port, TimerKind::PauseRefresh, next, outputs);
                self.kick_control(now, port, store, outputs);
            }
        }
    }

    /// Starts the next transmission of a port if its link is free. Otherwise requests a deadline for the end
    /// of the current transmission.
    #[inline(always)]
    pub(super) fn kick<S: Store>(&mut self, now: Picos, port: PortId, store: &mut S, outputs: &mut Outputs) {
        let state = &mut self.ports[port.index()];
        if !state.awaits_link(now, port, outputs) {
            self.serve_at_once(now, port, store, outputs);
        }
    }

    /// Starts the next transmission of a port with a free link. The transmission was due at `due`. The time
    /// since then, as far as the link was free, counts as transmit deficit.
    #[inline(never)]
    fn serve<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        due: Picos,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        if self.ports[port.index()].owes_control() && self.send_control(now, port, store, outputs) {
            return;
        }
        if let Some(mut sender) = self.sender(port.index()) {
            sender.send_queued(now, port, due, store, outputs);
        }
        if !self.resumed.is_empty() {
            self.resume_groups(now, store, outputs);
        }
    }

    /// As [`Switch::transmit_next`], with the due time of the port.
    #[inline(always)]
    pub(super) fn serve_at_once<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let due = self.ports[port.index()].transmit_due;
        self.serve(now, port, due, store, outputs);
    }

    /// Sends a frame that was just charged and finds its port [idle](Port::is_idle). The result is the same
    /// as queueing and dequeueing it.
    #[inline(never)]
    pub(super) fn pass_through<S: Store>(
        &mut self,
        now: Picos,
        id: QueueId,
        frame: &QueuedFrame,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let state = &mut self.ports[id.port().index()];
        state.late_ps += now.since(state.transmit_due.max(state.free_at)).0;
        release(
            &mut self.mmu,
            self.frames.charges_mut(),
            frame,
            id,
            &mut self.resumed,
        );
        state.scheduler.passed_through(usize::from(id.number()));
        let departure = Departure {
            now,
            id,
            frame,
            behind: 0,
            behind_at_port: 0,
            more: false,
        };
        let mut exit = Exit {
            state,
            balance: &mut self.balance,
            timers: &mut self.timers,
            mark_point: self.mark_point,
        };
        exit.leave(departure, store, outputs);
        if !self.resumed.is_empty() {
            self.resume_groups(now, store, outputs);
        }
    }

    /// Borrows the state that a transmission of a port needs. `None`: the port does not exist.
    #[inline(always)]
    fn sender(&mut self, port: usize) -> Option<Sender<'_>> {
        Some(Sender {
            state: self.ports.get_mut(port)?,
            frames: &mut self.frames,
            mmu: &mut self.mmu,
            balance: &mut self.balance,
            timers: &mut self.timers,
            resumed: &mut self.resumed,
            mark_point: self.mark_point,
            pipeline_latency: self.pipeline_latency,
        })
    }

    /// As [`Switch::try_transmit`], for MAC control frames only. Called where only the link can hold up data
    /// frames, so that transmissions do not nest.
    pub(super) fn kick_control<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let state = &mut self.ports[port.index()];
        if !state.up || !state.owes_control() {
            return;
        }
        if state.free_at > now {
            return state.arm_transmit(port, state.free_at, outputs);
        }
        self.send_control(now, port, store, outputs);
    }

    /// Releases the cells of a discarded frame. Groups that may resume are added to `self.resumed`.
    pub(super) fn release(&mut self, frame: &QueuedFrame, queue: QueueId) {
        self.mmu.release_egress(queue, frame.cells());
        if let Some((pg, cells)) = self.frames.settle(frame.charge()) {
            self.mmu.release_ingress(pg, cells, &mut self.resumed);
        }
    }

    /// Removes the first frame of a queue, to drop it.
    pub(super) fn unqueue(&mut self, queue: QueueId) -> Option<QueuedFrame> {
        let fifo = &mut self.ports[queue.port().index()].fifos[usize::from(queue.number())];
        self.frames.pop(queue.port(), fifo)
    }

    /// Sends XON for the groups in `self.resumed`.
    #[cold]
    pub(super) fn resume_groups<S: Store>(&mut self, now: Picos, store: &mut S, outputs: &mut Outputs) {
        for index in 0..self.resumed.len() {
            let pg = self.resumed[index];
            let congested = self.congested(pg.port());
            let state = &mut self.ports[pg.port().index()];
            let resumed = state.asks_for(pg.number()) & !congested;
            state.generator.xon(now, resumed);
            self.kick_control(now, pg.port(), store, outputs);
        }
        self.resumed.clear();
    }

    /// Sends a pause frame, or otherwise a MAC control frame.
    #[cold]
    fn send_control<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> bool {
        let state = &mut self.ports[port.index()];
        if state.generator.owes() {
            return self.send_pause(now, port, store, outputs);
        }
        let Some(frame) = state.control.pop_front() else {
            return false;
        };
        let duration = state.control_duration(store.frame_len(frame));
        let leaving = Leaving::control(frame, duration);
        occupy(state, now, port, leaving, state.has_work(), outputs);
        true
    }

    #[cold]
    fn send_pause<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> bool {
        let state = &mut self.ports[port.index()];
        let Some(frame) = store.allocate(mac_control::FRAME_LEN) else {
            state.arm_transmit(port, now.saturating_add(NO_SLOT_RETRY), outputs);
            return false;
        };
        let Some(pause) = state.generator.take(now) else {
            store.release(frame);
            return false;
        };
        if let Some(bytes) = store.prefix_mut(frame).first_chunk_mut() {
            pause.emit(state.mac, bytes);
        }
        state.count_pause_sent(&pause);
        let refresh_at = state.generator.refresh_at();
        let duration = state.pause_duration();
        self.timers
            .arm(port, TimerKind::PauseRefresh, refresh_at, outputs);
        let leaving = Leaving::control(frame, duration);
        occupy(state, now, port, leaving, state.has_work(), outputs);
        true
    }
}

/// The state that a transmission needs, borrowed once.
struct Sender<'a> {
    state: &'a mut Port,
    frames: &'a mut FrameTable,
    mmu: &'a mut Mmu,
    balance: &'a mut LoadBalancer,
    timers: &'a mut Timers,
    resumed: &'a mut Vec<PgId>,
    mark_point: MarkPoint,
    pipeline_latency: Picos,
}

impl Sender<'_> {
    /// Sends the next frame of a port with a free link, if a queue may send. Groups that may resume are added
    /// to `resumed`.
    #[inline(always)]
    fn send_queued<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        due: Picos,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let state = &mut *self.state;
        let sendable = state.sendable();
        let queue = match choose(state, self.frames, sendable, now, self.pipeline_latency) {
            Choice::Queue(queue) => queue % PRIORITIES,
            Choice::Wait(Picos::NEVER) => return,
            Choice::Wait(until) => return state.arm_transmit(port, until, outputs),
        };
        let Some(taken) = self.frames.take(port, &mut state.fifos[queue]) else {
            return;
        };
        let (frame, charges) = (taken.frame, taken.charges);
        let id = QueueId::new(port, queue as u8);
        let mac_len = frame.mac_len();
        state.late_ps += now.since(due.max(state.free_at)).0;
        release(self.mmu, charges, frame, id, self.resumed);
        let behind = state.fifos[queue].bytes();
        if behind == 0 {
            state.backlog &= !(1 << queue);
        }
        state.scheduler.sent(now, queue, mac_len, behind == 0);
        if let Some(shaper) = &mut state.shaper {
            shaper.spend(now, mac_len);
        }
        let others = sendable & !(u8::from(behind == 0) << queue);
        let departure = Departure {
            now,
            id,
            frame,
            behind,
            behind_at_port: taken.behind_at_port,
            more: others != 0 || state.owes_control(),
        };
        let mut exit = Exit {
            state,
            balance: self.balance,
            timers: self.timers,
            mark_point: self.mark_point,
        };
        exit.leave(departure, store, outputs);
    }
}

/// A frame that starts to leave, and the bytes that remain behind it.
struct Departure<'a> {
    now: Picos,
    id: QueueId,
    frame: &'a QueuedFrame,
    /// Bytes that wait behind the frame in its queue.
    behind: u64,
    /// Bytes that wait in all queues of the port.
    behind_at_port: u64,
    /// True if another frame could leave after this one.
    more: bool,
}

/// The state for the last steps of a transmission.
struct Exit<'a> {
    state: &'a mut Port,
    balance: &'a mut LoadBalancer,
    timers: &'a mut Timers,
    mark_point: MarkPoint,
}

impl Exit<'_> {
    /// Decides about the ECN mark, counts the frame, and puts it on the link.
    #[inline(always)]
    fn leave<S: Store>(&mut self, departure: Departure<'_>, store: &mut S, outputs: &mut Outputs) {
        let state = &mut *self.state;
        let Departure { now, id, frame, .. } = departure;
        let (port, queue) = (id.port(), usize::from(id.number()));
        let (handle, mac_len) = (frame.frame, frame.mac_len());
        let marked = frame.is_ecn_capable()
            && self.mark_point == MarkPoint::Dequeue
            && state.decide_mark(queue, departure.behind)
            && {
                let header = (frame.l3_offset, frame.payload);
                mark(state, queue, handle, mac_len, header, store)
            };
        let duration = state.link.occupied(mac_len);
        state.count_departure(now, queue, frame, duration);
        if self.balance.measures_load() {
            let wire_len = state.link.timing().wire_len(mac_len);
            self.balance
                .loads_mut()
                .record_departure(now, port.index(), wire_len, departure.behind_at_port);
            if self.balance.advertiser().needs_wake() {
                let at = self.balance.advertiser_mut().wake(now);
                self.timers.arm_link_quality(at, outputs);
            }
        }
        let leaving = Leaving {
            frame: handle,
            duration,
            marked,
        };
        occupy(state, now, port, leaving, departure.more, outputs);
    }
}

/// A frame that is put on the link.
struct Leaving {
    frame: Handle,
    duration: Picos,
    marked: bool,
}

impl Leaving {
    fn control(frame: Handle, duration: Picos) -> Leaving {
        Leaving {
            frame,
            duration,
            marked: false,
        }
    }
}

/// Selects a queue among `candidates`: its first frame has passed the pipeline, and its shaper permits it.
#[inline(always)]
fn choose(state: &mut Port, frames: &FrameTable, mut candidates: u8, now: Picos, pipeline: Picos) -> Choice {
    if candidates == 0 {
        return Choice::Wait(Picos::NEVER);
    }
    if let Some(shaper) = &state.shaper
        && shaper.ready_at() > now
    {
        return Choice::Wait(shaper.ready_at());
    }
    let fifos = &state.fifos;
    let mut ready_at = Picos::NEVER;
    if pipeline > Picos::ZERO {
        for n in bits(candidates) {
            let ready = frames.head(&fifos[n]).map_or(Picos::NEVER, |f| f.ready_at);
            if ready > now {
                candidates &= !(1 << n);
                ready_at = ready_at.min(ready);
            }
        }
    }
    let head_len = |n: usize| fifos[n % PRIORITIES].head_len();
    match state.scheduler.choose(now, candidates, head_len) {
        Choice::Wait(until) => Choice::Wait(until.min(ready_at)),
        queue => queue,
    }
}

/// Occupies the link with a frame from `now` on. `more`: another frame could leave after it.
#[inline(always)]
fn occupy(state: &mut Port, now: Picos, port: PortId, leaving: Leaving, more: bool, outputs: &mut Outputs) {
    let end = now.saturating_add(leaving.duration);
    state.free_at = end;
    outputs.transmits.push(Transmit {
        port,
        frame: leaving.frame,
        start: now,
        end,
        marked: leaving.marked,
    });
    if state.frees_by_deadline {
        (state.free_at, state.occupied_until) = (Picos::NEVER, end);
        state.arm_transmit(port, end, outputs);
    } else if more {
        state.arm_transmit(port, end, outputs);
    }
}

/// Releases the cells of a frame at ingress and egress.
#[inline(always)]
fn release(
    mmu: &mut Mmu,
    charges: &mut SharedCharges,
    frame: &QueuedFrame,
    queue: QueueId,
    resumed: &mut Vec<PgId>,
) {
    mmu.release_egress(queue, frame.cells());
    if let Some((pg, cells)) = charges.settle(frame.charge()) {
        mmu.release_ingress(pg, cells, resumed);
    }
}

/// Marks a frame CE and counts it. Returns false if the frame has no ECN field. `header` is the offset and
/// kind of the layer 3 header.
#[inline(never)]
pub(super) fn mark<S: Store>(
    state: &mut Port,
    queue: usize,
    frame: Handle,
    mac_len: u32,
    (l3_offset, payload): (u8, Payload),
    store: &mut S,
) -> bool {
    let l3 = store.prefix_mut(frame).get_mut(usize::from(l3_offset)..);
    let marked = l3.is_some_and(|l3| rewrite::mark_ce(l3, payload));
    if marked {
        state.counters.ecn_marked += 1;
        let counters = &mut state.counters.queues[queue];
        counters.wred_ecn_marked_packets += 1;
        counters.wred_ecn_marked_bytes += u64::from(mac_len);
    }
    marked
}
