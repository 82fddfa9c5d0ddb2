//! In-memory links. An in-memory link consists of two ports, which exchange frames through rings of
//! slot handles.
//!
//! The receiver gives the sender empty frame slots of its own arena (a block of memory for frames), similar
//! to the receive buffers of a network card. The sender copies each frame into such a slot, and sends the
//! handle of this slot to the receiver.
//!
//! Slots therefore stay in the arena of their switch. A frame with shared bytes arrives as one complete
//! frame. If the receiver does not take its frames, the sender must wait, so no frame is lost.
//!
//! An in-memory link has no descriptor to poll. The sender wakes the receiving thread with a [`ThreadWaker`].

use std::io;
use std::sync::{Arc, OnceLock};

use rtrb::{Consumer, Producer, RingBuffer};
use xoff_dataplane::{DropReason, FrameHandle, Picos};
use xoff_wire::parse::parse;

use super::clock::monotonic_ns;
use super::drop_counts::DropCounts;
use super::{Arena, PortDrops, PortFrame, SlotClass, SlotSource, ThreadWaker, frame_len_max};

/// Number of small slots that one end posts for each large slot. If frames up to the MTU fit into small
/// slots, no large slots are posted.
const SMALL_PER_LARGE: usize = 4;

/// A slot on its way back to the end that posted the slot. The slot has a frame or is empty.
#[derive(Clone, Copy, Debug)]
struct ReturnedSlot {
    slot: FrameHandle,
    /// Times of the frame in the slot. `None` for an empty slot.
    times: Option<FrameTimes>,
}

/// Times of a sent frame.
#[derive(Clone, Copy, Debug)]
struct FrameTimes {
    /// Time of sending in nanoseconds of `CLOCK_MONOTONIC`.
    sent_ns: u64,
    /// Time of arrival in model time. `None` if the sender does not know this time.
    arrival: Option<Picos>,
}

/// Properties of one end of the link. The other end must know them before the first slot is posted.
#[derive(Debug, Default)]
struct LinkEndProperties {
    /// Arena of the slots of this end.
    arena: OnceLock<Arc<Arena>>,
    /// Waker of the thread that receives at this end.
    waker: OnceLock<ThreadWaker>,
}

/// One side of a ring with empty slots of one class.
#[derive(Debug)]
struct SlotRing<Side> {
    ring: Side,
    class: SlotClass,
    /// Largest number of slots that may be posted at once.
    slots_max: usize,
}

/// Rings for own empty slots that are posted to the other end. The first ring has small slots, the second
/// ring large slots.
type PostRings = [SlotRing<Producer<FrameHandle>>; 2];
/// Rings with empty slots that the other end has posted. The first ring has small slots, the second ring
/// large slots.
type BufferRings = [SlotRing<Consumer<FrameHandle>>; 2];

/// One end of an in-memory link.
#[derive(Debug)]
pub struct LinkPort {
    name: String,
    own: Arc<LinkEndProperties>,
    peer: Arc<LinkEndProperties>,
    to_peer: Producer<ReturnedSlot>,
    from_peer: Consumer<ReturnedSlot>,
    /// Slots of this end for frames of the peer.
    posts: PostRings,
    /// Slots of the peer for frames of this end.
    buffers: BufferRings,
    /// Number of own slots that the other end or a ring holds, by slot class.
    posted_slots: [usize; 2],
    frame_len_max: u32,
    is_closed: bool,
    drops: DropCounts,
}

impl LinkPort {
    /// Creates both ends of a link. The link holds up to `frames` frames in each direction.
    pub(super) fn create_pair(names: [&str; 2], mtu: u32, frames: usize) -> [LinkPort; 2] {
        let frame_len_max = frame_len_max(mtu);
        let large = match SlotClass::for_frame(frame_len_max as usize) {
            Some(SlotClass::Small) => 0,
            _ => frames.div_ceil(SMALL_PER_LARGE),
        };
        // The ring has a place for every posted slot, because all posted slots may return at once.
        let ((tx_a, rx_b), (tx_b, rx_a)) = (RingBuffer::new(frames + large), RingBuffer::new(frames + large));
        let ((posts_a, buffers_b), (posts_b, buffers_a)) =
            (slot_rings(frames, large), slot_rings(frames, large));
        let properties = [(); 2].map(|()| Arc::new(LinkEndProperties::default()));
        let end = |n: usize, to_peer, from_peer, posts, buffers| LinkPort {
            name: names[n].to_owned(),
            own: Arc::clone(&properties[n]),
            peer: Arc::clone(&properties[1 - n]),
            to_peer,
            from_peer,
            posts,
            buffers,
            posted_slots: [0; 2],
            frame_len_max,
            is_closed: false,
            drops: DropCounts::new(),
        };
        [
            end(0, tx_a, rx_a, posts_a, buffers_a),
            end(1, tx_b, rx_b, posts_b, buffers_b),
        ]
    }

