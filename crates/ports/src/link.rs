//! A link in memory: two ports joined by rings of handles.
//!
//! Each end keeps a stock of its own empty slots posted with the other, as a network card is given receive
//! buffers. A sender copies the frame into a posted slot and passes that. So each switch has an arena of its own and its
//! slots never get into the accounts of another, a frame that shares bytes crosses as one of its own, and a
//! receiver that does not take its frames stops the sender: nothing is lost.
//!
//! Nothing can be polled for here: a sender rings the bell of the thread that the other end was given to.

use std::io;
use std::sync::{Arc, OnceLock};

use rtrb::{Consumer, Producer, RingBuffer};
use xoff_dataplane::{DropReason, FrameHandle, Picos};
use xoff_wire::parse::parse;

use super::clock::monotonic_ns;
use super::count::DropCounts;
use super::{Arena, Bell, PortDrops, Received, SlotClass, SlotSource, longest_frame};

/// Of the posted slots, one in so many is large, where the MTU asks for large ones.
const SMALL_PER_LARGE: usize = 4;

/// What crosses: a frame, or an empty slot that its owner gets back.
#[derive(Clone, Copy, Debug)]
struct Crossing {
    slot: FrameHandle,
    /// `None`: an empty slot.
    sent: Option<Sent>,
}

/// When a frame was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// In nanoseconds of `CLOCK_MONOTONIC`.
    at_ns: u64,
    /// When it arrives in model time, if the sender said so.
    arrives: Option<Picos>,
}

/// What one end tells the other of itself, before the first slot crosses.
#[derive(Debug, Default)]
struct Side {
    /// Where its slots are.
    arena: OnceLock<Arc<Arena>>,
    /// Of the thread that takes its frames.
    bell: OnceLock<Bell>,
}

/// The way of one class of empty slots.
#[derive(Debug)]
struct Stock<End> {
    ring: End,
    class: SlotClass,
    /// How many slots may be on their way at once.
    limit: usize,
}

/// The owner's end of its stocks: small, large.
type Posts = [Stock<Producer<FrameHandle>>; 2];
/// The end of who fills them: small, large.
type Buffers = [Stock<Consumer<FrameHandle>>; 2];

/// One end of a link in memory.
#[derive(Debug)]
pub struct Link {
    name: String,
    own: Arc<Side>,
    peer: Arc<Side>,
    to_peer: Producer<Crossing>,
    from_peer: Consumer<Crossing>,
    /// Our slots for the peer to fill.
    posts: Posts,
    /// The peer's slots for us to fill.
    buffers: Buffers,
    /// Slots of ours, by class, that the peer or a ring holds.
    outstanding: [usize; 2],
    longest: u32,
    closed: bool,
    drops: DropCounts,
}

impl Link {
    pub(super) fn pair(names: [&str; 2], mtu: u32, frames: usize) -> [Link; 2] {
        let longest = longest_frame(mtu);
        let large = match SlotClass::for_frame(longest as usize) {
            Some(SlotClass::Small) => 0,
            _ => frames.div_ceil(SMALL_PER_LARGE),
        };
        // Every slot that may be on its way can come back at once, so there is always a place for it.
        let ((tx_a, rx_b), (tx_b, rx_a)) = (RingBuffer::new(frames + large), RingBuffer::new(frames + large));
        let ((posts_a, buffers_b), (posts_b, buffers_a)) = (stocks(frames, large), stocks(frames, large));
        let sides = [(); 2].map(|()| Arc::new(Side::default()));
        let end = |n: usize, to_peer, from_peer, posts, buffers| Link {
            name: names[n].to_owned(),
            own: Arc::clone(&sides[n]),
            peer: Arc::clone(&sides[1 - n]),
            to_peer,
            from_peer,
            posts,
            buffers,
            outstanding: [0; 2],
            longest,
            closed: false,
            drops: DropCounts::new(),
        };
        [
            end(0, tx_a, rx_a, posts_a, buffers_a),
            end(1, tx_b, rx_b, posts_b, buffers_b),
        ]
    }

