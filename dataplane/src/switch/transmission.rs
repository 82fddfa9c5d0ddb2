//! Transmission: moves frames from the queues to the link.

use super::Switch;
use super::port::Port;
use super::timers::{self, TimerKind, TimerOwner, Timers};
use crate::balance::LoadBalancer;
use crate::bits::iter_set_bits;
use crate::config::EcnMarkPoint;
use crate::egress::{FrameTable, QueuedFrame, SchedulerDecision, SharedCellCharges};
use crate::frame::{FrameHandle, FrameStore};
use crate::ids::{PRIORITIES, PgId, PortId, QueueId, TimerId};
use crate::mmu::Mmu;
use crate::outputs::{Outputs, PuntReason, PuntedFrame, Transmit};
use xoff_units::Picos;
use xoff_wire::mac_control;
use xoff_wire::parse::Payload;
use xoff_wire::rewrite;

/// If no frame slot is free for a pause frame, the switch tries again after this delay.
const NO_SLOT_RETRY: Picos = Picos::from_micros(10);

impl Switch {
    /// Handles an expired deadline. `timer` is the timer of the [`Deadline`](crate::Deadline). `now` may be
    /// later than the requested time. If a frame could have left during this delay, the delay is added to
    /// [`Switch::total_transmit_delay`]. A timer that is not due is ignored.
    #[inline(never)] // one body for every driver, with the whole of a departure in it
    pub fn expire<S: FrameStore>(
        &mut self,
        now: Picos,
        timer: TimerId,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let port = timers::port_of_transmit_timer(timer);
        let Some((index, mut transmitter)) = port.and_then(|index| Some((index, self.transmitter(index)?)))
        else {
            return self.expire_non_transmit_timer(now, timer, store, outputs);
        };
        let state = &mut *transmitter.state;
        let (port, due) = (PortId(index as u16), state.transmit_due);
        if due > now {
            return; // overtaken
        }
        state.transmit_due = Picos::NEVER;
        if state.free_at == Picos::NEVER {
            let until = state.occupied_until;
            if until > now {
                // An earlier deadline was requested for another reason, such as a shaper.
                return state.schedule_transmit(port, until, outputs);
            }
            state.free_at = until;
        }
        if state.cannot_transmit(now, port, outputs) {
            return;
        }
        if state.has_control_frames() {
            return self.transmit_next(now, port, due, store, outputs);
        }
        transmitter.transmit_queued(now, port, due, store, outputs);
        if !self.resumed.is_empty() {
            self.resume_groups(now, store, outputs);
        }
    }

    /// Handles an expired deadline of a timer that is not a transmit timer.
    #[inline(never)]
    fn expire_non_transmit_timer<S: FrameStore>(
        &mut self,
        now: Picos,
        timer: TimerId,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let (port, kind) = match self.timers.take_expired(now, timer) {
            None => return, // overtaken
            Some(TimerOwner::Port(port, kind)) => (port, kind),
            Some(TimerOwner::Neighbours) => return self.process_due_neighbours(now, store, outputs),
            Some(TimerOwner::Watchdog) => return self.poll_watchdog(now, store, outputs),
            Some(TimerOwner::LinkQuality) => return self.advertise_loads(now, store, outputs),
            Some(TimerOwner::Cpu) => {
                return outputs.punts.push(PuntedFrame::without_frame(PuntReason::Timer));
            }
        };
        let state = &mut self.ports[port.index()];
        match kind {
            TimerKind::PauseExpiry => {
                state.receiver.expire(now);
                state.whole_port.expire(now);
                let next = state.next_pause_change();
                self.timers.arm(port, TimerKind::PauseExpiry, next, outputs);
                let resumed = self.apply_pause_changes(now, port, outputs);
                if resumed {
                    self.try_transmit(now, port, store, outputs);
                }
            }
            TimerKind::PauseRefresh => {
                let next = state.change_control_frames(|frames| {
                    frames.generator.schedule_refresh(now);
                    frames.generator.refresh_at()
                });
                self.timers.arm(port, TimerKind::PauseRefresh, next, outputs);
                self.try_transmit_control(now, port, store, outputs);
            }
        }
    }