    /// Sets the arena of this end. Only the first call has an effect.
    pub(super) fn attach(&mut self, arena: &Arc<Arena>) {
        let _ = self.own.arena.set(Arc::clone(arena));
    }

    /// Sets the waker of the thread that receives at this end. Only the first call has an effect.
    pub(super) fn set_waker(&mut self, waker: &ThreadWaker) {
        let _ = self.own.waker.set(waker.clone());
    }

    /// Returns whether frames or returned slots wait at this end.
    pub(super) fn has_waiting_frames(&self) -> bool {
        !self.from_peer.is_empty()
    }

    pub(super) fn receive(
        &mut self,
        slots: &mut impl SlotSource,
        max: usize,
        out: &mut Vec<PortFrame>,
    ) -> io::Result<usize> {
        let own = Arc::clone(&self.own);
        // An end without an arena has posted no slots, so no frames arrive.
        let Some(arena) = own.arena.get() else {
            return Ok(0);
        };
        debug_assert!(std::ptr::eq(slots.arena(), &**arena), "slots of another arena");
        let mut received = 0;
        while received < max {
            let Some(ReturnedSlot { slot, times }) = self.pop_returned(arena) else {
                break;
            };
            let Some(times) = times else {
                slots.return_slot(slot);
                continue;
            };
            let frame = arena.segments(slot).0;
            out.push(PortFrame {
                frame: slot,
                frame_len: frame.len() as u32,
                parsed: parse(frame),
                received_ns: times.sent_ns,
                arrival: times.arrival,
            });
            received += 1;
        }
        if !self.is_closed {
            self.post_slots(slots);
        }
        Ok(received)
    }

    /// Takes the next own slot that the other end has returned, with or without a frame.
    fn pop_returned(&mut self, arena: &Arena) -> Option<ReturnedSlot> {
        let returned = self.from_peer.pop().ok()?;
        self.posted_slots[arena.slot_class(returned.slot) as usize] -= 1;
        Some(returned)
    }

    /// Posts empty slots to the other end, up to the limit of each slot class.
    fn post_slots(&mut self, slots: &mut impl SlotSource) {
        for (posts, posted) in self.posts.iter_mut().zip(&mut self.posted_slots) {
            while *posted < posts.slots_max {
                let Some(slot) = slots.take_slot_of(posts.class) else {
                    break;
                };
                if posts.ring.push(slot).is_err() {
                    slots.return_slot(slot);
                    break;
                }
                *posted += 1;
            }
        }
    }

    pub(super) fn transmit(&mut self, arena: &Arena, frames: &[FrameHandle]) -> io::Result<usize> {
        Ok(self.transmit_with_arrivals(arena, frames, |_| None))
    }

    /// Sends frames from the front of `frames` and returns the number of finished frames. `arrival` returns
    /// the arrival time of the frame at an index of `frames`.
    pub(super) fn transmit_with_arrivals(
        &mut self,
        arena: &Arena,
        frames: &[FrameHandle],
        arrival: impl Fn(usize) -> Option<Picos>,
    ) -> usize {
        if self.is_closed {
            return 0;
        }
        let peer = Arc::clone(&self.peer);
        let Some(peer_arena) = peer.arena.get() else {
            return 0;
        };
        let taken = self.copy_to_peer_slots(arena, peer_arena, frames, arrival);
        if taken > 0
            && let Some(waker) = peer.waker.get()
        {
            waker.wake();
        }
        taken
    }

    /// Copies frames into the slots that the other end has posted, until no posted slot is left. Returns the
    /// number of finished frames. Frames above the limit of the MTU are dropped and counted.
    fn copy_to_peer_slots(
        &mut self,
        arena: &Arena,
        peer_arena: &Arena,
        frames: &[FrameHandle],
        arrival: impl Fn(usize) -> Option<Picos>,
    ) -> usize {
        let sent_ns = monotonic_ns();
        for (taken, frame) in frames.iter().enumerate() {
            let len = arena.frame_len(*frame);
            let Some(class) = SlotClass::for_frame(len).filter(|_| len <= self.frame_len_max as usize) else {
                self.drops.add(DropReason::BackendRefused);
                continue;
            };
            let Ok(slot) = self.buffers[class as usize].ring.pop() else {
                return taken;
            };
            // SAFETY: the caller holds the frame. This end holds the slot, which came from the ring empty and
            // unshared. The slot belongs to `peer_arena`, because the peer sets its arena before it posts the
            // first slot.
            unsafe { arena.copy_into_empty(*frame, peer_arena, slot) };
            let times = Some(FrameTimes {
                sent_ns,
                arrival: arrival(taken),
            });
            self.push_to_peer(ReturnedSlot { slot, times });
        }
        frames.len()
    }

