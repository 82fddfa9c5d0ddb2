//! Transmit side of a NIC: one link, eight classes (transmit queues), and pauses.

use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::pfc::{PauseReceiver, iter_set_bits};
use xoff_dataplane::{EtsScheduler, LinkRate, LinkTiming, Picos, prefetch};
use xoff_wire::lldp::EtsTables;

use super::config::NicConfig;

/// Largest number of frames that a host sends at once after a late call. The link time of further frames is
/// lost and recorded.
pub const CATCH_UP_FRAMES: u64 = 32;

/// Counters of a NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicCounters {
    /// Number of sent frames of flows and queue pairs, by class.
    pub tx_frames: [u64; PRIORITIES],
    /// Bytes of the frames in `tx_frames`, by class, with padding and
    /// FCS ([`LinkTiming::mac_len`](xoff_units::LinkTiming::mac_len)).
    pub tx_bytes: [u64; PRIORITIES],
    /// Number of frames that left before all classes: ARP, neighbour discovery, echo replies, and frames of
    /// [`Host::send_frame`](super::Host::send_frame). MAC control frames are in
    /// [`NicCounters::tx_control_frames`].
    pub tx_other_frames: u64,
    /// Bytes of the frames in `tx_other_frames`, with padding and FCS
    /// ([`LinkTiming::mac_len`](xoff_units::LinkTiming::mac_len)).
    pub tx_other_bytes: u64,
    /// Number of control frames that the host discarded, such as pause frames, ARP and echo replies. Reasons:
    /// too many frames waited for the link, or the frame was too long for the buffer.
    pub tx_dropped_frames: u64,
    /// Number of received PFC frames with enable bit *n*, by priority *n*. XON frames are included.
    pub pfc_rx: [u64; PRIORITIES],
    /// Number of received PFC frames.
    pub pfc_rx_frames: u64,
    /// Number of changes of each class from running to paused, caused by PFC.
    pub pfc_on2off_rx: [u64; PRIORITIES],
    /// Time for which PFC paused each class, in nanoseconds of model time. A current pause is included.
    pub paused_ns: [u64; PRIORITIES],
    /// Number of received 802.3x PAUSE frames, including XON (0 quanta) and frames that the NIC ignores.
    pub pause_rx_frames: u64,
    /// Time for which 802.3x PAUSE frames paused all classes, in nanoseconds of model time. A current pause
    /// is included.
    pub global_paused_ns: u64,
    /// Number of sent PFC frames with enable bit *n*, by priority *n*. XON frames are included.
    pub pfc_tx: [u64; PRIORITIES],
    /// Number of sent 802.3x PAUSE frames, including XON (0 quanta).
    pub pause_tx_frames: u64,
    /// Number of sent MAC control frames: PFC, 802.3x PAUSE and all others.
    pub tx_control_frames: u64,
    /// Number of frames that did not fit into the receive buffer, by class.
    pub rx_dropped_frames: [u64; PRIORITIES],
    /// Link time in nanoseconds of model time during which the NIC could not send, because the caller was so
    /// late that the NIC could not catch up.
    pub tx_deficit_ns: u64,
}

/// Selects the class and the departure time of the next frame. This type does not see frame contents.
///
/// The fields that nearly every frame uses come first.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Nic {
    link_free: Picos,
    /// Next time at which a pause takes effect or ends.
    change_at: Picos,
    /// Paused classes, by PFC or 802.3x. Bit *n* is class *n*.
    stopped: u8,
    honoured: u8,
    pause_honoured: bool,
    link: LinkRate,
    scheduler: EtsScheduler,
    classes: [NicClass; PRIORITIES],
    /// Time from the arrival of a pause frame to its effect.
    response: Picos,
    pauses: PauseReceiver,
    /// State of 802.3x pauses. Its priority 0 stands for the whole link.
    whole_link: PauseReceiver,
    deficit: Picos,
    /// Counters of the NIC, except those in `classes`.
    counters: NicCounters,
}

/// State of a class of a NIC.
#[derive(Clone, Copy, Debug, Default)]
struct NicClass {
    /// Time at which the class was last resumed. Even after a late call, no frame of the class may have an
    /// earlier departure time.
    resumed_at: Picos,
    /// See [`NicCounters::tx_frames`].
    tx_frames: u64,
    /// See [`NicCounters::tx_bytes`].
    tx_bytes: u64,
}

impl NicCounters {
    /// Returns the number of sent frames of all kinds, without MAC control frames.
    pub fn all_tx_frames(&self) -> u64 {
        self.tx_frames.iter().sum::<u64>() + self.tx_other_frames
    }