    /// The slots of this end are those of `arena`. The first time counts.
    pub(super) fn attach(&mut self, arena: &Arc<Arena>) {
        let _ = self.own.arena.set(Arc::clone(arena));
    }

    /// Whose bell rings when something arrives here. The first time counts.
    pub(super) fn wake_by(&mut self, bell: &Bell) {
        let _ = self.own.bell.set(bell.clone());
    }

    /// Whether something waits to be received.
    pub(super) fn is_waiting(&self) -> bool {
        !self.from_peer.is_empty()
    }

    pub(super) fn receive(
        &mut self,
        slots: &mut impl SlotSource,
        max: usize,
        out: &mut Vec<Received>,
    ) -> io::Result<usize> {
        let own = Arc::clone(&self.own);
        // What was not attached yet has posted nothing, so nothing comes back.
        let Some(arena) = own.arena.get() else {
            return Ok(0);
        };
        debug_assert!(std::ptr::eq(slots.arena(), &**arena), "slots of another arena");
        let mut received = 0;
        while received < max {
            let Some(Crossing { slot, sent }) = self.next(arena) else {
                break;
            };
            let Some(sent) = sent else {
                slots.put(slot);
                continue;
            };
            let frame = arena.segments(slot).0;
            out.push(Received {
                frame: slot,
                frame_len: frame.len() as u32,
                parsed: parse(frame),
                received_ns: sent.at_ns,
                arrives: sent.arrives,
            });
            received += 1;
        }
        if !self.closed {
            self.post(slots);
        }
        Ok(received)
    }

    /// The next slot of ours that comes back.
    fn next(&mut self, arena: &Arena) -> Option<Crossing> {
        let crossing = self.from_peer.pop().ok()?;
        self.outstanding[arena.class(crossing.slot) as usize] -= 1;
        Some(crossing)
    }

    /// Posts slots until the peer has as many as it may.
    fn post(&mut self, slots: &mut impl SlotSource) {
        for (stock, outstanding) in self.posts.iter_mut().zip(&mut self.outstanding) {
            while *outstanding < stock.limit {
                let Some(slot) = slots.take_class(stock.class) else {
                    break;
                };
                if stock.ring.push(slot).is_err() {
                    slots.put(slot);
                    break;
                }
                *outstanding += 1;
            }
        }
    }

    pub(super) fn transmit(&mut self, arena: &Arena, frames: &[FrameHandle]) -> io::Result<usize> {
        Ok(self.transmit_timed(arena, frames, |_| None))
    }

    /// Takes frames from the front of `frames`, of which the n-th arrives at `arrives(n)`; how many.
    pub(super) fn transmit_timed(
        &mut self,
        arena: &Arena,
        frames: &[FrameHandle],
        arrives: impl Fn(usize) -> Option<Picos>,
    ) -> usize {
        if self.closed {
            return 0;
        }
        let peer = Arc::clone(&self.peer);
        let Some(to) = peer.arena.get() else { return 0 };
        let taken = self.fill(arena, to, frames, arrives);
        if taken > 0
            && let Some(bell) = peer.bell.get()
        {
            bell.ring();
        }
        taken
    }

    /// Copies frames into posted slots, which lie in `to`, as far as there are any; how many frames are done with.
    fn fill(
        &mut self,
        arena: &Arena,
        to: &Arena,
        frames: &[FrameHandle],
        arrives: impl Fn(usize) -> Option<Picos>,
    ) -> usize {
        let at_ns = monotonic_ns();
        for (taken, frame) in frames.iter().enumerate() {
            let len = arena.frame_len(*frame);
            let Some(class) = SlotClass::for_frame(len).filter(|_| len <= self.longest as usize) else {
                self.drops.add(DropReason::BackendRefused);
                continue;
            };
            let Ok(slot) = self.buffers[class as usize].ring.pop() else {
                return taken;
            };
            // SAFETY: our caller holds the frame; the slot came over the ring empty and unshared, and is held here. It is one
            // of `to`: its owner said where its slots lie before it posted the first one.
            unsafe { arena.copy_into_empty(*frame, to, slot) };
            let sent = Some(Sent {
                at_ns,
                arrives: arrives(taken),
            });
            self.pass(Crossing { slot, sent });
        }
        frames.len()
    }

