use proptest::prelude::*;

use super::*;
use xoff_dataplane::FrameStore;

fn new_store(small_slots: usize, large_slots: usize) -> ArenaStore {
    ArenaStore::new(Arena::new(small_slots, large_slots).expect("a small arena"))
}

fn test_bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed))
        .collect()
}

fn frame_bytes(store: &ArenaStore, frame: FrameHandle) -> Vec<u8> {
    let (own, rest) = store.arena().segments(frame);
    [own, rest].concat()
}

#[test]
fn slots_do_not_overlap_and_large_slots_start_at_a_page() {
    let mut store = new_store(3, 2);
    let frames: Vec<FrameHandle> = (0..5)
        .map(|i| {
            let len = if i < 3 {
                SMALL_FRAME_BYTES
            } else {
                LARGE_FRAME_BYTES
            };
            store.store_frame(&test_bytes(len, i)).expect("a free slot")
        })
        .collect();
    assert_eq!(store.take_slot(1), None);
    for (i, frame) in frames.iter().enumerate() {
        assert_eq!(
            frame_bytes(&store, *frame),
            test_bytes(store.prefix(*frame).len(), i as u8)
        );
        let at = store.prefix(*frame).as_ptr() as usize - HEADROOM_BYTES;
        let alignment = if i < 3 {
            SMALL_SLOT_BYTES
        } else {
            mapping::PAGE_BYTES
        };
        assert_eq!(at % alignment, 0);
    }
    frames.into_iter().for_each(|frame| store.release(frame));
    assert_eq!(store.used_slots(), 0);
}

#[test]
fn a_long_frame_needs_a_large_slot_and_a_short_frame_may_use_one() {
    let mut store = new_store(1, 1);
    let large = store.take_slot(SMALL_FRAME_BYTES + 1).expect("the large slot");
    assert_eq!(store.arena().slot_class(large), SlotClass::Large);
    assert_eq!(store.take_slot(SMALL_FRAME_BYTES + 1), None);
    assert_eq!(store.take_slot(LARGE_FRAME_BYTES + 1), None);
    store.return_slot(large);
    let frames = [store.take_slot(60), store.take_slot(60)].map(|slot| slot.expect("small, then large"));
    assert_eq!(
        frames.map(|slot| store.arena().slot_class(slot)),
        [SlotClass::Small, SlotClass::Large]
    );
    assert_eq!(store.take_slot(60), None);
}

#[test]
fn edits_of_an_original_and_of_its_copy_are_independent() {
    let mut store = new_store(2, 0);
    let bytes = test_bytes(1000, 1);
    let original = store.store_frame(&bytes).expect("a free slot");
    let copy = store.copy(original, 64).expect("a free slot");
    store.prefix_mut(original).fill(0xaa);
    store.prefix_mut(copy).fill(0xbb);
    assert_eq!(store.prefix(original).len(), 64);
    assert_eq!(
        frame_bytes(&store, original),
        [&[0xaa; 64], &bytes[64..]].concat()
    );
    assert_eq!(frame_bytes(&store, copy), [&[0xbb; 64], &bytes[64..]].concat());
}

#[test]
fn shared_bytes_stay_until_the_last_copy_is_released() {
    let mut store = new_store(3, 0);
    let bytes = test_bytes(1500, 2);
    let original = store.store_frame(&bytes).expect("a free slot");
    let copy = store.copy(original, 64).expect("a free slot");
    store.release(original);
    assert_eq!(store.used_slots(), 2, "the original's slot lingers");
    let second = store.copy(copy, 10).expect("a free slot");
    store.release(copy);
    assert_eq!(frame_bytes(&store, second), bytes);
    assert_eq!(store.used_slots(), 2);
    store.release(second);
    assert_eq!(store.used_slots(), 0);
}

#[test]
fn a_frame_without_shared_bytes_is_one_segment() {
    let mut store = new_store(2, 0);
    let original = store.store_frame(&test_bytes(300, 3)).expect("a free slot");
    assert_eq!(store.arena().segments(original).1, &[] as &[u8]);
    let copy = store.copy(original, 64).expect("a free slot");
    assert_eq!(store.arena().segments(original).0.len(), 300);
    assert_eq!(store.arena().segments(copy).0.len(), 64);
    assert_eq!(store.arena().segments(copy).1.len(), 236);
    let mut gathered = [0; 2048];
    let gathered = store.arena().gather_into(copy, &mut gathered).expect("it fits");
    assert_eq!(gathered, test_bytes(300, 3));
    assert!(store.arena().gather_into(copy, &mut [0; 299]).is_none());
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "use after free")]
fn a_double_free_panics() {
    let mut store = new_store(2, 0);
    let frame = store.take_slot(60).expect("a free slot");
    store.release(frame);
    store.release(frame);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "use after free")]