    /// Starts the next transmission of a port if its link is free. Otherwise, requests a deadline for the end
    /// of the current transmission.
    #[inline(always)]
    pub(super) fn try_transmit<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let state = &mut self.ports[port.index()];
        if !state.cannot_transmit(now, port, outputs) {
            self.transmit_next_now(now, port, store, outputs);
        }
    }

    /// Starts the next transmission of a port with a free link. The transmission was due at `due`. The time
    /// since `due` during which the link was free is added to the transmit deficit.
    #[inline(never)]
    fn transmit_next<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        due: Picos,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        if self.ports[port.index()].has_control_frames() && self.transmit_control(now, port, store, outputs) {
            return;
        }
        if let Some(mut transmitter) = self.transmitter(port.index()) {
            transmitter.transmit_queued(now, port, due, store, outputs);
        }
        if !self.resumed.is_empty() {
            self.resume_groups(now, store, outputs);
        }
    }

    /// Like [`Switch::transmit_next`], but with the requested transmit time of the port as `due`.
    #[inline(always)]
    pub(super) fn transmit_next_now<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let due = self.ports[port.index()].transmit_due;
        self.transmit_next(now, port, due, store, outputs);
    }

    /// Sends a frame that was just admitted, without a queue. The egress port must be [idle](Port::is_idle).
    /// The result is the same as if the frame were queued and dequeued.
    #[inline(never)]
    pub(super) fn transmit_unqueued<S: FrameStore>(
        &mut self,
        now: Picos,
        id: QueueId,
        frame: &QueuedFrame,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let state = &mut self.ports[id.port().index()];
        state.tx_deficit_ps += now.since(state.transmit_due.max(state.free_at)).0;
        release_cells(
            &mut self.mmu,
            self.frames.shared_charges_mut(),
            frame,
            id,
            &mut self.resumed,
        );
        state.scheduler.record_unqueued_frame(usize::from(id.number()));
        let departure = DepartingFrame {
            now,
            id,
            frame,
            behind: 0,
            remaining_at_port: 0,
            more: false,
        };
        let mut link_transmitter = LinkTransmitter {
            state,
            balance: &mut self.balance,
            timers: &mut self.timers,
            mark_point: self.mark_point,
        };
        link_transmitter.transmit(departure, store, outputs);
        if !self.resumed.is_empty() {
            self.resume_groups(now, store, outputs);
        }
    }

    /// Borrows the state that a transmission of a port needs. Returns `None` if the port does not exist.
    #[inline(always)]
    fn transmitter(&mut self, port: usize) -> Option<PortTransmitter<'_>> {
        Some(PortTransmitter {
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

    /// Like [`Switch::try_transmit`], but for MAC control frames only. Callers use this method if they must
    /// not start data frames, for example inside the transmission of a data frame.
    pub(super) fn try_transmit_control<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let state = &mut self.ports[port.index()];
        if !state.up || !state.has_control_frames() {
            return;
        }
        if state.free_at > now {
            return state.schedule_transmit(port, state.free_at, outputs);
        }
        self.transmit_control(now, port, store, outputs);
    }

    /// Releases the cells of a discarded frame. Priority groups that may resume are added to `self.resumed`.
    pub(super) fn release_frame_cells(&mut self, frame: &QueuedFrame, queue: QueueId) {
        self.mmu.release_egress(queue, frame.cells());
        if let Some((pg, cells)) = self.frames.release_charge(frame.charge()) {
            self.mmu.release_ingress(pg, cells, &mut self.resumed);
        }
    }

    /// Removes the first frame of a queue, so that the caller can drop it. Returns `None` if the queue
    /// is empty.
    pub(super) fn remove_queue_head(&mut self, queue: QueueId) -> Option<QueuedFrame> {
        let fifo = &mut self.ports[queue.port().index()].fifos[usize::from(queue.number())];
        self.frames.dequeue_copy(queue.port(), fifo)
    }

    /// Sends XON for the priority groups in `self.resumed`.
    #[cold]
    pub(super) fn resume_groups<S: FrameStore>(&mut self, now: Picos, store: &mut S, outputs: &mut Outputs) {
        for index in 0..self.resumed.len() {
            let pg = self.resumed[index];
            let xoff_subjects = self.xoff_pause_targets(pg.port());
            let state = &mut self.ports[pg.port().index()];
            let resumed = state.pause_targets_of_group(pg.number()) & !xoff_subjects;
            state.change_control_frames(|frames| frames.generator.leave_xoff(now, resumed));
            self.try_transmit_control(now, pg.port(), store, outputs);
        }
        self.resumed.clear();
    }

    /// Sends a PFC or PAUSE frame if one is needed, else a waiting MAC control frame. Returns false if no
    /// frame was sent.
    #[cold]
    fn transmit_control<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> bool {
        let state = &mut self.ports[port.index()];
        if state.control_frames().generator.has_pending_frames() {
            return self.transmit_pause(now, port, store, outputs);
        }
        let Some(frame) = state.change_control_frames(|frames| frames.queue.pop_front()) else {
            return false;
        };
        let duration = state.control_duration(store.frame_len(frame));
        let leaving = LinkFrame::control(frame, duration);
        occupy_link(state, now, port, leaving, state.has_frames_to_send(), outputs);
        true
    }

    #[cold]
    fn transmit_pause<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> bool {
        let state = &mut self.ports[port.index()];
        let Some(frame) = store.allocate(mac_control::FRAME_LEN) else {
            state.schedule_transmit(port, now.saturating_add(NO_SLOT_RETRY), outputs);
            return false;
        };
        let Some(pause) = state.change_control_frames(|frames| frames.generator.next_frame(now)) else {
            store.release(frame);
            return false;
        };
        if let Some(bytes) = store.prefix_mut(frame).first_chunk_mut() {
            pause.emit(state.mac, bytes);
        }
        state.count_pause_sent(&pause);
        let refresh_at = state.control_frames().generator.refresh_at();
        let duration = state.pause_duration();
        self.timers
            .arm(port, TimerKind::PauseRefresh, refresh_at, outputs);
        let leaving = LinkFrame::control(frame, duration);
        occupy_link(state, now, port, leaving, state.has_frames_to_send(), outputs);
        true
    }
}