    /// Passes a slot of the peer's to the peer.
    fn pass(&mut self, crossing: Crossing) {
        let passed = self.to_peer.push(crossing);
        debug_assert!(
            passed.is_ok(),
            "the ring has a place for every slot of the peer's"
        );
    }

    /// Gives the peer's empty slots back to it.
    fn hand_back(&mut self) {
        for class in 0..self.buffers.len() {
            while let Ok(slot) = self.buffers[class].ring.pop() {
                self.pass(Crossing { slot, sent: None });
            }
        }
    }

    pub(super) fn close(&mut self, slots: &mut impl SlotSource) -> bool {
        self.closed = true;
        self.hand_back();
        let own = Arc::clone(&self.own);
        if let Some(arena) = own.arena.get() {
            while let Some(crossing) = self.next(arena) {
                slots.put(crossing.slot);
            }
        }
        self.outstanding == [0; 2]
    }

    pub(super) fn link_up(&mut self) -> bool {
        !self.closed && !self.to_peer.is_abandoned()
    }

    pub(super) fn drops(&mut self) -> PortDrops {
        PortDrops {
            by_reason: self.drops.take(),
            ..PortDrops::default()
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.hand_back();
    }
}

/// Both ends of both stocks of one direction.
fn stocks(small: usize, large: usize) -> (Posts, Buffers) {
    let stock = |class, limit| {
        let (post, buffer) = RingBuffer::new(limit);
        (
            Stock {
                ring: post,
                class,
                limit,
            },
            Stock {
                ring: buffer,
                class,
                limit,
            },
        )
    };
    let (small_posts, small_buffers) = stock(SlotClass::Small, small);
    let (large_posts, large_buffers) = stock(SlotClass::Large, large);
    ([small_posts, large_posts], [small_buffers, large_buffers])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArenaStore;
    use xoff_dataplane::FrameStore;

    fn pair(mtu: u32, frames: usize) -> (ArenaStore, [Link; 2]) {
        let arena = Arena::new(64, 16).expect("a small arena");
        let mut links = Link::pair(["a", "b"], mtu, frames);
        links.iter_mut().for_each(|link| link.attach(&arena));
        (ArenaStore::new(arena), links)
    }

    fn receive(link: &mut Link, store: &mut ArenaStore) -> Vec<Received> {
        let mut out = Vec::new();
        link.receive(store, 64, &mut out)
            .expect("a link in memory does not fail");
        out
    }

    fn bytes(store: &ArenaStore, frame: FrameHandle) -> Vec<u8> {
        let (own, rest) = store.arena().segments(frame);
        [own, rest].concat()
    }

    #[test]
    fn a_frame_with_shared_bytes_crosses_whole_and_the_sender_keeps_its_slot() {
        let (mut store, [mut a, mut b]) = pair(1500, 4);
        let frame: Vec<u8> = (0..1000).map(|i| i as u8).collect();
        let original = store.store(&frame).expect("a free slot");
        let copy = store.copy(original, 64).expect("a free slot");
        assert_eq!(
            a.transmit(&store.shared_arena(), &[copy]).expect("open"),
            0,
            "nothing is posted yet"
        );
        assert!(receive(&mut b, &mut store).is_empty());
        assert_eq!(
            a.transmit(&store.shared_arena(), &[copy, original])
                .expect("open"),
            2
        );
        store.release(copy);
        store.release(original);
        let got = receive(&mut b, &mut store);
        assert_eq!(got.len(), 2);
        for received in got {
            assert_eq!(bytes(&store, received.frame), frame);
            assert_eq!(store.prefix(received.frame).len(), frame.len());
            store.release(received.frame);
        }
        assert!(a.close(&mut store), "the peer posted slots, we did not");
        assert!(b.close(&mut store));
        assert_eq!(store.in_use(), 0);
    }

    #[test]
    fn frames_cross_between_arenas_with_their_times_and_ring_the_receiver() {
        let mut stores = [(); 2].map(|()| ArenaStore::new(Arena::new(64, 16).expect("a small arena")));
        let [mut a, mut b] = Link::pair(["a", "b"], 1500, 4);
        a.attach(&stores[0].shared_arena());
        b.attach(&stores[1].shared_arena());
        let bell = Bell::new().expect("an eventfd");
        b.wake_by(&bell);
        receive(&mut b, &mut stores[1]);
        // So that numbers of slots differ on both sides.
        let other = stores[0].store(&[1; 60]).expect("a free slot");
        let frame = stores[0].store(&[7; 100]).expect("a free slot");
        bell.about_to_sleep();
        let taken = a.transmit_timed(&stores[0].shared_arena(), &[frame], |n| Some(Picos(5 + n as u64)));
        assert_eq!(taken, 1);
        assert!(b.is_waiting());
        let mut polled = [nix::poll::PollFd::new(bell.fd(), nix::poll::PollFlags::POLLIN)];
        assert_eq!(nix::poll::poll(&mut polled, 0_u8), Ok(1), "the bell rang");
        bell.awake(true);
        let got = receive(&mut b, &mut stores[1]);
        assert_eq!(bytes(&stores[1], got[0].frame), [7; 100]);
        assert_eq!(got[0].arrives, Some(Picos(5)));
        assert!(!b.is_waiting());
        stores[1].release(got[0].frame);
        stores[0].release(frame);
        stores[0].release(other);
        assert!(a.close(&mut stores[0]));
        assert!(b.close(&mut stores[1]));
        assert_eq!([stores[0].in_use(), stores[1].in_use()], [0, 0]);
    }

    #[test]
    fn a_receiver_that_waits_stops_the_sender_and_nothing_is_lost() {
        let (mut store, [mut a, mut b]) = pair(1500, 4);
        receive(&mut b, &mut store);
        let frames: Vec<FrameHandle> = (0..6)
            .map(|i| store.store(&[i; 60]).expect("a free slot"))
            .collect();
        let arena = store.shared_arena();
        assert_eq!(a.transmit(&arena, &frames).expect("open"), 4);
        assert_eq!(a.transmit(&arena, &frames[4..]).expect("open"), 0);
        let first = receive(&mut b, &mut store);
        assert_eq!(a.transmit(&arena, &frames[4..]).expect("open"), 2);
        let second = receive(&mut b, &mut store);
        let got: Vec<u8> = first
            .iter()
            .chain(&second)
            .map(|r| store.prefix(r.frame)[0])
            .collect();
        assert_eq!(got, [0, 1, 2, 3, 4, 5]);
        frames.iter().for_each(|frame| store.release(*frame));
        first.iter().chain(&second).for_each(|r| store.release(r.frame));
        // In either order: what the other end holds is back when that has closed.
        assert!(!b.close(&mut store));
        assert!(a.close(&mut store));
        assert!(b.close(&mut store));
        assert_eq!(store.in_use(), 0);
    }

    #[test]
    fn jumbo_frames_take_large_slots_and_too_long_ones_are_refused() {
        let (mut store, [mut a, mut b]) = pair(9100, 8);
        receive(&mut b, &mut store);
        let frames = [9122, 9123, 60].map(|len| store.allocate(len).expect("a free slot"));
        assert_eq!(a.transmit(&store.shared_arena(), &frames).expect("open"), 3);
        assert_eq!(a.drops().by_reason, [(DropReason::BackendRefused, 1)]);
        let got = receive(&mut b, &mut store);
        assert_eq!(got.iter().map(|r| r.frame_len).collect::<Vec<_>>(), [9122, 60]);
        frames.iter().for_each(|frame| store.release(*frame));
        got.iter().for_each(|r| store.release(r.frame));
        drop(a);
        assert!(!b.link_up());
        assert!(b.close(&mut store), "a dropped end gives back what it held");
        assert_eq!(store.in_use(), 0);
    }
}
