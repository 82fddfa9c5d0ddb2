//! The ports that one thread owns: received in bursts, sent in bursts, watched for links, losses and devices that vanish.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use crossbeam_channel::{Receiver, Sender};
use xoff_dataplane::{DropReason, FrameHandle, Picos, PortId};

use super::clock::{ModelClock, monotonic_ns};
use super::keeper::{Lost, Opening};
use xoff_ports::{Arena, Bell, Port, Received, SlotSource, is_gone};

/// Frames taken from a port at once.
pub(crate) const BURST: usize = 64;
/// Frames that may wait for a device that takes none: beyond, they are dropped and the run is tainted.
const DEVICE_QUEUE_MAX: usize = 4_096;

/// What a look at the ports found.
#[derive(Debug)]
pub(crate) enum PortEvent {
    /// The link came up or went down.
    Link { port: PortId, up: bool },
    /// A backend dropped frames and says why.
    Dropped {
        port: PortId,
        reason: DropReason,
        frames: u64,
    },
    /// A person should know this.
    Note(String),
    /// The kernel lost frames.
    Lost { port: PortId, frames: u64 },
    /// A device that was not there is open now.
    Opened { port: PortId, backend: &'static str },
}

/// Where received frames go.
pub(crate) trait Intake {
    /// How many more frames of a port it takes now.
    fn room(&self, port: PortId) -> usize;
    /// Takes frames, no more than it has room for.
    fn take(&mut self, port: PortId, frames: &[Received]);
}

#[derive(Debug)]
struct Owned {
    id: PortId,
    port: Option<Port>,
    up: bool,
    leaving: Leaving,
    refused: u64,
}

/// Frames of a port whose transmission has started in the model and that the device has not taken yet.
#[derive(Debug)]
struct Leaving {
    frames: VecDeque<FrameHandle>,
    /// When each is due.
    dues: VecDeque<Picos>,
    /// Whether frames are kept here until they are due: the link has a delay, and no receiver that knows when they arrive.
    holds: bool,
}

impl Leaving {
    fn new(holds: bool) -> Leaving {
        Leaving {
            frames: VecDeque::with_capacity(DEVICE_QUEUE_MAX),
            dues: VecDeque::with_capacity(DEVICE_QUEUE_MAX),
            holds,
        }
    }

    fn push(&mut self, frame: FrameHandle, due: Picos) {
        self.frames.push_back(frame);
        self.dues.push_back(due);
    }

    /// When the first is due that waits here for its time.
    fn first_due(&self) -> Option<Picos> {
        self.dues.front().copied().filter(|_| self.holds)
    }

    /// The frames that are next, and when each is due: those that may go, as far as they lie in one piece and are no more than
    /// a burst. None only where none may go.
    fn next_burst(&self, clock: ModelClock) -> (&[FrameHandle], &[Picos]) {
        let (frames, dues) = (self.frames.as_slices().0, self.dues.as_slices().0);
        let mut count = BURST.min(frames.len()).min(dues.len());
        if self.holds {
            let now = clock.at(monotonic_ns());
            count = dues[..count].iter().take_while(|due| **due <= now).count();
        }
        (&frames[..count], &dues[..count])
    }

    /// Takes as many from the front.
    fn take(&mut self, count: usize) -> impl Iterator<Item = FrameHandle> + '_ {
        self.dues.drain(..count);
        self.frames.drain(..count)
    }
}

/// Some ports and the way to the keeper that opens them.
#[derive(Debug)]
pub(crate) struct PortSet {
    ports: Vec<Owned>,
    received: Vec<Received>,
    clock: ModelClock,
    lost: Sender<Lost>,
    opened: Receiver<Opening>,
    events: Vec<PortEvent>,
    /// Ports whose device is gone, until their slots are back.
    closing: Vec<Port>,
}

