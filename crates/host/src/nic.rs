//! The transmit side of a NIC: one link, eight classes, pauses.

use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::pfc::{PauseReceiver, set_bits};
use xoff_dataplane::{Line, LinkTiming, Picos};

use super::config::NicConfig;
use super::schedule::FairShare;

/// After a call that comes late, so many frames leave at once; link time before them is lost and recorded.
pub const CATCH_UP_FRAMES: u64 = 32;

/// What a NIC counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicCounters {
    /// Frames of flows and queue pairs put on the wire, per class.
    pub tx_frames: [u64; PRIORITIES],
    /// Their bytes (`mac_len`), per class.
    pub tx_bytes: [u64; PRIORITIES],
    /// Frames put on the wire ahead of all classes: ARP, neighbour discovery, echo replies, frames given as bytes
    /// ([`Host::send_frame`](super::Host::send_frame)). MAC control frames are not among them.
    pub tx_other_frames: u64,
    /// Their bytes (`mac_len`).
    pub tx_other_bytes: u64,
    /// Frames of the host's own that found no room to wait for the link, pauses included; they were not sent.
    pub tx_dropped_frames: u64,
    /// PFC frames received whose enable bit *n* is set, XON included.
    pub pfc_rx: [u64; PRIORITIES],
    /// PFC frames received.
    pub pfc_rx_frames: u64,
    /// Running classes that a PFC pause stopped.
    pub pfc_on2off_rx: [u64; PRIORITIES],
    /// Time each class was paused by PFC, the pause in progress included, in nanoseconds of model time.
    pub paused_ns: [u64; PRIORITIES],
    /// 802.3x PAUSE frames received, honoured or not, XON (0 quanta) included.
    pub pause_rx_frames: u64,
    /// Time all classes were paused by 802.3x, the pause in progress included, in nanoseconds of model time.
    pub global_paused_ns: u64,
    /// PFC frames sent whose enable bit *n* is set, XON included.
    pub pfc_tx: [u64; PRIORITIES],
    /// Frames that found the receive buffer full, per class.
    pub rx_dropped_frames: [u64; PRIORITIES],
    /// Model time by which departures were put off because the NIC was called too late to catch up, in nanoseconds.
    pub tx_deficit_ns: u64,
}

/// Decides when the next frame leaves and of which class it is. It knows nothing of frames.
#[derive(Clone, Debug)]
pub(super) struct Nic {
    link: Line,
    honoured: u8,
    pause_honoured: bool,
    pauses: PauseReceiver,
    /// 802.3x pauses: priority 0 stands for the whole link.
    whole_link: PauseReceiver,
    /// Bit *n*: class *n* is paused, by PFC or 802.3x.
    stopped: u8,
    /// When `pauses` or `whole_link` change by themselves next.
    change_at: Picos,
    /// When each class was last released from a pause: nothing of it leaves before, however late the call.
    resumed_at: [Picos; PRIORITIES],
    link_free: Picos,
    share: FairShare,
    deficit: Picos,
    counters: NicCounters,
}

impl NicCounters {
    /// Frames put on the wire, of all kinds but MAC control.
    pub fn all_tx_frames(&self) -> u64 {
        self.tx_frames.iter().sum::<u64>() + self.tx_other_frames
    }

    /// Their bytes (`mac_len`).
    pub fn all_tx_bytes(&self) -> u64 {
        self.tx_bytes.iter().sum::<u64>() + self.tx_other_bytes
    }
}

/// When each class first has something to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Earliest<'a> {
    /// [`Picos::NEVER`]: it has nothing.
    pub(super) at: &'a [Picos; PRIORITIES],
    /// Bit *n*: class *n* has something. The others are not looked at.
    pub(super) waiting: u8,
}

impl Earliest<'_> {
    /// What is first of this and of another kind of senders, which says when its classes first have something; `both` is where that is
    /// kept.
    pub(super) fn or<'b>(
        self,
        at: impl Fn(usize) -> Picos,
        both: &'b mut [Picos; PRIORITIES],
    ) -> Earliest<'b> {
        let mut waiting = self.waiting;
        for (class, first) in both.iter_mut().enumerate() {
            *first = self.at[class].min(at(class));
            waiting |= u8::from(*first != Picos::NEVER) << class;
        }
        Earliest { at: both, waiting }
    }
}

/// A chance to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) class: usize,
    /// When the frame begins to leave: now, or earlier when the call came late.
    pub(super) start: Picos,
}