fn a_use_after_free_panics() {
    let mut store = new_store(2, 0);
    let frame = store.take_slot(60).expect("a free slot");
    store.release(frame);
    store.prefix(frame);
}

#[test]
#[should_panic(expected = "taken once")]
fn a_second_store_for_the_same_arena_panics() {
    let arena = Arena::new(1, 0).expect("a small arena");
    let _first = ArenaStore::new(Arc::clone(&arena));
    ArenaStore::new(arena);
}

/// Tests the path of frames between threads. One I/O worker fills a slot of its cache. The switch worker
/// edits and copies the frame. A second I/O worker reads both frames and returns their slots. Miri checks
/// that the rings order all memory accesses.
#[test]
fn rings_order_all_accesses_of_frames_in_three_threads() {
    const FRAMES: u8 = if cfg!(miri) { 20 } else { 200 };
    let mut store = new_store(8, 0);
    let arena = store.shared_arena();
    let (mut to_input, mut empty) = rtrb::RingBuffer::<FrameHandle>::new(8);
    let (mut to_switch, mut filled) = rtrb::RingBuffer::<FrameHandle>::new(8);
    let (mut to_output, mut sent) = rtrb::RingBuffer::<FrameHandle>::new(8);
    let (mut back, mut returned) = rtrb::RingBuffer::<FrameHandle>::new(8);
    let input_arena = Arc::clone(&arena);
    let input = std::thread::spawn(move || {
        let mut cache = SlotCache::new(input_arena, 8, 0);
        for i in 0..FRAMES {
            let frame = loop {
                while let Ok(slot) = empty.pop() {
                    cache.return_slot(slot);
                }
                match cache.store_frame(&test_bytes(200, i)) {
                    Some(frame) => break frame,
                    None => std::thread::yield_now(),
                }
            };
            to_switch.push(frame).expect("the ring has a place for each slot");
        }
    });
    let output = std::thread::spawn(move || {
        for i in 0..2 * FRAMES as u16 {
            let frame = loop {
                match sent.pop() {
                    Ok(frame) => break frame,
                    Err(_) => std::thread::yield_now(),
                }
            };
            let (own, rest) = arena.segments(frame);
            let mut expected = test_bytes(200, (i / 2) as u8);
            expected[..14].fill(i as u8 % 2);
            assert_eq!([own, rest].concat(), expected);
            back.push(frame).expect("the ring has a place for each slot");
        }
    });
    let mut left = FRAMES;
    while left > 0 {
        while let Ok(frame) = returned.pop() {
            store.release(frame);
        }
        if store.free_slots().0 > 2 && !to_input.is_full() {
            let slot = store.take_slot(60).expect("two are free");
            to_input.push(slot).expect("not full");
        }
        let Ok(frame) = filled.pop() else {
            std::thread::yield_now();
            continue;
        };
        let copy = loop {
            match store.copy(frame, 14) {
                Some(copy) => break copy,
                None => match returned.pop() {
                    Ok(sent) => store.release(sent),
                    Err(_) => std::thread::yield_now(),
                },
            }
        };
        store.prefix_mut(frame)[..14].fill(0);
        store.prefix_mut(copy).fill(1);
        to_output.push(frame).expect("the ring has a place for each slot");
        to_output.push(copy).expect("the ring has a place for each slot");
        left -= 1;
    }
    input.join().expect("the input thread");
    output.join().expect("the output thread");
    while let Ok(frame) = returned.pop() {
        store.release(frame);
    }
}

