//! Tests of the frame store.

use super::*;
use crate::in_flight::{FramesInFlight, SliceSizes};

/// A frame keeps its bytes, its telemetry and its marks when it moves to another store.
#[test]
fn a_moved_frame_stays_the_same() {
    let (mut from, mut to) = (FabricStore::default(), FabricStore::default());
    let bytes: Vec<u8> = (0..=255).cycle().take(1_082).collect();
    for stored in [60, 1_082] {
        for has_telemetry in [false, true] {
            let frame = from.insert(&bytes[..stored], 1_082);
            if has_telemetry {
                let mut telemetry = Telemetry::default();
                telemetry.push(Default::default());
                from.set_telemetry(frame, telemetry);
            }
            from.set_damaged(frame);
            let moved = to.put_frame(from.take_frame(frame));
            assert_eq!((to.prefix(moved), to.frame_len(moved)), (&bytes[..stored], 1_082));
            assert_eq!(
                to.telemetry(moved).map(|t| t.hops().len()),
                has_telemetry.then_some(1)
            );
            assert!(to.is_damaged(moved));
            to.release(moved);
        }
    }
    assert_eq!((from.slots.items.len(), from.slots.free.len()), (1, 1));
    assert_eq!((from.telemetry.items.len(), from.telemetry.free.len()), (1, 1));
    let count = FramesInFlight::new(SliceSizes::default());
    assert_eq!(count.count([&from.changes, &to.changes].into_iter()), 0);
}

#[test]
fn a_stored_frame_has_headers_and_a_length() {
    let mut store = FabricStore::default();
    let frame = store.insert(&[7; 70], 1_098);
    assert_eq!((store.prefix(frame).len(), store.frame_len(frame)), (70, 1_098));
    store.push_front(frame, 4);
    store.prefix_mut(frame)[0] = 1;
    let copy = store.copy(frame, 16).unwrap();
    store.pull_front(frame, 4);
    assert_eq!((store.prefix(frame)[0], store.frame_len(frame)), (7, 1_098));
    assert_eq!((store.prefix(copy)[0], store.frame_len(copy)), (1, 1_102));
    store.release(frame);
    store.release(copy);
    let count = FramesInFlight::new(SliceSizes::default());
    let changes = || std::iter::once(&store.changes);
    assert_eq!((count.count(changes()), count.peak(changes())), (0, 2));
}

#[test]
fn a_frame_can_be_truncated_within_and_after_its_headers() {
    let mut store = FabricStore::default();
    for (stored, len, left) in [
        (70, 1_098, 128),
        (70, 1_098, 64),
        (200, 1_098, 128),
        (200, 1_098, 256),
    ] {
        let frame = store.insert(&vec![7; stored], len);
        let copy = store.copy(frame, 16).unwrap();
        store.truncate(copy, left);
        assert_eq!(
            (store.frame_len(copy), store.frame_len(frame)),
            (left as u32, len)
        );
        assert_eq!(store.prefix(copy), vec![7; stored.min(left)]);
        for frame in [frame, copy] {
            store.release(frame);
        }
    }
}

#[test]
fn long_frames_are_stored_completely_and_freed() {
    let mut store = FabricStore::default();
    let bytes: Vec<u8> = (0..=255).cycle().take(1_082).collect();
    let frame = store.insert(&bytes, 1_082);
    let mut telemetry = Telemetry::default();
    telemetry.push(Default::default());
    store.set_telemetry(frame, telemetry);
    store.push_front(frame, 4);
    let one_frame = store.memory_bytes();
    let copy = store.copy(frame, 16).unwrap();
    assert!(store.memory_bytes() >= one_frame + 1_086);
    store.release(frame);
    assert_eq!(store.prefix(copy)[4..], bytes);
    assert_eq!(store.telemetry(copy).map(|t| t.hops().len()), Some(1));
    store.pull_front(copy, 4);
    assert_eq!(store.frame_len(copy), 1_082);
    let before_release = store.memory_bytes();
    store.release(copy);
    assert!(store.memory_bytes() <= before_release - 1_082);
    let again = store.insert(&bytes[..40], 40);
    assert!(store.telemetry(again).is_none() && !store.is_damaged(again));
    assert_eq!(store.slots.items.len(), 2, "slots are used again");
}