impl PortSet {
    /// `delay_of` knows how long a bit is under way on the link of a port.
    pub(crate) fn new(
        ports: Vec<(PortId, Option<Port>)>,
        delay_of: impl Fn(PortId) -> Picos,
        clock: ModelClock,
        lost: Sender<Lost>,
        opened: Receiver<Opening>,
    ) -> PortSet {
        let own = |(id, port): (PortId, Option<Port>)| Owned {
            id,
            leaving: Leaving::new(delay_of(id) > Picos::ZERO && !matches!(port, Some(Port::Link(_)))),
            port,
            up: false,
            refused: 0,
        };
        let set = PortSet {
            ports: ports.into_iter().map(own).collect(),
            received: Vec::with_capacity(BURST),
            clock,
            lost,
            opened,
            events: Vec::new(),
            closing: Vec::new(),
        };
        for index in 0..set.ports.len() {
            if set.ports[index].port.is_none() {
                set.ask_keeper(index);
            }
        }
        set
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = PortId> + '_ {
        self.ports.iter().map(|p| p.id)
    }

    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.ports
            .iter()
            .filter_map(|p| p.port.as_ref().and_then(Port::fd))
    }

    /// Whether every open port can wake a sleeper.
    pub(crate) fn all_wake(&self) -> bool {
        let wakes = |port: &Port| port.fd().is_some() || matches!(port, Port::Link(_));
        self.ports.iter().all(|p| p.port.as_ref().is_none_or(wakes))
    }

    /// The bell that links in memory ring when they bring something.
    pub(crate) fn wake_by(&mut self, bell: &Bell) {
        for port in self.ports.iter_mut().filter_map(|p| p.port.as_mut()) {
            port.wake_by(bell);
        }
    }

    /// Whether a link in memory has brought something that no descriptor tells of.
    pub(crate) fn waiting(&self) -> bool {
        self.ports
            .iter()
            .any(|p| p.port.as_ref().is_some_and(Port::is_waiting))
    }

    /// When the next frame is due that waits for its time, in wall time.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        let due = self.ports.iter().filter_map(|p| p.leaving.first_due()).min();
        due.map(|due| self.clock.wall_ns(due))
    }

    /// Takes up to a burst from each port, as far as the intake has room. How many frames came.
    pub(crate) fn receive(&mut self, slots: &mut impl SlotSource, intake: &mut impl Intake) -> usize {
        self.closing.retain_mut(|port| !port.close(slots));
        let mut total = 0;
        for index in 0..self.ports.len() {
            let owned = &mut self.ports[index];
            let Some(port) = &mut owned.port else { continue };
            let limit = intake.room(owned.id).min(BURST);
            if limit == 0 {
                continue;
            }
            self.received.clear();
            let result = port.receive(slots, limit, &mut self.received);
            total += self.received.len();
            if !self.received.is_empty() {
                intake.take(owned.id, &self.received);
            }
            if let Err(error) = result {
                self.failed(index, &error);
            }
        }
        total
    }

    /// A frame is to leave by a port, whose index in this set is known. `due`: when it is to be handed to the device; of a link
    /// in memory, when it is to arrive.
    pub(crate) fn queue(&mut self, index: usize, frame: FrameHandle, due: Picos) {
        self.ports[index].leaving.push(frame, due);
    }

    /// Hands waiting frames to the devices; those that are done with go to `done`. How many were.
    pub(crate) fn flush(&mut self, arena: &Arena, mut done: impl FnMut(FrameHandle)) -> usize {
        let mut total = 0;
        for index in 0..self.ports.len() {
            while let Owned {
                port,
                leaving,
                refused,
                ..
            } = &mut self.ports[index]
                && let (frames, dues) = leaving.next_burst(self.clock)
                && !frames.is_empty()
            {
                let Some(port) = port else {
                    let all = leaving.frames.len();
                    *refused += all as u64;
                    leaving.take(all).for_each(&mut done);
                    break;
                };
                let offered = frames.len();
                match port.transmit_timed(arena, frames, dues) {
                    Ok(taken) => {
                        leaving.take(taken).for_each(&mut done);
                        total += taken;
                        if taken < offered {
                            break;
                        }
                    }
                    Err(error) => {
                        self.failed(index, &error);
                        break;
                    }
                }
            }
            self.shed(index, &mut done);
        }
        total
    }

    /// Drops what a stuck device has kept too long.
    fn shed(&mut self, index: usize, done: &mut impl FnMut(FrameHandle)) {
        let owned = &mut self.ports[index];
        let over = owned.leaving.frames.len().saturating_sub(DEVICE_QUEUE_MAX);
        if over > 0 {
            owned.leaving.take(over).for_each(done);
            self.events.push(PortEvent::Lost {
                port: owned.id,
                frames: over as u64,
            });
        }
    }

    /// The open ports, without what watches over them.
    pub(crate) fn into_ports(self) -> impl Iterator<Item = Port> {
        self.ports.into_iter().filter_map(|owned| owned.port)
    }

    /// Looks at links, losses and newly opened devices; called some ten times a second.
    pub(crate) fn watch(&mut self) -> Vec<PortEvent> {
        while let Ok(Opening { port: id, opened }) = self.opened.try_recv() {
            if let Some(owned) = self.ports.iter_mut().find(|p| p.id == id) {
                self.events.push(PortEvent::Opened {
                    port: id,
                    backend: opened.backend(),
                });
                owned.port = Some(*opened);
            }
        }
        let mut events = std::mem::take(&mut self.events);
        for owned in &mut self.ports {
            let up = match &mut owned.port {
                Some(port) => port.link_up(),
                None => false,
            };
            if up != owned.up {
                owned.up = up;
                events.push(PortEvent::Link { port: owned.id, up });
            }
            if let Some(port) = &mut owned.port {
                tell_drops(owned.id, port, &mut events);
            }
            let refused = std::mem::take(&mut owned.refused);
            if refused > 0 {
                let reason = DropReason::BackendRefused;
                events.push(PortEvent::Dropped {
                    port: owned.id,
                    reason,
                    frames: refused,
                });
            }
        }
        events
    }

    /// A port's device failed. One that is gone is handed to the keeper; anything else is transient.
    fn failed(&mut self, index: usize, error: &io::Error) {
        if !is_gone(error) {
            return;
        }
        let owned = &mut self.ports[index];
        if let Some(mut port) = owned.port.take() {
            // What it counted since the last look goes with it otherwise.
            tell_drops(owned.id, &mut port, &mut self.events);
            self.closing.push(port);
        }
        if owned.up {
            owned.up = false;
            self.events.push(PortEvent::Link {
                port: owned.id,
                up: false,
            });
        }
        self.ask_keeper(index);
    }

    fn ask_keeper(&self, index: usize) {
        // A keeper that is gone means that the run is ending.
        let _ = self.lost.send(Lost {
            port: self.ports[index].id,
        });
    }
}