impl Nic {
    pub(super) fn new(config: &NicConfig) -> Nic {
        let receiver = |is_used: bool| {
            let mut pauses = PauseReceiver::new();
            pauses.set_until_resumed(config.pauses_until_resumed);
            if is_used {
                pauses.set_response_time(Picos::from_nanos(config.response_ns));
            }
            pauses
        };
        Nic {
            link: Line::new(config.link),
            honoured: config.pfc_honoured,
            pause_honoured: config.pause_honoured,
            pauses: receiver(config.pfc_honoured != 0),
            whole_link: receiver(config.pause_honoured),
            stopped: 0,
            change_at: Picos::NEVER,
            resumed_at: [Picos::ZERO; PRIORITIES],
            link_free: Picos::ZERO,
            share: FairShare::new(config.weights),
            deficit: Picos::ZERO,
            counters: NicCounters::default(),
        }
    }

    pub(super) fn link(&self) -> &LinkTiming {
        self.link.timing()
    }

    /// Takes a PFC frame that arrived at `now`.
    pub(super) fn pause(&mut self, now: Picos, enable: u8, quanta: &[u16; PRIORITIES]) {
        self.counters.pfc_rx_frames += 1;
        for (priority, count) in self.counters.pfc_rx.iter_mut().enumerate() {
            *count += u64::from(enable >> priority & 1);
        }
        self.change(now);
        let timing = self.link.timing();
        self.pauses.receive(now, enable, quanta, self.honoured, timing);
        self.pauses_changed(now);
    }

    /// Takes an 802.3x PAUSE frame that arrived at `now`.
    pub(super) fn pause_all(&mut self, now: Picos, quanta: u16) {
        self.counters.pause_rx_frames += 1;
        if !self.pause_honoured {
            return;
        }
        self.change(now);
        let timing = self.link.timing();
        self.whole_link.receive(now, 1, &[quanta; PRIORITIES], 1, timing);
        self.pauses_changed(now);
    }

    /// Brings the pauses up to `now`. What they forbid as of now is not sent, even where a punctual NIC would have sent
    /// it before: lateness errs on the side of the peer's buffer.
    #[inline]
    pub(super) fn advance(&mut self, now: Picos) {
        if self.change_at <= now {
            self.change(now);
        }
    }

    /// Lets pauses take effect and end, each at its own time.
    #[inline(never)]
    fn change(&mut self, now: Picos) {
        while self.change_at <= now && self.change_at != Picos::NEVER {
            let at = self.change_at;
            self.pauses.expire(at);
            self.whole_link.expire(at);
            self.pauses_changed(at);
        }
    }

    /// Follows the pauses, which have just changed.
    fn pauses_changed(&mut self, at: Picos) {
        let before = self.stopped;
        self.stopped = match self.whole_link.paused() {
            0 => self.pauses.paused(),
            _ => 0xff,
        };
        self.note_resumed(before, at);
        self.change_at = self.pauses.next_change().min(self.whole_link.next_change());
    }

    fn note_resumed(&mut self, before: u8, at: Picos) {
        let resumed = before & !self.stopped;
        for (class, resumed_at) in self.resumed_at.iter_mut().enumerate() {
            if resumed & (1 << class) != 0 {
                *resumed_at = at;
            }
        }
    }

    /// When something may leave next, given when each class first has something to send and as pauses stand;
    /// [`Picos::NEVER`] if all that wait are paused.
    #[inline]
    pub(super) fn next_start(&self, earliest: Earliest<'_>) -> Picos {
        let first = set_bits(earliest.waiting & !self.stopped)
            .map(|class| earliest.at[class].max(self.resumed_at[class]))
            .min();
        first.unwrap_or(Picos::NEVER).max(self.link_free)
    }

    /// When pauses change by themselves next.
    #[inline]
    pub(super) fn next_change(&self) -> Picos {
        self.change_at
    }

    /// The class that may send at `now`, if any.
    #[inline]
    pub(super) fn turn(&mut self, now: Picos, earliest: Earliest<'_>) -> Option<Turn> {
        self.advance(now);
        let start = self.next_start(earliest);
        if start > now {
            return None;
        }
        let unpaused = earliest.waiting & !self.stopped;
        // Nearly always there is no choice.
        if unpaused.is_power_of_two() {
            let class = unpaused.trailing_zeros() as usize;
            return Some(Turn { class, start });
        }
        self.choose(earliest, start)
    }