    /// Returns the bytes of all sent frames with padding and FCS, without MAC control frames.
    pub fn all_tx_bytes(&self) -> u64 {
        self.tx_bytes.iter().sum::<u64>() + self.tx_other_bytes
    }
}

/// Earliest departure time of each class.
#[derive(Clone, Copy, Debug)]
pub(super) struct EarliestDepartures<'a> {
    /// Departure time of each class. [`Picos::NEVER`] if the class has no frame.
    pub(super) at: &'a [Picos; PRIORITIES],
    /// Classes that have a frame to send. Bit *n* is class *n*. The send times of classes without a frame are
    /// not read.
    pub(super) waiting: u8,
}

impl EarliestDepartures<'_> {
    /// Merges the departure times of queue pairs with those of flows. `at` returns the earliest departure
    /// time of the flows of a class. The result is stored in `merged`.
    pub(super) fn merge_flow_departures<'b>(
        self,
        at: impl Fn(usize) -> Picos,
        merged: &'b mut [Picos; PRIORITIES],
    ) -> EarliestDepartures<'b> {
        let mut waiting = self.waiting;
        for (class, first) in merged.iter_mut().enumerate() {
            *first = self.at[class].min(at(class));
            waiting |= u8::from(*first != Picos::NEVER) << class;
        }
        EarliestDepartures { at: merged, waiting }
    }
}

/// Permission for a class to send one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SendSlot {
    pub(super) class: usize,
    /// Departure time: now, or an earlier time after a late call.
    pub(super) start: Picos,
}

/// Returns the scheduler of the priorities of a NIC. Each priority has its own queue.
fn class_scheduler(config: &NicConfig, negotiated: Option<&EtsTables>) -> EtsScheduler {
    const QUEUE_OF_PRIORITY: [u8; PRIORITIES] = [0, 1, 2, 3, 4, 5, 6, 7];
    match negotiated.or(config.ets.as_ref()) {
        Some(tables) => EtsScheduler::new(tables, &QUEUE_OF_PRIORITY),
        None => EtsScheduler::with_weights(config.weights),
    }
}

impl Nic {
    pub(super) fn new(config: &NicConfig) -> Nic {
        let response = Picos::from_nanos(config.response_ns);
        // Only receivers that are used have a response time.
        let receiver = |is_used: bool| {
            let mut pauses = PauseReceiver::new();
            pauses.set_until_resumed(config.pauses_until_resumed);
            if is_used {
                pauses.set_response_time(response);
            }
            pauses
        };
        Nic {
            link: LinkRate::new(config.link),
            honoured: config.pfc_honoured,
            pause_honoured: config.pause_honoured,
            response,
            pauses: receiver(config.pfc_honoured != 0),
            whole_link: receiver(config.pause_honoured),
            stopped: 0,
            change_at: Picos::NEVER,
            classes: Default::default(),
            link_free: Picos::ZERO,
            scheduler: class_scheduler(config, None),
            deficit: Picos::ZERO,
            counters: NicCounters::default(),
        }
    }