/// What a port's backend has dropped, lost and has to say since it was last asked.
fn tell_drops(id: PortId, port: &mut Port, events: &mut Vec<PortEvent>) {
    let drops = port.drops();
    let dropped = |&(reason, frames): &(DropReason, u64)| PortEvent::Dropped {
        port: id,
        reason,
        frames,
    };
    events.extend(drops.by_reason.iter().map(dropped));
    events.extend(drops.notes.into_iter().map(PortEvent::Note));
    if drops.lost > 0 {
        events.push(PortEvent::Lost {
            port: id,
            frames: drops.lost,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_in_order_in_bursts_wherever_they_lie() {
        let clock = ModelClock::new(0, 1);
        let mut leaving = Leaving::new(false);
        // Off the multiples of a burst, at one of which the ring ends.
        leaving.push(FrameHandle(0), Picos(0));
        leaving.push(FrameHandle(1), Picos(1));
        assert_eq!(leaving.take(1).count(), 1);
        let (mut pushed, mut taken, mut bursts_cut) = (2, 1, 0);
        // Some always wait, so that the next ones lie further on in the ring, and pass its end.
        while pushed < 3 * DEVICE_QUEUE_MAX as u32 {
            for _ in 0..130 {
                leaving.push(FrameHandle(pushed), Picos(u64::from(pushed)));
                pushed += 1;
            }
            while pushed - taken > 100 {
                let (frames, dues) = leaving.next_burst(clock);
                let count = frames.len();
                assert!((1..=BURST).contains(&count) && dues.len() == count);
                assert!(
                    frames
                        .iter()
                        .zip(dues)
                        .all(|(frame, due)| u64::from(frame.0) == due.0)
                );
                bursts_cut += usize::from(count < BURST);
                let numbers: Vec<u32> = leaving.take(count).map(|frame| frame.0).collect();
                assert_eq!(numbers, (taken..taken + count as u32).collect::<Vec<_>>());
                taken += count as u32;
            }
        }
        assert!(bursts_cut > 0, "none lay in two pieces");
    }

    #[test]
    fn a_link_with_a_delay_keeps_what_is_not_due() {
        let mut leaving = Leaving::new(true);
        leaving.push(FrameHandle(1), Picos::ZERO);
        leaving.push(FrameHandle(2), Picos::NEVER);
        leaving.push(FrameHandle(3), Picos::ZERO);
        let clock = ModelClock::new(0, 1);
        assert_eq!(leaving.next_burst(clock).0, [FrameHandle(1)]);
        assert_eq!(leaving.take(1).count(), 1);
        assert!(leaving.next_burst(clock).0.is_empty());
        assert_eq!(leaving.first_due(), Some(Picos::NEVER));
        assert_eq!(leaving.take(2).count(), 2);
        assert_eq!(leaving.first_due(), None);
    }
}