/// A frame of the reference model, with its handle in the store.
struct ModelFrame {
    handle: FrameHandle,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
enum StoreOperation {
    Store(usize, u8),
    Allocate(usize),
    Copy(usize, usize),
    Edit(usize, usize, u8),
    Push(usize, usize),
    Pull(usize, usize),
    Truncate(usize, usize),
    Release(usize),
}

fn operation_lists() -> impl Strategy<Value = Vec<StoreOperation>> {
    let step = prop_oneof![
        (14usize..4000, any::<u8>()).prop_map(|(len, seed)| StoreOperation::Store(len, seed)),
        (0usize..2000).prop_map(StoreOperation::Allocate),
        (any::<usize>(), 0usize..300).prop_map(|(frame, len)| StoreOperation::Copy(frame, len)),
        (any::<usize>(), 0usize..300).prop_map(|(frame, len)| StoreOperation::Copy(frame, len)),
        (any::<usize>(), any::<usize>(), any::<u8>())
            .prop_map(|(f, at, byte)| StoreOperation::Edit(f, at, byte)),
        (any::<usize>(), 0usize..20).prop_map(|(frame, len)| StoreOperation::Push(frame, len)),
        (any::<usize>(), 0usize..400).prop_map(|(frame, len)| StoreOperation::Pull(frame, len)),
        (any::<usize>(), 0usize..2000).prop_map(|(frame, len)| StoreOperation::Truncate(frame, len)),
        any::<usize>().prop_map(StoreOperation::Release),
    ];
    prop::collection::vec(step, 0..if cfg!(miri) { 30 } else { 200 })
}

fn apply_operation(store: &mut ArenaStore, frames: &mut Vec<ModelFrame>, operation: StoreOperation) {
    let pick = |n: usize, frames: &Vec<ModelFrame>| (!frames.is_empty()).then(|| n % frames.len());
    match operation {
        StoreOperation::Store(len, seed) => {
            let bytes = test_bytes(len, seed);
            if let Some(handle) = store.store_frame(&bytes) {
                frames.push(ModelFrame { handle, bytes });
            }
        }
        StoreOperation::Allocate(len) => {
            if let Some(handle) = store.allocate(len) {
                let bytes = vec![0; len];
                frames.push(ModelFrame { handle, bytes });
            }
        }
        StoreOperation::Copy(n, prefix_len) => {
            let Some(n) = pick(n, frames) else { return };
            if let Some(handle) = store.copy(frames[n].handle, prefix_len) {
                let bytes = frames[n].bytes.clone();
                assert!(store.prefix(handle).len() >= prefix_len.min(bytes.len()));
                frames.push(ModelFrame { handle, bytes });
            }
        }
        StoreOperation::Edit(n, at, byte) => {
            let Some(n) = pick(n, frames) else { return };
            let prefix = store.prefix_mut(frames[n].handle);
            if !prefix.is_empty() {
                let at = at % prefix.len();
                prefix[at] = byte;
                frames[n].bytes[at] = byte;
            }
        }
        StoreOperation::Push(n, len) => {
            let Some(n) = pick(n, frames) else { return };
            let model = &mut frames[n];
            if store.arena().layout(model.handle).start as usize >= len {
                store.push_front(model.handle, len);
                model.bytes.splice(0..0, vec![0; len]);
            }
        }
        StoreOperation::Pull(n, len) => {
            let Some(n) = pick(n, frames) else { return };
            let len = len.min(frames[n].bytes.len());
            store.pull_front(frames[n].handle, len);
            frames[n].bytes.drain(..len);
        }
        StoreOperation::Truncate(n, len) => {
            let Some(n) = pick(n, frames) else { return };
            let len = len.min(frames[n].bytes.len());
            store.truncate(frames[n].handle, len);
            frames[n].bytes.truncate(len);
        }
        StoreOperation::Release(n) => {
            let Some(n) = pick(n, frames) else { return };
            store.release(frames.swap_remove(n).handle);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Applies random operations to an arena and to a model. The model stores each frame in its own vector.
    /// Both must have the same bytes after each operation. In the end, no slot is in use.
    #[test]
    fn the_store_equals_a_vector_for_each_frame(operations in operation_lists()) {
        let mut store = new_store(12, 4);
        let mut frames = Vec::new();
        for operation in operations {
            apply_operation(&mut store, &mut frames, operation);
            for model in &frames {
                prop_assert_eq!(&frame_bytes(&store, model.handle), &model.bytes);
                prop_assert_eq!(store.frame_len(model.handle) as usize, model.bytes.len());
                prop_assert!(model.bytes.starts_with(store.prefix(model.handle)));
            }
        }
        frames.drain(..).for_each(|model| store.release(model.handle));
        prop_assert_eq!(store.used_slots(), 0);
    }
}