    /// Sends a slot back to the other end, which has posted this slot.
    fn push_to_peer(&mut self, returned: ReturnedSlot) {
        let result = self.to_peer.push(returned);
        debug_assert!(result.is_ok(), "the ring has a place for every slot of the peer");
    }

    /// Sends all empty slots back to the other end, which has posted these slots.
    fn return_peer_slots(&mut self) {
        for class in 0..self.buffers.len() {
            while let Ok(slot) = self.buffers[class].ring.pop() {
                self.push_to_peer(ReturnedSlot { slot, times: None });
            }
        }
    }

    pub(super) fn close(&mut self, slots: &mut impl SlotSource) -> bool {
        self.is_closed = true;
        self.return_peer_slots();
        let own = Arc::clone(&self.own);
        if let Some(arena) = own.arena.get() {
            while let Some(returned) = self.pop_returned(arena) {
                slots.return_slot(returned.slot);
            }
        }
        self.posted_slots == [0; 2]
    }

    pub(super) fn is_link_up(&mut self) -> bool {
        !self.is_closed && !self.to_peer.is_abandoned()
    }

    pub(super) fn take_drops(&mut self) -> PortDrops {
        let mut drops = PortDrops::default();
        self.drops.take_counts(&mut drops);
        drops
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for LinkPort {
    fn drop(&mut self) {
        self.return_peer_slots();
    }
}

/// Creates the slot rings of one direction: one ring for small slots and one ring for large slots. Returns
/// the posting sides and the taking sides of both rings.
fn slot_rings(small_slots: usize, large_slots: usize) -> (PostRings, BufferRings) {
    let create_ring = |class, slots_max| {
        let (post, buffer) = RingBuffer::new(slots_max);
        (
            SlotRing {
                ring: post,
                class,
                slots_max,
            },
            SlotRing {
                ring: buffer,
                class,
                slots_max,
            },
        )
    };
    let (small_posts, small_buffers) = create_ring(SlotClass::Small, small_slots);
    let (large_posts, large_buffers) = create_ring(SlotClass::Large, large_slots);
    ([small_posts, large_posts], [small_buffers, large_buffers])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArenaStore;
    use xoff_dataplane::FrameStore;

    fn linked_ports(mtu: u32, frames: usize) -> (ArenaStore, [LinkPort; 2]) {
        let arena = Arena::new(64, 16).expect("a small arena");
        let mut links = LinkPort::create_pair(["a", "b"], mtu, frames);
        links.iter_mut().for_each(|link| link.attach(&arena));
        (ArenaStore::new(arena), links)
    }

    fn receive_frames(link: &mut LinkPort, store: &mut ArenaStore) -> Vec<PortFrame> {
        let mut out = Vec::new();
        link.receive(store, 64, &mut out)
            .expect("a link in memory does not fail");
        out
    }

    fn frame_bytes(store: &ArenaStore, frame: FrameHandle) -> Vec<u8> {
        let (own, rest) = store.arena().segments(frame);
        [own, rest].concat()
    }

    #[test]
    fn a_frame_with_shared_bytes_arrives_complete_and_the_sender_keeps_its_slot() {
        let (mut store, [mut a, mut b]) = linked_ports(1500, 4);
        let frame: Vec<u8> = (0..1000).map(|i| i as u8).collect();
        let original = store.store_frame(&frame).expect("a free slot");
        let copy = store.copy(original, 64).expect("a free slot");
        assert_eq!(
            a.transmit(&store.shared_arena(), &[copy]).expect("open"),
            0,
            "no slot is posted yet"
        );
        assert!(receive_frames(&mut b, &mut store).is_empty());
        assert_eq!(
            a.transmit(&store.shared_arena(), &[copy, original])
                .expect("open"),
            2
        );
        store.release(copy);
        store.release(original);
        let got = receive_frames(&mut b, &mut store);
        assert_eq!(got.len(), 2);
        for received in got {
            assert_eq!(frame_bytes(&store, received.frame), frame);
            assert_eq!(store.prefix(received.frame).len(), frame.len());
            store.release(received.frame);
        }
        assert!(a.close(&mut store), "only the peer posted slots");
        assert!(b.close(&mut store));
        assert_eq!(store.used_slots(), 0);
    }

    #[test]
    fn frames_keep_their_arrival_times_across_arenas_and_wake_the_receiver() {
        let mut stores = [(); 2].map(|()| ArenaStore::new(Arena::new(64, 16).expect("a small arena")));
        let [mut a, mut b] = LinkPort::create_pair(["a", "b"], 1500, 4);
        a.attach(&stores[0].shared_arena());
        b.attach(&stores[1].shared_arena());
        let waker = ThreadWaker::new().expect("an eventfd");
        b.set_waker(&waker);
        receive_frames(&mut b, &mut stores[1]);
        // The extra frame makes the slot numbers of the two ends differ.
        let other = stores[0].store_frame(&[1; 60]).expect("a free slot");
        let frame = stores[0].store_frame(&[7; 100]).expect("a free slot");
        waker.prepare_sleep();
        let taken =
            a.transmit_with_arrivals(&stores[0].shared_arena(), &[frame], |n| Some(Picos(5 + n as u64)));
        assert_eq!(taken, 1);
        assert!(b.has_waiting_frames());
        let mut polled = [nix::poll::PollFd::new(waker.fd(), nix::poll::PollFlags::POLLIN)];
        assert_eq!(
            nix::poll::poll(&mut polled, 0_u8),
            Ok(1),
            "the receiver was woken"
        );
        waker.finish_sleep(true);
        let got = receive_frames(&mut b, &mut stores[1]);
        assert_eq!(frame_bytes(&stores[1], got[0].frame), [7; 100]);
        assert_eq!(got[0].arrival, Some(Picos(5)));
        assert!(!b.has_waiting_frames());
        stores[1].release(got[0].frame);
        stores[0].release(frame);
        stores[0].release(other);
        assert!(a.close(&mut stores[0]));
        assert!(b.close(&mut stores[1]));
        assert_eq!([stores[0].used_slots(), stores[1].used_slots()], [0, 0]);
    }

    #[test]
    fn a_receiver_without_free_slots_stops_the_sender_and_no_frame_is_lost() {
        let (mut store, [mut a, mut b]) = linked_ports(1500, 4);
        receive_frames(&mut b, &mut store);
        let frames: Vec<FrameHandle> = (0..6)
            .map(|i| store.store_frame(&[i; 60]).expect("a free slot"))
            .collect();
        let arena = store.shared_arena();
        assert_eq!(a.transmit(&arena, &frames).expect("open"), 4);
        assert_eq!(a.transmit(&arena, &frames[4..]).expect("open"), 0);
        let first = receive_frames(&mut b, &mut store);
        assert_eq!(a.transmit(&arena, &frames[4..]).expect("open"), 2);
        let second = receive_frames(&mut b, &mut store);
        let got: Vec<u8> = first
            .iter()
            .chain(&second)
            .map(|r| store.prefix(r.frame)[0])
            .collect();
        assert_eq!(got, [0, 1, 2, 3, 4, 5]);
        frames.iter().for_each(|frame| store.release(*frame));
        first.iter().chain(&second).for_each(|r| store.release(r.frame));
        // The ends may close in any order. The slots that the other end holds return when that end closes.
        assert!(!b.close(&mut store));
        assert!(a.close(&mut store));
        assert!(b.close(&mut store));
        assert_eq!(store.used_slots(), 0);
    }

    #[test]
    fn jumbo_frames_use_large_slots_and_longer_frames_are_refused() {
        let (mut store, [mut a, mut b]) = linked_ports(9100, 8);
        receive_frames(&mut b, &mut store);
        let frames = [9122, 9123, 60].map(|len| store.allocate(len).expect("a free slot"));
        assert_eq!(a.transmit(&store.shared_arena(), &frames).expect("open"), 3);
        assert_eq!(a.take_drops().by_reason, [(DropReason::BackendRefused, 1)]);
        let got = receive_frames(&mut b, &mut store);
        assert_eq!(got.iter().map(|r| r.frame_len).collect::<Vec<_>>(), [9122, 60]);
        frames.iter().for_each(|frame| store.release(*frame));
        got.iter().for_each(|r| store.release(r.frame));
        drop(a);
        assert!(!b.is_link_up());
        assert!(b.close(&mut store), "a dropped end returns the slots of its peer");
        assert_eq!(store.used_slots(), 0);
    }
}