    /// The class whose turn it is of those that may send at `start`.
    fn choose(&mut self, earliest: Earliest<'_>, start: Picos) -> Option<Turn> {
        let mut eligible = 0_u8;
        for class in set_bits(earliest.waiting & !self.stopped) {
            let may = earliest.at[class] <= start && self.resumed_at[class] <= start;
            eligible |= u8::from(may) << class;
        }
        let class = if eligible.is_power_of_two() {
            eligible.trailing_zeros() as usize
        } else {
            self.share.choose(eligible)?
        };
        Some(Turn { class, start })
    }

    /// Moves a turn of a frame of `frame_len` forward if `now` is too late to catch up from there.
    #[inline]
    pub(super) fn limit_catch_up(&mut self, turn: Turn, now: Picos, frame_len: u32) -> Turn {
        // In virtual time no call is late.
        match turn.start == now {
            true => turn,
            false => self.limit_late(turn, now, frame_len),
        }
    }

    fn limit_late(&mut self, turn: Turn, now: Picos, frame_len: u32) -> Turn {
        let duration = self.duration(frame_len);
        let oldest = Picos(
            now.0
                .saturating_sub(duration.0.saturating_mul(CATCH_UP_FRAMES - 1)),
        );
        if turn.start >= oldest {
            return turn;
        }
        self.deficit += oldest.since(turn.start);
        Turn {
            start: oldest,
            ..turn
        }
    }

    /// Counts a frame of a flow that begins to leave.
    #[inline]
    pub(super) fn sent(&mut self, turn: Turn, frame_len: u32) {
        let mac_len = self.link.mac_len(frame_len);
        self.link_free = turn.start.saturating_add(self.duration(frame_len));
        self.share.charge(turn.class, mac_len);
        self.counters.tx_frames[turn.class] += 1;
        self.counters.tx_bytes[turn.class] += u64::from(mac_len);
    }

    /// When the link is free again.
    pub(super) fn link_free(&self) -> Picos {
        self.link_free
    }

    /// Counts a frame that begins to leave at `start`, ahead of all classes.
    pub(super) fn sent_ahead(&mut self, start: Picos, frame_len: u32, is_mac_control: bool) {
        self.link_free = start.saturating_add(self.duration(frame_len));
        if !is_mac_control {
            self.counters.tx_other_frames += 1;
            self.counters.tx_other_bytes += u64::from(self.link.mac_len(frame_len));
        }
    }

    /// Counts a frame of the host's own that is not sent: too many wait, or the caller has no room for it.
    pub(super) fn count_tx_dropped(&mut self) {
        self.counters.tx_dropped_frames += 1;
    }

    /// Counts a PFC frame of our own.
    pub(super) fn count_pfc_sent(&mut self, enable: u8) {
        for (priority, count) in self.counters.pfc_tx.iter_mut().enumerate() {
            *count += u64::from(enable >> priority & 1);
        }
    }

    /// Counts a frame that found the receive buffer full.
    pub(super) fn rx_dropped_frames(&self) -> u64 {
        self.counters.rx_dropped_frames.iter().sum()
    }

    pub(super) fn count_rx_dropped(&mut self, class: usize) {
        self.counters.rx_dropped_frames[class] += 1;
    }

    /// Counters as of `now`.
    pub(super) fn counters(&self, now: Picos) -> NicCounters {
        NicCounters {
            pfc_on2off_rx: *self.pauses.on_to_off_counts(),
            paused_ns: self.pauses.paused_ps(now).map(|ps| ps / 1_000),
            global_paused_ns: self.whole_link.paused_ps(now)[0] / 1_000,
            tx_deficit_ns: self.deficit.as_nanos(),
            ..self.counters.clone()
        }
    }

    /// Time of as many frames of `frame_len` as catch up at once.
    pub(super) fn catch_up_span(&self, frame_len: u32) -> Picos {
        Picos(self.duration(frame_len).0.saturating_mul(CATCH_UP_FRAMES))
    }

    /// Bytes of link time that a frame takes.
    pub(super) fn wire_len(&self, frame_len: u32) -> u32 {
        self.link.timing().wire_len(self.link.mac_len(frame_len))
    }

    /// How long a frame occupies the link.
    #[inline]
    pub(super) fn duration(&self, frame_len: u32) -> Picos {
        self.link.occupied(self.link.mac_len(frame_len))
    }
}