    /// Fetches the memory that nearly every frame uses, without waiting for it.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(self);
        self.scheduler.prefetch();
        // Queue pairs use class 3 by default.
        prefetch(&self.classes[3]);
    }

    /// Sets the priorities for which the NIC honours PFC. Paused classes outside the mask resume at `now`.
    pub(super) fn set_pfc_honoured(&mut self, now: Picos, honoured: u8) {
        self.process_pause_changes(now);
        self.honoured = honoured;
        if honoured != 0 {
            self.pauses.set_response_time(self.response);
        }
        self.pauses.release_priorities(now, honoured);
        self.update_paused_classes(now);
    }

    /// Sets whether the NIC honours 802.3x PAUSE frames. If not, a current pause of the link ends at `now`.
    pub(super) fn set_pause_honoured(&mut self, now: Picos, is_honoured: bool) {
        self.process_pause_changes(now);
        self.pause_honoured = is_honoured;
        if is_honoured {
            self.whole_link.set_response_time(self.response);
        }
        self.whole_link.release_priorities(now, u8::from(is_honoured));
        self.update_paused_classes(now);
    }

    /// Changes the traffic classes of the priorities. `negotiated` has those that the peer recommends. `None`: the
    /// configuration applies.
    pub(super) fn set_ets(&mut self, config: &NicConfig, negotiated: Option<&EtsTables>) {
        self.scheduler = class_scheduler(config, negotiated);
    }

    /// Sets the time from the arrival of later pause frames to their effect.
    pub(super) fn set_response_time(&mut self, response: Picos) {
        self.response = response;
        if self.honoured != 0 {
            self.pauses.set_response_time(response);
        }
        if self.pause_honoured {
            self.whole_link.set_response_time(response);
        }
    }

    /// Blocks the link until `now`. A NIC that is created during a run sends nothing earlier.
    pub(super) fn start_link(&mut self, now: Picos) {
        self.link_free = now;
    }

    pub(super) fn link(&self) -> &LinkTiming {
        self.link.timing()
    }

    /// Processes a PFC frame that arrived at `now`.
    pub(super) fn receive_pfc(&mut self, now: Picos, enable: u8, quanta: &[u16; PRIORITIES]) {
        self.counters.pfc_rx_frames += 1;
        for (priority, count) in self.counters.pfc_rx.iter_mut().enumerate() {
            *count += u64::from(enable >> priority & 1);
        }
        self.process_pause_changes(now);
        let timing = self.link.timing();
        self.pauses.receive(now, enable, quanta, self.honoured, timing);
        self.update_paused_classes(now);
    }

    /// Processes an 802.3x PAUSE frame that arrived at `now`.
    pub(super) fn receive_pause(&mut self, now: Picos, quanta: u16) {
        self.counters.pause_rx_frames += 1;
        if !self.pause_honoured {
            return;
        }
        self.process_pause_changes(now);
        let timing = self.link.timing();
        self.whole_link.receive(now, 1, &[quanta; PRIORITIES], 1, timing);
        self.update_paused_classes(now);
    }

    /// Updates the pauses to the time `now`. A paused class does not send, even if an earlier call could have
    /// sent a frame. This rule protects the buffer of the peer after a late call.
    #[inline]
    pub(super) fn advance(&mut self, now: Picos) {
        if self.change_at <= now {
            self.process_pause_changes(now);
        }
    }

    /// Processes all starts and ends of pauses up to `now`, each with its own time.
    #[inline(never)]
    fn process_pause_changes(&mut self, now: Picos) {
        while self.change_at <= now && self.change_at != Picos::NEVER {
            let at = self.change_at;
            self.pauses.expire(at);
            self.whole_link.expire(at);
            self.update_paused_classes(at);
        }
    }

    /// Updates the paused classes after a change of the pauses.
    fn update_paused_classes(&mut self, at: Picos) {
        let before = self.stopped;
        self.stopped = match self.whole_link.paused_priorities() {
            0 => self.pauses.paused_priorities(),
            _ => 0xff,
        };
        self.record_resumed_classes(before, at);
        self.change_at = self.pauses.next_change().min(self.whole_link.next_change());
    }

    fn record_resumed_classes(&mut self, before: u8, at: Picos) {
        let resumed = before & !self.stopped;
        for (number, class) in self.classes.iter_mut().enumerate() {
            if resumed & (1 << number) != 0 {
                class.resumed_at = at;
            }
        }
    }

    /// Returns the time of the next departure if the current pauses do not change. Returns [`Picos::NEVER`]
    /// if all waiting classes are paused.
    #[inline]
    pub(super) fn next_start(&self, earliest: EarliestDepartures<'_>) -> Picos {
        let first = iter_set_bits(earliest.waiting & !self.stopped)
            .map(|class| earliest.at[class].max(self.classes[class].resumed_at))
            .min();
        first.unwrap_or(Picos::NEVER).max(self.link_free)
    }

    /// Returns the next time at which a pause takes effect or ends.
    #[inline]
    pub(super) fn next_change(&self) -> Picos {
        self.change_at
    }

    /// Selects the class that may send at `now`. Returns `None` if no class may send yet.
    #[inline]
    pub(super) fn select_class(&mut self, now: Picos, earliest: EarliestDepartures<'_>) -> Option<SendSlot> {
        self.advance(now);
        let start = self.next_start(earliest);
        if start > now {
            return None;
        }
        let unpaused = earliest.waiting & !self.stopped;
        // Nearly always only one class is waiting.
        if unpaused.is_power_of_two() {
            let class = unpaused.trailing_zeros() as usize;
            return Some(SendSlot { class, start });
        }
        self.select_among(earliest, start)
    }

    /// Selects one of several classes that may send at `start`.
    fn select_among(&mut self, earliest: EarliestDepartures<'_>, start: Picos) -> Option<SendSlot> {
        let mut eligible = 0_u8;
        for class in iter_set_bits(earliest.waiting & !self.stopped) {
            let may = earliest.at[class] <= start && self.classes[class].resumed_at <= start;
            eligible |= u8::from(may) << class;
        }
        let class = if eligible.is_power_of_two() {
            eligible.trailing_zeros() as usize
        } else {
            self.scheduler.choose(eligible)?
        };
        Some(SendSlot { class, start })
    }

    /// Moves the departure of a frame of `frame_len` bytes to a later time if `now` is too late to catch up.
    /// The skipped link time is lost.
    #[inline]
    pub(super) fn limit_catch_up(&mut self, slot: SendSlot, now: Picos, frame_len: u32) -> SendSlot {
        // In virtual time no call is late.
        match slot.start == now {
            true => slot,
            false => self.limit_late_departure(slot, now, frame_len),
        }
    }

    fn limit_late_departure(&mut self, slot: SendSlot, now: Picos, frame_len: u32) -> SendSlot {
        let duration = self.transmission_time(frame_len);
        let oldest = Picos(
            now.0
                .saturating_sub(duration.0.saturating_mul(CATCH_UP_FRAMES - 1)),
        );
        if slot.start >= oldest {
            return slot;
        }
        self.deficit += oldest.since(slot.start);
        SendSlot {
            start: oldest,
            ..slot
        }
    }

    /// Records the departure of a frame of `frame_len` bytes from a class.
    #[inline]
    pub(super) fn record_sent(&mut self, slot: SendSlot, frame_len: u32) {
        let mac_len = self.link.mac_len(frame_len);
        self.link_free = slot.start.saturating_add(self.transmission_time(frame_len));
        self.scheduler.charge(slot.class, mac_len);
        let class = &mut self.classes[slot.class];
        class.tx_frames += 1;
        class.tx_bytes += u64::from(mac_len);
    }

    /// Returns the time at which the link is free again.
    pub(super) fn link_free(&self) -> Picos {
        self.link_free
    }

    /// Records a frame that leaves at `start`, before all classes. The frame is not a MAC control frame.
    pub(super) fn record_sent_before_data(&mut self, start: Picos, frame_len: u32) {
        self.link_free = start.saturating_add(self.transmission_time(frame_len));
        self.counters.tx_other_frames += 1;
        self.counters.tx_other_bytes += u64::from(self.link.mac_len(frame_len));
    }

    /// Records a MAC control frame that leaves at `start`. `is_pause` is true for an 802.3x PAUSE frame.
    pub(super) fn record_sent_control(&mut self, start: Picos, frame_len: u32, is_pause: bool) {
        self.link_free = start.saturating_add(self.transmission_time(frame_len));
        self.counters.tx_control_frames += 1;
        self.counters.pause_tx_frames += u64::from(is_pause);
    }

    /// Counts a frame of the host that is discarded. Either too many frames wait, or the buffer is too short.
    pub(super) fn count_tx_dropped(&mut self) {
        self.counters.tx_dropped_frames += 1;
    }

    /// Counts a PFC frame that the host sends.
    pub(super) fn count_pfc_sent(&mut self, enable: u8) {
        for (priority, count) in self.counters.pfc_tx.iter_mut().enumerate() {
            *count += u64::from(enable >> priority & 1);
        }
    }

    /// Returns the number of frames that did not fit into the receive buffer, for all classes.
    pub(super) fn rx_dropped_frames(&self) -> u64 {
        self.counters.rx_dropped_frames.iter().sum()
    }

    pub(super) fn count_rx_dropped(&mut self, class: usize) {
        self.counters.rx_dropped_frames[class] += 1;
    }

    /// Returns the counters at `now`.
    pub(super) fn counters(&self, now: Picos) -> NicCounters {
        NicCounters {
            tx_frames: self.classes.map(|class| class.tx_frames),
            tx_bytes: self.classes.map(|class| class.tx_bytes),
            pfc_on2off_rx: *self.pauses.pause_start_counts(),
            paused_ns: self.pauses.paused_ps(now).map(|ps| ps / 1_000),
            global_paused_ns: self.whole_link.paused_ps(now)[0] / 1_000,
            tx_deficit_ns: self.deficit.as_nanos(),
            ..self.counters.clone()
        }
    }

    /// Returns the transmission time of the frames that a late call can catch up.
    pub(super) fn catch_up_span(&self, frame_len: u32) -> Picos {
        Picos(
            self.transmission_time(frame_len)
                .0
                .saturating_mul(CATCH_UP_FRAMES),
        )
    }

    /// Returns the length of a frame on the link in bytes, with preamble and gap.
    pub(super) fn wire_len(&self, frame_len: u32) -> u32 {
        self.link.timing().wire_len(self.link.mac_len(frame_len))
    }

    /// Returns the time for which a frame and its gap occupy the link.
    #[inline]
    pub(super) fn transmission_time(&self, frame_len: u32) -> Picos {
        self.link.transmission_time(self.link.mac_len(frame_len))
    }
}