/// The parts of a switch that a transmission needs, borrowed once.
struct PortTransmitter<'a> {
    state: &'a mut Port,
    frames: &'a mut FrameTable,
    mmu: &'a mut Mmu,
    balance: &'a mut LoadBalancer,
    timers: &'a mut Timers,
    resumed: &'a mut Vec<PgId>,
    mark_point: EcnMarkPoint,
    pipeline_latency: Picos,
}

impl PortTransmitter<'_> {
    /// Sends the next frame of a port with a free link, if a queue may send. Priority groups that may resume
    /// are added to `resumed`.
    #[inline(always)]
    fn transmit_queued<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        due: Picos,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let state = &mut *self.state;
        let sendable = state.sendable_queues();
        let queue = match select_queue(state, self.frames, sendable, now, self.pipeline_latency) {
            SchedulerDecision::Queue(queue) => queue % PRIORITIES,
            SchedulerDecision::Wait(Picos::NEVER) => return,
            SchedulerDecision::Wait(until) => return state.schedule_transmit(port, until, outputs),
        };
        let Some(dequeued) = self.frames.dequeue(port, &mut state.fifos[queue]) else {
            return;
        };
        let (frame, charges) = (dequeued.frame, dequeued.charges);
        let id = QueueId::new(port, queue as u8);
        let mac_len = frame.mac_len();
        state.tx_deficit_ps += now.since(due.max(state.free_at)).0;
        release_cells(self.mmu, charges, frame, id, self.resumed);
        let behind = state.fifos[queue].bytes();
        if behind == 0 {
            state.backlogged_queues &= !(1 << queue);
        }
        state.scheduler.record_sent(now, queue, mac_len, behind == 0);
        if let Some(shaper) = &mut state.shaper {
            shaper.charge(now, mac_len);
        }
        let others = sendable & !(u8::from(behind == 0) << queue);
        let departure = DepartingFrame {
            now,
            id,
            frame,
            behind,
            remaining_at_port: dequeued.remaining_at_port,
            more: others != 0 || state.has_control_frames(),
        };
        let mut link_transmitter = LinkTransmitter {
            state,
            balance: self.balance,
            timers: self.timers,
            mark_point: self.mark_point,
        };
        link_transmitter.transmit(departure, store, outputs);
    }
}

/// A frame whose transmission starts, and the bytes that remain behind it.
struct DepartingFrame<'a> {
    now: Picos,
    id: QueueId,
    frame: &'a QueuedFrame,
    /// Bytes that wait behind the frame in its queue.
    behind: u64,
    /// Bytes that remain in all queues of the port.
    remaining_at_port: u64,
    /// True if another frame could leave after this one.
    more: bool,
}

/// The parts of a switch for the last steps of a transmission.
struct LinkTransmitter<'a> {
    state: &'a mut Port,
    balance: &'a mut LoadBalancer,
    timers: &'a mut Timers,
    mark_point: EcnMarkPoint,
}

impl LinkTransmitter<'_> {
    /// Decides about the ECN mark, counts the frame, and puts it on the link.
    #[inline(always)]
    fn transmit<S: FrameStore>(
        &mut self,
        departure: DepartingFrame<'_>,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let state = &mut *self.state;
        let DepartingFrame { now, id, frame, .. } = departure;
        let (port, queue) = (id.port(), usize::from(id.number()));
        let (handle, mac_len) = (frame.frame, frame.mac_len());
        let marked = frame.is_ecn_capable()
            && self.mark_point == EcnMarkPoint::Dequeue
            && state.decide_mark(queue, departure.behind)
            && {
                let header = (frame.l3_offset, frame.payload);
                mark_ce(state, queue, handle, mac_len, header, store)
            };
        let duration = state.link.transmission_time(mac_len);
        state.count_departure(now, queue, frame, duration);
        if self.balance.measures_load() {
            let wire_len = state.link.timing().wire_len(mac_len);
            self.balance.loads_mut().record_departure(
                now,
                port.index(),
                wire_len,
                departure.remaining_at_port,
            );
            if self.balance.advertiser().needs_load_timer_start() {
                let at = self.balance.advertiser_mut().wake(now);
                self.timers.arm_link_quality(at, outputs);
            }
        }
        let leaving = LinkFrame {
            frame: handle,
            duration,
            marked,
        };
        occupy_link(state, now, port, leaving, departure.more, outputs);
    }
}

/// A frame that is put on the link.
struct LinkFrame {
    frame: FrameHandle,
    duration: Picos,
    marked: bool,
}

impl LinkFrame {
    fn control(frame: FrameHandle, duration: Picos) -> LinkFrame {
        LinkFrame {
            frame,
            duration,
            marked: false,
        }
    }
}

/// Selects a queue among `candidates`. Only queues whose first frame has passed the pipeline and whose shaper
/// permits a transmission can be selected. If there is no such queue, returns the time to wait for.
#[inline(always)]
fn select_queue(
    state: &mut Port,
    frames: &FrameTable,
    mut candidates: u8,
    now: Picos,
    pipeline: Picos,
) -> SchedulerDecision {
    if candidates == 0 {
        return SchedulerDecision::Wait(Picos::NEVER);
    }
    if let Some(shaper) = &state.shaper
        && shaper.ready_at() > now
    {
        return SchedulerDecision::Wait(shaper.ready_at());
    }
    let fifos = &state.fifos;
    let mut ready_at = Picos::NEVER;
    if pipeline > Picos::ZERO {
        for n in iter_set_bits(candidates) {
            let ready = frames.head(&fifos[n]).map_or(Picos::NEVER, |f| f.ready_at);
            if ready > now {
                candidates &= !(1 << n);
                ready_at = ready_at.min(ready);
            }
        }
    }
    let head_len = |n: usize| fifos[n % PRIORITIES].head_len();
    match state.scheduler.select_queue(now, candidates, head_len) {
        SchedulerDecision::Wait(until) => SchedulerDecision::Wait(until.min(ready_at)),
        queue => queue,
    }
}

/// Occupies the link with a frame from `now` on. `more` is true if another frame is ready to leave after
/// this frame.
#[inline(always)]
fn occupy_link(
    state: &mut Port,
    now: Picos,
    port: PortId,
    leaving: LinkFrame,
    more: bool,
    outputs: &mut Outputs,
) {
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
        state.schedule_transmit(port, end, outputs);
    } else if more {
        state.schedule_transmit(port, end, outputs);
    }
}

/// Releases the cells of a frame at ingress and egress.
#[inline(always)]
fn release_cells(
    mmu: &mut Mmu,
    charges: &mut SharedCellCharges,
    frame: &QueuedFrame,
    queue: QueueId,
    resumed: &mut Vec<PgId>,
) {
    mmu.release_egress(queue, frame.cells());
    if let Some((pg, cells)) = charges.release_charge(frame.charge()) {
        mmu.release_ingress(pg, cells, resumed);
    }
}

/// Marks a frame CE and counts it. Returns false if the frame has no IP header. The arguments `l3_offset` and
/// `payload` are the offset and the kind of this header.
#[inline(never)]
pub(super) fn mark_ce<S: FrameStore>(
    state: &mut Port,
    queue: usize,
    frame: FrameHandle,
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
